"""What stopped a cell, told so that a student understands it.  Start from `error_of`.

The executor reports numbers; here they get names: the function and cell, the instruction, the
source line, the backtrace, what was kept and what was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from jitkernel.errors import Exited, Fault, Frame, Interrupted, TypeMismatch, UndefinedSymbol
from jitkernel.languages.llvm.quoting import quote_name
from jitkernel.linker import Linker
from jitkernel.linker.backtrace import unwind

if TYPE_CHECKING:
    from jitkernel.executor import FaultRecord, Outcome
    from jitkernel.session.places import Places

__all__ = ["error_of"]

_MEANING = {
    "SIGSEGV": "segmentation fault",
    "SIGBUS": "bus error",
    "SIGFPE": "arithmetic fault",
    "SIGILL": "illegal instruction",
    "SIGTRAP": "trap",
    "SIGABRT": "abort",
}
_FPE = {1: "integer division by zero or overflow", 3: "floating-point division by zero"}
_MAX_FRAMES = 32


def error_of(
    outcome: Outcome,
    places: Places,
    linker: Linker,
    line_of: Callable[[int], tuple[int, str]],
    kept: str,
) -> Fault:
    """The error that an outcome other than "ok" is.

    `line_of` finds the source line of an address of text, 0 and an empty text where unknown.
    """
    record = outcome.record
    lost = outcome.lost
    if record is None:
        ended, _, rest = lost.partition("; ")
        message = ended or "the executor ended without a word"
        lost = rest or lost
        return Fault(_card(message, "", "", (), kept, lost), signal="", kept=kept, lost=lost)
    pc = record.caller if outcome.kind == "stub" else record.pc
    frames = _frames(record, pc, places, linker)
    inner = next((f for f in frames if places.owner(f.address) is not None), None)
    at = inner.address if inner is not None else pc
    if inner is None and outcome.kind in ("stub", "exit", "fault"):
        ends = linker.symbols.get(record.cause.partition(" ")[0]) if record.cause else None
        at = places.only_caller(places.stub(record.stub) if outcome.kind == "stub" else ends) or at
    called = outcome.kind in ("stub", "exit") or record.cause in ("abort", "stack smashed")
    returns = called or at != record.pc
    where = places.code(at)
    owner = places.owner(at)
    if owner is not None:
        # A return address is that of the next instruction.
        line, text = line_of(at - 1 if returns else at)
        if line:
            where += f", line {line}: {text.strip()}"
    elif frames:
        where = frames[0].where  # a library function that a call line called
    instruction = ""
    if not called and places.owner(record.pc):
        instruction = _instruction(linker, record.pc)
    common = {
        "signal": record.signal, "address": record.address, "pc": record.pc, "where": where,
        "instruction": instruction, "frames": frames, "kept": kept, "lost": lost,
    }  # fmt: skip
    kind: type[Fault] = Fault
    if outcome.kind == "exit":
        kind, common["status"] = Exited, record.status
        how = record.cause or "exit"
        message = f"the cell called {how}" + ("" if "thread" in how else f"({record.status})")
    elif outcome.kind == "interrupted":
        kind = Interrupted
        message = _interrupted(record)
    elif outcome.kind == "stub":
        symbol = places.stub(record.stub)
        name = symbol.name if symbol is not None else "?"
        if symbol is not None and " was compiled" in symbol.why:
            mismatch = TypeMismatch(
                _card(f"{symbol.why}; run it again", where, "", frames, kept, lost)
            )
            return mismatch  # type: ignore[return-value]
        kind, common["symbol"] = UndefinedSymbol, name
        why = f": {symbol.why}" if symbol is not None and symbol.why else ", which nobody defines"
        message = f"call of @{name}{why}"
    elif record.cause == "abort":
        message = "abort() was called"
    elif record.cause == "stack smashed":
        message = "the stack was smashed: a local buffer was written past its end"
    elif record.signal == "SIGSEGV" and (gone := places.gone(at, record.address)):
        gone = [s for s in gone if f"@{quote_name(s.name)}" in where] or gone
        why = "; ".join(s.why or f"@{s.name}, which nobody defines" for s in gone)
        if any(" was compiled" in s.why for s in gone):
            card = _card(f"{why}; run it again", where, instruction, frames, kept, lost)
            return TypeMismatch(card)  # type: ignore[return-value]
        kind, common["symbol"] = UndefinedSymbol, gone[0].name
        message = f"use of {', '.join('@' + s.name for s in gone)}: {why}"
    else:
        message = _fault(record, places)
    if record.thread == "other":
        message += ", on a thread that the program had started"
    return kind(_card(message, where, instruction, frames, kept, lost), **common)  # type: ignore[arg-type]


def _interrupted(record: FaultRecord) -> str:
    if record.stdin_refused:
        return "the cell waits for input, and this front end offers no input box"
    if record.cause == "timeout":
        return "the cell ran longer than Executor.cell_timeout allows"
    return "the cell was interrupted"


def _fault(record: FaultRecord, places: Places) -> str:
    address, name = record.address, record.signal
    if name in ("SIGSEGV", "SIGBUS"):
        if record.access == "execute" or record.pc == address:
            target = (
                "address 0 (a null function pointer)" if address == 0 else f"address {address:#x}"
            )
            what = places.name(address)
            return f"jump to {target}" + (f", {what}" if what else "")
        verb = {"write": "write to", "read": "read of"}.get(record.access, "access to")
        if record.code == 128 and not address:  # SI_KERNEL: the processor does not tell the address
            return f"{verb} an address that cannot exist (not canonical)"
        if address < 4096:
            return f"{verb} address {address:#x} (a null pointer)".replace("0x0 ", "0 ")
        if record.sp and record.stack_top and record.sp - (64 << 10) <= address <= record.sp + 256:
            return f"the stack is used up (endless recursion?): {verb} {address:#x}"
        what = places.name(address)
        if record.access == "write" and (places.owner(address) or what.startswith("the entry of")):
            what += ", which is code and cannot be written"
        elif record.access == "write" and places.is_constant(address):
            what += ", which is constant"
        return f"{verb} address {address:#x}" + (f" ({what})" if what else " (nothing is there)")
    if name == "SIGFPE":
        return _FPE.get(record.code, _MEANING[name])
    if name in ("SIGTRAP", "SIGILL"):
        grave = places.grave(record.pc) or places.grave(record.pc - 1)
        if grave:
            return f"a stale pointer led into {grave}"
        return (
            "an illegal instruction (llvm.trap or unreachable code?)"
            if name == "SIGILL"
            else "a trap (int3)"
        )
    if name == "SIGABRT":
        return "abort in a library (a failed check of its own: a double free, an assertion?)"
    return f"{name}: {_MEANING.get(name, 'a signal')}"


def _frames(record: FaultRecord, pc: int, places: Places, linker: Linker) -> tuple[Frame, ...]:
    low, stack = record.sp, record.stack

    def read(address: int, size: int) -> bytes | None:
        at = address - low
        return stack[at : at + size] if 0 <= at and at + size <= len(stack) else None

    addresses = [pc]
    registers = dict(record.registers)
    try:
        addresses += unwind(registers, read, linker)[:_MAX_FRAMES]
    except (ValueError, KeyError, IndexError):
        pass
    found: list[Frame] = []
    for address in addresses:
        if places.is_thunk(address):  # how the session came in
            continue
        where = places.code(address) or places.name(address)
        if where and "runtime" not in where and (address != pc or not found):
            found.append(Frame(address, where))
    return tuple(found)


def _instruction(linker: Linker, pc: int) -> str:
    """The instruction at an address of text, Intel syntax."""
    from capstone import CS_ARCH_X86, CS_MODE_64, Cs

    try:
        code = linker.arena.read(pc, 15)
    except IndexError:
        return ""
    for _, _, mnemonic, operands in Cs(CS_ARCH_X86, CS_MODE_64).disasm_lite(code, pc, 1):
        return f"{mnemonic} {operands}".strip()
    return ""


def _card(
    message: str, where: str, instruction: str, frames: Sequence[Frame], kept: str, lost: str
) -> str:
    lines = [message]
    if where:
        lines.append(f"at {where}")
    if instruction:
        lines.append(f"    {instruction}")
    if len(frames) > 1:
        runs = [(where, len(list(same))) for where, same in groupby(f.where for f in frames)]
        for i, (place, times) in enumerate(runs[:12]):
            often = f", {times} times" if times > 1 else ""
            lines.append(f"  {'called from' if i else '        at '} {place}{often}")
        if len(runs) > 12 or len(frames) > _MAX_FRAMES:
            lines.append("  and more")
    if kept:
        lines.append(f"Kept: {kept}." + ("" if lost else " Nothing was lost."))
    if lost:
        lines.append(f"Lost: {lost}")
    return "\n".join(lines)
