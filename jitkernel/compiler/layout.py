"""The memory layout of a type, as a worker tells it (`sizes`).  Start from `Layout`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Layout", "Scalar"]

# (path of element indices, scalar type, byte offset); for vectors whose elements are not whole
# bytes the offset is the vector's and the last index of the path numbers bits: see `Layout.packed`.
Scalar = tuple[tuple[int, ...], str, int]


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of one type, in bytes.

    `kind` is "int", "float", "pointer", "vector", "array" or "struct".
    `size` is the distance between two in an array (LLVM's ABI size, padding included),
    `align` the ABI alignment, `bits` the width of an int or a float (of an element, for vectors).
    `elements` are the types of the members: one per member for a struct, one in all for an array
    or a vector; `offsets` the members' offsets in a struct; `count` and `stride` describe arrays
    and vectors.  `packed` marks a vector whose elements are not whole bytes (`<8 x i1>`): element
    `i` then has bits `i*bits .. (i+1)*bits` of the value read as one little-endian integer, and
    `stride` is 0.  `scalars` lists everything flattened; `complete` is False where it was cut.
    """

    type: str
    size: int
    align: int
    kind: str
    bits: int = 0
    elements: tuple[str, ...] = ()
    offsets: tuple[int, ...] = ()
    count: int = 0
    stride: int = 0
    packed: bool = False
    scalars: tuple[Scalar, ...] = ()
    complete: bool = True

    @staticmethod
    def of(row: list[Any]) -> Layout:
        """From the list that the worker sends."""
        (type_, size, align, kind, bits, elements, offsets, count, stride, packed, scalars) = row
        return Layout(
            type_,
            size,
            align,
            kind,
            bits,
            tuple(elements),
            tuple(offsets),
            count,
            stride,
            bool(packed),
            tuple([(tuple(path), text, offset) for path, text, offset in scalars[0]]),
            bool(scalars[1]),
        )
