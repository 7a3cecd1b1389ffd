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
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, SupportsIndex

from jitkernel.errors import UsageError
from jitkernel.ir.types import I32, I64, PTR, FloatType, Type
from jitkernel.values import literals
from jitkernel.values.ir import ir_type
from jitkernel.values.python import LETTERS
from jitkernel.values.value import TypedValue, encode_int, pack

if TYPE_CHECKING:
    from jitkernel.values.datatype import DataType
    from jitkernel.values.ir import Layouts

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

    A TypedValue as it is; others as `to_bytes` has them.
    """
    if isinstance(thing, TypedValue):
        if type is not None and thing.type != type:
            raise UsageError(f"{what} is {thing.type}, but {called() or type} is expected")
        return thing
    if type is None:
        type = _natural(thing if thing.__class__ in PLAIN else _plain(thing), what)
    return TypedValue(type, to_bytes(host.layout(type), thing, host, what, called), host.layout)


def to_bytes(
    type: DataType, thing: Any, host: Host, what: str, called: Callable[[], str] = str
) -> bytes:
    """A Python value as so many bytes.  Raises UsageError, with words as `from_python` has them.

    bool, int, float and complex, and what numpy and ctypes have of these, for numbers; None, int,
    str, bytes, handles and objects with a buffer for pointers (text and bytes are copied, a NUL
    behind them; a number or pointer of ctypes stands for what it holds or leads to; for buffers see
    `Host.buffer`); sequences and arrays for aggregates, text and bytes for arrays of i8 or of C's
    characters, which are filled up with NULs.  A struct whose members have names is a sequence of
    them in order, a mapping by their names, an object that has them all (of a dataclass, say), or
    one of numpy's records; a union is its bytes, or a mapping with one member; what ctypes has of
    the same size is as it is.
    """
    if isinstance(thing, TypedValue):
        if str(thing.type) not in (type.name, str(ir_type(type))):
            raise UsageError(f"{what} is {thing.type}, but {called() or type.words} is expected")
        return thing.data
    number, pointer = type.kind in ("int", "bool", "float"), type.kind == "pointer"
    refuse_opaque(thing, what)
    if thing.__class__ not in PLAIN and (number or pointer or type.name):
        if pointer and (address := host.shared(thing)):
            return address.to_bytes(type.size, "little")
        if not pointer or not is_memory(thing):
            thing = _plain(thing, number)
    match type.kind:
        case "int" | "bool":
            if isinstance(thing, int) or (hasattr(thing, "__index__") and not is_buffer(thing)):
                return _whole(type, operator.index(thing), what, called)
        case "float":
            if _is_real(type, thing):
                return _real(type, thing, what)
        case "complex":
            return _complex(type, thing, what)
        case "pointer":
            return _pointer(type, thing, host, what, called)
        case "struct" | "array" | "vector":
            return _aggregate(type, thing, host, what, called)
        case _:
            return _raw(type, thing, host, what)
    raise UsageError(f"{what}: a Python {_name(thing)} cannot be {called() or type.words}")


def _whole(type: DataType, whole: int, what: str, called: Callable[[], str]) -> bytes:
    if not -(1 << type.bits - 1) <= whole < 1 << type.bits:
        raise UsageError(f"{what}: {whole} does not fit {called() or type.words}")
    return encode_int(bool(whole) if type.kind == "bool" else whole, type.bits, type.size)


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
    number = _is_of_ctypes(thing, "_SimpleCData")
    return thing._type_ not in _ADDRESSES if number else is_buffer(thing)


def opaque(thing: Any) -> str:
    """The reason why an array's bytes do not tell what its elements are; "" where they do."""
    if getattr(getattr(thing, "dtype", None), "hasobject", False):  # in a member of records, too
        return "an array of Python objects has no meaning to the program"
    masked = sys.modules.get("numpy.ma")
    if masked is not None and isinstance(thing, masked.MaskedArray) and masked.is_masked(thing):
        return (
            "elements of the array are masked, which the program would not see: array.filled(x) "
            "gives one where they are x, array.data one of what they were"
        )
    return ""


def refuse_opaque(thing: Any, what: str) -> None:
    """Raises UsageError for such an array."""
    if thing.__class__ not in PLAIN and (why := opaque(thing)):
        raise UsageError(f"{what}: {why}")


def is_null(thing: Any) -> bool:
    """True if it is a pointer of ctypes that leads nowhere."""
    return _is_of_ctypes(thing, "_Pointer") and not thing


def _is_of_ctypes(thing: Any, *names: str) -> bool:
    """True if a thing is of one of these classes of ctypes, which nobody may have imported."""
    ctypes = sys.modules.get("_ctypes")
    return ctypes is not None and any(isinstance(thing, getattr(ctypes, name)) for name in names)


