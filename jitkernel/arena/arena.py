"""A slab cut into regions, and the zones of it that cells are placed in.  Start from `Arena`.

Placing bytes takes neither a system call nor a message.  An arena knows nothing of objects, symbols
or cells.
"""

from __future__ import annotations

import ctypes
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from jitkernel.arena.freelist import Extent, FreeList
from jitkernel.arena.slab import HIGHEST, LOWEST, PAGE, Region, Slab
from jitkernel.arena.writes import Writes
from jitkernel.arena.zone import Zone
from jitkernel.errors import ArenaFull, JitError
from jitkernel.rollback import Recorded, RecordedDict, Rollback, later, log_undo, recording

#: Freed bytes that an atomic block may need again: so many are copied, more stay until it ends.
_COPIED = 64 << 10
#: The runtime's regions: where slots for displaced instructions begin in its text (see
#: `Arena.slots`), where that ends, and where its data end.
SLOTS, RUNTIME_TEXT, RUNTIME = 0x1_0000, 0x3_0000, 0x10_0000
#: What each zone gets of the capacity, in percent.
SHARES = {"text": 36, "rodata": 12, "unwind": 8, "data": 44}
TABLE_SHARE = 40  # of the share of `unwind`, in percent: for tables of its records
PROTECTION = {"text": "rx", "rodata": "r", "unwind": "r", "data": "rw"}


