"""Names for addresses: of the session's code and data, of its stubs, of libraries, of what is gone.

Start from `Places`; `Ranges` finds which of many address ranges hold an address without looking at
all of them, and `LineTables` the line of a cell that code comes from.
"""

from __future__ import annotations

import os
import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from jitkernel.arena.shared import called
from jitkernel.compiler.records import BODY, LineTable, Request
from jitkernel.elf import read_object
from jitkernel.elf.exported import name_at
from jitkernel.errors import JitError, present
from jitkernel.ir.marks import cell_lines
from jitkernel.ir.names import shown
from jitkernel.linker import Image, Linker, Symbol, SymbolState
from jitkernel.linker.layout import arrange
from jitkernel.linker.records import sites
from jitkernel.linker.x86_64 import STUB_SIZE
from jitkernel.procfs import libraries
from jitkernel.session.report.sources import Sources
from jitkernel.session.saved.store import Record

if TYPE_CHECKING:
    from jitkernel.compiler.pool import CompilerPool
    from jitkernel.linker.linkmap import MappedSymbol
    from jitkernel.session.engine import Engine
    from jitkernel.session.program.cell import Cell
    from jitkernel.session.program.program import Program

# What is remembered: tables, and rows of all of them together, about 100 bytes each.
_TABLES_KEPT, _ROWS_KEPT = 256, 20_000
_TEXT_KEPT = 4 << 20  # letters of the module that was printed last
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
        for image in images(self._program):
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
        for image in self._texts.find(address):
            for symbol, start, size in image.exports:
                # A return address may be the first byte behind a call that does not return.
                if start < address <= start + size or address == start:
                    return image.cell, symbol, address - start
            if image.text is not None and address < image.text.stop:
                return image.cell, None, address - image.text.start
        if (debugged := self.debugged(address)) is not None:
            cell, name, offset = debugged
            known = self.linker.symbols.get(name)
            return cell, known if known is not None and known.cell == cell else None, offset
        return None

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
        return next((s for s in every_symbol(self._program) if s.stub == address), None)

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
            if zone == "text":
                stub = self.stub(address & ~15)
                entry = f"the entry of {self.called(stub.name)}" if stub else ""
                thunk = "what calls cells" if self.is_thunk(address) else ""
                words = self.code(address, returns) or entry or thunk
                return words or self._former(address) or "free text"
            if zone.startswith("runtime"):
                return "the executor's runtime"
            return self.data(address) or f"the {zone} zone"
        if address < _LOWEST:
            return ""
        if self._executor.serving:  # its process has no time for questions
            return self._in_file(address)
        return self._executor.services.locate([address])[0]

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

    def former(self, address: int) -> str:
        """The former content of an address of text that is free now."""
        if self.owner(address) is not None or self.is_thunk(address):
            return ""
        return self._former(address)

    def _former(self, address: int) -> str:
        for start, stop, cell, what in reversed(self._program.freed):
            if start <= address < stop:
                stays = cell in self._program.cells
                return f"former code of {what}" if stays else f"{what}, which is gone"
        return ""

    def gone(self, pc: int, address: int) -> list[Symbol]:
        """The variables that the code at `pc` lost, where a fault's address is that of such."""
        nowhere = self.linker.bind.unmapped
        if not nowhere - 4096 <= address < nowhere + (200 << 20):
            return []
        found = [i for i in self._texts.find(pc) if i.text is not None and pc < i.text.stop]
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


#: Why code has no line, where it has a table of lines.
MERGED = "LLVM made it of several lines; %opt --inline=off above the code keeps them apart"

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


