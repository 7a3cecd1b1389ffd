"""x86-64 machine code as text: bytes, instructions, labels, what they refer to.

Knows no session: bytes at an address, and a function that names addresses.  Start from
`disassemble`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Instruction", "decode", "disassemble"]

_IMMEDIATE = re.compile(r"(?<![\w+-] )(?<!\w)\$?(0x[0-9a-f]+)(?![\w(])")
_RELATIVE = re.compile(r"\[rip ([+-]) (0x[0-9a-f]+|\d+)\]|(-?)(0x[0-9a-f]+|\d+)\(%rip\)")
_ROW = 8  # bytes in a row; the rest of a longer instruction stands in the next


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: where it stands, its bytes, its text, and what its operands lead to.

    `target` is the address of a branch or of memory relative to the instruction, 0 where there is
    none; `refers` its name, or a label of the same code.
    """

    address: int
    code: bytes
    mnemonic: str
    operands: str
    label: str = ""
    target: int = 0
    refers: str = ""


def decode(
    code: bytes,
    address: int,
    describe: Callable[[int], str] = lambda address: "",
    syntax: str = "intel",
) -> list[Instruction]:
    """The instructions of `code`, which stands at `address`.

    Targets of jumps within the code get the labels L1, L2, ...  `describe(address)` names an
    address (`@sq`, `@g+4`), or returns an empty string.  Bytes that are no instruction become
    `.byte`.  `syntax` is `intel` or `att`.
    """
    from capstone import CS_ARCH_X86, CS_MODE_64, CS_OPT_SYNTAX_ATT, CS_OPT_SYNTAX_INTEL, Cs

    machine = Cs(CS_ARCH_X86, CS_MODE_64)
    machine.syntax = CS_OPT_SYNTAX_ATT if syntax == "att" else CS_OPT_SYNTAX_INTEL
    rows: list[tuple[int, int, str, str]] = []  # address, size, mnemonic, operands
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
    found = []
    for start, size, mnemonic, operands in rows:
        raw = code[start - address : start - address + size]
        target, refers = _refers_to(start + size, operands, address, stop, labels, describe)
        label = labels.get(start, "")
        found.append(Instruction(start, raw, mnemonic, operands, label, target, refers))
    return found


def disassemble(
    code: bytes,
    address: int,
    describe: Callable[[int], str],
    syntax: str = "intel",
    markers: Sequence[tuple[int, str]] | None = None,
) -> Iterator[str]:
    """Lines of text: marker, label, offset, bytes, instruction, what it refers to.

    `markers` are addresses and what stands in the first column from there on, ascending.
    """
    found = decode(code, address, describe, syntax)
    wide = max((min(len(i.code), _ROW) for i in found), default=1)
    mark = max((len(i.label) for i in found), default=0)
    first = max((len(text) for _, text in markers), default=0) if markers is not None else 0
    starts = [start for start, _ in markers or ()]
    for instruction in found:
        here = instruction.address
        lead = ""
        if markers is not None:
            at = bisect_right(starts, here) - 1
            lead = f"{markers[at][1] if at >= 0 else '':>{first}}  "
        head = f"{lead}{instruction.label:<{mark}} +{here - address:<4d}  "
        line = (
            f"{head}{instruction.code[:_ROW].hex(' '):<{3 * wide}} "
            f"{instruction.mnemonic:<7} {instruction.operands}"
        )
        comment = instruction.refers
        yield (f"{line:<{64 + len(lead)}} ; {comment}" if comment else line).rstrip()
        if instruction.code[_ROW:]:
            yield f"{'':<{len(head)}}{instruction.code[_ROW:].hex(' ')}"


def _refers_to(
    after: int,
    operands: str,
    start: int,
    stop: int,
    labels: dict[int, str],
    describe: Callable[[int], str],
) -> tuple[int, str]:
    """What an instruction's operands lead to, and its name: a label here, or a symbol."""
    found = [int(m[1], 16) for m in _IMMEDIATE.finditer(operands)]
    relative = 0
    for match in _RELATIVE.finditer(operands):
        sign, distance = (match[1], match[2]) if match[2] else (match[3], match[4])
        relative = after + int(distance, 0) * (-1 if sign == "-" else 1)
        found.append(relative)
    for value in found:
        if start <= value < stop:
            if value in labels or value == start:
                return value, labels.get(value) or describe(value)
        elif value > 0xFFFF:
            name = describe(value)
            if name:
                return value, str(name)
    return relative, ""
