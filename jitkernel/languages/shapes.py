"""What a value's bytes are to Python, where its language says more than IR does.

IR's integers have no sign, and its structs no names.  Start from `Shape`; `to_python`
reads bytes, `to_bytes` writes them.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections import namedtuple
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from jitkernel.errors import UsageError
from jitkernel.ir.types import PTR, FloatType, IntType
from jitkernel.values.conversion import from_python
from jitkernel.values.value import Pointer, TypedValue

if TYPE_CHECKING:
    from jitkernel.languages.language import Host
    from jitkernel.values.ir import Layouts

__all__ = ["Part", "Shape", "Shaped", "read_shape", "row_of", "to_bytes", "to_python"]

ShapeKind: TypeAlias = Literal["number", "bits", "pointer", "array", "text", "struct", "bytes"]
_LETTERS = {
    "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q",
    "f2": "e", "f4": "f", "f8": "d", "b1": "?",
}  # fmt: skip
_OF_CTYPES = (ctypes.Structure, ctypes.Union, ctypes.Array)
_CALLED = {"f2": "_Float16", "f4": "float", "f8": "double", "f16": "long double"}
_FLOATS = {"f2": "half", "f4": "float", "f8": "double", "f16": "x86_fp80"}


class Part(NamedTuple):
    """A member of a struct: `offset` in bytes."""

    name: str
    offset: int
    shape: Shape


@dataclass(frozen=True, slots=True)
class Shape:
    """`size` bytes: a number whose `code` is numpy's (`u4`, `c16`), `count` bits of one from the
    bit `shift` on, a pointer, `count` elements of one shape, text of so many characters, a struct's
    parts, or bytes of which no more is known, but that the first `count` are no padding (0: all).
    """

    kind: ShapeKind
    size: int
    code: str = ""
    count: int = 0
    inner: Shape | None = None
    parts: tuple[Part, ...] = ()
    shift: int = 0

    def words_of(self) -> str:
        """The words for an integer in messages: whole numbers from the least to the greatest."""
        bits = self.count if self.kind == "bits" else 8 * self.size
        signed = self.code[:1] == "i"
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        return f"an integer from {low} to {high}"

    def words(self, at: int = 0) -> set[int]:
        """The indices of words of 8 bytes that are not padding alone, from the offset `at` on."""
        if self.kind == "struct":
            return set().union(*(part.shape.words(at + part.offset) for part in self.parts))
        if self.kind == "array" and self.inner is not None:
            steps = range(self.count)
            return set().union(*(self.inner.words(at + i * self.inner.size) for i in steps))
        used = self.count or self.size if self.kind == "bytes" else self.size
        return set(range(at // 8, (at + used + 7) // 8))


class Shaped(TypedValue):
    """A value that Python sees by its shape."""

    __slots__ = ("shape",)
    shape: Shape | None

    def __init__(self, value: TypedValue, shape: Shape | None, data: bytes | None = None):
        super().__init__(value.type, value.data if data is None else data, value.layouts)
        object.__setattr__(self, "shape", shape)

    @property
    def python(self) -> Any:
        """As `to_python` has it; as IR does where there is no shape."""
        return (
            super().python if self.shape is None else to_python(self.shape, self.data, self.layouts)
        )


def to_python(shape: Shape, data: bytes | memoryview, layouts: Layouts | None = None) -> Any:
    """bool, int, float, complex, Pointer; bytes for text and what is not known; tuples, with names
    for structs.  `layouts` are those of the program, whose memory pointers lead to."""
    data = memoryview(data)[: shape.size]
    match shape.kind:
        case "number":
            return _number(shape, data)
        case "bits":
            return _bits(shape, int.from_bytes(data, "little") >> shape.shift)
        case "pointer":
            return Pointer.of(int.from_bytes(data, "little"), layouts)
        case "struct":
            parts = [to_python(part.shape, data[part.offset :], layouts) for part in shape.parts]
            return _record(tuple([part.name for part in shape.parts]))._make(parts)
        case "array" if shape.inner is not None:
            letter = _LETTERS.get(shape.inner.code, "")
            if letter:
                return struct.unpack(f"<{shape.count}{letter}", data)
            size, inner = shape.inner.size, shape.inner
            return tuple(to_python(inner, data[i * size :], layouts) for i in range(shape.count))
    return bytes(data)


@lru_cache(maxsize=1024)
def _record(names: tuple[str, ...]) -> Any:
    """The class of tuples with such names; a member that Python cannot name so has its number."""
    plain: Any = namedtuple("struct", names, rename=True)  # type: ignore[misc]
    return type("struct", (plain,), {"__slots__": (), "__reduce__": _reduced, "_names": names})


def _reduced(value: Any) -> tuple[Any, ...]:
    return _made, (value._names, tuple(value))


def _made(names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    """One that was pickled."""
    return _record(names)._make(values)


def _bits(shape: Shape, value: int) -> int | bool:
    value &= (1 << shape.count) - 1
    if shape.code == "b1":
        return bool(value)
    negative = shape.code[0] == "i" and value >> shape.count - 1
    return value - (1 << shape.count) if negative else value


def _number(shape: Shape, data: memoryview) -> Any:
    code = shape.code
    if letter := _LETTERS.get(code, ""):
        return struct.unpack(f"<{letter}", data)[0]
    if code[0] in "iu":
        return int.from_bytes(data, "little", signed=code[0] == "i")
    if code in ("c8", "c16"):
        return complex(*struct.unpack("<2f" if code == "c8" else "<2d", data))
    # f16: Intel 64 and IA-32 Architectures Software Developer's Manual, 1, 4.2.2
    mantissa, rest = struct.unpack("<QH", data[:10])
    sign, exponent = -1.0 if rest >> 15 else 1.0, rest & 0x7FFF
    if exponent == 0x7FFF:
        return math.nan if mantissa << 1 & (1 << 64) - 1 else sign * math.inf
    try:
        return sign * math.ldexp(mantissa, max(exponent, 1) - 16383 - 63)
    except OverflowError:
        return sign * math.inf


def to_bytes(shape: Shape, thing: Any, host: Host, what: str) -> bytes:
    """A Python value as so many bytes.  A struct is a sequence of its parts in order, a mapping by
    their names, an object that has them all (of a dataclass, say), or one of numpy's records; what
    ctypes has of the same size is as it is.  Raises UsageError."""
    if isinstance(thing, _OF_CTYPES) and shape.kind in ("struct", "array", "text", "bytes"):
        given = bytes(thing)
        if len(given) == shape.size:
            return given
    match shape.kind:
        case "number" if shape.code[0] in "iub":
            value = from_python(IntType(8 * shape.size), thing, host, what, shape.words_of).data
            return b"\1" if shape.code == "b1" and any(value) else value
        case "bits":
            one = from_python(IntType(shape.count), thing, host, what, shape.words_of).data
            bits = int.from_bytes(one, "little") & (1 << shape.count) - 1
            return (bits << shape.shift).to_bytes(shape.size, "little")
        case "number" if shape.code in _FLOATS:
            return from_python(
                FloatType(_FLOATS[shape.code]), thing, host, what, lambda: _CALLED[shape.code]
            ).data
        case "number" if shape.code in ("c8", "c16"):
            try:
                if isinstance(thing, str):
                    raise TypeError
                number = complex(thing)
                form = "<2f" if shape.code == "c8" else "<2d"
                return struct.pack(form, number.real, number.imag)
            except OverflowError:
                raise UsageError(f"{what}: {thing!r} is beyond the largest number there") from None
            except (TypeError, ValueError):
                raise _refusal(shape, thing, what) from None
        case "pointer":
            return from_python(PTR, thing, host, what, lambda: "a pointer").data
        case "text":
            raw = _text(thing, host, what)
            if raw is not None and len(raw) <= shape.size:
                return raw.ljust(shape.size, b"\0")
        case "array" if shape.inner is not None:
            every = _sequence(thing)
            if every is not None and len(every) == shape.count:
                return b"".join(
                    to_bytes(shape.inner, element, host, f"{what}, element {i}")
                    for i, element in enumerate(every)
                )
        case "struct":
            return _struct(shape, thing, host, what)
        case "bytes" if isinstance(thing, bytes) and len(thing) == shape.size:
            return thing
    raise _refusal(shape, thing, what)


def _struct(shape: Shape, thing: Any, host: Host, what: str) -> bytes:
    names = [part.name for part in shape.parts]
    if isinstance(thing, Mapping):
        if unknown := [name for name in thing if name not in names]:
            raise UsageError(f"{what} has no member {unknown[0]!r}: it has {', '.join(names)}")
        given = [(part, thing[part.name]) for part in shape.parts if part.name in thing]
    elif _sequence(thing) is None and names and all(hasattr(thing, name) for name in names):
        given = [(part, getattr(thing, part.name)) for part in shape.parts]
    else:
        every = _sequence(thing)
        if every is None or len(every) != len(names):
            raise _refusal(shape, thing, what)
        given = list(zip(shape.parts, every, strict=True))
    data = bytearray(shape.size)  # what is not given is zero
    for part, one in given:
        value = to_bytes(part.shape, one, host, f"{what}, {part.name}")
        place = slice(part.offset, part.offset + len(value))
        if part.shape.kind == "bits":  # others may be in the same bytes
            value = bytes(a | b for a, b in zip(data[place], value, strict=True))
        data[place] = value
    return bytes(data)


def _text(thing: Any, host: Host, what: str) -> bytes | None:
    if isinstance(thing, str):
        return thing.encode("utf-8", "surrogateescape")
    if isinstance(thing, (bytes, bytearray)):
        return bytes(thing)
    if (every := _sequence(thing)) is None:
        return None
    return b"".join(
        from_python(IntType(8), one, host, f"{what}, element {i}", lambda: "a byte").data
        for i, one in enumerate(every)
    )


def _sequence(thing: Any) -> Sequence[Any] | None:
    if hasattr(thing, "tolist"):  # numpy's arrays and records
        thing = thing.tolist()
    plain = isinstance(thing, Sequence) and not isinstance(thing, (str, bytes))
    return thing if plain else None


def _refusal(shape: Shape, thing: Any, what: str) -> UsageError:
    given = f"a Python {type(thing).__name__} is given"
    match shape.kind:
        case "struct":
            names = ", ".join(part.name for part in shape.parts)
            return UsageError(f"{what} is a struct ({names}), a tuple or a dict: {given}")
        case "array":
            return UsageError(f"{what} is an array of {shape.count} elements: {given}")
        case "text":
            return UsageError(f"{what} is text of at most {shape.size} bytes: {given}")
        case "number":
            return UsageError(f"{what} is a complex number: {given}")
    return UsageError(f"{what} is {shape.size} bytes: {given}")


# -- as they travel --------------------------------------------------------------------------------

_CODES = frozenset((*_LETTERS, "i16", "u16", "f16", "c8", "c16"))
_DEEPEST, _LARGEST = 32, 1 << 30


def row_of(shape: Shape) -> list[Any]:
    """A row that JSON can have, and `read_shape` takes."""
    parts = [[part.name, part.offset, row_of(part.shape)] for part in shape.parts]
    inner = shape.inner and row_of(shape.inner)
    return [shape.kind, shape.size, shape.code, shape.count, inner, parts, shape.shift]


def read_shape(row: Any, depth: int = 0) -> Shape:
    """The inverse.  Raises ValueError or TypeError for what is no such row."""
    kind, size, code, count, inner, parts, shift = row
    sizes = size, count, shift
    if not all(type(n) is int and 0 <= n <= _LARGEST for n in sizes) or depth > _DEEPEST:
        raise ValueError(f"{sizes!r} are no sizes")
    of = inner and read_shape(inner, depth + 1)
    made = tuple(Part(str(name), offset, read_shape(r, depth + 1)) for name, offset, r in parts)
    good = {
        "number": code in _CODES and size == int(code[1:]),
        "bits": code in _CODES and code[0] in "iub" and 0 < count and shift + count <= 8 * size,
        "pointer": size == 8,
        "array": of is not None and count * of.size == size,
        "text": count == 0,
        "struct": all(type(p.offset) is int and 0 <= p.offset <= size - p.shape.size for p in made),
        "bytes": count <= size,
    }
    if not good.get(kind):
        raise ValueError(f"{row!r} is no shape")
    return Shape(kind, size, code if kind in ("number", "bits") else "", count, of, made, shift)
