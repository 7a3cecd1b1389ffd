"""Data of the program as numbers and rows: what an expression means there.  Start from `look_up`.

Nothing runs: memory is read.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from jitkernel.errors import UsageError
from jitkernel.session.debugging.values import UNREADABLE, Value, bytes_of, type_text
from jitkernel.values.datatype import DataType, Member
from jitkernel.values.python import LETTERS, bit_field, to_python
from jitkernel.wording import size_text

if TYPE_CHECKING:
    from jitkernel.session import Session

__all__ = ["Data", "Elements", "Series", "columns", "elements", "look_up", "series"]

_LARGEST = 64 << 20  # bytes that are read for one display
_DEEPEST = 4  # structs in structs
_FEW = 16  # elements of an array within a struct that have columns of their own


class Data(NamedTuple):
    """The meaning of an expression: `value` has its type and where it is; `read` looks into the
    program, `describe` says what is at an address as values show it, `place` in words."""

    text: str
    value: Value
    read: Callable[[int, int], bytes]
    describe: Callable[[int], str]
    place: Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Elements:
    """Elements of one type, one behind the other: their bytes, and the sides of the array whose
    scalars or structs they are."""

    type: DataType
    data: bytes
    shape: tuple[int, ...]
    first: int = 0

    @property
    def count(self) -> int:
        """The number of elements."""
        return len(self.data) // self.type.bare.size

    def scalars(self) -> Elements:
        """The same without arrays among the elements: of texts their characters."""
        of, sides = _within_arrays(self.type, self.shape, is_text_one=False)
        return replace(self, type=of, shape=sides)

    def rows(self) -> Elements:
        """The same, as rows of a matrix: each element is one."""
        of = self.type
        for side in reversed(self.shape[1:]):
            of = DataType("array", size=side * of.bare.size, element=of, count=side)
        return replace(self, type=of, shape=self.shape[:1])


@dataclass(frozen=True, slots=True)
class Series:
    """Numbers in a row; `name` says of which member they are, "" where there is none."""

    name: str
    values: Sequence[float]


class Column(NamedTuple):
    """A scalar of a struct, or within it: its expression behind the element's, and its place."""

    name: str
    member: Member


def look_up(session: Session, text: str, frame: int = 0) -> Data:
    """The meaning of an expression of C, or of a name of IR's: in a frame where the program
    stands in the debugger, else among the session's variables.  Raises UsageError."""
    debugger = session.debugger
    value = debugger.value(text, frame)
    return Data(text.strip(), value, debugger.read, debugger.describe, debugger.name_of)


def elements(data: Data, count: int | None = None, first: int = 0) -> Elements:
    """The elements of an array, or `count` of them from number `first` on; of a pointer those that
    it leads to, whose number somebody has to say.

    Raises UsageError for what has none, and for memory that cannot be read.
    """
    value, text = data.value, data.text
    if value.missing:
        raise UsageError(f"{text} cannot be seen: {value.missing.strip('<>')}")
    bare = value.type.bare
    if first < 0 or (count is not None and count <= 0):
        raise UsageError("elements are counted from 0 on, and there is at least one")
    if bare.kind == "pointer":
        whole = _pointed(data, count, first)
    elif bare.kind in ("array", "vector"):
        whole = _within(value, text, count, first)
    else:
        raise UsageError(f"{text} is no array, but {type_text(value)}{_arrays_of(bare, text)}")
    of, sides = _within_arrays(whole.type)
    if not of.bare.size:
        raise UsageError(f"{text}: its elements have no bytes")
    if not whole.size:
        raise UsageError(f"{text} has no elements of its own: say how many, as --count 100")
    if whole.size > _LARGEST:
        raise UsageError(
            f"{text} has {size_text(whole.size)}, and {size_text(_LARGEST)} are shown at once: "
            "--first and --count choose elements"
        )
    found = bytes_of(whole, data.read)
    if found is None:
        raise UsageError(f"{text}: {UNREADABLE.strip('<>')}: {whole.size} bytes at "
                         f"{whole.address or 0:#x}")  # fmt: skip
    whole_bare = whole.type.bare
    if whole_bare.kind == "vector":  # whose elements share bytes
        return _bits(of, found, whole_bare.count, first, count)
    return Elements(of, found, sides, first)


def _within_arrays(
    of: DataType, sides: tuple[int, ...] = (), is_text_one: bool = True
) -> tuple[DataType, tuple[int, ...]]:
    """The type that arrays of arrays are of, and their sides; a text within an array is one
    element, if that is wanted."""
    while (bare := of.bare).kind in ("array", "vector") and bare.element is not None:
        if bare.is_text and sides and is_text_one:
            break
        of, sides = bare.element, (*sides, bare.count)
    return of, sides


