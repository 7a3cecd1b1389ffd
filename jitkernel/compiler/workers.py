"""The compiler's processes: which one works, which one waits, when one is replaced by another.

Start from `Workers.lend`.
"""

from __future__ import annotations

import threading
from contextlib import suppress

from jitkernel import procfs
from jitkernel.compiler.records import WorkerMemory
from jitkernel.compiler.worker_process import WorkerProcess, Zygote
from jitkernel.errors import JitError
from jitkernel.settings import SessionSettings

# Bytes that a worker may hold beyond its first measurement: what some 3,000 compiles leave
# (`binding.Machine.dispose`), of which a fresh process has none.  A new one costs a millisecond
# where something waits to fork it, else a tenth of a second.
_GROWTH, _GROWTH_ALONE = 4 << 20, 32 << 20


class Workers:
    """Numbered workers, started when they are lent first.

    They are forked by a zygote; with a spare it waits to replace one that ends, without one it
    leaves when the worker has begun to work.  One that has grown past the memory limit is replaced
    when it is given back.  `restarts` counts those that were replaced, `lost_contexts` what they
    kept.  `first` was started before.
    """

    def __init__(self, settings: SessionSettings, first: WorkerProcess | None = None):
        self._settings = settings
        self.restarts = 0
        self.lost_contexts = 0
        self.closed = False
        # Guards what follows; `interrupt` may come in a signal handler of the thread that holds it.
        self._state = threading.RLock()
        self._workers: list[WorkerProcess] = [first] if first else []
        self._zygote: Zygote | None = first.zygote if first else None
        self._busy: set[WorkerProcess] = set()

    def start(self) -> None:
        """Begin to start the first worker; returns at once."""
        with self._state:
            if self.closed:
                raise JitError("this compiler is closed")
            if not self._workers:
                self._workers.append(self._make())

    def close(self) -> None:
        """End all of them.  May be called again."""
        with self._state:
            self.closed = True
            workers, self._workers = self._workers, []
            zygote, self._zygote = self._zygote, None
        if zygote:  # first: what it has not forked yet is not waited for
            zygote.close()
        for worker in workers:
            worker.close()

    def interrupt(self) -> bool:
        """End the compiles in progress, which then raise Interrupted; whether there was one.

        Callable from any thread and from a signal handler.
        """
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
    def living(self) -> list[WorkerProcess | Zygote]:
        """The same with the spare."""
        with self._state:
            spare = self._zygote
            return [*self._workers, *([spare] if spare and not spare.gone() else [])]

    def _make(self) -> WorkerProcess:
        """A new worker, forked by the spare, which is started where there is none."""
        if self._zygote is not None and self._has_spare():
            with suppress(OSError):  # it has just ended
                return WorkerProcess(self._zygote)
        self._end_spare()
        self._zygote = Zygote()
        return WorkerProcess(self._zygote)

    def _has_spare(self) -> bool:
        """True if there is a zygote; what is left of one that is gone is freed."""
        if self._zygote is not None and self._zygote.gone():
            self._end_spare()
        return self._zygote is not None

    def _end_spare(self) -> None:
        if self._zygote is not None:
            self._zygote.close()
            self._zygote = None

    def lend(self, index: int) -> WorkerProcess:
        """A worker fit for use, until `give_back`."""
        with self._state:
            worker = self._fit(index)
            self._busy.add(worker)
            return worker

    def _fit(self, index: int) -> WorkerProcess:
        """The worker of this number; a new one takes its place where it cannot go on."""
        if self.closed:
            raise JitError("this compiler is closed")
        while index >= len(self._workers):
            self._workers.append(self._make())
        worker = self._workers[index]
        if worker.condemned or worker.gone():
            worker.close()
            self.restarts += 1
            self.lost_contexts += len(worker.contexts) + worker.shares
            worker = self._workers[index] = self._make()
        return worker

    def give_back(self, index: int, worker: WorkerProcess) -> None:
        """After a request: replace a worker that cannot go on, and see to the spare."""
        with self._state:
            self._busy.discard(worker)
            grown = worker.held_bytes - worker.first_held
            if worker.own_bytes > self._settings.worker_memory_limit and not worker.condemned:
                worker.condemned = "memory"
            elif grown > _GROWTH and not worker.contexts and not worker.shares:
                if grown > _GROWTH_ALONE or self._has_spare():
                    worker.condemned = "growth"  # it holds what LLVM never frees
            if self.closed:
                return
            if worker.condemned:
                self._fit(index)
            elif not self._settings.spare:
                if all(other.ready for other in self._workers):  # it has forked them
                    self._end_spare()
            elif not self._has_spare():
                with suppress(OSError):  # it is then started when it is needed
                    self._zygote = Zygote()


def memory_of(worker: WorkerProcess | Zygote) -> WorkerMemory:
    """The memory that a worker's process holds; zeros where it has just ended."""
    totals = procfs.memory_totals(worker.pid)
    private = sum(size for kind, size in totals.items() if kind.startswith("Private_"))
    resident, anonymous = totals.get("Rss", 0), totals.get("Anonymous", 0)
    return WorkerMemory(worker.pid, worker.role, private, resident, anonymous, worker.compiles)
