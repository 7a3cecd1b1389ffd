"""The three processes of a session as one machine: compile, place, call.  Start from `Engine`.

Nothing here knows cells: it owns the slab, the workers and the executor, starts them, and calls
functions through thunks.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from jitkernel.arena import Arena
from jitkernel.compiler.pool import CompilerPool
from jitkernel.compiler.records import Options, Request
from jitkernel.errors import Interrupted, JitError, UsageError, within_limits
from jitkernel.executor.executor import Executor
from jitkernel.executor.exit_report import LOST
from jitkernel.executor.process import ProcessExecutor
from jitkernel.executor.records import Outcome
from jitkernel.executor.runtime import INLINE_INTERPOSED, INTERPOSED, built_runtime, runtime_ir
from jitkernel.linker import Linker
from jitkernel.procfs import memory
from jitkernel.rollback import recording
from jitkernel.session.run.thunks import ThreadCopies, Thunks
from jitkernel.settings import SessionSettings

if TYPE_CHECKING:
    from jitkernel.compiler.cache import ObjectCache
    from jitkernel.compiler.worker_process import WorkerProcess
    from jitkernel.executor.own_map import OwnMap

#: What is said to whoever would change or call a program that stands.
STANDS = (
    "the program stands in the debugger, and is as it was when its call began: first let it go on "
    "(`c` at the debugger's prompt) or end (`q`)"
)
#: Takes note of a call's outcome, and gives it on.
Told: TypeAlias = Callable[[Outcome], Outcome]
_INTERNAL = Options(opt_level=1, internal=True)


class EngineClient(Protocol):
    """The core of a session, as its engine asks and tells it while the program's code runs."""

    settings: SessionSettings
    lock: Any

    def output(self, name: str, data: bytes) -> None: ...
    def input(self, prompt: str) -> str | None: ...
    def code_runs(self) -> None: ...
    def wake(self, stub: int, alone: bool) -> int: ...
    def ask(self, number: int, frame: bytes) -> bytes: ...
    def name_of(self, address: int) -> str: ...
    def tell_tools(self) -> None: ...
    def lend(self, thread: int) -> contextlib.AbstractContextManager[object]: ...


class WorldStopped:
    """A block in which session code is written: no thread of the program's and no handler of its
    signals runs any.

    What is freed while such threads live, or children that it forked, stays as it is until they
    have ended.  Raises UsageError: see `Engine.check_idle`.
    """

    def __init__(self, engine: Engine):
        self._engine = engine
        self.depth = 0  # such blocks that are open, one within the other

    def __enter__(self) -> None:
        engine = self._engine
        executor, arena = engine.executor, engine.arena
        if executor.serving:
            engine.check_idle()
        if self.depth:
            self.depth += 1
            return
        threads = executor.threads > 0
        if threads and not executor.can_park:
            raise UsageError(
                "threads that the program has started run, and nobody can stop them in this "
                "process while it changes: wait until they end (pthread_join), or use "
                'Session(executor="process")'
            )
        try:
            engine.park(threads)
            self.depth = 1
            shared = threads or executor.has_children
            if shared or arena.defers:
                with arena.rollback.atomic():
                    arena.defer_frees(shared)
        except BaseException:
            engine.resume_world()
            raise

    def __exit__(self, *exception: object) -> None:
        if self.depth > 1:
            self.depth -= 1
        else:
            self._engine.resume_world()


