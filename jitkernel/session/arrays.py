"""Arrays that the program sees where they are.  Start from `Arrays.make`.

An array lies in memory of its own that this process and the executor have at one address (see
`arena.shared`), so a call passes the address and copies nothing.  It is not a part of the arena:
undo leaves it as it is, and what is saved does not have it.  It stays as long as Python refers to
it; a program that keeps its address must not outlive that.

What is not shared is copied for the time of a call, and back where it can be written: `Copies`.
"""

from __future__ import annotations

import ctypes
import math
import operator
import sys
import warnings
import weakref
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from jitkernel.arena.shared import SharedMemory, find
from jitkernel.errors import UsageError
from jitkernel.procfs import write_memory
from jitkernel.record import NamedTuple
from jitkernel.regex import regex
from jitkernel.values.conversion import has_buffer, is_memory, refuse_opaque
from jitkernel.values.datatype import DataType, Member, number
from jitkernel.wording import size_text

if TYPE_CHECKING:
    from jitkernel.session.engine import Engine

_Pointer: Any = ctypes._Pointer
_KEPT = 16 << 20  # bytes for copies that are kept from call to call
_TOLD = 1 << 20  # bytes of copies from which on the user is told, once
_ALIGN = 64
_CPU = 1  # DLDeviceType kDLCPU (dlpack.h)
#: An element's type in numpy's array interface, `<f8` or `<M8[25us]`: kind and bytes.
_KIND = regex(r"[<>|=](\w)(\d+)(?:\[.*\])?")
_MEMBER = regex(r":[^:]*:")  # a name in a buffer's format (PEP 3118)


class Buffer(NamedTuple):
    """The content of an object: `size` bytes at `address`; 0 where that is not known, and `data`
    are the bytes. `keep` keeps them there."""

    address: int
    size: int
    writable: bool
    data: Any
    keep: object
    constant: bool = False  # the function does not write there


def numpy() -> Any:
    """The module; raises UsageError where it is not installed."""
    try:
        import numpy
    except ImportError:
        raise UsageError("arrays need numpy: pip install numpy") from None
    return numpy


def buffer_of(thing: Any, what: str = "the argument") -> Buffer:
    """The bytes of an object with numpy's array interface, Python's buffers, or DLPack; what a
    pointer of ctypes leads to, one element.

    Raises UsageError for one whose elements do not lie one behind the other in C's order, or are
    Python objects, or that is not in main memory.
    """
    np = sys.modules.get("numpy")
    if np is not None and thing.__class__ is np.ndarray:  # the same, three times as fast
        flags = thing.flags
        if flags.c_contiguous and not thing.dtype.hasobject:
            return Buffer(thing.ctypes.data, thing.nbytes, flags.writeable, None, thing)
    refuse_opaque(thing, what)
    interface = getattr(thing, "__array_interface__", None)
    if interface is None and not has_buffer(thing):
        thing, interface = _from_dlpack(thing, what)
    if interface is not None and interface.get("data") is not None:
        shape, strides = interface["shape"], interface.get("strides")
        kind = _KIND.fullmatch(interface["typestr"])
        if kind is None or kind[1] == "O":
            raise UsageError(
                f"{what}: elements of type {interface['typestr']} have no meaning to the program"
            )
        item = int(kind[2]) * (4 if kind[1] == "U" else 1)
        size = item * math.prod(shape)
        if strides is not None and size:
            refuse_order(shape, strides, item, what)
        address, constant = interface["data"]
        return Buffer(address, size, not constant, None, thing)
    try:
        view = memoryview(thing.contents if isinstance(thing, _Pointer) else thing)
    except ValueError as error:  # it was closed, or released
        raise UsageError(f"{what}: {error}") from None
    if "O" in _MEMBER.sub("", view.format):
        raise UsageError(f"{what}: Python objects have no meaning to the program")
    if view.shape is not None and view.strides is not None and view.nbytes:
        refuse_order(view.shape, view.strides, view.itemsize, what)
    if view.readonly or not view.nbytes:
        return Buffer(0, view.nbytes, False, view, thing)
    first = (ctypes.c_char * view.nbytes).from_buffer(view)
    return Buffer(ctypes.addressof(first), view.nbytes, True, None, first)


