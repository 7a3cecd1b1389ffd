"""The lines of cells that code comes from.  Start from `LineTables`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from jitkernel.compiler.records import BODY, LineTable, Request
from jitkernel.elf import read_object
from jitkernel.errors import JitError, present
from jitkernel.ir.marks import cell_lines
from jitkernel.linker import Image
from jitkernel.linker.layout import arrange
from jitkernel.session.report.sources import Place, Sources
from jitkernel.session.saved.store import Record

if TYPE_CHECKING:
    from jitkernel.compiler.pool import CompilerPool
    from jitkernel.session.program.program import Program

# What is remembered: tables, and rows of all of them together, about 100 bytes each.
_TABLES_KEPT, _ROWS_KEPT = 256, 20_000
_TEXT_KEPT = 4 << 20  # letters of the module that was printed last
#: Why code has no line, where it has a table of lines.
MERGED = "LLVM made it of several lines; %opt --inline=off above the code keeps them apart"


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

    def find(self, address: int, inside: str) -> tuple[int, str]:
        """Line and text that an address of code of the function `inside` comes from, the call's
        where it was inlined; 0 where unknown, and perhaps why.  Where a cell's IR names the C line
        that it comes from, that stands behind the text."""
        try:
            return self._find(address, inside)
        except JitError:  # the store is damaged
            return 0, ""

    def _holding(self, address: int) -> tuple[Image, Request, Record] | None:
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

    def _find(self, address: int, inside: str) -> tuple[int, str]:
        from jitkernel.ir.debug_info import Origins  # only where code was stopped

        if (debugged := self.debugged(address)) is not None:
            source, line = debugged
            return line, Origins(source).line(line)
        holding = self._holding(address)
        if holding is None:
            return 0, ""
        image, request, record = holding
        within = inside if self._inlined(address, inside) else ""
        rows = self.rows(image, request, record, within=within)
        line = _line(rows, address)
        text = Origins(record.source).line(line)
        if text or not rows or not request.options.inline:
            return (line, text) if text else (0, "")
        return 0, MERGED

    def inlined(self, address: int, inside: str) -> str:
        """The function that code at an address was inlined from, `@f (cell 1, line 2)`; "" where it
        is what it was written as, code of the function `inside`."""
        try:
            found = self._inlined(address, inside)
        except JitError:
            return ""
        if found is None:
            return ""
        name, cell, place = found
        where = f", line {place.line}" if place is not None and not place.file else ""
        return f"{self._program.called(name, cell)} (cell {cell}{where})"

    def _inlined(self, address: int, inside: str) -> tuple[str, int, Place | None] | None:
        """The function, its cell, and the place there."""
        holding = self._holding(address)
        if holding is None or not inside:
            return None
        image, request, record = holding
        table = self._table(request, record.object, bodies=bool(request.bodies))
        line = _line(self._addresses(image, record.object, table), address)
        sources = Sources(self._program, request, record)
        name, cell = sources.function(line)
        return (name, cell, sources.find(line)) if name and name != inside else None

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
        self, image: Image, request: Request, record: Record, only: str = "", within: str = ""
    ) -> list[tuple[int, int]]:
        """`of_cell`, of an image that was made in that way; or of lines `within` a function alone:
        of what was inlined there, of the call."""
        try:
            table = self._table(request, record.object, only=only, within=within)
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
        self,
        request: Request,
        code: bytes,
        bodies: bool = False,
        only: str = "",
        within: str = "",
    ) -> LineTable:
        """The line that each stretch of an object's code comes from, the object being what the
        request has become; see `CompilerPool.lines`.  Of the function `only` that is enough."""
        key = _key(request, bodies, within=within)
        for of in ("", only):
            for with_bodies in (bodies, True):
                table = self.tables.get((key[0], with_bodies, of, within))
                if table is not None and (
                    with_bodies == bodies or all(line < BODY for _, _, line in table)
                ):
                    return table
        self._keep(key, self._pool.lines(request, code, bodies, within))
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


#: Whose table it is: of a request, with or without lines of bodies, all or that of one function,
#: and with all lines or those within one function.
_Key = tuple[Request, bool, str, str]


def _key(request: Request, bodies: bool, only: str = "", within: str = "") -> _Key:
    return request._replace(label="", context="throwaway", cell=0), bodies, only, within


def _line(rows: list[tuple[int, int]], address: int) -> int:
    """The line of the last row up to an address."""
    return next((line for at, line in reversed(rows) if at <= address), 0)
