"""Code that reaches a variable of the executor's process as if it were near: `stderr(%rip)`.

A compiler that makes an executable, with or without -fPIE, takes for granted that every variable is
within 2 GiB of the code: a linker that makes a program copies libc's `stderr` into it, and libc
uses the copy (psABI 4.4.1, R_X86_64_COPY).  Here libc was there first and uses its own.  So each
such instruction is replaced by a jump to a stub, which does the same with the variable's whole
address, and jumps back: what is read and written is libc's variable itself.  Start from `detour`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from jitkernel.elf import constants as c
from jitkernel.linker.builder import Builder, SectionDraft, SymbolDraft
from jitkernel.linker.detours import (
    BACK_OVER_RED_ZONE,
    SKIP_RED_ZONE,
    Detours,
    Stub,
    touches_stack,
)
from jitkernel.linker.instructions import Instruction
from jitkernel.linker.x86_64 import PC32, R_32, R_32S, is_branch

_ABSOLUTE: Final = 1  # R_X86_64_64
#: relocation types of fields that the variable has to be near for
NEAR: Final = frozenset((PC32, R_32, R_32S))
_RSI, _RDI = 6, 7


def near_names(sections: Iterable[SectionDraft]) -> list[str]:
    """Names that sections take for variables within reach, once each.  Calls and jumps are none:
    they can go through a stub."""
    found: dict[str, None] = {}
    for section in sections:
        if not section.flags & c.SHF_EXECINSTR:
            continue
        code = section.content
        for offset, kind, symbol, _ in section.references(NEAR):
            if not is_branch(kind, code, offset):
                found[symbol.name] = None
    return list(found)


def detour(builder: Builder, far: Collection[str]) -> None:
    """Replace the instructions that reach variables named in `far` as if those were near.  What
    cannot be replaced stays: linking says why."""
    detours = Detours(builder, ".text.far")
    for section in [s for s in builder.sections if s.flags & c.SHF_EXECINSTR]:
        if not any(symbol.name in far for _, _, symbol, _ in section.references(NEAR)):
            continue
        fields = [
            number for number, (_, kind, symbol, _) in enumerate(section.relocations)
            if kind in NEAR and symbol.section == 0 and symbol.name in far
        ]  # fmt: skip
        code = section.content = bytearray(section.content)
        for number in fields:
            offset, kind, symbol, addend = section.relocations[number]
            if is_branch(kind, code, offset):
                continue
            found = detours.instruction(section, offset)
            if found and (stub := _stub(code, found, offset, kind, (symbol, addend))):
                detours.put(section, number, found, stub)


_LARGEST = (1 << 63) - 1  # that a relocation adds
#: a variable and what is added to its address
_Place = tuple[SymbolDraft, int]


def _stub(
    code: bytearray, found: Instruction, offset: int, kind: int, place: _Place
) -> Stub | None:
    """A stub that does the same as an instruction.

    None where that is not known: calls through a variable, and the stack pointer as an operand.
    """
    opcode, rex = code[found.opcode], found.kind if found.kind & 0xF0 == 0x40 else 0
    if kind != PC32:
        return _immediate(code, found, offset, place, opcode, rex)
    if offset != found.displacement or code[found.modrm] & 0xC7 != 5:
        return None
    symbol, addend = place
    addend += found.end - offset  # from the instruction's end to the variable
    reg = code[found.modrm] >> 3 & 7
    if touches_stack(code, found, rex) or addend > _LARGEST:
        return None
    base = _RDI if reg == _RSI else _RSI
    changed = bytearray(code[found.start : found.displacement] + code[offset + 4 : found.end])
    changed[found.modrm - found.start] = reg << 3 | base
    if rex:
        changed[found.prefix - found.start] &= ~1
    elif found.kind in (0xC4, 0x62):
        changed[found.prefix - found.start + 1] |= 0x60  # their X and B are inverted
    push, pop = bytes((0x50 | base,)), bytes((0x58 | base,))
    before = SKIP_RED_ZONE + push
    behind = len(before) + 10 + offset - found.start
    made = before + _load(base) + changed + pop + BACK_OVER_RED_ZONE
    return Stub(made, ((len(before) + 2, _ABSOLUTE, symbol, addend),), behind)


def _immediate(
    code: bytearray, found: Instruction, offset: int, place: _Place, opcode: int, rex: int
) -> Stub | None:
    """`mov $stderr, %reg`: the address itself."""
    if found.map != 1 or offset != found.immediate or found.start < found.prefix:
        return None
    if opcode & 0xF8 == 0xB8 and not rex & 8:
        register = opcode & 7 | (rex & 1) << 3
    elif opcode == 0xC7 and code[found.modrm] & 0xF8 == 0xC0:
        register = code[found.modrm] & 7 | (rex & 1) << 3
    else:
        return None
    symbol, addend = place
    return Stub(_load(register), ((2, _ABSOLUTE, symbol, addend),))


def _load(register: int) -> bytes:
    """`movabs $0, %register`: its field begins two bytes on."""
    return bytes((0x48 | register >> 3, 0xB8 | register & 7)) + bytes(8)