#: Classes of values that have no buffer and are what they are.
PLAIN = frozenset((int, float, bool, str, bytes, type(None), tuple, list))
#: Those of them that hold no others.
SIMPLE = PLAIN - {tuple, list}
#: `_type_` of ctypes' numbers that are addresses: `c_char_p`, `c_wchar_p`, `c_void_p`, `py_object`.
_ADDRESSES = "zZPO"
_AGGREGATES = ("Structure", "Union", "Array")
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
    if _is_of_ctypes(thing, "_SimpleCData"):
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


def _pointer(type: DataType, thing: Any, host: Host, what: str, called: Callable[[], str]) -> bytes:
    if thing is None:
        return bytes(type.size)
    if isinstance(thing, str):
        thing = _bytes_of(thing, what)
    if isinstance(thing, bytes):
        thing = host.allocate(thing + b"\0", 16)
    elif isinstance(thing, int):
        pass
    elif is_memory(thing):
        thing = host.buffer(thing, what)
    elif hasattr(thing, "__index__"):  # a handle of the session's, whose number is its address
        thing = host.address_in(thing, what)
    if isinstance(thing, int) and 0 <= thing < 1 << type.bits:
        return int(thing).to_bytes(type.size, "little")
    words = f"{what}: a Python {_name(thing)} cannot be {called() or type.words}"
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


def _is_real(type: DataType, thing: Any) -> bool:
    """True of a number with a point; of numpy's `longdouble` where that is the type."""
    if isinstance(thing, (int, float)):
        return not isinstance(thing, bool)
    return type.code == "f16" and getattr(thing, "dtype", None) == "longdouble"


def _real(type: DataType, thing: Any, what: str) -> bytes:
    if not isinstance(thing, (int, float)):  # without what its padding holds
        return bytes(thing.tobytes()[:10]).ljust(type.size, b"\0")
    if type.form is None:
        raise UsageError(f"{what}: {type.words} is written as no number")
    try:
        return literals.from_number(thing, type.form).to_bytes(type.size, "little")
    except ValueError as error:
        raise UsageError(f"{what}: {error}") from None


def _complex(type: DataType, thing: Any, what: str) -> bytes:
    form, half = type.form, type.size // 2
    if isinstance(thing, str) or form is None:
        raise _refusal(type, thing, what)
    try:
        number = complex(thing)
        parts = [literals.from_number(part, form) for part in (number.real, number.imag)]
    except TypeError:
        raise _refusal(type, thing, what) from None
    except (OverflowError, ValueError):
        raise UsageError(f"{what}: {thing!r} is beyond the largest number there") from None
    return b"".join(part.to_bytes(half, "little") for part in parts)


def _aggregate(
    type: DataType, thing: Any, host: Host, what: str, called: Callable[[], str]
) -> bytes:
    """The bytes of an array, a vector or a struct; only LLVM's types have names here."""
    if not type.name and _is_of_ctypes(thing, *_AGGREGATES):
        if len(given := bytes(thing)) == type.size:
            return given
    if type.is_text:
        return _text(type, thing, host, what)
    if type.name:
        two = type.elements == 2 and type.part(0).name == type.part(1).name
        if isinstance(thing, complex) and two:
            thing = (thing.real, thing.imag)  # as C has it: two numbers
        if isinstance(thing, (str, bytes)) and type.kind == "array" and type.part(0).name == "i8":
            raw = _bytes_of(thing, what) if isinstance(thing, str) else thing
            if len(raw) > type.count:
                words = f"{called() or type.name} has {type.count} bytes, and {len(raw)} are given"
                raise UsageError(f"{what}: {words}")
            return raw.ljust(type.count, b"\0")
    elif type.kind == "struct":
        return _struct(type, thing, host, what)
    if (data := _at_once(type, thing, what)) is not None:
        return data
    every = _sequence(thing, bytes if type.name else ())
    wanted = type.elements
    if not type.name and (every is None or len(every) != wanted):
        raise _refusal(type, thing, what)
    if every is None:
        raise UsageError(f"{what}: a Python {_name(thing)} cannot be {called() or type.name}")
    if len(every) != wanted:
        words = f"{called() or type.name} has {wanted} elements, and {len(every)} are given"
        raise UsageError(f"{what}: {words}")
    parts = [
        to_bytes(
            type.part(i), e, host, f"{what}, element {i}", partial(_in_words, type.part(i), called)
        )
        for i, e in enumerate(every)
    ]
    return pack(type, parts)


