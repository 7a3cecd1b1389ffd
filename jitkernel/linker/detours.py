"""Instructions that are replaced by a jump to a stub, which does otherwise what they did.

Start from `Detours`: who knows what is to be done instead makes a `Stub` of an instruction, and
`put` writes it behind the object's code, with a jump there and one back.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

from jitkernel.elf import constants as c
from jitkernel.linker.builder import Builder, Relocation, SectionDraft, SymbolDraft
from jitkernel.linker.instructions import Instruction, instruction_at
from jitkernel.linker.x86_64 import BRANCH, R_32, R_32S

SKIP_RED_ZONE: Final = b"\x48\x8d\x64\x24\x80"  # lea -128(%rsp), %rsp
BACK_OVER_RED_ZONE: Final = b"\x48\x8d\xa4\x24\x80\0\0\0"  # lea 128(%rsp), %rsp

#: those that hold an address, wherever they are: 64, 32, 32S, 16, 8
_VALUES: Final = frozenset((1, R_32, R_32S, 12, 14))
_GROUPS: Final = frozenset(
    (0x80, 0x81, 0x83, 0xC0, 0xC1, 0xC6, 0xC7, 0xD0, 0xD1, 0xD2, 0xD3, 0xF6, 0xF7, 0xFE, 0xFF)
)  # one-byte opcodes whose reg field is part of the opcode
_JUMP: Final = 5  # bytes


class Stub(NamedTuple):
    """A stub that does the same as an instruction: its code, the fields of it, and where in it is
    what stood behind the instruction's displacement, 0 where that is nowhere."""

    code: bytes
    fields: tuple[Relocation, ...]
    behind: int = 0


def touches_stack(code: bytearray, found: Instruction, rex: int) -> bool:
    """True if an instruction moves or names the stack pointer, which a stub has moved."""
    opcode, reg = code[found.opcode], code[found.modrm] >> 3 & 7
    if found.map != 1:
        return False
    if opcode == 0x8F or (opcode == 0xFF and reg >= 2):
        return True
    stack = reg | (rex & 4) << 1 == 4 and opcode not in _GROUPS and not 0xD8 <= opcode <= 0xDF
    # Else it is %ah.
    return bool(stack and (rex or opcode & 1 or opcode == 0x8E or opcode > 0x8A))


def _after_branches(relocations: Iterable[Relocation], code: bytes | bytearray) -> list[int]:
    """The instructions right behind a call or jump to a symbol: nothing follows its field."""
    return [
        at + 4 for at, kind, _, _ in relocations
        if kind == BRANCH and at
        and (code[at - 1] & 0xFE == 0xE8 or (code[at - 1] & 0xF0 == 0x80 and code[at - 2] == 0x0F))
    ]  # fmt: skip


class Detours:
    """The stubs of one object, in a section of this name; those of a COMDAT group's code in one
    that belongs to the group: where another object's is taken, they go with what they jump to."""

    def __init__(self, builder: Builder, name: str):
        self._builder, self._name = builder, name
        self._stubs: dict[str, tuple[SectionDraft, SymbolDraft]] = {}  # by group, "" for none
        self._groups: dict[SectionDraft, str] | None = None
        self._back: dict[SectionDraft, SymbolDraft] = {}
        self._at_offset: dict[SectionDraft, dict[int, int]] = {}
        self._begins: dict[SectionDraft, list[int]] = {}  # functions, by section
        self._starts: dict[SectionDraft, list[int]] = {}

    def instruction(self, section: SectionDraft, offset: int) -> Instruction | None:
        """The instruction that has the field at `offset`, where it is known and can be replaced."""
        starts = self._starts.get(section)
        if starts is None:
            if not self._begins:
                for there, value in self._builder.functions():
                    self._begins.setdefault(there, []).append(value)
            behind = _after_branches(section.relocations, section.content)
            starts = sorted({0, *behind, *self._begins.get(section, ())})
            self._starts[section] = starts
        number = bisect_right(starts, offset)
        instruction = instruction_at(section.content, starts[number - 1], offset)
        if instruction is None:
            return None
        if number == len(starts) or instruction.end < starts[number]:  # for a later field
            starts.insert(number, instruction.end)
        return instruction if instruction.end - instruction.start >= _JUMP else None

    def put(self, section: SectionDraft, number: int, found: Instruction, stub: Stub) -> bool:
        """Let a stub do what an instruction did, whose field is that of the section's relocation
        `number`.  False, and nothing done, where another relocation of it cannot go with it."""
        offset = section.relocations[number][0]
        at_offset = self._at_offset.get(section)
        if at_offset is None:
            rows = enumerate(section.relocations)
            at_offset = self._at_offset[section] = {row[0]: n for n, row in rows if row[1]}
        others = [
            n for at in range(found.start, found.end)
            if (n := at_offset.get(at, number)) != number and section.relocations[n][1]
        ]  # fmt: skip
        for other in others:
            place, kind, _, _ = section.relocations[other]
            if not stub.behind or place < offset + 4 or kind not in _VALUES:
                return False
        stubs, there = self._stubs_for(section)
        if section not in self._back:
            self._back[section] = self._builder.add_symbol("", c.STT_SECTION, section)
        at = len(stubs.content)
        for other in others:  # of the instruction's immediate
            place, kind, target, addend = section.relocations[other]
            stubs.relocations.append((place + at + stub.behind - offset - 4, kind, target, addend))
            section.relocations[other] = (0, 0, target, 0)
        stubs.relocations += [(at + field, kind, to, plus) for field, kind, to, plus in stub.fields]
        jump = at + len(stub.code) + 1
        stubs.relocations.append((jump, BRANCH, self._back[section], found.end - 4))
        stubs.content += stub.code + b"\xe9\0\0\0\0"
        stubs.size = len(stubs.content)
        nops = b"\x90" * (found.end - found.start - _JUMP)
        if not isinstance(section.content, bytearray):
            section.content = bytearray(section.content)
        section.content[found.start : found.end] = b"\xe9\0\0\0\0" + nops
        section.relocations[number] = (found.start + 1, BRANCH, there, at - 4)
        return True

    def _stubs_for(self, section: SectionDraft) -> tuple[SectionDraft, SymbolDraft]:
        """The section with the stubs of a section's code, and the symbol of that."""
        builder = self._builder
        if self._groups is None:
            found = [(s, name) for name, (_, members) in builder.groups.items() for s in members]
            self._groups = dict(found)
        group = self._groups.get(section, "")
        if group not in self._stubs:
            flags = c.SHF_ALLOC | c.SHF_EXECINSTR | (c.SHF_GROUP if group else 0)
            stubs = builder.add_section(self._name, flags, bytearray(), 16)
            if group:
                builder.groups[group][1].append(stubs)
            self._stubs[group] = stubs, builder.add_symbol("", c.STT_SECTION, stubs)
        return self._stubs[group]
