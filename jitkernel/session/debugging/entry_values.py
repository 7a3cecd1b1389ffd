"""What registers held at calls, by the code in front of them.  Start from `entry_value`.

Optimised code forgets arguments that it needs no more; debug information says then that they are
what a register was at the entry (DW_OP_entry_value).  What that was is told by the instructions
before the call, where they give it a constant, or what a register still is that calls keep (psABI
3.2.1): as LLVM's own entries of call sites would, which can be had from clang only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jitkernel.elf.registers import KEPT, WHOLE

if TYPE_CHECKING:
    from jitkernel.elf.dwarf import Function, Read
    from jitkernel.session.debugging.frames import LiveFrame

__all__ = ["AtCall", "at_call", "entry_value"]

_DEEPEST = 16  # callers that are asked, one for the other
_JUMPS = 3  # that may lie between what is called and the function's code
_WORD = (1 << 64) - 1


def entry_value(
    frames: Sequence[LiveFrame], live: LiveFrame, read: Read, depth: int = 0
) -> Callable[[str], int | None]:
    """A function from a register to its value when a frame's function was entered; None where that
    cannot be told for sure, as where it may have been left for itself by a jump."""

    def found(register: str) -> int | None:
        outer = next(
            (f for f in frames if f.frame.start == live.frame.stop and f is not live), None
        )
        if outer is None or live.place is None or depth > _DEEPEST:
            return None
        if not (live.frame.certain and outer.frame.certain):
            return None
        function = live.place.function
        if _leaves(function, read) or not _calls(outer.pc, function, read):
            return None
        return at_call(frames, outer, read, depth + 1)(register)

    return found


def at_call(
    frames: Sequence[LiveFrame], live: LiveFrame, read: Read, depth: int = 0
) -> Callable[[str], int | None]:
    """The same for the call that a frame waits for."""

    def found(register: str) -> int | None:
        code = _decoded(live.place.function, read) if live.place is not None else []
        given = _given(code, live.pc, register, live.registers)
        if given == register:
            return entry_value(frames, live, read, depth)(register)
        return given if isinstance(given, int) else None

    return found


class AtCall(Mapping[str, int]):
    """A waiting frame's registers: those that are `known`, others as they were at the call."""

    def __init__(self, known: Mapping[str, int], recall: Callable[[str], int | None]):
        self._known, self._recall = known, recall

    def __getitem__(self, name: str) -> int:
        found = self._known.get(name)
        found = self._recall(name) if found is None and name in WHOLE else found
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def _calls(pc: int, function: Function, read: Read) -> bool:
    """True if the call that returns to an address is one of a function, by its address."""
    code = read(pc - 5, 5)
    if code[:1] != b"\xe8":
        return False
    target = pc + int.from_bytes(code[1:], "little", signed=True)
    for _ in range(_JUMPS):
        if target == function.low:
            return True
        code = read(target, 5)
        if code[:1] != b"\xe9":
            return False
        target += 5 + int.from_bytes(code[1:], "little", signed=True)
    return target == function.low


def _decoded(function: Function, read: Read) -> list[Any]:
    """A function's instructions, none where they cannot all be read."""
    from capstone import CS_ARCH_X86, CS_MODE_64, Cs

    if len(function.ranges) > 1:
        return []
    decoder = Cs(CS_ARCH_X86, CS_MODE_64)
    decoder.detail = True
    found = list(decoder.disasm(read(function.low, function.high - function.low), function.low))
    end = found[-1].address + found[-1].size if found else 0
    return found if end == function.high else []


def _target(instruction: Any) -> int:
    """The address that a jump leads to; 0 where that is computed."""
    text = instruction.op_str
    return int(text, 16) if text.startswith("0x") else 0


def _is_jump(instruction: Any) -> bool:
    return bool(instruction.mnemonic.startswith(("j", "loop")))


def _leaves(function: Function, read: Read) -> bool:
    """True if a function's code may jump to another one, which may jump to it again, or to its own
    beginning."""
    code = _decoded(function, read)
    targets = [_target(each) for each in code if _is_jump(each)]
    return not code or any(t not in function or t == function.low for t in targets)


def _given(
    code: Sequence[Any], pc: int, register: str, registers: Mapping[str, int]
) -> int | str | None:
    """The value of a register at the call that returns to an address; its name where it is what it
    was when the code began, None where that is not known.  `registers` are the caller's."""
    at = next((n for n, each in enumerate(code) if each.address + each.size == pc), None)
    jumps = {_target(each) for each in code if _is_jump(each)}
    if at is None or 0 in jumps:
        return None
    written: set[str] = set()  # on the way to the call
    while at and code[at].address not in jumps:
        at -= 1
        each = code[at]
        if each.mnemonic in ("jmp", "ret"):
            return None
        changed = {WHOLE.get(each.reg_name(r), "") for r in each.regs_access()[1]}
        if register in changed:
            return _value(each, {n: v for n, v in registers.items() if n not in written})
        if each.mnemonic == "call":
            return None
        written |= changed
    return register if not at and code[0].address not in jumps else None


def _value(instruction: Any, registers: Mapping[str, int]) -> int | None:
    """The value that an instruction gives its first operand, by the registers that are known; None
    where it does anything else."""
    from capstone.x86 import X86_OP_IMM, X86_OP_MEM, X86_OP_REG

    operands = instruction.operands
    if len(operands) != 2 or operands[0].type != X86_OP_REG or operands[0].size < 4:
        return None
    mask: int = (1 << 8 * operands[0].size) - 1
    source, name = operands[1], instruction.mnemonic
    known = {n: registers[n] for n in (*KEPT, "rsp") if n in registers}
    if source.type == X86_OP_IMM and name in ("mov", "movabs"):
        return int(source.imm) & mask
    if source.type == X86_OP_REG and name == "xor" and source.reg == operands[0].reg:
        return 0
    if source.type == X86_OP_REG and name == "mov":
        value = known.get(WHOLE.get(instruction.reg_name(source.reg), ""))
        return None if value is None else value & mask
    if source.type == X86_OP_MEM and name == "lea" and not source.mem.index:
        base = instruction.reg_name(source.mem.base) if source.mem.base else ""
        end = instruction.address + instruction.size
        value = end if base == "rip" else known.get(base)
        return None if value is None else int(value + source.mem.disp) & _WORD & mask
    return None
