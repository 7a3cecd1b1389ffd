"""Which bytes of a range are taken: best fit, neighbours coalesced.  Start from `FreeList`.

Pure bookkeeping: it never touches memory.  Two dictionaries, start to stop and stop to start, make
coalescing constant time and the invariant visible; a third one, size to starts, with the sorted
list of sizes beside it, makes best fit a bisection.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from jitkernel.record import NamedTuple
from jitkernel.rollback import log_undo

#: How many holes are tried for an aligned request before a larger one is cut.
_TRIES = 32


class Extent(NamedTuple):
    """A half-open range `[start, start + size)` of a zone; `size` is what was asked for, in bytes.

    What the range occupies is `size` rounded up to the zone's granule.
    """

    zone: str
    start: int
    size: int

    @property
    def stop(self) -> int:
        """One past the last byte asked for."""
        return self.start + self.size


class FreeList:
    """Free and live ranges of `[start, stop)`, both multiples of `granule`.

    Invariant: free ranges are disjoint, never adjacent, and cover exactly what no live range does.
    """

    def __init__(self, start: int, stop: int, granule: int = 16):
        if granule <= 0 or granule & (granule - 1):
            raise ValueError(f"granule {granule} is not a power of two")
        if start % granule or stop % granule or stop <= start:
            raise ValueError(f"[{start:#x}, {stop:#x}) is not a range of {granule}-byte granules")
        self.start, self.stop, self.granule = start, stop, granule
        self.live: dict[int, int] = {}
        self.used = 0
        self.padding = 0
        self.kept: dict[int, int] | None = None  # filled by undone `take`s whose ranges stay live
        self._torn = False  # a change was interrupted: only `live` can be relied on
        self._stop_of: dict[int, int] = {}
        self._start_of: dict[int, int] = {}
        self._starts: dict[int, dict[int, None]] = {}
        self._sizes: list[int] = []
        self._add(start, stop)

    @property
    def free_bytes(self) -> int:
        """Bytes in free ranges."""
        return self.stop - self.start - self.used - self.padding

    @property
    def largest(self) -> int:
        """Bytes of the largest free range; 0 when all is taken."""
        return self._sizes[-1] if self._sizes else 0

    def room(self, size: int) -> int:
        """The bytes that a range of `size` occupies: whole granules, at least one."""
        return (size + self.granule - 1) & -self.granule or self.granule

    def holes(self) -> Iterator[tuple[int, int]]:
        """Free ranges `(start, stop)` in address order."""
        return iter(sorted(self._stop_of.items()))

    def hole_at(self, start: int) -> int | None:
        """The end of the free range that starts at `start`; None where none starts there."""
        return self._stop_of.get(start)

    def take(self, size: int, align: int = 1) -> int | None:
        """Take `size` bytes aligned to `align`; the start, or None when no free range fits."""
        granule, sizes = self.granule, self._sizes
        need = (size + granule - 1) & -granule or granule  # `room`: most of what is placed asks
        if align > granule:
            found = self._aligned(need, align)
            if found is None:
                return None
            hole, at = found
        else:
            index = bisect_left(sizes, need)
            if index == len(sizes):
                return None
            hole = at = next(reversed(self._starts[sizes[index]]))
        log_undo(self._untake, at)
        self._cut(hole, self._stop_of[hole], at, size, need)
        return at

    def take_at(self, at: int, size: int) -> bool:
        """Take `size` bytes at exactly `at`; False when any of them is not free.

        Linear in the number of holes: for restoring, not for the hot path.
        """
        need = self.room(size)
        for hole, stop in self._stop_of.items():
            if hole <= at and at + need <= stop:
                log_undo(self._untake, at)
                self._cut(hole, stop, at, size, need)
                return True
        return False

    def _cut(self, hole: int, stop: int, at: int, size: int, need: int) -> None:
        """Make `need` bytes at `at` of the free range `[hole, stop)` live, `size` of them used."""
        self._torn = True
        self._remove(hole, stop)
        if at != hole:
            self._add(hole, at)
        if at + need != stop:
            self._add(at + need, stop)
        self.live[at] = size
        self.used += size
        self.padding += need - size
        self._torn = False

    def take_all(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Take many ranges `(start, size)` at once, in time linear in what is live.

        Raises ValueError, with nothing taken, where one is not free or not in this list.
        """
        taken = dict(ranges)
        holes = self._holes([*self.live.items(), *taken.items()])
        for start in taken:
            log_undo(self._untake, start)
        self._torn = True
        self.live.update(taken)
        self._tile(holes)

    def free(self, at: int) -> tuple[int, int]:
        """Give back the live range at `at`; the free range `(start, stop)` it became part of.

        Raises KeyError when nothing live starts there.
        """
        size = self.live[at]
        need = (size + self.granule - 1) & -self.granule or self.granule
        start, stop = at, at + need
        before, after = self._start_of.get(start), self._stop_of.get(stop)
        log_undo(self._ungive, at, size, start if before is None else before, after or stop)
        self._torn = True
        del self.live[at]
        self.used -= size
        self.padding -= need - size
        if before is not None:
            self._remove(before, start)
            start = before
        if after is not None:
            self._remove(stop, after)
            stop = after
        self._add(start, stop)
        self._torn = False
        return start, stop

    def rebuild(self) -> None:
        """Derive everything else from `live`, in linear time."""
        self._tile(self._holes(self.live.items()))

    def _holes(self, live: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """The ranges that `live` leaves free, in order; raises ValueError where its ranges meet or
        lie elsewhere."""
        granule, at = self.granule, self.start
        holes: list[tuple[int, int]] = []
        for start, size in sorted(live):
            if start < at or start % granule or size < 0:
                raise ValueError(f"{size} bytes at {start:#x} are not free")
            if start > at:
                holes.append((at, start))
            at = start + self.room(size)
        if at > self.stop:
            raise ValueError(f"{at:#x} lies behind {self.stop:#x}")
        if at < self.stop:
            holes.append((at, self.stop))
        return holes

    def _tile(self, holes: Iterable[tuple[int, int]]) -> None:
        """Set the free ranges, and count what is live."""
        self.used = sum(self.live.values())
        self.padding = sum(map(self.room, self.live.values())) - self.used
        self._stop_of.clear()
        self._start_of.clear()
        self._starts.clear()
        self._sizes.clear()
        for start, stop in holes:
            self._add(start, stop)
        self._torn = False

    def _untake(self, at: int) -> FreeList | None:
        """Undo `take`; where this list is returned, `rebuild` has to follow."""
        if self.kept is not None and not self._torn and at in self.live:
            self.kept[at] = self.live[at]
            return None
        if not self._torn and at in self.live:
            self.free(at)
            return None
        self.live.pop(at, None)
        return self if self._torn else None

    def _ungive(self, at: int, size: int, start: int, stop: int) -> FreeList | None:
        """Undo `give`, which made the free range `[start, stop)`."""
        if not self._torn and at in self.live:
            return None  # it had not begun
        if self._torn or self._stop_of.get(start) != stop:
            self._torn = True
            self.live[at] = size
            return self
        self._cut(start, stop, at, size, self.room(size))
        return None

    def check(self) -> None:
        """Raise AssertionError unless everything else is what follows from `live`."""
        made = FreeList(self.start, self.stop, self.granule)
        made.live = self.live
        try:
            made.rebuild()
        except ValueError as error:
            raise AssertionError(f"live ranges meet: {error}") from None
        for name in ("used", "padding", "_stop_of", "_start_of", "_starts", "_sizes"):
            if (here := getattr(self, name)) != (there := getattr(made, name)):
                raise AssertionError(f"{name} is {here}, and live ranges leave {there}")

    def _aligned(self, need: int, align: int) -> tuple[int, int] | None:
        """A hole, and where in it `need` bytes aligned to `align` begin; smaller holes first."""
        tries = _TRIES
        for size in self._sizes[bisect_left(self._sizes, need) :]:
            for hole in self._starts[size]:
                at = (hole + align - 1) & -align
                if at + need <= hole + size:
                    return hole, at
                tries -= 1
                if tries == 0:  # do not search many: cut one that is large enough anyway
                    index = bisect_left(self._sizes, need + align - self.granule)
                    if index < len(self._sizes):
                        hole = next(iter(self._starts[self._sizes[index]]))
                        return hole, (hole + align - 1) & -align
        return None

    def _add(self, start: int, stop: int) -> None:
        self._stop_of[start] = stop
        self._start_of[stop] = start
        size = stop - start
        starts = self._starts.get(size)
        if starts is None:
            self._starts[size] = {start: None}
            insort(self._sizes, size)
        else:
            starts[start] = None

    def _remove(self, start: int, stop: int) -> None:
        del self._stop_of[start]
        del self._start_of[stop]
        size = stop - start
        starts = self._starts[size]
        if len(starts) == 1:
            del self._starts[size]
            del self._sizes[bisect_left(self._sizes, size)]
        else:
            del starts[start]
