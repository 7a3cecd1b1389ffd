"""Where a cell was stopped, kept until the next one is: its registers, its stack, its frames.

Frames are told when it happens, since the code of instructions that ran without a function is gone
afterwards.  Start from `Stopped` and `stopped`.
"""

from __future__ import annotations

from dataclasses import dataclass

from jitkernel.errors import Fault
from jitkernel.executor import FaultRecord, Outcome
from jitkernel.linker import Linker
from jitkernel.linker.backtrace import StackFrame, walk
from jitkernel.session.faults import Places

__all__ = ["NamedFrame", "Stopped", "stopped"]


@dataclass(frozen=True, slots=True)
class NamedFrame:
    """A frame, and where its code stood: `@get+4, cell 7`, or `puts+0x2d, libc.so.6`.

    `cell` is of the session's code, 0 elsewhere; `thunk`: it is what calls cells.
    """

    frame: StackFrame
    where: str
    cell: int
    thunk: bool


@dataclass(frozen=True, slots=True)
class Stopped:
    """How a cell was stopped (`Outcome.kind`), in words; its registers and a copy of its stack; its
    frames, innermost first."""

    kind: str
    message: str
    record: FaultRecord
    frames: tuple[NamedFrame, ...]

    def read(self, address: int, size: int) -> bytes | None:
        """Bytes of the stack as it was; None outside of what was copied."""
        at = address - self.record.sp
        stack = self.record.stack
        return stack[at : at + size] if 0 <= at and at + size <= len(stack) else None


def stopped(outcome: Outcome, fault: Fault, places: Places, linker: Linker) -> Stopped | None:
    """What to keep of a cell that did not end well; None where the process left no record."""
    record = outcome.record
    if record is None or not record.sp:
        return None
    kept = Stopped(outcome.kind, str(fault).partition("\n")[0], record, ())
    registers = {"rip": record.pc, "rsp": record.sp, **record.registers}
    if outcome.kind == "stub" and record.caller:
        registers["rip"] = record.caller
    try:
        frames = walk(registers, kept.read, linker)
    except (ValueError, KeyError, IndexError):
        frames = []
    named = []
    for frame in frames:
        owner = places.owner(frame.pc)
        where = places.code(frame.pc) or places.name(frame.pc)
        cell = owner[0] if owner is not None else 0
        named.append(NamedFrame(frame, where, cell, places.is_thunk(frame.pc)))
        if named[-1].thunk:
            break
    return Stopped(kept.kind, kept.message, record, tuple(named))
