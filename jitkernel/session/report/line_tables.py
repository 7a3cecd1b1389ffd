"""The lines of cells that code comes from.  Start from `LineTables`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from jitkernel.compiler.records import LineTable, Request, own_line
from jitkernel.elf import read_object
from jitkernel.errors import JitError, present
from jitkernel.ir.marks import cell_lines
from jitkernel.linker import Image
from jitkernel.linker.layout import arrange
from jitkernel.record import NamedTuple
from jitkernel.session.report.sources import Sources
from jitkernel.session.saved.store import Record

if TYPE_CHECKING:
    from jitkernel.compiler.pool import CompilerPool
    from jitkernel.session.program.program import Program

# What is remembered: tables, and rows of all of them together, about 100 bytes each.
_TABLES_KEPT, _ROWS_KEPT = 256, 20_000
_LONGEST = 15  # bytes of an instruction. Intel SDM, volume 2, section 2.3.11
_TEXT_KEPT = 4 << 20  # letters of the module that was printed last
#: What is known of code that has no line, where there is a table of lines: LLVM made it of several
#: lines, or late, as a load that it first had within another instruction.
MERGED = "LLVM tells no line of it: often it is of several, which %opt --inline=off keeps apart"


class CodeLine(NamedTuple):
    """The line that code of a function comes from, the call's where it was inlined, and its text;
    0 where unknown, and perhaps why.  Where a cell's IR names the C line that it comes from, that
    stands behind the text.

    `inlined` is the function that it was inlined from, `@f (cell 1, line 2)`, "" where it is what
    it was written as.
    """

    line: int = 0
    text: str = ""
    inlined: str = ""


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
        self.running: tuple[_Made, ...] = ()
        # Of code that says its lines itself: its text, and the line in that.
        self.debugged: Callable[[int], tuple[str, int] | None] = lambda address: None

    def find(self, address: int, inside: str) -> CodeLine:
        """The line that an address of code of the function `inside` comes from."""
        try:
            return self._find(address, inside)
        except JitError:  # the store is damaged
            return CodeLine()

    def _holding(self, address: int) -> _Made | None:
        """The image that has code at an address, and how that was made."""
        found = next((i for i in self._program.images() if i.has_code_at(address)), None)
        made = self.made(found) if found is not None else None
        return (found, *made) if found is not None and made is not None else None

    def made(self, image: Image) -> tuple[Request, Record] | None:
        """The request and the record that an image is of, where those are known."""
        for running, request, record in self.running:
            if running is image:
                return request, record
        found = self._program.store.get(image.cell)
        return (self._program.lender.stored(found), found) if found is not None else None

    def _find(self, address: int, inside: str) -> CodeLine:
        from jitkernel.ir.debug_info import Origins  # only where code was stopped

        if (debugged := self.debugged(address)) is not None:
            source, line = debugged
            return CodeLine(line, Origins(source).line(line))
        holding = self._holding(address)
        if holding is None:
            return CodeLine()
        _, request, record = holding
        rows = self._addresses(*holding)
        start, lines = next((row for row in reversed(rows) if row[0] <= address), (address, (0,)))
        line_of = cell_lines(record.module, record.first_line, record.source)
        sources = Sources(self._program, request, record)
        if lines[-1] and sources.is_head(lines[-1]) and not self._is_prologue(start, address):
            lines = (0,)  # what has no line is told as what stands before it
        name, cell, there = sources.function(lines[0])
        inner = ""
        if inside and name not in ("", inside):
            where = f", line {there}" if there else ""
            inner = f"{self._program.called(name, cell)} (cell {cell}{where})"
        line = line_of(own_line(lines) if name == inside else lines[-1])
        text = Origins(record.source).line(line)
        if not text:
            line, text = 0, MERGED if rows and request.options.inline else ""
        return CodeLine(line, text, inner)

    def _is_prologue(self, start: int, address: int) -> bool:
        """True if the instruction that holds an address, of those from `start` on, makes a frame on
        the stack."""
        from jitkernel.linker.disassembly import plain

        code = self._program.linker.arena.read(start, address + 1 - start + _LONGEST)
        for at, size, mnemonic, operands in plain(code, start):
            if at <= address < at + size:
                return mnemonic == "push" or "rsp" in operands
        return False

    def sources(self, number: int, request: Request | None = None) -> Sources:
        """Texts of the lines of `places` and `printed`, or of another request that is made of the
        cell.  The cell has IR, here and there."""
        record = self._record(number)
        return Sources(self._program, request or self._program.lender.stored(record), record)

    def _record(self, number: int) -> Record:
        return present(self._program.store.get(number), f"the record of cell {number}")

    def places(self, number: int, only: str = "") -> list[tuple[int, int]]:
        """Addresses from which on a cell's code, or that of its function `only`, comes from a line,
        ascending: of the cell, or of what was inlined.  Empty where the lines cannot be told."""
        made = self._made_of(number)
        return [(at, lines[0]) for at, lines in self._addresses(*made, only)] if made else []

    def of_cell(self, number: int, only: str = "") -> list[tuple[int, int]]:
        """Addresses from which on a cell's code, or that of its function `only`, comes from a line,
        ascending; line 0: from none.

        Empty where the lines cannot be told.
        """
        made = self._made_of(number)
        return self.rows(*made, only) if made else []

    def rows(
        self, image: Image, request: Request, record: Record, only: str = ""
    ) -> list[tuple[int, int]]:
        """`of_cell`, of an image that was made in that way."""
        line_of = cell_lines(record.module, record.first_line, record.source)
        rows = self._addresses(image, request, record, only)
        return [(at, line_of(own_line(lines))) for at, lines in rows]

    def _made_of(self, number: int) -> _Made | None:
        """The image of a cell that has code in memory, and how that was made."""
        cell, record = self._program.cells.get(number), self._program.store.get(number)
        if cell is None or cell.image is None or cell.image.text is None or record is None:
            return None
        return cell.image, self._program.lender.stored(record), record

    def _addresses(
        self, image: Image, request: Request, record: Record, only: str = ""
    ) -> list[tuple[int, tuple[int, ...]]]:
        """The table of what an image was made of by address, ascending; of the function `only`
        that is enough; empty where lines cannot be told."""
        starts: dict[str, int] = {}
        text = present(image.text, f"the code of {image}")
        try:
            obj = read_object(record.object)
            for index, place in enumerate(arrange(obj).places):
                if place is not None and place[0] == "text":
                    starts[obj.section_name(index)] = text.start + place[1]
            table = self._table(request, record.object, only)
        except JitError:
            return []
        return sorted(
            (starts[section] + offset, lines)
            for section, offset, lines in table if section in starts
        )  # fmt: skip

    def _table(self, request: Request, code: bytes, only: str) -> LineTable:
        """The lines of an object's code, the object being what the request has become; see
        `CompilerPool.lines`."""
        key = _key(request)
        for known in (key, _key(request, only)):
            if known in self.tables:
                return self.tables[known]
        self._keep(key, self._pool.lines(request, code))
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
        key = _key(request)
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
        known = self.shown is not None and self.shown[0] == _key(request)
        return self.shown[1] if self.shown is not None and known else ""

    def known(self, number: int, only: str, table: LineTable, text: str) -> None:
        """Take the text that somebody has of a cell, and its table, or that of its function `only`:
        what `printed` would have made."""
        request = self._program.lender.stored(self._record(number))
        self._keep(_key(request, only), table)
        self._show(_key(request), text)


#: An image, and how it was made.
_Made = tuple[Image, Request, Record]
#: Whose table it is: of a request, all or that of one function.
_Key = tuple[Request, str]


def _key(request: Request, only: str = "") -> _Key:
    return request._replace(label="", context="throwaway", cell=0), only
