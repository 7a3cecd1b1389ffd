"""The values that variables have now, as definitions of a module: `@g = global ...`.

Start from `PresentValues`.  Where a variable's type has a pointer, the address becomes what it
points to: a function, another variable, text.  Addresses in the program's heap cannot leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.ir.module import global_values
from jitkernel.ir.names import CONTROL, escaped, quote_name, written
from jitkernel.ir.text import type_at
from jitkernel.ir.types import parse_type
from jitkernel.linker import SymbolState
from jitkernel.session.program.signatures import Variable
from jitkernel.session.report.places import Ranges, own_symbols
from jitkernel.values.datatype import DataType

if TYPE_CHECKING:
    from jitkernel.arena import Arena, Extent
    from jitkernel.session.program.cell import Cell
    from jitkernel.session.program.program import Program

_MOST_ALIGNED = 64
OURS = ".jk"  # after the names of what a cell has for itself


class PresentValues:
    """Variables that begin with the values that they have now; `names` are theirs, `mentioned` what
    they point to."""

    def __init__(self, program: Program, arena: Arena):
        self._program, self._arena = program, arena
        self._lines: dict[str, str] = {}
        self.mentioned: set[str] = set()
        self._internal: dict[str, tuple[int, int, str]] = {}  # address, bytes, type
        self._renamed: dict[int, tuple[tuple[str, str], ...]] = {}
        self._places = Ranges(self._named, lambda: len(self._internal))
        self._blocks = Ranges(self._nameless, lambda: 0)

    def __contains__(self, name: object) -> bool:
        return name in self._lines

    @property
    def names(self) -> frozenset[str]:
        """The variables that have been added, and what came with them."""
        return frozenset(self._lines)

    def has(self, name: str) -> bool:
        """True if a name is a variable with a value of its own that can be written."""
        if name in self._internal:
            return True
        symbol = self._program.linker.symbols.get(name)
        if symbol is None or symbol.state is not SymbolState.DEFINED or name.startswith(CONTROL):
            return False
        return isinstance(symbol.info, Variable) and not symbol.info.constant

    def renamed(self, cell: Cell) -> tuple[tuple[str, str], ...]:
        """The variables that a cell has for itself, with names that no other cell has."""
        if cell.number not in self._renamed:
            found = []
            record = self._program.store.get(cell.number)
            if cell.image is not None and cell.image.data is not None and record is not None:
                own = cell.image.data.extent
                types = {v.name: type_at(v.rest.lstrip()) for v in global_values(record.module)}
                for s in own_symbols(self._program, cell, "object"):
                    if s.name in types and own.start <= s.address < own.stop:
                        name = f"{s.name}{OURS}{cell.number}"
                        found.append((s.name, name))
                        self._internal[name] = s.address, s.size, types[s.name]
            self._renamed[cell.number] = tuple(found)
        return self._renamed[cell.number]

    def add(self, name: str) -> None:
        """One more variable.  Raises UsageError where its value cannot leave."""
        if name in self._internal:
            address, shown = self._internal[name][0], self._internal[name][2]
        else:
            symbol = self._program.linker.symbols[name]
            if not isinstance(symbol.info, Variable):
                raise UsageError(f"nobody knows the type of {self._program.called(name)}")
            address, shown = symbol.address, symbol.info.shown
        type = self._program.layouts(parse_type(shown))
        data = self._arena.read(address, type.size)
        pointers = list(_pointers(type))
        self._lines[name] = ""  # that may point to itself
        align = min(_MOST_ALIGNED, address & -address)
        self._define(name, data, pointers, align, "global")

    def text(self) -> str:
        """The definitions, with declarations of what they mention."""
        if not self._lines:
            return ""
        declared = sorted(self.mentioned - self._lines.keys())
        lines = list(self._lines.values())
        for name in declared:
            symbol = self._program.linker.symbols.get(name)
            function = symbol is not None and symbol.is_function
            at = written(name)
            lines.append(f"declare void {at}()" if function else f"{at} = external global i8")
        return "\n".join(lines) + "\n"

    def _define(
        self, name: str, data: bytes, pointers: Iterable[int], align: int, kind: str
    ) -> None:
        types: list[str] = []
        values: list[str] = []
        done = 0
        for at in (*pointers, len(data)):
            if part := data[done:at]:
                types.append(f"[{len(part)} x i8]")
                values.append(f'c"{escaped(part)}"' if part.strip(b"\0") else "zeroinitializer")
            if at < len(data):
                types.append("ptr")
                values.append(self._target(_word(data, at), name))
            done = at + 8
        inside = ", ".join(f"{t} {v}" for t, v in zip(types, values, strict=True))
        self._lines[name] = (
            f"@{quote_name(name)} = {kind} <{{{', '.join(types)}}}> <{{{inside}}}>, align {align}"
        )

    # -- addresses -------------------------------------------------------------------------------

    @cached_property
    def _entries(self) -> dict[int, str]:
        """The names of canonical entries, and of what is in libraries."""
        symbols = self._program.linker.symbols.values()
        far = {s.address: s.name for s in symbols if s.state is SymbolState.FAR and s.address}
        return {s.stub: s.name for s in symbols if s.stub} | far

    def _named(self) -> Iterator[tuple[int, int, tuple[int, str]]]:
        """Ranges of what has a name: its address and its name."""
        for symbol in self._program.linker.symbols.values():
            at = symbol.address
            if symbol.state is SymbolState.DEFINED and at in self._arena:
                yield at, at + symbol.size - 1, (at, symbol.name)
        for name, (at, size, _) in self._internal.items():
            yield at, at + size - 1, (at, name)

    def _nameless(self) -> Iterator[tuple[int, int, tuple[Extent, str]]]:
        """Ranges of what has none: its extent, and which kind of variable it is."""
        for cell in self._program.cells.values():
            blocks = [(block, "global") for block in cell.strings]
            if cell.image is not None and cell.image.rodata is not None:
                blocks.append((cell.image.rodata, "constant"))
            for block, kind in blocks:
                yield block.extent.start, block.extent.stop - 1, (block.extent, kind)

    def _target(self, word: int, name: str) -> str:
        """The constant that a pointer of `name` is in a module."""
        if not word:
            return "null"
        if word in self._entries:
            return self._mention(self._entries[word], 0)
        for near in (word, word - 1):  # a pointer to the end of an array is one, too
            for at, found in self._places.find(near):
                return self._mention(found, word - at)
        for extent, kind in self._blocks.find(word):
            return self._unnamed(extent, kind, word, name)
        where = (
            "freed memory" if word in self._arena else "the program's heap, its stack or a library"
        )
        raise self._refusal(name, f"holds the address {word:#x}, in {where}")

    def _refusal(self, name: str, why: str) -> UsageError:
        called = self._program.called(name.partition(OURS)[0])
        return UsageError(
            f"{called} {why}, which cannot leave; variables can begin with their first values "
            "instead"
        )

    def _unnamed(self, extent: Extent, kind: str, word: int, name: str) -> str:
        """Data without a name: text, of a cell's constants or of what its calls were given."""
        label = f"{OURS}.{extent.start:x}"
        if label not in self._lines:
            data = self._arena.read(extent.start, extent.size)
            if any(_word(data, at) in self._arena for at in range(0, len(data) - 7, 8)):
                raise self._refusal(name, "points to a table of addresses without a name")
            self._define(label, data, (), 16, kind)
        return self._mention(label, word - extent.start)

    def _mention(self, name: str, offset: int) -> str:
        self.mentioned.add(name)
        at = written(name)
        return f"getelementptr (i8, ptr {at}, i64 {offset})" if offset else at


def _pointers(type: DataType, base: int = 0) -> Iterator[int]:
    """The offsets of the pointers in a value."""
    if type.name == "ptr":
        yield base
    for member in type.members:
        yield from _pointers(member.type, base + member.offset)
    if type.element is not None and type.count and (found := list(_pointers(type.element))):
        for i in range(type.count):
            yield from (base + i * type.stride + at for at in found)


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")
