"""Rules about a solution's code: read from words, applied to what was compiled.

Start from `read_rule`.  "As compiled" is the IR that all passes have left, and
the machine code as it stands in the arena; `as written` asks of the cell's own text instead.
`asm` is the opcode of a call of inline assembly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from jitkernel.errors import UsageError
from jitkernel.ir.instructions import Instruction, instructions
from jitkernel.ir.model.instruction import Instruction as Step
from jitkernel.ir.model.module import Module
from jitkernel.ir.model.values import Global, Value
from jitkernel.ir.module import functions
from jitkernel.ir.names import written
from jitkernel.linker import disassembly
from jitkernel.linker.packed import is_packed
from jitkernel.wording import counted

if TYPE_CHECKING:
    from jitkernel.session import Session


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a rule: whether it holds, and what there is, in words (`9 instructions`)."""

    holds: bool
    found: str


RULES = (
    "no OPCODE [as written]", "some OPCODE [as written]", "at most N instructions",
    "at most N IR instructions", "at most N bytes", "a tail call", "a tail call to itself",
    "direct calls", "packed instructions [in a loop]",
)  # fmt: skip

_PLACES = {
    "instructions": "machine instructions",
    "IR instructions": "IR instructions after optimisation",
    "bytes": "bytes of machine code",
}


class Rule(NamedTuple):
    """A rule: its demand for a reader, where it looks too, and what applies it to the function of
    a session that has a name (without @)."""

    demand: str
    apply: Callable[[Session, str], Finding]


def read_rule(text: str) -> Rule:
    """Parse a rule's words.  Raises UsageError with the forms that there are."""
    how, *words = text.split() or [""]
    raw = words[1:] == ["as", "written"]
    if how in ("no", "some") and words and words[0].islower() and (raw or not words[1:]):
        where = "in the IR as you wrote it" if raw else "in the IR after optimisation"
        return Rule(
            f"{how} {words[0]} {where}",
            lambda session, name: _opcode(session, name, words[0], how == "some", raw),
        )
    what = " ".join(words[2:])
    if text.startswith("at most ") and what in _PLACES and words[1].isdecimal():
        return Rule(
            f"at most {words[1]} {_PLACES[what]}",
            lambda session, name: _at_most(session, name, int(words[1]), what),
        )
    if text in _OTHERS:
        return Rule(text, _OTHERS[text])
    raise UsageError(f"must: {text!r} is no rule; there are: {'; '.join(RULES)}")


# -- intermediate code ---------------------------------------------------------------------------


def _instructions(session: Session, name: str, raw: bool) -> list[Instruction]:
    """The instructions of a function."""
    cell = session.symbols[name].cell
    module = session.inspect.module(cell)
    if not raw:
        module = session.inspect.engine.pool.printed(session.inspect.request(cell))
    found = (f for f in functions(module, "define") if f.name == name)
    return [Instruction.read(text) for function in found for text in instructions(function)]


def _opcode_of(instruction: Instruction) -> str:
    before = instruction.text.partition('"')[0].split()  # its text is in quotes
    return "asm" if instruction.opcode == "call" and "asm" in before else instruction.opcode


def _opcode(session: Session, name: str, opcode: str, wanted: bool, raw: bool) -> Finding:
    opcodes = map(_opcode_of, _instructions(session, name, raw))
    count = sum(found == opcode for found in opcodes)
    of_ir = session.inspect.program.called(name) == written(name)
    where = ("as written" if of_ir else "as its compiler wrote it") if raw else "as compiled"
    return Finding((count > 0) is wanted, f"{count or 'no'} {opcode} {where}")


# -- machine code --------------------------------------------------------------------------------


def _machine_code(session: Session, name: str) -> list[disassembly.Instruction]:
    symbol = session.symbols[name]
    code = session.inspect.engine.arena.read(symbol.address, symbol.size)
    return disassembly.decode(code, symbol.address)


def _at_most(session: Session, name: str, limit: int, what: str) -> Finding:
    if what == "bytes":
        count = session.symbols[name].size
    elif what == "instructions":
        count = sum(i.mnemonic not in ("nop", "int3") for i in _machine_code(session, name))
    else:
        count = len(_instructions(session, name, raw=False))
    return Finding(count <= limit, f"{count} {what if count != 1 else what.removesuffix('s')}")


