"""Code that reaches a variable of the executor's process as if it were near: `stderr(%rip)`.

A compiler that makes an executable, with or without -fPIE, takes for granted that every variable is
within 2 GiB of the code: a linker that makes a program copies libc's `stderr` into it, and libc
uses the copy (psABI 4.4.1, R_X86_64_COPY).  Here libc was there first and uses its own.  So each
such instruction is replaced by a jump to a stub, which does the same with the variable's whole
address, and jumps back: what is read and written is libc's variable itself.  Start from `detour`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable
from typing import Final

from jitkernel.elf import constants as c
from jitkernel.linker.builder import Builder, Relocation, SectionDraft, SymbolDraft
from jitkernel.linker.instructions import Instruction, instruction_at
from jitkernel.linker.x86_64 import BRANCH, PC32, R_32, R_32S

__all__ = ["NEAR", "detour", "is_branch", "near_names"]

_ABSOLUTE: Final = 1  # R_X86_64_64
#: relocation types of fields that the variable has to be near for
NEAR: Final = frozenset((PC32, R_32, R_32S))
#: those that hold an address, wherever they are: 64, 32, 32S, 16, 8
_VALUES: Final = frozenset((_ABSOLUTE, R_32, R_32S, 12, 14))
_RSI, _RDI = 6, 7
_GROUPS: Final = frozenset(
    (0x80, 0x81, 0x83, 0xC0, 0xC1, 0xC6, 0xC7, 0xD0, 0xD1, 0xD2, 0xD3, 0xF6, 0xF7, 0xFE, 0xFF)
)  # one-byte opcodes whose reg field is part of the opcode
_SKIP_RED_ZONE: Final = b"\x48\x8d\x64\x24\x80"  # lea -128(%rsp), %rsp
_BACK_OVER_RED_ZONE: Final = b"\x48\x8d\xa4\x24\x80\0\0\0"  # lea 128(%rsp), %rsp


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


def is_branch(kind: int, code: bytes | bytearray, offset: int) -> bool:
    """Whether the field of a relocation in code is that of a call or jump."""
    return kind == PC32 and code[offset - 1 : offset] in (b"\xe8", b"\xe9") and offset > 0


def detour(builder: Builder, far: Collection[str]) -> list[str]:
    """Replace the instructions that reach variables named in `far` as if those were near.

    What could not be replaced is returned, `section+offset` each: linking says why.
    """
    stubs: SectionDraft | None = None
    refused: list[str] = []
    begins: dict[SectionDraft | int, list[int]] = {}
    for symbol in builder.symbols:
        if symbol.info & 15 in (c.STT_FUNC, c.STT_GNU_IFUNC):
            begins.setdefault(symbol.section, []).append(symbol.value)
    for section in [s for s in builder.sections if s.flags & c.SHF_EXECINSTR]:
        if not any(symbol.name in far for _, _, symbol, _ in section.references(NEAR)):
            continue
        fields = [
            number for number, (_, kind, symbol, _) in enumerate(section.relocations)
            if kind in NEAR and symbol.section == 0 and symbol.name in far
        ]  # fmt: skip
        code = section.content = bytearray(section.content)
        starts = sorted(
            {0, *_after_branches(section.relocations, code), *begins.get(section, ())}
        )  # fmt: skip
        by_offset = {r[0]: number for number, r in enumerate(section.relocations) if r[1]}
        back: SymbolDraft | None = None
        for number in fields:
            offset, kind, symbol, addend = section.relocations[number]
            if is_branch(kind, code, offset):
                continue
            start = starts[bisect_right(starts, offset) - 1]
            found = instruction_at(code, start, offset)
            made, others = None, []
            if found is not None and found.end - found.start >= 5:
                made = _stub(code, found, offset, kind, addend)
                inside = range(found.start, found.end)
                others = [by_offset[o] for o in inside if o in by_offset and o != offset]
            if found is None or made is None or not _movable(section, others, offset, made):
                refused.append(f"{section.name}+{offset:#x}")
                continue
            if stubs is None:
                stubs = builder.add_section(
                    ".text.far", c.SHF_ALLOC | c.SHF_EXECINSTR, bytearray(), 16
                )
                there = builder.add_symbol("", c.STT_SECTION, stubs)
            if back is None:
                back = builder.add_symbol("", c.STT_SECTION, section)
            text, field, value, behind = made
            at = len(stubs.content)
            for other in others:  # of the instruction's immediate
                place, type, target, added = section.relocations[other]
                place += at + behind - offset - 4
                stubs.relocations.append((place, type, target, added))
                section.relocations[other] = (0, 0, target, 0)
            stubs.relocations.append((at + field, _ABSOLUTE, symbol, value))
            stubs.relocations.append((at + len(text) + 1, BRANCH, back, found.end - 4))
            stubs.content += text + b"\xe9\0\0\0\0"
            stubs.size = len(stubs.content)
            length = found.end - found.start
            code[found.start : found.end] = b"\xe9\0\0\0\0" + b"\x90" * (length - 5)
            jump: Relocation = (found.start + 1, BRANCH, there, at - 4)
            section.relocations[number] = jump
    return refused


def _after_branches(relocations: Iterable[Relocation], code: bytearray) -> list[int]:
    """Where instructions begin behind a call or jump to a symbol: nothing follows its field."""
    return [
        at + 4 for at, kind, _, _ in relocations
        if kind == BRANCH and at
        and (code[at - 1] & 0xFE == 0xE8 or (code[at - 1] & 0xF0 == 0x80 and code[at - 2] == 0x0F))
    ]  # fmt: skip


#: The code, where in it the address goes and with what addend, and where what was behind the
#: instruction's displacement is, 0 where that is nowhere.
_Stub = tuple[bytes, int, int, int]


def _movable(section: SectionDraft, others: Iterable[int], offset: int, made: _Stub) -> bool:
    """Whether other relocations of an instruction can go where it goes."""
    for other in others:
        place, kind, _, _ = section.relocations[other]
        if not made[3] or place < offset + 4 or kind not in _VALUES:
            return False
    return True


def _stub(code: bytearray, found: Instruction, offset: int, kind: int, addend: int) -> _Stub | None:
    """What does the same as an instruction.

    None where that is not known: calls through a variable, and the stack pointer as an operand.
    """
    opcode, rex = code[found.opcode], found.kind if found.kind & 0xF0 == 0x40 else 0
    if kind != PC32:
        return _immediate(code, found, offset, addend, opcode, rex)
    if offset != found.displacement or code[found.modrm] & 0xC7 != 5:
        return None
    addend += found.end - offset  # from the instruction's end to the variable
    reg = code[found.modrm] >> 3 & 7
    if found.map == 1:
        full = reg | (rex & 4) << 1
        if opcode == 0x8F or (opcode == 0xFF and reg >= 2):
            return None
        stack = full == 4 and opcode not in _GROUPS and not 0xD8 <= opcode <= 0xDF
        if stack and (rex or opcode & 1 or opcode == 0x8E or opcode > 0x8A):  # else it is %ah
            return None
        if opcode == 0x8D and rex & 8:  # lea: the address is all
            return _load(full), 2, addend, 0
        if opcode == 0x8B and reg not in (4, 5) and found.start in (found.prefix, found.opcode):
            again = rex & 0x0C | (rex & 4) >> 2
            move = bytes((0x40 | again,)) if again else b""
            return _load(full) + move + bytes((0x8B, reg << 3 | reg)), 2, addend, 0
    base = _RDI if reg == _RSI else _RSI
    changed = bytearray(code[found.start : found.displacement] + code[offset + 4 : found.end])
    changed[found.modrm - found.start] = reg << 3 | base
    if rex:
        changed[found.prefix - found.start] &= ~1
    elif found.kind in (0xC4, 0x62):
        changed[found.prefix - found.start + 1] |= 0x60  # their X and B are inverted
    push, pop = bytes((0x50 | base,)), bytes((0x58 | base,))
    before = _SKIP_RED_ZONE + push
    behind = len(before) + 10 + offset - found.start
    made = before + _load(base) + changed + pop + _BACK_OVER_RED_ZONE
    return made, len(before) + 2, addend, behind


def _immediate(
    code: bytearray, found: Instruction, offset: int, addend: int, opcode: int, rex: int
) -> _Stub | None:
    """`mov $stderr, %reg`: the address itself."""
    if found.map != 1 or offset != found.immediate or found.start < found.prefix:
        return None
    if opcode & 0xF8 == 0xB8 and not rex & 8:
        register = opcode & 7 | (rex & 1) << 3
    elif opcode == 0xC7 and code[found.modrm] & 0xF8 == 0xC0:
        register = code[found.modrm] & 7 | (rex & 1) << 3
    else:
        return None
    return _load(register), 2, addend, 0


def _load(register: int) -> bytes:
    """`movabs $0, %register`: its field begins two bytes on."""
    return bytes((0x48 | register >> 3, 0xB8 | register & 7)) + bytes(8)
