"""Which line of a cell each stretch of its code comes from.  Start from `line_table`.

An object that has not been linked is read as if each of its sections were placed far from the
others: the address of a row says which section it is of.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from jitkernel.compiler.records import BODY, LineTable, Request
from jitkernel.elf import read_object
from jitkernel.elf.constants import SHF_EXECINSTR
from jitkernel.elf.dwarf.lines import read_lines
from jitkernel.elf.dwarf.sections import placed_sections
from jitkernel.errors import LinkError
from jitkernel.ir.debug_info import with_locations

_APART = 40  # bits of an offset in a section


def located(request: Request, bodies: bool = False) -> Request | None:
    """The same module with locations at its instructions: lines of the cell, counted from where it
    begins; with `bodies`, line n of the k-th of the request's bodies is k * BODY + n, both from 1.
    Locations of its own go.  None where the text is of a kind that is not understood."""
    source = _with_locations(request.source, request.first_line)
    if not source:
        return None
    request = request._replace(source=source)
    if not bodies:
        return request
    texts = [
        _with_locations(lent.text, 2 - BODY * k - 1) for k, lent in enumerate(request.bodies, 1)
    ]
    found = [
        lent._replace(key=f"{lent.key}, {k}", text=text)
        for k, (lent, text) in enumerate(zip(request.bodies, texts, strict=True), 1)
        if text
    ]
    return request._replace(bodies=found)


#: A view asks for the lines of one text several times: at two levels, as a table and as IR.
_with_locations = lru_cache(maxsize=4)(with_locations)


def table_of(code: bytes, made: bytes) -> LineTable:
    """The table of an object that was compiled with locations to be the code of another one; empty
    where it is not that, or cannot be read."""
    try:
        return line_table(made) if same_code(code, made) else ()
    except (LinkError, struct.error, IndexError, UnicodeError):
        return ()


def same_code(left: bytes, right: bytes) -> bool:
    """True if two objects hold the same bytes in the same executable sections."""
    return _code(left) == _code(right)


def _code(data: bytes) -> list[tuple[str, bytes]]:
    elf = read_object(data)
    return [
        (elf.section_name(i), elf.content(i))
        for i, section in enumerate(elf.sections)
        if section[2] & SHF_EXECINSTR and section[5]  # flags and size
    ]


def line_table(data: bytes) -> LineTable:
    """Rows (section name, offset of the first byte in it, line), by section and offset.

    Line 0 is code of no line of its own, and what follows the last function.
    """
    elf = read_object(data)
    apart = {index: index << _APART for index in range(len(elf.sections))}
    rows: dict[tuple[str, int], int] = {}
    for row in read_lines(placed_sections(data, apart)).rows:
        name, offset = elf.section_name(row.start >> _APART), row.start & (1 << _APART) - 1
        rows[name, offset] = row.line
        rows.setdefault((name, offset + row.stop - row.start), 0)
    return tuple((section, offset, line) for (section, offset), line in sorted(rows.items()))
