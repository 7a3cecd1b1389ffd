"""Sizes and offsets of types, from LLVM's own data layout.  Worker only.

Start from `layout_rows`.
"""

from __future__ import annotations

from typing import Any

from jitkernel.compiler import binding
from jitkernel.compiler.binding import LLVMError, Machine, lib
from jitkernel.compiler.records import SCALARS_LIMIT
from jitkernel.errors import CompileError

__all__ = ["layout_rows"]

# LLVMTypeKind of llvm-c/Core.h
_KINDS = {
    1: ("float", 16),
    2: ("float", 32),
    3: ("float", 64),
    4: ("float", 80),
    5: ("float", 128),
    6: ("float", 128),
    8: ("int", 0),
    10: ("struct", 0),
    11: ("array", 0),
    12: ("pointer", 64),
    13: ("vector", 0),
    18: ("float", 16),
}


def layout_rows(target: Machine, types: list[str], named: str) -> list[list[Any]]:
    """One row for each type, as `Layout.of` reads it; `named` defines the structs they mention."""
    lines = [f"@jk.layout.{i} = external global {text}" for i, text in enumerate(types)]
    text = target.prefix + f"{named}\n".encode() + "\n".join(lines).encode() + b"\n"
    # LLVM keeps struct layouts by the address of the type, and the next context's types will have
    # the same addresses: a data layout must not outlive the types that it was asked about.
    data = lib.CreateTargetData(target.layout.encode())
    try:
        with binding.parsed(text) as module:
            references = [lib.GlobalGetValueType(v) for v in binding.variables(module)]
            return [_row(data, ref) for ref in references[-len(types) :]] if types else []
    except LLVMError as error:
        message = error.message.partition("error: ")[2].partition("\n")[0] or error.message
        raise CompileError(f"no memory layout for {', '.join(types[:4])}: {message}") from None
    finally:
        lib.DisposeTargetData(data)


def _text(type_: int) -> str:
    """A type as it is written where it is used: an identified struct by its name."""
    text = binding.print_type(type_)
    return text.partition(" = type ")[0] if text.startswith("%") else text


def _kind(type_: int) -> tuple[str, int]:
    number = lib.GetTypeKind(type_)
    if number not in _KINDS:
        raise CompileError(f"values of type {_text(type_)} cannot be stored")
    kind, bits = _KINDS[number]
    return kind, lib.GetTypeBitWidth(type_) if kind == "int" else bits


def _row(data: int, type_: int) -> list[Any]:
    kind, bits = _kind(type_)
    if kind == "struct" and lib.IsOpaqueStruct(type_):
        raise CompileError(f"{_text(type_)} is opaque: it has no size")
    members: list[int] = []
    offsets: list[int] = []
    count = stride = packed = 0
    if kind == "struct":
        members = binding.elements(type_)
        offsets = [lib.OffsetOfElement(data, type_, i) for i in range(len(members))]
    elif kind in ("array", "vector"):
        members = binding.elements(type_)[:1]
        stride, bits = _stride(data, kind, members[0])
        count = _count(data, type_, kind, stride)
        packed = int(stride == 0 and kind == "vector")
    scalars: list[Any] = []
    complete = _flatten(data, type_, (), 0, scalars)
    return [
        _text(type_),
        lib.ABISizeOfType(data, type_),
        lib.ABIAlignmentOfType(data, type_),
        kind,
        bits,
        [_text(member) for member in members],
        offsets,
        count,
        stride,
        packed,
        [scalars, complete],
    ]


def _stride(data: int, kind: str, element: int) -> tuple[int, int]:
    """Bytes from one element to the next (0: packed in bits), and the element's width in bits.

    Arrays space their elements by the ABI size; vectors by the width alone (LangRef, Vector Type).
    """
    bits = _kind(element)[1]
    if kind == "array":
        return lib.ABISizeOfType(data, element), bits
    return (0 if bits % 8 else bits // 8), bits


def _count(data: int, type_: int, kind: str, stride: int) -> int:
    """The number of elements; the C interface cuts that of arrays to 32 bits."""
    if kind == "array" and stride:
        return int(lib.ABISizeOfType(data, type_)) // stride
    return int(lib.GetTypeElementCount(type_))


def _flatten(data: int, type_: int, path: tuple[int, ...], offset: int, scalars: list[Any]) -> bool:
    """Append the scalars of a type; False where there are too many to list."""
    kind, _ = _kind(type_)
    if kind not in ("struct", "array", "vector"):
        if len(scalars) >= SCALARS_LIMIT:
            return False
        scalars.append([path, _text(type_), offset])
        return True
    members = binding.elements(type_)
    if kind == "struct":
        for index, member in enumerate(members):
            at = offset + lib.OffsetOfElement(data, type_, index)
            if not _flatten(data, member, (*path, index), at, scalars):
                return False
        return True
    stride, _ = _stride(data, kind, members[0])
    for index in range(_count(data, type_, kind, stride)):
        before = len(scalars)
        if not _flatten(data, members[0], (*path, index), offset + index * stride, scalars):
            return False
        if len(scalars) == before:
            break  # nothing in one of them, nothing in any
    return True