def _from_dlpack(thing: Any, what: str) -> tuple[Any, dict[str, Any]]:
    if not hasattr(thing, "__dlpack__") or thing.__dlpack_device__()[0] != _CPU:
        raise UsageError(f"{what}: the array is not in main memory; copy it there, and pass that")
    found = numpy().from_dlpack(thing)
    return found, found.__array_interface__


def refuse_order(shape: Sequence[int], strides: Sequence[int], item: int, what: str) -> None:
    """Raises UsageError where elements of `item` bytes do not lie one behind the other, the last
    index the quickest, as C has them (C11 6.5.2.1): a function would take one for another."""
    if _dense(shape, strides, item):
        return
    where = f"(shape {tuple(shape)}, strides {tuple(strides)})"
    if _dense(shape[::-1], strides[::-1], item):
        raise UsageError(
            f"{what}: the array lies column by column, and C's arrays lie row by row "
            f"{where}: numpy.ascontiguousarray(a) gives a copy that is; a.T is the same memory for "
            "a function that wants it by columns"
        )
    raise UsageError(
        f"{what}: the elements of the array do not lie one behind the other {where}: "
        "numpy.ascontiguousarray(a) gives a copy whose do"
    )


def _dense(shape: Sequence[int], strides: Sequence[int], item: int) -> bool:
    step = item
    for side, stride in zip(reversed(shape), reversed(strides), strict=True):
        if side > 1 and stride != step:
            return False
        step *= side
    return True


def dtype_of(type: DataType) -> Any:
    """The numpy dtype of a type as it lies in memory; elements of a struct without names are f0,
    f1, ...

    Pointers are unsigned numbers, and what numpy has no numbers for is bytes.  Raises UsageError
    for vectors whose elements share bytes.
    """
    np = numpy()
    if code := "b1" if type.name == "i1" else type.code:
        return np.dtype("?" if code == "b1" else f"<{code}")
    if type.is_text:
        return np.dtype(("<i1", (type.size,)))
    match type.kind:
        case "pointer":
            return np.dtype(f"<u{type.size}")
        case "array" | "vector":
            if not type.stride and type.kind == "vector":
                raise UsageError(
                    f"elements of {type.name} share bytes, which numpy has no array for"
                )
            inner = dtype_of(type.part(0))
            return np.dtype((inner.base, (type.count, *inner.shape)))
        case "struct" if type.members and not any(member.bits for member in type.members):
            return np.dtype(
                {
                    "names": [m.name or f"f{i}" for i, m in enumerate(type.members)],
                    "formats": [dtype_of(member.type) for member in type.members],
                    "offsets": [member.offset for member in type.members],
                    "itemsize": type.size,
                }
            )
    return np.dtype(f"V{type.size}")


def of_dtype(dtype: Any) -> DataType:
    """The type of numpy's elements; bytes where it is none of a program's."""
    if dtype.names:
        members = tuple([Member(n, of_dtype(f[0]), f[1]) for n, f in dtype.fields.items()])
        return DataType("struct", size=dtype.itemsize, members=members)
    if dtype.subdtype is not None:
        of, sides = of_dtype(dtype.base), dtype.shape
        for count in reversed(sides):
            of = DataType("array", size=count * of.size, element=of, count=count)
        return of
    code = f"{dtype.kind}{dtype.itemsize}"
    if dtype.isnative and dtype.kind in "iufcb" and code != "c32":
        return number(code)
    return DataType("bytes", size=dtype.itemsize)


def view_of(type: DataType, data: memoryview, constant: bool) -> Any:
    """Memory of the program as a numpy array of a type; what it makes of `data` keeps that."""
    dtype, np = dtype_of(type), numpy()
    if not dtype.itemsize and not data.nbytes and not dtype.shape:
        raise UsageError(f"{type.name or 'the variable'} has no bytes")
    # Not numpy.ndarray(buffer=...), which lets go of the buffer.
    data = data[: dtype.itemsize]  # a flexible array member's elements are no part of the type
    found = np.frombuffer(data, "u1") if data.nbytes else np.empty(0, "u1")
    found.flags.writeable = not constant
    return found.view(dtype.base).reshape(dtype.shape)


