"""Globals that are watched while code runs, read from the slab.  Start from `Observers`.

The program does nothing for it and is not slowed down: the kernel process, which waits for the
executor anyway, reads the bytes.  What it sees is what is in memory: LLVM may keep a global in a
register for as long as a loop runs, unless the program stores with `volatile` or atomically.
The memory log, and who wants to see where the code is, are looked after in the same way.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from jitkernel.errors import JitError, UsageError
from jitkernel.ir.names import CONTROL
from jitkernel.record import record
from jitkernel.session.report.memory import MemoryLog
from jitkernel.session.run.host import SessionHost
from jitkernel.values.value import TypedValue

if TYPE_CHECKING:
    from jitkernel.session.core import Core
    from jitkernel.session.report.faults import StoppedCell

_KEPT = 120  # samples of one global; more are thinned out
_SMALL = 16  # bytes: what is larger is read when it is shown, not in between

Observer = Callable[[Sequence["Watched"]], object]


@record
class Watched:
    """A watched global at one moment.

    `value` is the Python value and `typed` the same with its type; both None where the global is
    gone (`why`).  `least`, `most` and `samples` are of the numbers seen since the watch began:
    those of a number, or of the elements of an array of numbers at this moment.  `seconds` is how
    long code has been running; None: none runs.
    """

    name: str
    typed: TypedValue | None
    why: str
    least: float | None
    most: float | None
    samples: tuple[float, ...]
    seconds: float | None

    @property
    def value(self) -> Any:
        """The value as a Python value."""
        return None if self.typed is None else self.typed.python

    @property
    def type(self) -> str:
        """Its type as IR text."""
        return "" if self.typed is None else str(self.typed.type)


class _Series:
    """A watched global as it was last read: its value, or `why` there is none; and the numbers that
    it has had, thinned out evenly, least and most of all of them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.typed: TypedValue | None = None
        self.why = ""
        self.values: list[float] = []
        self.least: float | None = None
        self.most: float | None = None
        self._stride = self._skipped = 1

    def read(self, host: SessionHost, most: float = math.inf) -> None:
        """It is as it is now, where it has not more than so many bytes."""
        found = host.variable(self.name)
        if found is not None and host.layout(found[0]).size > most:
            return
        self.typed, self.why = None, _why_not(host, self.name) if found is None else ""
        try:
            if found is not None:
                self.typed = host.load(found[0], found[1])
        except JitError as error:
            self.why = str(error)

    def sample(self) -> None:
        """Add what was read to the numbers."""
        value = None if self.typed is None or len(self.typed.data) > _SMALL else self.typed.python
        if not isinstance(value, int | float) or str(self.typed and self.typed.type)[:3] == "ptr":
            return
        if value == value:  # a NaN is neither the least nor the most
            self.least = value if self.least is None else min(self.least, value)
            self.most = value if self.most is None else max(self.most, value)
        if self._skipped < self._stride:
            self._skipped += 1
            self.values[-1] = value
            return
        self._skipped = 1
        self.values.append(value)
        if len(self.values) > _KEPT:
            self.values = self.values[::2]
            self._stride *= 2

    def watched(self, seconds: float | None) -> Watched:
        """The same for who looks at it."""
        least, most, samples = self.least, self.most, _numbers(self.typed)
        if samples is not None:
            known = [n for n in samples if n == n]
            least, most = min(known, default=None), max(known, default=None)
        samples = tuple(self.values) if samples is None else samples
        return Watched(self.name, self.typed, self.why, least, most, samples, seconds)


def _plain(name: str) -> str:
    """A variable's name without what marks it as one."""
    return name.removeprefix("@").removeprefix(CONTROL)


def _numbers(typed: TypedValue | None) -> tuple[float, ...] | None:
    """The elements of an array or vector of numbers; None for anything else."""
    if typed is None or str(typed.type)[:1] not in "[<" or " x ptr" in str(typed.type):
        return None
    value = typed.python
    if isinstance(value, tuple) and all(isinstance(v, int | float) for v in value):
        return value
    return None


def _why_not(host: SessionHost, name: str) -> str:
    shown = host.called(name)
    symbol = host.known(name)
    if symbol is not None:
        return f"{shown} is a function" if symbol.is_function else f"no cell defines {shown} now"
    hint = host.hint(name)
    return f"no cell defines {shown}{f'; {hint}' * bool(hint)}"


