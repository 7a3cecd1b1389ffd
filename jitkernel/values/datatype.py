"""The type of data in the program's memory, as any language has it.  Start from `DataType`.

LLVM says how a value lies in memory; its integers have no sign, its pointers lead to nothing, and
the members of its structs have no names.  Other languages say more: `language` tells whose it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["DataType", "Kind", "Member"]

Kind: TypeAlias = Literal["int", "float", "pointer", "array", "vector", "struct"]


@dataclass(slots=True)
class Member:
    """A member of a struct: `offset` in bytes."""

    name: str
    type: DataType
    offset: int


@dataclass(slots=True)
class DataType:
    """A type of data.

    `size` is the distance between two in an array, in bytes (LLVM's ABI size, padding included),
    `align` the ABI alignment, `bits` the width of an int or a float, `name` how its language writes
    it.  `element` is the type of the `count` elements of an array or a vector.
    """

    kind: Kind
    name: str = ""
    size: int = 0
    align: int = 1
    bits: int = 0
    element: DataType | None = None
    count: int = 0
    members: tuple[Member, ...] = ()
    packed: bool = False

    @property
    def stride(self) -> int:
        """The bytes from one element to the next; 0 in a vector whose elements are not whole bytes
        (`<8 x i1>`): element `i` then has bits `i*bits .. (i+1)*bits` of the value read as one
        little-endian integer.

        Arrays space their elements by the ABI size; vectors by the width (LangRef, Vector Type).
        """
        if self.element is None:
            return 0
        if self.kind == "array":
            return self.element.size
        return 0 if self.element.bits % 8 else self.element.bits // 8

    @property
    def elements(self) -> int:
        """The number of members, or of elements."""
        return len(self.members) if self.kind == "struct" else self.count

    @property
    def scalars(self) -> int:
        """The number of scalars, in members and elements at any depth."""
        if self.kind == "struct":
            return sum(member.type.scalars for member in self.members)
        return 1 if self.element is None else self.count * self.element.scalars

    def part(self, index: int) -> DataType:
        """The type of a member, or of an element."""
        return self.members[index].type if self.element is None else self.element
