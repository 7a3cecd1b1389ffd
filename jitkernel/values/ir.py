"""Types of LLVM's as they lie in memory on x86-64.  Start from `data_type`.

LangRef, Data Layout: `p270:32:32-p271:32:32-i64:64-i128:128-f80:128` and what LLVM takes where that
says nothing; System V psABI 3.1.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Literal

from jitkernel.errors import CompileError
from jitkernel.ir.types import (
    I8,
    PTR,
    ArrayType,
    FloatType,
    IntType,
    NamedType,
    PointerType,
    StructType,
    Type,
    VectorType,
    parse_type,
    resolve,
)
from jitkernel.values.datatype import DataType, Member
from jitkernel.values.literals import FORMATS

#: From a type to how it lies in memory.
Layouts = Callable[[Type], DataType]

_FLOATS = {**{name: form.width for name, form in FORMATS.items()}, "ppc_fp128": 128}
_SHORT = (270, 271)  # address spaces whose pointers have 32 bits
_LARGEST_ALIGN = 16  # of integers
_LARGEST = 1 << 61  # bytes; LLVM counts bits in 64


def ir_type(type: DataType) -> Type:
    """The type of LLVM's for data of a type: bytes where it is no scalar."""
    type = type.bare
    match type.kind:
        case "pointer":
            return PTR
        case "int" | "enum" | "bool" if type.size in (1, 2, 4, 8, 16):
            return IntType(8 * type.size)
        case "float" if type.form is not None:
            return FloatType(type.form.name)
    return ArrayType(type.size, I8)


@lru_cache(maxsize=4096)
def data_type(text: str) -> DataType:
    """The type that a text without names spells.  Raises as `data_type_of`."""
    return data_type_of(parse_type(text), {})


def data_type_of(type: Type, named: Mapping[str, str]) -> DataType:
    """A type of LLVM's; `named` has the bodies of those that it mentions.  Raises CompileError for
    one that cannot be stored."""
    name = str(type)
    if isinstance(type, NamedType):
        body = resolve(type, named)
        if body is type:
            raise CompileError(f"{name} is opaque: it has no size")
        type = body
    match type:
        case IntType(bits):
            made = _scalar("int", name, bits, min(_ceiling(-(-bits // 8)), _LARGEST_ALIGN))
        case FloatType(kind):
            made = _scalar("float", name, _FLOATS[kind], _ceiling(_FLOATS[kind] // 8))
        case PointerType(space):
            bits = 32 if space in _SHORT else 64
            made = _scalar("pointer", name, bits, bits // 8)
        case ArrayType(count, element):
            of = data_type_of(element, named)
            made = DataType("array", name, count * of.size, of.align, element=of, count=count)
        case VectorType(count, IntType() | FloatType() | PointerType() as element, False) if count:
            of = data_type_of(element, named)
            align = _ceiling(-(-count * of.bits // 8))
            made = DataType("vector", name, align, align, element=of, count=count)
        case StructType(members, packed):
            made = _struct(name, [data_type_of(member, named) for member in members], packed)
        case _:
            raise CompileError(f"values of type {name} cannot be stored")
    if made.size > _LARGEST:
        raise CompileError(f"values of type {name} cannot be stored: they are too large")
    return made


def _ceiling(size: int) -> int:
    """The least power of two that is not below."""
    return 1 << (size - 1).bit_length()


def _aligned(size: int, align: int) -> int:
    return size + -size % align


def _scalar(kind: Literal["int", "float", "pointer"], name: str, bits: int, align: int) -> DataType:
    return DataType(kind, name, _aligned(-(-bits // 8), align), align, bits)


def _struct(name: str, types: list[DataType], packed: bool) -> DataType:
    end, align = 0, 1
    members: list[Member] = []
    for of in types:
        at = end if packed else _aligned(end, of.align)
        members.append(Member("", of, at))
        end, align = at + of.size, max(align, 1 if packed else of.align)
    size = _aligned(end, align)
    return DataType("struct", name, size, align, members=tuple(members), packed=packed)
