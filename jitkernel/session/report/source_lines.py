"""Which line of a cell an address of its code came from.  Start from `line_finder`.

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
from jitkernel.errors import JitError, UsageError, present
from jitkernel.ir.debug_info import Origins
from jitkernel.linker import Image
from jitkernel.linker.layout import arrange
from jitkernel.session.saved.store import Record
from jitkernel.session.settings import stored_options

if TYPE_CHECKING:
    from jitkernel.session.core import Core

__all__ = ["line_finder", "lines_of", "stored_request"]

# What is remembered: tables, and rows of all of them together, about 100 bytes each.
_KEPT, _ROWS_KEPT = 256, 20_000
_DEFINE = re.compile(r"\s*define\b(?!.*@jk\.)")
_MARK = re.compile(r"\s*; line (\d+)\b")


def line_finder(
    session: Core, running: tuple[Image, Request, Record] | None = None
) -> Callable[[int], tuple[int, str]]:
    """A function from an address of text to `(line, its text)`, `(0, "")` where unknown.  Where a
    cell's IR names the C line that it comes from, that stands behind the text.

    `running` is an image that belongs to no cell yet: an instruction block.
    """

    def find(address: int) -> tuple[int, str]:
        try:
            return _find(session, running, address)
        except JitError:
            return 0, ""

    return find


def _find(
    session: Core, running: tuple[Image, Request, Record] | None, address: int
) -> tuple[int, str]:
    if running is not None and _holds(running[0], address):
        image, request, record = running
        rows = _rows(session, image, request, record)
    else:
        cell = next(
            (c for c in session.program.cells.values() if c.image and _holds(c.image, address)),
            None,
        )
        found = session.store.get(cell.number) if cell is not None else None
        if cell is None or cell.image is None or found is None:
            return 0, ""
        record = found
        rows = _rows(session, cell.image, _request(record), record)
    line = 0
    for at, number in rows:
        if at > address:
            break
        line = number
    text = Origins(record.source).line(line)
    return (line, text) if text else (0, "")


def lines_of(session: Core, number: int) -> list[tuple[int, int]]:
    """Addresses from which on a cell's code comes from a line, ascending; line 0: from none.

    Empty where the lines cannot be told.
    """
    cell, record = session.program.cells.get(number), session.store.get(number)
    if cell is None or cell.image is None or cell.image.text is None or record is None:
        return []
    try:
        return _rows(session, cell.image, _request(record), record)
    except JitError:
        return []


def _request(record: Record) -> Request:
    return Request(
        record.module, stored_options(record), f"cell {record.number}",
        frozenset(record.nobuiltin), record.first_line,
    )  # fmt: skip


def _rows(session: Core, image: Image, request: Request, record: Record) -> list[tuple[int, int]]:
    table = _table(session, request, record.object)
    obj = read_object(record.object)
    starts: dict[str, int] = {}
    text = present(image.text, f"the code of {image}")
    for index, place in enumerate(arrange(obj).places):
        if place is not None and place[0] == "text":
            starts[obj.section_name(index)] = text.start + place[1]
    told = _cell_lines(record)
    return sorted(
        (starts[section] + offset, told(line))
        for section, offset, line in table
        if section in starts
    )


def _table(session: Core, request: Request, code: bytes) -> LineTable:
    """Which line each stretch of an object's code comes from, the object being what the request
    has become."""
    tables = session.line_tables
    key = request._replace(label="", context="throwaway", cell=0)
    table = tables.get(key)
    if table is None:
        table = session.engine.pool.lines(request, code)
        rows = sum(map(len, tables.values())) + len(table)
        while tables and (len(tables) >= _KEPT or rows > _ROWS_KEPT):
            rows -= len(tables.pop(next(iter(tables))))
        tables[key] = table
    return table


def _cell_lines(record: Record) -> Callable[[int], int]:
    """From lines of a cell's module to lines of its source, 0 where unknown.

    A language other than IR marks in the module which line of the cell instructions come from.
    """
    module = record.module.split("\n")[record.first_line - 1 :]
    if not any(_MARK.match(text) for text in module) or _MARK.search(record.source):
        own = all(t.strip() in record.source for t in module if _DEFINE.match(t))
        return lambda line: line if own else 0
    lines = [0]
    for text in module:
        mark = _MARK.match(text)
        lines.append(int(mark[1]) if mark else 0 if text.startswith("define ") else lines[-1])
    return lambda line: lines[line] if line < len(lines) else 0


def _holds(image: Image, address: int) -> bool:
    text = image.text
    return text is not None and text.start <= address < text.start + text.size


def stored_request(session: Core, number: int) -> Request:
    """What the compiler was asked for a cell.  Raises UsageError where it has no IR."""
    record = session.store.get(number)
    if record is None or not record.module.strip():
        raise UsageError(f"cell {number} has no IR of its own")
    if record.source.startswith("; %link "):
        raise UsageError(f"cell {number} is an object of another compiler: it has no IR")
    return _request(record)
