"""The type of data in the program's memory, as any language has it.  Start from `DataType`.

LLVM says how a value lies in memory; its integers have no sign, its pointers lead to nothing, and
the members of its structs have no names.  C says all that (`debug_info`); what Python sees of it is
`plain`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from jitkernel.record import record, replace
from jitkernel.values.literals import FORMATS, Format

Kind: TypeAlias = Literal[
    "void", "bool", "int", "float", "complex", "pointer", "array", "vector", "struct", "union",
    "enum", "function", "typedef", "const", "volatile", "restrict", "atomic", "bytes",
]  # fmt: skip
_QUALIFIED = ("typedef", "const", "volatile", "restrict", "atomic")
_OF_NUMPY = {"half": "f2", "float": "f4", "double": "f8", "x86_fp80": "f16"}
#: LLVM's names of C's types.
_FORMS = {
    "_Float16": "half", "__bf16": "bfloat", "long double": "x86_fp80", "__float128": "fp128",
    "_Float128": "fp128",
}  # fmt: skip
_DEEPEST = 20  # structs in structs


@record(frozen=False)
class Member:
    """A member of a struct or a union: `offset` in bytes; a bit-field has `bits` of them, from the
    bit `shift` on."""

    name: str
    type: DataType
    offset: int
    bits: int = 0
    shift: int = 0


@record(frozen=False, eq=False)
class DataType:
    """A type of data.  Nobody changes it who has not made it: types may lead to each other, and are
    filled when all are there.

    `name` is how its language writes it; `size` in bytes is the distance between two in an array,
    padding included, `align` LLVM's ABI alignment; `bits` is the width of a number, and of "bytes"
    those up to the last word that is not padding alone.  `signed` is an integer's, None where its
    language does not say.  `element` is the type of the `count` elements of an array or a vector
    (-1: not known), what a pointer leads to, the result of a function, and what a name or a
    qualifier is around.  `constants` are an enum's.
    """

    kind: Kind = "void"
    name: str = ""
    size: int = 0
    align: int = 1
    bits: int = 0
    signed: bool | None = None
    element: DataType | None = None
    count: int = 0
    members: tuple[Member, ...] = ()
    packed: bool = False
    complete: bool = True
    constants: tuple[tuple[str, int], ...] = ()
    parameters: tuple[DataType, ...] = ()
    variadic: bool = False

    @property
    def bare(self) -> DataType:
        """The type without names and qualifiers around it."""
        found = self
        while found.kind in _QUALIFIED and found.element is not None:
            found = found.element
        return found

    @property
    def unqualified(self) -> DataType:
        """The type without qualifiers around it."""
        found = self
        while found.kind in _QUALIFIED[1:] and found.element is not None:
            found = found.element
        return found

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
    def sides(self) -> list[int]:
        """The numbers of elements of an array, of the arrays in it, and so on."""
        if self.kind != "array" or self.element is None:
            return []
        return [self.count, *self.element.sides]

    @property
    def scalars(self) -> int:
        """The number of scalars, in members and elements at any depth."""
        if self.kind == "struct":
            return sum(member.type.scalars for member in self.members)
        return 1 if self.element is None else self.count * self.element.scalars

    @property
    def is_scalar(self) -> bool:
        """True of a number or a pointer that functions take as one; a `_BitInt` of more than 64
        bits is words."""
        if self.kind == "int":
            return self.bits <= 64 or (self.bits == 128 and "_BitInt" not in self.name)
        return self.kind in ("bool", "float", "pointer")

    @property
    def is_text(self) -> bool:
        """True of an array of C's characters."""
        of = self.element
        return self.kind == "array" and of is not None and (of.kind, of.name) == ("int", "char")

    @property
    def form(self) -> Format | None:
        """The format of a number with a point, or of a complex number's parts."""
        name = self.name.removesuffix(" _Complex")
        return FORMATS.get(_FORMS.get(name, name))

    @property
    def code(self) -> str:
        """numpy's code of a number, `u4` or `c16`; "" where it has none like that."""
        size = self.size
        if self.kind == "int" and size in (1, 2, 4, 8) and self.bits == 8 * size:
            return f"{'u' if self.signed is False else 'i'}{size}"
        if self.kind == "bool" and self.bits == 8:
            return "b1"
        if self.kind in ("float", "complex") and (form := self.form) is not None:
            code = _OF_NUMPY.get(form.name, "")
            return {"f4": "c8", "f8": "c16"}.get(code, "") if self.kind == "complex" else code
        return ""

    @property
    def constant(self) -> bool:
        """True of a pointer through which nothing is written."""
        return self.element is not None and self.element.kind == "const"

    @property
    def words(self) -> str:
        """The words for it in messages; an integer's that may have a sign are its bounds."""
        if self.kind in ("int", "bool") and self.signed is not None:
            low, high = (-1 << self.bits - 1, self.bits - 1) if self.signed else (0, self.bits)
            return f"an integer from {low} to {(1 << high) - 1}"
        return self.name or "a pointer"

    def part(self, index: int) -> DataType:
        """The type of a member, or of an element."""
        return self.members[index].type if self.element is None else self.element

    def eightbytes(self, at: int = 0) -> set[int]:
        """The indices of words of 8 bytes that are not padding alone, from the offset `at` on."""
        if self.kind == "struct":
            return set().union(*(m.type.eightbytes(at + m.offset) for m in self.members))
        if self.kind in ("array", "vector") and self.element is not None:
            steps = range(self.count)
            return set().union(*(self.element.eightbytes(at + i * self.stride) for i in steps))
        used = (self.bits + 7) // 8 if self.kind == "bytes" else self.size
        return set(range(at // 8, (at + used + 7) // 8))


VOID = DataType()
_OF_CODE: dict[str, tuple[Kind, bool | None]] = {
    "i": ("int", True), "u": ("int", False), "b": ("bool", False), "f": ("float", None),
    "c": ("complex", None),
}  # fmt: skip
_CALLED = {
    "f2": "_Float16", "f4": "float", "f8": "double", "f16": "long double", "c8": "float _Complex",
    "c16": "double _Complex",
}  # fmt: skip


def number(code: str, name: str = "") -> DataType:
    """The number that numpy's `code` is (`u4`), with the name of C's where it has one alone."""
    (kind, signed), size = _OF_CODE[code[0]], int(code[1:])
    made = DataType(kind, name or _CALLED.get(code, ""), size, bits=8 * size, signed=signed)
    if kind == "float" and made.form is not None:
        made.bits = made.form.width
    return made


def plain(type: DataType, depth: int = 0) -> DataType:
    """The type as Python sees it: without names and qualifiers, pointers lead nowhere, each member
    of a struct has a name; unions, with members, and what is not known are bytes."""
    bare, of = type.bare, type.bare.element
    if depth <= _DEEPEST:
        match bare.kind:
            case "int" | "bool" | "float" | "complex":
                return bare
            case "enum":
                return DataType("int", size=bare.size, bits=bare.bits, signed=bare.signed)
            case "pointer" | "function":
                return DataType("pointer", size=8, bits=64)
            case "array" | "vector" if of is not None and -1 not in bare.sides:
                of = plain(of, depth + (bare.kind != of.kind))
                return DataType(bare.kind, size=bare.size, element=of, count=bare.count)
            case "struct" if bare.complete:
                return DataType("struct", size=bare.size, members=_named(bare, depth))
            case "union" if bare.complete:
                members = _named(bare, depth)
                words = set[int]().union(*(m.type.eightbytes(m.offset) for m in members))
                end = min(8 * bare.size, 64 * (max(words, default=-1) + 1))
                return DataType("bytes", size=bare.size, bits=end, members=members)
    return DataType("bytes", size=bare.size, bits=8 * bare.size)


def _member(member: Member, depth: int) -> Member:
    """A member as Python sees it: a bit-field has the bytes up to its end."""
    of = plain(member.type, depth + 1)
    if member.bits:
        size = (member.shift + member.bits + 7) // 8
        of = replace(of, size=size, bits=member.bits)
    return replace(member, type=of)


def _named(type: DataType, depth: int) -> tuple[Member, ...]:
    """The members; those of a member without a name are the struct's own.  C11 6.7.2.1."""
    found: list[Member] = []
    names = {member.name for member in type.members}

    def add(member: Member, at: int = 0) -> None:
        name, number = member.name, len(found)
        while not name or any(one.name == name for one in found):
            name = f"f{number}" if f"f{number}" not in names else ""
            number += 1
        found.append(replace(member, name=name, offset=at + member.offset))

    for member in (_member(m, depth) for m in type.members):
        if not member.name and member.type.kind == "struct":
            for inner in member.type.members:
                add(inner, member.offset)
        else:
            add(member)
    return tuple(found)
