"""A file of symbols of code that is in memory: names, frames and lines, as gdb's `add-symbol-file`
reads them, and none of the code.  Start from `symbol_file`.

The lines are a DWARF 4 unit of each file, without functions: 6.2 (line number programs), 7.5.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from jitkernel.elf import constants as c
from jitkernel.elf.writer import BuiltObject

_UNIT, _LINE_HEAD, _ADDRESS = struct.Struct("<IHIB"), struct.Struct("<IHI"), struct.Struct("<3BQ")
#: DW_TAG_compile_unit, no children: DW_AT_name string, stmt_list sec_offset, low_pc addr, high_pc
#: data8.
_ABBREVIATION = bytes([1, 0x11, 0, 0x03, 0x08, 0x10, 0x17, 0x11, 0x01, 0x12, 0x07, 0, 0, 0])
#: Of a line number program: the least instruction, operations in one, is_stmt, the bases of special
#: opcodes, the first of those, and how many operands those before it take.
_PROGRAM = struct.pack("<3BbBB", 1, 1, 1, -3, 12, 13) + bytes([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1])
_COPY, _ADVANCE_LINE, _END = b"\1", b"\3", b"\0\1\1"


class Code(NamedTuple):
    """A function in memory, and the lines of a file that it comes from, by address."""

    name: str
    start: int
    size: int
    lines: Sequence[tuple[int, int]] = ()
    file: str = ""


def symbol_file(
    code: Iterable[Code], zones: Mapping[str, tuple[int, int]], frames: tuple[int, bytes]
) -> bytes:
    """The file for functions that lie in some zones, `(start, stop)`; `frames` are records of call
    frame information, with the address at which they are registered."""
    functions, sections = list(code), [*zones.values()]
    strings, rows = bytearray(1), [(0, 0, 0, 0, 0, 0)]
    for name, start, size, _, _ in functions:
        at = next(i for i, (low, high) in enumerate(sections, 1) if low <= start < high)
        rows.append((len(strings), c.STB_GLOBAL << 4 | c.STT_FUNC, 0, at, start, size))
        strings += os.fsencode(name) + b"\0"
    names = [function.name for function in functions]
    made = BuiltObject(c.EM_X86_64, rows, 1, bytes(strings), names, c.ET_EXEC)
    for name, (start, stop) in zones.items():
        flags = c.SHF_ALLOC | c.SHF_EXECINSTR
        made.put(name, b"", (0, c.SHT_NOBITS, flags, start, 0, stop - start, 0, 0, 16, 0))
    _put(made, ".eh_frame", frames[1], c.SHF_ALLOC, frames[0])
    for name, content in _lines(functions).items():
        _put(made, name, content)
    made.end()
    return made.data


def _put(made: BuiltObject, name: str, content: bytes, flags: int = 0, at: int = 0) -> None:
    made.put(name, content, (0, c.SHT_PROGBITS, flags, at, 0, len(content), 0, 0, 1, 0))


def _lines(code: Iterable[Code]) -> dict[str, bytes]:
    """The debug sections of what has lines."""
    units, programs = bytearray(), bytearray()
    for function in code:
        if function.lines:
            path = os.fsencode(function.file) + b"\0"
            unit = b"\1" + path + struct.pack("<IQQ", len(programs), function.start, function.size)
            units += _UNIT.pack(7 + len(unit), 4, 0, 8) + unit
            programs += _program(function, path)
    return {
        ".debug_abbrev": _ABBREVIATION, ".debug_info": bytes(units), ".debug_line": bytes(programs)
    }  # fmt: skip


def _program(function: Code, path: bytes) -> bytes:
    """The line number program of a function."""
    head = _PROGRAM + b"\0" + path + b"\0\0\0\0"  # no folders, one file
    rows, line = bytearray(), 1
    for at, own in function.lines:
        rows += _ADDRESS.pack(0, 9, 2, at) + _ADVANCE_LINE + _signed(own - line) + _COPY
        line = own
    rows += _ADDRESS.pack(0, 9, 2, function.start + function.size) + _END
    return _LINE_HEAD.pack(6 + len(head) + len(rows), 4, len(head)) + head + rows


def _signed(value: int) -> bytes:
    """A signed LEB128 number, in five bytes."""
    return bytes([0x80 | value >> at & 0x7F for at in (0, 7, 14, 21)] + [value >> 28 & 0x7F])
