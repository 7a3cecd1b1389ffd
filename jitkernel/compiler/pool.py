"""Compiler workers, a spare among them, and what to do when one dies.  Start from `CompilerPool`.

Runs in the kernel process and never loads LLVM.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from select import POLLHUP, POLLIN, POLLOUT, POLLERR, poll
from time import monotonic
from typing import Any

from jitkernel.compiler.process import WorkerProcess
from jitkernel.compiler.records import (
    Compiled,
    Request,
    Summary,
    WorkerMemory,
    diagnostics_of,
)
from jitkernel.compiler.wire import frame
from jitkernel.errors import CompileError, Interrupted, JitError, WorkerDied

__all__ = ["CompilerPool"]

_STAGES = ("parse", "verify", "optimise", "emit", "summarise")
_SPARE_DELAY = 0.25  # seconds after a worker is in use: its start must not compete with the cell


class CompilerPool:
    """`workers` processes that compile, and one that waits to take the place of one that dies.

    `memory_limit` (bytes that are the process's own) replaces a worker that has grown past it, when
    it is idle.  `timeout` (seconds) bounds one compile.  Calls from several threads wait for each
    other; `interrupt` does not wait.
    """

    def __init__(
        self,
        workers: int = 1,
        spare: bool = True,
        memory_limit: int = 512 << 20,
        timeout: float = 60.0,
    ):
        self.memory_limit = memory_limit
        self.timeout = timeout
        self.restarts = 0
        self._count = max(1, workers)
        self._wants_spare = spare
        self._lock = threading.RLock()  # one call at a time
        self._state = threading.Lock()  # guards the lists below
        self._workers: list[WorkerProcess] = []
        self._spare: WorkerProcess | None = None
        self._busy: set[WorkerProcess] = set()
        self._timer: threading.Timer | None = None
        self._closed = False

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
        for worker in workers:
            worker.close()

    def __enter__(self) -> CompilerPool:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def interrupt(self) -> bool:
        """End the compiles in progress, which then raise Interrupted; whether there was one."""
        with self._state:
            for worker in self._busy:
                worker.condemned = "interrupted"
                worker.kill()
            return bool(self._busy)

    def _worker(self, index: int) -> WorkerProcess:
        """A worker fit for use; the spare takes the place of one that is not."""
        with self._state:
            if self._closed:
                raise JitError("this compiler is closed")
            if index < len(self._workers):
                worker = self._workers[index]
                if not worker.condemned and not worker.gone():
                    return worker
                worker.close()
                self.restarts += 1
                self._workers[index] = fresh = self._take_spare() or WorkerProcess()
                self._spare_later()
                return fresh
            self._workers.append(WorkerProcess())
            return self._workers[-1]

    def _take_spare(self) -> WorkerProcess | None:
        spare, self._spare = self._spare, None
        if spare is None or spare.gone():
            if spare:
                spare.close()
            return None
        spare.role = "worker"
        return spare

    def _spare_later(self) -> None:
        """Start a spare soon, where one is wanted and missing; the caller holds `_state`."""
        if self._wants_spare and not self._spare and not self._timer and not self._closed:
            self._timer = threading.Timer(_SPARE_DELAY, self._start_spare)
            self._timer.daemon = True
            self._timer.start()

    def _start_spare(self) -> None:
        with self._state:
            self._timer = None
            if not self._closed and not self._spare:
                self._spare = WorkerProcess("spare")

    # -- one request

    def compile(self, request: Request) -> Compiled:
        """Compile one module.  Raises CompileError, WorkerDied or Interrupted."""
        with self._lock:
            header, blob = self._ask(0, _frame(request), request.label)
        return _compiled(header, blob)

    def _ask(self, index: int, data: bytes, label: str) -> tuple[dict[str, Any], bytes]:
        """Send one frame to a worker and wait for the answer."""
        worker = self._worker(index)
        with self._state:
            self._busy.add(worker)
        try:
            worker.send(data, self.timeout)
            answer = worker.receive(self.timeout)
        except TimeoutError:
            worker.condemned = "timeout"
            worker.kill()
            raise self._timed_out(label) from None
        except (EOFError, OSError):
            if worker.condemned == "interrupted":
                raise Interrupted(_interrupted(label)) from None
            error = worker.obituary(label)
            worker.condemned = "died"
            raise error from None
        except BaseException:
            worker.condemned = "abandoned"  # an answer may be on its way: it fits no later request
            worker.kill()
            raise
        finally:
            self._finished(index, worker)
        if worker.condemned == "interrupted":
            raise Interrupted(_interrupted(label))
        return answer

    def _finished(self, index: int, worker: WorkerProcess) -> None:
        """After a request: replace a worker that cannot go on, and see to the spare."""
        with self._state:
            self._busy.discard(worker)
            if worker.own_bytes > self.memory_limit and not worker.condemned:
                worker.condemned = "memory"
        if worker.condemned:
            if not self._closed:
                self._worker(index)
        elif self._wants_spare and not self._spare and not self._timer:
            with self._state:
                self._spare_later()

    def _timed_out(self, label: str) -> CompileError:
        return CompileError(
            f"compiling {label} took longer than {self.timeout:g} s and was stopped; "
            "Compiler.timeout sets the limit"
        )

    # -- many requests

    def compile_many(self, requests: Sequence[Request]) -> list[Compiled | CompileError]:
        """Compile modules in parallel; results and errors stand in the order of `requests`.

        Each worker is given its next request before its last answer is read, so none waits.
        """
        with self._lock:
            return _Batch(self, requests).run()

    # -- accounts

    def memory(self) -> list[WorkerMemory]:
        """What each worker process holds."""
        with self._state:
            workers = [*self._workers, *([self._spare] if self._spare else [])]
        return [_memory(worker) for worker in workers]


class _Batch:
    """One `compile_many`: at most two requests are with a worker at any time."""

    AHEAD = 2

    def __init__(self, pool: CompilerPool, requests: Sequence[Request]):
        self.pool = pool
        self.requests = requests
        self.results: list[Compiled | CompileError | None] = [None] * len(requests)
        self.waiting = deque(range(len(requests)))

    def run(self) -> list[Compiled | CompileError]:
        raise NotImplementedError


def _frame(request: Request) -> bytes:
    """The frame of a compile request.  Raises CompileError where the text is not Unicode."""
    header = {
        "do": "compile",
        "options": request.options.row(),
        "nobuiltin": sorted(request.nobuiltin) if request.nobuiltin else (),
        "first": request.first_line,
    }
    try:
        return frame(header, request.source.encode())
    except UnicodeEncodeError as error:
        line = request.source.count("\n", 0, error.start) + 2 - request.first_line
        raise CompileError(f"line {line}: this is not text: {error.reason}") from None


def _compiled(header: dict[str, Any], blob: bytes) -> Compiled:
    """The result that a worker's answer stands for; raises CompileError."""
    if "error" in header:
        raise CompileError(diagnostics_of(header["error"]))
    if "broken" in header:
        raise CompileError(f"the compiler worker failed:\n{header['broken']}")
    rows = [*header.get("notes", ()), *header.get("words", ())]
    return Compiled(
        blob,
        Summary.of(header["summary"]),
        dict(zip(_STAGES, header["times"], strict=False)),
        diagnostics_of(rows) if rows else (),
    )


def _interrupted(label: str) -> str:
    return f"interrupted while compiling {label}; the session is as it was"


def _memory(worker: WorkerProcess) -> WorkerMemory:
    """Read a worker's pages from /proc; zeros where it has just ended."""
    uss = rss = 0
    try:
        with open(f"/proc/{worker.pid}/smaps_rollup", encoding="ascii") as file:
            for line in file:
                if line.startswith("Private_"):
                    uss += int(line.split()[1]) << 10
                elif line.startswith("Rss:"):
                    rss = int(line.split()[1]) << 10
    except OSError:
        pass
    return WorkerMemory(worker.pid, worker.role, uss, rss, worker.compiles)
