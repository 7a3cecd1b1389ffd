"""Calls in this process that cost little more than ctypes': of functions of scalars.

`direct_call` packs arguments into the request itself and enters the runtime, so that what stops a
call is told as ever; `ctypes_function` gives a function object of ctypes for an address, with which
this module has nothing to do from then on.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from jitkernel.errors import UsageError
from jitkernel.executor.records import NotReturned, Unfit
from jitkernel.executor.scalars import scalars
from jitkernel.ir.types import FunctionType
from jitkernel.values.conversion import opaque

if TYPE_CHECKING:
    from jitkernel.executor.inline import InlineExecutor

_CtypesPointer: Any = ctypes._Pointer
_CtypesFunction: Any = ctypes._CFuncPtr  # type: ignore[attr-defined]
_CtypesNumber: Any = ctypes._SimpleCData
DIRECT = 1 << 62  # the number of every such request; others are numbered from 1


def address_of(thing: Any) -> tuple[int, object] | None:
    """The address of an object's memory, by the buffer protocol, or of what a pointer of ctypes
    leads to, and what keeps it there: as long as somebody has that, Python resizes nothing.  None
    for functions, text, bytes, what cannot be written and what is opaque."""
    if isinstance(thing, _CtypesPointer):
        thing = thing.contents if thing else None
    elif isinstance(thing, _CtypesFunction):
        return None  # its buffer holds the function's address
    elif isinstance(thing, _CtypesNumber) and thing._type_ in "zZPO":
        return None  # an address itself: `c_char_p`, `c_wchar_p`, `c_void_p`, `py_object`
    elif opaque(thing):
        return None
    try:
        memory = ctypes.c_char.from_buffer(thing)
    except (TypeError, ValueError, BufferError):
        return None
    return ctypes.addressof(memory), memory


class Program(Protocol):
    """A program that is changed in operations, which are counted."""

    operations: int
    lock: Any


class Function(Protocol):
    """A function to call; its code may move."""

    @property
    def address(self) -> int:
        """The address of the code."""


class Values(NamedTuple):
    """Arguments and results as Python has them.

    `pointer` is the class of addresses, `gives` makes one of an address that is returned; `check`
    refuses arrays of other elements than the function wants; `unsigned` is the result where it is
    an integer without a sign.
    """

    pointer: type[int]
    check: Callable[[Sequence[Any]], object] | None = None
    unsigned: bool = False
    gives: Callable[[int], Any] = int


def direct_call(
    executor: InlineExecutor,
    program: Program,
    symbol: Function,
    thunk: int,
    function: FunctionType,
    offsets: Sequence[int],
    values: Values,
) -> Callable[[tuple[Any, ...]], Any] | None:
    """A function that calls one of the program with a tuple of arguments, through a thunk for which
    they lie at `offsets` (see `scalars`); None where it takes or gives more than scalars.

    It raises Unfit before anything happened, also where there was an
    operation since this was called, and NotReturned.
    """
    pointer, check, unsigned, gives = values
    found = scalars(function, offsets, pointer, unsigned)
    if found is None:
        return None
    codes, order, kinds, result = found.codes, found.order, found.kinds, found.result
    # a request, as in replies.py: kind, number, thunk, function, arguments, result, size, 0
    layout = "<8xQQQQQ16x" + found.layout
    pointers = [i for i, code in enumerate(codes) if code == "Q"]
    pack, view, frame = struct.Struct(layout).pack_into, executor.view, executor.frame
    unpack, result_memory = struct.Struct("<" + result).unpack_from, executor.result
    args, ret = executor.arguments, executor.result_address
    lock, operations = program.lock, program.operations
    turn, ends, threads = executor.turn, executor.turn.lock, executor.own_threads
    makes = gives if result == "Q" and not unsigned else None

    def converted(arguments: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[object]]:
        """Buffers in the places of pointers, as their addresses; what keeps them there."""
        found = list(arguments)
        if len(found) != len(codes):
            raise Unfit
        if check is not None:
            check(found)
        kept = _put_addresses(found, pointers)
        if tuple(map(type, found)) not in kinds:
            raise Unfit
        return tuple(found), kept

    def direct(arguments: tuple[Any, ...]) -> Any:
        given = arguments
        if tuple(map(type, arguments)) not in kinds:
            given, _kept = converted(arguments)  # until the call has ended
        if order is not None:
            given = order(given)
        with lock:
            if program.operations != operations or turn.depth:  # in a callback
                raise Unfit
            try:
                pack(view, frame, DIRECT, thunk, symbol.address, args, ret, *given)
            except (struct.error, OverflowError):
                raise Unfit from None
            turn.caller = get_ident()
            turn.depth = 1
            try:
                stopped = executor.enter()
            finally:
                with ends:  # as in turn.py
                    turn.depth = turn.caller = 0
                threads.called = True
            if stopped:
                raise NotReturned
            if not result:
                return None
            (value,) = unpack(result_memory)
            return value if makes is None else makes(value)

    return direct


def _put_addresses(arguments: list[Any], places: Sequence[int]) -> list[object]:
    """Put addresses where buffers stand for pointers; what keeps them there.  Raises Unfit."""
    kept: list[object] = []
    for place in places:
        if not isinstance(arguments[place], int):
            if (found := address_of(arguments[place])) is None:
                raise Unfit
            arguments[place] = found[0]
            kept.append(found)
    return kept


class _Pointer(ctypes.c_void_p):
    """An argument that is an address: also of whatever has memory of its own."""

    @classmethod
    def from_param(cls, value: Any) -> Any:
        if value is None or isinstance(value, (int, bytes, str)):
            return ctypes.c_void_p.from_param(value)
        if (found := address_of(value)) is not None:
            at = ctypes.c_void_p(found[0])
            at.kept = found  # type: ignore[attr-defined]  # ctypes has it until the call has ended
            return at
        if hasattr(value, "__array_interface__"):
            raise TypeError(
                opaque(value)
                or "the array cannot be written, or its elements do not lie one behind the other, "
                "row by row: numpy.ascontiguousarray(a), or a.copy(), gives one that is right"
            )
        return ctypes.c_void_p.from_param(value)


@cache
def _pointer_to(what: str) -> type[_Pointer]:
    """One named as ctypes names them: scipy.LowLevelCallable reads a signature off that."""
    return type(f"LP_{what}", (_Pointer,), {})


def _bit(value: int) -> bool:
    """An i1 that was returned: what is above its bit is nobody's."""
    return bool(value & 1)


