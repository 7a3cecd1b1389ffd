"""How a diff looks, in text and in HTML.  Start from `difference_html`.

`+` and `-` say it all; colours only repeat it, in pairs that are readable on any page.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import groupby

from jitkernel.views.view import WIDTH, escape, preformatted, prose

__all__ = ["clip", "details", "difference_html", "fold"]

# A tint of the page itself, whose ink stays: over 9:1 on a white page and on a black one.
_TINTS = {"+": "rgba(46,160,67,0.25)", "-": "rgba(218,54,51,0.25)"}


def clip(lines: Sequence[str], limit: int, more: str) -> list[str]:
    """At most `limit` lines, and how many are left out; `more` says how to see them."""
    if len(lines) <= limit:
        return list(lines)
    return [*lines[:limit], f"… {len(lines) - limit} more lines{more}"]


def fold(lines: Sequence[str], indent: int = 8) -> str:
    """The lines as plain text, long ones continued below themselves."""
    out: list[str] = []
    for line in lines:
        if len(line) <= WIDTH:
            out.append(line)
            continue
        words = line.lstrip()
        blank = " " * (len(line) - len(words))
        out += textwrap.wrap(
            words, WIDTH, initial_indent=blank, subsequent_indent=" " * max(indent, len(blank) + 4),
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
    return "\n".join(out)


def difference_html(lines: Sequence[str]) -> str:
    """A diff's lines, preformatted."""
    out = []
    for mark, group in groupby(lines, lambda line: line[:1]):
        text = "".join(f"{escape(line, quote=False)}\n" for line in group)
        out.append(tinted(text, _TINTS[mark]) if mark in _TINTS else text)
    return preformatted("".join(out).removesuffix("\n"))


def tinted(html: str, tint: str) -> str:
    """Whole lines, with their ends, on a tint.  As a block: the background of a line within a line
    covers what hangs below the line above it, such as underscores."""
    return f'<span style="display:block;color:inherit;background:{tint}">{html}</span>'


def details(summary: str, body: str, open_: bool = False) -> str:
    """A part that can be folded; where a site drops that, it is simply there."""
    return f"<details{' open' if open_ else ''}><summary>{prose(summary)}</summary>{body}</details>"
