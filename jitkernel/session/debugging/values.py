"""Values of a program that stands: shown and opened.  Start from `Value` and `shown`.

They are shown as cells show their results, in one line.  Nothing is computed and nothing runs:
memory is read, and where that cannot be the text says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from jitkernel.ir.names import decode_name
from jitkernel.languages.c.values import Memory, constant_text, value_text
from jitkernel.values.c import declare
from jitkernel.values.c_numbers import NAMED
from jitkernel.values.datatype import DataType, Member
from jitkernel.values.python import bit_field
from jitkernel.values.value import text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jitkernel.elf.dwarf import Place, Read

__all__ = [
    "OPTIMISED_OUT", "UNREADABLE", "Part", "Value", "bytes_of", "children", "counts",
    "element", "members", "shown", "type_text", "value_at",
]  # fmt: skip

Describe = Callable[[int], str]

UNREADABLE, OPTIMISED_OUT = "<cannot be read>", "<optimised out>"
IN_PART = "<optimised out in part>"
_LINE = 80  # characters of a value
_MOST = 4096  # bytes of an aggregate that are read for its line
_LARGE = 1 << 20  # bytes of an aggregate that are too many to read for a line
_FEW = 21  # elements of a long array that are read for its line
_PAGE = 100  # elements that are opened where nobody says how many


@dataclass(frozen=True, slots=True)
class Value:
    """A value: of a type, at an `address`, or `data` where it is in no memory; a bit-field has
    `bits` of them, from the bit `shift` on.  `ir` is true of LLVM's, whose types are.

    `place` is the caller's, who knows how to set what is in a register; `missing` says why nothing
    is there.  `holes` are the parts of `data` that are nowhere: from and to which byte.
    """

    type: DataType
    address: int | None = None
    data: bytes | None = None
    bits: int = 0
    shift: int = 0
    ir: bool = False
    missing: str = ""
    place: Any = None
    holes: tuple[tuple[int, int], ...] = ()

    @property
    def absent(self) -> str:
        """The reason why it cannot be read as a whole; "" where it can."""
        return self.missing or (IN_PART if self.holes else "")

    @property
    def size(self) -> int:
        """The bytes that it is in."""
        return (self.shift + self.bits + 7) // 8 if self.bits else self.type.bare.size

    def part(self, of: Member) -> Value:
        """A part of it."""
        offset, made = of.offset, Value(of.type, bits=of.bits, shift=of.shift, ir=self.ir)
        if self.missing:
            return replace(made, missing=self.missing)
        if self.address is not None:
            return replace(made, address=self.address + offset & (1 << 64) - 1)
        data = self.data
        if data is None:
            return made
        size = made.size
        inside = [(max(a - offset, 0), min(b - offset, size)) for a, b in self.holes]
        holes = tuple((a, b) for a, b in inside if a < b)
        if (0, size) in holes:
            return replace(made, missing=OPTIMISED_OUT)
        return replace(made, data=data[offset : offset + size], holes=holes)


def value_at(
    type: DataType, place: Place | None, registers: Mapping[str, int], read: Read, ir: bool = False
) -> Value:
    """The value of a type at a place, as `locate` gives it; None: it was optimised out."""
    if place is None:
        return Value(type, ir=ir, missing=OPTIMISED_OUT)
    if place.kind == "memory":
        return Value(type, place.address, ir=ir)
    data, holes = place.parts(type.bare.size, registers, read)
    if holes and holes[0] == (0, type.bare.size):
        return Value(type, ir=ir, missing=OPTIMISED_OUT)
    return Value(type, data=data, ir=ir, place=place if place.settable else None, holes=holes)


class Part(NamedTuple):
    """A part of a value: what it is called, and what follows the expression of the whole to mean
    it: `.x`, `->x`, `[3]`; `*` goes in front."""

    name: str
    value: Value
    path: str

    def expression(self, whole: str) -> str:
        """The expression of this part of `whole`."""
        if not whole:
            return ""
        is_plain = whole.replace("_", "a").lstrip("%@").isalnum() or whole[-1] in ")]"
        if self.path == "*":
            return f"*{whole}" if is_plain or whole.startswith("*") else f"*({whole})"
        if self.path.startswith("->["):
            return f"(*{whole}){self.path[2:]}"
        inner = whole if not whole.startswith(("*", "&", "-", "(")) else f"({whole})"
        return inner + self.path


def bytes_of(value: Value, read: Read) -> bytes | None:
    """Its bytes; None where they cannot be read."""
    if value.holes:
        return None
    if value.data is not None:
        return value.data.ljust(value.size, b"\0")
    if value.address is None:
        return None
    data = read(value.address, value.size) if value.size else b""
    return data if len(data) == value.size else None


def type_text(value: Value) -> str:
    """Its type, as its language writes it."""
    if not value.ir:
        return declare(value.type)
    of = value.type.element
    is_typed = value.type.kind == "pointer" and of is not None
    return f"{value.type.name} to {of.name}" if is_typed and of is not None else value.type.name


# -- showing ---------------------------------------------------------------------------------------


def shown(value: Value, read: Read, describe: Describe | None = None) -> str:
    """The value in one line of at most 80 characters, without its type.

    `describe` says what is at an address: `@f`, `@g+4`, or something else.
    """
    text = _text(value, read, describe)
    text = " ".join(text.split("\n")) if "\n" in text else text
    return text if len(text) <= _LINE else text[: _LINE - 3] + "..."


def _text(value: Value, read: Read, describe: Describe | None) -> str:
    bare = value.type.bare
    if value.absent:
        return value.absent
    if bare.kind == "function":
        return _name(value.address or 0, describe, bare) or f"{value.address or 0:#x}"
    if bare.kind == "void":
        return "void"
    value = _shortened(value)
    if value.size > _LARGE:
        return "{...}"
    data = bytes_of(value, read)
    if data is None:
        return UNREADABLE
    if value.bits:
        return _bit_field(value, data)
    if value.ir:
        if bare.kind == "bytes":
            return data.hex(" ")
        return text_of(value.type, data, describe)
    if bare.kind == "pointer":
        return _pointer(bare, data, read, describe)
    more = value.type.bare.kind == "array" and bare.count - value.type.bare.count
    memory = Memory(read, partial(_name, describe=describe))
    text = value_text(value.type, data, memory)
    return text if not more else f"{text[:-1]}, /* {more} more */}}"


def _shortened(value: Value) -> Value:
    """The part of a long array that is read."""
    bare = value.type.bare
    if bare.kind != "array" or value.size <= _MOST or bare.element is None:
        return value
    size = bare.element.bare.size
    count = min(bare.count, max(_FEW, _MOST // max(size, 1)))
    return replace(value, type=replace(bare, count=count, size=count * size))


def _bit_field(value: Value, data: bytes) -> str:
    bare = value.type.bare
    found = bit_field(Member("", value.type, 0, value.bits, value.shift), data)
    if value.ir:
        return str(found).lower()
    return constant_text(bare, int(found)) if bare.kind == "enum" else str(found).lower()


def _pointer(type: DataType, data: bytes, read: Read, describe: Describe | None) -> str:
    address = int.from_bytes(data[:8], "little")
    of = type.element.bare if type.element is not None else type
    if address and (of.kind, of.name) == ("int", "char") and not read(address, 1):
        return f"{address:#x} {UNREADABLE}"
    if of.kind == "function" and (name := _name(address, describe, of)):
        return name
    return value_text(type, data, Memory(_reads_text(read), partial(_name, describe=describe)))


def _reads_text(read: Read) -> Read:
    """Reads what there is where memory ends within the bytes that are asked for."""

    def reads(address: int, size: int) -> bytes:
        found = read(address, size)
        if found or not read(address, 1):
            return found
        return read(address, min(size, -address % 4096 or 4096))

    return reads


def _name(address: int, describe: Describe | None, type: DataType | None = None) -> str:
    """C's expression for an address: `f`, `&g`; "" where it has no name."""
    found = describe(address) if describe is not None and address else ""
    if not found.startswith("@"):
        return ""
    name, plus, offset = found[1:].partition("+")
    name = decode_name(name)
    if plus:
        return f"{address:#x} <{name}+{offset}>"
    return name if type is not None and type.kind == "function" else f"&{name}"


