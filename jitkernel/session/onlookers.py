"""Those who look on while code runs: watches, the memory log, who wants to see where it is.

Start from `Onlookers`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from jitkernel.errors import JitError, UsageError
from jitkernel.session.host import host_of
from jitkernel.session.memory_log import MemoryLog, Sample
from jitkernel.session.watch import Observer, Watched, Watches

if TYPE_CHECKING:
    from jitkernel.session.core import Core
    from jitkernel.session.stopped import Stopped

__all__ = ["Onlookers"]


class Onlookers:
    """Who looks at a session's program, during a run and after it; its lock is held.

    While nobody wants to, the executor is not told to look, and waits undisturbed.
    """

    def __init__(self, session: Core):
        self._session = session
        self._log = MemoryLog(session.engine.arena)
        self.watches = Watches(
            lambda: host_of(session, lambda block: None, lambda outcome: JitError(""))
        )
        self._wanted: tuple[float, Callable[[Stopped], object]] | None = None
        self.stopped: Stopped | None = None  # where a cell was last stopped or looked at

    # -- watches ---------------------------------------------------------------------------------

    def watch(
        self, names: Sequence[str], call: Observer | None, every: float | None
    ) -> list[Watched]:
        """See `Session.watch`."""
        self.watches.add([name.removeprefix("@") for name in names])
        if call is not None:
            self.watches.observer = call
        if every is not None:
            self.watches.every = every
        self._wire()
        return self.watches.now()

    def unwatch(self, names: Sequence[str]) -> None:
        """See `Session.unwatch`."""
        self.watches.remove([n.removeprefix("@") for n in names] or self.watches.names)
        self._wire()

    def watched(self) -> list[Watched]:
        """What is watched, as it is now."""
        return self.watches.now()

    # -- looking ---------------------------------------------------------------------------------

    def look_after(self, seconds: float, call: Callable[[Stopped], object]) -> None:
        """See `Session.look_after`."""
        self._wanted = (seconds, call)
        self._wire()

    def _wire(self) -> None:
        """Let the executor call `_look` while code runs, where anybody wants to look."""
        engine = self._session.engine
        anybody = self.watches or self._wanted is not None
        if engine.started or anybody:
            engine.executor.on_wait = self._look if anybody else None

    def _look(self, seconds: float) -> None:
        if self.watches:
            self.watches.look(seconds)
        if self._wanted is not None and seconds >= self._wanted[0]:
            (_, call), self._wanted = self._wanted, None
            session = self._session
            executor = session.engine.executor
            self._wire()
            try:
                record = executor.peek()
            except UsageError as error:  # not the program's fault: it goes on
                session.sink.note(f"%stack: {error}")
                return
            from jitkernel.session.stopped import running  # not needed until somebody looks

            linker = session.program.linker
            self.stopped = running(record, seconds, executor.pid, session.places, linker)
            call(self.stopped)

    # -- what runs have left ---------------------------------------------------------------------

    def ended(self) -> None:
        """A cell or a call has ended: those who look on are told."""
        if self.watches:
            self.watches.ended()
        self._note_memory()

    def memory_samples(self) -> Sequence[Sample]:
        """See `Session.memory_samples`."""
        self._note_memory(now=True)
        return self._log.samples

    def _note_memory(self, now: bool = False) -> None:
        engine = self._session.engine
        if engine.started and not engine.closed:
            workers = [pid for pid, _, _ in engine.pool.processes()]
            self._log.note(self._session.number, engine.executor.pid, workers, now)
