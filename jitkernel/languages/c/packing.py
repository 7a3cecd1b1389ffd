"""How structs are packed: what `#pragma pack` says at each place of a notebook.

The pragma holds from where it stands to the next one, in its cell and in those below it: so a
cell's place is that in the notebook, however often it was run.  Start from `Packing`.
Clang's manual, "Microsoft extensions"; GCC manual, "Structure-Layout Pragmas".
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from jitkernel.languages.c.notes import Note
from jitkernel.regex import regex

_PACK = regex(r"#\s*pragma\s+pack\s*\(([^)]*)\)")
Place = tuple[int, int]


def is_pack(directive: str) -> bool:
    """True if a directive is one that packs."""
    return _PACK.match(directive) is not None


class Packing:
    """The pragmas among some notes."""

    def __init__(self, notes: Iterable[Note]):
        found = (n for n in notes if n.kind == "pragma" and is_pack(n.text))
        pragmas = sorted(found, key=lambda note: note.position)
        self._places = [note.position for note in pragmas]
        self._texts = [note.text for note in pragmas]
        self._after = [0]  # bytes, by the number of pragmas so far
        stack: list[tuple[str, int]] = []
        now = 0
        for text in self._texts:
            now = _packed(text, now, stack)
            self._after.append(now)

    def __bool__(self) -> bool:
        return bool(self._places)

    def at(self, place: Place) -> int:
        """The largest alignment of members there, in bytes; 0 where nothing is said."""
        return self._after[bisect_left(self._places, place)]

    def before(self, place: Place) -> list[str]:
        """The pragmas that stand above a place, in order."""
        return self._texts[: bisect_left(self._places, place)]


def _packed(pragma: str, now: int, stack: list[tuple[str, int]]) -> int:
    """The packing behind a pragma where `now` did before it; `stack` is what was pushed, each with
    its name, "" without."""
    match = _PACK.match(pragma)
    words = [word.strip() for word in match[1].split(",")] if match is not None else []
    names = [word for word in words[1:] if word.isidentifier()]
    numbers = [int(word) for word in words if word.isdecimal()]
    if words[0] == "push":
        stack.append((names[0] if names else "", now))
    elif words[0] == "pop" and stack:
        labels = [label for label, _ in stack]
        if not names:
            now = stack.pop()[1]
        elif names[0] in labels:
            at = len(labels) - 1 - labels[::-1].index(names[0])
            now = stack[at][1]
            del stack[at:]
    if numbers:
        return numbers[0]
    return 0 if words == [""] else now
