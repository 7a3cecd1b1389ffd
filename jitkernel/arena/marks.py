"""Which live data of a zone was written since somebody last looked, where no copy of it is kept.

Start from `Marks`.  Beside `Mirror`, which has the bytes, this has a hash of each 64 KB; pages that
hold no memory read as zero and are not read: that would allocate them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache

from jitkernel.arena.arena import PAGE, Arena

__all__ = ["Marks", "Range"]

#: `(start, stop)`
Range = tuple[int, int]
#: Where an extent begins and ends, and where a part of it does.
_Key = tuple[int, int, int]

_PIECE = 16 * PAGE


class Marks:
    """Hashes of what is live in a zone beyond its first `skip` bytes, as of the last `look`.

    An extent that came meanwhile, or left, was not written: who brought or freed it knows of it.
    """

    def __init__(self, arena: Arena, zone: str, skip: int):
        self._arena, self._zone = arena, arena.zones[zone]
        self._first = self._zone.start + skip
        self._live: set[tuple[int, int]] = set()  # the extents at the last look
        self._known: dict[_Key, int] = {}

    def look(self) -> list[Range]:
        """What was written since the last look, in order; what is now is remembered."""
        high = self._zone.high
        if self._arena.fd < 0 or (high <= self._first and not self._live):
            return []
        live = {(s, s + n) for s, n in self._zone.list.live.items() if s + n > self._first}
        known, self._known = self._known, dict(self._hashes(sorted(live), high))
        lasting, self._live = live & self._live, live
        parts = known.keys() | self._known.keys()
        return _joined(
            sorted(
                (at, min(at + _PIECE, stop))
                for start, stop, at in parts
                if (start, stop) in lasting
                and known.get((start, stop, at), 0) != self._known.get((start, stop, at), 0)
            )
        )

    def _hashes(self, live: list[Range], high: int) -> Iterator[tuple[_Key, int]]:
        """By part of an extent: the hash of what it holds; none where that is all zero."""
        segments, at = list(self._segments(self._first, high)), 0
        for start, stop in live:
            begin = max(start, self._first)
            while at < len(segments) and segments[at][1] <= begin:
                at += 1
            held: dict[int, list[Range]] = {}  # by part
            for index in range(at, len(segments)):
                if segments[index][0] >= stop:
                    break
                low, end = max(segments[index][0], begin), min(segments[index][1], stop)
                while low < end:
                    part = low - (low - begin) % _PIECE
                    until = min(part + _PIECE, end)
                    held.setdefault(part, []).append((low, until))
                    low = until
            for part, runs in held.items():
                if found := self._hash(part, min(part + _PIECE, stop), runs):
                    yield (start, stop, part), found

    def _hash(self, start: int, stop: int, runs: list[Range]) -> int:
        """The hash of a part of which only `runs` hold memory; 0 where all is zero."""
        base, view = self._arena.base, self._arena.view
        if runs == [(start, stop)]:
            found = hash(view[start - base : stop - base].toreadonly())
        else:
            whole = bytearray(stop - start)
            for low, high in runs:
                whole[low - start : high - start] = view[low - base : high - base]
            found = hash(bytes(whole))
        return 0 if found == _of_zeros(stop - start) else found

    def _segments(self, start: int, stop: int) -> Iterator[Range]:
        """Runs of pages that hold memory, the last one up to `stop`."""
        arena = self._arena
        at, end = start - arena.base, stop - arena.base
        while at < end:
            try:
                data = os.lseek(arena.fd, at, os.SEEK_DATA)
            except OSError:  # nothing up to the end of the slab
                return
            if data >= end:
                return
            at = min(os.lseek(arena.fd, data, os.SEEK_HOLE), end)
            yield arena.base + data, arena.base + at


@lru_cache(maxsize=64)
def _of_zeros(size: int) -> int:
    return hash(bytes(size))


def _joined(ranges: list[Range]) -> list[Range]:
    """Ordered ranges, those that touch as one."""
    found: list[Range] = []
    for start, stop in ranges:
        if found and found[-1][1] == start:
            found[-1] = found[-1][0], stop
        else:
            found.append((start, stop))
    return found
