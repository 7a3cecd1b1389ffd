"""Values as Python has them, from their bytes.  Start from `to_python`.

`conversion` writes bytes.
"""

from __future__ import annotations

import struct
from collections import namedtuple
from collections.abc import Callable
from functools import lru_cache
from mmap import PAGESIZE
from typing import Any

from jitkernel.errors import UsageError
from jitkernel.record import replace
from jitkernel.values import literals
from jitkernel.values.datatype import DataType, Member

#: Letters of `struct` by numpy's codes.
LETTERS = {
    "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q",
    "f2": "e", "f4": "f", "f8": "d", "b1": "?",
}  # fmt: skip
_LAYOUTS, _TYPE = "layouts of the program", "type of the union"  # no member's names
_kind = type


class Pointer(int):
    """An address as a Python int; `text()` is what it points to where that is text."""

    _read: Callable[[int, int], bytes] | None = None  # bytes of the program that it is of

    @classmethod
    def of(cls, address: int, layouts: object) -> Pointer:
        """An address in a program's memory, which `layouts` may read."""
        made = cls(address)
        made._read = getattr(layouts, "read", None)
        return made

    def text(self, most: int = 1 << 24) -> str:
        """The text there, up to its NUL, as UTF-8; bytes that are none are surrogates (PEP 383).

        Raises UsageError where nothing can be read, and where no NUL is within `most` bytes.
        """
        if self._read is None:
            raise UsageError(f"{self!r} is of no program that this process knows")
        found = bytearray()
        while len(found) < most:
            at = self + len(found)
            piece = self._read(at, min(-at % PAGESIZE or PAGESIZE, most - len(found)))
            if not piece:
                break
            text, nul, _ = piece.partition(b"\0")
            found += text
            if nul:
                return found.decode("utf-8", "surrogateescape")
        where = f"within {most} bytes" if len(found) >= most else "in memory that can be read"
        raise UsageError(f"no text is at {self!r}: there is no NUL {where}")

    def __reduce__(self) -> tuple[type[Pointer], tuple[int]]:
        """Elsewhere it is a number."""
        return Pointer, (int(self),)

    def __repr__(self) -> str:
        return f"Pointer(0x{self:x})" if self else "Pointer(null)"

    __str__ = __repr__


def read_int(data: bytes | memoryview, bits: int) -> int:
    """The unsigned number in the first `bits` bits."""
    return int.from_bytes(data[: (bits + 7) // 8], "little") & (1 << bits) - 1


def to_python(type: DataType, data: bytes | memoryview, layouts: object = None) -> Any:
    """bool, int, float, complex, Pointer; bytes for text and what is not known, and a union's with
    its members; tuples for arrays and structs, with names where members have some.  `layouts` are
    those of the program, whose memory pointers lead to."""
    match type.kind:
        case "int" | "bool":
            return _whole(type, read_int(data, type.bits))
        case "float":
            return _real(type, data)
        case "pointer":
            return Pointer.of(read_int(data, type.bits), layouts)
        case "complex":
            half = type.size // 2
            return complex(_real(type, data[:half]), _real(type, data[half:]))
        case "struct":
            data = memoryview(data)
            parts = [_member(member, data, layouts) for member in type.members]
            if not parts or not type.members[0].name:
                return tuple(parts)
            return _record(tuple([m.name for m in type.members]))._make(parts)
        case "array" | "vector" if not type.is_text:
            data, of = memoryview(data), type.part(0)
            if letter := LETTERS.get(of.code):
                return struct.unpack_from(f"<{type.count}{letter}", data)
            return tuple(
                [to_python(of, part_of(type, data, i), layouts) for i in range(type.count)]
            )
        case "bytes" if type.members:
            made = _union(type)(data[: type.size])
            made.__dict__[_LAYOUTS] = layouts
            return made
    return bytes(data[: type.size])


def _member(member: Member, data: bytes | memoryview, layouts: object) -> Any:
    """The value of a member, from the bytes of the whole."""
    data = data[member.offset :]
    return bit_field(member, data) if member.bits else to_python(member.type, data, layouts)


def _whole(type: DataType, raw: int) -> int | bool:
    if type.kind == "bool" or (type.bits == 1 and type.signed is None):
        return bool(raw)
    negative = type.signed is not False and raw >> type.bits - 1
    return raw - (1 << type.bits) if negative else raw


def _real(type: DataType, data: bytes | memoryview) -> Any:
    form = type.form
    if form is None:
        return read_int(data, type.bits)
    if form.width in (32, 64):
        return struct.unpack_from("<f" if form.width == 32 else "<d", data)[0]
    return literals.to_double(read_int(data, form.width), form)


def bit_field(member: Member, data: bytes | memoryview) -> int | bool:
    """The value of a bit-field, from the bytes that it is in."""
    raw = read_int(data, member.shift + member.bits) >> member.shift
    return _whole(replace(member.type.bare, bits=member.bits), raw)


def part_of(type: DataType, data: memoryview, index: int) -> memoryview:
    """The bytes of an aggregate from its element `index` on."""
    if type.kind == "struct":
        return data[type.members[index].offset :]
    if type.stride:
        return data[index * type.stride :]
    bits = type.part(0).bits
    if not bits:  # an array of nothing
        return data
    whole = read_int(data, bits * type.count)
    return memoryview((whole >> index * bits).to_bytes(type.size, "little"))


class Union(bytes):
    """The bytes of a union, each of whose members is what they are as that, as in ctypes."""

    def __repr__(self) -> str:
        shown = (f"{m.name}={getattr(self, m.name)!r}" for m in getattr(self, _TYPE).members)
        return f"union({', '.join(shown)})"

    __str__ = __repr__

    def __reduce__(self) -> tuple[Any, ...]:
        from jitkernel.values.rows import row_of  # only for pickles

        return _union_of, (row_of(getattr(self, _TYPE)), bytes(self))


@lru_cache(maxsize=1024)
def _union(type: DataType) -> Any:
    """The class of a union's values."""

    def reads(member: Member) -> property:
        return property(lambda self: _member(member, memoryview(self), vars(self)[_LAYOUTS]))

    return _kind("union", (Union,), {m.name: reads(m) for m in type.members} | {_TYPE: type})


def _union_of(row: Any, data: bytes) -> Any:
    """One that was pickled."""
    from jitkernel.values.rows import read_type  # only for pickles

    return to_python(read_type(row), data)


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