def _struct(type: DataType, thing: Any, host: Host, what: str) -> bytes:
    """The bytes of a struct whose members have names; of those that are not given they are zero.
    Of a union, one is given."""
    names = [member.name for member in type.members]
    if isinstance(thing, Mapping):
        if unknown := [name for name in thing if name not in names]:
            raise UsageError(f"{what} has no member {unknown[0]!r}: it has {', '.join(names)}")
        given = [(member, thing[member.name]) for member in type.members if member.name in thing]
    elif _sequence(thing) is None and names and all(hasattr(thing, name) for name in names):
        given = [(member, getattr(thing, member.name)) for member in type.members]
    else:
        every = _sequence(thing)
        if every is None or len(every) != len(names):
            raise _refusal(type, thing, what)
        given = list(zip(type.members, every, strict=True))
    data = bytearray(type.size)
    for member, one in given:
        value = to_bytes(member.type, one, host, f"{what}, {member.name}")
        place = slice(member.offset, member.offset + len(value))
        if member.bits:  # others may be in the same bytes
            bits = int.from_bytes(value, "little") << member.shift
            bits |= int.from_bytes(data[place], "little")
            value = bits.to_bytes(len(value), "little")
        data[place] = value
    return bytes(data)


def _raw(type: DataType, thing: Any, host: Host, what: str) -> bytes:
    """The bytes of a union, and of what is not known."""
    if type.members and isinstance(thing, Mapping) and len(thing) < 2:
        return _struct(type, thing, host, what)
    if isinstance(thing, bytes) or _is_of_ctypes(thing, *_AGGREGATES):
        given = bytes(thing)
        if len(given) == type.size:
            return given
    raise _refusal(type, thing, what)


def _bytes_of(text: str, what: str) -> bytes:
    """Text as UTF-8, and as it was where Python has made text of bytes that are none (PEP 383)."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        bad = ord(text[error.start])
        raise UsageError(f"{what}: character U+{bad:04X} is not text") from None


def _text(type: DataType, thing: Any, host: Host, what: str) -> bytes:
    """The bytes of characters of C's, at most so many."""
    raw: bytes | None = None
    if isinstance(thing, str):
        raw = _bytes_of(thing, what)
    elif isinstance(thing, (bytes, bytearray)):
        raw = bytes(thing)
    elif (every := _sequence(thing)) is not None:
        raw = b"".join(
            to_bytes(type.part(0), one, host, f"{what}, element {i}", lambda: "a byte")
            for i, one in enumerate(every)
        )
    if raw is None or len(raw) > type.size:
        raise _refusal(type, thing, what)
    return raw.ljust(type.size, b"\0")


def _sequence(thing: Any, also: Any = ()) -> Sequence[Any] | None:
    """The elements of a sequence that is no text, nor bytes unless they are meant `also`."""
    if hasattr(thing, "tolist"):  # numpy's arrays and records
        thing = thing.tolist()
    is_text = isinstance(thing, (str, bytes)) and not isinstance(thing, also)
    return thing if isinstance(thing, Sequence) and not is_text else None


def _refusal(type: DataType, thing: Any, what: str) -> UsageError:
    count = f" of {len(thing)}" if isinstance(thing, (list, tuple)) else ""
    given = f"a Python {_kind(thing).__name__}{count} is given"
    if type.is_text:
        return UsageError(f"{what} is text of at most {type.size} bytes: {given}")
    match type.kind:
        case "struct":
            names = ", ".join(member.name for member in type.members)
            return UsageError(f"{what} is a struct ({names}), a tuple or a dict: {given}")
        case "array" | "vector":
            return UsageError(f"{what} is an array of {type.count} elements: {given}")
        case "complex":
            return UsageError(f"{what} is a complex number: {given}")
    if type.members:
        names = ", ".join(member.name for member in type.members)
        return UsageError(f"{what} is a union, one of {names} in a dict, or its bytes: {given}")
    return UsageError(f"{what} is {type.size} bytes: {given}")


def _in_words(type: DataType, called: Callable[[], str]) -> str:
    """The words for an element where its array's type has a name of another language's."""
    if not called():
        return ""
    if type.kind == "int":
        return f"an integer of {type.bits} bits"
    return {"float": "a number", "pointer": "a pointer"}.get(type.kind, "an array")


def _at_once(type: DataType, thing: Any, what: str) -> bytes | None:
    """The bytes of many numbers; None where they must be converted one by one, or refused so that
    the first wrong one is named."""
    shape, code = dense(type)
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


def dense(type: DataType) -> tuple[tuple[int, ...], str]:
    """The shape of an array (of arrays) of numbers without gaps, and `array.array`'s code of them;
    an empty code for anything else."""
    shape: list[int] = []
    while type.element is not None and type.stride == type.element.size:
        shape.append(type.count)
        type = type.element
        if (code := LETTERS.get(type.code, "")) and code not in "e?":
            return tuple(shape), code
    return (), ""


def _of_array(
    type: DataType, thing: Any, shape: tuple[int, ...], code: str, what: str
) -> bytes | None:
    """The bytes of an array of numpy's: integers that fit, floating-point numbers rounded to
    nearest."""
    if tuple(thing.shape) != shape:
        if not type.name:
            return None
        given = tuple(thing.shape)
        raise UsageError(f"{what}: {type.name} is an array of shape {shape}, not {given}")
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