class Arrays:
    """The shared memory that one session's program sees."""

    def __init__(self, engine: Engine):
        self._engine = engine
        self.gone: deque[tuple[int, int]] = deque()  # base and room of what nobody refers to
        self.spare: SharedMemory | None = None  # for copies, lent to one call at a time
        # By identity: an array that is shared, and where it is.
        self._seen: dict[int, tuple[weakref.ref[Any], int]] = {}
        self.told = False  # that arrays are copied

    def make(self, size: int) -> SharedMemory:
        """New memory, zero.  Raises JitError."""
        memory = SharedMemory(size)
        self.attach(memory)
        return memory

    def array(self, shape: int | Sequence[int], dtype: Any, content: Any = None) -> Any:
        """A new array of numpy's: see `Session.array`; with what `content` has, where that is
        given."""
        np = numpy()
        try:
            kind = np.dtype(dtype)
        except (TypeError, ValueError) as error:
            raise UsageError(f"{dtype!r} is no type of an array's elements: {error}") from None
        if kind.hasobject:
            raise UsageError(f"{kind} holds Python objects, which mean nothing to the program")
        try:
            several = isinstance(shape, Iterable) and not isinstance(shape, (bytes, dict))
            given: Any = shape if several else (shape,)
            sides = tuple(map(operator.index, given))
        except TypeError:
            sides = (-1,)
        if any(side < 0 for side in sides):
            raise UsageError(f"an array's shape is its sides, not {shape!r}: 3, or (3, 4)")
        memory = SharedMemory(kind.itemsize * math.prod(sides))
        made = np.asarray(memory)[: memory.size].view(kind).reshape(sides)
        if content is not None:
            made[...] = content
        self.attach(memory)  # with all its pages, where it has them
        return made

    def share(self, array: Any) -> Any:
        """An array with the same elements: see `Session.share`."""
        given = numpy().asarray(array)
        found = find(given.ctypes.data) if given.flags.c_contiguous else None
        if found is not None:
            self.attach(found)
            return given
        return self.array(given.shape, given.dtype, given)

    def attach(self, shared: SharedMemory) -> None:
        """Let the program see memory, this session's or another's.  Raises JitError."""
        services = self._engine.executor.services
        if shared.base in services.shared:
            return
        self.settle()
        services.map(shared.base, shared.room, shared.fd)
        mapped, gone = services.shared, self.gone

        def end(base: int, room: int) -> None:
            if mapped.pop(base, None) is not None:
                gone.append((base, room))

        shared.on_end.append(end)

    def settle(self) -> None:
        """Unmap what nobody refers to any more, and free what only views have kept."""
        if self._engine.arena.gone:
            self._engine.arena.settle()
        if self.gone:
            ranges = [self.gone.popleft() for _ in range(len(self.gone))]
            self._engine.executor.services.unmap(ranges)

    def read(self, address: int, size: int) -> bytes:
        """Bytes of the program's memory: see `Session.read`."""
        data = self._engine.read(address, max(size, 0))
        if len(data) < size:
            there = f"only {len(data)} of {size} bytes" if data else f"no {size} bytes"
            raise UsageError(f"the program has {there} of memory at {address:#x}")
        return data

    def write(self, address: int, data: bytes) -> None:
        """Change the program's memory: see `Session.write`."""
        arena = self._engine.arena
        if address not in arena:
            if write_memory(self._engine.executor.pid, address, data) < len(data):
                raise UsageError(f"the program cannot write {len(data)} bytes at {address:#x}")
            return
        zones = {arena.zone_of(address), arena.zone_of(address + max(len(data) - 1, 0))}
        if zones != {"data"}:
            raise UsageError(f"{address:#x}: variables are in the data zone, this is {zones.pop()}")
        arena.write(address, data)

    def seen(self, thing: Any) -> int:
        """The address of an array of numpy's that `known` has found before; else 0."""
        found = self._seen.get(id(thing))
        same = found is not None and found[0]() is thing
        return found[1] if found is not None and same and thing.flags.c_contiguous else 0

    def known(self, thing: Any, what: str) -> int | None:
        """The address at which the program sees an array that is shared; None for another."""
        address = buffer_of(thing, what).address
        memory = find(address) if address else None
        if memory is None:
            return None
        self.attach(memory)
        np = sys.modules.get("numpy")
        if np is not None and thing.__class__ is np.ndarray:
            key, seen = id(thing), self._seen
            seen[key] = weakref.ref(thing, lambda gone: seen.pop(key, None)), address
        return address

    def address(self, thing: Any, what: str) -> int:
        """The address at which the program sees an array that is shared. Raises UsageError for
        another."""
        address = self.known(thing, what)
        if address is None:
            raise UsageError(
                f"{what}: the program would keep the address of a copy: pass what session.array or "
                "session.share gives"
            )
        return address


