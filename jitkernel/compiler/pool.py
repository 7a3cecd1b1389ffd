"""Compiler workers, a spare among them, and what to do when one dies.  Start from `CompilerPool`.

Runs in the kernel process and never loads LLVM.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jitkernel.compiler.answers import compiled, died, interrupted, refuse, request_frame, timed_out
from jitkernel.compiler.batch import compile_batch
from jitkernel.compiler.inspection import Inspector
from jitkernel.compiler.layout import Layout
from jitkernel.compiler.process import WorkerProcess
from jitkernel.compiler.records import (
    Compiled,
    ContextAccount,
    ContextCost,
    Flow,
    Identity,
    LineTable,
    Request,
    WorkerMemory,
)
from jitkernel.compiler.wire import frame
from jitkernel.errors import CompileError, JitError, LinkError

if TYPE_CHECKING:
    from jitkernel.compiler.cache import ObjectCache

__all__ = ["CompilerPool"]

_SPIN = 2_000_000  # nanoseconds; the answer to a tiny cell comes within two milliseconds
_SHORT = 4096  # bytes of a request that may be one
_NO_LIMIT = 1e6  # seconds
_LAYOUTS_KEPT = 2000
# Seconds after a worker is in use: the start of a spare must not compete with the first cells.
_FIRST_SPARE_DELAY = 1.0
_SPARE_DELAY = 0.25
# Bytes that a worker may keep beyond its first measurement: each compile leaves about 1.5 KB in
# it (callbacks of LLVM's pass builder that llvmlite does not dispose); a fresh process has none.
_GROWTH = 8 << 20


class CompilerPool:
    """`workers` processes that compile, and one that waits to take the place of one that dies.

    `memory_limit` (bytes that are the process's own) replaces a worker that has grown past it, when
    it is idle.  `timeout` (seconds, 0: none) bounds one compile.  What the `cache` has needs no
    worker; the pool writes and closes it.  Calls from several threads wait for each other;
    `interrupt` does not wait.
    """

    def __init__(
        self,
        workers: int = 1,
        spare: bool = True,
        memory_limit: int = 512 << 20,
        timeout: float = 60.0,
        first: WorkerProcess | None = None,
        cache: ObjectCache | None = None,
    ):
        self.memory_limit = memory_limit
        self.timeout = timeout
        #: asked when a compile has begun: whether it was interrupted before there was one to stop
        self.stopping: Callable[[], bool] = lambda: False
        self.restarts = 0
        self.cache = cache
        self.inspector = Inspector()
        self._told = False  # whether the cache knows what this pool's workers are
        self._lost_contexts = 0
        self._count = max(1, workers)
        self._wants_spare = spare
        self._lock = threading.RLock()  # one call at a time
        # Guards what follows; `interrupt` may come in a signal handler of the thread that holds it.
        self._state = threading.RLock()
        self._workers: list[WorkerProcess] = [first] if first else []
        self._spare: WorkerProcess | None = None
        self._busy: set[WorkerProcess] = set()
        self._timer: threading.Timer | None = None
        self._closed = False
        self._layouts: dict[tuple[str, str], Layout] = {}

    # -- life

    def start(self) -> None:
        """Begin to start the first worker; returns at once."""
        with self._state:
            if self._closed:
                raise JitError("this compiler is closed")
            if not self._workers:
                self._workers.append(WorkerProcess())

    def close(self) -> None:
        """End all workers.  May be called again."""
        with self._state:
            self._closed = True
            timer, self._timer = self._timer, None
            workers, self._workers = self._workers, []
            if self._spare:
                workers.append(self._spare)
                self._spare = None
        if timer:
            timer.cancel()
        self.inspector.close()
        for worker in workers:
            worker.close()
        if self.cache:
            self.cache.close()

    def __enter__(self) -> CompilerPool:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def interrupt(self) -> bool:
        """End the compiles in progress, which then raise Interrupted; whether there was one.

        Callable from any thread and from a signal handler.
        """
        with self._state:
            busy = tuple(self._busy)
            for worker in busy:
                worker.condemned = "interrupted"
                worker.kill()
        return self.inspector.interrupt() or bool(busy)

    def lend(self, index: int) -> WorkerProcess:
        """A worker fit for use, until `give_back`."""
        with self._state:
            worker = self._fit(index)
            self._busy.add(worker)
            return worker

    def _fit(self, index: int) -> WorkerProcess:
        """The worker of this number; the spare takes its place where it cannot go on."""
        if self._closed:
            raise JitError("this compiler is closed")
        while index >= len(self._workers):
            self._workers.append(WorkerProcess())
        worker = self._workers[index]
        if worker.condemned or worker.gone():
            worker.close()
            self.restarts += 1
            self._lost_contexts += len(worker.contexts) + worker.shares
            self._told = False
            worker = self._workers[index] = self._take_spare() or WorkerProcess()
        return worker

    def _take_spare(self) -> WorkerProcess | None:
        spare, self._spare = self._spare, None
        if spare is None or spare.gone():
            if spare:
                spare.close()
            return None
        spare.role = "worker"
        return spare

    def _start_spare(self) -> None:
        with self._state:
            self._timer = None
            if not self._closed and not self._spare:
                with suppress(OSError):  # a worker is then started when it is needed
                    self._spare = WorkerProcess("spare")

    # -- one request

    def compile(self, request: Request) -> Compiled:
        """Compile one module.  Raises CompileError, WorkerDied or Interrupted."""
        if found := self._find(request):
            return found
        with self._lock:
            header, blob = self._ask(0, request_frame(request, self._who()), request.label, request)
        result = compiled(header, blob)
        self._keep(request, result)
        return result

    def _who(self) -> bool:
        """Whether a worker is to be asked what it is."""
        return self.cache is not None and not self._told

    def _find(self, request: Request) -> Compiled | None:
        """What the cache has.  Contexts that last are there to be watched: all is compiled then."""
        if self.cache is None or self._closed or request.context != "throwaway":
            return None
        return self.cache.get(request)

    def _keep(self, request: Request, result: Compiled) -> None:
        """Let the cache have what was compiled."""
        if self.cache is not None and self._told and request.context == "throwaway":
            self.cache.put(request, result)

    def placed(self, worker: WorkerProcess, request: Request) -> None:
        """A worker has answered this request: what it holds for it now."""
        if request.context == "kept" and request.cell:
            worker.contexts.add(request.cell)
        elif request.context == "shared":
            worker.shares = True

    def _ask(
        self, index: int, data: bytes, label: str, request: Request | None = None
    ) -> tuple[dict[str, Any], bytes]:
        """Send one frame to a worker and wait for the answer."""
        worker = self.lend(index)
        # The session's own code is small, and what it is for is stopped when it runs.
        if request is not None and not request.options.internal and self.stopping():
            self.give_back(index, worker)
            raise interrupted(label)
        try:
            limit = self._limit()
            worker.send(data, limit)
            answer = worker.receive(limit, _SPIN if len(data) < _SHORT else 0)
            if request is not None:
                self.placed(worker, request)
        except TimeoutError:
            worker.condemned = "timeout"
            worker.kill()
            raise timed_out(label, self.timeout) from None
        except (EOFError, OSError):
            if worker.condemned == "interrupted":
                raise interrupted(label) from None
            error = died(*worker.post_mortem(), label, request)
            worker.condemned = "died"
            raise error from None
        except BaseException:
            worker.condemned = "abandoned"  # an answer may be on its way: it fits no later request
            worker.kill()
            raise
        finally:
            self.give_back(index, worker)
        if worker.condemned == "interrupted":
            raise interrupted(label)
        return answer

    def _limit(self) -> float:
        return self.timeout if self.timeout > 0 else _NO_LIMIT

    def give_back(self, index: int, worker: WorkerProcess) -> None:
        """After a request: replace a worker that cannot go on, and see to the spare."""
        with self._state:
            self._busy.discard(worker)
            if worker.identity and not self._told and self.cache:
                self.cache.learn(worker.identity)
                self._told = True
            if not worker.first_bytes:
                worker.first_bytes = worker.own_bytes
            if worker.own_bytes > self.memory_limit and not worker.condemned:
                worker.condemned = "memory"
            elif self._has_grown(worker):
                worker.condemned = "growth"
            if self._closed:
                return
            if worker.condemned:
                self._fit(index)
            if self._wants_spare and not self._spare and not self._timer:
                delay = _SPARE_DELAY if self.restarts else _FIRST_SPARE_DELAY
                self._timer = threading.Timer(delay, self._start_spare)
                self._timer.daemon = True
                self._timer.start()

    def _has_grown(self, worker: WorkerProcess) -> bool:
        """Whether a ready spare should take over from a worker that holds what LLVM never frees."""
        return (
            worker.own_bytes - worker.first_bytes > _GROWTH
            and self._spare is not None
            and not self._spare.gone()
            and not worker.contexts
            and not worker.shares
        )

    # -- many requests

    def compile_many(self, requests: Sequence[Request]) -> list[Compiled | CompileError]:
        """Compile modules in parallel; results and errors stand in the order of `requests`.

        Each worker is given its next request before its last answer is read, so none waits.
        """
        results: list[Compiled | CompileError | None] = [self._find(r) for r in requests]
        missing = [i for i, result in enumerate(results) if result is None]
        if missing:
            wanted = [requests[i] for i in missing]
            with self._lock:
                made = compile_batch(self, self._count, wanted, self._limit(), self._who())
            for i, result in zip(missing, made, strict=True):
                results[i] = result
                if isinstance(result, Compiled):
                    self._keep(requests[i], result)
        return [result or CompileError("not compiled") for result in results]

    # -- other questions

    def layouts(self, types: Sequence[str], named: str = "") -> list[Layout]:
        """The memory layout of each type; `named` defines the structs that they mention.

        Answers are kept.  Raises CompileError for a type that has no layout.
        """
        with self._lock:
            missing = [text for text in dict.fromkeys(types) if (text, named) not in self._layouts]
            if missing and len(self._layouts) > _LAYOUTS_KEPT:
                self._layouts.clear()
                missing = list(dict.fromkeys(types))
            if self.cache:
                missing = [text for text in missing if not self._find_layout(text, named)]
            if missing:
                ask: dict[str, Any] = {"do": "layouts", "types": missing}
                if self._who():
                    ask["who"] = 1
                header, _ = self._ask(0, frame(ask, named.encode()), "a type")
                refuse(header)
                for text, row in zip(missing, header["layouts"], strict=True):
                    self._layouts[text, named] = Layout.of(row)
                    if self.cache and self._told:
                        self.cache.put_layout(text, named, row)
            return [self._layouts[text, named] for text in types]

    def identity(self) -> Identity:
        """Who compiles here, as the cache remembers or a worker says."""
        if self.cache is not None and self.cache.identity is not None:
            return self.cache.identity
        with self._lock:
            for worker in self._workers:
                if worker.identity is not None:
                    return worker.identity
            ask = {"do": "layouts", "types": ["i8"], "who": 1}
            self._ask(0, frame(ask, b""), "a type")
            found = self._workers[0].identity
            if found is None:
                raise JitError("the compiler worker does not say what it is")
            return found

    def _find_layout(self, text: str, named: str) -> bool:
        """Take a layout from the cache, if it is there."""
        row = self.cache.layout(text, named) if self.cache else None
        if row is None:
            return False
        self._layouts[text, named] = Layout.of(row)
        return True

    def assembly(self, request: Request, triple: str, cpu: str = "") -> str:
        """What the module becomes on another machine, as assembly text: `triple` names it.

        Of the request's options the level counts.  Raises CompileError.
        """
        return self._foreign(request, triple, cpu, False).decode("utf-8", "replace")

    def foreign_object(self, request: Request, triple: str, cpu: str = "") -> bytes:
        """The same as an object file."""
        return self._foreign(request, triple, cpu, True)

    def _foreign(self, request: Request, triple: str, cpu: str, as_object: bool) -> bytes:
        header = {
            "do": "assembly",
            "triple": triple,
            "cpu": cpu,
            "level": request.options.opt_level,
            "first": request.first_line,
            "object": as_object,
        }
        return self._about(header, request)

    def sealed(self, request: Request, keep: str, called: str) -> bytes:
        """Bitcode of the module in which the function `keep` is called `called` and nothing else
        can be seen from outside.  Raises CompileError."""
        header = {"do": "sealed", "keep": keep, "called": called, "first": request.first_line}
        return self._about(header, request)

    def unsealed(self, bitcode: bytes) -> str:
        """The text of a module in bitcode.  Raises CompileError."""
        with self._lock:
            answer, blob = self._ask(0, frame({"do": "unsealed"}, bitcode), "bitcode")
        refuse(answer)
        return blob.decode()

    def optimised(self, request: Request) -> str:
        """The module as its passes leave it, as text.  Raises CompileError."""
        header = {
            "do": "optimised",
            "options": request.options.row(),
            "nobuiltin": sorted(request.nobuiltin),
            "first": request.first_line,
        }
        return self._about(header, request).decode()

    def _about(self, header: dict[str, Any], request: Request) -> bytes:
        """A worker's answer to a question about the source of a request."""
        data = frame(header, request.source.encode("utf-8", "surrogatepass"))
        with self._lock:
            answer, blob = self._ask(0, data, request.label, request)
        refuse(answer)
        return blob

    def flow(self, request: Request, optimised: bool = True) -> dict[str, Flow]:
        """Control flow of the module's functions by name, as compiled or (else) as written.

        Raises CompileError.
        """
        header = {
            "do": "flow",
            "options": request.options.row(),
            "nobuiltin": sorted(request.nobuiltin),
            "first": request.first_line,
            "optimised": optimised,
        }
        data = frame(header, request.source.encode("utf-8", "surrogatepass"))
        with self._lock:
            answer, _ = self._ask(0, data, request.label, request)
        refuse(answer)
        return {row[0]: Flow.of(row) for row in answer["functions"]}

    def lines(self, request: Request) -> LineTable:
        """Which line of the cell each stretch of its code comes from.

        Compiles the text again with locations, which leaves the code as it was, and reads the line
        table.  A module with debug information of its own is read as it is: then the lines are
        those of the file it names.  Empty where the lines cannot be told.
        """
        # not needed to start
        from jitkernel.compiler.lines import line_table, same_code
        from jitkernel.compiler.locations import has_locations, with_locations

        try:
            plain = self.compile(request)
            if has_locations(request.source):
                return line_table(plain.object)
            source = with_locations(request.source, request.first_line)
            if not source:
                return ()
            located = self.compile(replace(request, source=source)).object
            return line_table(located) if same_code(plain.object, located) else ()
        except (CompileError, LinkError, struct.error, IndexError, UnicodeError):
            return ()

    # -- accounts

    def contexts(
        self, live: Callable[[int], bool] | None = None, policy: str = ""
    ) -> ContextAccount:
        """The contexts of all workers; from the first call on, what each compile leaves is counted.

        `live` says of a cell whether its code is there: the contexts of those without it are freed,
        and the shared one unless it is the `policy`.
        """
        with self._lock:
            answers = []
            for index in range(len(self._workers)):
                header, _ = self._ask(index, frame({"do": "contexts"}), "its contexts")
                refuse(header)
                answers.append(header)
            return ContextAccount(
                sum(header["live"] for header in answers),
                tuple(sorted(cell for header in answers for cell in header["kept"])),
                self._lost_contexts,
                tuple(ContextCost(*row) for header in answers for row in header["costs"]),
            )

    def release_contexts(self, live: Callable[[int], bool], shared: bool = False) -> None:
        """Free the kept contexts of cells that are not `live`, and the `shared` ones."""
        with self._lock:
            for index, worker in enumerate(tuple(self._workers)):
                gone = [cell for cell in worker.contexts if not live(cell)]
                if gone or (shared and worker.shares):
                    worker.contexts.difference_update(gone)
                    worker.shares = worker.shares and not shared
                    data = frame({"do": "release", "cells": gone, "shared": shared})
                    with suppress(JitError):  # a worker that dies of it takes them along
                        self._ask(index, data, "its contexts")

    def processes(self) -> list[tuple[int, str, int]]:
        """The worker processes: process id, role, compiles."""
        return [(worker.pid, worker.role, worker.compiles) for worker in self._living()]

    def memory(self) -> list[WorkerMemory]:
        """What each worker process holds."""
        return [_memory(worker) for worker in self._living()]

    def _living(self) -> list[WorkerProcess]:
        with self._state:
            living = [*self._workers, *([self._spare] if self._spare else [])]
        inspector = self.inspector.worker
        return [*living, inspector] if inspector else living


def _memory(worker: WorkerProcess) -> WorkerMemory:
    """Read a worker's pages from /proc; zeros where it has just ended."""
    uss = rss = anonymous = 0
    try:
        with open(f"/proc/{worker.pid}/smaps_rollup", encoding="ascii") as file:
            for line in file:
                if line.startswith("Private_"):
                    uss += int(line.split()[1]) << 10
                elif line.startswith("Rss:"):
                    rss = int(line.split()[1]) << 10
                elif line.startswith("Anonymous:"):
                    anonymous = int(line.split()[1]) << 10
    except OSError:
        pass
    return WorkerMemory(worker.pid, worker.role, uss, rss, anonymous, worker.compiles)
