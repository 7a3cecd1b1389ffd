"""The three processes of a session as one machine: compile, place, call.  Start from `Engine`.

Nothing here knows cells: it owns the slab, the workers and the executor, starts them, and calls
functions through thunks.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from jitkernel.arena import Arena
from jitkernel.compiler import CompilerPool, Layout, Options, Request
from jitkernel.errors import Interrupted, JitError, TypeMismatch, UsageError, present
from jitkernel.executor import (
    INTERPOSED,
    Executor,
    ExecutorSettings,
    Outcome,
    built_runtime,
    runtime_ir,
)
from jitkernel.ir.expansion import is_digest
from jitkernel.ir.types import function_type
from jitkernel.linker import Image, Linker
from jitkernel.printable import shortened
from jitkernel.rollback import note, recording
from jitkernel.session.program.signatures import Signature
from jitkernel.session.run.thunks import (
    MAX_SCALARS,
    arguments_type,
    intrinsic_source,
    thunk_source,
    timer_source,
)
from jitkernel.session.settings import SessionSettings

if TYPE_CHECKING:
    from types import FrameType

    from jitkernel.compiler.cache import ObjectCache
    from jitkernel.compiler.process import WorkerProcess

__all__ = ["CallTarget", "Engine", "EngineClient"]

#: How many thunks stay linked; the least recently used one makes room.
_THUNKS = 512
_INTERNAL = Options(opt_level=1, internal=True)


class CallTarget:
    """A thunk with the layouts of its arguments and its result; `result` None for void."""

    __slots__ = ("address", "arguments", "image", "result")

    def __init__(self, address: int, image: Image, arguments: Layout | None, result: Layout | None):
        self.address, self.image = address, image
        self.arguments, self.result = arguments, result


class EngineClient(Protocol):
    """Whom an engine serves: what it asks and tells while the program's code runs."""

    def output(self, name: str, data: bytes) -> None:
        """The program has written to `stdout` or `stderr`."""

    def input(self, prompt: str) -> str | None:
        """A line for the program, None where there is none."""

    def code_runs(self) -> None:
        """Code is about to run in an atomic block, which may have to be taken back."""

    def wake(self, stub: int, alone: bool) -> int:
        """Where a call of code that is not in memory goes on; see `Executor.on_wake`."""

    def name_of(self, address: int) -> str:
        """What an address of the program's code is called."""