class Engine:
    """Arena, compiler pool, linker and executor of one session.

    The session's core is asked and told while the program's code runs.  Creating it starts the
    compiler worker; `ready` loads the runtime and starts the executor.  `worker` is a compiler
    worker that was started before.
    """

    linker: Linker
    executor: Executor
    thunks: Thunks

    def __init__(self, core: EngineClient, worker: WorkerProcess | None = None):
        self._core, settings = core, core.settings
        self.settings = settings
        with contextlib.ExitStack() as failed:
            base, self._place = settings.base, _own_place(settings)
            if self._place is not None:
                base = self._place.base
                failed.callback(self._place.close)
            self.arena = Arena(settings.capacity, base)
            failed.callback(self.arena.close)
            self.arena.in_use = self._in_use
            self.pool = CompilerPool(settings, worker, _cache(settings))
            self.pool.stopping = lambda: self.stopping
            self.pool.start()
            failed.pop_all()
        self.started = False  # `linker`, `executor` and `thunks` are there
        self._starting = threading.Lock()
        self._generation = 0
        self.copies = ThreadCopies(self)
        # Where an argument's own memory is, if code can use it as it is, and what keeps it there.
        self.address_of: Callable[[object], tuple[int, object] | None] | None = None
        self.closed = False
        self.world_stopped = WorldStopped(self)
        self._parked = False
        # A run is in progress; it was interrupted, perhaps between two things that can be stopped.
        self.running = self.stopping = False
        self.paused = self._paused_at = 0  # nanoseconds for which the program's threads have waited
        self.notices: list[str] = []  # what is still to be shown to the user
        # What surrounds calls, where somebody debugs them, and is told what is called (0: several)
        # and the outcomes; what is put back once a failure has been put in words.
        self.around: Callable[[int], contextlib.AbstractContextManager[Told]] | None = None
        self.owed: Callable[[], object] | None = None
        self.measuring = False  # what runs is timed or checked: it is to be what it is otherwise
        self.taking_back = False  # an operation that failed is being taken back
        self.arena.rollback.before, self.arena.rollback.after = self._take_back, self._taken_back

    # -- life ----------------------------------------------------------------------------------

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """The engine's parts, once it is ready: who asks waits for that."""
            if name not in ("linker", "executor", "thunks"):
                raise AttributeError(f"an Engine has no attribute {name!r}")
            self.ready()
            return self.__dict__[name]

    def ready(self) -> None:
        """Load the runtime and start the executor, once.  Raises JitError, and may be called
        again."""
        with self._starting, within_limits():
            if self.started:
                return
            if self.closed:
                raise JitError("this session is closed")
            names = INTERPOSED if self._place is None else INLINE_INTERPOSED
            linker = Linker(self.arena, self._lookup, interposed=names)
            # Position-independent code holds addresses in registers that a cell may spoil which
            # writes past its frames: only where it has to be.
            low = self.arena.base + self.arena.capacity <= 1 << 31
            options = _INTERNAL if low else _INTERNAL._replace(reloc="pic")
            code = (built_runtime() if low else b"") or self.pool.compile(
                Request(runtime_ir(), options, label="the runtime")
            ).object
            control = next(r.start for r in self.arena.regions if r.name == "runtime.data")
            entry = linker.load_runtime(code, control)
            executor = self._executor(entry, linker)
            executor.on_respawn, executor.on_wake = self.tell_replaced, self._core.wake
            executor.on_ask = self._core.ask
            executor.on_output, executor.on_input = self._core.output, self._core.input
            executor.stopping = lambda: self.stopping
            if self._place is None:
                self.pool.meanwhile = executor.start  # which takes as long as the first compile
            else:
                executor.start()
            self.arena.writes.runner = executor.page_table
            linker.unwind.hide = executor.hide_code
            self.thunks = Thunks(self.pool, linker)
            self.linker, self.executor, self.started = linker, executor, True

    def _executor(self, entry: Mapping[str, int], linker: Linker) -> Executor:
        core, settings = self._core, self.settings
        if self._place is None:
            return ProcessExecutor(self.arena, entry, settings)
        from jitkernel.executor.direct import address_of
        from jitkernel.executor.inline import InlineExecutor

        made = InlineExecutor(self.arena, entry, self._place, core.lock, settings)
        made.changing = lambda: self.running
        made.lend = core.lend
        self.address_of = address_of
        made.name_of = lambda stub: next(
            (linker.bind.called(name) for name, s in linker.symbols.items() if s.stub == stub), ""
        )
        return made

    def close(self, leave_code: bool = False) -> None:
        """End every process and give the slab back; code of this process may be left where it is,
        as somebody may have its address."""
        self.closed = True  # what follows may be interrupted, and done again
        with contextlib.suppress(Exception):
            self.pool.close()
        leave_code = leave_code and self._place is not None
        if self.started:
            if not leave_code:
                with contextlib.suppress(Exception):
                    self.executor.close()
        elif self._place is not None:
            self._place.close()
        self.arena.close()

    def interrupt(self) -> None:
        """End the compile or the run in progress; callable from threads and signal handlers."""
        self.stopping = self.running
        self.pool.workers.interrupt()
        if self.started:
            self.executor.interrupt()

    def put_back(self) -> None:
        """Put back what a call that failed has left to be looked at."""
        if (owed := self.owed) is not None:
            owed()
            self.owed = None

    def restore_order(self) -> None:
        """The rest of an operation that failed: threads that wait to go on."""
        self.put_back()
        if self.started and (lost := self.executor.restore_order()):
            self.notices.append(lost)
        if self.world_stopped.depth or self._parked:
            self.resume_world()
        if self.taking_back:
            self._taken_back()

    # -- calling -------------------------------------------------------------------------------

    def call(self, thunk: int, function: int, arguments: bytes = b"", result: int = 0) -> Outcome:
        """Run a thunk; far symbols are looked up again if the executor had to be replaced."""
        executor = self.executor
        if self.around is not None:
            self.check_stands()
        if recording():
            self._core.code_runs()
        lost = "" if executor.generation == self._generation else self._replaced()
        if self.around is None:
            self.tell_code()
            outcome = executor.call(thunk, function, arguments, result)
        else:
            with self.around(function) as told:
                self.tell_code()  # also of what has come for this call
                outcome = told(executor.call(thunk, function, arguments, result))
        if outcome.kind == "ok" and not (lost or outcome.respawned or outcome.lock_holder):
            return outcome
        return self._after(outcome, lost)

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        """A block whose calls are timed or checked."""
        before, self.measuring = self.measuring, True
        try:
            yield
        finally:
            self.measuring = before

    def tell_code(self) -> None:
        """Whoever follows what code there is finds out what is about to run."""
        self.tell_unwind()
        if self.settings.symbol_folder:
            self._core.tell_tools()

    def tell_unwind(self) -> None:
        """Have the unwinder find what code there is: before a call, and before threads go on."""
        if (now := self.linker.unwind.publish()) != self.executor.unwind:
            self.executor.tell_unwind(now)

    def call_many(self, addresses: Sequence[int]) -> Outcome:
        """Run functions without arguments in order."""
        if self.around is not None:
            self.check_stands()
        if recording():
            self._core.code_runs()
        lost = self._replaced()
        with self.around(0) if self.around is not None else contextlib.nullcontext(_same) as told:
            self.tell_code()
            outcome = told(self.executor.call_many(addresses))
        return self._after(outcome, lost)

    def _after(self, outcome: Outcome, lost: str) -> Outcome:
        """The words on a call; `lost` was known before it."""
        if lost and outcome.kind != "ok":
            outcome = outcome._replace(respawned=True, lost=outcome.lost or lost)
        elif lost:
            self.notices.append(lost)
        if outcome.kind == "interrupted":
            self.stopping = False  # that is done; what tells of it is not to be stopped
        if outcome.respawned:
            self.renew()
            if outcome.kind == "ok":
                self.notices.append(outcome.lost)
        if outcome.lock_holder is not None and outcome.kind == "ok":
            self.notices.append(outcome.lock_holder.words(self._core.name_of))
        return outcome

    def read(self, address: int, size: int) -> bytes:
        """Bytes of the program's memory; fewer, or none, where there is no more."""
        arena = self.arena
        if address in arena:
            return arena.read(address, min(size, arena.base + arena.capacity - address))
        return memory(self.executor.pid, address, size)

    def settle(self) -> None:
        """An operation has ended: whoever calls code past it, in this process, finds its unwind
        tables."""
        self.tell_code()

    def check_stop(self) -> None:
        """Raises Interrupted where that was asked for and no call or compile has been ended."""
        if self.stopping:
            self.stopping = False
            raise Interrupted("the cell was interrupted")

    def renew(self) -> None:
        """After the executor was replaced: its process has libc elsewhere."""
        if self.started and self.executor.generation != self._generation:
            with self.arena.rollback.atomic():
                self.linker.resolver.renew_far()
            self._generation = self.executor.generation
            if self.settings.symbol_folder:
                self._core.tell_tools()

    def check_idle(self) -> None:
        """Raise UsageError where code of the program runs, and a callback of that call asks, or
        stands."""
        self.check_stands()
        if self.executor.serving:
            raise UsageError(
                "code of the program is running: stop it first, or change the program when it has "
                "ended"
            )

    def check_stands(self) -> None:
        """Raise UsageError where code of the program stands in a debugger."""
        stops = self.executor.stops
        if stops is not None and stops.standing is not None:
            raise UsageError(STANDS)

    def park(self, threads: bool) -> None:
        """The program's threads, where there are any, and handlers of signals wait."""
        if not self._parked and (threads or self.executor.handles_signals):
            self._parked, self._paused_at = True, perf_counter_ns()
            self.executor.park(threads)

    def _take_back(self) -> None:
        """Prepare to take back an operation's writes: nobody may run them meanwhile, and what
        threads may have come to use stays."""
        if not self.started:
            return
        self.executor.hide_code()
        if self.executor.serving:
            return  # a callback has failed, and the call that it is a part of goes on
        executor, self.taking_back = self.executor, True
        if lost := executor.restore_order():
            self.notices.append(lost)
        if executor.shared:
            self.arena.keep_reserved()
        self.park(executor.threads > 0)

    def _taken_back(self) -> None:
        """That is done."""
        self.arena.defer_kept()
        if self._parked and not self.world_stopped.depth:
            self.resume_world()
        self.taking_back = False

    def resume_world(self) -> None:
        """The program's threads go on."""
        if self._parked:
            self.tell_unwind()
            self.executor.unpark()
            self._parked = False
            self.paused += perf_counter_ns() - self._paused_at
        self.world_stopped.depth = 0

    def _in_use(self) -> bool:
        """True if threads or children of the program run, which may use what is freed; while the
        world is stopped, that is settled: none comes or goes."""
        return self.started and not self.world_stopped.depth and self.executor.shared

    def tell_replaced(self) -> None:
        """The user is to know where the executor was found dead, and nothing has told it yet."""
        if self.started and self.executor.generation != self._generation:
            self.notices.append(self._replaced())

    def _replaced(self) -> str:
        """The losses where a look-up has found the executor dead: another one goes on."""
        if self.executor.generation == self._generation:
            return ""
        self.renew()
        return LOST.replace(" was started", " had ended and was started", 1)

    def _lookup(self, names: Sequence[str]) -> Sequence[int]:
        return self.executor.services.lookup(names) if self.started else [0] * len(names)


def _same(outcome: Outcome) -> Outcome:
    return outcome


def _own_place(settings: SessionSettings) -> OwnMap | None:
    """The address at which the code will lie, where this process runs it itself."""
    if settings.executor != "inline":
        return None
    from jitkernel.executor.own_map import OwnMap

    return OwnMap(settings.capacity, settings.base)


def _cache(settings: SessionSettings) -> ObjectCache | None:
    """The user's object cache, where it is wanted and can be had."""
    if not settings.object_cache:
        return None
    from jitkernel.compiler.cache import open_cache
    from jitkernel.compiler.worker_process import packages

    return open_cache(settings.object_cache_size, packages()[0])
