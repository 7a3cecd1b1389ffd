"""Numbers of C: their bytes, and what C makes of two of them.  Start from `decode` and `common`.

C11 6.3.1; LP64.  Numbers are exact: integers, floats of up to 64 bits as Python's, wider ones as
fractions (infinities and NaNs as Python's floats).
"""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import TypeAlias

from jitkernel.values import literals
from jitkernel.values.c_numbers import (
    BOOL,
    CHAR,
    FLOATS,
    INT,
    LONG,
    NAMED,
    SIGNED,
    UINT,
    ULONG,
    UNSIGNED,
    number_type,
)
from jitkernel.values.datatype import DataType
from jitkernel.values.python import read_int

__all__ = [
    "Number", "arithmetic", "common", "converted", "decode", "encode", "is_number", "named_by_size",
    "promoted",
]  # fmt: skip

Number: TypeAlias = int | float | Fraction


_OF_SIZE = {
    (size, signed): of
    for size, signed, of in [
        (1, True, NAMED["signed char"]), (1, False, NAMED["unsigned char"]),
        (2, True, NAMED["short"]), (2, False, NAMED["unsigned short"]), (4, True, INT),
        (4, False, UINT), (8, True, LONG), (8, False, ULONG), (16, True, NAMED["__int128"]),
        (16, False, NAMED["unsigned __int128"]),
    ]
}  # fmt: skip
_RANKS = {of.name: rank for each in (SIGNED, UNSIGNED) for rank, of in enumerate(each)}
_OF_FORM = {of.form.name: of for of in FLOATS if of.form is not None}


def is_number(type: DataType) -> bool:
    """True of integers, enums, truth values and numbers with a point."""
    return type.bare.kind in ("int", "bool", "enum", "float")


def arithmetic(type: DataType) -> DataType | None:
    """C's type of a number: that of an enum's values, and of LLVM's integers a signed one in which
    they have room; None for what is none, or has more bits."""
    bare = type.bare
    if bare.kind == "bool" or (bare.kind == "int" and bare.name == "i1"):
        return BOOL
    if bare.kind == "float":
        return _OF_FORM.get(bare.form.name) if bare.form is not None else None
    if bare.kind not in ("int", "enum"):
        return None
    if bare.kind == "int" and (found := number_type(bare.name)) is not None:
        return found
    size = next((s for s in (1, 2, 4, 8, 16) if s >= bare.size), 0)
    return _OF_SIZE.get((size, bare.signed is not False))


def named_by_size(size: int, signed: bool | None) -> str:
    """The name of C's integer of so many bytes; of one whose sign is not known the plainest."""
    found = CHAR if size == 1 and signed is None else _OF_SIZE.get((size, signed is not False))
    return found.name if found is not None else ""


def decode(type: DataType, data: bytes) -> Number:
    """The number that the bytes of a type are."""
    bare = type.bare
    if bare.kind != "float":
        bits = bare.bits if bare.kind == "int" and bare.bits else 8 * bare.size
        raw = read_int(data, bits)
        if bare.kind == "bool":
            return int(bool(raw))
        negative = bare.signed is not False and bits > 1 and raw >> bits - 1
        return raw - (1 << bits) if negative else raw
    form = bare.form
    if form is None:
        raise ValueError(f"numbers of type {bare.name} are not read here")
    if form.width in (32, 64):
        found: float = struct.unpack_from("<f" if form.width == 32 else "<d", data)[0]
        return found
    bits = read_int(data, form.width)
    if form.width == 16 or literals.remark(bits, form):
        return literals.to_double(bits, form)
    return literals.fraction_of(bits, form)


def encode(type: DataType, number: Number) -> bytes:
    """The bytes of a number that is one of the type's."""
    bare = type.bare
    if bare.kind == "float":
        form = bare.form
        if form is None:
            raise ValueError(f"numbers of type {bare.name} are not written here")
        if form.width == 64:
            return struct.pack("<d", number)
        return _rounded(bare, number)
    return (int(number) & (1 << 8 * bare.size) - 1).to_bytes(bare.size, "little")


def _bits(number: Number, form: literals.Format) -> int:
    if isinstance(number, Fraction):
        sign = number < 0
        return literals.rounded(abs(number), form) | sign << form.width - 1
    if isinstance(number, float) and number != number:
        return form.infinity | 1 << form.precision - 2
    try:
        return literals.from_number(number, form)
    except ValueError:
        return form.infinity | (number < 0) << form.width - 1


def converted(number: Number, type: DataType) -> Number:
    """A number as one of another type: integers wrap around, numbers with a point are rounded to
    the nearest.  C11 6.3.1.2 to 6.3.1.5.  Raises ValueError for one that no integer is near."""
    bare = type.bare
    if bare.kind == "bool":
        return int(number != 0)
    if bare.kind == "float":
        if isinstance(number, float) and bare.size == 8:
            return number
        return decode(bare, _rounded(bare, number))
    if isinstance(number, float | Fraction):
        if isinstance(number, float) and not math.isfinite(number):
            raise ValueError(f"{number} is no integer")
        number = math.trunc(number)
        low, high = _bounds(bare)
        if not low <= number <= high:
            raise ValueError(f"the number is none of {bare.name or 'its type'}")
    bits = 8 * bare.size
    number &= (1 << bits) - 1
    return number - (1 << bits) if bare.signed is not False and number >> bits - 1 else number


def _rounded(type: DataType, number: Number) -> bytes:
    """The bytes of a number with a point, rounded to the nearest of the type's."""
    form = type.form
    if form is None:
        raise ValueError(f"numbers of type {type.name} are not written here")
    if isinstance(number, float) and form.width == 32:
        try:
            return struct.pack("<f", number)
        except OverflowError:
            return struct.pack("<f", math.copysign(math.inf, number))
    return _bits(number, form).to_bytes(type.size, "little")


def _bounds(type: DataType) -> tuple[int, int]:
    bits = 8 * type.size
    return (-1 << bits - 1, (1 << bits - 1) - 1) if type.signed is not False else (0, 2**bits - 1)


# -- conversions of operands -----------------------------------------------------------------------


def promoted(type: DataType, bits: int = 0) -> DataType:
    """The type that an operand of a number's type has: of a bit-field with so many `bits`, too.

    C11 6.3.1.1: what int has room for becomes int.
    """
    if type.kind == "float":
        return type
    if bits and type.kind == "int":
        if bits < INT.bits:
            return INT
        return type if bits > INT.bits else INT if type.signed else UINT
    return INT if type.size < INT.size else type


def common(left: DataType, right: DataType) -> DataType:
    """The type in which C computes with two promoted operands.  C11 6.3.1.8."""
    if left.kind == "float" or right.kind == "float":
        reals = [of for of in (left, right) if of.kind == "float"]
        return max(reals, key=lambda of: (of.bits, of.size))
    if left.name == right.name:
        return left
    ranks = _RANKS[left.name], _RANKS[right.name]
    if left.signed == right.signed:
        return left if ranks[0] >= ranks[1] else right
    signed, unsigned = (left, right) if left.signed else (right, left)
    rank, other = ranks if left.signed else ranks[::-1]
    if other >= rank:
        return unsigned
    if signed.size > unsigned.size:
        return signed
    return UNSIGNED[rank]
