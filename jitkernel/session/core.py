"""What a session has: its processes, its program, and what goes with them.

`Session` is the facade over it: what can be done is declared there, and the modules that do it take
a `Core`.  It is no public interface.  Start from `Core`.

Most of the program's modules are imported by `Core.__init__`, when the compiler's process is on its
way: that takes as long to start as they take to be imported.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from jitkernel.compiler.process import WorkerProcess, close_first, first_worker
from jitkernel.errors import JitError, present
from jitkernel.session.operation import Cleanups, Foreign, Signals, without_collections
from jitkernel.session.settings import SessionSettings, check_context, settings_with

if TYPE_CHECKING:
    from jitkernel.arena import Arena
    from jitkernel.compiler import LineTable, Request
    from jitkernel.linker import Image
    from jitkernel.session.history.undo import UndoHistory
    from jitkernel.session.program.program import Program
    from jitkernel.session.report.places import Places
    from jitkernel.session.residency.garbage import GarbageCollector
    from jitkernel.session.residency.residency import Residency
    from jitkernel.session.run.results import Sink
    from jitkernel.session.saved.restoring import Restored
    from jitkernel.session.saved.store import Store
    from jitkernel.session.settings import CellOptions

__all__ = ["Core", "refused"]


class Core:
    """The state of a session; `engine` starts with it, `program` and what follows when first used.

    Whoever changes anything does so in an `operation`.
    """

    def __init__(
        self,
        settings: SessionSettings | None = None,
        *,
        worker: WorkerProcess | None = None,
        store: Store | None = None,
        **overrides: Any,
    ):
        self.settings = settings_with(settings, overrides)
        check_context(self.settings.context)
        worker = worker or first_worker(self.settings.spare)
        try:
            with without_collections():  # what is imported stays
                self._assemble(worker, store, frozenset(overrides))
        except BaseException:
            close_first(worker)
            raise

    def _assemble(self, worker: WorkerProcess, store: Store | None, given: frozenset[str]) -> None:
        """Import and make what a session has, while the worker starts.

        `given` are the settings that were not left to the session's file.
        """
        # The first cell's.
        from jitkernel.session.engine import Engine
        from jitkernel.session.history import undo  # noqa: F401
        from jitkernel.session.program.names import HiddenNames
        from jitkernel.session.report.places import FreedCode
        from jitkernel.session.report.watch import Observers
        from jitkernel.session.residency import garbage, residency  # noqa: F401
        from jitkernel.session.run import runner  # noqa: F401
        from jitkernel.session.run.results import Collector, Results
        from jitkernel.session.saved.keeping import Keeper
        from jitkernel.session.saved.store import Store

        self.lock = threading.RLock()
        self.operating = False  # an operation is in progress
        self.foreign = Foreign()
        self.signals = Signals(self.interrupt, lambda: self.operating and not self.foreign)
        self.cleanups = Cleanups()
        self.sink: Sink = Collector()
        self.store = store or Store(self.settings.store_path)
        self.restored: Restored | None = None
        self.withheld: list[str] = []  # libraries that its file names and that are not trusted
        try:
            self.keeper = Keeper(self, given)
            self.engine = Engine(self.settings, self, worker)
        except BaseException:
            self.store.close()
            raise
        self.number = 0  # of the latest cell
        self.results = Results(self.settings)
        self.hidden = HiddenNames()
        self.freed_code = FreedCode()
        self.observers = Observers(self)
        self.line_tables: dict[Request, LineTable] = {}
        # While the magics above a cell's code run: its options, which they may change.
        self.cell_options: CellOptions | None = None
        self._program: Program | None = None
        self._history: UndoHistory | None = None
        self._places: Places | None = None
        self._residency: Residency | None = None
        self._garbage: GarbageCollector | None = None

    # -- parts -----------------------------------------------------------------------------------

    @property
    def program(self) -> Program:
        """Cells and symbols; waits until the engine is ready."""
        return self.begin()

    def begin(self) -> Program:
        """Wait for the engine, once; what a session's file has is there from now on."""
        if self._program is not None:
            return self._program
        from jitkernel.session.history.snapshot import DataShadow
        from jitkernel.session.history.undo import UndoHistory
        from jitkernel.session.program.program import Program
        from jitkernel.session.report.places import Places
        from jitkernel.session.residency.garbage import GarbageCollector
        from jitkernel.session.residency.residency import Residency

        engine, settings = self.engine, self.settings
        program = self._program = Program(engine.linker, self.store, engine)
        self.keeper.bring_back()
        shadow = DataShadow(engine.arena, settings.undo_data)
        history = self._history = UndoHistory(
            program, shadow, self.results, settings.undo_depth, self.finish
        )
        self._garbage = GarbageCollector(program, engine, history, self.results, self.finish)
        self._places = Places(
            program, self.freed_code, engine.executor.services.locate, engine.is_thunk
        )
        self._residency = Residency(program, engine, settings.budget)
        self._residency.remember(program.cells.values())
        return program

    @property
    def arena(self) -> Arena:
        """The slab."""
        return self.engine.arena

    @property
    def history(self) -> UndoHistory:
        """What can be undone."""
        self.begin()
        return present(self._history, "the history")

    @property
    def residency(self) -> Residency:
        """Which cells' code is in memory."""
        self.begin()
        return present(self._residency, "the residency")

    @property
    def garbage(self) -> GarbageCollector:
        """What frees cells that nothing can reach."""
        self.begin()
        return present(self._garbage, "the garbage collector")

    @property
    def places(self) -> Places:
        """Names for addresses."""
        self.begin()
        return present(self._places, "the names of places")

    def release_contexts(self) -> None:
        """Free the contexts of cells whose code is gone."""
        if self._program is not None:
            self.engine.pool.release_contexts(self._program.cells.__contains__)

    # -- life ------------------------------------------------------------------------------------

    def finish(self, image: Image) -> None:
        """Run an image's destructors; what goes wrong in them must not keep it in memory."""
        from jitkernel.session.run.calls import finish

        finish(self, image)

    def interrupt(self) -> None:
        """End the compile or the run in progress, soon.  From any thread or a signal handler."""
        self.engine.interrupt()
        self.foreign.interrupt()

    # -- operations: see `operation` -------------------------------------------------------------

    def begin_operation(self) -> None:
        """Something is done with the program; what an earlier one has left is put in order."""
        self.operating = self.engine.running = True
        self.restore_order()
        self.residency.failed()  # what a call that was stopped has left

    def end_operation(self, observed: bool) -> None:
        """It is done: who looks on is told, the program's code fits the budget, the file is
        written."""
        self.restore_order()
        if observed:
            self.observers.ended()
        if self._residency is not None:
            self._residency.trim()
        self.engine.ended()
        self.keeper.keep()
        self.operating = False

    def restore_order(self) -> None:
        """Undo what a failed operation has left half done; nothing where all is in order.

        May be interrupted and called again.
        """
        self.foreign.end()
        self.engine.arena.rollback.recover()
        self.cleanups.finish()
        self.engine.restore_order()

    # -- what the engine asks: see `EngineClient` ------------------------------------------------

    def output(self, name: str, data: bytes) -> None:
        """The program has written something."""
        self.sink.output(name, data)

    def input(self, prompt: str) -> str | None:
        """The program wants a line."""
        return self.sink.input(prompt)

    def code_runs(self) -> None:
        """Code is about to run in an atomic block."""
        if self._history is not None:
            self._history.code_runs()

    def wake(self, stub: int, alone: bool) -> int:
        """Where a call of code goes on that is not in memory."""
        return self.residency.wake(stub, alone)

    def name_of(self, address: int) -> str:
        """What an address of the program's code is called."""
        return self._places.code(address) if self._places is not None else ""

    @contextlib.contextmanager
    def heard_by(self, sink: Sink) -> Iterator[None]:
        """While it lasts, `sink` is told what the program prints."""
        before, self.sink = self.sink, sink
        try:
            yield
        finally:
            self.sink = before

    # -- between operations ----------------------------------------------------------------------

    def idle(self) -> None:
        """Do what was put off: write store and object cache.  For event loops, after a reply."""
        with self.lock:
            if not self.engine.closed:
                self.store.flush()
                if self.engine.pool.cache:
                    self.engine.pool.cache.flush()

    def output_fds(self) -> list[int]:
        """Descriptors to watch between cells; call `drain` when one is readable, then ask again."""
        return self.engine.executor.fds() if self.engine.started else []

    def drain(self, sink: Sink) -> None:
        """Pass output of the program's threads on to `sink`, and bring code back that one of them
        has called: between runs it waits for this."""
        if self.engine.started and not self.engine.closed:
            with self.lock:
                if self.operating:
                    return  # within an operation, which serves them itself
                self.operating = True
                try:
                    self.signals.hold()
                    with self.heard_by(sink):
                        self.engine.executor.drain()
                finally:
                    self.operating = False
                    self.signals.release()
                if self._residency is not None and (failure := self._residency.failed()):
                    self.engine.notices.append(f"on a thread of the program: {failure}")

    def close(self) -> None:
        """Write the session's file, where it has one, and end every process."""
        self.keeper.close()
        self.engine.close()
        self.store.close()


@contextlib.contextmanager
def refused(what: str) -> Iterator[None]:
    """The system's words, where it says no, as JitError."""
    try:
        yield
    except OSError as error:
        raise JitError(f"{what}: {error.strerror or error}") from None
