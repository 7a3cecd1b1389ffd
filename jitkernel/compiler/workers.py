"""The compiler's processes: which one works, which one waits, when one is replaced by another.

Start from `Workers.lend`.
"""

from __future__ import annotations

import threading
from contextlib import suppress

from jitkernel.compiler.process import WorkerProcess
from jitkernel.compiler.records import WorkerMemory
from jitkernel.errors import JitError

__all__ = ["Workers", "memory_of"]

# Seconds after a worker is in use: the start of a spare must not compete with the first cells.
_FIRST_SPARE_DELAY = 1.0
_SPARE_DELAY = 0.25
# Bytes that a worker may hold beyond its first measurement.  What a compile leaves is given back
# (leftover.py); where it cannot be, 1.5 KB a compile add up, of which a fresh process has none.
_GROWTH = 4 << 20


class Workers:
    """Numbered workers, started when they are lent first, and a spare where one is wanted.

    `memory_limit` (bytes that are the process's own) replaces a worker that has grown past it, when
    it is given back.  `restarts` counts those that were replaced, `lost_contexts` what they kept.
    """

    def __init__(self, spare: bool, memory_limit: int, first: WorkerProcess | None = None):
        self.memory_limit = memory_limit
        self.restarts = 0
        self.lost_contexts = 0
        self.closed = False
        self._wants_spare = spare
        # Guards what follows; `interrupt` may come in a signal handler of the thread that holds it.
        self._state = threading.RLock()
        self._workers: list[WorkerProcess] = [first] if first else []
        self._spare: WorkerProcess | None = None
        self._busy: set[WorkerProcess] = set()
        self._timer: threading.Timer | None = None

    def start(self) -> None:
        """Begin to start the first worker; returns at once."""
        with self._state:
            if self.closed:
                raise JitError("this compiler is closed")
            if not self._workers:
                self._workers.append(WorkerProcess())

    def close(self) -> None:
        """End all of them.  May be called again."""
        with self._state:
            self.closed = True
            timer, self._timer = self._timer, None
            workers, self._workers = self._workers, []
            if self._spare:
                workers.append(self._spare)
                self._spare = None
        if timer:
            timer.cancel()
        for worker in workers:
            worker.close()

    def interrupt(self) -> bool:
        """End those that are lent; whether there was one.  See `CompilerPool.interrupt`."""
        with self._state:
            busy = tuple(self._busy)
            for worker in busy:
                worker.condemned = "interrupted"
                worker.kill()
        return bool(busy)

    @property
    def working(self) -> tuple[WorkerProcess, ...]:
        """Those that were started to work, by number."""
        return tuple(self._workers)

    @property
    def living(self) -> list[WorkerProcess]:
        """The same with the spare."""
        with self._state:
            return [*self._workers, *([self._spare] if self._spare else [])]

    def lend(self, index: int) -> WorkerProcess:
        """A worker fit for use, until `give_back`."""
        with self._state:
            worker = self._fit(index)
            self._busy.add(worker)
            return worker

    def _fit(self, index: int) -> WorkerProcess:
        """The worker of this number; the spare takes its place where it cannot go on."""
        if self.closed:
            raise JitError("this compiler is closed")
        while index >= len(self._workers):
            self._workers.append(WorkerProcess())
        worker = self._workers[index]
        if worker.condemned or worker.gone():
            worker.close()
            self.restarts += 1
            self.lost_contexts += len(worker.contexts) + worker.shares
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
            if not self.closed and not self._spare:
                with suppress(OSError):  # a worker is then started when it is needed
                    self._spare = WorkerProcess("spare")

    def give_back(self, index: int, worker: WorkerProcess) -> None:
        """After a request: replace a worker that cannot go on, and see to the spare."""
        with self._state:
            self._busy.discard(worker)
            if worker.own_bytes > self.memory_limit and not worker.condemned:
                worker.condemned = "memory"
            elif self._has_grown(worker):
                worker.condemned = "growth"
            if self.closed:
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
            worker.held_bytes - worker.first_held > _GROWTH
            and self._spare is not None
            and not self._spare.gone()
            and not worker.contexts
            and not worker.shares
        )


def memory_of(worker: WorkerProcess) -> WorkerMemory:
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
