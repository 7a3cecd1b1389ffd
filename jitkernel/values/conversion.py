"""From Python values to typed ones, exactly or not at all.  Start from `from_python`.

numpy's and ctypes' scalars count as the numbers that they hold; neither is imported here.  Long
sequences of numbers are converted at once, not one by one.
"""

from __future__ import annotations

import array
import math
import operator
import struct
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, SupportsIndex

from jitkernel.errors import UsageError
from jitkernel.ir.types import I32, I64, PTR, FloatType, IntType, PointerType, Type, parse_type
from jitkernel.values import literals
from jitkernel.values.value import UNPACK, TypedValue, encode_int, pack

if TYPE_CHECKING:
    from jitkernel.values.datatype import DataType
    from jitkernel.values.ir import Layouts

__all__ = ["PLAIN", "SIMPLE", "Host", "from_python", "has_buffer", "is_buffer", "is_memory"]

_LARGEST_FLOAT = 3.4028234663852886e38
_MANY = 16  # elements from which on they are converted at once


_kind = type


class Host(Protocol):
    """The program that a value is made for."""

    def allocate(self, data: bytes, align: int) -> int:
        """The address of a copy of `data` that the cell owns."""

    def shared(self, thing: object) -> int:
        """The address of an array that was found to be shared before; else 0."""

    def buffer(self, thing: object, what: str) -> int:
        """The address of what a Python object with a buffer holds, called `what` in messages.

        Raises UsageError where there is none that stays.
        """

    def address_in(self, handle: SupportsIndex, what: str) -> int:
        """The address of a number or a handle.  Raises UsageError for another program's handle."""

    @property
    def layout(self) -> Layouts:
        """Layouts by type.  Values keep it: so it keeps alive nothing that belongs to one cell."""


def from_python(
    type: Type | None, thing: Any, host: Host, what: str = "the argument",
    called: Callable[[], str] = str,
) -> TypedValue:  # fmt: skip
    """A Python value as one of type `type` (None: as a variadic argument).  Raises UsageError, in
    which `what` is the value, and what is `called` the type where its language has another name.

    bool, int, float and complex, and what numpy and ctypes have of these, for numbers; None, int,
    str, bytes, handles and objects with a buffer for pointers (text and bytes are copied, a NUL
    behind them; a number or pointer of ctypes stands for what it holds or leads to; for buffers see
    `Host.buffer`); sequences and arrays for aggregates, text and bytes for arrays of i8, which are
    filled up with NULs; a TypedValue as it is.
    """
    if isinstance(thing, TypedValue):
        if type is not None and thing.type != type:
            raise UsageError(f"{what} is {thing.type}, but {called() or type} is expected")
        return thing
    if thing.__class__ not in PLAIN:
        if type is not None and (address := host.shared(thing)) and isinstance(type, PointerType):
            return TypedValue(type, address.to_bytes(8, "little"), host.layout)
        if not (isinstance(type, PointerType) and is_memory(thing)):
            thing = _plain(thing, number=isinstance(type, (IntType, FloatType)))
    if type is None:
        type = _natural(thing, what)
    layout = host.layout(type)
    if layout.kind == "int" and (
        isinstance(thing, int) or (hasattr(thing, "__index__") and not is_buffer(thing))
    ):
        number = operator.index(thing)
        if not -(1 << layout.bits - 1) <= number < 1 << layout.bits:
            raise UsageError(f"{what}: {number} does not fit {called() or type}")
        return TypedValue(type, encode_int(number, layout.bits, layout.size), host.layout)
    if layout.kind == "float" and isinstance(thing, (int, float)) and not isinstance(thing, bool):
        try:
            bits = literals.from_number(thing, literals.FORMATS[str(type)])
        except (ValueError, KeyError) as error:
            raise UsageError(f"{what}: {error}") from None
        return TypedValue(type, bits.to_bytes(layout.size, "little"), host.layout)
    if layout.kind == "pointer":
        return _pointer(type, thing, host, what, called)
    if layout.kind in ("struct", "array", "vector"):
        return _aggregate(type, layout, thing, host, what, called)
    raise UsageError(f"{what}: a Python {_name(thing)} cannot be {called() or type}")


def is_buffer(thing: Any) -> bool:
    """True if a pointer to what it holds can be meant: an array, not a number of numpy's."""
    kind = thing.__class__
    if kind in (bytearray, memoryview, array.array):
        return True
    if not hasattr(kind, "__setitem__") and not hasattr(kind, "_fields_"):
        return False  # numpy's scalars have buffers, too
    if is_null(thing):
        return False
    return any(hasattr(kind, name) for name in _INTERFACES) or has_buffer(thing)


