"""The unwind region: every image's call frame information in one walkable run of records.

An unwinder is told of the region once and walks it from the front.  Records of images lie in
extents of the `unwind` zone; what is free between them is made a dummy CIE, which unwinders skip,
and a zero length ends the walk.  Start from `UnwindRegion`.  Source: Linux Standard Base,
"Exception Frames" (`.eh_frame`); DWARF 5, 6.4.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from collections.abc import Mapping
from itertools import count

from jitkernel.arena import Arena, Extent
from jitkernel.errors import LinkError
from jitkernel.linker.cfi import Cie, pc_range, read_cie
from jitkernel.rollback import Recorded, RecordedDict

_HEAD = struct.Struct("<II")
_WORD = struct.Struct("<I")
_SIGNED = struct.Struct("<i")
#: A CIE: length, 0, version, no augmentation, code and data alignment, return address column.
_DUMMY = struct.Struct("<IIBBBBB3x")
#: Bytes for shared CIEs: compilers have some ten different ones.
_CIES = 2048


#: A CIE or an FDE of an object's `.eh_frame`: its offset, its bytes with the length word, and the
#: offset of its CIE; -1 in a CIE.
Record = tuple[int, int, int]


def split(frames: bytes) -> list[Record]:
    """The records of a `.eh_frame` section.  Raises LinkError where it does not parse."""
    records: list[Record] = []
    at, end = 0, len(frames)
    head = _HEAD.unpack_from
    while at + 8 <= end:
        length, back = head(frames, at)
        if length == 0:
            break
        if length < 4 or at + 4 + length > end:
            raise LinkError(
                f".eh_frame+{at:#x}: a record of {length} bytes does not fit its section"
            )
        if back > at + 4:
            raise LinkError(f".eh_frame+{at:#x} names no CIE before it")
        records.append((at, 4 + length, at + 4 - back if back else -1))
        at += 4 + length
    else:
        if at + 4 <= end and _WORD.unpack_from(frames, at)[0]:
            raise LinkError(f".eh_frame+{at:#x}: a record does not fit its section")
    return records


class UnwindRegion(Recorded):
    """The records in the arena's `unwind` zone; `start` is where an unwinder begins to walk.

    `generation` is another number after each change, so that an executor knows when to register
    again: never one of before, unless the region is again as it was then.
    Invariant: from `start`, record lengths lead to a zero word, and every FDE met is an image's.
    """

    def __init__(self, arena: Arena):
        self._arena = arena
        self._zone = arena.zones["unwind"]
        self._shared: RecordedDict[bytes, int] = RecordedDict()
        self.start = self._zone.start
        self.generation = 0
        self._generations = count(1)
        self._index: tuple[int, array[int], array[int]] = (-1, array("Q"), array("Q"))
        #: where the next shared CIE goes: they lie before all FDEs, which count back to them
        self._next, self._stop = self.start, arena.reserve("unwind", _CIES, 8).stop
        self._mark(self._stop)
        self._dummy(self._next, self._stop)

    def reserve(self, size: int) -> Extent:
        """Room for records of `size` bytes in all, a multiple of 8."""
        self.generation = next(self._generations)  # first: a rollback of it repairs the region
        extent = self._arena.reserve("unwind", size, 8)
        self._mark(extent[1] + size)
        return extent

    def free(self, extent: Extent) -> None:
        """Take an image's records away; later where threads may be in what they describe."""
        if self._arena.defer(extent, self.free):
            return
        self.generation = next(self._generations)
        after = self._zone.list.hole_at(extent.stop)
        start, _ = self._arena.free(extent)
        head = min(after - extent.stop, _DUMMY.size) if after is not None else 0
        self._clear(extent.start, extent.size + head)  # with that of what was free behind it
        self._mark(start)

    def shared_cie(self, content: bytes) -> int:
        """The address of a CIE without relocations: one for all images that bring its bytes.

        0 where there is no room left for another kind: the image keeps its own then.
        """
        address = self._shared.get(content)
        if address is None:
            padded = pad(bytearray(content))
            address = self._next
            if address + len(padded) > self._stop:
                return 0
            self._shared[content] = address
            self._next += len(padded)
            self._arena.write(address, padded)
            self._dummy(self._next, self._stop)
        return address

    @property
    def shared(self) -> dict[bytes, int]:
        """The CIEs that are there once for all images, with their addresses."""
        return dict(self._shared)

    def restore(self, shared: Mapping[bytes, int]) -> None:
        """Make the region walkable again after extents of it were reserved and filled all at once;
        `shared` are the CIEs that their FDEs refer to."""
        self._shared = RecordedDict(shared)
        for content, address in shared.items():
            padded = pad(bytearray(content))
            self._arena.write(address, padded)
            self._next = max(self._next, address + len(padded))
        self.repair()

    def repair(self) -> None:
        """Make the gaps between records skippable again, after records came or went otherwise."""
        self._clear(self._next, self._stop - self._next)
        self._dummy(self._next, self._stop)
        for start, stop in list(self._zone.list.holes()):
            self._clear(start, min(stop - start, _DUMMY.size))
            self._mark(start)
        self.generation = next(self._generations)

    def find(self, address: int) -> int:
        """The address of the FDE that covers `address`; 0 where none does.

        The first search after a change walks the region: about a millisecond for 2,000 functions.
        """
        if self._index[0] != self.generation:
            self._index = (self.generation, *self._sorted())
        _, starts, fdes = self._index
        at = bisect_right(starts, address) - 1
        if at < 0:
            return 0
        read = self._arena.read
        fde = fdes[at]
        cie = read_cie(read, fde + 4 - _HEAD.unpack(read(fde, 8))[1])
        covered = pc_range(read, fde, cie) if cie is not None else None
        return fde if covered is not None and covered[0] <= address < covered[1] else 0

    def _sorted(self) -> tuple[array[int], array[int]]:
        """The places where the functions begin that have an FDE, ascending, and the addresses of
        the FDEs."""
        view, base, at = self._arena.view, self._arena.base, self.start
        found: list[tuple[int, int]] = []
        cies: dict[int, Cie | None] = {}
        while True:
            length, back = _HEAD.unpack_from(view, at - base)
            if length == 0:
                break
            if back:
                cie = at + 4 - back
                if cie not in cies:
                    cies[cie] = read_cie(self._arena.read, cie)
                known = cies[cie]
                if known is not None and known.encoding == 0x1B:  # PC-relative, 4 signed bytes
                    if begin := _SIGNED.unpack_from(view, at + 8 - base)[0]:
                        found.append((at + 8 + begin, at))
                elif known is not None and (covered := pc_range(self._arena.read, at, known)):
                    found.append((covered[0], at))
            at += 4 + length
        found.sort()
        return array("Q", [s for s, _ in found]), array("Q", [f for _, f in found])

    def check(self) -> int:
        """Walk the region as an unwinder does; the number of FDEs.  Raises AssertionError."""
        at, frames = self.start, 0
        live = self._zone.list.live
        covered = sorted((start, start + size) for start, size in live.items())
        while True:
            length, back = _HEAD.unpack(self._arena.read(at, 8))
            if length == 0:
                break
            if back:
                frames += 1
                cie = at + 4 - back
                if _HEAD.unpack(self._arena.read(cie, 8))[1] != 0:
                    raise AssertionError(f"the FDE at {at:#x} names no CIE")
            at += 4 + length
        if covered and at < covered[-1][1]:
            raise AssertionError(f"the walk ends at {at:#x}, records lie up to {covered[-1][1]:#x}")
        return frames

    def _mark(self, at: int) -> None:
        """Make what is free from `at` skippable: a dummy CIE, or the end."""
        stop = self._zone.list.hole_at(at)
        if stop is None:
            return
        if stop == self._zone.stop:
            self._clear(at, _HEAD.size)
        else:
            self._dummy(at, stop)

    def _dummy(self, at: int, stop: int) -> None:
        """Make `[at, stop)` one record that unwinders skip."""
        if stop - at >= _DUMMY.size:  # a whole CIE, for readers that look into those too
            self._arena.write(at, _DUMMY.pack(stop - at - 4, 0, 1, 0, 1, 0x78, 16))
        elif stop > at:
            self._arena.write(at, _HEAD.pack(stop - at - 4, 0))

    def _clear(self, at: int, size: int) -> None:
        """Zero: DW_CFA_nop as part of a dummy, the end where there is none."""
        offset = at - self._arena.base
        self._arena.view[offset : offset + size] = bytes(size)


def pad(records: bytearray, last: int = 0) -> bytearray:
    """Make records a multiple of 8 bytes long with DW_CFA_nop, in the one at `last`."""
    if extra := -len(records) % 8:
        records += bytes(extra)
        _WORD.pack_into(records, last, len(records) - last - 4)
    return records
