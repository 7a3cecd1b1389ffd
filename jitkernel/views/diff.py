"""What changed between two texts, line by line: `+`, `-`, and a little around; and how it looks.

Patience diff: lines that occur once in both texts are matched first (their longest common
subsequence), and what lies between them is compared the same way, the small rest with difflib.
That keeps blocks together, and thousands of lines take milliseconds.  `+` and `-` say it all;
colours only repeat it, in pairs that are readable on any page.  Start from `diff`.
"""

from __future__ import annotations

import textwrap
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby

from jitkernel.views.view import WIDTH, escape, preformatted, prose

__all__ = ["clip", "counts", "details", "diff", "difference_html", "fold"]

_SMALL = 200  # lines that difflib compares directly
# A tint of the page itself, whose ink stays: over 9:1 on a white page and on a black one.
_TINTS = {"+": "rgba(46,160,67,0.25)", "-": "rgba(218,54,51,0.25)"}


def diff(old: str, new: str, around: int = 2) -> list[str]:
    """Lines marked `+`, `-` or blank; `@@ line 12` heads each part of the new text."""
    a, b = old.splitlines(), new.splitlines()
    rows: list[tuple[str, str, int]] = []  # mark, text, line of the new text
    i = j = 0
    for x, y in [*_matches(a, b, 0, len(a), 0, len(b)), (len(a), len(b))]:
        rows += [("-", line, j + 1) for line in a[i:x]]
        rows += [("+", line, n + 1) for n, line in enumerate(b[j:y], j)]
        if x < len(a):
            rows.append((" ", a[x], y + 1))
        i, j = x + 1, y + 1
    near = [False] * len(rows)
    for index, (mark, _, _) in enumerate(rows):
        if mark != " ":
            for n in range(max(0, index - around), min(len(rows), index + around + 1)):
                near[n] = True
    lines: list[str] = []
    before = False
    for keep, (mark, text, line) in zip(near, rows, strict=True):
        if keep and not before:
            lines.append(f"@@ line {line}")
        if keep:
            lines.append(f"{mark} {text}".rstrip())
        before = keep
    return lines


def counts(lines: Sequence[str]) -> tuple[int, int]:
    """How many lines a diff takes away and how many it adds."""
    return (
        sum(line.startswith("-") for line in lines),
        sum(line.startswith("+") for line in lines),
    )


def _matches(
    a: Sequence[str], b: Sequence[str], a0: int, a1: int, b0: int, b1: int
) -> Iterator[tuple[int, int]]:
    """Pairs of equal lines, both sides rising, in the given ranges."""
    while a0 < a1 and b0 < b1 and a[a0] == b[b0]:
        yield a0, b0
        a0, b0 = a0 + 1, b0 + 1
    tail = []
    while a0 < a1 and b0 < b1 and a[a1 - 1] == b[b1 - 1]:
        a1, b1 = a1 - 1, b1 - 1
        tail.append((a1, b1))
    if a0 < a1 and b0 < b1:
        anchors = _anchors(a, b, a0, a1, b0, b1)
        if anchors:
            i, j = a0, b0
            for x, y in [*anchors, (a1, b1)]:
                yield from _matches(a, b, i, x, j, y)
                if x < a1:
                    yield x, y
                i, j = x + 1, y + 1
        elif max(a1 - a0, b1 - b0) <= _SMALL:
            matcher = SequenceMatcher(None, a[a0:a1], b[b0:b1], autojunk=False)
            for block in matcher.get_matching_blocks():
                for n in range(block.size):
                    yield a0 + block.a + n, b0 + block.b + n
    yield from reversed(tail)


def _anchors(
    a: Sequence[str], b: Sequence[str], a0: int, a1: int, b0: int, b1: int
) -> list[tuple[int, int]]:
    """Lines that occur once on each side, the longest rising sequence of them."""
    count_a, count_b = Counter(a[a0:a1]), Counter(b[b0:b1])
    where = {b[j]: j for j in range(b0, b1) if count_b[b[j]] == 1}
    pairs = [(i, where[a[i]]) for i in range(a0, a1) if count_a[a[i]] == 1 and a[i] in where]
    # Longest increasing subsequence of the second members (patience sorting).
    tops: list[int] = []
    last: list[int] = []
    back: list[int] = []
    for index, (_, j) in enumerate(pairs):
        pile = bisect_left(tops, j)
        tops[pile : pile + 1] = [j]
        last[pile : pile + 1] = [index]
        back.append(last[pile - 1] if pile else -1)
    chain: list[tuple[int, int]] = []
    index = last[-1] if last else -1
    while index >= 0:
        chain.append(pairs[index])
        index = back[index]
    return chain[::-1]


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
