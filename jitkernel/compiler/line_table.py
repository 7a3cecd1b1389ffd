"""Which line of a cell each stretch of its code comes from.  Start from `line_table`.

Reads what DWARF calls the line number program (DWARF 5, section 6.2; version 4 alike) of an object
that has not been linked: the relocations of `.debug_line` say which section a sequence describes.
"""

from __future__ import annotations

from jitkernel.compiler.records import LineTable
from jitkernel.elf import read_object
from jitkernel.elf.constants import SHF_EXECINSTR
from jitkernel.elf.cursor import Cursor


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
    rows: dict[tuple[str, int], int] = {}
    for index in range(len(elf.sections)):
        if elf.section_name(index) != ".debug_line":
            continue
        starts = {}
        for offset, info, addend in elf.relocations.get(index, ()):
            symbol = elf.symbols[info >> 32]
            starts[offset] = (elf.section_name(symbol[3]), symbol[4] + addend)
        content = elf.content(index)
        at = 0
        while at + 4 <= len(content):
            at = _unit(content, at, starts, rows)
    return tuple((section, offset, line) for (section, offset), line in sorted(rows.items()))


def _unit(
    data: bytes,
    start: int,
    starts: dict[int, tuple[str, int]],
    rows: dict[tuple[str, int], int],
) -> int:
    """Run one unit's program; the position after it."""
    r = Cursor(data, start)
    end = r.fixed(4) + r.at
    version = r.fixed(2)
    if version >= 5:
        r.fixed(2)  # address and segment selector size
    program = r.fixed(4) + r.at
    minimum = r.byte()
    if version >= 4:
        r.byte()  # operations per instruction
    r.byte()  # default is_stmt
    line_base, line_range, opcode_base = r.fixed(1, signed=True), r.byte(), r.byte()
    lengths = [r.byte() for _ in range(opcode_base - 1)]
    r.at = program
    section, address, line = "", 0, 1
    while r.at < end:
        opcode = r.byte()
        if opcode >= opcode_base:
            adjusted = opcode - opcode_base
            address += adjusted // line_range * minimum
            line += line_base + adjusted % line_range
            rows[section, address] = line
        elif opcode == 0:  # extended
            size = r.uleb()
            after = r.at + size
            extended = r.byte()
            if extended == 1:  # DW_LNE_end_sequence
                rows.setdefault((section, address), 0)
                section, address, line = "", 0, 1
            elif extended == 2:  # DW_LNE_set_address
                section, address = starts.get(r.at, ("", r.fixed(8)))
            r.at = after
        elif opcode == 1:  # DW_LNS_copy
            rows[section, address] = line
        elif opcode == 2:  # DW_LNS_advance_pc
            address += r.uleb() * minimum
        elif opcode == 3:  # DW_LNS_advance_line
            line += r.sleb()
        elif opcode == 8:  # DW_LNS_const_add_pc
            address += (255 - opcode_base) // line_range * minimum
        elif opcode == 9:  # DW_LNS_fixed_advance_pc
            address += r.fixed(2)
        else:
            for _ in range(lengths[opcode - 1]):
                r.uleb()
    return end