# -- parts -----------------------------------------------------------------------------------------


def counts(value: Value, read: Read) -> tuple[int, int]:
    """The numbers of its parts with names, and of those with numbers."""
    _, whole = _opened(value, read)
    if whole is None:
        return 0, 0
    bare = whole.type.bare
    match bare.kind:
        case "struct" | "union" | "complex":
            return sum(1 for _ in members(bare)), 0
        case "array" | "vector":
            return 0, max(_count(bare), 0)
    return (1, 0) if whole is not value else (0, 0)


def children(value: Value, read: Read, start: int = 0, count: int = 0) -> list[Part]:
    """Its parts from number `start` on, `count` of them (0: all, of elements the first 100): of
    structs and unions, arrays and vectors; of a pointer those of the struct it leads to, or what it
    leads to."""
    arrow, whole = _opened(value, read)
    if whole is None:
        return []
    bare = whole.type.bare
    stop = start + count if count > 0 else None
    match bare.kind:
        case "struct" | "union" | "complex":
            return [_member_part(whole, member, arrow) for member in [*members(bare)][start:stop]]
        case "array" | "vector" if bare.element is not None:
            indices = range(max(_count(bare), 0))[start : stop or start + _PAGE]
            front = "" if whole is value else arrow
            parts = (element(bare, index, whole.ir) for index in indices)
            return [Part(part.name, whole.part(part), front + part.name) for part in parts]
    return [Part("*", whole, "*")][start:stop] if whole is not value else []


