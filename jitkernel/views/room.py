"""The room that a display has: a notebook keeps each byte of it, and a browser lays all of it out.
What there is no room for is counted, with the command that shows it.  Start from `Room`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from html import escape

from jitkernel.wording import counted

LARGEST = 400_000  # bytes of a form that a view has at most
_SIZE = 300_000  # of its lines: the others are for titles and small tables
_LINE = 20_000  # letters


class Room:
    """Bytes of HTML, and lines, that a view has left.  Whatever prints lines takes from it.

    `more` is the command that shows all, "" where there is none; with `everything` there is no end
    of room.  It is `full` from when something was left out.
    """

    def __init__(
        self, more: str = "", everything: bool = False, size: int = _SIZE, lines: int = sys.maxsize
    ):
        self.more, self.full, self.endless = more, False, everything
        self._bytes, self._lines = (sys.maxsize, sys.maxsize) if everything else (size, lines)

    def take(self, sizes: Iterable[int]) -> int:
        """Take room for pieces of these sizes in bytes, one after the other; returns how many had
        some."""
        taken = 0
        for size in sizes:
            self.full |= size > self._bytes or not self._lines
            if self.full:
                break
            self._bytes, self._lines, taken = self._bytes - size, self._lines - 1, taken + 1
        return taken

    def within(self, size: int) -> Room:
        """This room, of at most so many bytes from now on."""
        if not self.endless:
            self._bytes = min(self._bytes, size)
        return self

    def lines(self, lines: Sequence[str]) -> list[str]:
        """The first lines; where that is not all, the last one says so."""
        shown = lines if self.endless else [*map(self._shortened, lines)]
        count = self.take(size_of(escape(line)) for line in shown)
        return [*shown[:count], *self.said(len(lines) - count)]

    def _shortened(self, line: str) -> str:
        return line[:_LINE] + "".join(self.said(max(len(line) - _LINE, 0), "letter"))

    def said(self, left: int, what: str = "line") -> list[str]:
        """The line that says how many were left out; none where none were."""
        shows = f"; {self.more} shows all" if self.more else ""
        return [f"… {counted(left, f'more {what}', ',')}{shows}"] if left else []


def size_of(html: str) -> int:
    """Bytes of a line."""
    return 1 + (len(html) if html.isascii() else len(html.encode(errors="replace")))
