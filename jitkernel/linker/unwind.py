"""The unwind region: every image's call frame information.

Records of images lie in extents of the `unwind` zone; an unwinder finds them by a table
(unwind_table.py).  Start from `UnwindRegion`.  Source: Linux Standard Base, "Exception Frames"
(`.eh_frame`); DWARF 5, 6.4.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from itertools import count

from jitkernel.arena import Arena, Extent
from jitkernel.errors import LinkError
from jitkernel.linker.cfi import OMIT, pc_range, read_cie
from jitkernel.linker.unwind_table import Row, UnwindTable
from jitkernel.rollback import Recorded, RecordedDict, set_first

_HEAD = struct.Struct("<II")
_WORD = struct.Struct("<I")
#: A CIE: length, 0, version, no augmentation, code and data alignment, return address column.
_DUMMY = struct.Struct("<IIBBBBB3x")
#: Where a function begins, and its size, as most FDEs have them: DW_EH_PE_pcrel | sdata4
_FIELDS, _PC_RELATIVE = struct.Struct("<iI"), 0x1B
_SMALLEST = 16  # bytes of an FDE
#: Bytes for shared CIEs: compilers have some ten different ones.
_CIES = 2048


#: A CIE or an FDE of an object's `.eh_frame`: its offset, how many bytes it has, the length word
#: among them, and the offset of its CIE; -1 in a CIE.
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
    """The records in the arena's `unwind` zone, and the `table` of them.

    `generation` is another number after each change: never one of before, unless the region is
    again as it was then.
    Invariant: all records of all extents are listed in the table from `add` until they go.
    """

    def __init__(self, arena: Arena):
        self._arena = arena
        self._zone = arena.zones["unwind"]
        self.table = UnwindTable(arena)
        self._shared: RecordedDict[bytes, int] = RecordedDict()
        self.generation = 0
        self._generations = count(1)
        self._published = 0  # the generation of the table that was made last
        self._torn = False  # the table lists what it did before an operation was taken back
        #: where the next shared CIE goes: they lie before all FDEs, which count back to them
        self._next, self._stop = self._zone.start, arena.reserve("unwind", _CIES, 8).stop
        self._formats: dict[int, int] = {}  # how FDEs of shared CIEs write addresses
        #: called before records go
        self.hide: Callable[[], object] = lambda: None
        arena.leaving["unwind"] = self._leaving

    def reserve(self, size: int) -> Extent:
        """Room for records of `size` bytes in all, a multiple of 8.  Raises ArenaFull."""
        table, more = self.table, size // _SMALLEST
        if len(table.fdes) + more > table.most:
            raise table.full(more)
        return self._arena.reserve("unwind", size, 8)

    def add(self, extents: Iterable[Extent]) -> None:
        """Records have been written there: they are found from the next `publish` on."""
        self.generation = next(self._generations)  # first: a rollback of it repairs the region
        if not self._torn:
            rows: list[Row] = []
            for extent in extents:
                rows += self._rows(extent.start, extent.start + extent.size)[0]
            self.table.add(rows)

    def _leaving(self, extent: Extent) -> None:
        """Records are about to go: nobody is in what they describe."""
        self.hide()
        self.generation = next(self._generations)
        if not self._torn:
            self.table.remove(self._rows(extent.start, extent.stop)[0])

    def publish(self) -> tuple[int, int]:
        """The unwinder's table as it is to be by now: its address, and the flags that go with it.
        Whoever may run code is told of it before that code can be reached."""
        if self._published != self.generation:
            if self._torn:
                self._settle()
            self.table.publish()
            set_first(self, "_published", self.generation)
        return self.table.address, self.table.flags

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
        return address

    @property
    def shared(self) -> dict[bytes, int]:
        """The CIEs that are there once for all images, with their addresses."""
        return dict(self._shared)

    def restore(self, shared: Mapping[bytes, int]) -> None:
        """List the records of extents that were reserved and filled all at once; `shared` are the
        CIEs that their FDEs refer to."""
        self._shared = RecordedDict(shared)
        for content, address in shared.items():
            padded = pad(bytearray(content))
            self._arena.write(address, padded)
            self._next = max(self._next, address + len(padded))
        self.repair()

    def repair(self) -> None:
        """The records are others than those that were added and left."""
        self._torn = True
        self._formats.clear()
        self._arena.zero(self._next, self._stop - self._next)
        self.generation = next(self._generations)

    def find(self, address: int) -> int:
        """The address of the FDE that covers `address`; 0 where none does."""
        if self._torn:
            self._settle()
        if not (fde := self.table.find(address)):
            return 0
        read = self._arena.read
        cie = read_cie(read, self._cie(fde))
        covered = pc_range(read, fde, cie) if cie is not None else None
        return fde if covered is not None and covered[0] <= address < covered[1] else 0

    def records(self, address: int) -> tuple[bytes, bytes] | None:
        """The bytes of the CIE and the FDE that cover `address`, where the FDE counts its addresses
        from itself in 4 bytes."""
        read, fde = self._arena.read, self.find(address)
        at = self._cie(fde) if fde else 0
        cie = read_cie(read, at) if fde else None
        if cie is None or cie.encoding != _PC_RELATIVE:
            return None
        own, its = (read(start, 4 + _WORD.unpack(read(start, 4))[0]) for start in (at, fde))
        return own, its

    def walkable(self) -> tuple[int, bytes]:
        """The records as they follow one another in `.eh_frame`, and their address; what is free
        between them is a CIE that nobody refers to."""
        start, stop = self._zone.start, self._zone.high
        copy = bytearray(self._arena.read(start, stop - start) + bytes(4))
        for at, end in [(self._next, self._stop), *self._zone.list.holes()]:
            if at < (end := min(end, stop)):
                length = end - at - 4
                whole = _DUMMY.pack(length, 0, 1, 0, 1, 0x78, 16) if length >= 12 else b""
                head = whole or _HEAD.pack(length, 0)
                copy[at - start : at - start + len(head)] = head
        return start, bytes(copy)

    def _cie(self, fde: int) -> int:
        _, back = _HEAD.unpack(self._arena.read(fde, 8))
        return fde + 4 - int(back)

    def check(self) -> int:
        """Prove that what is listed are the records; the number of FDEs.  Raises AssertionError."""
        if self._torn:
            self._settle()
        waiting = {extent.start for extent in self._arena.deferred}
        rows: list[Row] = []
        for start, size in self._extents():
            found, end = self._rows(start, start + size)
            if end != start + size and start not in waiting:
                raise AssertionError(f"the records at {start:#x} end at {end:#x}")
            rows += found
        if sorted(rows) != [*zip(self.table.starts, self.table.fdes, strict=True)]:
            raise AssertionError("the table of unwind records does not list what there is")
        return len(rows)

    def _settle(self) -> None:
        rows = [self._rows(start, start + size)[0] for start, size in self._extents()]
        self.table.list_all([row for found in rows for row in found])
        set_first(self, "_torn", False)

    def _extents(self) -> list[tuple[int, int]]:
        live = self._zone.list.live
        return [(start, live[start]) for start in live if start >= self._stop]

    def _rows(self, start: int, stop: int) -> tuple[list[Row], int]:
        """The functions that records tell of; and where these end, of which nothing is believed."""
        view, base, at = self._arena.view, self._arena.base, start
        found: list[Row] = []
        formats = self._formats.copy()
        head, fields = _HEAD.unpack_from, _FIELDS.unpack_from
        while at + 8 <= stop:
            length, back = head(view, at - base)
            if not 4 <= length <= stop - at - 4:
                break
            if back and length >= _SMALLEST - 4:
                cie = at + 4 - back
                if (format := formats.get(cie)) is None:
                    known = read_cie(self._arena.read, cie) if cie in self._arena else None
                    format = formats[cie] = known.encoding if known is not None else OMIT
                    if self._zone.start <= cie < self._stop:
                        self._formats[cie] = format
                if format == _PC_RELATIVE:
                    distance, size = fields(view, at + 8 - base)
                    if distance and size:
                        found.append((at + 8 + distance, at))
                elif format != OMIT and (known := read_cie(self._arena.read, cie)) is not None:
                    covered = pc_range(self._arena.read, at, known)
                    if covered is not None and 0 < covered[0] < covered[1]:
                        self.table.mix()
                        found.append((covered[0], at))
            at += 4 + length
        return found, at


def pad(records: bytearray, last: int = 0) -> bytearray:
    """Make records a multiple of 8 bytes long with DW_CFA_nop, in the one at `last`."""
    if extra := -len(records) % 8:
        records += bytes(extra)
        _WORD.pack_into(records, last, len(records) - last - 4)
    return records
