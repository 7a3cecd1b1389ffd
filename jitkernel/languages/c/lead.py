"""The beginning of a text up to the user's own headers that it includes, to be precompiled.

It is the same from cell to cell as long as nobody includes another header.  Headers of one's own
change: their content is part of what names the precompiled one.  Start from `lead_of`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import chain

from jitkernel.languages.c.included import INCLUDE, LARGEST, files_of
from jitkernel.recent import Recent
from jitkernel.record import NamedTuple
from jitkernel.regex import regex

_LINES = regex(r"(?:[ \t]*(?:#(?:[^\n\\/]|\\.|/(?![/*]))*)?\n)*")  # blank ones and directives
_PLACE = regex(r'^[ \t]*# (\d+) ("[^"\n]*")[ \t]*\n', re.MULTILINE)
_IF, _ENDIF = (regex(rf"^[ \t]*#[ \t]*{word}", re.MULTILINE) for word in ("if", "endif"))
#: What clang does not keep in a precompiled header as it is in a text, or for one text only.
_APART = regex(
    r"\b(?:diagnostic|_Pragma|embed|__has_\w+|__COUNTER__|__TIME__|__DATE__|__TIMESTAMP__)\b|"
    r"#[ \t]*pragma\b(?![ \t]+once\b)"
)
#: Beginnings that there were once: the next time is worth a while.
_seen: Recent[bytes, None] = Recent(64)


class Lead(NamedTuple):
    """The beginning of a text, which says what is in the user's `files` that it includes, and the
    rest."""

    text: str
    rest: str
    files: Sequence[str]


def lead_of(source: str, folders: Sequence[str]) -> Lead | None:
    """The beginning of a text that is to be precompiled; None where it includes no headers of the
    user's own, or does for the first time, or where a precompiled one would not be the same."""
    lines = _LINES.match(source)
    lead = lines[0] if lines is not None else ""
    found: dict[str, str] = {}
    end = 0
    for match in INCLUDE.finditer(lead):
        if there := dict(files_of(match[0], folders)):
            found |= there
            end = lead.index("\n", match.end()) + 1
    lead = lead[:end]
    if not end or any(len(text) > LARGEST for text in found.values()):
        return None
    if len(_IF.findall(lead)) != len(_ENDIF.findall(lead)):
        return None
    if any(map(_is_apart, (lead, *found.values()))):
        return None
    every = "\0".join((lead, *chain(*found.items())))
    digest = sha256(every.encode("utf-8", "surrogateescape"))
    if digest.digest() not in _seen:
        _seen[digest.digest()] = None
        return None
    text, rest = f"{lead}// {digest.hexdigest()}\n", f"{_place(lead)}{source[end:]}"
    return Lead(text, rest, [*found])


@lru_cache(maxsize=256)
def _is_apart(text: str) -> bool:
    return bool(_APART.search(text))


def _place(lead: str) -> str:
    """The line marker of what follows a text, "" where that has none."""
    marks = [*_PLACE.finditer(lead)]
    if not marks:
        return ""
    line = int(marks[-1][1]) + lead.count("\n", marks[-1].end())
    return f"# {line} {marks[-1][2]}\n"
