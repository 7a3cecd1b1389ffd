"""What a call that was stopped has left to be looked at.  Start from `PostMortem`.

Frames, registers and a copy of the stack are as they were; memory and variables of the session are
as they are now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.session.debugging.records import Frame, Scope, Stopped, Variable, register

if TYPE_CHECKING:
    from jitkernel.session.core import Core
    from jitkernel.session.debugging.debugger import Debugger
    from jitkernel.session.debugging.records import Breakpoint
    from jitkernel.session.report import faults

__all__ = ["PostMortem"]

_GONE = "the call has ended: nothing goes on here. `q` closes this, and a breakpoint, or %debug "
_GONE += "--faults, stops the next run before its end"
_LEFT = "of locals nothing is left: `%debug --faults` stops the next run before its end"
_REGISTERS, _LOCALS = 1, 2


class PostMortem:
    """The last call that was stopped; see `shows.Seen`.  Raises UsageError where there is none."""

    def __init__(self, core: Core, debugger: Debugger):
        stopped = core.observers.stopped
        if stopped is None:
            raise UsageError("no call has been stopped that could be looked at")
        self._core, self._debugger = core, debugger
        # Of what is as it is now.
        self.add, self.remove, self.globals = debugger.add, debugger.remove, debugger.globals
        self.address_of = debugger.address_of
        self.cell_of, self.source_of = debugger.cell_of, debugger.source_of
        self._stopped: faults.StoppedCell = stopped
        self._frames = [f for f in stopped.frames if not f.thunk]

    @property
    def stop(self) -> Stopped:
        """The reason why it was stopped."""
        return Stopped("exception", 0, self._stopped.message)

    @property
    def breakpoints(self) -> list[Breakpoint]:
        return self._debugger.breakpoints

    def frames(self) -> list[Frame]:
        """Its frames, innermost first; a line is known where their code is still there."""
        places, found = self._core.places, []
        for index, named in enumerate(self._frames):
            pc = named.frame.pc
            at = pc - 1 if index else pc
            line, source = 0, ""
            owner = places.owner(at) if named.cell else None
            if owner is not None and owner[0] == named.cell:
                source = self._debugger.text_of(named.cell)
                line = places.line(at).line
            library = "" if named.cell else named.where
            found.append(Frame(index, named.where, source, line, pc, named.cell, library))
        return found

    def scopes(self, frame: int = 0) -> list[Scope]:
        """Variables of frames, of which nothing is left; registers of the innermost one."""
        found = [Scope("Locals", _LOCALS)]
        return found if frame else [*found, Scope("Registers", _REGISTERS)]

    def variables(self, reference: int, start: int = 0, count: int = 0) -> list[Variable]:
        if reference == _LOCALS:
            raise UsageError(_LEFT)
        return [register(name, value) for name, value in self.registers().items()]

    def evaluate(self, text: str, frame: int = 0, *, calls: bool = False) -> Variable:
        """A value of the session as it is now, or a register ($rip) as it was; nothing is called:
        there is no thread for that."""
        name = text.strip().removeprefix("(unsigned long)(").removesuffix(")")
        if name.startswith("$") and name[1:] in (registers := self.registers(frame)):
            return Variable(text, str(registers[name[1:]]), "unsigned long")
        try:
            return self._debugger.evaluate(text)
        except UsageError as error:
            raise UsageError(f"{error}; {_LEFT}") from None

    def registers(self, frame: int = 0) -> dict[str, int]:
        """The registers of the innermost frame; of others where they go on."""
        record = self._stopped.record
        if frame:
            return {"rip": self._frames[frame].frame.pc, "rsp": self._frames[frame].frame.start}
        return {"rip": record.pc, "rsp": record.sp, **record.registers}

    def threads(self) -> list[tuple[int, str]]:
        return []

    @property
    def thread(self) -> int:
        return 0

    def choose(self, thread: int) -> None:
        raise UsageError("of threads nothing is left: the call has ended")

    def disassemble(self, address: int, count: int) -> list[tuple[int, str]]:
        if self._debugger.name_of(address).endswith("gone"):
            return []
        return self._debugger.disassemble(address, count)

    def read(self, address: int, size: int) -> bytes:
        """Bytes of the stack as it was, of other memory as it is."""
        found = self._stopped.read(address, size)
        return found if found is not None else self._debugger.read(address, size)

    def name_of(self, address: int) -> str:
        record = self._stopped.record
        if record.sp <= address < record.stack_top:
            frame = next((f for f in self._frames if address < f.frame.stop), None)
            return f"stack of {frame.where}" if frame is not None else "stack"
        return self._debugger.name_of(address)

    def function(self, frame: int = 0) -> tuple[str, int, int] | None:
        """The function of a frame, where its code is still there."""
        named = self._frames[frame]
        owner = self._core.places.owner(named.frame.pc - bool(frame)) if named.cell else None
        if owner is None or owner[1] is None or owner[0] != named.cell:
            return None
        return named.where, owner[1].address, owner[1].address + owner[1].size

    # -- what only a program that stands can do --------------------------------------------------

    def go(self, motion: str = "continue") -> None:
        raise UsageError(_GONE)

    def end(self) -> None:
        """It has ended."""
