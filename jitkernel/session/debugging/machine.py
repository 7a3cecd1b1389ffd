"""The machine under a session's debugger: code that can be debugged and breakpoints come in for a
call, threads stop, and go on.  Start from `Machine`.

While a call runs, everything here happens in the thread that waits for it.  Code that was compiled
to be debugged, and breakpoints, are in memory only while a call runs, and breakpoints not while it
stands: whoever looks at the program never sees any of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from jitkernel import procfs
from jitkernel.errors import ArenaFull, Interrupted, JitError, UsageError
from jitkernel.executor import abi
from jitkernel.linker.displaced import NotDisplaced
from jitkernel.linker.records import SymbolKind
from jitkernel.session.debugging.arrivals import arrivals
from jitkernel.session.debugging.callables import Call
from jitkernel.session.debugging.calling import Arguments, Calls
from jitkernel.session.debugging.code import Code, Place
from jitkernel.session.debugging.conditions import Conditions
from jitkernel.session.debugging.forms import Forms
from jitkernel.session.debugging.frames import LiveFrame, frame_of
from jitkernel.session.debugging.points import Points, message
from jitkernel.session.debugging.reached import reached
from jitkernel.session.debugging.records import (
    Breakpoint,
    Event,
    Motion,
    Reason,
    Stopped,
)
from jitkernel.session.debugging.session_variables import thread_locals
from jitkernel.session.debugging.stepping import Around, Step, Target
from jitkernel.session.debugging.view import Memory, View
from jitkernel.session.debugging.watching import OVER, Watching, Watchpoint
from jitkernel.session.debugging.wholes import bodies
from jitkernel.session.report.faults import signal_words
from jitkernel.wording import did_you_mean

if TYPE_CHECKING:
    from jitkernel.elf.dwarf import Function
    from jitkernel.executor.records import Outcome
    from jitkernel.executor.stops import Stop, Stops
    from jitkernel.linker import Symbol
    from jitkernel.session.core import Core
    from jitkernel.session.debugging.values import Value
    from jitkernel.session.program.cell import Cell

__all__ = ["Machine", "unheard"]

_TRACE = 0x100  # EFLAGS.TF
_INT3 = b"\xcc"
_STACK = 8 << 20  # bytes of a thread's stack that are looked at
_FRAME = 16  # bytes from what `rbp` is in a frame to the frame's end
NOTHING_STANDS = "nothing stands: the program has to meet a breakpoint first, or be paused"


class Machine:
    """The state of a debugger, and what it does to the program: see `Debugger`."""

    def __init__(self, core: Core):
        self._core = core
        self.on = self.faults = False
        self.listener: Callable[[Event], object] = unheard
        self.whole: Callable[[str], str] = str
        self.stop: Stopped | None = None
        self._wanted, self._points = Points(), core.engine.linker.breakpoints
        self._code, self._forms = Code(core), Forms(core)
        self._conditions = Conditions(core, self._code)
        self._sources: dict[int, tuple[Cell, str]] = {}  # of cells, by number
        self._numbers: dict[int, int] = {}  # of cells that have stopped, by their texts' hashes
        self._at: dict[int, list[Breakpoint]] = {}  # by address
        self._stepped: set[int] = set()  # cells that were stepped into during this call
        self._reached: set[int] = set()  # that it may come to, where it stops at faults
        self._step: Step | None = None
        self._carried: Step | None = None  # that was in progress when the last call ended
        self._kept: Around | None = None  # what was around the frame that was stepped last
        self._plans: dict[tuple[Function, int, Motion], dict[int, Target]] = {}
        self._stepping = 0  # the cell whose code is stepped, its outermost frame's
        self._view: View | None = None
        self._because: Reason = "step"  # why it is to stand, and the breakpoints that it has met
        self._hit: tuple[int, ...] = ()
        self._running = self._stood = False
        self._thread = self._own = 0  # that is looked at, and that has stopped
        self._views: dict[int, View] = {}  # of those that were looked at, by thread
        self._due = self._asked = False  # code is to be placed, somebody wants a pause
        self._placed: set[int] = set()  # addresses of breakpoints that are asked for
        self._memory = Memory(self.read, self._write)
        self._watching = Watching(core, lambda: self._wanted, self.read)
        self._text = ""  # what has happened to what is watched
        self._here = False  # what is at the stop's address was not met yet
        self._calls = Calls(core, self._shown_again, self._points.disarm, self._meets)
        self._faults_again = 0  # where a thread goes to its fault again, after calls on it
        self._called = False  # functions were called where it stands

    @property
    def _stops(self) -> Stops:
        stops = self._core.engine.executor.stops
        if stops is None or not (self.on or self._running):
            raise UsageError("the debugger is not on: start it first")
        return stops

    # -- code ----------------------------------------------------------------------------------

    def _cells(self) -> set[int]:
        """The cells whose code is to be such that can be debugged."""
        program, texts = self._core.program, self._wanted.texts()
        found = {
            number for number, cell in program.cells.items()
            if texts and cell.image is not None and self._source(number) in texts
        }  # fmt: skip
        for point in self._wanted:
            if point.function and (owner := program.owner(point.function.lstrip("@"))):
                found.add(owner)
        return (found | self._stepped) & program.cells.keys()

    def wants(self, source: str) -> bool:
        """True if code of this text that runs once is to be compiled to be debugged."""
        return self.on and (self.faults or source in self._wanted.texts())

    def _locals_at_faults(self, function: int) -> set[int]:
        """The cells that are to be debugged only so that a fault in them shows its variables."""
        if not self.faults or self._core.engine.measuring:
            return set()
        return reached(self._core, function)

    def _resolve_with(self, reached: set[int]) -> None:
        """As a call begins, with the cells that it may come to, as far as there is room."""
        self._reached = reached
        try:
            self._resolve()
        except ArenaFull:
            if not reached:
                raise
            self._reached = set()
            self._resolve()

    def _source(self, cell: int) -> str:
        """The session's text of a cell."""
        now = self._core.program.cells.get(cell)
        known = self._sources.get(cell)
        if known is not None and known[0] is now:
            return known[1]
        record = self._core.store.get(cell)
        source = record.source if record is not None else ""
        if now is not None:
            self._sources[cell] = now, source
        return source

    def _source_of(self, part: str) -> tuple[str, int]:
        whole = self.whole(part)
        return whole, next((above for body, above in bodies(whole) if body == part), 0)

    def _resolve(self) -> None:
        """Put what is wanted into the code that runs: where none does, nothing is there yet."""
        if not self._running:
            return
        reasons = self._forms.want(self._cells(), self._reached)
        serving = self._core.engine.executor.serving
        if serving and self._stops.standing is None and self._forms.waiting:
            self._due = True  # nobody may run what is written over: see `_met`
            self._stops.pause()
        else:
            self._due = False
            reasons |= self._install(serving)
        self._code.find(self._forms.objects())
        self._numbers |= {hash(part.source): part.image.cell for part in self._code.parts}
        self._at, changed = self._wanted.resolve(self._code, self._why(reasons), self._unreached)
        self._conditions.renew(self._wanted)
        self._kept = None
        self._plans.clear()
        self._put(self._at)
        if self._points.armed:  # others may be wanted at the same places
            self._tell(self._points.table())
        for point in changed:
            self.listener(Event("breakpoint", breakpoint=point))

    def _unreached(self, address: int) -> str:
        """The reason why the ordinary function does not lead to the one at an address."""
        if not self._forms.left_out or (place := self._code.at(address)) is None:
            return ""
        left_out = self._forms.left_out.get(place.part.image.cell, {})
        name = place.function.name.lstrip("@")
        why = left_out.get(name, "")
        return f"{self._core.program.called(name)}: {why}" if why else ""

    def _install(self, serving: bool) -> dict[int, str]:
        """Put code that can be debugged in memory; of what cannot come while code runs, why not, by
        cell: it refers to what has to be looked up in the program's process."""
        if not serving:
            self._forms.install(self._core.engine.executor.taken)
            return {}
        waiting = self._forms.waiting
        try:
            self._forms.install(self._taken)
        except Interrupted:
            raise
        except JitError as error:
            return {form.cell.number: f"from the next call on: {error}" for form in waiting}
        return {}

    def _taken(self) -> set[int]:
        """The places where threads that stand are in the session's code, and where they may go
        on."""
        stop, zone = self._stops.standing, self._core.engine.arena.zones["text"]
        found: set[int] = set()
        for tid in stop.threads if stop is not None else ():
            with contextlib.suppress(UsageError):
                registers = self._stops.registers(tid)
                found.add(registers["rip"])
                data = self._core.engine.read(registers["rsp"], _STACK)
                words = memoryview(data[: len(data) & -8]).cast("Q")
                found.update(word for word in words if zone.start <= word < zone.stop)
        return found

    def _why(self, reasons: dict[int, str]) -> dict[str, str]:
        """The reason why there is no code to be debugged, by the session's text of a cell and the
        name of a function."""
        program = self._core.program
        found = {self._source(number): why for number, why in reasons.items()}
        for point in self._wanted:
            name = point.function.lstrip("@")
            if name and (owner := program.owner(name)):
                left_out = self._forms.left_out.get(owner, {})
                why = left_out.get(name) or reasons.get(owner, "")
                if why:
                    found[point.function] = f"{program.called(name)}: {why}"
            elif name:
                known = [program.called(n) for n, s in program.linker.symbols.items() if s.image]
                near, later = did_you_mean(program.called(name), known), ": it is set when one does"
                found[point.function] = f"no cell defines {point.function} yet{near or later}"
        return found

    def _put(self, wanted: Sequence[int] | dict[int, list[Breakpoint]]) -> None:
        """Have breakpoints at these addresses, and at the targets of a step, and at no others."""
        targets = self._step.targets if self._step is not None else ()
        every = {*wanted, *targets}
        if self._running:
            every.update(self._watching.returns())
        for address in [a for a in self._placed if a not in every]:
            self._points.remove(address)
            self._placed.discard(address)
        for address in every - self._placed:
            try:
                self._points.insert(address)
            except NotDisplaced as error:
                for point in self._at.get(address, ()):
                    point.verified, point.message = False, str(error)
            else:
                self._placed.add(address)

    # -- calls ---------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _around(self, function: int) -> Iterator[Callable[[Outcome], Outcome]]:
        """A block in which a call of a function runs that can be stopped."""
        if self._running:
            yield lambda outcome: outcome  # the executor says that it runs another call
            return
        engine, failed = self._core.engine, False
        engine.put_back()
        self._find_copies()

        def told(outcome: Outcome) -> Outcome:
            nonlocal failed
            failed = outcome.kind != "ok"
            return outcome

        stops, cleanups = self._stops, self._core.cleanups
        self._stepped, self._step, self._due, self._asked = set(), None, False, False
        cleanups.append(self._end)
        try:
            self._running = True
            self._resolve_with(self._locals_at_faults(function))
            self._step_on()
            self._unwatched(self._watching.begin(self._idle()))
            stops.faults, stops.on = self.faults, True  # first: threads may meet one at once
            self._points.tell = self._tell
            self._points.arm()
            yield told
            if failed:  # what stopped it is told with the code that ran
                engine.owed = self._put_back
        finally:
            cleanups.done(self._end)

    def _end(self) -> None:
        """The call is over: nothing stops any more.  May be interrupted, and called again."""
        engine = self._core.engine
        self._tell_unseen()
        self._conditions.look(self._wanted)
        self._watching.end()
        self._points.disarm()  # first: a thread that has met one finds it gone
        self._points.tell = None
        if (stops := engine.executor.stops) is not None:
            stops.on = False
            if not self.on:
                stops.screen = stops.on_stop = None
        self._carried = self._step or self._carried
        self._running, self._step = False, None
        self._put(())
        self._view = None
        if engine.owed is None:
            self._put_back()
        self.stop, stood, self._stood = None, self._stood, False
        if stood:
            self.listener(Event("ended"))

    def _step_on(self) -> None:
        """A step that was in progress where the last part of a cell ended goes on in this one."""
        before, self._carried = self._carried, None
        if before is None or before.motion not in ("next", "step_in"):
            return
        here = {id(i) for i, *_ in self._core.places.lines.running if i.cell == self._stepping}
        step = Step(before.motion, 0, self._core.engine.executor.pid, 0)
        for part in self._code.parts:
            if id(part.image) in here:
                step.calls([function.body for function in part.info.functions])
        if step.targets:
            self._step = step
            self._put(self._at)

    def _unwatched(self, those: Iterable[tuple[Watchpoint, str]]) -> None:
        """Say of watchpoints that they are not, and why."""
        for point, why in [*those]:
            if point.message != why or point.verified:
                self._not_watched(point, why)

    def _not_watched(self, point: Watchpoint, why: str) -> None:
        point.verified, point.message = False, why
        words = f"watchpoint {point.number}, {point.watch}: {why}\n"
        self.listener(Event("output", text=words))
        self.listener(Event("breakpoint", breakpoint=point))

    def _tell_unseen(self) -> None:
        """Say what has changed and nobody was stopped; watchpoints of frames are over."""
        for point, text in self._watching.unseen() if self._running else ():
            words = f"watchpoint {point.number}, {text}, by the system or another process\n"
            self.listener(Event("output", text=words))
        for watched in [p for p in self._watching if p.stack]:
            self._frame_ended(watched)

    def _frame_ended(self, point: Watchpoint) -> None:
        """The variable that is watched is no more."""
        self._watching.drop(point)
        self._wanted.remove(point.number)
        self._not_watched(point, OVER)

    def _put_back(self) -> None:
        """The ordinary code is in memory again, as if nobody had debugged it."""
        self._forms.restore()
        self._code.find(())
        if not self.on:
            self._forms.close()

    def _line_of(self, address: int) -> tuple[str, int] | None:
        """The text and the line of an address in code that is in another one's place, or that runs
        once."""
        place = self._code.at(address)
        if place is None or not place.line:
            return None
        return place.part.source, place.line

    def linked(self) -> None:
        """Code was linked while the program runs: breakpoints are in it as it is now."""
        if self._points.armed:
            self._points.refresh()

    def _tell(self, table: list[tuple[int, int]]) -> None:
        """Say where threads go on, and which need not ask: none where each stop matters."""
        step, programs = self._step, {}
        each = step is not None and step.motion == "instruction"
        if not each and not any(point.stack for point in self._watching):
            asked = step.targets if step is not None else ()
            programs = self._conditions.programs(self._at, asked)
        self._stops.table(dict(table), programs)

    # -- stops ---------------------------------------------------------------------------------

    def _screen(self, stop: Stop) -> None:
        """A thread has stopped: is the program to stand?  Other threads run on until that is
        known."""
        if self._calls.thread:
            self._calls.screen(stop)
            return
        if stop.why == "fault" and stop.registers["rip"] == self._faults_again:
            self._faults_again = 0
            self._stops.go(abi.OWN)
            return
        registers, self._here = dict(stop.registers), False
        if stop.why == "trap":
            registers["rip"] -= 1
            if registers["rip"] not in self._points:
                self._not_ours(registers)
                return
        else:
            registers = self._points.original_registers(registers)
            step, within = self._step, registers["rip"] != stop.registers["rip"]
            if stop.why == "step" and step is not None and within:
                if registers["rip"] == step.start:  # half of what its copy does is done
                    flags = stop.registers["eflags"] | _TRACE
                    self._stops.go(abi.GO, {"eflags": flags})
                    return
            # Behind an instruction that has written: the next one's breakpoint was not met yet.
            self._here = stop.why == "watch"
        self._own, self._views = stop.tid, {}
        self._look_at(stop.tid, registers, stop.context)
        reason, self._hit = self._reason(stop, registers["rip"])
        if reason is None:
            self._leave()
        else:
            self._because = reason

    def _not_ours(self, registers: dict[str, int]) -> None:
        """A thread has met a trap where there is no breakpoint: the program's, or one that went
        while the thread waited for its turn."""
        if self._core.engine.read(registers["rip"], 1) == _INT3:
            self._stops.go(abi.OWN)
        else:
            self._stops.go(abi.GO, {"rip": registers["rip"]})

    def _met(self, stop: Stop) -> None:
        """It is, and everything stands."""
        if self._calls.thread:
            self._calls.met(stop)
            return
        reason = self._because
        self._points.disarm(stands=True)  # whoever looks at the text sees the program's own
        self._conditions.look(self._wanted)
        if self._due:
            self._resolve()
            if reason == "pause" and not self._asked:  # that was all
                self._put(self._at)
                self._points.arm()
                self._leave()
                return
        self._step, self._asked = None, False
        text = self._text
        if reason == "exception":
            text = signal_words(stop.signal, stop.code, stop.address)
        self.stop, self._stood = Stopped(reason, stop.tid, text, self._hit), True
        self.listener(Event("stopped", stopped=self.stop))

    def _reason(self, stop: Stop, pc: int) -> tuple[Reason | None, tuple[int, ...]]:
        """The reason why the program is to stand, and the breakpoints that it has met; None to go
        on."""
        self._text = ""
        for gone in self._watching.ended(stop, self._view) if self._view is not None else ():
            self._frame_ended(gone)
        if stop.why == "fault":
            return "exception", ()
        if changed := self._watched(stop):
            return "data breakpoint", changed
        if stop.why == "watch":
            return None, ()
        # One that is paused before an instruction goes on by its copy: it has met that, too.
        if stop.why != "pause" or stop.registers["rip"] == pc:
            met = [point for point in self._at.get(pc, ()) if self._counts(point)]
            if stays := [point for point in met if not self._logged(point)]:
                for point in stays:
                    if point.temporary:
                        self._wanted.remove(point.number)
                        self._at[pc].remove(point)
                self._at = {pc: points for pc, points in self._at.items() if points}
                return "breakpoint", tuple(sorted(point.number for point in stays))
        if stop.why == "pause":
            return "pause", ()
        step, view = self._step, self._view
        if step is None or view is None or step.thread != stop.tid:
            return None, ()
        if stop.why == "step":
            if step.motion == "instruction" and view.is_within:
                return (None if self._forms.leads(pc) else "step"), ()
            self._step = None  # it has returned to what called it
            return None, ()
        frame = partial(self._frame_of, pc, view.registers)
        if not step.ends(pc, view.registers, frame):
            return None, ()
        kind, out = step.targets[pc].kind, step.motion == "step_out"
        if view.within_line and (kind == "pad" or (kind == "return" and not out)):
            # The rest of the line that has called, as gdb does; before a pad's first line is none.
            self._begin("next" if out else step.motion, view)
            self._put(self._at)
            self._points.arm()
            return None, ()
        return "step", ()

    def _frame_of(self, pc: int, registers: Mapping[str, int]) -> int:
        """A number that tells a frame from others of the same function."""
        place = self._code.at(pc)
        if place is not None and place.part.info.keeps_frame(place.function):
            return registers["rbp"]
        return frame_of(registers, self.read, self._core.program.linker)

    def _watched(self, stop: Stop) -> tuple[int, ...]:
        """The watchpoints for which a stop is one."""
        if stop.why not in ("watch", "step"):
            return ()
        met = [(p, text) for p, text in self._watching.met(stop) if self._counts(p)]
        stays = [(p, text) for p, text in met if not self._logged(p)]
        self._text = "; ".join(text for _, text in stays)
        return tuple(sorted(point.number for point, _ in stays))

    def _counts(self, point: Breakpoint) -> bool:
        """True if a breakpoint's condition holds, and as many hits count.  One that cannot be
        evaluated stops, and says so."""
        if point.condition and self._view is not None:
            try:
                if not self._view.truth(point.condition):
                    return False
            except JitError as error:
                self.listener(Event("output", text=f"condition `{point.condition}`: {error}\n"))
        return self._conditions.counts(point)

    def _logged(self, point: Breakpoint) -> bool:
        if point.log and self._view is not None:
            self.listener(Event("output", text=message(point.log, self._view.text) + "\n"))
        return bool(point.log)

    # -- going on ------------------------------------------------------------------------------

    def _leave(self) -> None:
        """Go on from where it stands: over what is under a breakpoint by its copy."""
        view, self._view = self._views.get(self._own, self._view), None
        self._leave_others()
        self._views = {}
        if view is not None:
            self._stops.go(abi.GO, self._left(view, self._own))

    def _leave_others(self) -> None:
        """Give the threads that were chosen their registers."""
        step = self._step
        for thread, view in self._views.items():
            alone = step is not None and step.motion == "instruction" and step.thread == thread
            if thread != self._own and (view.edited or alone):
                self._stops.set_registers(thread, self._left(view, thread))

    def _left(self, view: View, thread: int) -> dict[str, int]:
        """The registers with which a thread goes on."""
        registers = dict(view.registers)
        if thread != self._own or not self._here:
            with contextlib.suppress(KeyError):
                registers["rip"] = self._points.slot(registers["rip"])
        step = self._step
        alone = step is not None and step.motion == "instruction" and step.thread == thread
        flags = registers["eflags"]
        registers["eflags"] = flags | _TRACE if alone else flags & ~_TRACE
        return registers

    @staticmethod
    def _begin_again(view: View) -> None:
        """A line begins once more, with what was changed."""
        live = view.live[0]
        if live.place is not None:
            row = live.place.part.info.row(live.pc)
            if row is not None:
                view.registers["rip"] = row.start

    def _begin(self, motion: Motion, view: View) -> None:
        """Find where a step may end."""
        live = view.frame(0)
        if live.place is None:  # of what calls a cell's code nothing is known
            live = view.live[0]
        place, pc = live.place, view.registers["rip"]
        frame = self._frame_of(pc, view.registers)
        if place is not None and live.frame.certain:
            if place.part.info.keeps_frame(place.function):  # also where it is not made yet
                frame = live.frame.stop - _FRAME
        step = self._step = Step(motion, frame, self._thread, pc)
        around = self._around_frame(view, live)
        self._stepping = around.cell
        if motion == "instruction":
            return
        if motion == "step_in":
            self._step_into(live.pc)
        if place is not None:
            key = place.function, live.pc, motion
            if (known := self._plans.get(key)) is None:
                self._lines(step, live.pc, place)
                if motion == "step_in":
                    step.calls([f.body for f in self._code.functions()])
                known = self._plans[key] = step.targets
            step.targets = dict(known)
        if around.returns is not None:
            step.returns(*around.returns)
        step.arrivals(around.arrivals, live.frame.stop)

    def _around_frame(self, view: View, live: LiveFrame) -> Around:
        """The surroundings of the innermost frame: to find them takes as long as the rest of a
        step."""
        function, known = live.place.function if live.place is not None else None, self._kept
        saved = self.read(live.frame.stop - _FRAME, _FRAME) if live.frame.certain else b""
        now = function, live.frame.stop, self._thread, saved
        if known is not None and known[:4] == now:
            return known
        places = [frame.place for frame in view.live if frame.place is not None]
        returns = None
        for inner, outer in pairwise(view.live):
            if inner.frame is not outer.frame and view.is_told(outer):
                returns = outer.pc, inner.frame.stop
                break
        outer_frames = [f for f in view.live if f.frame is not live.frame and view.is_told(f)]
        others = arrivals(self._core, outer_frames)
        cell = places[-1].part.image.cell if places else 0
        found = Around(function, live.frame.stop, self._thread, saved, returns, others, cell)
        self._kept = found if function is not None and saved else None
        return found

    @staticmethod
    def _lines(step: Step, pc: int, place: Place) -> None:
        """A step may end on lines of its function, and of those that are parts of it: to step out,
        on those that are not in the innermost."""
        info, motion = place.part.info, step.motion
        inside, starts = info.inline_chain(pc), info.statement_starts(place.function)
        if motion == "step_out":
            chains = {at: info.inline_chain(at) for at, _ in starts} if inside else {}
            step.places([at for at, chain in chains.items() if _is_outer(chain, inside)])
            return
        if motion == "next":
            chains = {at: info.inline_chain(at) for at, _ in starts}
            starts = [s for s in starts if chains[s[0]] == inside[: len(chains[s[0]])]]
        row = info.row(pc)
        step.lines(starts, place.function.body, row.line if row is not None else 0)

    def _step_into(self, pc: int) -> None:
        """Have code that can be debugged of what a function may call: what its cell refers to."""
        program = self._core.program
        image = next((p.image for p in self._code.parts if p.image.has_code_at(pc)), None)
        if image is None:
            return
        found = {s.image.cell for s in image.refs if s.is_function and s.image is not None}
        if found := (found & program.cells.keys()) - self._stepped:
            self._stepped |= found
            self._resolve()

    # -- calls on what stands ------------------------------------------------------------------

    def _call(self, function: Value, arguments: list[Value]) -> Value:
        """Call a function on the thread that stands.  Raises UsageError."""
        view = self._standing
        call = Call(self._core, function, self.read, view.type_named)
        self._check_own()
        given = call.arguments(arguments)
        self._called = True
        try:
            left = self._calls.call(view, call.address, given, self._thread)
        finally:
            self._core.engine.stopping = False  # an interrupt was the call's
            self._views = {self._own: view}
            view.look_again()
        return call.result(left)

    def _check_own(self) -> None:
        """Raise UsageError where nothing can be called on the thread that is looked at."""
        if self._calls.thread:
            raise UsageError("another call is in progress")
        if self._thread != self._own:
            raise UsageError(
                f"functions are called on the thread that has stopped, which is {self._own}"
            )

    def _copy_of(self, symbol: Symbol) -> int:
        """The place of the stopped thread's copy of a thread-local variable.  Raises UsageError
        where only that thread knows."""
        if self._thread in (0, self._core.engine.executor.pid):
            return self._core.engine.copies.find(symbol)
        called = self._core.program.called(symbol.name)
        raise UsageError(f"each thread has its own: `p {called}` asks thread {self._thread}")

    def _copy_asked(self, symbol: Symbol) -> int:
        """The same, and the thread is asked."""
        with contextlib.suppress(UsageError):
            return self._copy_of(symbol)
        linker = self._core.engine.linker
        getter = linker.known("__emutls_get_address", SymbolKind.FUNCTION)
        if getter is None:
            raise UsageError("no code asks for thread-local variables yet")
        self._check_own()
        given, self._called = Arguments([(symbol.address, False)]), True
        view = self._standing
        return self._calls.call(view, linker.entry(getter), given, self._thread).word

    def _find_copies(self) -> None:
        """The cell's thread is asked for its thread-local variables before it runs: at a stop it
        cannot be."""
        engine = self._core.engine
        if engine.executor.busy or not (blocks := thread_locals(self._core)):
            return
        around, engine.around = engine.around, None
        try:
            for symbol in blocks:
                with contextlib.suppress(UsageError):
                    engine.copies.find(symbol)
        finally:
            engine.around = around

    def _shown_again(self) -> None:
        self._put(self._at)
        self._points.arm()

    def _meets(self, stop: Stop) -> str | None:
        """The reason why a call ends at a trap; None where it goes on."""
        registers = dict(stop.registers)
        registers["rip"] -= 1
        pc = registers["rip"]
        if pc not in self._points:
            return f"it met a trap at {self._core.name_of(pc) or hex(pc)}"
        view = View(self._core, self._code, registers, 0, self._memory)
        for point in self._at.get(pc, ()):
            with contextlib.suppress(JitError):
                if point.log or (point.condition and not view.truth(point.condition)):
                    continue
            return f"it met breakpoint {point.number}"
        with contextlib.suppress(KeyError):
            registers["rip"] = self._points.slot(pc)
        self._stops.go(abi.GO, registers)
        return None

    # -- looking -------------------------------------------------------------------------------

    @property
    def _standing(self) -> View:
        if self._view is None or self.stop is None:
            raise UsageError(NOTHING_STANDS)
        return self._view

    def _look_at(self, thread: int, registers: dict[str, int], context: int) -> None:
        """From now on it is this thread that is looked at, which stands with these registers."""
        executor = self._core.engine.executor
        top = executor.stack_top if thread == executor.pid else 0
        view = View(self._core, self._code, registers, top, self._memory)
        view.context, view.copy_of = context, self._copy_of
        self._view = self._views[thread] = view
        self._thread = thread

    def _idle(self) -> View:
        """A view where nothing stands: the session's variables."""
        return View(self._core, self._code, {}, 0, self._memory)

    def read(self, address: int, size: int) -> bytes:
        """Bytes of the program's memory: fewer, or none, where there are no more."""
        if address < 0 or size <= 0:
            return b""
        return self._points.original(address, self._core.engine.read(address, size))

    def _write(self, address: int, data: bytes) -> None:
        """Raises UsageError where that cannot be written."""
        pid = self._core.engine.executor.pid
        arena = self._core.engine.arena
        if address in arena and arena.zone_of(address) in ("text", "rodata"):
            raise UsageError(f"what is at {address:#x} is constant")
        if procfs.write_memory(pid, address, data) != len(data):
            raise UsageError(f"what is at {address:#x} cannot be written")
        self._watching.written()


def _is_outer(chain: tuple[int, ...], inside: tuple[int, ...]) -> bool:
    """True if code is of a function that an inlined one is a part of."""
    return len(chain) < len(inside) and chain == inside[: len(chain)]


def unheard(event: Event) -> None:
    """Nobody listens."""
