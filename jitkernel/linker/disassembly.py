"""Machine code as text, the loops in it, and where its operands lead.

Start from `decode`; `plain` is for who wants no names.  Neither knows a session: they take bytes at
an address, and a function that names addresses.  `instructions.py` tells lengths and fields alone,
without a disassembler.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from jitkernel.ir.dominators import dominators, loops
from jitkernel.linker.instructions import decode as length_of
from jitkernel.record import NamedTuple
from jitkernel.regex import regex

_IMMEDIATE = regex(r"(?<![\w+-] )(?<!\w)\$?(0x[0-9a-f]+)(?![\w(])")
_RELATIVE = regex(r"\[rip ([+-]) (0x[0-9a-f]+|\d+)\]|(-?)(0x[0-9a-f]+|\d+)\(%rip\)")
# Larger numbers behind registers than members of structs are at: the arena is above 16 MiB.
_INDEXED = regex(r"(?<!\[rip )\+ (0x[0-9a-f]{7,})\]|(?<![\w-])(0x[0-9a-f]{7,})\((?!%rip)")
_EVEX = 0x62
_LONGEST, _AT_ONCE = 15, 32  # bytes of an instruction; instructions that capstone reads in a row
# A check of clang's sanitizer that failed, with its number.
_CHECK = regex(rb"\x67\x0f\xb9(?:\x40(.)|\x00)", re.DOTALL)
_DIRECT = regex(r"\$?0x[0-9a-f]+")
_TABLE = regex(r"\[\w+\*8 \+ (0x[0-9a-f]+)\]|\*(0x[0-9a-f]+)\(,%\w+, ?8\)")
_ENDS = ("ret", "ud", "hlt", "int3")  # after these nothing comes


class Instruction(NamedTuple):
    """One instruction: where it stands, its bytes, its text, and what its operands lead to.

    `target` is the address of a branch or of memory relative to the instruction, 0 where there is
    none; `refers` its name, or a label of the same code; `line` the cell's line, 0 for none.
    """

    address: int
    code: bytes
    mnemonic: str
    operands: str
    label: str = ""
    target: int = 0
    refers: str = ""
    line: int = 0


def named(i: Instruction) -> str:
    """An instruction with the name of what it refers to in the place of the number, as in
    assembly: `call f`, `mov eax, dword ptr [rip + g+4]`."""
    text = f"{i.mnemonic} {i.operands}".rstrip()
    if not i.refers:
        return text
    name = i.refers
    operands = _RELATIVE.sub(lambda m: f"[rip + {name}]" if m[2] else f"{name}(%rip)", i.operands)
    operands = _INDEXED.sub(lambda m: m[0].replace(m[1] or m[2], name), operands)
    if operands == i.operands:
        operands = operands.replace(f"{i.target:#x}", name)
    return f"{i.mnemonic} {operands}" if operands != i.operands else f"{text}  ; {name}"


def plain(code: bytes, address: int, syntax: str = "intel") -> Iterator[tuple[int, int, str, str]]:
    """The instructions of `code`, which stands at `address`: of each its address, its size in
    bytes, its mnemonic and its operands.

    Bytes that are no instruction become `.byte`, those of one that only newer processors know
    together.  `syntax` is `intel` or `att`.
    """
    from capstone import CS_ARCH_X86, CS_MODE_64, CS_OPT_SYNTAX_ATT, CS_OPT_SYNTAX_INTEL, Cs

    machine = Cs(CS_ARCH_X86, CS_MODE_64)
    machine.syntax = CS_OPT_SYNTAX_ATT if syntax == "att" else CS_OPT_SYNTAX_INTEL
    machine.skipdata = True
    at = 0
    while at < len(code):
        # What is read on behind such an instruction is read again: so many are read at once.
        ahead = code[at : at + _LONGEST * _AT_ONCE]
        for start, size, mnemonic, operands in machine.disasm_lite(ahead, address + at, _AT_ONCE):
            at, begin = start + size - address, start - address
            if mnemonic == ".byte" and (whole := _unknown(code, begin)) > 1:
                at = begin + whole
                yield start, whole, ".byte", ", ".join(map(hex, code[begin:at]))
                break
            if mnemonic == "ud1" and (check := _CHECK.match(code, begin)):
                number = check[1][0] if check[1] else 0
                at = check.end()
                yield start, len(check[0]), "ud1", f"eax, dword ptr [eax + {number}]"
                break
            yield start, size, mnemonic, operands


def decode(
    code: bytes,
    address: int,
    describe: Callable[[int], str] = lambda address: "",
    syntax: str = "intel",
    lines: Sequence[tuple[int, int]] = (),
) -> list[Instruction]:
    """The instructions of `code`, which stands at `address`.

    Targets of jumps within the code get the labels L1, L2, ...  `describe(address)` names an
    address (`@sq`, `@g+4`), or returns an empty string.  `syntax` is as for `plain`; `lines` are
    addresses with the cell's line from there on, ascending.
    """
    rows = [*plain(code, address, syntax)]
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
        label, row = labels.get(start, ""), bisect_right(lines, (start, 1 << 62)) - 1
        line = lines[row][1] if row >= 0 else 0
        found.append(Instruction(start, raw, mnemonic, operands, label, target, refers, line))
    return found


def _unknown(code: bytes, at: int) -> int:
    """The bytes of an instruction with an EVEX prefix, which capstone may be too old to know: what
    follows is read from its end on.  0 where there is none."""
    try:
        return length_of(code, at).end - at if code[at] == _EVEX else 0
    except IndexError:
        return 0


def _refers_to(
    after: int,
    operands: str,
    start: int,
    stop: int,
    labels: dict[int, str],
    describe: Callable[[int], str],
) -> tuple[int, str]:
    """The address an instruction's operands lead to, and its name: a label here, or a symbol."""
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
    for match in _INDEXED.finditer(operands):  # an array: which element it leads to is not known
        if name := describe(int(match[1] or match[2], 16)):
            return relative, name
    return relative, ""


