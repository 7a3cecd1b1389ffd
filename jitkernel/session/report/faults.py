"""What stopped a cell, in words that a student understands.

The executor reports numbers; here they get names: the function and cell, the instruction, the
source line, the backtrace, what was kept and what was lost.  Start from `error_of`.

`StoppedCell` is where a cell was stopped, or was when somebody looked: its registers, stack and
frames, kept until there is another one.  Frames get their names when it happens, since the code of
instructions that ran without a function is gone afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from jitkernel.arena import Arena
from jitkernel.arena.shared import called
from jitkernel.errors import Exited, Fault, Frame, Interrupted, TypeMismatch, UndefinedSymbol
from jitkernel.executor.records import FaultRecord, Outcome
from jitkernel.linker import Linker, Symbol
from jitkernel.linker.backtrace import StackFrame, walk
from jitkernel.linker.exporters import nobodys
from jitkernel.procfs import Region, regions
from jitkernel.session.interruption import TOO_LONG
from jitkernel.session.report.places import Places
from jitkernel.session.report.protection import refusal
from jitkernel.wording import counted

_MEANING = {
    "SIGSEGV": "segmentation fault",
    "SIGBUS": "bus error",
    "SIGFPE": "arithmetic fault",
    "SIGILL": "illegal instruction",
    "SIGTRAP": "trap",
    "SIGABRT": "abort",
}
#: The bytes below the stack pointer, and above it, in which an access that fails is of the frame:
#: pushes and probes, and the upper end of a frame that is all below the last page there is.
_PROBED, _FRAME = 64 << 10, 1 << 20
_LARGE = 16 << 20  # bytes below the stack's top: twice the default stack
_FPE = {1: "integer division by zero or overflow", 3: "floating-point division by zero"}
_MAX_FRAMES = 32
# A failed check of clang's undefined behaviour sanitizer is, in trap mode, an `ud1` whose operand
# is the check's number: clang's SanitizerHandler.h.
_UD1 = bytes.fromhex("670fb9")  # ud1l N(%eax), %eax: a byte that says whether N follows, and N
_NONE, _BYTE = 0x00, 0x40
_CHECKS = {
    0: "an addition of signed integers overflowed",
    1: "code was reached that was said never to be",
    3: "a division by zero, or of the least integer by -1",
    5: "a floating-point value does not fit the integer type",
    6: "a function was called through a pointer of another type",
    8: "a builtin function was called with 0, for which it has no result",
    10: "a value was loaded that its type does not have (of a _Bool or an enum)",
    11: "a function ended without returning its value",
    12: "a multiplication of signed integers overflowed",
    13: "the negation of a signed integer overflowed",
    16: "a null pointer was passed where none may be",
    17: "a null pointer was returned where none may be",
    18: "an index is out of the array's bounds",
    19: "a pointer was moved beyond its address space, or from a null pointer",
    20: "a shift by a negative count, by the type's width or more, or of a negative value",
    21: "a subtraction of signed integers overflowed",
    22: "a pointer is null, misaligned, or points to an object that is too small",
    23: "an assumption about a pointer's alignment is wrong",
    24: "an array of variable length has no positive length",
}


def signal_words(name: str, code: int, address: int) -> str:
    """A fault in a line, by its signal's name, its si_code and the address it concerns."""
    what = _FPE.get(code, "") if name == "SIGFPE" else ""
    where = f" at {address:#x}" if name in ("SIGSEGV", "SIGBUS") else ""
    return f"{name}: {what or _MEANING.get(name, 'a signal')}{where}"