class Engine:
    """Arena, compiler pool, linker and executor of one session.

    Creating it starts the compiler worker; `ready` loads the runtime and starts the executor.
    `worker` is a compiler worker that was started before.
    """

    def __init__(
        self, settings: SessionSettings, client: EngineClient, worker: WorkerProcess | None = None
    ):
        self.settings = settings
        self.arena = Arena(settings.capacity, settings.base)
        self.arena.in_use = self._in_use
        try:
            self.pool = CompilerPool(
                workers=settings.workers, spare=settings.spare,
                memory_limit=settings.worker_memory_limit, timeout=settings.timeout,
                first=worker, cache=_cache(settings),
            )  # fmt: skip
            self.pool.stopping = lambda: self.stopping
            self.pool.start()
        except BaseException:
            self.arena.close()
            raise
        self._client = client
        self._executor: Executor | None = None
        self._linker: Linker | None = None
        self._starting = threading.Lock()
        self._generation = 0
        self._thunks: OrderedDict[tuple[object, ...], CallTarget] = OrderedDict()
        self.known_layouts: dict[str, Layout] = {}  # by type, without names
        self.closed = False
        self.gone: list[str] = []  # far symbols that a new executor does not have
        self._writing = self._parked = False
        # A run is in progress; it was interrupted, perhaps between two things that can be stopped.
        self.running = self.stopping = False
        self.notices: list[str] = []  # what the user is still to be told
        self.taking_back = False  # an operation that failed is being taken back
        self.arena.rollback.before, self.arena.rollback.after = self._take_back, self._taken_back

    # -- life ----------------------------------------------------------------------------------

    @property
    def linker(self) -> Linker:
        """The linker, once the engine is ready."""
        if self._linker is None:
            self.ready()
        return present(self._linker, "the linker")

    @property
    def executor(self) -> Executor:
        """The executor, once the engine is ready."""
        if self._executor is None:
            self.ready()
        return present(self._executor, "the executor")

    @property
    def started(self) -> bool:
        """Whether the executor runs."""
        return self._executor is not None

    def ready(self) -> None:
        """Load the runtime and start the executor, once."""
        with self._starting:
            if self._executor is not None:
                return
            if self.closed:
                raise JitError("this session is closed")
            linker = Linker(self.arena, self._lookup, interposed=INTERPOSED)
            text = runtime_ir()
            code = (
                built_runtime(text)
                or self.pool.compile(Request(text, _INTERNAL, label="the runtime")).object
            )
            control = next(r.start for r in self.arena.regions if r.name == "runtime.data")
            entry = linker.load_runtime(code, control)
            s = self.settings
            executor = Executor(
                self.arena, entry,
                ExecutorSettings(
                    interrupt_grace=s.interrupt_grace, cell_timeout=s.cell_timeout,
                    memory_limit=s.executor_memory_limit, stack_size=s.stack_size, env=dict(s.env),
                    cwd=s.cwd,
                ),
                on_output=self._client.output, on_input=self._client.input,
            )  # fmt: skip
            executor.on_respawn, executor.on_wake = self._replaced, self._client.wake
            executor.stopping = lambda: self.stopping
            executor.start()
            self.arena.writes.runner = executor.page_table
            self._linker, self._executor = linker, executor

    def close(self) -> None:
        """End every process and give the slab back."""
        self.closed = True  # what follows may be interrupted, and done again
        with contextlib.suppress(Exception):
            self.pool.close()
        if self._executor is not None:
            with contextlib.suppress(Exception):
                self._executor.close()
        if self._linker is not None:
            self._linker.swap.close()
        self.arena.close()

    def interrupt(self, signal: int = 0, frame: FrameType | None = None) -> None:
        """End the compile or the run in progress; callable from threads and signal handlers."""
        self.stopping = self.running
        self.pool.interrupt()
        if self._executor is not None:
            self._executor.interrupt()

    def ended(self) -> None:
        """An operation has ended: an interrupt that comes now is for nobody."""
        self.running = self.stopping = False

    def restore_order(self) -> None:
        """What an operation that failed has left half done: threads that wait to go on."""
        if self._executor is not None and (lost := self._executor.restore_order()):
            self.notices.append(lost)
        if self._writing or self._parked:
            self.write_no_more()
        if self.taking_back:
            self._taken_back()

    # -- calling -------------------------------------------------------------------------------

    def call(self, thunk: int, function: int, arguments: bytes = b"", result: int = 0) -> Outcome:
        """Run a thunk; far symbols are looked up again if the executor had to be replaced."""
        executor = self.executor
        if recording():
            self._client.code_runs()
        if executor.generation != self._generation:  # it was found dead by a look-up
            self._replaced()
        self.tell_unwind()
        return self._after(executor.call(thunk, function, arguments, result))

    def tell_unwind(self) -> None:
        """The executor finds out what the unwind tables are now."""
        unwind = self.linker.unwind
        self.executor.unwind = (unwind.start, unwind.generation)

    def call_many(self, addresses: Sequence[int]) -> Outcome:
        """Run functions without arguments in order."""
        if recording():
            self._client.code_runs()
        self.tell_unwind()
        return self._after(self.executor.call_many(addresses))

    def _after(self, outcome: Outcome) -> Outcome:
        if outcome.kind == "interrupted":
            self.stopping = False  # that is done; what tells of it is not to be stopped
        if outcome.respawned:
            self.renew()
            if outcome.kind == "ok":
                self.notices.append(outcome.lost)
        if outcome.lock_holder is not None and outcome.kind == "ok":
            self.notices.append(outcome.lock_holder.words(self._client.name_of))
        return outcome

    def check_stop(self) -> None:
        """Raises Interrupted where that was asked for and no call or compile has been ended."""
        if self.stopping:
            self.stopping = False
            raise Interrupted("the cell was interrupted")

    def renew(self) -> None:
        """After the executor was replaced: its process has libc elsewhere."""
        if self._executor is not None and self._executor.generation != self._generation:
            with self.arena.rollback.atomic():
                self.gone = self.linker.resolver.renew_far()
            self._generation = self._executor.generation

    def writing(self) -> Writing:
        """While session code is written (`with`): no thread of the program's and no handler of its
        signals runs any.

        What is freed while such threads live stays as it is until they have ended.
        """
        return Writing(self)

    def check_idle(self) -> None:
        """Raise UsageError where code of the program runs, and a callback of that call asks."""
        if self.executor.serving:
            raise UsageError(
                "code of the program is running: stop it first, or change the program when it has "
                "ended"
            )

    def begin_writing(self) -> bool:
        """See `writing`; False where that is so already.  Raises UsageError: see `check_idle`."""
        self.check_idle()
        if self._writing:
            return False
        executor, arena = self.executor, self.arena
        threads = executor.threads > 0
        try:
            self._park(executor, threads)
            self._writing, arena.in_use = True, None  # no thread comes or goes meanwhile
            with arena.rollback.atomic():
                arena.defer_frees(threads)
        except BaseException:
            self.write_no_more()
            raise
        return True

    def _park(self, executor: Executor, threads: bool) -> None:
        if not self._parked and (threads or executor.handles_signals):
            self._parked = True
            executor.park(threads)

    def _take_back(self) -> None:
        """What an operation has written is about to be taken back: nobody may run it meanwhile,
        and what threads may have come to use stays."""
        executor = self._executor
        if executor is None or executor.serving:
            return  # a callback has failed, and the call that it is a part of goes on
        self.taking_back = True
        if lost := executor.restore_order():
            self.notices.append(lost)
        threads = executor.threads > 0
        if threads:
            self.arena.keep_reserved()
        self._park(executor, threads)

    def _taken_back(self) -> None:
        """That is done."""
        self.arena.defer_kept()
        if self._parked and not self._writing:
            self.write_no_more()
        self.taking_back = False

    def write_no_more(self) -> None:
        """The program's threads go on."""
        if self._parked:
            self.executor.unpark()
            self._parked = False
        self._writing, self.arena.in_use = False, self._in_use

    def _in_use(self) -> bool:
        """Whether threads of the program run, which may use what is freed."""
        return self._executor is not None and self._executor.threads > 0

    def _replaced(self) -> None:
        """The executor was found dead before a call, which goes on in another one."""
        self.renew()
        self.notices.append(
            "the executor had ended and was started again: memory from malloc, open files and "
            "threads are lost; functions and globals in the arena are as they were"
        )

    def layout(self, type: str) -> Layout:
        """Sizes and offsets of a type without names, from LLVM's data layout."""
        found = self.known_layouts.get(type)
        if found is None:
            found = self.pool.layouts([type], "")[0]
            if len(self.known_layouts) > 4096:
                self.known_layouts.clear()
            self.known_layouts[type] = found
        return found

    def target(
        self, signature: Signature, types: tuple[str, ...], timer: bool = False
    ) -> CallTarget:
        """The thunk for calls of a signature with arguments of `types` (without names)."""
        key = (*signature[:4], types, timer)
        found = self._thunks.get(key)
        if found is not None:
            self._thunks.move_to_end(key)
            return found
        if is_digest(signature.type) or is_digest(signature.attributes):
            raise UsageError(
                "a function with values of so many parts cannot be called: "
                f"{shortened(signature.shown)}"
            )
        result_type = str(function_type(signature.type).result)
        layouts = [self.layout(t) for t in types]
        result = None if result_type == "void" else self.layout(result_type)
        for layout in [*layouts, result]:
            if (
                layout is not None
                and layout.kind in ("array", "struct")
                and len(layout.scalars) > MAX_SCALARS
            ):
                raise TypeMismatch(
                    f"{layout.type} has {len(layout.scalars)} scalars; passing more than "
                    f"{MAX_SCALARS} by value takes the compiler seconds. "
                    "Pass a pointer: `ptr`, or `ptr byval(T)`"
                )
        before = ("i64", *types) if timer else types
        source = timer_source if timer else thunk_source
        return self._thunk(key, source("jk_thunk", signature, types), before, result)

    def intrinsic(
        self, name: str, result: str, arguments: tuple[tuple[str, str], ...]
    ) -> CallTarget:
        """The thunk that calls an intrinsic; see `intrinsic_source`."""
        key = ("intrinsic", name, result, arguments)
        if found := self._thunks.get(key):
            self._thunks.move_to_end(key)
            return found
        types = tuple(type for type, constant in arguments if not constant)
        layout = None if result == "void" else self.layout(result)
        return self._thunk(key, intrinsic_source(name, result, arguments), types, layout)

    def _thunk(
        self, key: tuple[object, ...], source: str, types: tuple[str, ...], result: Layout | None
    ) -> CallTarget:
        """Compile and place a thunk that takes arguments of `types`; the oldest makes room."""
        arguments = self.layout(arguments_type(types)) if types else None
        compiled = self.pool.compile(Request(source, _INTERNAL, label="a thunk"))
        thunks = self._thunks
        with self.arena.rollback.atomic():
            image, address = self.linker.place_unnamed(
                compiled.object, "jk_thunk", kinds={"clock_gettime": "function"}
            )
            found = CallTarget(address, image, arguments, result)
            note(thunks.pop, key, None)
            thunks[key] = found
            if len(thunks) > _THUNKS:
                first, oldest = next(iter(thunks.items()))
                note(thunks.setdefault, first, oldest)
                del thunks[first]
                self.linker.unlink(oldest.image)
        return found

    def is_thunk(self, address: int) -> bool:
        """Whether an address of text is in a thunk."""
        return any(
            t.image.text.start <= address < t.image.text.start + t.image.text.size
            for t in self._thunks.values()
            if t.image.text is not None
        )

    def thunk_images(self) -> list[Image]:
        """What the thunks occupy."""
        return [t.image for t in self._thunks.values()]

    def thunk_bytes(self) -> int:
        """Bytes of text that thunks take."""
        return sum(t.image.sizes()["text"] for t in self._thunks.values())

    def _lookup(self, names: Sequence[str]) -> Sequence[int]:
        if self._executor is None:
            return [0] * len(names)
        return self._executor.services.lookup(names)


class Writing:
    """See `Engine.writing`."""

    __slots__ = ("_begun", "_engine")

    def __init__(self, engine: Engine):
        self._engine, self._begun = engine, False

    def __enter__(self) -> None:
        self._begun = self._engine.begin_writing()

    def __exit__(self, *exception: object) -> None:
        if self._begun:
            self._engine.write_no_more()


def _cache(settings: SessionSettings) -> ObjectCache | None:
    """The user's object cache, where it is wanted and can be had."""
    if not settings.object_cache:
        return None
    from jitkernel.compiler.cache import open_cache
    from jitkernel.compiler.process import packages

    return open_cache(settings.object_cache_size, packages()[0])
