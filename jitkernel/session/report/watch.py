"""Globals that are watched while code runs, read from the slab.  Start from `Watches`.

The program does nothing for it and is not slowed down: the kernel process, which waits for the
executor anyway, reads the bytes.  What it sees is what is in memory: LLVM may keep a global in a
register for as long as a loop runs, unless the program stores with `volatile` or atomically.
`Observers` joins watches, the memory log, and who wants to see where the code is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jitkernel.errors import JitError, UsageError
from jitkernel.ir.names import CONTROL
from jitkernel.session.report.memory import MemoryLog
from jitkernel.values.value import TypedValue

if TYPE_CHECKING:
    from jitkernel.session.engine import Engine
    from jitkernel.session.report.faults import Stopped
    from jitkernel.session.report.places import Places
    from jitkernel.session.run.host import SessionHost

__all__ = ["Observers", "Watched", "Watches"]

_KEPT = 120  # samples of one global; more are thinned out
_SMALL = 16  # bytes: what is larger is read when it is shown, not in between

Observer = Callable[[Sequence["Watched"]], object]


@dataclass(frozen=True, slots=True)
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
    """The numbers that one global has had, thinned out evenly; least and most of all of them."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.least: float | None = None
        self.most: float | None = None
        self._stride = self._skipped = 1

    def add(self, value: float) -> None:
        """One more sample."""
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


class Watches:
    """The globals that are watched in one session, and their observer.

    `host` gives access to variables.  `observer` is called with all of them, from the thread that
    runs the cell: while code runs, at most once every `every` seconds and only when a value
    changed, and once more when it has ended, however it ended.  What it raises stops the cell.
    """

    def __init__(self, host: Callable[[], SessionHost]):
        self._host = host
        self._series: dict[str, _Series] = {}
        self.observer: Observer | None = None
        self.every = 0.5
        self._due = 0.0
        self._shown: list[TypedValue | None] = []
        self._live = False  # the observer was called during this run

    def __len__(self) -> int:
        return len(self._series)

    @property
    def names(self) -> list[str]:
        """What is watched, in the order it was asked for."""
        return list(self._series)

    def add(self, names: Sequence[str]) -> None:
        """Watch these too.  Raises UsageError, with nothing added, where one cannot be."""
        host = self._host()
        for name in names:
            if host.variable(name) is None:
                raise UsageError(_why_not(host, name))
            self._load(host, name)
        for name in names:
            self._series.setdefault(name, _Series())
        values = self._values()
        for series, (typed, _) in zip(self._series.values(), values, strict=True):
            _sample(series, typed)
        self._shown = [typed for typed, _ in values]

    def remove(self, names: Sequence[str]) -> None:
        """Watch these no more.  Raises UsageError, with nothing removed, where one is not."""
        for name in names:
            if name not in self._series:
                called = self._host().called
                known = ", ".join(map(called, self._series)) or "nothing"
                raise UsageError(f"{called(name)} is not watched; what is: {known}")
        for name in names:
            self._series.pop(name, None)
        self._shown = []

    def look(self, seconds: float) -> None:
        """Code has run for so long: called every now and then by who waits for it."""
        now = time.monotonic()
        if now >= self._due:
            self._due = now + self.every
            self._show(seconds)
            return
        host = self._host()
        for name, series in self._series.items():
            found = host.variable(name)
            if found is not None and host.layout(found[0]).size <= _SMALL:
                _sample(series, self._load(host, name)[0])

    def ended(self) -> None:
        """A cell has ended, however it did."""
        self._show(None)
        self._due, self._live = 0.0, False

    def now(self) -> list[Watched]:
        """All of them as they are."""
        return self._watched(self._values(), None)

    def _show(self, seconds: float | None) -> None:
        values = self._values()
        for series, (typed, _) in zip(self._series.values(), values, strict=True):
            _sample(series, typed)
        present = [typed for typed, _ in values]
        same = present == self._shown
        # What was shown while it ran is shown once more: it is final now.
        if self.observer is None or (same and not (seconds is None and self._live)):
            return
        self._shown, self._live = present, seconds is not None
        self.observer(self._watched(values, seconds))

    def _values(self) -> list[tuple[TypedValue | None, str]]:
        host = self._host()
        return [self._load(host, name) for name in self._series]

    def _load(self, host: SessionHost, name: str) -> tuple[TypedValue | None, str]:
        found = host.variable(name)
        if found is None:
            return None, _why_not(host, name)
        try:
            return host.load(found[0], found[1]), ""
        except JitError as error:
            return None, str(error)

    def _watched(
        self, values: Sequence[tuple[TypedValue | None, str]], seconds: float | None
    ) -> list[Watched]:
        rows = []
        for (name, series), (typed, why) in zip(self._series.items(), values, strict=True):
            numbers = _numbers(typed)
            samples = tuple(series.values) if numbers is None else numbers
            known = [n for n in samples if n == n]
            least, most = (
                (series.least, series.most)
                if numbers is None
                else (min(known, default=None), max(known, default=None))
            )
            rows.append(Watched(name, typed, why, least, most, samples, seconds))
        return rows


