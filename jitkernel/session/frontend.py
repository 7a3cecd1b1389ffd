"""`Session.frontend`: what kernels and notebook extensions need.  Start from `FrontendSide`.

A frontend stands between a user and a session: it starts it early, listens to it between cells,
lets magics change what the cell below them is compiled with.  A program that runs cells by itself
needs nothing of this.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from jitkernel.session.operation import operation
from jitkernel.session.run.host import Execution

if TYPE_CHECKING:
    from jitkernel.compiler.records import Request
    from jitkernel.session.core import Core
    from jitkernel.session.report.faults import StoppedCell
    from jitkernel.session.run.results import Sink


class FrontendSide:
    """A session as kernels and notebook extensions see it, beside what every user sees."""

    __slots__ = ("_core", "_keeps")

    def __init__(self, core: Core, keeps: object):
        self._core, self._keeps = core, keeps  # a session that nobody has ends

    @property
    def core(self) -> Core:
        """The parts of the session: to start it, to stop what runs, to change a cell's options."""
        return self._core

    # -- between cells ---------------------------------------------------------------------------

    def idle(self) -> None:
        """Do what was put off: write store and object cache.  For event loops, after a reply."""
        core = self._core
        with core.lock:
            if not core.engine.closed:
                core.store.flush()
                if core.engine.pool.cache:
                    core.engine.pool.cache.flush()

    def output_fds(self) -> list[int]:
        """Descriptors to watch between cells; call `drain` when one is readable, then ask again."""
        return self._core.engine.executor.fds() if self._core.engine.started else []

    def drain(self, sink: Sink) -> None:
        """Pass output of the program's threads on to `sink`, and bring code back that one of them
        has called: between runs it waits for this."""
        core = self._core
        if not core.engine.started or core.engine.closed:
            return
        with core.lock:
            if core.operating:
                return  # within an operation, which serves them itself
            core.operating, core.in_order = True, False
            try:
                core.signals.hold()
                with Execution(core, sink):
                    core.engine.executor.drain()
            finally:
                core.operating = False
                core.signals.release()
            if core.begun and (failure := core.residency.failed()):
                core.engine.notices.append(f"on a thread of the program: {failure}")
        core.deferred.run()

    # -- cells of the client ---------------------------------------------------------------------

    def begin_cell(self, cell_id: str | None, gone: Iterable[str] = ()) -> None:
        """A cell of the client begins: what is asked until `end_cell` is its text from now on.
        `gone` are cells that the client has no more."""
        with self._core.lock:
            texts = self._core.texts
            texts.remove_cells(gone)
            texts.begin_cell(cell_id or "")

    def end_cell(self) -> None:
        """It is over."""
        with self._core.lock:
            if self._core.begun:
                self._core.texts.end_cell()

    # -- around a cell, and within one -----------------------------------------------------------

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """A run within leaves no number and no result behind, unless it defines something."""
        core = self._core
        number, last = core.number, core.results.last
        try:
            yield
        finally:
            if core.number != number and core.number not in core.program.cells:
                core.results.pop(core.number, None)
                core.number, core.results.last = number, last

    def look_after(self, seconds: float, call: Callable[[StoppedCell], object]) -> None:
        """Call `call` once when code has run for so long, this cell's or a later one's, with where
        it is: its registers, frames and stack. The program goes on; what `call` raises stops it.
        Raises UsageError where it runs in this process."""
        with self._core.lock:
            self._core.observers.look_after(seconds, call)

    @operation(observed=True)
    def time_beside(
        self, sides: Sequence[tuple[str, bytes | None]], number: int = 0, repeat: int = 7
    ) -> list[list[float]]:
        """Times of several calls, taken in turns, as `Session.time` gives them.  A side is a call
        line, and None or an object that defines its function another way."""
        from jitkernel.session.run.calls import Caller
        from jitkernel.session.run.results import Collector

        return Caller(self._core, Collector()).time_beside(sides, number, repeat)

    @operation(observed=True)
    def count_edges(
        self, cell: int, request: Request, names: Sequence[str], code: str, language: str
    ) -> dict[str, bytes]:
        """Count each edge of a cell's functions that is taken while code of a language runs once:
        by name, words as `ir.counted.taken` reads them.  `request` has the module whose blocks are
        meant, as it is to be emitted.  Raises UsageError, and what the code raises."""
        from jitkernel.session.debugging.counting import count  # few sessions ask
        from jitkernel.session.run.results import Collector

        core = self._core
        return count(core, core.program.cells[cell], request, names, (code, language), Collector())


def serve(core: Core, side: FrontendSide, seconds: float) -> None:
    """Serve the program's threads for so long: see `Session.serve`."""
    import selectors

    end = monotonic() + seconds
    while True:
        side.drain(core.sink)
        left = end - monotonic()
        if left <= 0:
            return
        with selectors.DefaultSelector() as ready:
            for fd in side.output_fds():
                ready.register(fd, selectors.EVENT_READ)
            ready.select(left)
