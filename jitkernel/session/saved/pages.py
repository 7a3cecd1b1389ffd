"""Which pages of constants and globals changed since they were last written.  Start from `Pages`.

A copy is kept in pieces of 64 KB, compared piece by piece; pages that were given back to the system
are not read, since reading would allocate them.  About 0.1 ms a megabyte.  What threads of the
program write meanwhile is there as of some moment of the copy.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

from jitkernel.arena import Arena

__all__ = ["PAGE", "Pages", "put_back"]

PAGE = 4096
_PIECE = 64 << 10
#: Code and unwind records are not here: they are in the rows of the cells they belong to.
ZONES = ("rodata", "data")

Piece = tuple[int, bytes]


class Pages:
    """The pages of an arena's constants and globals as they are in the file.

    `_known` maps the address of a piece to the address and bytes of what is known of it.
    """

    def __init__(self, arena: Arena):
        self._arena = arena
        self._known: dict[int, Piece] = {}

    def note(self, number: int, content: bytes) -> None:
        """Page `number` (its address / 4096) is in the file with this content."""
        at = number * PAGE
        zones = self._arena.zones.values()
        zone = next((z for z in zones if z.start <= at < z.stop), None)
        if zone is None:
            return
        index = at - (at - zone.start) % _PIECE
        start, known = self._known.get(index, (index, b""))
        offset = at - start
        data = bytearray(known.ljust(offset + PAGE, b"\0"))
        data[offset : offset + PAGE] = content.ljust(PAGE, b"\0")
        self._known[index] = (start, bytes(data))

    def changes(self) -> tuple[list[tuple[int, bytes]], list[int]]:
        """Pages to write, zeros at their ends left out, and numbers of pages to delete."""
        write: list[tuple[int, bytes]] = []
        gone: list[int] = []
        now = dict(self._pieces())
        for index in self._known.keys() - now.keys():
            now[index] = (index, b"")
        for index, piece in now.items():
            known = self._known.get(index, (piece[0], b""))
            if known == piece:
                continue
            first = min(piece[0], known[0])
            last = max(piece[0] + len(piece[1]), known[0] + len(known[1]))
            for at in range(first, last, PAGE):
                new, old = _page(piece, at), _page(known, at)
                if new == old:
                    continue
                if new:
                    write.append((at // PAGE, new))
                else:
                    gone.append(at // PAGE)
            if piece[1]:
                self._known[index] = piece
            else:
                del self._known[index]
        return write, gone

    def _pieces(self) -> Iterator[tuple[int, Piece]]:
        """What holds memory, in pieces that begin and end with pages that do."""
        arena = self._arena
        base, view = arena.base, arena.view
        for name in ZONES:
            zone = arena.zones[name]
            found: dict[int, tuple[int, int]] = {}
            for start, stop in _segments(arena, zone.start, zone.high):
                at = start
                while at < stop:
                    index = at - (at - zone.start) % _PIECE
                    end = min(index + _PIECE, stop)
                    low, _ = found.get(index, (at, at))
                    found[index] = (low, end)
                    at = end
            for index, (low, high) in found.items():
                yield index, (low, bytes(view[low - base : high - base]))


def _segments(arena: Arena, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Runs of pages in `[start, stop)` that hold memory."""
    at, end = start - arena.base, stop - arena.base
    end += -end % PAGE
    while at < end:
        try:
            data = os.lseek(arena.fd, at, os.SEEK_DATA)
        except OSError:  # nothing up to the end of the slab
            return
        if data >= end:
            return
        at = min(os.lseek(arena.fd, data, os.SEEK_HOLE), end)
        yield arena.base + data, arena.base + at


def _page(piece: Piece, at: int) -> bytes:
    """One page's bytes without the zeros at its end."""
    offset = at - piece[0]
    return piece[1][offset : offset + PAGE].rstrip(b"\0") if offset >= 0 else b""


def put_back(arena: Arena, pages: Iterable[tuple[int, bytes]], ends: Mapping[str, int]) -> None:
    """Write pages into a slab that has never been used, up to where each zone's extents end."""
    zones = [(arena.zones[name].start, ends.get(name, 0)) for name in ZONES]
    for number, content in pages:
        at = number * PAGE
        for start, stop in zones:
            if start <= at < stop:
                arena.write(at, content[: stop - at])