def loop_depths(found: Sequence[Instruction], read: Callable[[int, int], bytes]) -> list[int]:
    """The number of natural loops that each instruction is in; `read` gives what tables of jumps
    have.  What comes behind a jump and has no label is where jumps lead that have no such table."""
    leaders, tables = _jump_targets(found, read)
    successors: list[list[int]] = []  # of blocks, in the order of the code
    own: list[int] = []  # the block of each instruction
    block_at: dict[int, int] = {}
    others: list[int] = []
    jumps: list[tuple[int, Instruction]] = []
    is_first = comes = True  # whether the next one begins a block, and control comes from above
    for i in found:
        is_padding = not comes and i.mnemonic.startswith("nop")
        if i.label or i.address in leaders or (is_first and not is_padding):
            if comes and successors:
                successors[-1].append(len(successors))
            elif not comes and not i.label:
                others.append(len(successors))
            block_at[i.address] = len(successors)
            successors.append([])
            is_first, comes = False, True
        own.append(len(successors) - 1)
        if i.mnemonic.startswith(("j", "loop")):
            jumps.append((own[-1], i))
            is_first, comes = True, not i.mnemonic.startswith("jmp")
        elif i.mnemonic.startswith(_ENDS):
            is_first, comes = True, False
    for block, i in jumps:
        if i.target in block_at:
            successors[block].append(block_at[i.target])
        elif i.address in tables:
            successors[block] += (block_at[target] for target in tables[i.address])
        elif not _DIRECT.fullmatch(i.operands):
            successors[block] += others
    depths = [0] * len(successors)
    for _, inside in loops(successors, dominators(successors)).values():
        for block in inside:
            depths[block] += 1
    return [depths[block] for block in own]


def _jump_targets(
    found: Sequence[Instruction], read: Callable[[int, int], bytes]
) -> tuple[set[int], dict[int, list[int]]]:
    """The places that tables of jumps lead to, all of them and by the jump's own place.  Where a
    table ends nobody says: at the first entry that leads elsewhere, or where the next begins."""
    begins = {
        i.address: int(match[1] or match[2], 16)
        for i in found
        if i.mnemonic == "jmp" and (match := _TABLE.search(i.operands))
    }
    places, starts = {i.address for i in found}, {*begins.values()}
    tables: dict[int, list[int]] = {}
    for jump, start in begins.items():
        at, targets = start, dict[int, None]()
        try:
            while at == start or at not in starts:
                target = int.from_bytes(read(at, 8), "little")
                if target not in places:
                    break
                targets[target] = None
                at += 8
        except IndexError:  # the end of the arena
            pass
        if targets:
            tables[jump] = [*targets]
    return {target for targets in tables.values() for target in targets}, tables