class Arena(Slab, Recorded):
    """A slab of `capacity` bytes from `base` on (see there), and the books of it.

    `granule` is the unit of allocation in bytes; freed runs of at least `trim_size` bytes of data
    and constants go back to the system at once, freed text only by `trim`.

    Anything with `reserve`, `commit`, `abort`, `free` and `check` can stand in for it.
    """

    def __init__(
        self,
        capacity: int = 1 << 30,
        base: int = 0,
        granule: int = 16,
        trim_size: int = 64 << 10,
        shares: Mapping[str, int] = SHARES,
    ):
        capacity &= -PAGE
        if not RUNTIME + 64 * PAGE <= capacity <= HIGHEST - LOWEST:
            raise JitError(
                f"Arena.capacity is {capacity} bytes; it must lie between {RUNTIME + 64 * PAGE} "
                f"and {HIGHEST - LOWEST} (1776 MiB), so that any two addresses are within 2 GiB"
            )
        super().__init__(capacity, base)
        self.trim_size = max(trim_size, PAGE)
        #: Asked when something is freed: whether threads of the program run, which may use it yet.
        self.in_use: Callable[[], bool] | None = None
        # What is freed later, and what will free it; None: everything is freed at once.
        self._deferred: RecordedDict[Extent, Callable[[Extent], object]] | None = None
        # How many views Python has of an extent; those that have gone, to be counted; and what is
        # freed when the last has.
        self._views: dict[Extent, int] = {}
        self.gone: deque[Extent] = deque()
        self._viewed: RecordedDict[Extent, Callable[[Extent], object]] = RecordedDict()
        #: what makes operations on this slab, and on what lies in it, whole
        self.rollback = Rollback()
        self.rollback.repairs.append(self._repair)
        #: `(start, stop)` of text beside the zones for slots of breakpoints: no extents are there
        self.slots = self.base + SLOTS, self.base + RUNTIME_TEXT
        #: By zone: told of an extent before it goes, with its bytes still there.
        self.leaving: dict[str, Callable[[Extent], object]] = {}
        self.writes = Writes(self)
        self.zones: dict[str, Zone] = {}
        regions = [
            Region("runtime.text", self.base, self.base + RUNTIME_TEXT, "rx"),
            Region("runtime.data", self.base + RUNTIME_TEXT, self.base + RUNTIME, "rw"),
        ]
        start, rest = self.base + RUNTIME, capacity - RUNTIME
        for position, (name, share) in enumerate(shares.items(), 1):
            last = position == len(shares)
            stop = self.base + capacity if last else start + (rest * share // 100 & -PAGE)
            unit = 8 if name == "unwind" else granule
            end = stop
            if name == "unwind":  # behind the records, tables of them (linker/unwind_table.py)
                end -= (stop - start) * TABLE_SHARE // 100 & -PAGE
            self.zones[name] = Zone(self, name, start, end, unit)
            regions.append(Region(name, start, end, PROTECTION[name]))
            if end < stop:
                regions.append(Region(f"{name}.table", end, stop, PROTECTION[name]))
            start = stop
        self.regions = tuple(regions)
        self.open()  # last: what fails before it leaves nothing open

    # -- placing -------------------------------------------------------------------------------

    def reserve(self, zone: str, size: int, align: int = 16) -> Extent:
        """An extent of `size` bytes aligned to `align`; its bytes are undefined.

        Raises `ArenaFull`, with nothing placed.
        """
        z = self.zones[zone]
        at = z.list.take(size, align)
        if at is None:
            books = z.list
            raise ArenaFull(
                f"the {zone} zone has no room for {size} bytes: {books.used} of "
                f"{z.stop - z.start} bytes are used, the largest free extent has {books.largest}",
                zone, size, books.free_bytes, books.largest,
            )  # fmt: skip
        return z.hand_out(at, size)

    def fills(self, zone: str, start: int, size: int) -> bool:
        """True if an extent of `size` bytes at `start` would fill a free range, both its ends."""
        books = self.zones[zone].list
        return books.hole_at(start) == start + books.room(size)

    def reserve_at(self, zone: str, start: int, size: int) -> Extent:
        """The extent at exactly `start`; raises `ArenaFull` where any byte of it is taken."""
        z, extent = self.zones[zone], Extent(zone, start, size)
        for waiting in (self._viewed, self._deferred):
            if waiting is not None and waiting.pop(extent, None) is not None:
                return extent  # its free was deferred: it is as it was
        if not z.list.take_at(start, size):
            raise ArenaFull(
                f"{size} bytes at {start:#x} in the {zone} zone are not free", zone, size
            )
        return z.hand_out(start, size)

    def reserve_all(self, extents: Iterable[Extent]) -> None:
        """Many extents of a slab that was filled before, at once; nothing is filled with poison
        but what is free between them.

        Raises `ArenaFull` where they do not fit or meet.
        """
        wanted: dict[str, list[tuple[int, int]]] = {name: [] for name in self.zones}
        for zone, start, size in extents:
            wanted[zone].append((start, size))
        for name, ranges in wanted.items():
            if not ranges:
                continue
            z = self.zones[name]
            try:
                z.list.take_all(ranges)
            except ValueError as error:
                raise ArenaFull(f"the {name} zone: {error}", name, 0) from None
            for start, size in ranges:
                log_undo(z.poison_again, start, size)
            start, size = max(ranges)
            high = max(z.high, start + z.list.room(size))
            for low, stop in z.list.holes():
                z.clear(low, min(stop, high))
            z.high = high  # last: what is free below it is poison, wherever this is cut short

    def free(self, extent: Extent) -> tuple[int, int]:
        """Give an extent back, poisoned; the free range `(start, stop)` it is part of now.

        Raises KeyError when it is not live.  While threads may use it, it is freed later: see
        `defer_frees`.  What is large stays until the atomic block that may need it has ended.
        """
        z = self.zones[extent.zone]
        if extent.start not in z.list.live:
            raise KeyError(extent.start)
        if self.defer(extent, self.free):
            return extent.start, extent.start
        if (told := self.leaving.get(extent.zone)) is not None:
            told(extent)
        if recording():
            if extent.size > _COPIED:
                later(self._free_late, extent)
                return extent.start, extent.start
            self.save(extent.start, extent.size)
        return self._give(z, extent)

    def _give(self, z: Zone, extent: Extent) -> tuple[int, int]:
        start, stop = z.list.free(extent.start)
        own_stop = extent.start + z.list.room(extent.size)
        z.fill(extent.start, own_stop)
        if extent.zone != "text" and stop - start >= self.trim_size:
            # Only pages that this extent touched can still hold memory.
            first = max(start, extent.start & -PAGE)
            z.punch(first, min(stop, own_stop + -own_stop % PAGE, z.high))
        return start, stop

    def _free_late(self, extent: Extent) -> None:
        """Free an extent after the atomic block; all of it again where that was interrupted."""
        z = self.zones[extent.zone]
        if extent.start in z.list.live:
            self._give(z, extent)
        else:
            z.list.rebuild()
            z.poison_again(extent.start, extent.size)

    def defer_frees(self, defer: bool) -> None:
        """Keep what is freed as it is, for threads that may still run it, read it or write to it;
        or free it all."""
        if defer:
            if self._deferred is None:
                self._deferred = RecordedDict()
        elif self._deferred is not None:
            kept, self._deferred = self._deferred, None
            before, self.in_use = self.in_use, None
            try:
                for extent, give in kept.items():
                    give(extent)
            finally:
                self.in_use = before

    def defer(self, extent: Extent, give: Callable[[Extent], object]) -> bool:
        """Defer freeing an extent and return True, where it has to wait: then `give` frees it when
        threads have ended, or when the last view of it has gone.

        Raises KeyError when it is not live.
        """
        waiting = self._viewed if extent in self._views else self._deferred
        if waiting is None:
            if not self.shared:
                return False
            waiting = self._deferred = RecordedDict()
        if extent.start not in self.zones[extent.zone].list.live or extent in waiting:
            raise KeyError(extent.start)
        waiting[extent] = give
        return True

    @property
    def shared(self) -> bool:
        """True if others than the one thread of a call may use what is there."""
        return self.defers or (self.in_use is not None and self.in_use())

    @property
    def defers(self) -> bool:
        """True if what is freed stays as it is until later."""
        return self._deferred is not None

    @property
    def deferred(self) -> tuple[Extent, ...]:
        """The extents that were freed and are kept as they are until later: see `defer_frees`."""
        return (*(self._deferred or ()), *self._viewed)

    def trim(self) -> int:
        """Give all free whole pages, text too, back to the system; the number of bytes."""
        given = 0
        for z in self.zones.values():
            for start, stop in z.list.holes():
                given += z.punch(start, min(stop, z.high))
        return given

    def save(self, start: int, size: int) -> None:
        """Note bytes that are about to be overwritten, for an atomic block that fails."""
        if recording():
            size = min(size, self.base + self.capacity - start)
            log_undo(self._bytes_again, start, self.read(start, size))

    def _bytes_again(self, start: int, data: bytes) -> None:
        for z in self.zones.values():
            if z.punched and z.start <= start < z.stop:
                z.unpunch(start, start + len(data))
        self.write(start, data)

    def keep_reserved(self) -> None:
        """A rollback is about to undo reservations: their extents stay, threads may use them."""
        for z in self.zones.values():
            if z.list.kept is None:
                z.list.kept = {}

    def defer_kept(self) -> None:
        """The rollback is over: extents that it kept are freed when the threads have ended."""
        for z in self.zones.values():
            if z.list.kept is None:
                continue
            if self._deferred is None:
                self._deferred = RecordedDict()
            for start, size in z.list.kept.items():
                if start + size <= z.high:
                    self._deferred[Extent(z.name, start, size)] = self.free
                elif start in z.list.live:  # it was never handed out
                    z.list.free(start)
            z.list.kept = None

    def _repair(self, restored: list[object]) -> None:
        """Rebuild free lists from what is live."""
        for found in restored:
            if isinstance(found, FreeList):
                found.rebuild()

    def zero(self, start: int, size: int) -> None:
        """Zero a range, giving whole pages back to the system where there are many."""
        offset = start - self.base
        if size < self.trim_size:
            self.view[offset : offset + size] = bytes(size)
            return
        first, last = offset + -offset % PAGE, (offset + size) & -PAGE
        self.view[offset:first] = bytes(first - offset)
        self.view[last : offset + size] = bytes(offset + size - last)
        self.punch(first, last)

    # -- bytes that Python views ---------------------------------------------------------------

    def part_of(self, extent: Extent, address: int, size: int) -> memoryview:
        """`part` of an extent, which nobody else is given until that has gone."""
        if not size:
            return self.part(address, size)
        kept = (ctypes.c_ubyte * size).from_buffer(self._map, address - self.base)
        self._views[extent] = self._views.get(extent, 0) + 1
        weakref.finalize(kept, self.gone.append, extent).atexit = False
        return memoryview(kept).cast("B")

    def settle(self) -> None:
        """Free what only views have kept that have gone."""
        while self.gone:
            extent = self.gone.popleft()
            self._views[extent] -= 1
            if self._views[extent]:
                continue
            del self._views[extent]
            if (give := self._viewed.pop(extent, None)) is not None:
                give(extent)

    # -- books ---------------------------------------------------------------------------------

    def usage(self) -> dict[str, dict[str, int]]:
        """Per zone, in bytes: capacity, used, padding, free, largest, high (water), extents."""
        return {
            name: {
                "capacity": z.stop - z.start,
                "used": z.list.used,
                "padding": z.list.padding,
                "free": z.list.free_bytes,
                "largest": z.list.largest,
                "high": z.high - z.start,
                "extents": len(z.list.live),
            }
            for name, z in self.zones.items()
        }

    def check(self) -> None:
        """Prove the books and the poison; raises AssertionError.  Reads no page that is a hole."""
        for z in self.zones.values():
            z.check()

    def close(self) -> None:
        """Unmap and close the slab; extents are gone."""
        if self.fd >= 0:
            self.writes.close()
            super().close()