def _warn(message: str) -> None:
    """Warn of the user's line: Python tells each text once for a line."""
    frame, level, own = sys._getframe(1), 2, __name__.partition(".")[0]
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == own:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def _differ(first: int, second: int, size: int) -> bool:
    """True if so many bytes at two addresses differ."""
    one, other = ((ctypes.c_char * size).from_address(at) for at in (first, second))
    return memoryview(one).cast("B") != memoryview(other).cast("B")


class Copies:
    """The buffers among one call's arguments that are not shared: where the program sees copies.

    Parts of one array are copied as one, so that the program sees how they overlap.  Those that are
    `constant`, by number from 0, are not copied back.
    """

    def __init__(self, arrays: Arrays, arguments: Sequence[Any], constant: Sequence[bool] = ()):
        self._arrays = arrays
        self._places: dict[int, int] = {}  # by the argument's identity
        self._back: list[tuple[int, int, int]] = []  # from, to, bytes
        self._unwritable: list[tuple[int, int, int]] = []  # the same, of what may not be written
        self._keep: list[object] = []
        buffers: list[tuple[int, Buffer]] = []
        for at, thing in enumerate(arguments):
            if not isinstance(thing, (str, bytes)) and is_memory(thing):
                found = buffer_of(thing, f"argument {at + 1}")
                if at < len(constant) and constant[at]:
                    found = found._replace(writable=False, constant=True)
                self._keep.append(found)
                if not found.address or find(found.address) is None:
                    buffers.append((id(thing), found))
        self._memory = self._copy(buffers) if buffers else None

    def address(self, thing: Any) -> int:
        """The address at which the program sees one of the arguments."""
        return self._places[id(thing)]

    def _copy(self, buffers: Sequence[tuple[int, Buffer]]) -> SharedMemory:
        groups: list[tuple[int, int, list[tuple[int, Buffer]]]] = []  # start, stop, what is there
        for pair in sorted(buffers, key=lambda pair: pair[1].address):
            start, stop = pair[1].address, pair[1].address + pair[1].size
            if groups and start and start < groups[-1][1]:
                low, high, found = groups.pop()
                groups.append((low, max(high, stop), [*found, pair]))
            else:
                groups.append((start, stop, [pair]))
        at, places = 0, []
        for start, stop, _ in groups:
            at += (start - at) % _ALIGN  # as it is aligned here
            places.append(at)
            at += stop - start
        memory = self._borrow(at)
        copied = 0
        for (start, stop, found), offset in zip(groups, places, strict=True):
            here = memory.start + offset
            if start:
                ctypes.memmove(here, start, stop - start)
                if any(buffer.writable for _, buffer in found):
                    self._back.append((here, start, stop - start))
                    copied += stop - start
                elif not any(buffer.constant for _, buffer in found):
                    self._unwritable.append((here, start, stop - start))
            else:
                ctypes.memmove(here, bytes(found[0][1].data), stop)
            copied += stop - start
            for identity, buffer in found:
                self._places[identity] = here + buffer.address - start
        if copied >= _TOLD and not self._arrays.told:
            self._arrays.told = True
            _warn(
                f"{size_text(copied)} were copied for this call: session.share(array) or "
                "session.array(shape) give arrays that are not"
            )
        return memory

    def _borrow(self, size: int) -> SharedMemory:
        arrays = self._arrays
        memory, arrays.spare = arrays.spare, None
        return memory if memory is not None and memory.size >= size else arrays.make(max(size, 1))

    def end(self) -> None:
        """Copy back what could be written; of the rest, warn where it was."""
        for source, target, size in self._back:
            ctypes.memmove(target, source, size)
        lost = any(_differ(*place) for place in self._unwritable)
        memory, self._memory = self._memory, None
        if memory is not None and memory.size <= _KEPT:
            self._arrays.spare = memory
        if lost:
            _warn(
                "the function has written to an array that is read-only, and that is lost: pass a "
                "copy (array.copy()), which gets it"
            )
