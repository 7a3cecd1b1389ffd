"""Names for addresses: of the session's code and data, of its stubs, of libraries, of what is gone.

Start from `Places`; `Ranges` finds which of many address ranges hold an address without looking at
all of them.
"""

from __future__ import annotations

import os
import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from jitkernel.arena.shared import called
from jitkernel.elf.exported import name_at
from jitkernel.errors import JitError
from jitkernel.ir.names import shown
from jitkernel.linker import Image, Linker, Symbol, SymbolKind, SymbolState
from jitkernel.linker.records import sites
from jitkernel.linker.x86_64 import STUB_SIZE
from jitkernel.procfs import libraries
from jitkernel.session.report.line_tables import CodeLine, LineTables

if TYPE_CHECKING:
    from jitkernel.linker.linkmap import MappedSymbol
    from jitkernel.session.engine import Engine
    from jitkernel.session.program.cell import Cell
    from jitkernel.session.program.program import Program

_LOWEST, _HIGHEST = 0x1_0000, 0x8000_0000_0000  # between them programs have their memory


class Places:
    """Names addresses: of the session's code and data, of its stubs, of libraries.

    `lines` knows the lines that code comes from.
    """

    def __init__(self, program: Program, engine: Engine):
        self._program, self._executor = program, engine.executor
        self.linker: Linker = program.linker
        self.is_thunk = engine.thunks.__contains__
        self.called = program.called
        # Of code to be debugged that is in the place of a cell's: cell, function, offset in it.
        self.debugged: Callable[[int], tuple[int, str, int] | None] = lambda address: None
        self.lines = LineTables(program, engine.pool)
        self._texts = Ranges(self._text_ranges, self._version)
        self._symbols = Ranges(self._symbol_ranges, self._version)

    def _version(self) -> tuple[int, int, int]:
        program = self._program
        return self.linker.generation, len(program.cells), id(program.running)

    def _text_ranges(self) -> Iterator[tuple[int, int, Image]]:
        for image in self._program.images():
            if image.text is not None:
                yield image.text.start, image.text.start + image.text.size, image

    def _symbol_ranges(self) -> Iterator[tuple[int, int, Symbol]]:
        for symbol in self.linker.symbols.values():
            if symbol.image is not None:
                yield symbol.address, symbol.address + max(symbol.size, 1) - 1, symbol

    def code(self, address: int, returns: bool = False) -> str:
        """`@get+4, cell 7` for text of the session, else the empty string.

        What `returns` to the address has called from before it: behind a call that does not return
        another function may begin.
        """
        found = self.owner(address, returns)
        if found is None:
            return ""
        cell, symbol, offset = found
        if symbol is None and (local := self._local(cell, address - returns)) is not None:
            name, offset = self._program.called(local[0], cell), local[1] + returns
            return f"{name}{f'+{offset}' if offset else ''}, cell {cell}"
        if symbol is None:  # a block of instructions, or a function that only its cell knows
            return f"cell {cell}"
        return f"{self.called(symbol.name)}{f'+{offset}' if offset else ''}, cell {cell}"

    def owner(self, address: int, returns: bool = False) -> tuple[int, Symbol | None, int] | None:
        """The cell whose text holds an address, the function there, and the offset in it.

        `returns` as for `code`.
        """
        if returns:
            found = self.owner(address - 1)
            return (*found[:2], found[2] + 1) if found is not None else None
        images = [(i.text.start, i) for i in self._texts.find(address) if i.text is not None]
        for at, image in sorted(images, key=itemgetter(0), reverse=True):
            # It may be the first byte behind code that was left at its end, or another's first.
            here = (e for e in image.exports if e[1] <= address <= e[1] + e[2])
            if (export := max(here, key=itemgetter(1), default=None)) is not None:
                return image.cell, export[0], address - export[1]
            if image.text is not None and address < image.text.stop:
                return image.cell, None, address - at
        if (debugged := self.debugged(address)) is not None:
            cell, name, offset = debugged
            known = self.linker.symbols.get(name)
            return cell, known if known is not None and known.cell == cell else None, offset
        return None

    def line(self, address: int) -> CodeLine:
        """The line that code of a cell comes from, in the function that it is of."""
        cell, symbol, _ = self.owner(address) or (0, None, 0)
        local = self._local(cell, address) if cell and symbol is None else None
        return self.lines.find(address, symbol.name if symbol else local[0] if local else "")

    def _local(self, cell: int, address: int) -> tuple[str, int] | None:
        """A function that only its cell knows, and the offset in it."""
        if (debugged := self.debugged(address)) is not None:
            return debugged[1:]
        owner = self._program.cells.get(cell)
        for symbol in own_symbols(self._program, owner, "function") if owner is not None else ():
            start = symbol.address
            if start < address <= start + symbol.size or address == start:
                return symbol.name, address - start
        return None

    def stub(self, address: int) -> Symbol | None:
        """The symbol whose stub is at an address."""
        if self.linker.arena.zones["text"].list.live.get(address) != STUB_SIZE:
            return None
        return next((s for s in self._program.every_symbol() if s.stub == address), None)

    def data(self, address: int, called: Callable[[str], str] | None = None) -> str:
        """`@g+4` for an address of the data or constants zones, else the empty string; names are
        written as `called` says, or as their cells' languages write them."""
        for symbol in self._symbols.find(address):
            offset = address - symbol.address
            return f"{(called or self.called)(symbol.name)}{f'+{offset}' if offset else ''}"
        return ""

    def beyond(self, address: int) -> str:
        """The last variable, where an address of the data zone lies behind all there are."""
        arena = self.linker.arena
        data = arena.zones["data"]
        if not data.high <= address < data.stop:
            return ""
        found = [
            s for s in self.linker.symbols.values()
            if s.image is not None and data.start <= s.address < data.high
        ]  # fmt: skip
        last = max(found, key=lambda s: s.address, default=None)
        return self.data(last.address) if last is not None else ""

    def name(self, address: int, returns: bool = False) -> str:
        """Whatever an address can be called: one line, empty where it is nothing known.

        `returns` as for `code`.
        """
        if address in self.linker.arena:
            zone = self.linker.arena.zone_of(address)
            nothing = "free text" if zone == "text" else f"the {zone} zone"
            return self.there(address, returns) or nothing
        if address < _LOWEST:
            return ""
        if self._executor.serving:  # its process has no time for questions
            return self._in_file(address)
        return self._executor.services.locate([address])[0]

    def there(self, address: int, returns: bool = False) -> str:
        """The name of what is, or was, at an address of the arena, empty where nothing is: that may
        be a number which is no address."""
        zone = self.linker.arena.zone_of(address)
        if zone == "text":
            stub = self.stub(address & ~15)
            entry = f"the entry of {self.called(stub.name)}" if stub else ""
            thunk = "what calls cells" if self.is_thunk(address) else ""
            return self.code(address, returns) or entry or thunk or self._former(address)
        return "the executor's runtime" if zone.startswith("runtime") else self.data(address)

    def _in_file(self, address: int) -> str:
        """The function of a library that an address is in, as the library's file has it."""
        for found in libraries(self._executor.pid):
            if found.start <= address < found.stop:
                return name_at(found.path, address - found.start)
        return ""

    def describe(self, address: int) -> str:
        """The form of a pointer in a value of IR: `@g+4`, `0x7f12 (heap)`."""
        data = self.data(address, shown)
        if data:
            return data
        if address in self.linker.arena:
            # The canonical entry of a function is that function for every use but a call.
            in_text = self.linker.arena.zone_of(address) == "text"
            stub = self.stub(address & ~15) if in_text and not self.code(address) else None
            return shown(stub.name) if stub else f"{address:#x} ({self.name(address)})"
        if address < _LOWEST or address >= _HIGHEST:  # no program has anything there
            return f"{address:#x}"
        stack = 0x7FF0_0000_0000 <= address < _HIGHEST
        what = "stack of a finished call" if stack else "heap"
        return f"{address:#x} ({self._in_library(address) or called(address) or what})"

    def _in_library(self, address: int) -> str:
        """The symbol of a library that a pointer leads to: `stdout, libc.so.6`; empty where it is
        none's."""
        services = self._executor.services
        file = services.file_at(address)
        if not file:
            return ""
        try:
            name = services.locate([address])[0].replace("+0x0,", ",")
        except JitError:  # it runs code: that is all that can be known
            return os.path.basename(file)
        # libc's streams (glibc, libio/stdfiles.c), by the names that programs use
        return re.sub(r"\b_IO_2_1_(stdin|stdout|stderr)_", r"\1", name)

    def passed(self, address: int) -> str:
        """The function whose code ends at an address of text; empty where other code begins there,
        or did before it was freed."""
        found: Symbol | None = None
        for image in self._texts.find(address):
            if image.text is not None and image.text.start == address:
                return ""
            for symbol, at, size in image.exports:
                if symbol.kind is SymbolKind.FUNCTION and symbol.address == at:
                    if at <= address <= at + max(size - 1, 0):
                        return ""
                    if size and address == at + size:
                        found = symbol
        if found is None:
            return ""
        is_padding = address % self.linker.arena.zones["text"].list.granule
        if not is_padding and self._former(address):
            return ""
        cell = self._program.cells.get(found.cell)
        locals = own_symbols(self._program, cell, "function") if cell is not None else ()
        return "" if any(s.address == address for s in locals) else self.called(found.name)

    def former(self, address: int) -> str:
        """The former content of an address of text that is free now."""
        if self.owner(address) is not None or self.is_thunk(address):
            return ""
        return self._former(address)

    def _former(self, address: int) -> str:
        for start, stop, cell, functions in reversed(self._program.freed):
            if start <= address < stop:
                names = ", ".join(self.called(n, cell) for n in functions.split("\0") if n)
                what = f"cell {cell}{f' ({names})' if names else ''}"
                stays = cell in self._program.cells
                return f"former code of {what}" if stays else f"{what}, which is gone"
        return ""

    def gone(self, pc: int, address: int) -> list[Symbol]:
        """The variables that the code at `pc` lost, where a fault's address is that of such."""
        nowhere = self.linker.bind.unmapped
        if not nowhere - 4096 <= address < nowhere + (200 << 20):
            return []
        found = [i for i in self._texts.find(pc) if i.has_code_at(pc)]
        if (debugged := self.debugged(pc)) is not None:
            cell = self._program.cells.get(debugged[0])
            found = [cell.image] if cell is not None and cell.image is not None else []
        refs = found[0].refs if found else ()
        return [s for s in refs if not s.is_function and s.state is SymbolState.MISSING]

    def only_caller(self, symbol: Symbol | None) -> int:
        """The one place in the session's text that branches to a symbol; 0 where not just one.

        For calls in tail position, which leave no return address behind.
        """
        found: list[int] = []
        for packed in (symbol.users or {}).values() if symbol is not None else ():
            for site in sites(packed):
                address = self.linker.arena.base + site.offset
                if self.owner(address) is not None:
                    found.append(address)
        return found[0] if len(found) == 1 else 0