class LineTables:
    """The lines of a program's code, and the tables that were needed last.

    Nothing is kept for this while cells run: the worker compiles the cell again with line numbers,
    which do not change code.  A table belongs to a text, not to a cell: a cell that is run again,
    or stumbles again in the same way, finds it there.

    `running` is code that belongs to no cell, such as an instruction block: with what was asked of
    the compiler, and what the store would keep of it.
    """

    def __init__(self, program: Program, pool: CompilerPool):
        self._program, self._pool = program, pool
        self.tables: dict[_Key, LineTable] = {}
        #: the module that was printed last, by whose it is: one view often follows another
        self.shown: tuple[_Key, str] | None = None
        self.running: tuple[tuple[Image, Request, Record], ...] = ()
        # Of code that says its lines itself: its text, and the line in that.
        self.debugged: Callable[[int], tuple[str, int] | None] = lambda address: None

    def find(self, address: int) -> tuple[int, str]:
        """Line and text that an address of code comes from, 0 where unknown, and perhaps why.
        Where a cell's IR names the C line that it comes from, that stands behind the text."""
        try:
            return self._find(address)
        except JitError:  # the store is damaged
            return 0, ""

    def _holding(self, address: int) -> tuple[Image, Request, Record] | None:
        """The image that has code at an address, and how that was made."""
        found = next((i for i in images(self._program) if _holds(i, address)), None)
        made = self.made(found) if found is not None else None
        return (found, *made) if found is not None and made is not None else None

    def made(self, image: Image) -> tuple[Request, Record] | None:
        """The request and the record that an image is of, where those are known."""
        for running, request, record in self.running:
            if running is image:
                return request, record
        found = self._program.store.get(image.cell)
        return (self._program.lender.stored(found), found) if found is not None else None

    def _find(self, address: int) -> tuple[int, str]:
        from jitkernel.ir.debug_info import Origins  # only where code was stopped

        if (debugged := self.debugged(address)) is not None:
            source, line = debugged
            return line, Origins(source).line(line)
        holding = self._holding(address)
        if holding is None:
            return 0, ""
        image, request, record = holding
        rows = self.rows(image, request, record)
        line = next((line for at, line in reversed(rows) if at <= address), 0)
        text = Origins(record.source).line(line)
        if text or not rows or not request.options.inline:
            return (line, text) if text else (0, "")
        return 0, MERGED

    def inlined(self, address: int, inside: str) -> str:
        """The function that code at an address was inlined from, `@f (cell 1, line 2)`; "" where it
        is what it was written as, code of the function `inside`."""
        try:
            holding = self._holding(address)
            if holding is None or not inside:
                return ""
            image, request, record = holding
            table = self._table(request, record.object, bodies=bool(request.bodies))
            rows = self._addresses(image, record.object, table)
        except JitError:
            return ""
        line = next((line for at, line in reversed(rows) if at <= address), 0)
        sources = Sources(self._program, request, record)
        name, cell = sources.function(line)
        if not name or name == inside:
            return ""
        place = sources.find(line)
        where = f", line {place.line}" if place is not None and not place.file else ""
        return f"{self._program.called(name, cell)} (cell {cell}{where})"

    def of_body(self, number: int, request: Request, line: int) -> tuple[str, int, int]:
        """The function that a line of one of a request's bodies is in (see `CompilerPool.lines`),
        its cell, and the line there; "", 0 and 0 where those cannot be told."""
        record = self._program.store.get(number)
        if record is None:
            return "", 0, 0
        sources = Sources(self._program, request, record)
        name, cell = sources.function(line)
        place = sources.find(line)
        return name, cell, place.line if place is not None and not place.file else 0

    def sources(self, number: int) -> Sources:
        """Texts of the lines of `places` and `printed`.  The cell has IR, here and there."""
        record = self._record(number)
        return Sources(self._program, self._program.lender.stored(record), record)

    def _record(self, number: int) -> Record:
        return present(self._program.store.get(number), f"the record of cell {number}")

    def places(self, number: int, only: str = "") -> list[tuple[int, int]]:
        """Addresses from which on a cell's code, or that of its function `only`, comes from a line,
        ascending: of the cell, or of what was inlined.  Empty where the lines cannot be told."""
        cell, record = self._program.cells.get(number), self._record(number)
        if cell is None or cell.image is None or cell.image.text is None:
            return []
        request = self._program.lender.stored(record)
        try:
            table = self._table(request, record.object, bool(request.bodies), only)
            return self._addresses(cell.image, record.object, table)
        except JitError:
            return []

    def of_cell(self, number: int, only: str = "") -> list[tuple[int, int]]:
        """Addresses from which on a cell's code, or that of its function `only`, comes from a line,
        ascending; line 0: from none.

        Empty where the lines cannot be told.
        """
        cell, record = self._program.cells.get(number), self._program.store.get(number)
        if cell is None or cell.image is None or cell.image.text is None or record is None:
            return []
        return self.rows(cell.image, self._program.lender.stored(record), record, only)

    def rows(
        self, image: Image, request: Request, record: Record, only: str = ""
    ) -> list[tuple[int, int]]:
        """`of_cell`, of an image that was made in that way."""
        try:
            table = self._table(request, record.object, only=only)
            rows = self._addresses(image, record.object, table)
        except JitError:
            return []
        line_of = cell_lines(record.module, record.first_line, record.source)
        return [(at, line_of(line)) for at, line in rows]

    def _addresses(self, image: Image, object: bytes, table: LineTable) -> list[tuple[int, int]]:
        """A table by address.  Raises LinkError where that is no object."""
        starts: dict[str, int] = {}
        text, obj = present(image.text, f"the code of {image}"), read_object(object)
        for index, place in enumerate(arrange(obj).places):
            if place is not None and place[0] == "text":
                starts[obj.section_name(index)] = text.start + place[1]
        return sorted(
            (starts[section] + offset, line) for section, offset, line in table if section in starts
        )

    def _table(
        self, request: Request, code: bytes, bodies: bool = False, only: str = ""
    ) -> LineTable:
        """The line that each stretch of an object's code comes from, the object being what the
        request has become; see `CompilerPool.lines`.  Of the function `only` that is enough."""
        key = _key(request, bodies)
        for of in ("", only):
            for with_bodies in (bodies, True):
                table = self.tables.get((key[0], with_bodies, of))
                if table is not None and (
                    with_bodies == bodies or all(line < BODY for _, _, line in table)
                ):
                    return table
        self._keep(key, self._pool.lines(request, code, bodies))
        return self.tables[key]

    def _keep(self, key: _Key, table: LineTable) -> None:
        tables = self.tables
        rows = sum(map(len, tables.values())) + len(table)
        while tables and (len(tables) >= _TABLES_KEPT or rows > _ROWS_KEPT):
            rows -= len(tables.pop(next(iter(tables))))
        tables[key] = table

    def printed(self, number: int) -> str:
        """The module of a cell as its passes leave it, each instruction with a line of `places`:
        which need no compile of their own after this.  Raises CompileError."""
        record = self._record(number)
        request = self._program.lender.stored(record)
        key = _key(request, bool(request.bodies))
        if self.shown is None or self.shown[0] != key:
            text, table = self._pool.located(request, record.object)
            self._keep(key, table)
            self._show(key, text)
            return text
        return self.shown[1]

    def _show(self, key: _Key, text: str) -> None:
        self.shown = (key, text) if len(text) <= _TEXT_KEPT else None

    def last(self, number: int) -> str:
        """The same if it was asked for last, else "": nothing is compiled."""
        request = self._program.lender.stored(self._record(number))
        known = self.shown is not None and self.shown[0] == _key(request, bool(request.bodies))
        return self.shown[1] if self.shown is not None and known else ""

    def known(self, number: int, only: str, table: LineTable, text: str) -> None:
        """Take the text that somebody has of a cell, and its table, or that of its function `only`:
        what `printed` would have made."""
        request = self._program.lender.stored(self._record(number))
        self._keep(_key(request, bool(request.bodies), only), table)
        self._show(_key(request, bool(request.bodies)), text)


#: Whose table it is: of a request, with or without lines of bodies, all or that of one function.
_Key = tuple[Request, bool, str]


def _key(request: Request, bodies: bool, only: str = "") -> _Key:
    return request._replace(label="", context="throwaway", cell=0), bodies, only


def images(program: Program) -> list[Image]:
    """The images of cells, and of code that runs and is none's."""
    return [*program.running, *(c.image for c in program.cells.values() if c.image is not None)]


def every_symbol(program: Program) -> Iterator[Symbol]:
    """All of them, those of a type that has changed too, which only their users know."""
    known = program.linker.symbols
    yield from known.values()
    for image in images(program):
        yield from (symbol for symbol in image.refs if known.get(symbol.name) is not symbol)


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


def _holds(image: Image, address: int) -> bool:
    text = image.text
    return text is not None and text.start <= address < text.start + text.size
