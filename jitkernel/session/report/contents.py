"""Whether two variables of two sessions hold the same.  Start from `Contents.first_difference`.

Both have one type.  Padding says nothing, and a pointer is what it leads to: a name and a distance,
text, a function of a library.  All of the heap is alike: nobody knows what is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from jitkernel.printable import printable
from jitkernel.procfs import regions
from jitkernel.session.report.places import own_symbols
from jitkernel.values.python import bit_field, to_python

if TYPE_CHECKING:
    from jitkernel.session.core import Core
    from jitkernel.values.datatype import DataType

__all__ = ["Contents", "Differing", "Leads"]

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
    return {
        symbol.name: (symbol.address, symbol.size)
        for cell in core.program.cells.values()
        if cell.image is not None and cell.image.data is not None
        for symbol in own_symbols(core.program, cell, "object")
    }


class Contents:
    """Of two sessions."""

    def __init__(self, here: Core, there: Core):
        self._leads = Leads(here), Leads(there)
        self._looks = 0

    def first_difference(self, type: DataType, here: bytes, there: bytes) -> Differing | None:
        """Where two variables of one type differ; None where they hold the same."""
        self._looks = 0
        return self._differ(type, memoryview(here), memoryview(there), "")

    def _differ(
        self, type: DataType, one: memoryview, other: memoryview, path: str
    ) -> Differing | None:
        one, other = one[: type.size], other[: type.size]
        if one == other or self._looks > _LOOKS:
            return None
        of = type.element
        if type.kind == "struct":
            for number, member in enumerate(type.members):
                at = slice(member.offset, member.offset + member.type.size)
                where = f"{path}.{member.name or number}"
                if member.bits:
                    here, there = (_written(bit_field(member, data[at])) for data in (one, other))
                    if here != there:
                        return Differing(where, here, there)
                    continue
                found = self._differ(member.type, one[at], other[at], where)
                if found is not None:
                    return found
            return None
        if of is not None and type.stride == of.size and not type.is_text:
            for index in _unequal(one, other, of.size, type.count):
                at = slice(index * of.size, (index + 1) * of.size)
                found = self._differ(of, one[at], other[at], f"{path}[{index}]")
                if found is not None:
                    return found
            return None
        self._looks += 1
        return self._of_leaf(type, one, other, path)

    def _of_leaf(
        self, type: DataType, one: memoryview, other: memoryview, path: str
    ) -> Differing | None:
        if type.kind == "pointer":
            here, there = self._lead(one, other)
            return None if here == there else Differing(path, here, there)
        if type.kind in ("bytes", "vector", "array") and not type.is_text:
            used = (type.bits + 7) // 8 or type.size
            return self._of_bytes(one[:used], other[:used], path)
        if type.code in ("i8", "u8") and self._same_place(one, other):
            return None
        used = (type.bits + 7) // 8 or type.size
        if one[:used] == other[:used]:
            return None
        values = [to_python(type, data) for data in (one, other)]
        if type.kind == "int" and values[0] == values[1]:
            return None
        here, there = map(_written, values)
        if here == there:
            return self._of_bytes(one[:used], other[:used], path)
        return Differing(path, here, there)

    def _of_bytes(self, one: memoryview, other: memoryview, path: str) -> Differing | None:
        """Of a union, and of what has no better type: whole words may be pointers."""
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