class Observers:
    """An observer of a session's program, during a run and after it; its lock is held.

    While nobody wants to, the executor does not call back, and waits undisturbed.  The one who
    watches globals is called with all of them, from the thread that runs the cell: while code runs,
    at most once every `every` seconds and only when a value changed, and once more when it has
    ended, however it ended.  What he raises stops the cell.
    """

    def __init__(self, core: Core):
        self._core, self._engine = core, core.engine
        self.log = MemoryLog(core.engine.arena)
        self.series: dict[str, _Series] = {}  # of the globals that are watched, by name
        self._observer: Observer | None = None
        self._every = 0.5
        self._due = 0.0
        self._shown: list[TypedValue | None] = []
        self._live = False  # the observer was called during this run
        self._wanted: tuple[float, Callable[[StoppedCell], object]] | None = None
        self.stopped: StoppedCell | None = None  # where a cell was last stopped or looked at

    # -- globals ---------------------------------------------------------------------------------

    def watch(
        self, names: Sequence[str], call: Observer | None, every: float | None
    ) -> list[Watched]:
        """See `Session.watch`."""
        host, names = SessionHost(self._core), [_plain(name) for name in names]
        for name in names:
            if host.variable(name) is None:
                raise UsageError(_why_not(host, name))
        for name in names:
            self.series.setdefault(name, _Series(name))
        self._shown = self._sample()
        self._observer = call or self._observer
        self._every = self._every if every is None else every
        self._wire()
        return [series.watched(None) for series in self.series.values()]

    def unwatch(self, names: Sequence[str]) -> None:
        """See `Session.unwatch`."""
        names = [_plain(name) for name in names] or list(self.series)
        for name in names:
            if name not in self.series:
                called = SessionHost(self._core).called
                known = ", ".join(map(called, self.series)) or "nothing"
                raise UsageError(f"{called(name)} is not watched; what is: {known}")
        for name in names:
            self.series.pop(name, None)
        self._shown = []
        self._wire()

    def watched(self) -> list[Watched]:
        """All that is watched, as it is now."""
        for series in self.series.values():
            series.read(SessionHost(self._core))
        return [series.watched(None) for series in self.series.values()]

    def _sample(self, most: float = math.inf) -> list[TypedValue | None]:
        host = SessionHost(self._core)
        for series in self.series.values():
            series.read(host, most)
            series.sample()
        return [series.typed for series in self.series.values()]

    def _show(self, seconds: float | None) -> None:
        present = self._sample()
        same = present == self._shown
        # What was shown while it ran is shown once more: it is final now.
        if self._observer is None or (same and not (seconds is None and self._live)):
            return
        self._shown, self._live = present, seconds is not None
        self._observer([series.watched(seconds) for series in self.series.values()])

    # -- while code runs, and when it has --------------------------------------------------------

    def look_after(self, seconds: float, call: Callable[[StoppedCell], object]) -> None:
        """See `session.frontend.look_after`."""
        if unseen := self._engine.executor.unseen:
            raise UsageError(unseen)
        self._wanted = (seconds, call)
        self._wire()

    def _wire(self) -> None:
        """Let the executor call `look` while code runs, where anybody wants to look."""
        anybody = self.series or self._wanted is not None
        self._engine.executor.on_wait = self.look if anybody else None

    def look(self, seconds: float) -> None:
        """Code has run for so long: called every now and then by who waits for it."""
        now = time.monotonic()
        if self.series and now >= self._due:
            self._due = now + self._every
            self._show(seconds)
        elif self.series:
            self._sample(_SMALL)
        if self._wanted is not None and seconds >= self._wanted[0]:
            (_, call), self._wanted = self._wanted, None
            executor = self._engine.executor
            self._wire()
            try:
                record = executor.peek()
            except UsageError as error:  # not the program's fault: it goes on
                self._core.sink.note(f"%stack: {error}")
                return
            from jitkernel.session.report.faults import running  # not needed until somebody looks

            self.stopped = running(record, seconds, executor.pid, self._core.places)
            call(self.stopped)

    def ended(self, cell: int) -> None:
        """A cell or a call has ended, the latest cell being this: observers are called."""
        if self.series:
            self._show(None)
            self._due, self._live = 0.0, False
        if time.monotonic() >= self.log.due:
            self.sample_memory(cell)

    def sample_memory(self, cell: int, now: bool = False) -> None:
        """Sample what is held, this being the latest cell: see `MemoryLog.sample`."""
        if not self._engine.closed:
            workers = [pid for pid, _, _ in self._engine.pool.processes()]
            self.log.sample(cell, self._engine.executor.process, workers, now)