_CTYPES: dict[str, Any] = {
    "i1": ctypes.c_bool, "i8": ctypes.c_int8, "i16": ctypes.c_int16, "i32": ctypes.c_int32,
    "i64": ctypes.c_int64, "float": ctypes.c_float, "double": ctypes.c_double,
}  # fmt: skip
_UNSIGNED = {
    "i8": ctypes.c_uint8, "i16": ctypes.c_uint16, "i32": ctypes.c_uint32, "i64": ctypes.c_uint64,
}  # fmt: skip
_RESULTS = _CTYPES | {"i1": _bit, "ptr": ctypes.c_void_p, "void": None}


@cache
def _classes(result: Any, *arguments: Any) -> tuple[type, type]:
    """The class of a function object, and what it becomes when it can be called no more."""
    base: Any = ctypes.CFUNCTYPE(result, *arguments)

    class Function(base):  # type: ignore[misc]
        """A function of a session, called by ctypes."""

        _flags_, _restype_, _argtypes_ = base._flags_, result, arguments

        def refuse(self, why: str) -> None:
            """From now on a call raises UsageError."""
            self.why = why
            self.__class__ = Refused

    class Refused(base):  # type: ignore[misc]
        """One that is gone."""

        _flags_, _restype_, _argtypes_ = base._flags_, result, arguments

        def __call__(self, *arguments: Any, **named: Any) -> Any:
            raise UsageError(self.why)

        def refuse(self, why: str) -> None:
            self.why = why

    return Function, Refused


def ctypes_function(
    address: int,
    function: FunctionType,
    on_result: str,
    on_parameter: Mapping[int, str],
    name: str,
    leads_to: Sequence[str] = (),
    unsigned: bool = False,
) -> Any:
    """A function object of ctypes that calls what is at `address`; `name` is for messages.

    `on_result` and `on_parameter` are the attributes that a call depends on; `leads_to` what C says
    of each parameter that is a pointer, `double`; `unsigned` is the result where it is an integer
    without a sign.  Raises UsageError for what ctypes cannot pass.
    """
    if function.variadic:
        raise UsageError(f"{name} takes any number of arguments: call it by the session")
    attributes = {on_result, *on_parameter.values()} - {"", "signext", "zeroext"}
    if attributes:
        some = ", ".join(sorted(attributes))
        raise UsageError(f"ctypes knows nothing of {some}, of {name}: call it by the session")
    types: list[Any] = []
    for index, type in enumerate(function.parameters):
        text = str(type)
        if text == "ptr":
            said = leads_to[index] if index < len(leads_to) else ""
            types.append(_pointer_to(said or "void"))
            continue
        no_sign = on_parameter.get(index) == "zeroext"
        found = (_UNSIGNED.get(text) if no_sign else None) or _CTYPES.get(text)
        if found is None:
            raise UsageError(f"ctypes cannot pass {text}, of {name}: call it by the session")
        types.append(found)
    text = str(function.result)
    if text not in _RESULTS:
        raise UsageError(f"ctypes cannot return {text}, of {name}: call it by the session")
    returned = _UNSIGNED.get(text) if unsigned else None
    return _classes(returned or _RESULTS[text], *types)[0](address)
