"""Whether two variables of two sessions hold the same.  Start from `Contents.first_difference`.

Both have one type.  Padding says nothing, and a pointer is what it leads to: a name and a distance,
text, a function of a library.  All of the heap is alike: nobody knows what is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from jitkernel.elf import read_object
from jitkernel.elf.constants import STT_OBJECT
from jitkernel.languages.shapes import Part, Shape, to_python
from jitkernel.printable import printable
from jitkernel.procfs import regions

if TYPE_CHECKING:
    from jitkernel.session.core import Core
    from jitkernel.values.datatype import DataType

__all__ = ["Contents", "Differing", "Leads", "shape_in_ir"]

_TEXT = 4096  # bytes of text that are read where a pointer leads
_LOOKS = 100_000  # numbers and pointers that are looked at in one variable
_LETTERS = 40  # of a value that is shown
_PLACE = re.compile(r"0x[0-9a-f]+ \((.*)\)\Z", re.DOTALL)
_CELL = re.compile(r", cell \d+\Z")
_ZONES = frozenset(("the rodata zone", "the data zone"))


class Differing(NamedTuple):
    """The first part of a variable that differs, as `[3].x`, and what it is in both sessions."""

    path: str
    here: str
    there: str


class Leads:
    """What addresses of a session's program lead to, whatever they are."""

    def __init__(self, core: Core):
        self._core = core
        self._known: dict[int, str] = {}

    def of(self, address: int) -> str:
        """A name, or what is there; the same words for what is the same."""
        found = self._known.get(address)
        if found is None:
            found = self._known[address] = self._find(address)
        return found

    def _find(self, address: int) -> str:
        if not address:
            return "null"
        words = self._core.places.describe(address)
        if words.startswith("@"):
            return _CELL.sub("", words)
        match = _PLACE.match(words)
        place = _CELL.sub("", match[1]) if match else words
        if place not in _ZONES:
            return place
        return self._inside(address) or self._text(address)

    def is_place(self, address: int) -> bool:
        """Whether a number is a pointer, as far as can be seen: to something that has a name, to
        text, or to memory of the program that is there."""
        if address in self._core.engine.arena:
            words = self.of(address)
            named = words.startswith(("@", '"')) and words != '""'
            return named or bool(self._inside(address))
        return any(start <= address < stop for start, stop in self._memory)

    @cached_property
    def _memory(self) -> list[tuple[int, int]]:
        """Where the program's process has memory."""
        found = regions(self._core.engine.executor.pid)
        return [(region.start, region.stop) for region in found]

    def behind(self, address: int) -> str:
        """The same of an address that may be the end of something: what ends there."""
        return f"behind {self.of(address - 1)}"

    @cached_property
    def _own(self) -> list[tuple[int, int, str]]:
        """Variables that only their cells know, by address."""
        return sorted(
            (address, size, name) for name, (address, size) in own_variables(self._core).items()
        )

    def _inside(self, address: int) -> str:
        for start, size, name in self._own:
            if start <= address < start + max(size, 1):
                return f"{name}+{address - start}"
        return ""

    def _text(self, address: int) -> str:
        """What stands there up to its end, as text."""
        arena = self._core.engine.arena
        zone = arena.zones[arena.zone_of(address)]
        data = arena.read(address, min(_TEXT, zone.stop - address))
        return _quoted(data.partition(b"\0")[0])


def own_variables(core: Core) -> dict[str, tuple[int, int]]:
    """Static variables of functions and their like: address and size, by name."""
    from jitkernel.linker.linkmap import read_link_map

    found: dict[str, tuple[int, int]] = {}
    program = core.program
    for cell in list(program.cells.values()):
        image = cell.image
        if image is None or image.data is None:
            continue
        record = program.store.get(cell.number)
        if record is None or not _has_own(record.object):
            continue
        for symbol in read_link_map(program.linker, image, record.object).symbols:
            if symbol.binding == "local" and symbol.kind == "object" and symbol.address:
                found[symbol.name] = symbol.address, symbol.size
    return found


def _has_own(data: bytes) -> bool:
    """Whether an object has variables that only it knows."""
    return bool(data) and any(info == STT_OBJECT for _, info, *_ in read_object(data).symbols)