def _pointed(data: Data, count: int | None, first: int) -> Value:
    """The elements that a pointer leads to, as an array."""
    bare, found = data.value.type.bare, bytes_of(data.value, data.read)
    of = bare.element
    if of is None or of.bare.kind in ("void", "function", "bytes") or not of.bare.size:
        raise UsageError(f"nothing says what {data.text} leads to: cast it, as (int *)p")
    if count is None:
        raise UsageError(f"{data.text} is a pointer: say how many elements, as --count 100")
    address = int.from_bytes(found or b"", "little") + first * of.bare.size
    whole = DataType("array", size=count * of.bare.size, element=of, count=count)
    return replace(data.value, type=whole, address=address, data=None)


def _within(value: Value, text: str, count: int | None, first: int) -> Value:
    """The elements of an array that are wanted."""
    bare = value.type.bare
    of, there = bare.element, bare.count
    if of is None:
        raise UsageError(f"nothing says what the elements of {text} are")
    if there < 0:
        there = bare.size // max(of.bare.size, 1)
    if not bare.size and count is not None:  # the last member of a struct, as it is allocated
        there = first + count
    if first >= max(there, 1):
        raise UsageError(f"{text} has {there} elements: the last is number {there - 1}")
    if bare.kind == "vector" and not bare.stride:
        return value
    count = min(there - first, there if count is None else count)
    step = bare.stride or of.bare.size
    whole = replace(bare, kind="array", count=count, size=count * step)
    return value.part(Member("", whole, first * step))


def _bits(of: DataType, data: bytes, there: int, first: int, count: int | None) -> Elements:
    """Elements of a vector that share bytes, each in bytes of its own."""
    whole, size = int.from_bytes(data, "little"), of.size or 1
    last = there if count is None else min(first + count, there)
    mask = (1 << of.bits) - 1
    found = [(whole >> at * of.bits & mask).to_bytes(size, "little") for at in range(first, last)]
    return Elements(of, b"".join(found), (len(found),), first)


def _arrays_of(type: DataType, text: str) -> str:
    """The members of a struct that are arrays, as advice."""
    names = [m.name for m in type.members if m.type.bare.kind == "array" and m.name]
    return f": {', '.join(f'{text}.{name}' for name in names[:6])}" if names else ""


def columns(type: DataType) -> list[Column]:
    """The scalars that each element of a type has: one for a number, those of a struct's members at
    any depth, of short arrays in it each element."""
    return list(_columns(type, "", 0, 0))


def _columns(type: DataType, name: str, at: int, depth: int) -> Iterator[Column]:
    bare = type.bare
    if bare.kind in ("struct", "union") and depth < _DEEPEST:
        for number, member in enumerate(bare.members):
            own = f"{name}.{member.name}" if member.name else name
            if not member.name and not depth and not bare.name.startswith(("struct", "union")):
                own = f"[{number}]"
            if member.bits:
                yield Column(own, replace(member, offset=at + member.offset))
            else:
                yield from _columns(member.type, own, at + member.offset, depth + 1)
    elif bare.kind == "array" and not bare.is_text and bare.element is not None and (
        0 <= bare.count <= _FEW and depth < _DEEPEST
    ):  # fmt: skip
        step = bare.element.bare.size
        for index in range(bare.count):
            yield from _columns(bare.element, f"{name}[{index}]", at + index * step, depth + 1)
    else:
        yield Column(name, Member(name, type, at))


def series(found: Elements) -> list[Series]:
    """The numbers of each scalar that elements have, in their order; what is no number is left
    out.  A complex one gives two."""
    made: list[Series] = []
    for name, member in columns(found.type):
        bare = member.type.bare
        if bare.kind == "complex":
            parts = [complex(one) for one in _numbers(found, member)]
            for what in ("real", "imag"):
                numbers = [getattr(part, what) for part in parts]
                made.append(Series(f"{name} ({what})".strip(), numbers))
        elif bare.kind in ("int", "bool", "float", "enum"):
            made.append(Series(name.removeprefix("."), _numbers(found, member)))
    return made


def _numbers(found: Elements, member: Member) -> list[float]:
    """The numbers of one scalar of each element."""
    bare, step = member.type.bare, found.type.bare.size
    if bare.kind == "enum":
        bare = DataType("int", size=bare.size, bits=8 * bare.size, signed=bare.signed)
    letter = LETTERS.get(bare.code)
    if letter is not None and not member.bits:
        rest = step - member.offset - bare.size
        rows = struct.iter_unpack(f"<{member.offset}x{letter}{rest}x", found.data)
        return [int(row[0]) for row in rows] if letter == "?" else [row[0] for row in rows]
    whole, numbers = memoryview(found.data), []
    for at in range(0, len(whole), step):
        part = whole[at + member.offset : at + step]
        number = bit_field(member, part) if member.bits else to_python(bare, part)
        numbers.append(_bounded(int(number)) if isinstance(number, int) else number)
    return numbers


def _bounded(number: int) -> float:
    """A number, infinite where a float would be."""
    return number if number.bit_length() <= 1023 else math.inf if number > 0 else -math.inf
