"""Code that counts on where a thread-local variable is in a program: initial and local exec.

A loader gives the variables of a program, and of what is loaded with it, a place at one distance
from the thread pointer, in every thread.  Such code adds that distance, which is a constant in its
instructions (local exec, R_X86_64_TPOFF32) or in a slot of the GOT (initial exec, GOTTPOFF), or
what it is told by a descriptor (TLSDESC): ELF Handling For Thread-Local Storage, 4.1 and 5.4.

Here a variable is somewhere else in each thread, so its distance is another one, and found when it
is needed: each such instruction becomes a jump to a stub, which asks for the address of this
thread's copy, takes the thread pointer away, and does the same with the difference.  Everything
else that the compiler made of it stands.  Start from `Offsets`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
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
from jitkernel.linker.x86_64 import BRANCH, PC32

_TPOFF64, _GOTTPOFF, _TPOFF32, _DESCRIPTOR, _DESCRIBED = 18, 22, 23, 34, 35
#: relocation types that are done here
KINDS: Final = frozenset((_TPOFF64, _GOTTPOFF, _TPOFF32, _DESCRIPTOR, _DESCRIBED))

_RSP = 4
_SCRATCH: Final = (7, 6, 5, 3)  # rdi, rsi, rbp, rbx: registers that need no REX prefix
_GATHERS: Final = range(0x90, 0x94)  # of the map 0F 38: their index is a vector

# What finds the distance of a variable: its control block is on the stack and makes room for it.
# No register is another afterwards, nor a flag: code that makes no call counts on all of them.
# The vectors' are saved by xsave, of which 2,688 bytes are enough (SDM volume 1, 13.4 and 13.5.7):
# SSE, AVX, and the three parts of AVX-512.
_FIND: Final = bytes.fromhex(
    "9c"  # pushfq
    "50 51 52 56 57 4150 4151 4152 4153 55"  # push rax, rcx, rdx, rsi, rdi, r8 to r11, rbp
    "4889e5"  # mov %rsp, %rbp
    "488b7d60"  # mov 96(%rbp), %rdi: over eleven registers and the return address
    "31c0"  # xor %eax, %eax
    "4885ff"  # test %rdi, %rdi
    "746f"  # je to the subtraction: a weak variable that nobody defines
    "4883e4c0"  # and $-64, %rsp
    "4881ecc00a0000"  # sub $2752, %rsp
    + "".join(f"48898424{at:02x}020000" for at in range(0, 64, 8))  # mov %rax, 512+at(%rsp)
    + "b8e6000000 31d2"  # mov $0xe6, %eax; xor %edx, %edx
    "480fae2424"  # xsave64 (%rsp)
    "fc"  # cld
    "e800000000"  # call __emutls_get_address
    "4889c7"  # mov %rax, %rdi
    "b8e6000000 31d2"
    "480fae2c24"  # xrstor64 (%rsp)
    "4889f8"  # mov %rdi, %rax
    "64482b042500000000"  # sub %fs:0, %rax
    "48894560"  # mov %rax, 96(%rbp)
    "4889ec"  # mov %rbp, %rsp
    "5d 415b 415a 4159 4158 5f 5e 5a 59 58 9d c3"
)
_CALL_AT: Final = _FIND.index(b"\xe8\0\0\0\0") + 1


class Offsets:
    """The stubs of one object.

    `place` says of a variable its control block and its offset in what that is of; `get` is the
    function that is asked for the address.
    """

    def __init__(
        self,
        builder: Builder,
        place: Callable[[SymbolDraft], tuple[SymbolDraft, int]],
        get: Callable[[], SymbolDraft],
    ):
        self._builder, self._place, self._get = builder, place, get
        self._detours = Detours(builder, ".text.offsets")
        self._finder: SymbolDraft | None = None

    def replace(self, section: SectionDraft, number: int) -> bool:
        """Replace the instruction of a section's relocation; False where that is not known."""
        offset, kind, symbol, addend = section.relocations[number]
        if not isinstance(section.content, bytearray):
            section.content = bytearray(section.content)
        code = section.content
        if kind == _DESCRIBED:  # call *(%rax), which leaves the distance in %rax
            if code[offset : offset + 2] != b"\xff\x10":
                return False
            code[offset : offset + 2] = b"\x66\x90"
            section.relocations[number] = (0, 0, symbol, 0)
            return True
        found = self._detours.instruction(section, offset)
        if found is None:
            return False
        control, distance = self._place(symbol)
        stub = self._stub(bytearray(code), found, (offset, kind, addend + distance), control)
        return stub is not None and self._detours.put(section, number, found, stub)

    def _stub(
        self,
        code: bytearray,
        found: Instruction,
        field: tuple[int, int, int],
        control: SymbolDraft,
    ) -> Stub | None:
        """A stub that does the same as an instruction with this field: offset, type, addend."""
        offset, kind, addend = field
        opcode, rex = code[found.opcode], found.kind if found.kind & 0xF0 == 0x40 else 0
        wide = found.map == 1 and rex & 8 and found.start == found.prefix
        modrm = code[found.modrm] if found.modrm >= 0 else 0
        if kind in (_GOTTPOFF, _DESCRIPTOR):
            known = (0x8B, 0x03) if kind == _GOTTPOFF else (0x8D,)
            if not wide or opcode not in known or offset != found.displacement or modrm & 0xC7 != 5:
                return None
            register = modrm >> 3 & 7 | (rex & 4) << 1
            return self._given(register, addend + 4, opcode == 0x03, control)
        if offset == found.immediate:
            if kind == _TPOFF32 and wide and opcode == 0x05:
                return self._given(0, addend, True, control)
            if kind == _TPOFF32 and wide and opcode in (0x81, 0xC7) and modrm & 0xF8 == 0xC0:
                return self._given(modrm & 7 | (rex & 1) << 3, addend, opcode == 0x81, control)
            if kind == _TPOFF64 and wide and opcode & 0xF8 == 0xB8:
                return self._given(opcode & 7 | (rex & 1) << 3, addend, False, control)
            return None
        if kind != _TPOFF32 or offset != found.displacement:
            return None
        return self._reached(code, found, offset, addend, rex, control)

    def _given(self, register: int, addend: int, added: bool, control: SymbolDraft) -> Stub | None:
        """The distance itself in a register, or `added` to what is there."""
        if register == _RSP or not -(1 << 31) <= addend < 1 << 31:
            return None
        scratch = register if not added else next(r for r in _SCRATCH if r != register)
        before, fields = self._found(scratch, control, added)
        # lea addend(%scratch), %scratch
        text = before + _lea(scratch, scratch, -1, addend)
        if added:  # add %scratch, %register
            text += bytes((0x48 | register >> 3, 0x01, 0xC0 | scratch << 3 | register & 7))
            text += bytes((0x58 | scratch,))
        return Stub(text + BACK_OVER_RED_ZONE, fields)

    def _reached(
        self,
        code: bytearray,
        found: Instruction,
        offset: int,
        addend: int,
        rex: int,
        control: SymbolDraft,
    ) -> Stub | None:
        """An instruction whose operand is `x@tpoff(base, index, scale)`, at %fs or as a number."""
        modrm = code[found.modrm]
        reg, rm, mod = modrm >> 3 & 7, modrm & 7, modrm >> 6
        sib = code[found.modrm + 1] if rm == 4 else -1
        high = _extensions(code, found, rex)
        if high is None or touches_stack(code, found, rex) or (sib < 0 and mod != 2):
            return None
        if 0x67 in code[found.start : max(found.prefix, found.start)]:  # 32-bit addresses
            return None
        if found.map == 0x38 and found.kind in (0xC4, 0x62) and code[found.opcode] in _GATHERS:
            return None
        base = rm if sib < 0 else sib & 7
        base = -1 if sib >= 0 and mod == 0 and base == 5 else base | high[2] << 3
        index = -1 if sib < 0 else sib >> 3 & 7 | high[1] << 3
        index = -1 if index == _RSP else index
        if base == _RSP or (mod == 0 and base >= 0):
            return None
        used = {reg | high[0] << 3, base, index, high[3]}
        choice: tuple[int, ...] = _SCRATCH
        if found.map == 1 and (opcode := code[found.opcode]) <= 0x8B:
            used.add(reg & 3)  # it may be %ah to %bh
            choice += (2,) * (opcode < 0x40 or opcode >= 0x84)  # rdx, which is in none unnamed
        scratch = next((r for r in choice if r not in used), -1)
        if scratch < 0:
            return None
        before, fields = self._found(scratch, control, True)
        if base >= 0 and index >= 0:  # lea (%base, %scratch), %scratch
            before += _lea(scratch, base, scratch, 0)
            base = -1
        if base >= 0:  # the distance is the index
            operand = bytes((0x80 | reg << 3 | 4, scratch << 3 | base & 7))
            extended = (high[0], 0, high[2])
        elif index >= 0:
            operand = bytes((0x80 | reg << 3 | 4, sib & 0xF8 | scratch))
            extended = (high[0], high[1], 0)
        else:
            operand = bytes((0x80 | reg << 3 | scratch,))
            extended = (high[0], 0, 0)
        head = _with_extensions(code[found.start : found.modrm], found, extended)
        changed = head + operand + struct.pack("<i", addend) + code[offset + 4 : found.end]
        behind = len(before) + len(head) + len(operand) + 4
        after = bytes((0x58 | scratch,)) + BACK_OVER_RED_ZONE
        return Stub(before + changed + after, fields, behind)

    def _found(
        self, scratch: int, control: SymbolDraft, kept: bool
    ) -> tuple[bytes, tuple[tuple[int, int, SymbolDraft, int], ...]]:
        """Code that leaves the distance in a register, below the red zone; what that held is on the
        stack where it is `kept`."""
        before = SKIP_RED_ZONE + (bytes((0x50 | scratch & 7,)) if kept else b"")
        high = scratch >> 3
        # lea control(%rip), %scratch; push %scratch; call; pop %scratch
        lea = bytes((0x48 | high << 2, 0x8D, 0x05 | (scratch & 7) << 3)) + bytes(4)
        prefix = b"\x41" * high
        push, pop = prefix + bytes((0x50 | scratch & 7,)), prefix + bytes((0x58 | scratch & 7,))
        field = len(before) + 3
        load = (field, PC32, control, -4)
        if not control.is_defined and control.info >> 4 == c.STB_WEAK:
            lea = bytes((0x48 | high, 0xB8 | scratch & 7)) + bytes(8)  # movabs $control, %scratch
            load = (len(before) + 2, 1, control, 0)
        text = before + lea + push
        call = (len(text) + 1, BRANCH, self._asked(), -4)
        return text + b"\xe8\0\0\0\0" + pop, (load, call)

    def _asked(self) -> SymbolDraft:
        if self._finder is None:
            flags = c.SHF_ALLOC | c.SHF_EXECINSTR
            section = self._builder.add_section(".text.offset", flags, bytearray(_FIND), 16)
            section.relocations.append((_CALL_AT, BRANCH, self._get(), -4))
            self._finder = self._builder.add_symbol("", c.STT_SECTION, section)
        return self._finder