def _opened(value: Value, read: Read) -> tuple[str, Value | None]:
    """The value whose parts a value's are, and how they are reached: what it points to, if that is
    known."""
    bare = value.type.bare
    if value.missing:
        return "", None
    if bare.kind != "pointer":
        return ".", value
    of, data = bare.element, bytes_of(value, read)
    address = int.from_bytes(data[:8], "little") if data is not None else 0
    if of is None or not address or of.bare.kind in ("void", "function", "bytes"):
        return "", None
    if of.bare.kind in ("struct", "union") and not of.bare.complete:
        return "", None
    return "->", Value(of, address, ir=value.ir)


def _count(type: DataType) -> int:
    if type.kind == "vector" and type.count < 0 and type.element is not None:
        return type.size // max(type.element.bare.size, 1)
    return type.count


def members(type: DataType, at: int = 0) -> Iterator[Member]:
    """The parts with names of a struct or a union, and the halves of a complex number, with their
    places in the whole.  Those of a member without a name are the struct's own (C11 6.7.2.1);
    LLVM's, which have none, have numbers."""
    if type.kind == "complex":
        half, of = type.size // 2, NAMED[type.name.removesuffix(" _Complex")]
        yield from (Member("real", of, 0), Member("imaginary", of, half))
    for number, member in enumerate(type.members):
        bare = member.type.bare
        if member.name or member.bits:
            if member.name:
                yield replace(member, offset=at + member.offset)
        elif bare.kind in ("struct", "union") and any(m.name for m in bare.members):
            yield from members(bare, at + member.offset)
        else:
            yield replace(member, name=str(number), offset=at + member.offset)


def element(type: DataType, index: int, ir: bool) -> Member:
    """The element of an array or a vector with a number; of a vector of LLVM's it may be bits."""
    of, name = type.element or type, f"[{index}]"
    size = type.stride if ir else of.bare.size
    if size or not of.bits:
        return Member(name, of, index * size)
    at, shift = divmod(index * of.bits, 8)  # of a vector whose elements are not whole bytes
    return Member(name, of, at, of.bits, shift)


def _member_part(whole: Value, member: Member, arrow: str) -> Part:
    name, path = member.name, arrow + member.name
    if whole.ir:  # by its number: `%s[0]`
        path = f"{arrow.removesuffix('.')}[{name}]"
    return Part(name, whole.part(member), path)