def _plain(name: str) -> str:
    """A variable's name without what marks it as one."""
    return name.removeprefix("@").removeprefix(CONTROL)


def _sample(series: _Series, typed: TypedValue | None) -> None:
    value = None if typed is None or len(typed.data) > _SMALL else typed.python
    if isinstance(value, int | float) and not _is_pointer(typed):
        series.add(value)


def _is_pointer(typed: TypedValue | None) -> bool:
    return typed is not None and str(typed.type).startswith("ptr")


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
    """Who looks at a session's program, during a run and after it; its lock is held.

    While nobody wants to, the executor does not call back, and waits undisturbed.  `host` gives
    access to variables, `note` shows a line beside the program's output.
    """

    def __init__(
        self,
        engine: Engine,
        places: Places,
        host: Callable[[], SessionHost],
        note: Callable[[str], None],
    ):
        self._engine, self._places, self._note = engine, places, note
        self.log = MemoryLog(engine.arena)
        self.watches = Watches(host)
        self._wanted: tuple[float, Callable[[Stopped], object]] | None = None
        self.stopped: Stopped | None = None  # where a cell was last stopped or looked at

    def watch(
        self, names: Sequence[str], call: Observer | None, every: float | None
    ) -> list[Watched]:
        """See `Session.watch`."""
        self.watches.add([_plain(name) for name in names])
        if call is not None:
            self.watches.observer = call
        if every is not None:
            self.watches.every = every
        self._wire()
        return self.watches.now()

    def unwatch(self, names: Sequence[str]) -> None:
        """See `Session.unwatch`."""
        self.watches.remove([_plain(n) for n in names] or self.watches.names)
        self._wire()

    def look_after(self, seconds: float, call: Callable[[Stopped], object]) -> None:
        """See `session.frontend.look_after`."""
        if unseen := self._engine.executor.unseen:
            raise UsageError(unseen)
        self._wanted = (seconds, call)
        self._wire()

    def _wire(self) -> None:
        """Let the executor call `_look` while code runs, where anybody wants to look."""
        anybody = self.watches or self._wanted is not None
        self._engine.executor.on_wait = self._look if anybody else None

    def _look(self, seconds: float) -> None:
        if self.watches:
            self.watches.look(seconds)
        if self._wanted is not None and seconds >= self._wanted[0]:
            (_, call), self._wanted = self._wanted, None
            executor = self._engine.executor
            self._wire()
            try:
                record = executor.peek()
            except UsageError as error:  # not the program's fault: it goes on
                self._note(f"%stack: {error}")
                return
            from jitkernel.session.report.faults import running  # not needed until somebody looks

            self.stopped = running(record, seconds, executor.pid, self._places)
            call(self.stopped)

    def ended(self, cell: int) -> None:
        """A cell or a call has ended, the latest cell being this: observers are called."""
        if self.watches:
            self.watches.ended()
        self.sample_memory(cell)

    def sample_memory(self, cell: int, now: bool = False) -> None:
        """Sample what is held, this being the latest cell: see `MemoryLog.sample`."""
        if not self._engine.closed and (now or self.log.is_due):
            workers = [pid for pid, _, _ in self._engine.pool.processes()]
            self.log.sample(cell, self._engine.executor.process, workers, now)