def _lea(register: int, base: int, index: int, displacement: int) -> bytes:
    """`lea displacement(%base, %index), %register`; -1: no index."""
    rex = 0x48 | (register & 8) >> 1 | base >> 3
    low = base & 7
    if index < 0 and low != _RSP:
        operand = bytes((0x80 | (register & 7) << 3 | low,))
    else:
        rex |= (index & 8) >> 2 if index >= 0 else 0
        sib = (index & 7 if index >= 0 else _RSP) << 3 | low
        operand = bytes((0x80 | (register & 7) << 3 | 4, sib))
    return bytes((rex, 0x8D)) + operand + struct.pack("<i", displacement)


def _extensions(code: bytearray, found: Instruction, rex: int) -> tuple[int, int, int, int] | None:
    """The bits R, X and B of an instruction's prefix, and the register in its vvvv (-1: none).

    None for forms that are not known.
    """
    if found.kind in (0xC4, 0x62):
        byte, third = ~code[found.prefix + 1], code[found.prefix + 2]
        return byte >> 7 & 1, byte >> 6 & 1, byte >> 5 & 1, ~third >> 3 & 15
    if found.kind == 0xC5:
        byte = ~code[found.prefix + 1]
        return byte >> 7 & 1, 0, 0, byte >> 3 & 15
    return rex >> 2 & 1, rex >> 1 & 1, rex & 1, -1


def _with_extensions(
    head: bytearray, found: Instruction, extended: tuple[int, int, int]
) -> bytearray:
    """The prefix before an operand, for other registers in it."""
    at = found.prefix - found.start
    _, x, b = extended
    if found.kind in (0xC4, 0x62):
        head[at + 1] = head[at + 1] & ~0x60 | (1 - x) << 6 | (1 - b) << 5
    elif found.kind & 0xF0 == 0x40:
        head[at] = head[at] & ~3 | x << 1 | b
    return head
