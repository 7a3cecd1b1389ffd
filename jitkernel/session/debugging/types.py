"""Types of C, and LLVM's, as the debug sections of an object describe them.  Start from `Types`.

`values/debug_info.py` has the same types from the text of a module.  DWARF 5, chapter 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING

from jitkernel.errors import CompileError
from jitkernel.ir.types import parse_type
from jitkernel.values.datatype import DataType, Member
from jitkernel.values.described import KINDS, DescribedTypes
from jitkernel.values.ir import data_type_of

if TYPE_CHECKING:
    from jitkernel.elf.dwarf import DebugInfo, Local
    from jitkernel.elf.dwarf.dies import Die

__all__ = ["Types", "type_of_ir"]

_NONE: Mapping[str, str] = MappingProxyType({})
#: What leads from a variable's type to the array that it is, or points to.
_LEADING = ("pointer", "typedef", "const", "volatile", "restrict", "atomic")


class Types(DescribedTypes[int]):
    """The types that an object describes, by offsets of their entries."""

    def __init__(self, info: DebugInfo):
        super().__init__()
        self._info = info
        self._arrays: list[tuple[DataType, DataType, list[int]]] = []  # with elements, and counts
        self._constants: dict[str, tuple[int, int]] | None = None

    def type(self, offset: int) -> DataType:
        """The type whose entry is at an offset; 0 is void."""
        found = self._type(offset)
        self._complete()
        return found

    def named(self, name: str) -> DataType | None:
        """A type by its name in C: `struct pt`, `size_t`, `unsigned char`; None for none."""
        offset = self._info.type_names.get(name)
        return None if offset is None else self.type(offset)

    def enumerator(self, name: str) -> tuple[DataType, int] | None:
        """An enum's constant: its type and its value; None for none."""
        if self._constants is None:
            self._constants = {
                c.text("name"): (offset, c.number("const_value"))
                for unit in self._info.entries.units for offset in unit.types
                if self._info.entries.die(offset).tag == "enumeration_type"
                for c in self._info.entries.tree(offset).children
            }  # fmt: skip
        found = self._constants.get(name)
        return (self.type(found[0]), found[1]) if found is not None else None

    def of(
        self, local: Local, named: Mapping[str, str] = _NONE,
        length: Callable[[str], int] = lambda name: -1,
    ) -> DataType:  # fmt: skip
        """A variable's type.  That of a value of LLVM's is as `type_of_ir` reads its name.  Sides
        of arrays that are variables' have the `length` that is given for their names."""
        if local.name.startswith("%") and local.type:
            return type_of_ir(self._info.entries.die(local.type).name, named)
        found, offset = self.type(local.type), local.type
        die = self._variable(offset)
        if die is None:
            return found
        array, sides = found.bare, [part for part in die.children if part.tag == "subrange_type"]
        if array.kind == "pointer" and array.element is not None:
            array = array.element.bare
        entries = self._info.entries
        counts = [
            length(entries.die(part.reference("count")).name)
            if part.reference("count") else _count(part) for part in sides
        ]  # fmt: skip
        made = DataType("array")
        self._array(made, die, self._type(die.reference("type")), counts)
        self._complete()
        return replace(found.bare, element=made) if found.bare.kind == "pointer" else made

    def _variable(self, offset: int) -> Die | None:
        """The entry of an array with a side that is a variable's, if a type is one, or a pointer to
        one.  C11 6.7.6.2."""
        entries, pointers = self._info.entries, 0
        while offset and pointers < 2:
            die = entries.die(offset)
            if die.tag == "array_type":
                tree = entries.tree(offset)
                return tree if any(part.reference("count") for part in tree.children) else None
            pointers += die.tag == "pointer_type"
            if KINDS.get(die.tag) not in _LEADING:
                return None
            offset = die.reference("type")
        return None

    # -- filling -------------------------------------------------------------------------------

    def _complete(self) -> None:
        super()._complete()
        waiting = {id(made) for made, _, _ in self._arrays}
        while self._arrays:  # those whose elements are not arrays first
            left = [one for one in self._arrays if id(one[1].bare) in waiting]
            for made, of, counts in self._arrays:
                if id(of.bare) not in waiting or len(left) == len(self._arrays):
                    _size(made, of.bare.size, counts)
                    waiting.discard(id(made))
            self._arrays = left if len(left) < len(self._arrays) else []

    def _fill(self, made: DataType, reference: int) -> None:
        die = self._info.entries.tree(reference)
        made.name = die.text("name")
        made.size = die.number("byte_size")
        made.bits = 8 * made.size
        made.kind = KINDS.get(die.tag, "void")
        made.complete = not die.flag("declaration")
        of = self._type(die.reference("type"))
        match made.kind:
            case "array":
                self._array(made, die, of)
            case "function":
                self._function(made, die, of)
            case "struct" | "union":
                parts = [part for part in die.children if part.tag == "member"]
                made.members = tuple(self._member(p) for p in parts if not p.flag("external"))
            case "enum":
                self._enums.append((made, of))
                constants = [c for c in die.children if c.tag == "enumerator"]
                made.constants = tuple((c.text("name"), c.number("const_value")) for c in constants)
            case "void" if die.tag in ("base_type", "unspecified_type"):
                made.bits = die.number("bit_size") or made.bits  # _BitInt
                self._be_basic(made, die.tag, die.number("encoding"))
            case "void":
                pass
            case _:
                self._lead(made, of)

    def _function(self, made: DataType, die: Die, of: DataType) -> None:
        parameters = [part for part in die.children if part.tag == "formal_parameter"]
        made.element = of
        made.parameters = tuple(self._type(part.reference("type")) for part in parameters)
        made.variadic = any(part.tag == "unspecified_parameters" for part in die.children)
        if not parameters and "prototyped" not in die:
            made.variadic = True

    def _array(
        self, made: DataType, die: Die, of: DataType, counts: list[int] | None = None
    ) -> None:
        parts = [part for part in die.children if part.tag == "subrange_type"]
        counts = counts or [_count(part) for part in parts] or [-1]
        if die.flag("GNU_vector"):
            made.kind = "vector"
        self._have_sides(made, counts, of)
        self._arrays.append((made, of, counts))

    def _member(self, die: Die) -> Member:
        of, bits = self._type(die.reference("type")), die.number("bit_size")
        at = 8 * die.number("data_member_location")
        if not bits:
            return Member(die.text("name"), of, at // 8)
        if "data_bit_offset" in die:
            at += die.number("data_bit_offset")
        else:  # DWARF 3, 5.5.6: counted from the other end of a word
            size = die.number("byte_size") or self._size_of(die.reference("type"))
            at += 8 * size - die.number("bit_offset") - bits
        return Member(die.text("name"), of, at // 8, bits, at % 8)

    def _size_of(self, offset: int) -> int:
        """The bytes of the number that a bit-field is of."""
        while offset:
            die = self._info.entries.die(offset)
            if size := die.number("byte_size"):
                return size
            offset = die.reference("type")
        return 0


def _count(die: Die) -> int:
    """The elements on one side of an array, -1 where nobody says how many, or a variable does."""
    if die.reference("count"):
        return -1
    if "count" in die:
        return die.number("count", -1)
    return die.number("upper_bound", -2) + 1 if "upper_bound" in die else -1


def _size(made: DataType, size: int, counts: list[int]) -> None:
    """Set the sizes of an array, and of the arrays in it, from that of its elements."""
    outer: DataType | None = made
    for at in range(len(counts)):
        if outer is None:
            return
        if made.kind == "array" or not outer.size:  # a vector's may have padding
            outer.size = size * prod(max(count, 0) for count in counts[at:])
            outer.bits = 8 * outer.size if outer is made else 0
        outer = outer.element


def type_of_ir(text: str, named: Mapping[str, str] = _NONE) -> DataType:
    """The type that a value of LLVM's has: `i32`, `{ i32, ptr }`, and `ptr to T` of memory that
    holds a T; bytes of no known meaning where it cannot be stored.

    `named` has the bodies of named structs, `%pt` with `{ i32, i32 }`.
    """
    text, _, target = text.partition(" to ") if text.startswith("ptr") else (text, "", "")
    made = _stored(text, named)
    if target and made.kind == "pointer":
        made.element = _stored(target, named)
    return made


def _stored(text: str, named: Mapping[str, str]) -> DataType:
    try:
        return data_type_of(parse_type(text), named)
    except (CompileError, ValueError):
        return DataType("bytes", text)