T = TypeVar("T")

#: As many addresses are looked up by looking at all ranges before it is worth while to sort them.
_BEFORE_SORTING = 3
#: Ranges may lie in each other (an alias into a variable): how far to look for the outer one.
_NESTED = 8


class Ranges(Generic[T]):
    """Ranges `(start, stop, what)`, both ends included, as `read` gives them.

    They are read again after `version` has changed.  They are kept sorted only where several
    addresses are asked for at one version: a hundred thousand of them take 50 ms to sort.
    """

    def __init__(
        self,
        read: Callable[[], Iterable[tuple[int, int, T]]],
        version: Callable[[], Hashable],
    ):
        self._read, self._version = read, version
        self._seen: Hashable = None
        self._asked = 0
        self._starts, self._stops, self._order = array("Q"), array("Q"), array("L")
        self._what: list[T] = []

    def find(self, address: int) -> list[T]:
        """The entries of the ranges that hold an address, in the order in which `read` gives
        them."""
        version = self._version()
        if version != self._seen:
            self._seen, self._asked = version, 0
            self._what = []
        self._asked += 1
        if self._asked <= _BEFORE_SORTING:
            return [what for start, stop, what in self._read() if start <= address <= stop]
        if self._asked == _BEFORE_SORTING + 1:
            self._sort()
        at = bisect_right(self._starts, address) - 1
        found = [
            self._order[i]
            for i in range(at, max(at - _NESTED, -1), -1)
            if address <= self._stops[i]
        ]
        return [self._what[index] for index in sorted(found)]

    def _sort(self) -> None:
        rows = list(self._read())
        order = sorted(range(len(rows)), key=lambda i: rows[i][0])
        self._order = array("L", order)
        self._starts = array("Q", [rows[i][0] for i in order])
        self._stops = array("Q", [rows[i][1] for i in order])
        self._what = [row[2] for row in rows]


def own_symbols(
    program: Program, cell: Cell, kind: Literal["function", "object"]
) -> Iterator[MappedSymbol]:
    """The functions, or the variables, that only a cell knows, and where it has them; no strings
    (`@.str`)."""
    image, record = cell.image, program.store.get(cell.number)
    if image is not None and record is not None and record.object:
        from jitkernel.linker.linkmap import read_symbols

        for symbol in read_symbols(program.linker, image, record.object):
            named = symbol.binding == "local" and not symbol.name.startswith(".")
            if named and symbol.kind == kind and symbol.address:
                yield symbol
