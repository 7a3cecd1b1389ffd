"""What the data zone held before each run.  Start from `DataShadow`.

Pages are compared with a copy as of when the last run began (arena/mirror.py); only those that
changed are kept, in the record of the run that changed them.  Of data beyond the copy's limit it is
known whether it was written (arena/marks.py), and what was there before is lost.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from mmap import PAGESIZE

from jitkernel.arena import Arena
from jitkernel.arena.marks import Marks, Range
from jitkernel.arena.mirror import Mirror, Taken
from jitkernel.rollback import note

__all__ = ["CHUNK", "DataShadow"]

CHUNK = PAGESIZE


class DataShadow:
    """What the data zone held at the last `changes`, up to `limit` bytes of it.

    `lost` is the live data beyond those that was written since somebody took that.
    """

    def __init__(self, arena: Arena, limit: int):
        self._arena, self.limit = arena, limit
        self._zone = arena.zones["data"]
        self._mirror = Mirror(arena, "data", limit)
        self._marks = Marks(arena, "data", limit)
        self._lost: list[Range] = []

    def changes(self) -> list[tuple[int, bytes]]:
        """`(address, old bytes)` of what changed since the last call; what is now is remembered.

        Of pages that differ, those where something is live; freed data is filled anew.
        """
        self._lost += self._marks.look()
        found = [seen for seen in self._mirror.look() if seen.was]
        if not found:
            return []
        holes = list(self._zone.list.holes())
        kept: list[tuple[int, bytes]] = []
        for address, was, now in found:
            one, other = bytearray(was), bytearray(now[: len(was)])
            at = bisect_right(holes, (address, 1 << 64)) - 1
            for start, stop in holes[max(at, 0) :]:
                low, high = max(start - address, 0), min(stop - address, len(was))
                if start >= address + len(was):
                    break
                if low < high:
                    one[low:high] = other[low:high] = bytes(high - low)
            if one != other:
                kept.append((address, was))
        return kept

    def lost(self) -> list[Range]:
        """What was written beyond the limit up to the last `changes`; told once."""
        note(self._lose, self._lost)
        lost, self._lost = self._lost, []
        return lost

    def _lose(self, ranges: list[Range]) -> None:
        """These were written, too: who took them has failed."""
        self._lost = [*ranges, *(r for r in self._lost if r not in ranges)]

    def forget(self) -> None:
        """Remember what is now, and report nothing."""
        self.changes()
        self.lost()

    def read(self, pages: Mapping[int, bytes]) -> list[tuple[int, bytes]]:
        """What is now where those bytes were."""
        return [(at, self._arena.read(at, len(old))) for at, old in pages.items()]

    def taken(self) -> Taken:
        """All that the data zone held at the last `changes`; it costs next to nothing."""
        return self._mirror.taken()

    def back(self, taken: Taken) -> None:
        """Write that again, where it differs and extents are live; to be called once more where it
        is interrupted."""
        self.restore(self._mirror.since(taken))

    def restore(self, pages: Iterable[tuple[int, bytes]]) -> int:
        """Write old bytes back where extents are live; the number of words that point into the
        upper address space, where the executor's heap, stack and libraries are."""
        heap = 0
        arena = self._arena
        live = sorted(self._zone.list.live.items())
        for address, old in pages:
            for start, size in live[max(bisect_right(live, (address, 1 << 64)) - 1, 0) :]:
                if start >= address + len(old):
                    break
                low, high = max(start, address), min(start + size, address + len(old))
                if low < high:
                    piece = old[low - address : high - address]
                    if arena.view[low - arena.base : high - arena.base] != piece:
                        arena.save(low, len(piece))
                        arena.write(low, piece)
                        heap += count_far_words(low, piece)
        return heap


def far_words(arena: Arena) -> int:
    """How many words of all live data look like pointers into the executor's own memory."""
    total = 0
    for start, size in arena.zones["data"].list.live.items():
        offset = start - arena.base
        total += count_far_words(start, arena.view[offset : offset + min(size, 1 << 20)])
    return total


def count_far_words(address: int, data: bytes | memoryview) -> int:
    """How many aligned words look like pointers beyond the arena, into the process itself."""
    skip = -address % 8
    usable = len(data) - skip
    if usable < 8:
        return 0
    words = memoryview(data)[skip : skip + usable // 8 * 8].cast("Q")
    return sum(1 for w in words if 0x5000_0000_0000 <= w < 0x8000_0000_0000)
