"""Types of C as debug information describes them, in whatever form that stands: the nodes of a
module's text (debug_info.py), or an object's sections (session/debugging/types.py).

Start from `DescribedTypes`.  DWARF 5, chapter 5.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from jitkernel.values.c_numbers import number_type
from jitkernel.values.datatype import VOID, DataType, Kind

#: By tags, DW_TAG_.
KINDS: Mapping[str, Kind] = {
    "pointer_type": "pointer", "reference_type": "pointer", "rvalue_reference_type": "pointer",
    "typedef": "typedef", "const_type": "const", "volatile_type": "volatile",
    "restrict_type": "restrict", "atomic_type": "atomic", "structure_type": "struct",
    "class_type": "struct", "union_type": "union", "enumeration_type": "enum",
    "array_type": "array", "subroutine_type": "function", "subprogram": "function",
}  # fmt: skip
#: Encodings of base types, DW_ATE_.
ENCODINGS = {"boolean": 2, "complex_float": 3, "float": 4, "signed": 5, "signed_char": 6}
_BASIC: Mapping[int, tuple[Kind, bool | None]] = {
    2: ("bool", False), 3: ("complex", None), 4: ("float", None), 5: ("int", True),
    6: ("int", True), 13: ("int", True),
}  # fmt: skip

#: The parts of complex numbers, by the bytes of both.
_PARTS = {4: "_Float16", 8: "float", 16: "double", 32: "long double"}

Ref = TypeVar("Ref", int, str)


class DescribedTypes(ABC, Generic[Ref]):
    """Types by what refers to their descriptions, each made once."""

    def __init__(self) -> None:
        self._made: dict[Ref, DataType] = {}
        self._begun: list[Ref] = []  # those whose types have nothing in them yet
        self._enums: list[tuple[DataType, DataType]] = []  # with what they are, which has the sign

    @abstractmethod
    def _fill(self, made: DataType, reference: Ref) -> None:
        """Have a type what is described there; `_type` gives those that it leads to."""

    def _type(self, reference: Ref) -> DataType:
        """The type that is described there, perhaps with nothing in it until `_complete`; without
        a reference void."""
        if not reference:
            return VOID
        if reference not in self._made:
            self._made[reference] = DataType()
            self._begun.append(reference)
        return self._made[reference]

    def _complete(self) -> None:
        """Fill the types that are begun; they may lead to each other through thousands, so nothing
        here calls itself."""
        while self._begun:
            reference = self._begun.pop()
            self._fill(self._made[reference], reference)
        while self._enums:
            made, base = self._enums.pop()
            made.signed = base.bare.signed

    # -- what both forms say alike -------------------------------------------------------------

    @staticmethod
    def _lead(made: DataType, of: DataType) -> None:
        """Have a pointer, or a type with a qualifier or another name, lead to its type."""
        made.element = of
        if made.kind == "pointer":
            made.size, made.bits = 8, 64

    @staticmethod
    def _have_sides(made: DataType, counts: Sequence[int], of: DataType) -> None:
        """Have an array so many elements on each of its sides: in C, an array of arrays."""
        for count in counts[:-1]:
            inner = DataType("array", size=made.size // max(count, 1))
            made.count, made.element, made = count, inner, inner
        made.count, made.element = counts[-1], of

    @staticmethod
    def _be_basic(made: DataType, tag: str, encoding: int) -> None:
        """Have a type be a number of such an encoding, or what has no other description."""
        if tag == "unspecified_type":  # C23 7.21.2
            made.kind, made.name, made.size, made.bits = "pointer", "nullptr_t", 8, 64
            return
        made.kind, made.signed = _BASIC.get(encoding, ("int", False))
        if made.kind == "complex" and made.size in _PARTS:
            made.name = f"{_PARTS[made.size]} _Complex"
        elif made.kind == "complex":
            made.kind, made.signed = "int", False
        elif made.form is not None:
            made.bits = made.form.width
        elif made.kind == "int" and (known := number_type(made.name)) is not None:
            made.name = known.name  # GCC's names are others than clang's