def error_of(outcome: Outcome, places: Places, kept: str) -> tuple[Fault, StoppedCell | None]:
    """The error that an outcome other than "ok" is, and where the cell was stopped; None where the
    process left no record of that."""
    record, lost = outcome.record, outcome.lost
    if record is None:
        ended, _, rest = lost.partition("; ")
        message = ended or "the executor ended without a word"
        lost = rest or lost
        return Fault(_card(message, "", "", (), kept, lost), signal="", kept=kept, lost=lost), None
    pc = record.caller if outcome.kind == "stub" else record.pc
    called = _has_called(outcome, record)
    every = _named(record, pc or record.pc, places, places.name, called)
    frames = _told(every, pc)
    at = _culprit(outcome, record, pc, called, frames, places)
    where = _where(at, called or at != record.pc, frames, places)
    instruction = ""
    if not called and places.owner(record.pc):
        instruction = _instruction(places.linker, record.pc)
    kind, message, more = _kind(outcome, record, places, at, where)
    if kind is not TypeMismatch and record.thread == "other":
        message += ", on a thread that the program had started"
    if outcome.lock_holder is not None:
        message += f"; {outcome.lock_holder.words(places.code)}"
    card = _card(message, where, instruction, frames, kept, lost)
    at_stop = StoppedCell(outcome.kind, message, record, every) if record.sp else None
    if kind is TypeMismatch:
        return TypeMismatch(card), at_stop  # type: ignore[return-value]
    fault: Fault = kind(
        card, signal=record.signal, address=record.address, pc=record.pc, where=where,
        instruction=instruction, frames=frames, kept=kept, lost=lost, **more,
    )  # fmt: skip
    return fault, at_stop


def _has_called(outcome: Outcome, record: FaultRecord) -> bool:
    """True if what was stopped had called something, and its address is where that returns."""
    return outcome.kind in ("stub", "exit") or record.cause in ("abort", "stack smashed")


def _culprit(
    outcome: Outcome, record: FaultRecord, pc: int, called: bool, frames: Sequence[Frame],
    places: Places,
) -> int:  # fmt: skip
    """The innermost address of the session's own code, where that is known; else `pc`."""
    for frame in frames:
        if places.owner(frame.address, called or frame.address != pc) is not None:
            return frame.address
    if outcome.kind not in ("stub", "exit", "fault"):
        return pc
    ends = places.linker.symbols.get(record.cause.partition(" ")[0]) if record.cause else None
    return places.only_caller(places.stub(record.stub) if outcome.kind == "stub" else ends) or pc


def _where(at: int, returns: bool, frames: Sequence[Frame], places: Places) -> str:
    """`@get+4, cell 7, line 3: ...` for an address; a return address is the next instruction's."""
    where = places.code(at, returns)
    if places.owner(at, returns) is not None:
        within = at - 1 if returns else at
        line, text, inner = places.line(within)
        if inner:
            where = f"{inner}, inlined in {where}"
        if line:
            return f"{where}, line {line}: {text.strip()}"
        return f"{where}: {text}" if text and not returns else where
    return frames[0].where if frames else where  # a library function that a call line called


def _kind(
    outcome: Outcome, record: FaultRecord, places: Places, at: int, where: str
) -> tuple[type[Any], str, dict[str, Any]]:
    """The class of the error, what it says first, and what only that class has."""
    if outcome.kind == "exit":
        how = record.cause or "exit"
        status = "" if "thread" in how else f"({record.status})"
        return Exited, f"the cell called {how}{status}", {"status": record.status}
    if outcome.kind == "interrupted":
        return Interrupted, _interrupted(record), {}
    if outcome.kind == "stub":
        return _call_of(places, places.stub(record.stub))
    if record.cause == "abort":
        return Fault, "abort() was called", {}
    if record.cause == "stack smashed":
        words = "the stack was smashed: a local buffer was written past its end"
        return Fault, words, {}
    if record.signal == "SIGSEGV" and not record.sent and (gone := places.gone(at, record.address)):
        return _use_of(places, [s for s in gone if places.called(s.name) in where] or gone)
    return Fault, _fault(record, places), {}


def _call_of(places: Places, symbol: Symbol | None) -> tuple[type[Any], str, dict[str, Any]]:
    """A call of what nobody defines, or of what has another type than its caller knew."""
    if symbol is not None and " when compiled" in symbol.why:
        return TypeMismatch, symbol.why, {}
    name = symbol.name if symbol is not None else "?"
    why = f": {symbol.why}" if symbol is not None and symbol.why else f", {nobodys(name)}"
    return UndefinedSymbol, f"call of {places.called(name)}{why}", {"symbol": name}