def is_memory(thing: Any) -> bool:
    """The same, and where a pointer is asked for: a number of ctypes, which a function may set."""
    ctypes = sys.modules.get("_ctypes")
    number = ctypes is not None and isinstance(thing, ctypes._SimpleCData)
    return thing._type_ not in _ADDRESSES if number else is_buffer(thing)


def is_null(thing: Any) -> bool:
    """True if it is a pointer of ctypes that leads nowhere."""
    ctypes = sys.modules.get("_ctypes")
    return ctypes is not None and isinstance(thing, ctypes._Pointer) and not thing


#: Classes of values that have no buffer and are what they are.
PLAIN = frozenset((int, float, bool, str, bytes, type(None), tuple, list))
#: Those of them that hold no others.
SIMPLE = PLAIN - {tuple, list}
#: `_type_` of ctypes' numbers that are addresses: `c_char_p`, `c_wchar_p`, `c_void_p`, `py_object`.
_ADDRESSES = "zZPO"
_INTERFACES = ("__array_interface__", "__dlpack__", "__cuda_array_interface__")


def has_buffer(thing: Any) -> bool:
    """True if Python sees its bytes: the buffer protocol."""
    try:
        memoryview(thing).release()
    except TypeError:
        return False
    except ValueError:  # it is closed
        pass
    return True


def _name(thing: Any) -> str:
    """The name of a value's type: `int`, `numpy.float128`."""
    kind = thing.__class__
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _plain(thing: Any, number: bool = False) -> Any:
    """The Python number that a scalar of numpy or ctypes holds, or an array without sides where a
    `number` is wanted; anything else as it is."""
    scalar = getattr(thing, "shape", None) == () and hasattr(thing, "dtype")
    if scalar and (number or not is_buffer(thing)):
        item = thing.item()
        if isinstance(item, (int, float, complex, str, bytes)):
            return item
        if thing.dtype.kind == "f" and float(item) == item:  # a long double that a double holds
            return float(item)
        return thing
    ctypes = sys.modules.get("_ctypes")
    if ctypes is not None and isinstance(thing, ctypes._SimpleCData):
        return thing.value
    return None if is_null(thing) else thing


def _natural(thing: Any, what: str) -> Type:
    """The type of a variadic argument given as a Python value."""
    if isinstance(thing, int):
        if -(1 << 31) <= thing < 1 << 31:
            return I32
        return I64
    if isinstance(thing, float):
        return FloatType("double")
    if thing is None or isinstance(thing, (str, bytes)) or is_buffer(thing):
        return PTR
    raise UsageError(f"{what}: a Python {_name(thing)} needs a type")


def _pointer(
    type: Type, thing: Any, host: Host, what: str, called: Callable[[], str]
) -> TypedValue:
    if thing is None:
        return TypedValue(type, bytes(8), host.layout)
    if isinstance(thing, str):
        thing = thing.encode("utf-8", "surrogateescape")
    if isinstance(thing, bytes):
        thing = host.allocate(thing + b"\0", 16)
    elif isinstance(thing, int):
        pass
    elif is_memory(thing):
        thing = host.buffer(thing, what)
    elif hasattr(thing, "__index__"):  # a handle of the session's, whose number is its address
        thing = host.address_in(thing, what)
    if isinstance(thing, int) and 0 <= thing < 1 << 64:
        return TypedValue(type, int(thing).to_bytes(8, "little"), host.layout)
    words = f"{what}: a Python {_name(thing)} cannot be {called() or type}"
    raise UsageError(f"{words}{_remedy(thing)}")


def _remedy(thing: Any) -> str:
    """A hint at what to give for a pointer instead."""
    if isinstance(thing, (list, tuple, range)):
        return "; numpy.array or array.array makes of it what a pointer can lead to"
    if callable(thing):
        return "; session.export_python makes of it a function that the program can call"
    if any(hasattr(thing, name) for name in ("__array__", *_INTERFACES)) or has_buffer(thing):
        return "; numpy.asarray makes an array of it"  # a table's column, an image
    if _name(thing) in ("CArgObject", "_ctypes.CArgObject"):  # the latter from Python 3.13 on
        return "; give the object itself, without byref"
    return ""


# -- aggregates ------------------------------------------------------------------------------------


