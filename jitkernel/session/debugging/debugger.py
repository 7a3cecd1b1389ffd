"""A session's debugger: breakpoints, steps, and what can be seen while the program stands.

What is done in the program is `machine.py`'s.  While a call runs, all of it happens in the thread
that waits for the call; others hand their jobs over with `Debugger.ask`.  Start from `Debugger`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from jitkernel.errors import UsageError
from jitkernel.executor import abi
from jitkernel.session.debugging.frames import name_of
from jitkernel.session.debugging.machine import NOTHING_STANDS, Machine, unheard
from jitkernel.session.debugging.points import Points
from jitkernel.session.debugging.records import (
    Breakpoint,
    Event,
    Frame,
    Motion,
    Scope,
    Variable,
)
from jitkernel.session.debugging.view import Calling
from jitkernel.session.debugging.watching import Watchpoint
from jitkernel.session.debugging.wholes import bodies

if TYPE_CHECKING:
    from jitkernel.compiler.records import Request
    from jitkernel.executor.watches import Access
    from jitkernel.session.debugging.postmortem import PostMortem
    from jitkernel.session.debugging.prompt import Prompt
    from jitkernel.session.debugging.values import Value
    from jitkernel.session.report.faults import StoppedCell
    from jitkernel.values.datatype import DataType

__all__ = ["Debugger"]

T = TypeVar("T")
_COPIED = 32 << 10  # bytes of the stack that are copied
_PATIENCE = 0.05  # seconds between two looks whether the session can be used


class Debugger(Machine):
    """See `Session.debugger`.

    `listener` is told what happens, in the thread that waits for the call, and may let the program
    go on itself.  `faults`: calls stop where they fault, before the session recovers.  `stop` says
    why the program stands; None where it does not.  `whole` gives the whole text of a cell of which
    the session has a part.
    """

    # -- on and off ----------------------------------------------------------------------------

    def start(self) -> None:
        """From now on calls stop at breakpoints.  Raises UsageError where code cannot be stopped:
        in an inline session."""
        stops, engine = self._core.engine.executor.stops, self._core.engine
        if stops is None:
            raise UsageError(getattr(engine.executor, "unstopped", "this code cannot be stopped"))
        self.on, stops.screen, stops.on_stop = True, self._screen, self._met
        engine.around = self._around
        self._core.debugs, self._core.places.lines.debugged = self.wants, self._line_of

    def close(self) -> None:
        """There are no breakpoints any more, and what stands goes on."""
        if not self.on:
            return
        self._wanted, self._step, self._due = Points(), None, False
        self._conditions.renew(())  # their numbers come again
        self._resolve()
        if self.stop is not None and self._stops.standing is not None:  # it may be ending
            self.go()
        if not self._running:
            self._forms.close()
            self._stops.screen = self._stops.on_stop = None
        self.on = self.faults = False
        self._core.engine.around = self._core.debugs = None
        self.listener = unheard

    @property
    def optimised(self) -> bool:
        """True if code to be debugged is optimised as its cell is, from the next call on: lines
        come out of order then, values may be gone (those of what changes in a loop are), and
        functions be parts of others.  False at first: it is compiled at -O0, and every value is
        there."""
        return self._forms.optimised

    @optimised.setter
    def optimised(self, value: bool) -> None:
        self._forms.optimised = self._core.debugs_optimised = value

    def ask(self, job: Callable[[], T]) -> T:
        """Do a job where the session may be used, from any thread: in the one that waits for the
        call that runs or stands, else here.  Raises what the job raises."""
        lock, executor = self._core.lock, self._core.engine.executor
        while True:
            if (posted := executor.post(job)) is not None:
                with contextlib.suppress(CancelledError):  # the call has ended before it was done
                    return posted.result()
            if lock.acquire(timeout=_PATIENCE):
                try:
                    return job()
                finally:
                    lock.release()

    # -- breakpoints ---------------------------------------------------------------------------

    @property
    def breakpoints(self) -> list[Breakpoint]:
        """All of them, by number."""
        self._conditions.look(self._wanted)
        return sorted(self._wanted, key=lambda point: point.number)

    def set_breakpoints(self, source: str, wanted: Sequence[Breakpoint]) -> list[Breakpoint]:
        """The breakpoints at lines of a cell, in place of those before; `source` is the cell's
        whole text, which need not have run.  What is not `verified` says why.  Raises UsageError
        for one that makes no sense."""
        found = self._wanted.set_in(source, wanted)
        self._resolve()
        return found

    def add(self, wanted: Breakpoint) -> Breakpoint:
        """One more breakpoint.  Raises UsageError for one that makes no sense."""
        if wanted.watch:
            return self._add_watch(wanted)
        made = self._wanted.add(wanted)
        if made.function and not self._running:
            made.message = self._why({}).get(made.function, "")
        self._resolve()
        return made

    def remove(self, number: int) -> None:
        """One less.  Raises UsageError where there is none of this number."""
        self._wanted.remove(number)
        self._resolve()

    def watch(
        self,
        what: str | int,
        size: int = 0,
        access: Access = "write",
        *,
        frame: int = 0,
        condition: str = "",
        hit_condition: str = "",
    ) -> Breakpoint:
        """Stop behind each instruction that writes to a variable, in every thread: `what` is an
        expression, in a frame where something stands, or an address.  With `access` "readWrite"
        those that read stop, too.

        `size` is 1, 2, 4 or 8 bytes, by default those of the expression, and 8 at an address; the
        place has to be a multiple of it.  Four places can be watched at once.  An expression of the
        session's variables is looked up again as a call begins, what it means then is watched;
        a variable of a frame is watched until that ends.  A stop tells the old and the new value; a
        write of the same value stops as well.

        The processor does it: nothing becomes slower.  It does not see what the system writes, as
        `read(2)` does into a buffer, nor other processes; such changes are told at the next stop,
        and when the call is over.

        Raises UsageError, which says what to do, for what cannot be watched: registers and
        constants, other sizes, and where the system does not allow it.
        """
        self._stops  # noqa: B018  # raises where it is off
        made = self.watchable(what, size, access, frame=frame)
        made.condition, made.hit_condition = condition, hit_condition
        return self._add(made)

    def watchable(
        self,
        what: str | int,
        size: int = 0,
        access: Access = "write",
        *,
        frame: int = 0,
        reference: int = 0,
    ) -> Breakpoint:
        """The watchpoint that `watch` would add; with a `reference`, `what` is the name of one of
        its variables. Raises the same."""
        if reference and isinstance(what, str):
            what, frame = self._standing.meant(reference, what)
        thread = self.stop.thread if self.stop is not None else 0
        view = self._view if self._view is not None and self.stop is not None else self._idle()
        return self._watching.point(view, what, size, access, frame, thread)

    def _add_watch(self, wanted: Breakpoint) -> Breakpoint:
        """One that was made elsewhere, as for another session: the expression counts."""
        if isinstance(wanted, Watchpoint) and wanted.stack:
            return self._add(self._watching.again(wanted, self._standing))
        what: str | int = int(wanted.watch[1:], 0) if wanted.watch[:3] == "*0x" else wanted.watch
        access: Access = "readWrite" if wanted.access == "readWrite" else "write"
        made = self.watchable(what, wanted.size, access)
        made.condition, made.hit_condition, made.log = (
            wanted.condition, wanted.hit_condition, wanted.log,
        )  # fmt: skip
        return self._add(made)

    def _add(self, made: Breakpoint) -> Breakpoint:
        if isinstance(made, Watchpoint):
            self._watching.room(made)
        made = self._wanted.add(made)
        if self._running and self.stop is None:  # asked while it runs: watched from the next stop
            made.message = "watched from the next stop on"
        return made

    # -- going on ------------------------------------------------------------------------------

    def go(self, motion: Motion = "continue") -> None:
        """Let what stands go on: to the next breakpoint, to the next line (`next`), into a function
        that the line calls (`step_in`), back to the caller (`step_out`), by one instruction.  The
        thread that was chosen makes the step; all others go on meanwhile, as gdb lets them.

        At a fault the session recovers as ever, unless something was set: then the line begins
        again.  Raises UsageError where nothing stands.
        """
        view = self._standing
        fault = self.stop is not None and self.stop.reason == "exception"
        view = self._views.get(self._own, view) if fault else view
        if fault and view.edited:
            self._begin_again(view)
        elif motion != "continue" and not fault:
            self._begin(motion, view)
        self.stop = None
        self.listener(Event("continued"))
        called, self._called = self._called, False
        if fault and not view.edited:
            self._points.arm()
            self._leave_others()
            if called:  # it stands behind a call now: it goes to its fault again
                self._faults_again = view.registers["rip"]
                self._leave()
                return
            self._view = None
            self._stops.go(abi.OWN)
            return
        self._put(self._at)
        self._unwatched(self._watching.open())
        self._points.arm()
        self._leave()

    def end(self) -> None:
        """End the call that stands, as an interrupt does.  Raises UsageError where nothing does."""
        if self.stop is None:
            raise UsageError(NOTHING_STANDS)
        self._stops.go(abi.END)

    def pause(self) -> None:
        """Stop what runs where it is.  From any thread.  Raises UsageError where nothing runs."""
        self._asked = True
        if not self._stops.pause():
            self._asked = False
            raise UsageError("nothing runs that could be paused")

    # -- people --------------------------------------------------------------------------------

    def prompt(
        self, read_line: Callable[[str], str | None], write: Callable[[str], object]
    ) -> Prompt:
        """From now on each stop opens a prompt with gdb's words: `read_line(prompt)` gives a line,
        `write` prints lines; `prompt(input, print)` for a terminal.  See `Prompt`."""
        from jitkernel.session.debugging.prompt import Prompt

        foreign = self._core.foreign
        made = Prompt(self, lambda text: foreign.run(read_line, text), write)
        self.listener = made.hear
        return made

    @property
    def heard(self) -> bool:
        """True if there is a listener."""
        return self.listener is not unheard

    # -- looking -------------------------------------------------------------------------------

    def threads(self) -> list[tuple[int, str]]:
        """The threads that stand, the one that has stopped first: ids and names."""
        stop = self._stops.standing
        if stop is None:
            return [(1, "cell")]
        pid = self._core.engine.executor.pid
        return [(t, "cell" if t == pid else f"thread {t}") for t in stop.threads]

    @property
    def thread(self) -> int:
        """The id of the thread whose frames and variables are shown: at first the one that has
        stopped.  Raises UsageError where nothing stands."""
        self._standing  # noqa: B018
        return self._thread

    def choose(self, thread: int) -> None:
        """Look at another thread that stands, and have it make the next step.  Raises UsageError
        where it does not stand."""
        self._standing  # noqa: B018
        stop = self._stops.standing
        if stop is None or thread not in stop.contexts:
            known = ", ".join(str(number) for number, _ in self.threads())
            raise UsageError(f"thread {thread} does not stand; those that do: {known}")
        if thread not in self._views:
            registers = self._points.original_registers(self._stops.registers(thread))
            self._look_at(thread, registers, stop.contexts[thread])
        self._view, self._thread = self._views[thread], thread

    def frames(self) -> list[Frame]:
        """The frames of the thread that is looked at, the innermost first."""
        return self._standing.frames(self._source_of)

    def scopes(self, frame: int = 0) -> list[Scope]:
        """The parts of what a frame has: Locals, Globals, Registers."""
        return self._standing.scopes(frame)

    def variables(self, reference: int, start: int = 0, count: int = 0) -> list[Variable]:
        """The variables that a scope or a value has, by its reference: all, or `count` from `start`
        on."""
        return self._standing.variables(reference, start, count)

    def set_variable(self, reference: int, name: str, text: str) -> Variable:
        """Set one of the variables that a reference stands for.  Raises UsageError, which says what
        is expected."""
        return self._standing.set_variable(reference, name, text)

    def evaluate(self, text: str, frame: int = 0, *, calls: bool = False) -> Variable:
        """The value of an expression of C, or of a value of LLVM's, in a frame; `x = 5` sets.

        Runs no code, unless `calls`: then functions of cells, and those of libraries that cells
        declare, are called on the thread that stands, with numbers and addresses as arguments.
        One that meets a fault or a breakpoint, or is interrupted, is left where it is: registers
        are as before, what it has changed in memory stays.  Other threads run meanwhile, and stop
        at nothing.  Raises UsageError.
        """
        if self._view is None or self.stop is None:
            return self._idle().evaluate(text)
        calling = Calling(self._call, self._copy_asked) if calls else None
        return self._view.evaluate(text, frame, calling)

    def value(self, text: str, frame: int = 0) -> Value:
        """The value of an expression in a frame, with its type and where it is; without one that
        stands, of the session's variables.  It sets nothing.  Raises UsageError."""
        stands = self._view is not None and self.stop is not None
        return self._standing.value(text, frame) if stands else self._idle().value(text)

    def type_called(self, text: str) -> DataType | None:
        """The type that a name has in the languages of the cells, such as `struct s` or `size_t`;
        None where none has."""
        return self._core.prototypes.type_called(text)

    def globals(self) -> list[Variable]:
        """The session's variables; also while nothing stands."""
        return (self._view or self._idle()).globals()

    def registers(self, frame: int = 0) -> dict[str, int]:
        """The registers of a frame, as far as they are known."""
        return dict(self._standing.frame(frame).registers)

    def stopped(self) -> StoppedCell | None:
        """The place where it stands, with registers and stack, as `%stack` shows it; None where
        nothing does."""
        view, stop = self._view, self.stop
        if view is None or stop is None:
            return None
        from jitkernel.executor.records import FaultRecord
        from jitkernel.session.report.faults import standing

        registers, executor = view.registers, self._core.engine.executor
        low, top = registers["rsp"], executor.stack_top
        record = FaultRecord(
            pc=registers["rip"], sp=low, registers=registers, stack_top=top,
            stack=self.read(low, min(max(top - low, 0), _COPIED)), generation=executor.generation,
        )  # fmt: skip
        return standing(record, stop.text or stop.reason, self._core.places)

    @property
    def chosen(self) -> int:
        """The frame that is looked at, the innermost at each stop: views mark its place."""
        return self._view.chosen if self._view is not None else 0

    @chosen.setter
    def chosen(self, frame: int) -> None:
        self._standing.frame(frame)
        self._standing.chosen = frame

    def marks(self) -> dict[int, str]:
        """The addresses at which frames go on, the next instruction's among them: `=>` marks that
        of the frame that is looked at, `->` others.  None where nothing stands."""
        view = self._view if self.stop is not None else None
        if view is None:
            return {}
        marks = {live.pc: "->" for live in view.live}
        return {**marks, view.frame(view.chosen).pc: "=>"}

    def request(self, cell: int) -> Request | None:
        """The compiler's request for the code that runs in place of a cell's ordinary code, while
        the program stands; None where that is not so."""
        return self._forms.request(cell) if self.stop is not None else None

    def form_of(self, name: str, cell: int) -> tuple[int, int, list[tuple[int, int]]] | None:
        """The code of a cell's function that runs in place of its ordinary code, while the program
        stands: its address, its size, and addresses with lines; None where that is not so."""
        if self.stop is None:
            return None
        for part in self._code.parts:
            if part.image.cell == cell:
                for function in part.info.functions:
                    if function.name.lstrip("@") == name:
                        rows = part.info.lines.between(function.low, function.high)
                        lines = [(row.start, row.line) for row in rows]
                        return function.low, function.high - function.low, lines
        return None

    def describe(self, address: int) -> str:
        """The words for what is at an address, as values of pointers show it: `@g+4`, `0x7f00`."""
        return (self._view or self._idle()).describe(address)

    def name_of(self, address: int) -> str:
        """The name of an address, in a few words: `sq+4, cell 1`, `g+8`; "" where nothing is known
        of it."""
        if self._view is not None and (words := self._view.stack_of(address)):
            return words
        places = self._core.places
        if address in self._core.engine.arena:
            return places.data(address) or places.name(address)
        return places.name(address)

    def address_of(self, name: str) -> int:
        """The place where a function or a variable of the session's is; 0 where there is none of
        this name."""
        symbol = self._core.program.named(name.lstrip("@"))
        return symbol.address if symbol is not None else 0

    def function(self, frame: int = 0) -> tuple[str, int, int] | None:
        """The function of a frame: its name, where its code begins and ends; None where that is
        not known."""
        live = self._standing.frame(frame)
        if (place := live.place) is not None:
            return name_of(self._core, live), place.function.low, place.function.high
        owner = self._core.places.owner(live.at)
        if owner is None or owner[1] is None or not owner[1].size:
            return None
        return name_of(self._core, live), owner[1].address, owner[1].address + owner[1].size

    def cell_of(self, source: str) -> int:
        """The number of the last cell with this text that has code; 0 where none has."""
        texts = {body for body, _ in bodies(source)}
        found = [self._numbers[hash(text)] for text in texts if hash(text) in self._numbers]
        found += [n for n in self._core.program.cells if self._source(n) in texts]
        return max(found, default=0)

    def source_of(self, cell: int = 0) -> str:
        """The whole text of a cell; for 0 of the one where the program stands, else of the last one
        that defined something.  Raises UsageError where there is none."""
        if not cell:
            if self._view is not None and self.stop is not None:
                return self.frames()[0].source
            cell = max(self._core.program.cells, default=0)
        if not (source := self.text_of(cell)):
            raise UsageError(
                f"there is no cell {cell} whose text is known" if cell else "there is no cell yet"
            )
        return source

    def text_of(self, cell: int) -> str:
        """The whole text of a cell that has defined something; "" where none is known."""
        source = self._source(cell)
        return self.whole(source) if source else ""

    def texts(self, most: int) -> list[tuple[int, str]]:
        """The last `most` cells in memory whose texts are known: their numbers and whole texts."""
        numbers = sorted(self._core.program.cells)[-most:]
        return [(number, text) for number in numbers if (text := self.text_of(number))]

    def post_mortem(self) -> PostMortem:
        """The remains of the last call that was stopped.  Raises UsageError where there is none."""
        from jitkernel.session.debugging.postmortem import PostMortem

        return PostMortem(self._core, self)

    def disassemble(self, address: int, count: int) -> list[tuple[int, str]]:
        """Instructions from an address on: their addresses and texts."""
        from jitkernel.linker.disassembly import plain

        found = islice(plain(self.read(address, 16 * count), address), count)
        return [(at, f"{name} {operands}".strip()) for at, _, name, operands in found]

    def instructions(self, address: int, first: int, count: int) -> list[tuple[int, str]]:
        """So many instructions, the `first` of them so many after the one at an address, or before
        it (< 0): of its function.  Where there are none, the text is `??`."""
        place, owner = self._code.at(address), self._core.places.owner(address)
        low = place.function.low if place is not None else 0
        if not low and owner is not None and owner[1] is not None:
            low = owner[1].address
        before = [i for i in self.disassemble(low, address - low) if i[0] < address] if low else []
        before = before[first:] if first < 0 else []
        start = before[0][0] if before else address
        before[:0] = [(start - n, "??") for n in range(max(-first, 0) - len(before), 0, -1)]
        after = self.disassemble(address, max(first + count, 0))[max(first, 0) :]
        end = after[-1][0] + 1 if after else address
        after += [(end + n, "??") for n in range(count)]
        return [*before, *after][:count]