def _use_of(places: Places, gone: Sequence[Symbol]) -> tuple[type[Any], str, dict[str, Any]]:
    """The same of variables."""
    why = "; ".join(s.why or f"{places.called(s.name)}, {nobodys(s.name)}" for s in gone)
    if any(" when compiled" in s.why for s in gone):
        return TypeMismatch, why, {}
    names = ", ".join(places.called(s.name) for s in gone)
    return UndefinedSymbol, f"use of {names}: {why}", {"symbol": gone[0].name}


def _interrupted(record: FaultRecord) -> str:
    if record.cause == "stdin":
        return "the cell waits for input, and this front end offers no input box"
    if record.cause == "timeout":
        return TOO_LONG
    return "the cell was interrupted"


def _fault(record: FaultRecord, places: Places) -> str:
    name = record.signal
    if record.sent:
        return _sent(name, record.sent)
    if name in ("SIGSEGV", "SIGBUS"):
        return _access(record, places)
    if name == "SIGFPE":
        return _FPE.get(record.code, _MEANING[name])
    if name in ("SIGTRAP", "SIGILL"):
        return _no_code(name, record.pc, places)
    return f"{name}: {_MEANING.get(name, 'a signal')}"


def _access(record: FaultRecord, places: Places) -> str:
    """The access that an address does not allow, and what is there."""
    arena, address = places.linker.arena, record.address
    if record.access == "execute" or record.pc == address:
        target = "address 0 (a null function pointer)" if address == 0 else f"address {address:#x}"
        what = places.name(address)
        return f"jump to {target}" + (f", {what}" if what else "")
    verb = {"write": "write to", "read": "read of"}.get(record.access, "access to")
    if record.code == 128 and not address:  # SI_KERNEL: the processor does not tell the address
        found = _decoded(places.linker, record.pc) if places.owner(record.pc) else None
        if found is None:
            return f"{verb} an address that cannot exist (not canonical), or not aligned"
        at, size, mnemonic, operands = found
        return refusal(mnemonic, operands, at + size, record.registers)
    if not address:
        return f"{verb} address 0 (a null pointer)"
    if address < 4096:
        return f"{verb} address {address:#x} ({counted(address, 'byte')} from a null pointer)"
    if record.sp and record.sp - _PROBED <= address < min(record.stack_top, record.sp + _FRAME):
        far = record.stack_top - record.sp > _LARGE
        why = "endless recursion" + ", or local variables too large for it" * far
        return f"the stack is used up ({why}?): {verb} {address:#x}"
    if last := places.beyond(address):
        return f"{verb} address {address:#x}, behind all variables: the last one is {last}"
    what = places.name(address) or called(address)
    if record.access == "write" and (places.owner(address) or what.startswith("the entry of")):
        what += ", which is code and cannot be written"
    elif record.access == "write" and address in arena and arena.zone_of(address) == "rodata":
        what += ", which is constant"
    return f"{verb} address {address:#x}" + (f" ({what})" if what else " (nothing is there)")


def _no_code(name: str, pc: int, places: Places) -> str:
    """A trap, or an instruction that is none, at an address."""
    if name == "SIGTRAP" and (passed := places.passed(pc)):
        return f"{passed} was left at its end: `unreachable` was reached, or a `ret` is missing"
    if former := places.former(pc):
        return f"a stale pointer led into {former}"
    if name == "SIGTRAP":
        return "a trap (int3): llvm.debugtrap, or `unreachable` was reached"
    if check := _undefined_behaviour(places.linker.arena, pc):
        return f"undefined behaviour: {check}"
    return "an illegal instruction (llvm.trap or unreachable code?)"


def _undefined_behaviour(arena: Arena, pc: int) -> str:
    """The finding of the check at an address of code; "" where there is none."""
    if pc not in arena or arena.zone_of(pc) != "text":
        return ""
    code = arena.read(pc, len(_UD1) + 2)
    form, number = code[-2:]
    if not code.startswith(_UD1) or form not in (_NONE, _BYTE):
        return ""
    number = number if form == _BYTE else 0
    return _CHECKS.get(number, f"check {number} of the sanitizer failed")


def _sent(name: str, sender: str) -> str:
    """A signal that was no fault of the code that ran."""
    if name == "SIGABRT" and sender == "the program itself":
        return "abort in a library (a failed check of its own: a double free, an assertion?)"
    how = " (raise or kill)" if sender == "the program itself" else ""
    real = ": no memory access failed" if name in ("SIGSEGV", "SIGBUS") else ""
    return f"the signal {name}, which {sender} sent{how}{real}"


