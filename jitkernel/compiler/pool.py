"""What the session asks of its compiler workers.  Start from `CompilerPool.compile`.

Runs in the kernel process and never loads LLVM.  Which processes there are is in `workers`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from jitkernel.compiler.answers import ask, compiled, interrupted, refuse
from jitkernel.compiler.questions import Question, question
from jitkernel.compiler.records import (
    Compiled,
    ContextAccount,
    ContextCost,
    Identity,
    LineTable,
    Options,
    Part,
    Request,
    WorkerMemory,
)
from jitkernel.compiler.worker_process import WorkerProcess
from jitkernel.compiler.workers import Workers, memory_of
from jitkernel.errors import CompileError, JitError, WorkerDied
from jitkernel.settings import SessionSettings

if TYPE_CHECKING:
    from jitkernel.compiler.cache import ObjectCache
    from jitkernel.compiler.traces import Traces

_COMPILE, _CONTEXTS = "pipeline:compiled", "its contexts"
_NO_LIMIT = 1e6  # seconds
_LARGE = 64 << 10  # bytes of a request that may take a second and more
_TRIES = 3  # the worker may have been killed, and the spare with it that forks the next one


class CompilerPool:
    """`workers` processes that compile, and one that waits to fork what replaces one that dies.

    The `settings` are the session's, and hold from the next compile on.  What the `cache` has needs
    no worker; the pool writes and closes it.  Calls from several threads wait for each other;
    `workers.interrupt` does not wait.
    """

    def __init__(
        self,
        settings: SessionSettings | None = None,
        first: WorkerProcess | None = None,
        cache: ObjectCache | None = None,
    ):
        self.settings = settings or SessionSettings()
        #: asked when a compile has begun: whether it was interrupted before there was one to stop
        self.stopping: Callable[[], bool] = lambda: False
        #: done once, when something is being compiled, and this process would only wait
        self.meanwhile: Callable[[], object] | None = None
        self.cache = cache
        self.workers = Workers(self.settings, first)
        self._count = max(1, self.settings.workers)
        self._lock = threading.RLock()  # one call at a time
        self._identity: Identity | None = None

    @cached_property
    def traces(self) -> Traces:
        """The account that LLVM gives of its work on a module."""
        from jitkernel.compiler.traces import Traces  # few sessions ask

        return Traces(self._answer, self.compile, self._lock)

    # -- life

    def start(self) -> None:
        """Begin to start the first worker; returns at once."""
        self.workers.start()

    def close(self) -> None:
        """End all workers.  May be called again."""
        self.workers.close()
        if self.cache:
            self.cache.close()

    def __enter__(self) -> CompilerPool:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- one request

    def compile(
        self,
        request: Request,
        fresh: bool = False,
        tick: Callable[[], None] | None = None,
        meanwhile: Callable[[], object] | None = None,
    ) -> Compiled:
        """Compile one module, where `fresh` also one that the cache has.  While a worker does so,
        `meanwhile` is done, which may wait else, and `tick` is called twice a second, where the
        module is a large one.  Raises CompileError, WorkerDied or Interrupted."""
        if self.cache is not None and not (fresh or self.workers.closed):
            if found := self.cache.get(request):
                return found
        with self._lock:
            tick = tick if len(request.source) >= _LARGE else None
            asked = question(_COMPILE, request)
            if self.meanwhile is not None:
                meanwhile = partial(self._meanwhile, meanwhile)
            result = compiled(*self._ask(0, asked, tick, (), meanwhile))
        if self.cache is not None:
            self.cache.put(request, result)
        return result

    def _meanwhile(self, then: Callable[[], object] | None = None) -> None:
        """Do what waits for the first compile, and what this one wants done."""
        first, self.meanwhile = self.meanwhile, None
        for call in (first, then):
            if call is not None:
                call()

    def _ask(
        self,
        index: int,
        asked: Question,
        tick: Callable[[], None] | None = None,
        failed: Sequence[object] = (),
        meanwhile: Callable[[], object] | None = None,
    ) -> tuple[dict[str, Any], bytes]:
        """A worker's answer to a question; see `answers.ask`.  Where others have `failed`, nobody
        waits for it any more: nothing is sent then.

        A worker may be killed from outside at any time, as where memory is short.  One that ended
        before it had read the question was not ended by it: another one is asked.
        """
        request = asked.request
        # The session's own code is small, and what it is for is stopped when it runs.
        stoppable = request is not None and not request.options.internal
        for left in reversed(range(_TRIES)):
            worker = self.workers.lend(index)
            try:
                if failed or (stoppable and self.stopping()):  # `interrupt` sees it, once lent
                    raise interrupted(asked.label)
                limit = self.settings.timeout
                limit = limit if limit > 0 else _NO_LIMIT
                known = worker.bodies if asked.function == _COMPILE else ()
                sent = asked.known_to(known) if known else asked
                answer = ask(worker, sent, limit, tick, meanwhile)
                if "lacks" in answer[0]:
                    answer = ask(worker, asked, limit, tick)
                if request is not None and request.bodies:
                    worker.bodies.update(lent.key for lent in request.bodies)
                if request is not None and request.context == "kept" and request.cell:
                    worker.contexts.add(request.cell)
                elif request is not None and request.context == "shared":
                    worker.shares = True
                break
            except WorkerDied as error:
                if error.begun or not left:
                    raise
            finally:
                self.workers.give_back(index, worker)
        if worker.condemned == "interrupted":
            raise interrupted(asked.label)
        return answer

    # -- many requests

    def compile_many(self, requests: Sequence[Request]) -> list[Compiled | CompileError]:
        """Compile modules in parallel; results and errors stand in the order of `requests`.

        Raises Interrupted.
        """
        free: SimpleQueue[int] = SimpleQueue()  # numbers of workers
        for index in range(self._count):
            free.put(index)
        failed: list[BaseException] = []

        def compile_one(request: Request) -> Compiled | CompileError:
            if self.cache is not None and (found := self.cache.get(request)):
                return found
            try:
                asked = question(_COMPILE, request)
                index = free.get()
                try:
                    answer = self._ask(index, asked, failed=failed)
                finally:
                    free.put(index)
                result = compiled(*answer)
            except CompileError as error:
                return error
            if self.cache is not None:
                self.cache.put(request, result)
            return result

        from concurrent.futures import ThreadPoolExecutor  # with `logging`: not for the first cell

        # One more than there are workers: it reads the last answer and writes the next request.
        with self._lock, ThreadPoolExecutor(self._count + 1) as threads:
            try:
                results = threads.map(compile_one, requests)
                self._meanwhile()
                return list(results)
            except BaseException as error:
                failed.append(error)
                threads.shutdown(wait=False, cancel_futures=True)
                self.workers.interrupt()
                raise

    # -- other questions

    def identity(self) -> Identity:
        """The identity of the compiler here, as a worker says."""
        if self._identity is None:
            with self._lock:
                worker = self.workers.lend(0)
                worker.wait_started()
                self.workers.give_back(0, worker)
            self._identity = worker.identity
        if self._identity is None:
            raise JitError("the compiler worker did not start")
        return self._identity

    def intrinsic(
        self,
        name: str,
        arguments: Sequence[Sequence[str]],
        constants: Sequence[str],
        results: Sequence[str],
    ) -> tuple[str, tuple[str, ...]] | str:
        """Result and argument types of an intrinsic that is called so, see `intrinsics.signature`;
        "unknown" where LLVM has none of that name, "signature" where it has no such form."""
        given = name, arguments, constants, results
        found = self._answer("intrinsics:signature", *given, label=f"@{name}")[0]["found"]
        return found if isinstance(found, str) else (found[0], tuple(found[1]))

    def assembly(self, request: Request, triple: str, cpu: str = "", syntax: str = "intel") -> str:
        """The assembly that the module becomes on another machine, which `triple` names.

        Of the request's options the level counts.  `syntax` is `intel` or `att`, and of x86 alone.
        Raises CompileError.
        """
        _, text = self._answer("products:assembly", request, triple, cpu, syntax)
        return _text(text)

    def foreign_object(self, request: Request, triple: str, cpu: str = "") -> bytes:
        """The same as an object file."""
        return self._answer("products:assembly", request, triple, cpu, "")[1]

    def internalised(self, request: Request, keep: str, called: str) -> bytes:
        """Bitcode of the module with its function `keep` as `called`, and a variable `v` that is
        not its own as `called.v`; nothing else is seen from outside.  Raises CompileError."""
        return self._answer("products:internalised", request, keep, called)[1]

    def disassembled(self, bitcode: bytes) -> str:
        """The text of a module in bitcode.  Raises CompileError."""
        return _text(self._answer("products:disassembled", bitcode.hex(), label="bitcode")[1])

    def merged(
        self, parts: Sequence[Part], options: Options, seen: Iterable[str], forms: Sequence[str]
    ) -> list[bytes]:
        """Modules as one, in each of the `forms` (`object`, `text`, `bitcode`) before its passes;
        only the names that are `seen` can be seen from outside.  Raises CompileError."""
        given = parts, options, frozenset(seen), forms
        answer, blob = self._answer("products:merged", *given, label="the cells as one module")
        made, at = [], 0
        for size in answer["sizes"]:
            made.append(blob[at : at + size])
            at += size
        return made

    def printed(self, request: Request, optimised: bool = True) -> str:
        """The module as its passes leave it or (else) as they find it, as LLVM prints it.  Raises
        CompileError."""
        stage = "optimised" if optimised else "optimise"
        return _text(self._answer("products:printed", request, stage, False)[1])

    def located(self, request: Request, code: bytes) -> tuple[str, LineTable]:
        """The module as its passes leave it, each instruction with its line, and the table of
        `lines`: both of one compile.  Raises CompileError."""
        from jitkernel.compiler.line_table import located, table_of  # not needed to start

        asked = located(request) or request
        answer, blob = self._answer("products:printed", asked, "optimised", True)
        table = table_of(code, blob[answer["size"] :]) if asked is not request else ()
        return _text(blob[: answer["size"]]), table

    def ends(self, request: Request) -> tuple[str, str]:
        """The module before its first pass and after its last, all values named.  Raises
        CompileError."""
        found = self._answer("pass_tracing:ends", request)[0]
        return found["first"][0], found["last"][0]

    def _answer(
        self,
        function: str,
        *given: Any,
        label: str = "",
        index: int = 0,
        tick: Callable[[], None] | None = None,
    ) -> tuple[dict[str, Any], bytes]:
        """A worker's answer to any question; raises what it refuses."""
        with self._lock:
            answer = self._ask(index, question(function, *given, label=label), tick)
        refuse(answer[0])
        return answer

    def lines(self, request: Request, code: bytes = b"") -> LineTable:
        """A table of the lines that each stretch of a cell's code comes from, as `located` counts
        them: its own, and where it was inlined, those of the calls.

        `code` is the object that the request has become, where that is at hand.  Compiles the text
        again with locations, which leaves the code as it was, and reads the line table.  What
        debug information the module has of its own does not count: those are lines of another
        text (`debug_info.Origins` tells them).  Empty where the lines cannot be told.
        """
        # not needed to start
        from jitkernel.compiler.line_table import located, table_of

        try:
            code = code or self.compile(request).object
            asked = located(request)
            return table_of(code, self.compile(asked).object) if asked is not None else ()
        except CompileError:
            return ()

    # -- accounts

    def contexts(self) -> ContextAccount:
        """The contexts of all workers; the first call begins to count what each compile leaves."""
        with self._lock:
            answers = [
                self._answer("pipeline:account", label=_CONTEXTS, index=index)[0]
                for index in range(len(self.workers.working))
            ]
            return ContextAccount(
                sum(header["live"] for header in answers),
                tuple(sorted(cell for header in answers for cell in header["kept"])),
                self.workers.lost_contexts,
                tuple(ContextCost(*row) for header in answers for row in header["costs"]),
            )

    def release_contexts(self, live: Callable[[int], bool], shared: bool = False) -> None:
        """Free the kept contexts of cells that are not `live`, and the `shared` ones."""
        with self._lock:
            for index, worker in enumerate(self.workers.working):
                gone = [cell for cell in worker.contexts if not live(cell)]
                if gone or (shared and worker.shares):
                    worker.contexts.difference_update(gone)
                    worker.shares = worker.shares and not shared
                    with suppress(JitError):  # a worker that dies of it takes them along
                        self._answer("pipeline:release", gone, shared, label=_CONTEXTS, index=index)

    def processes(self) -> list[tuple[int, str, int]]:
        """The worker processes: process id, role, compiles."""
        return [(worker.pid, worker.role, worker.compiles) for worker in self.workers.living]

    def memory(self) -> list[WorkerMemory]:
        """The memory that each worker process holds."""
        return [memory_of(worker) for worker in self.workers.living]


def _text(data: bytes) -> str:
    """Text that a worker wrote, whatever became of it there."""
    return data.decode("utf-8", "replace")
