"""Stack maps: where values are at points of compiled code.  Start from `read_stack_maps`.

LLVM writes a `.llvm_stackmaps` section for `llvm.experimental.stackmap` and `.patchpoint`, for
statepoints, and for calls with a `deopt` bundle.  A point is the address behind an instruction:
for a call, its return address.  Source: LLVM, "Stack maps and patch points in LLVM" (version 3 of
the format), and "Garbage Collection Safepoints in LLVM" for what a statepoint's locations mean.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum

from jitkernel.errors import LinkError
from jitkernel.record import NamedTuple

__all__ = [
    "FunctionFrame", "LiveOut", "Location", "LocationKind", "Safepoint", "StackMapRecord",
    "StackMaps", "Statepoint", "read_stack_maps",
]  # fmt: skip

VERSION = 3
#: The stack size of a function whose frame has no fixed one: an `alloca` of a size that varies, or
#: of a larger alignment than the stack's.
NO_FIXED_SIZE = (1 << 64) - 1
RSP = 7  #: its DWARF number (psABI 3.6.2)
#: The ID of points that LLVM makes of calls with a `deopt` bundle, which have none of their own.
DEOPT_BUNDLE_ID = 0xABCDEF0F

_HEADER = struct.Struct("<BBHIII")
_FUNCTION = struct.Struct("<QQQ")
_CONSTANT = struct.Struct("<Q")
_RECORD = struct.Struct("<QIHH")
_LOCATION = struct.Struct("<BBHHHi")
_LIVE_OUTS = struct.Struct("<HH")
_LIVE_OUT = struct.Struct("<HBB")


class LocationKind(IntEnum):
    """The way a location says where its value is."""

    REGISTER = 1  #: in the register
    DIRECT = 2  #: it is register + offset: the address of an `alloca`
    INDIRECT = 3  #: in memory, at register + offset
    CONSTANT = 4  #: it is the offset
    CONSTANT_INDEX = 5  #: it is in the pool of constants, at the index `offset`


class Location(NamedTuple):
    """The place of a value of `size` bytes; `register` is a DWARF number.

    `constant` is the value where it is known: of both kinds of constants, else None.
    """

    kind: LocationKind
    size: int
    register: int
    offset: int
    constant: int | None = None

    def value(self, registers: Mapping[int, int], read: Callable[[int, int], bytes]) -> int:
        """The value, as a number without a sign: `registers` by DWARF numbers, as they are at the
        point, and `read(address, size)` of memory.  Raises LookupError where the location is of a
        register that `registers` has not: it is not kept across the call.
        """
        mask = (1 << 8 * self.size) - 1
        if self.constant is not None:
            return self.constant & mask
        if self.register not in registers:
            raise LookupError(f"register {self.register} is not known here: {self}")
        held = registers[self.register]
        if self.kind is LocationKind.REGISTER:
            return held >> self.offset & mask  # of a part of a register: its first bit
        at = held + self.offset & (1 << 64) - 1
        if self.kind is LocationKind.DIRECT:
            return at & mask
        return int.from_bytes(read(at, self.size), "little")

    def __str__(self) -> str:
        if self.constant is not None:
            return f"{self.constant} ({self.size} bytes)"
        text = f"r{self.register}" + (f"{self.offset:+}" if self.offset else "")
        text = f"[{text}]" if self.kind is LocationKind.INDIRECT else text
        return f"{text} ({self.size} bytes)"


class LiveOut(NamedTuple):
    """A register that the code behind a point still needs, and how many bytes of it."""

    register: int
    size: int


class FunctionFrame(NamedTuple):
    """A function with stack maps: its address, the bytes of its frame without the return address
    (None: they vary), and how many records it has."""

    address: int
    stack_size: int | None
    records: int


class Statepoint(NamedTuple):
    """The locations of a call that is a statepoint, or has a `deopt` bundle, told apart.

    `deopt` are those of the bundle, `pointers` what the collector has to know: a base and a derived
    pointer each.
    """

    convention: int
    flags: int
    deopt: tuple[Location, ...]
    pointers: tuple[tuple[Location, Location], ...]


class Safepoint(NamedTuple):
    """A statepoint as a collector wants it, all numbers: the return address of the call, the bytes
    of the frame above `rsp` there, without the function's own return address, and where references
    are, as distances from `rsp`: those of base and derived pointer."""

    address: int
    frame: int
    pointers: tuple[tuple[int, int], ...]


class StackMapRecord(NamedTuple):
    """A point: its `id`, its address, the function it is in, and where its values are."""

    id: int
    address: int
    function: FunctionFrame
    locations: tuple[Location, ...]
    live_outs: tuple[LiveOut, ...]

    @property
    def is_statepoint(self) -> bool:
        """True if the locations are those of a statepoint, or of a call with a `deopt` bundle."""
        try:
            return bool(self.statepoint)
        except LinkError:
            return False

    @property
    def statepoint(self) -> Statepoint:
        """The same locations as those of a statepoint.  Raises LinkError where they are none:
        stack maps and patch points have no such head."""
        head = [place.constant for place in self.locations[:3]]
        if len(head) == 3 and None not in head:
            convention, flags, count = (value or 0 for value in head)
            deopt, rest = self.locations[3 : 3 + count], self.locations[3 + count :]
            if len(deopt) == count and len(rest) % 2 == 0:
                pairs = zip(rest[::2], rest[1::2], strict=True)
                return Statepoint(convention, flags, deopt, tuple(pairs))
        raise LinkError(f"the record at {self.address:#x} is not that of a statepoint")


class StackMaps(NamedTuple):
    """The contents of stack map sections; `records` are in the order of their functions."""

    functions: tuple[FunctionFrame, ...] = ()
    constants: tuple[int, ...] = ()
    records: tuple[StackMapRecord, ...] = ()

    def at(self, address: int) -> StackMapRecord | None:
        """The record of the point at an address; of a call, of its return address."""
        return next((record for record in self.records if record.address == address), None)

    def safepoints(self) -> list[Safepoint]:
        """The statepoints, by ascending address, in order to walk a stack and find its references.

        A pair whose base is a constant is left out: nothing moves it.  Raises LinkError for frames
        of no fixed size, and for references that are elsewhere than on the stack.
        """
        found = []
        for record in sorted(self.records, key=lambda record: record.address):
            if not record.is_statepoint:
                continue
            if record.function.stack_size is None:
                raise LinkError(f"the frame at {record.address:#x} has no fixed size")
            pairs = [pair for pair in record.statepoint.pointers if pair[0].constant is None]
            for at in (place for pair in pairs for place in pair):
                if at.kind is not LocationKind.INDIRECT or at.register != RSP:
                    raise LinkError(f"a reference at {record.address:#x} is not on the stack: {at}")
            pointers = tuple((base.offset, derived.offset) for base, derived in pairs)
            found.append(Safepoint(record.address, record.function.stack_size, pointers))
        return found

    @classmethod
    def joined(cls, several: Iterable[StackMaps]) -> StackMaps:
        """The maps of several modules as one."""
        parts = list(several)
        return cls(
            tuple(function for part in parts for function in part.functions),
            tuple(constant for part in parts for constant in part.constants),
            tuple(record for part in parts for record in part.records),
        )


def read_stack_maps(data: bytes) -> StackMaps:
    """The stack maps in the bytes of a section: those of a module, or several in a row, as a
    linker leaves them.  Raises LinkError where they are of another version or do not parse."""
    at, found = 0, []
    try:
        while at < len(data):
            maps, at = _read(data, at)
            found.append(maps)
    except (struct.error, IndexError, ValueError) as error:
        raise LinkError(f".llvm_stackmaps does not parse: {error}") from None
    return StackMaps.joined(found)


def _read(data: bytes, at: int) -> tuple[StackMaps, int]:
    """The map at an offset, and where it ends."""
    begin = at
    version, _, _, n_functions, n_constants, n_records = _HEADER.unpack_from(data, at)
    if version != VERSION:
        raise LinkError(f".llvm_stackmaps is of version {version}: this reads {VERSION}")
    at += _HEADER.size
    tables = n_functions * _FUNCTION.size + n_constants * _CONSTANT.size
    if at + tables + n_records * (_RECORD.size + 2 * _LIVE_OUTS.size) > len(data):
        raise ValueError(f"{len(data) - begin} bytes are too few for what its header counts")
    functions = []
    for _ in range(n_functions):
        address, size, count = _FUNCTION.unpack_from(data, at)
        functions.append(FunctionFrame(address, None if size == NO_FIXED_SIZE else size, count))
        at += _FUNCTION.size
    if sum(function.records for function in functions) != n_records:
        raise ValueError(f"its functions do not have its {n_records} records")
    constants = struct.unpack_from(f"<{n_constants}Q", data, at)
    at += n_constants * _CONSTANT.size
    records = []
    for function in functions:
        for _ in range(function.records):
            record, at = _read_record(data, at, begin, function, constants)
            records.append(record)
    return StackMaps(tuple(functions), constants, tuple(records)), at


def _read_record(
    data: bytes, at: int, begin: int, function: FunctionFrame, constants: tuple[int, ...]
) -> tuple[StackMapRecord, int]:
    """The record at an offset, and where it ends; padding counts from where its map begins."""
    number, offset, _, n_locations = _RECORD.unpack_from(data, at)
    at += _RECORD.size
    locations = []
    for _ in range(n_locations):
        locations.append(_read_location(_LOCATION.unpack_from(data, at), constants))
        at += _LOCATION.size
    at += (begin - at) % 8
    _, n_live_outs = _LIVE_OUTS.unpack_from(data, at)
    at += _LIVE_OUTS.size
    live_outs = []
    for _ in range(n_live_outs):
        register, _, size = _LIVE_OUT.unpack_from(data, at)
        live_outs.append(LiveOut(register, size))
        at += _LIVE_OUT.size
    at += (begin - at) % 8
    if at > len(data):
        raise ValueError("it ends in the middle of a record")
    point = function.address + offset
    return StackMapRecord(number, point, function, tuple(locations), tuple(live_outs)), at


def _read_location(
    fields: tuple[int, int, int, int, int, int], constants: tuple[int, ...]
) -> Location:
    number, _, size, register, _, offset = fields
    kind = LocationKind(number)
    constant = None
    if kind is LocationKind.CONSTANT:
        constant = offset
    elif kind is LocationKind.CONSTANT_INDEX:
        if not 0 <= offset < len(constants):
            raise ValueError(f"there is no constant {offset}")
        constant = constants[offset]
    return Location(kind, size, register, offset, constant)
