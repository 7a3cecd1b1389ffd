"""The code of a function as it is, as it would be with other options, or on another machine.

Start from `Side` and `placed`, `compiled`, `elsewhere`: what `%compare` puts side by side.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jitkernel.elf import read_object
from jitkernel.errors import LinkError, UsageError
from jitkernel.ir.names import written
from jitkernel.views.asm import code_of, describer
from jitkernel.views.disassembly import decode
from jitkernel.views.foreign import code_for, cpu_of, triple_of

if TYPE_CHECKING:
    from jitkernel.compiler import Request
    from jitkernel.session import Session

__all__ = ["Row", "Side", "compiled", "elsewhere", "placed"]

#: A line of code: the cell's line (0: none), text, and whether it is an instruction (or a label).
Row = tuple[int, str, bool]


@dataclass(frozen=True, slots=True)
class Side:
    """A function's code, from a cell: `size` in bytes, 0 where it is not known.

    `runs`: here it can be called; `code` is then an object that defines it, None where it is the
    one in memory.
    """

    title: str
    name: str
    cell: int
    rows: tuple[Row, ...]
    size: int
    runs: bool
    code: bytes | None = None

    @property
    def instructions(self) -> int:
        return sum(is_code for _, _, is_code in self.rows)

    def count(self, test: Callable[[str], bool]) -> int:
        """How many instructions have a mnemonic that `test` accepts."""
        return sum(test(text.split()[0]) for _, text, is_code in self.rows if is_code)


def placed(session: Session, name: str, syntax: str) -> Side:
    """A function as it stands in memory."""
    cell, (code,) = code_of(session, name)
    lines = session.inspect.lines(cell.number)
    content = session.inspect.read(code.address, code.size)
    rows: list[Row] = []
    for i in decode(content, code.address, describer(session, cell), syntax):
        if i.label:
            rows.append((0, f"{i.label}:", False))
        rows.append((_line(lines, i.address), _text(i.mnemonic, i.operands, i.refers), True))
    title = f"{written(name)}, cell {cell.number}"
    return Side(title, name, cell.number, tuple(rows), code.size, True)


def compiled(
    session: Session, request: Request, name: str, cell: int, title: str, syntax: str
) -> Side:
    """A function as the request has it; its object is not placed.  Raises CompileError."""
    data = session.inspect.compile(request).object
    obj = read_object(data)
    found = [s for i, s in enumerate(obj.symbols) if s[1] & 15 == 2 and obj.symbol_name(i) == name]
    if not found:
        raise UsageError(f"{written(name)} is not defined there")
    _, _, _, section, value, size = found[0]
    names = {
        offset: obj.symbol_name(info >> 32) for offset, info, _ in obj.relocations.get(section, ())
    }
    starts = {
        s[4]: obj.symbol_name(i)
        for i, s in enumerate(obj.symbols)
        if s[3] == section and s[1] & 15 == 2
    }
    table = [(at, line) for where, at, line in session.inspect.line_table(request)
             if where == obj.section_name(section)]  # fmt: skip
    content = obj.content(section)[value : value + size]
    rows: list[Row] = []
    # Addresses count from a megabyte, so that decoding takes them for addresses.
    base = 1 << 20

    def describe(address: int) -> str:
        return written(starts[address - base]) if address - base in starts else ""

    for i in decode(content, value + base, describe, syntax):
        at = i.address - base
        if i.label:
            rows.append((0, f"{i.label}:", False))
        refers = next((written(names[o]) for o in range(at, at + len(i.code)) if o in names), "")
        rows.append((_line(table, at), _text(i.mnemonic, i.operands, refers or i.refers), True))
    return Side(title, name, cell, tuple(rows), size, True, data)


def elsewhere(
    session: Session, request: Request, name: str, cell: int, machine: str, cpu: str, syntax: str
) -> Side:
    """A function as it would be on another machine."""
    code = code_for(session, request, machine, cpu, syntax)
    if name not in code.functions:
        raise UsageError(f"{written(name)} has no machine code on {machine}")
    size = 0
    try:
        obj = read_object(
            session.inspect.foreign_object(request, triple_of(machine), cpu_of(machine, cpu))
        )
        size = next(
            s[5] for i, s in enumerate(obj.symbols) if s[1] & 15 == 2 and obj.symbol_name(i) == name
        )
    except (LinkError, StopIteration, struct.error):
        pass  # an object of another kind than the reader knows: its size stays unknown

    def known(called: str) -> bool:
        return called in code.functions or called in session.inspect.linked

    rows = tuple((line, _named(text.split(), known), c) for line, text, c in code.functions[name])
    return Side(f"{written(name)} on {machine}", name, cell, rows, size, False)


def _named(words: Sequence[str], known: Callable[[str], bool]) -> str:
    """An instruction elsewhere, with the name that a call leads to as it is written here."""
    name = words[-1].removesuffix("@PLT")
    if len(words) == 2 and words[0].startswith(("call", "j", "b", "tail")) and known(name):
        words = [words[0], written(name)]
    return " ".join(words)


def _line(table: Sequence[tuple[int, int]], address: int) -> int:
    """The line of an address: that of the last row of the table which is not behind it."""
    at = bisect_right(table, (address, 1 << 62)) - 1
    return table[at][1] if at >= 0 else 0


def _text(mnemonic: str, operands: str, refers: str) -> str:
    """An instruction as it is compared: where it leads by name, not by number."""
    if refers and mnemonic.startswith(("call", "j")):
        return f"{mnemonic} {refers}"
    text = f"{mnemonic} {operands}".strip()
    return f"{text} ; {refers}" if refers else text
