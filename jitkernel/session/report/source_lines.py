"""Which line of a cell an address of its code came from.  Start from `LineTables.find`.

Nothing is kept for this while cells run: the worker compiles the cell again with line numbers,
which do not change code, and the tables asked for last are remembered.  A table belongs to a text,
not to a cell: a cell that is run again, or stumbles again in the same way, finds it there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from jitkernel.compiler import LineTable, Request
from jitkernel.elf import read_object
from jitkernel.errors import JitError, present
from jitkernel.linker import Image
from jitkernel.linker.layout import arrange
from jitkernel.session.saved.store import Record
from jitkernel.session.settings import stored_request

if TYPE_CHECKING:
    from jitkernel.compiler import CompilerPool
    from jitkernel.session.program.program import Program

__all__ = ["LineTables", "cell_lines"]

# What is remembered: tables, and rows of all of them together, about 100 bytes each.
_KEPT, _ROWS_KEPT = 256, 20_000
_DEFINE = re.compile(r"\s*define\b(?!.*@jk\.)")
_MARK = re.compile(r"\s*; line (\d+)\b")


class LineTables:
    """The lines of a program's code, and the tables that were needed last.

    `running` is code that belongs to no cell yet, an instruction block: with what was asked of the
    compiler, and what the store would keep of it.
    """

    def __init__(self, program: Program, pool: CompilerPool):
        self._program, self._pool = program, pool
        self.tables: dict[Request, LineTable] = {}
        self.running: tuple[Image, Request, Record] | None = None

    def find(self, address: int) -> tuple[int, str]:
        """Line and text that an address of code comes from, `(0, "")` where unknown.  Where a
        cell's IR names the C line that it comes from, that stands behind the text."""
        try:
            return self._find(address)
        except JitError:
            return 0, ""

    def _find(self, address: int) -> tuple[int, str]:
        if self.running is not None and _holds(self.running[0], address):
            image, request, record = self.running
        else:
            cells = self._program.cells.values()
            images = (c.image for c in cells if c.image and _holds(c.image, address))
            holding = next(images, None)
            found = self._program.store.get(holding.cell) if holding is not None else None
            if holding is None or found is None:
                return 0, ""
            image, request, record = holding, stored_request(found), found
        from jitkernel.ir.debug_info import Origins  # only where code was stopped

        line = 0
        for at, number in self._rows(image, request, record):
            if at > address:
                break
            line = number
        text = Origins(record.source).line(line)
        return (line, text) if text else (0, "")

    def of_cell(self, number: int) -> list[tuple[int, int]]:
        """Addresses from which on a cell's code comes from a line, ascending; line 0: from none.

        Empty where the lines cannot be told.
        """
        cell, record = self._program.cells.get(number), self._program.store.get(number)
        if cell is None or cell.image is None or cell.image.text is None or record is None:
            return []
        try:
            return self._rows(cell.image, stored_request(record), record)
        except JitError:
            return []

    def _rows(self, image: Image, request: Request, record: Record) -> list[tuple[int, int]]:
        table = self._table(request, record.object)
        obj = read_object(record.object)
        starts: dict[str, int] = {}
        text = present(image.text, f"the code of {image}")
        for index, place in enumerate(arrange(obj).places):
            if place is not None and place[0] == "text":
                starts[obj.section_name(index)] = text.start + place[1]
        line_of = cell_lines(record.module, record.first_line, record.source)
        return sorted(
            (starts[section] + offset, line_of(line))
            for section, offset, line in table
            if section in starts
        )

    def _table(self, request: Request, code: bytes) -> LineTable:
        """Which line each stretch of an object's code comes from, the object being what the request
        has become."""
        tables = self.tables
        key = request._replace(label="", context="throwaway", cell=0)
        table = tables.get(key)
        if table is None:
            table = self._pool.lines(request, code)
            rows = sum(map(len, tables.values())) + len(table)
            while tables and (len(tables) >= _KEPT or rows > _ROWS_KEPT):
                rows -= len(tables.pop(next(iter(tables))))
            tables[key] = table
        return table


def cell_lines(text: str, first_line: int, source: str) -> Callable[[int], int]:
    """From lines of a cell's module to lines of its source, 0 where unknown.

    `text` is what was compiled, the cell's part of it from `first_line` on.  A language other than
    IR marks in the module which line of the cell instructions come from.
    """
    module = text.split("\n")[first_line - 1 :]
    if not any(_MARK.match(t) for t in module) or _MARK.search(source):
        own = all(t.strip() in source for t in module if _DEFINE.match(t))
        return lambda line: line if own else 0
    lines = [0]
    for one in module:
        mark = _MARK.match(one)
        lines.append(int(mark[1]) if mark else 0 if one.startswith("define ") else lines[-1])
    return lambda line: lines[line] if line < len(lines) else 0


def _holds(image: Image, address: int) -> bool:
    text = image.text
    return text is not None and text.start <= address < text.start + text.size