def _told(frames: Sequence[NamedFrame], pc: int) -> tuple[Frame, ...]:
    """The frames that an error tells of: those of the session, and the innermost, at `pc`."""
    return tuple(
        Frame(named.frame.pc, named.where)
        for number, named in enumerate(frames[: _MAX_FRAMES + 1])
        if not named.thunk and named.where and "runtime" not in named.where
        and (not named.frame.library if number else pc)
    )  # fmt: skip


def _instruction(linker: Linker, pc: int) -> str:
    """The instruction at an address of text, Intel syntax."""
    found = _decoded(linker, pc)
    return f"{found[2]} {found[3]}".strip() if found is not None else ""


def _decoded(linker: Linker, pc: int) -> tuple[int, int, str, str] | None:
    """The same as `plain` gives it; None behind the end of the arena."""
    from jitkernel.linker.disassembly import plain

    try:
        return next(plain(linker.arena.read(pc, 15), pc))
    except IndexError:
        return None


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


@dataclass(frozen=True, slots=True)
class NamedFrame:
    """A frame, and where its code stood: `@get+4, cell 7`, or `puts+0x2d, libc.so.6`.

    `cell` is of the session's code, 0 elsewhere; `thunk`: it is what calls cells.
    """

    frame: StackFrame
    where: str
    cell: int
    thunk: bool

    @property
    def words(self) -> str:
        """The place where it stood, an address where nothing else is known."""
        return self.where or f"{self.frame.pc:#x}"


@dataclass(frozen=True, slots=True)
class StoppedCell:
    """The way in which a cell was stopped (`Outcome.kind`), in words; its registers and a copy of
    its stack; its frames, innermost first."""

    kind: str
    message: str
    record: FaultRecord
    frames: tuple[NamedFrame, ...]

    def read(self, address: int, size: int) -> bytes | None:
        """Bytes of the stack as it was; None outside of what was copied."""
        at = address - self.record.sp
        stack = self.record.stack
        return stack[at : at + size] if 0 <= at and at + size <= len(stack) else None


def running(record: FaultRecord, seconds: float, pid: int, places: Places) -> StoppedCell:
    """The same of a cell that runs, after so many seconds.  Asks the process nothing."""
    message = f"it runs, for {seconds:.1f} s now"
    maps = regions(pid)

    def name(address: int, returns: bool) -> str:
        if address in places.linker.arena:
            return places.name(address, returns)
        return in_file(maps, address)

    return StoppedCell("running", message, record, _named(record, record.pc, places, name))


def standing(record: FaultRecord, why: str, places: Places) -> StoppedCell:
    """The same of a cell that stands in a debugger."""
    named = _named(record, record.pc, places, places.name)
    return StoppedCell("standing", why, record, named)


def in_file(maps: Sequence[Region], address: int) -> str:
    """`libc.so.6+0x3fbf4` for an address in a file that is mapped, else the empty string."""
    for region in maps:
        if region.start <= address < region.stop and region.name.startswith("/"):
            first = next(r.start for r in maps if r.name == region.name)
            return f"{os.path.basename(region.name)}+{address - first:#x}"
    return ""


def _named(
    record: FaultRecord, pc: int, places: Places, name: Callable[[int, bool], str],
    called: bool = False,
) -> tuple[NamedFrame, ...]:  # fmt: skip
    """The frames by name; what the innermost one has `called` returns to `pc`."""
    registers = {"rsp": record.sp, **record.registers, "rip": pc}
    try:
        frames = walk(registers, StoppedCell("", "", record, ()).read, places.linker)
    except (ValueError, KeyError, IndexError):
        frames = []
    named = []
    for frame in frames:
        returns = called or frame is not frames[0]
        owner = places.owner(frame.pc, returns)
        where = places.code(frame.pc, returns) or name(frame.pc, returns)
        cell = owner[0] if owner is not None else 0
        named.append(NamedFrame(frame, where, cell, places.is_thunk(frame.pc)))
        if named[-1].thunk:
            break
    return tuple(named)
