"""What a session has: its processes, its program, and what goes with them.

`Session` is the facade over it: what can be done is declared there, and the modules that do it take
what they need of a `Core`.  It is no public interface.  Start from `Core`.

This imports most of the program: `Session` does so when the compiler's process is on its way, which
takes as long to start as that takes to be imported.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from jitkernel.errors import JitError
from jitkernel.files import working_folder
from jitkernel.record import replace
from jitkernel.session.arrays import Arrays
from jitkernel.session.engine import Engine
from jitkernel.session.history.snapshot import DataShadow
from jitkernel.session.history.undo import UndoHistory
from jitkernel.session.interruption import InterruptibleCall, Signals
from jitkernel.session.operation import FORKED, Cleanups
from jitkernel.session.program.names import HiddenNames
from jitkernel.session.program.program import Program
from jitkernel.session.report.watch import Observers
from jitkernel.session.residency.garbage import GarbageCollector
from jitkernel.session.residency.residency import Residency
from jitkernel.session.run.deferred import Deferred
from jitkernel.session.run.results import Results, Streams
from jitkernel.session.saved.store import Store
from jitkernel.session.saved.texts import Texts

if TYPE_CHECKING:
    from jitkernel.compiler.worker_process import WorkerProcess
    from jitkernel.languages.prototypes import Prototype, Spelling
    from jitkernel.linker import Image
    from jitkernel.session.debugging.debugger import Debugger
    from jitkernel.session.program.cell import Change
    from jitkernel.session.report.places import Places
    from jitkernel.session.report.symbol_files import SymbolFiles
    from jitkernel.session.run.host import Execution
    from jitkernel.session.run.prototypes import Prototypes
    from jitkernel.session.run.python_functions import PythonFunctions
    from jitkernel.session.run.quick import DirectCalls, QuickCalls
    from jitkernel.session.run.results import Sink
    from jitkernel.session.saved.keeping import SessionFile
    from jitkernel.session.saved.restoring import Restored
    from jitkernel.session.settings import CellOptions
    from jitkernel.settings import SessionSettings

_cores: weakref.WeakSet[Core] = weakref.WeakSet()


class Core:
    """The state of a session; `engine` starts with it, `program` and what follows when first used.

    `given` are the settings that were not left to the session's file.  Whoever changes anything
    does so in an `operation`.
    """

    program: Program  # cells and symbols
    history: UndoHistory  # what can be undone
    observers: Observers
    arrays: Arrays  # memory that is shared with the program
    residency: Residency  # which cells' code is in memory
    garbage: GarbageCollector
    texts: Texts  # what cells have asked

    def __init__(
        self,
        settings: SessionSettings,
        worker: WorkerProcess,
        store: Store | None,
        given: frozenset[str],
    ):
        self.settings, self._given = settings, given
        self.lock: Any = threading.RLock()
        self.forked = False  # this process is a fork of the one that it belongs to
        _cores.add(self)
        self.operating = False  # an operation is in progress
        self.nested = False  # others were parts of it: one may have failed, and it went on
        self.in_order = False  # the last one has left nothing half done, and nothing was since
        self.operations = 0  # how many there have been
        self.direct: DirectCalls | None = None  # where code runs in this process
        self.foreign = InterruptibleCall()
        self.signals = Signals(self.interrupt, lambda: self.operating and not self.foreign)
        self.cleanups = Cleanups()
        self.deferred = Deferred(self)  # what callbacks have put off
        self.raised = 0  # the identity of what one has raised last
        self.sink: Sink = Streams()  # who hears what no cell or call has a sink for
        self.store = store or Store(settings.store_path)
        self.restored: Restored | None = None
        self.withheld: list[str] = []  # libraries that its file names and that are not trusted
        try:
            if store is not None or settings.store_path:
                self.keeper = self._keeper()  # the file's settings are the session's
            self.engine = Engine(self, worker)
        except BaseException:
            self.store.close()
            raise
        self.number = 0  # of the latest cell
        self.results = Results(self.settings)
        self.hidden = HiddenNames()
        # Once an archive was linked: what takes members of it (`run.linking`).
        self.provide: Callable[[Execution, Iterable[str], Collection[str]], None] | None = None
        # While the magics above a cell's code run: its options, which they may change.
        self.cell_options: CellOptions | None = None
        self.begun = False  # `program` and what follows are there
        # Once a debugger is on: whether what a cell of this source runs is to be debugged.
        self.debugs: Callable[[str], bool] | None = None
        self.debugs_optimised = False  # and whether it is optimised as without a debugger
        # What a session beside this one begins with, and that one while there is one.
        self.first_settings, self.first_folder = replace(self.settings), working_folder()
        self.beside: Callable[[], None] | None = None

    # -- parts -----------------------------------------------------------------------------------

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """The parts of a program are there when the engine is ready: who asks waits."""
            if name not in Core.__annotations__:
                raise AttributeError(f"a Core has no attribute {name!r}")
            self.begin()
            return self.__dict__[name]

    @property
    def has_prototypes(self) -> bool:
        """True if a language may have something to say of a name."""
        return "prototypes" in self.__dict__ or bool(self.program.state.notes.found)

    @cached_property
    def prototypes(self) -> Prototypes:
        """The languages' view of its names."""
        from jitkernel.session.run.prototypes import Prototypes  # few sessions ask

        return Prototypes(self)

    def said(self, name: str) -> Prototype | None:
        """The declaration of a name in a language other than IR, where there may be one."""
        return self.prototypes.of(name) if self.has_prototypes else None

    def spelling(self, name: str) -> Spelling | None:
        """The form that the language of a definition gives it, where that is not IR's."""
        return self.prototypes.spelling(name) if self.has_prototypes else None

    def begin(self) -> None:
        """Wait for the engine, once; what a session's file has is there from now on."""
        if self.begun:
            return
        if self.forked:
            raise JitError(FORKED)
        engine, settings = self.engine, self.settings
        self.arrays = Arrays(engine)
        program = self.program = Program(engine.linker, self.store, engine)
        self.texts = Texts(self.store)
        self.begun = True
        if "keeper" in self.__dict__:
            self.keeper.bring_back()
        memory = engine.executor.services.memory
        shadow = DataShadow(engine.arena, settings.undo_data, memory)
        self.history = UndoHistory(program, shadow, self.results, settings, self.finish)
        self.history.refresh = self._refresh
        self.garbage = GarbageCollector(program, engine, self.history, self.results, self.finish)
        self.observers = Observers(self)
        self.residency = Residency(program, engine)
        self.residency.remember(program.cells.values())
        if settings.executor == "inline":
            from jitkernel.session.run.quick import DirectCalls

            self.direct = DirectCalls(self)

    def refuse_closed(self) -> None:
        """Raises JitError where it has ended, or is another process's."""
        if self.engine.closed:
            raise JitError(FORKED if self.forked else "this session is closed")

    def release_contexts(self) -> None:
        """Free the contexts of cells whose code is gone."""
        if self.begun:
            self.engine.pool.release_contexts(self.program.cells.__contains__)

    @cached_property
    def keeper(self) -> SessionFile:
        """The session's side of its file, where it has one or is saved to one."""
        return self._keeper()

    def _keeper(self) -> SessionFile:
        from jitkernel.session.saved.keeping import SessionFile  # few sessions have a file

        return SessionFile(self, self._given)

    @cached_property
    def places(self) -> Places:
        """Names for addresses."""
        from jitkernel.session.report.places import Places  # of what went wrong, and of pointers

        return Places(self.program, self.engine)

    @cached_property
    def symbol_files(self) -> SymbolFiles:
        """The files that perf and gdb read."""
        from jitkernel.session.report.symbol_files import SymbolFiles  # few are profiled

        return SymbolFiles(self)

    @cached_property
    def python_functions(self) -> PythonFunctions:
        """Functions of Python's that cells call."""
        from jitkernel.session.run.python_functions import PythonFunctions

        return PythonFunctions(self)

    @cached_property
    def debugger(self) -> Debugger:
        """Breakpoints and steps."""
        from jitkernel.session.debugging.debugger import Debugger  # few sessions are debugged

        return Debugger(self)

    @cached_property
    def quick(self) -> QuickCalls:
        """Calls of functions that have been called before."""
        from jitkernel.session.run.quick import QuickCalls  # not every session calls from Python

        return QuickCalls(self)

    def _refresh(self, change: Change) -> None:
        """Have cells made anew that hold bodies or values of what a revert, whose opposite is a
        change, has made otherwise: one in the middle leaves them with what they have."""
        came = {n for n, was in change.facts("cell").items() if not was.there}
        holders = self.program.holders(change.facts("name"))
        if outdated := self.program.outdated(holders | came | change.facts("object").keys()):
            from jitkernel.session.run.definer import Definer  # seldom needed

            definer = Definer(self)
            definer.change = change
            definer.refresh(outdated)
            for number in came:  # they go when it is taken back
                change.before.pop(("object", number), None)

    def finish(self, image: Image) -> None:
        """Run an image's destructors: see `calls.finish`."""
        from jitkernel.session.run.calls import finish

        finish(self, image)

    def interrupt(self) -> None:
        """End the compile or the run in progress, soon.  From any thread or a signal handler."""
        self.engine.interrupt()
        self.foreign.interrupt()
        if (stop := self.beside) is not None:
            stop()

    # -- operations: see `operation` -------------------------------------------------------------

    def begin_operation(self) -> None:
        """Something is done with the program; what an earlier one has left is put in order."""
        self.operations += 1
        self.operating, self.nested, self.engine.running = True, False, True
        self.engine.measuring = False
        if not self.in_order:
            self.restore_order()
        self.in_order = False
        self.residency.failure = None  # what a call that was stopped has left

    def end_operation(self, observed: bool) -> None:
        """It is done: observers are called, the program's code fits the budget, the file is
        written."""
        if self.nested:
            self.restore_order()
        if self.engine.owed is not None:
            self.engine.put_back()
        if self.begun and not self.engine.closed:
            if observed:
                self.observers.ended(self.number)
            if self.settings.budget:
                self.residency.trim()
            if self.arrays.gone or self.engine.arena.gone:
                self.arrays.settle()
            if self.direct is not None:
                self.engine.settle()
            self.texts.settle()
        self.engine.running = self.engine.stopping = False  # an interrupt is for nobody now
        if "keeper" in self.__dict__ and not self.engine.closed:
            self.keeper.keep()
        self.operating, self.in_order = False, self.direct is None

    def restore_order(self) -> None:
        """Undo what a failed operation has left half done; nothing where all is in order.

        May be interrupted and called again.
        """
        self.foreign.end()
        if self.engine.closed:
            return  # by a callback, or a signal's handler: there is nothing that could be in order
        self.engine.arena.rollback.recover()
        if self.cleanups:
            self.cleanups.finish()
        self.engine.restore_order()

    @contextlib.contextmanager
    def lend(self, thread: int) -> Iterator[None]:
        """While it lasts, another thread may use the session as this one may, which waits."""
        from jitkernel.executor.looks import Lent

        lock = self.lock
        self.lock = Lent(lock, thread)
        try:
            yield
        finally:
            self.lock = lock

    # -- what the engine asks: see `EngineClient` ------------------------------------------------

    def output(self, name: str, data: bytes) -> None:
        """The program has written something."""
        self.sink.output(name, data)

    def input(self, prompt: str) -> str | None:
        """The program wants a line."""
        line = self.sink.input(prompt)
        if line is not None:
            self.texts.answered()
        return line

    def code_runs(self) -> None:
        """Code is about to run in an atomic block."""
        if "history" in self.__dict__:
            self.history.code_runs()

    def wake(self, stub: int, alone: bool) -> int:
        """The address at which a call goes on of code that is not in memory."""
        before, self.operating = self.operating, True
        try:
            address = self.residency.wake(stub, alone)
            if self.debugs is not None:
                self.debugger.linked()
            if self.settings.symbol_folder:
                self.symbol_files.tell()
            return address
        finally:
            self.operating = before

    def ask(self, number: int, frame: bytes) -> bytes:
        """Run a function of Python's for the program."""
        try:
            with self.deferred.held():
                return self.python_functions.call(number, frame)
        except Exception as error:
            self.raised = id(error)
            raise

    def name_of(self, address: int) -> str:
        """The name of an address of the program's code."""
        return self.places.code(address)

    def tell_tools(self) -> None:
        """Code is about to run that perf and gdb may not know."""
        self.symbol_files.tell()


def _forked() -> None:
    """A forked process shares the slab and the sockets of its parent's sessions: it must not use
    them."""
    for core in list(_cores):
        core.lock = threading.RLock()  # another thread of the parent may have it
        core.forked, core.begun, core.operating = True, False, False
        for name in (*Core.__annotations__, "places"):
            core.__dict__.pop(name, None)
        if "engine" in core.__dict__:
            core.engine.closed = True


os.register_at_fork(after_in_child=_forked)