def shape_in_ir(layout: DataType) -> Shape:
    """What the bytes of a type of IR's are."""
    match layout.kind:
        case "pointer":
            return Shape("pointer", 8)
        case "int" if layout.bits in (8, 16, 32, 64):
            return Shape("number", layout.size, f"i{layout.size}")
        case "int":
            return (
                Shape("bits", layout.size, "u8", layout.bits)
                if layout.bits <= 64
                else Shape("bytes", layout.size, count=(layout.bits + 7) // 8)
            )
        case "float" if layout.bits in (16, 32, 64):
            return Shape("number", layout.size, f"f{layout.size}")
        case "array" | "vector" if layout.element is not None and layout.count:
            inner = shape_in_ir(layout.element)
            if inner.size == layout.stride:
                return Shape("array", layout.count * inner.size, "", layout.count, inner)
        case "struct":
            parts = [
                Part(str(number), member.offset, shape_in_ir(member.type))
                for number, member in enumerate(layout.members)
            ]
            return Shape("struct", layout.size, parts=tuple(parts))
    used = (layout.bits + 7) // 8 if layout.kind == "float" else layout.size
    return Shape("bytes", layout.size, count=used)


class Contents:
    """Of two sessions."""

    def __init__(self, here: Core, there: Core):
        self._leads = Leads(here), Leads(there)
        self._looks = 0

    def first_difference(self, shape: Shape, here: bytes, there: bytes) -> Differing | None:
        """Where two variables of one shape differ; None where they hold the same."""
        self._looks = 0
        return self._differ(shape, memoryview(here), memoryview(there), "")

    def _differ(
        self, shape: Shape, one: memoryview, other: memoryview, path: str
    ) -> Differing | None:
        one, other = one[: shape.size], other[: shape.size]
        if one == other or self._looks > _LOOKS:
            return None
        match shape.kind:
            case "struct":
                for part in shape.parts:
                    at = slice(part.offset, part.offset + part.shape.size)
                    found = self._differ(part.shape, one[at], other[at], f"{path}.{part.name}")
                    if found is not None:
                        return found
                return None
            case "array" if shape.inner is not None:
                for index in _unequal(one, other, shape.inner.size, shape.count):
                    at = slice(index * shape.inner.size, (index + 1) * shape.inner.size)
                    found = self._differ(shape.inner, one[at], other[at], f"{path}[{index}]")
                    if found is not None:
                        return found
                return None
        self._looks += 1
        return self._of_leaf(shape, one, other, path)

    def _of_leaf(
        self, shape: Shape, one: memoryview, other: memoryview, path: str
    ) -> Differing | None:
        match shape.kind:
            case "pointer":
                here, there = self._lead(one, other)
                return None if here == there else Differing(path, here, there)
            case "bytes":
                return self._of_bytes(
                    one[: shape.count or None], other[: shape.count or None], path
                )
            case "number" if shape.code in ("i8", "u8") and self._same_place(one, other):
                return None
            case "number" if shape.code == "f16" and one[:10] == other[:10]:
                return None
        values = [to_python(shape, data) for data in (one, other)]
        if shape.kind == "bits" and values[0] == values[1]:
            return None
        here, there = map(_written, values)
        return Differing(path, here, there)

    def _of_bytes(self, one: memoryview, other: memoryview, path: str) -> Differing | None:
        """Of a union, and of what has no better shape: whole words may be pointers."""
        for at in range(0, len(one), 8):
            here, there = one[at : at + 8], other[at : at + 8]
            if here != there and not (len(here) == 8 and self._same_place(here, there)):
                return Differing(
                    path, f"bytes {one.hex()}"[:_LETTERS], f"bytes {other.hex()}"[:_LETTERS]
                )
        return None

    def _lead(self, one: memoryview, other: memoryview) -> tuple[str, str]:
        (leads, at), (others, other_at) = zip(self._leads, map(_number, (one, other)), strict=True)
        here, there = leads.of(at), others.of(other_at)
        if here != there and at and other_at and leads.behind(at) == others.behind(other_at):
            return leads.behind(at), others.behind(other_at)
        return here, there

    def _same_place(self, one: memoryview, other: memoryview) -> bool:
        """Whether two words are pointers, and lead to the same."""
        pairs = zip(self._leads, map(_number, (one, other)), strict=True)
        if not all(leads.is_place(address) for leads, address in pairs):
            return False
        here, there = self._lead(one, other)
        return here == there


def _unequal(one: memoryview, other: memoryview, size: int, count: int) -> Iterator[int]:
    """The numbers of the elements that differ, ascending."""
    todo = [(0, count)]
    while todo:
        first, last = todo.pop()
        if one[first * size : last * size] == other[first * size : last * size]:
            continue
        if last - first == 1:
            yield first
            continue
        middle = (first + last) // 2
        todo += [(middle, last), (first, middle)]


def _number(word: memoryview) -> int:
    return int.from_bytes(word, "little")


def _quoted(data: bytes) -> str:
    return '"' + data.decode("utf-8", "backslashreplace") + '"'


def _written(value: object) -> str:
    text = _quoted(value.rstrip(b"\0")) if isinstance(value, bytes) else str(value)
    text = printable(text)
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"
