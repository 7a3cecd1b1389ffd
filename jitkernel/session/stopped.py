"""Where a cell was stopped, or was when somebody looked: its registers, its stack, its frames.

Kept until there is another one.  Frames are told when it happens, since the code of instructions
that ran without a function is gone afterwards.  Start from `Stopped`, `stopped` and `running`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jitkernel.errors import Fault
from jitkernel.executor import FaultRecord, Outcome
from jitkernel.executor.procfs import Region, regions
from jitkernel.linker import Linker
from jitkernel.linker.backtrace import StackFrame, walk
from jitkernel.session.places import Places

__all__ = ["NamedFrame", "Stopped", "in_file", "running", "stopped"]


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
    message = str(fault).partition("\n")[0]
    pc = record.caller if outcome.kind == "stub" and record.caller else record.pc
    return _named(outcome.kind, message, record, pc, places, linker, places.name)


def running(
    record: FaultRecord, seconds: float, pid: int, places: Places, linker: Linker
) -> Stopped:
    """The same of a cell that runs, after so many seconds.  Asks the process nothing."""
    message = f"it runs, for {seconds:.1f} s now"
    maps = regions(pid)

    def name(address: int) -> str:
        if address in linker.arena:
            return places.name(address)
        return in_file(maps, address)

    return _named("running", message, record, record.pc, places, linker, name)


def in_file(maps: Sequence[Region], address: int) -> str:
    """`libc.so.6+0x3fbf4` for an address in a file that is mapped, else the empty string."""
    for region in maps:
        if region.start <= address < region.stop and region.name.startswith("/"):
            first = next(r.start for r in maps if r.name == region.name)
            return f"{os.path.basename(region.name)}+{address - first:#x}"
    return ""


def _named(
    kind: str,
    message: str,
    record: FaultRecord,
    pc: int,
    places: Places,
    linker: Linker,
    name: Callable[[int], str],
) -> Stopped:
    kept = Stopped(kind, message, record, ())
    registers = {"rsp": record.sp, **record.registers, "rip": pc}
    try:
        frames = walk(registers, kept.read, linker)
    except (ValueError, KeyError, IndexError):
        frames = []
    named = []
    for frame in frames:
        owner = places.owner(frame.pc)
        where = places.code(frame.pc) or name(frame.pc)
        cell = owner[0] if owner is not None else 0
        named.append(NamedFrame(frame, where, cell, places.is_thunk(frame.pc)))
        if named[-1].thunk:
            break
    return Stopped(kind, message, record, tuple(named))
