"""The text of a cell, parts of which were replaced; every line stays in its place.  Start from
`Code`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate

from jitkernel.record import NamedTuple, record


class Part(NamedTuple):
    """The lines for what stands from one offset of a text to another: as many as stand there."""

    start: int
    stop: int
    lines: Sequence[str]


class _Change(NamedTuple):
    """The place of another text, its length, and that of what stood there."""

    start: int
    new: int
    old: int


@record(slots=False)
class Code:
    """A text that is made of the one `before`, None for what was written; `changes` are from left
    to right, each within a line."""

    text: str
    before: Code | None = None
    changes: Sequence[_Change] = ()

    @property
    def source(self) -> str:
        """The text as it was written."""
        return self.text if self.before is None else self.before.source

    @cached_property
    def _lines(self) -> list[str]:
        return self.text.split("\n")

    @cached_property
    def starts(self) -> list[int]:
        """The offsets at which its lines begin."""
        return [0, *accumulate(len(line) + 1 for line in self._lines[:-1])]

    def line(self, number: int) -> str:
        """A line of it, from 1; "" where there is none."""
        return self._lines[number - 1] if 0 < number <= len(self._lines) else ""

    def origin(self, place: int) -> int:
        """The offset in the source of one in the text: where it stands, or where what made it
        begins."""
        moved = 0
        for start, new, old in self.changes:
            if place < start + new:
                place = min(place, start)
                break
            moved += old - new
        return place + moved if self.before is None else self.before.origin(place + moved)

    def column(self, line: int, column: int) -> int:
        """The column of a line of the source for one of the text."""
        first = self.starts[line - 1]
        return self.origin(first + column - 1) - self.origin(first) + 1

    def replaced(self, parts: Iterable[Part]) -> Code:
        """The code with other lines in some places; what stands behind those of several keeps its
        column where there is room."""
        out: list[str] = []
        changes: list[_Change] = []
        at = size = 0
        for start, stop, lines in parts:
            out.append(self.text[at:start])
            size += start - at
            old = self.text[start:stop].split("\n")
            new = [*lines[:-1], lines[-1].ljust(len(old[-1]) if len(old) > 1 else 0)]
            for was, now in zip(old, new, strict=True):
                changes.append(_Change(size, len(now), len(was)))
                size += len(now) + 1
            size -= 1
            out.append("\n".join(new))
            at = stop
        return Code("".join((*out, self.text[at:])), self, changes)