def _leaving(session: Session, name: str) -> list[tuple[str, str]]:
    """Mnemonic and operands of each call, and of each jump that leaves the function."""
    symbol = session.symbols[name]
    inside = range(symbol.address + 1, symbol.address + symbol.size)
    return [
        (i.mnemonic, i.operands)
        for i in _machine_code(session, name)
        if i.mnemonic == "call"
        or (i.mnemonic == "jmp" and not (_is_number(i.operands) and int(i.operands, 16) in inside))
    ]


def _tail_call(session: Session, name: str, to_itself: bool = False) -> Finding:
    """A call of the text whose value is returned as it is, and of which no `call` is left."""
    leaving = _leaving(session, name)
    called = {_named(session, operands) for mnemonic, operands in leaving if mnemonic == "call"}
    jumps = [_named(session, operands) for mnemonic, operands in leaving if mnemonic == "jmp"]
    left = ""
    for callee in _returned_calls(session, name):
        target = written(callee) if callee else ""
        own = callee == name
        if to_itself and not own:
            continue
        if not target and any(not jump.startswith(("@", "the entry of ")) for jump in jumps):
            return Finding(True, f"a jump to {jumps[0]}")
        if target and not any(found.endswith(target) for found in called):
            jump = next((jump for jump in jumps if jump.endswith(target)), "")
            words = "a loop in its place" if own else "its body in its place"
            return Finding(True, f"a jump to {jump}" if jump else f"a tail call, {words}")
        left = f"a call of {target or 'a pointer'} and a ret, no jump in their place"
    whom = " to itself" * to_itself
    return Finding(False, left or f"no call{whom} whose value is returned as it is")


def _returned_calls(session: Session, name: str) -> list[str]:
    """The callees, "" for a pointer, of the calls in tail position that can be reached: LLVM
    Language Reference, "call", the condition of `musttail`, and with a phi in between."""
    module = Module(session.inspect.module(session.symbols[name].cell))
    found = []
    for block in module.functions[name].reverse_post_order():
        for call, following in pairwise(block.instructions):
            if call.opcode == "call" and _returns(call, following):
                callee = call.callee
                found.append(callee.name if isinstance(callee, Global) else "")
    return found


def _returns(value: Value, end: Step) -> bool:
    """True if an instruction returns the value, at once or behind a phi."""
    block = end.block
    if end.opcode == "br" and block is not None and len(block.successors) == 1:
        (there,) = block.successors
        chosen = [phi for phi in there.phis if value in phi.operands]
        after = there.first_non_phi
        return after.opcode == "ret" and (
            any(p.incoming_value(block) is value and _returns(p, after) for p in chosen)
            or not after.operands
        )
    return end.opcode == "ret" and (not end.operands or end.operands[0] is value)


def _direct_calls(session: Session, name: str) -> Finding:
    leaving = _leaving(session, name)
    for mnemonic, operands in leaving:
        if not _is_number(operands):
            return Finding(False, f"an indirect one: {mnemonic} {operands}")
        target = _named(session, operands)
        if target.startswith("the entry of "):
            return Finding(False, f"{mnemonic} of {target}")
    return Finding(True, f"{counted(len(leaving), 'call')}, all direct" if leaving else "no calls")


def _named(session: Session, operands: str) -> str:
    if not _is_number(operands):
        return operands
    return session.inspect.name_of(int(operands, 16)) or operands


def _is_number(operands: str) -> bool:
    return operands.startswith("0x")


def _packed(session: Session, name: str, in_loop: bool = False) -> Finding:
    code = _machine_code(session, name)
    depths = disassembly.loop_depths(code, session.inspect.engine.arena.read)
    found = sum(
        is_packed(i.mnemonic, i.operands) and (depth > 0 or not in_loop)
        for i, depth in zip(code, depths, strict=True)
    )
    where = " in a loop" * in_loop
    count = counted(found, "packed instruction") if found else "no packed instructions"
    return Finding(found > 0, count + where)


_OTHERS: dict[str, Callable[[Session, str], Finding]] = {
    "a tail call": _tail_call,
    "a tail call to itself": partial(_tail_call, to_itself=True),
    "direct calls": _direct_calls,
    "packed instructions": _packed,
    "packed instructions in a loop": partial(_packed, in_loop=True),
}
