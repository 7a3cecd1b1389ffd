"""Which line of a cell each stretch of its code comes from.  Start from `line_table`.

An object that has not been linked is read as if each of its sections were placed far from the
others: the address of a row says which section it is of.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from functools import lru_cache

from jitkernel.compiler.records import BODY, LineTable, Request
from jitkernel.elf import read_object
from jitkernel.elf.constants import SHF_EXECINSTR, STT_FUNC
from jitkernel.elf.dwarf.info import DebugInfo
from jitkernel.errors import LinkError
from jitkernel.ir.debug_info import with_locations
from jitkernel.ir.marks import first_alike

_APART = 40  # bits of an offset in a section
LINE = 64  # bytes of a line of the cache, by which loops are aligned
_EIGHT = frozenset({1, 24, 25, 29})  # R_X86_64_64, PC64, GOTOFF64, GOTPC64: fields of 8 bytes


def located(request: Request) -> Request | None:
    """The same module with locations at its instructions: lines of the cell, counted from where it
    begins; line n of the k-th of the request's bodies is k * BODY + n, both from 1.  Locations of
    its own go.  Where it is marked, instructions of one line of its language have one line.  None
    where the text is of a kind that is not understood."""
    source = _with_locations(request.source, request.first_line, request.marked)
    if not source:
        return None
    texts = [
        _with_locations(lent.text, 2 - BODY * k - 1) for k, lent in enumerate(request.bodies, 1)
    ]
    found = [  # a constant has no locations, and is looked into
        lent._replace(key=f"{lent.key}, {k}", text=text) if text else lent
        for k, (lent, text) in enumerate(zip(request.bodies, texts, strict=True), 1)
    ]
    return request._replace(source=source, bodies=found)


#: A view asks for the lines of one text several times: at two levels, as a table and as IR.
@lru_cache(maxsize=4)
def _with_locations(source: str, first_line: int, marked: bool = False) -> str:
    line_of = first_alike(source, first_line) if marked else None
    return with_locations(source, first_line, line_of)


def table_of(code: bytes, made: bytes) -> LineTable:
    """The table of an object that was compiled with locations to be the code of another one; empty
    where it is not that, or cannot be read."""
    return beside(code, made)[1]


def beside(code: bytes, made: bytes, only: str = "") -> tuple[int, LineTable]:
    """The bytes of an object's code, or of that of the function `only` if that is there, where one
    that was compiled with locations has the same, and the table of those lines; -1 where it has
    not."""
    try:
        if not extent(code, only)[1]:
            same = _code(code)
            size = sum(len(content) for _, content in same)
            return (size, line_table(made)) if same == _code(made) else (-1, ())
        left, right = _Body(code, only), _Body(made, only)
        if left.masked(right.fields) != right.masked(left.fields):
            return -1, ()
        rows = [
            (left.section, left.start + offset - right.start, lines)
            for section, offset, lines in line_table(made)
            if section == right.section and right.start <= offset <= right.stop
        ]
        return len(left.content), tuple(rows)
    except (LinkError, struct.error, IndexError, UnicodeError):
        return -1, ()


def extent(code: bytes, name: str) -> tuple[int, int]:
    """The bytes before a function in its section of an object, and its own; 0 where it is not
    there."""
    try:
        body = _Body(code, name)
    except (LinkError, struct.error, IndexError, UnicodeError):
        return 0, 0
    return body.start, len(body.content)


class _Body:
    """A function in an object: the section that it is in, from where to where, its bytes, and the
    fields that relocations fill, from its start on.  No bytes where it is not there."""

    def __init__(self, data: bytes, name: str):
        elf = read_object(data)
        self.section, self.start, self.stop, self.content = "", 0, 0, b""
        self.fields: dict[int, int] = {}
        for index, (_, info, _, section, value, size) in enumerate(elf.symbols):
            if info & 15 == STT_FUNC and section and elf.symbol_name(index) == name:
                self.section, self.start, self.stop = (
                    elf.section_name(section), value, value + size
                )  # fmt: skip
                self.content = elf.content(section)[value : value + size]
                for offset, kind, _ in elf.tables.get(section, ()):
                    if value <= offset < value + size:
                        self.fields[offset - value] = 8 if kind & 0xFFFFFFFF in _EIGHT else 4

    def masked(self, others: Mapping[int, int]) -> bytearray:
        """The bytes, but those that relocations fill here or in another object."""
        found = bytearray(self.content)
        for offset, size in [*self.fields.items(), *others.items()]:
            found[offset : offset + size] = bytes(size)
        return found


def _code(data: bytes) -> list[tuple[str, bytes]]:
    elf = read_object(data)
    return [
        (elf.section_name(i), elf.content(i))
        for i, section in enumerate(elf.sections)
        if section[2] & SHF_EXECINSTR and section[5]  # flags and size
    ]


def line_table(data: bytes) -> LineTable:
    """Its rows, by section and offset.

    Line 0 is code of no line of its own, and what follows the last function.
    """
    elf = read_object(data)
    info = DebugInfo(data, {index: index << _APART for index in range(len(elf.sections))})
    rows: dict[tuple[str, int], tuple[int, ...]] = {}
    bounds = info.inlined_bounds()
    for row in info.lines.rows:
        name, offset = elf.section_name(row.start >> _APART), row.start & (1 << _APART) - 1
        # Code of no line goes on where inlined code ends, without another row.
        for at in (
            row.start,
            *bounds[bisect_right(bounds, row.start) : bisect_left(bounds, row.stop)],
        ):
            calls = (call.line for call in info.inlined(at))
            rows[name, offset + at - row.start] = row.line, *calls
        rows.setdefault((name, offset + row.stop - row.start), (0,))
    return tuple((section, offset, lines) for (section, offset), lines in sorted(rows.items()))