def _aggregate(
    type: Type, layout: DataType, thing: Any, host: Host, what: str, called: Callable[[], str]
) -> TypedValue:
    two = layout.elements == 2 and layout.part(0).name == layout.part(1).name
    if isinstance(thing, complex) and two:
        thing = (thing.real, thing.imag)  # as C has it: two numbers
    if isinstance(thing, (str, bytes)) and layout.kind == "array" and layout.part(0).name == "i8":
        raw = thing.encode("utf-8", "surrogateescape") if isinstance(thing, str) else thing
        if len(raw) > layout.count:
            raise UsageError(
                f"{what}: {called() or type} has {layout.count} bytes, and {len(raw)} are given"
            )
        return TypedValue(type, raw.ljust(layout.count, b"\0"), host.layout)
    data = _at_once(type, layout, thing, what)
    if data is not None:
        return TypedValue(type, data, host.layout)
    if hasattr(thing, "tolist"):
        thing = thing.tolist()
    if not isinstance(thing, Sequence) or isinstance(thing, str):
        raise UsageError(f"{what}: a Python {_name(thing)} cannot be {called() or type}")
    wanted = layout.elements
    if len(thing) != wanted:
        raise UsageError(
            f"{what}: {called() or type} has {wanted} elements, and {len(thing)} are given"
        )
    parts = [
        from_python(
            parse_type(layout.part(i).name), e, host, f"{what}, element {i}",
            partial(_in_words, layout.part(i), called),
        ).data
        for i, e in enumerate(thing)
    ]  # fmt: skip
    return TypedValue(type, pack(layout, parts), host.layout)


def _in_words(layout: DataType, called: Callable[[], str]) -> str:
    """The words for an element where its array's type has a name of another language's."""
    if not called():
        return ""
    if layout.kind == "int":
        return f"an integer of {layout.bits} bits"
    return {"float": "a number", "pointer": "a pointer"}.get(layout.kind, "an array")


def _at_once(type: Type, layout: DataType, thing: Any, what: str) -> bytes | None:
    """The bytes of many numbers; None where they must be converted one by one, or refused so that
    the first wrong one is named."""
    shape, code = dense(layout)
    if not code or (len(shape) == 1 and shape[0] < _MANY):
        return None
    if hasattr(thing, "astype") and hasattr(thing, "dtype"):
        return _of_array(type, thing, shape, code, what)
    if len(shape) > 1:
        return None
    if isinstance(thing, (bytearray, memoryview, array.array)):
        with memoryview(thing) as view:
            same = view.format == code and view.ndim == 1 and len(view) == shape[0]
            return bytes(view) if same else None
    if isinstance(thing, range):
        thing = list(thing)
    if not isinstance(thing, (list, tuple)) or len(thing) != shape[0]:
        return None
    kinds = set(map(_kind, thing))
    if not kinds <= ({int, float} if code in "fd" else {int, bool}):
        return None
    try:
        if code == "f":  # finite numbers must not become infinite, which array lets them
            return struct.pack(f"<{len(thing)}f", *thing)
        return array.array(code, thing).tobytes()
    except (OverflowError, struct.error):
        return None


def dense(layout: DataType) -> tuple[tuple[int, ...], str]:
    """The shape of an array (of arrays) of numbers without gaps, and `array.array`'s code of them;
    an empty code for anything else."""
    shape: list[int] = []
    while layout.element is not None and layout.stride == layout.element.size:
        shape.append(layout.count)
        layout = layout.element
        if code := UNPACK.get(layout.name):
            return tuple(shape), code
    return (), ""


def _of_array(type: Type, thing: Any, shape: tuple[int, ...], code: str, what: str) -> bytes | None:
    """The bytes of an array of numpy's: integers that fit, floating-point numbers rounded to
    nearest."""
    if tuple(thing.shape) != shape:
        raise UsageError(f"{what}: {type} is an array of shape {shape}, not {tuple(thing.shape)}")
    kind, size = thing.dtype.kind, struct.calcsize(code)
    if code in "fd":
        if kind not in "iuf" or thing.dtype.itemsize > 8:
            return None
        if code == "f" and ((abs(thing) > _LARGEST_FLOAT) & (abs(thing) != math.inf)).any():
            return None
        return bytes(thing.astype(f"<f{size}", copy=False).tobytes())
    if kind not in "iub":
        return None
    bits = 8 * size
    if thing.size and not -(1 << bits - 1) <= int(thing.min()) <= int(thing.max()) < 1 << bits:
        return None
    return bytes(thing.astype(f"<i{size}", copy=False).tobytes())
