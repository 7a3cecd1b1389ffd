"""What differs between a session and another that ran the same text.  Start from `Comparison`.

Compared are definitions, types, constants and the values of variables, and code: of functions the
bytes and what they lead to, wherever both are placed.  Padding says nothing, and a pointer is what
it leads to: a name and a distance, text, a function of a library (`Leads`).
All of the heap is alike: nobody knows what is there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from jitkernel.errors import JitError, LinkError
from jitkernel.ir.names import ASK, CONTROL, quote_name
from jitkernel.ir.types import parse_type
from jitkernel.languages import find
from jitkernel.linker import SymbolState
from jitkernel.printable import printable, shortened
from jitkernel.procfs import regions
from jitkernel.regex import regex
from jitkernel.session.program.signatures import Signature, Variable
from jitkernel.session.report.digests import digests
from jitkernel.session.report.places import own_symbols
from jitkernel.session.settings import stored_options
from jitkernel.values.datatype import DataType, number
from jitkernel.values.python import bit_field, to_python
from jitkernel.wording import counted

if TYPE_CHECKING:
    from jitkernel.linker import Symbol
    from jitkernel.session.core import Core
    from jitkernel.session.saved.store import Record

#: How long a type is that is shown.
_LONG = 60
_TEXT = 4096  # bytes of text that are read where a pointer leads
_LOOKS = 100_000  # numbers and pointers that are looked at in one variable
_LETTERS = 40  # of a value that is shown
_PLACE = regex(r"0x[0-9a-f]+ \((.*)\)\Z", re.DOTALL)
_CELL = regex(r", cell \d+\Z")
_ZONES = frozenset(("the rodata zone", "the data zone"))


class Difference(NamedTuple):
    """One thing that differs.

    `kind` is `value`, `type`, `code`, `gone` (no cell has it any more), `new` (it is missing here)
    or `ends` (how a cell ended); `name` is as the language writes it, with the part that differs,
    `here` and `there` what it is in the session and in the other one, empty for nothing.  `cell` is
    the number of the session's cell that is concerned, 0 for none.
    """

    kind: str
    name: str
    here: str = ""
    there: str = ""
    cell: int = 0

    def __str__(self) -> str:
        match self.kind:
            case "gone":
                why = self.there or "no cell defines it any more"
                return f"{self.name} ({self.here}) is here, and {why}"
            case "new":
                return f"{self.name} ({self.there}) is missing here, and a fresh run has it"
            case "code":
                return f"the code of {self.name} is not what a fresh run has"
            case "ends":
                return (
                    f"{self.name} ended with {self.here} here, and with {self.there} in a fresh run"
                )
        return f"{self.name} is {self.here} here, and {self.there} in a fresh run"


class Comparison:
    """The differences, in the order of names; `tick` is called between them.

    Neither session may run code meanwhile.  Nothing of either changes.
    """

    def __init__(self, here: Core, there: Core, tick: Callable[[], object] = lambda: None):
        self._here, self._there, self._tick = here, there, tick
        self._leads = Leads(here), Leads(there)
        self._looks = 0  # at numbers and pointers of one variable
        self._digests: dict[tuple[int, int], dict[str, bytes]] = {}

    def __iter__(self) -> Iterator[Difference]:
        here, there = _own(self._here), _own(self._there)
        typed = set()
        for name in sorted({*here, *there}):
            self._tick()
            one, other = here.get(name), there.get(name)
            if one is None or other is None:
                found: Difference | None = self._alone(name, one, other)
            else:
                found = self._types(name, one, other)
            if found is not None:
                typed.add(name)
            elif one is not None and other is not None:
                found = self._code(name, one, other) if one.is_function else self._value(name, one)
            if found is not None:
                yield found
        yield from self._declarations(typed)
        yield from self._own_variables()

    # -- definitions and types -------------------------------------------------------------------

    def _alone(self, name: str, one: Symbol | None, other: Symbol | None) -> Difference:
        """A name that only one of them defines."""
        if one is not None:
            return Difference("gone", self._called(name), _kind(one), "", one.cell)
        what = _kind(other) if other is not None else ""
        return Difference("new", self._there.program.called(name), "", what)

    def _types(self, name: str, one: Symbol, other: Symbol) -> Difference | None:
        """Of a name that both define: what it is."""
        here, there = _type(one), _type(other)
        if here == there and one.is_function == other.is_function:
            return None
        said = self._said(self._here, name), self._said(self._there, name)
        says = said if all(said) else (here, there)
        if says[0] == says[1]:
            sized = (
                f"{says[0]}, {counted(one.size, 'byte')}",
                f"{says[0]}, {counted(other.size, 'byte')}",
            )
            says = sized if one.size != other.size else (here, there)
        return Difference("type", self._called(name), _short(says[0]), _short(says[1]), one.cell)

    def _declarations(self, known: set[str]) -> Iterator[Difference]:
        """The declarations of cells beside definitions; `known` are names of which it is told."""
        here, there = _declared(self._here), _declared(self._there)
        for fact in sorted({*here, *there}):
            name, one, cell = here.get(fact) or there[fact]._replace(text="", cell=0)
            other = there[fact].text if fact in there else ""
            if one != other and name not in known:
                yield _of_two(name, _short(one), _short(other), cell)

    # -- values ----------------------------------------------------------------------------------

    def _value(self, name: str, one: Symbol) -> Difference | None:
        info = one.info
        data, other = _bytes(self._here, name), _bytes(self._there, name)
        if data == other:
            return None
        type = self._seen(name, info, one.size)
        found = self._first_difference(type, data, other)
        return found and found._replace(name=self._called(name) + found.name, cell=one.cell)

    def _seen(self, name: str, info: object, size: int) -> DataType:
        """Its bytes, as the compared session has it: nothing is asked of this one."""
        there = self._there
        try:
            if (said := there.said(name)) is not None and said.result is not None:
                return said.result
            if isinstance(info, Variable):
                return there.program.layouts(parse_type(info.shown))
        except JitError:  # a type of too many parts
            pass
        return _unknown(size)

    def _own_variables(self) -> Iterator[Difference]:
        """Static variables of functions, whose types nobody knows any more."""
        here, there = own_variables(self._here), own_variables(self._there)
        for name in sorted(here.keys() & there.keys()):
            (at, size), (other_at, other_size) = here[name], there[name]
            if size != other_size:
                yield Difference("type", name, f"{size} bytes", f"{other_size} bytes")
                continue
            data = (
                self._here.engine.arena.read(at, size),
                self._there.engine.arena.read(other_at, size),
            )
            found = self._first_difference(_unknown(size), *data)
            if found is not None:
                yield found._replace(name=name)

    # -- code ------------------------------------------------------------------------------------

    def _code(self, name: str, one: Symbol, other: Symbol) -> Difference | None:
        here, there = self._here.store.get(one.cell), self._there.store.get(other.cell)
        if here is None or there is None or here.object == there.object:
            return None
        if _asks(one) and _asks(other):
            return None  # what they hand to Python is numbered in the order of a session
        if stored_options(here).reloc != stored_options(there).reloc:
            return None  # the arena of one is where code of another form is needed
        if self._digests_of(0, here).get(name) == self._digests_of(1, there).get(name):
            return None
        return Difference("code", self._called(name), "", "", one.cell)

    def _digests_of(self, session: int, record: Record) -> dict[str, bytes]:
        key = session, record.number
        if key not in self._digests:
            try:
                self._digests[key] = digests(record.object)
            except LinkError:
                self._digests[key] = {}
        return self._digests[key]

    # -- words -----------------------------------------------------------------------------------

    def _called(self, name: str) -> str:
        return self._here.program.called(name)

    @staticmethod
    def _said(core: Core, name: str) -> str:
        """The declaration in its language; "" where that is IR."""
        notes, symbol = core.program.state.notes, core.program.linker.symbols[name]
        cell = symbol.cell
        if not (language := notes.language_of(cell)):
            return ""
        end = f":{name.removeprefix(CONTROL)}"
        own = [n for key, n in notes.found.items() if key.endswith(end) and n.cell == cell]
        return next(filter(None, (find(language).declares(note.kept) for note in own)), "")

    # -- what variables hold ---------------------------------------------------------------------

    def _first_difference(self, type: DataType, here: bytes, there: bytes) -> Difference | None:
        """The place where two variables of one type differ; None where they hold the same."""
        self._looks = 0
        return next(self._differ(type, memoryview(here), memoryview(there), ""), None)

    def _differ(
        self, type: DataType, one: memoryview, other: memoryview, path: str
    ) -> Iterator[Difference]:
        one, other = one[: type.size], other[: type.size]
        if one == other or self._looks > _LOOKS:
            return
        of = type.element
        if type.kind == "struct":
            for number, member in enumerate(type.members):
                at = slice(member.offset, member.offset + member.type.size)
                where = f"{path}.{member.name or number}"
                if member.bits:
                    here, there = (_written(bit_field(member, data[at])) for data in (one, other))
                    if here != there:
                        yield Difference("value", where, here, there)
                else:
                    yield from self._differ(member.type, one[at], other[at], where)
        elif of is not None and type.stride == of.size and not type.is_text:
            for index in _unequal(one, other, of.size, type.count):
                at = slice(index * of.size, (index + 1) * of.size)
                yield from self._differ(of, one[at], other[at], f"{path}[{index}]")
        else:
            self._looks += 1
            yield from self._of_leaf(type, one, other, path)

    def _of_leaf(
        self, type: DataType, one: memoryview, other: memoryview, path: str
    ) -> Iterator[Difference]:
        used = (type.bits + 7) // 8 or type.size
        if type.kind == "pointer":
            here, there = self._lead(one, other)
            if here != there:
                yield Difference("value", path, here, there)
        elif type.kind in ("bytes", "vector", "array") and not type.is_text:
            yield from self._of_bytes(one[:used], other[:used], path)
        elif type.code in ("i8", "u8") and self._same_place(one, other):
            return
        elif one[:used] != other[:used]:
            values = [to_python(type, data) for data in (one, other)]
            here, there = map(_written, values)
            if type.kind == "int" and values[0] == values[1]:
                return
            if here == there:
                yield from self._of_bytes(one[:used], other[:used], path)
            else:
                yield Difference("value", path, here, there)

    def _of_bytes(self, one: memoryview, other: memoryview, path: str) -> Iterator[Difference]:
        """Of a union, and of what has no better type: whole words may be pointers."""
        for at in range(0, len(one), 8):
            here, there = one[at : at + 8], other[at : at + 8]
            if here != there and not (len(here) == 8 and self._same_place(here, there)):
                words = [f"bytes {data.hex()}"[:_LETTERS] for data in (one, other)]
                yield Difference("value", path, words[0], words[1])

    def _lead(self, one: memoryview, other: memoryview) -> tuple[str, str]:
        (leads, at), (others, other_at) = zip(self._leads, map(_number, (one, other)), strict=True)
        here, there = leads.of(at), others.of(other_at)
        if here != there and at and other_at and leads.behind(at) == others.behind(other_at):
            return leads.behind(at), others.behind(other_at)
        return here, there

    def _same_place(self, one: memoryview, other: memoryview) -> bool:
        """True if two words are pointers, and lead to the same."""
        pairs = zip(self._leads, map(_number, (one, other)), strict=True)
        if not all(leads.is_place(address) for leads, address in pairs):
            return False
        here, there = self._lead(one, other)
        return here == there


class _Declared(NamedTuple):
    """A name, all that its declaration says, and the number of the cell that has it."""

    name: str
    text: str
    cell: int


def _declared(core: Core) -> dict[tuple[str, str], _Declared]:
    """The declarations of languages: types, macros, signs of numbers; and the types that cells of
    IR name, those of other languages are among the former."""
    state, found = core.program.state, {}
    for key, note in state.notes.found.items():
        text = find(key.partition(":")[0]).declares(note.kept)
        found["note", key] = _Declared(key.rpartition(":")[2], text, note.cell)
    for name, cell in state.owners.items():
        if not state.notes.language_of(cell):
            body = _short(state.types.get(name, ""))
            found["type", name] = _Declared(f"%{quote_name(name)}", body, cell)
    return found


def _of_two(name: str, here: str, there: str, cell: int) -> Difference:
    """Of what both define, or one of them."""
    kind = "new" if not here else "gone" if not there else "type"
    return Difference(kind, name, here, there, cell)


def _own(core: Core) -> dict[str, Symbol]:
    """The definitions of cells."""
    return {
        name: symbol
        for name, symbol in core.program.linker.symbols.items()
        if symbol.state is SymbolState.DEFINED and symbol.cell
    }


def _kind(symbol: Symbol) -> str:
    return "function" if symbol.is_function else "variable"


def _type(symbol: Symbol) -> str:
    """All that makes a type another, with the size of a variable."""
    info = symbol.info
    if isinstance(info, Signature):
        return " ".join(filter(None, info[:4]))
    if isinstance(info, Variable):
        return f"{'constant ' * info.constant}{info.type}, {counted(symbol.size, 'byte')}"
    return "" if symbol.is_function else counted(symbol.size, "byte")


def _short(text: str) -> str:
    return printable(shortened(text, _LONG))


def _bytes(core: Core, name: str) -> bytes:
    """The bytes of a variable; of a thread-local one, those that cells see."""
    symbol = core.program.linker.symbols[name]
    if name.startswith(CONTROL):
        return core.engine.copies.content(symbol)
    return core.engine.arena.read(symbol.address, symbol.size)


def _unknown(size: int) -> DataType:
    """Bytes whose type nobody knows: as many as a number has are one."""
    return number(f"i{size}") if size in (1, 2, 4, 8) else DataType("bytes", size=size)


def _asks(symbol: Symbol) -> bool:
    """True if it is a function of Python's."""
    return symbol.image is not None and any(used.name == ASK for used in symbol.image.refs)


class Leads:
    """The meaning of addresses of a session's program, whatever they lead to."""

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
        """True if a number is a pointer, as far as can be seen: to something that has a name, to
        text, or to memory of the program that is there."""
        if address in self._core.engine.arena:
            words = self.of(address)
            named = words.startswith(("@", '"')) and words != '""'
            return named or bool(self._inside(address))
        return any(start <= address < stop for start, stop in self._memory)

    @cached_property
    def _memory(self) -> list[tuple[int, int]]:
        """The ranges of memory that the program's process has."""
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
        """The text that stands there up to its end."""
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
