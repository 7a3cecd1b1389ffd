"""The machine code of a function or a cell, read back from the arena.  Start from `asm`.

The bytes shown are those that run: relocated, and patched where a callee was redefined.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.views.names import bare, written
from jitkernel.views.target import find
from jitkernel.views.view import View, join, listing

if TYPE_CHECKING:
    from jitkernel.session import Session
    from jitkernel.session.symbol_table import Symbol

__all__ = ["asm", "disassemble"]

_IMMEDIATE = re.compile(r"(?<![\w+-] )(?<!\w)\$?(0x[0-9a-f]+)(?![\w(])")
_RELATIVE = re.compile(r"\[rip ([+-]) (0x[0-9a-f]+|\d+)\]|(-?)(0x[0-9a-f]+|\d+)\(%rip\)")
_LONGEST = 8  # bytes of an instruction that are shown


def asm(session: Session, target: int | str | None = None, syntax: str = "intel") -> View:
    """The functions of a cell, or one function; without a target those of the last cell."""
    cell, names = find(session, target)
    known = [session.symbols[n] for n in names]
    functions = [s for s in known if s.kind == "function" and s.size]
    if not functions:
        what = written(bare(target)) if isinstance(target, str) else f"cell {cell.number}"
        raise UsageError(f"{what} has no machine code")
    return join([_function(session, symbol, syntax) for symbol in functions])


def _function(session: Session, symbol: Symbol, syntax: str) -> View:
    code = session.arena.read(symbol.address, symbol.size)
    lines = list(disassemble(code, symbol.address, _describe(session), syntax))
    title = f"{written(symbol.name)}: {symbol.type}, {symbol.size} bytes at {symbol.address:#x}"
    if symbol.cell:
        title += f", cell {symbol.cell}"
    return listing(title, "\n".join(lines))


def _describe(session: Session) -> Callable[[int], str]:
    """Names for addresses in the arena; others are left as they are."""
    arena, places = session.arena, session.places

    def describe(address: int) -> str:
        if address not in arena:
            return ""
        return places.data(address) or places.name(address)

    return describe


def disassemble(
    code: bytes, address: int, describe: Callable[[int], str], syntax: str = "intel"
) -> Iterator[str]:
    """One line an instruction: offset, bytes, text, and the name of what it refers to.

    Targets of jumps within the code get the labels L1, L2, ... in a column of their own.
    `describe(address)` names an address (`@sq`, `@g+4`), or returns an empty string.
    """
    from capstone import CS_ARCH_X86, CS_MODE_64, CS_OPT_SYNTAX_ATT, CS_OPT_SYNTAX_INTEL, Cs

    machine = Cs(CS_ARCH_X86, CS_MODE_64)
    machine.syntax = CS_OPT_SYNTAX_ATT if syntax == "att" else CS_OPT_SYNTAX_INTEL
    # Rows are (address, size, mnemonic, operands); bytes that are no instruction become .byte.
    rows: list[tuple[int, int, str, str]] = []
    at = 0
    while at < len(code):
        for row in machine.disasm_lite(code[at:], address + at):
            rows.append(row)
            at = row[0] + row[1] - address
        if at < len(code):
            rows.append((address + at, 1, ".byte", f"{code[at]:#04x}"))
            at += 1
    stop = address + len(code)
    jumps = {
        int(row[3].lstrip("$*"), 16)
        for row in rows
        if row[2].startswith(("j", "loop")) and row[3].lstrip("$").startswith("0x")
    }
    starts = {row[0] for row in rows}
    labels = {
        target: f"L{number}"
        for number, target in enumerate(sorted(j for j in jumps if j in starts), 1)
    }
    wide = max((min(row[1], _LONGEST) for row in rows), default=1)
    mark = max((len(label) for label in labels.values()), default=0)
    for start, size, mnemonic, operands in rows:
        raw = code[start - address : start - address + size]
        shown = raw[:_LONGEST].hex(" ") + (" …" if size > _LONGEST else "")
        comment = _refers_to(start + size, operands, address, stop, labels, describe)
        line = (
            f"{labels.get(start, ''):<{mark}} +{start - address:<4d}  {shown:<{3 * wide + 1}} "
            f"{mnemonic:<7} {operands}"
        )
        yield (f"{line:<64} ; {comment}" if comment else line).rstrip()


def _refers_to(
    after: int,
    operands: str,
    start: int,
    stop: int,
    labels: dict[int, str],
    describe: Callable[[int], str],
) -> str:
    """What an instruction's operands lead to: a label here, or a symbol."""
    found = [int(m[1], 16) for m in _IMMEDIATE.finditer(operands)]
    for match in _RELATIVE.finditer(operands):
        sign, distance = (match[1], match[2]) if match[2] else (match[3], match[4])
        found.append(after + int(distance, 0) * (-1 if sign == "-" else 1))
    for value in found:
        if start <= value < stop:
            if value in labels:
                return labels[value]
        elif value > 0xFFFF:
            name = describe(value)
            if name:
                return str(name)
    return ""
