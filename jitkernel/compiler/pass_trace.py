"""What LLVM did to a module, pass by pass, from a worker started for the purpose.

Start from `PassTracer.trace`.  Runs in the kernel process; `tracing` is the other side.
"""

from __future__ import annotations

import select
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from jitkernel.compiler.answers import died, interrupted, question, refuse, timed_out
from jitkernel.compiler.passes import name_of
from jitkernel.compiler.process import WorkerProcess
from jitkernel.compiler.records import Request

__all__ = ["PassTrace", "PassTracer", "Step"]

_KEPT = 4  # inspections; a view is often followed by another one of the same cell
_KEPT_BYTES = 32 << 20
_TICK = 0.5  # seconds
_IDLE = 30.0  # seconds until the worker ends


class Step(NamedTuple):
    """One pass that changed something.

    `name` is the pass as pipelines and LLVM's options name it (`sroa`, `x86-isel`), `title` as its
    log does.  `unit` is what it ran on: `sum`, `loop %body in function sum`, `[module]`.  `machine`
    tells machine IR from IR; `text` is what the pass left, of the whole module or of its unit.
    `verified` is None where that was not tried; `nanoseconds` -1 where they could not be measured.
    """

    name: str
    title: str
    unit: str
    machine: bool
    text: str
    verified: bool | None
    nanoseconds: int


class PassTrace(NamedTuple):
    """One compile, watched.

    `before` and `after` are the whole module, before the first pass and after the last; `object` is
    what became of it.  `ran` counts the passes over IR that ran, with `spent` nanoseconds, -1
    where that could not be measured.
    `whole` says whether the text of an IR step is the module's (else the unit's alone).
    """

    steps: tuple[Step, ...]
    before: str
    after: str
    object: bytes
    ran: int
    spent: int
    whole: bool

    @property
    def ir(self) -> tuple[Step, ...]:
        """The steps over IR."""
        return tuple(step for step in self.steps if not step.machine)

    @property
    def machine(self) -> tuple[Step, ...]:
        """The steps of code generation."""
        return tuple(step for step in self.steps if step.machine)


def _by_itself() -> WorkerProcess:
    return WorkerProcess("tracer")


class PassTracer:
    """A worker that watches LLVM; `start` makes it when it is asked, it ends when it was idle for a
    while.

    One request at a time; `interrupt` and `close` may come from any thread.
    """

    def __init__(self, start: Callable[[], WorkerProcess] = _by_itself) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._worker: WorkerProcess | None = None
        self._busy = False
        self._timer: threading.Timer | None = None
        self._known: dict[tuple[Request, str], PassTrace] = {}

    @property
    def worker(self) -> WorkerProcess | None:
        """The process, while there is one."""
        return self._worker

    def trace(
        self,
        request: Request,
        only: str = "",
        timeout: float = 60.0,
        tick: Callable[[], None] | None = None,
    ) -> PassTrace:
        """Compile `request` again and tell what each pass did; `only` names a function.

        `tick` is called twice a second while it lasts.  Raises CompileError, WorkerDied or
        Interrupted.
        """
        key = (request, only)
        with self._lock:
            if key in self._known:
                return self._known[key]
            if self._timer:
                self._timer.cancel()
            worker = self._worker
            if worker is None or worker.gone() or worker.condemned:
                self.close()
                worker = self._worker = self._start()
            try:
                found = self._ask(worker, request, only, timeout, tick)
            finally:
                self._timer = threading.Timer(_IDLE, self._rest)
                self._timer.daemon = True
                self._timer.start()
            self._known[key] = found
            while len(self._known) > _KEPT or (
                len(self._known) > 1 and sum(map(_size, self._known.values())) > _KEPT_BYTES
            ):
                del self._known[next(iter(self._known))]
            return found

    def _ask(
        self,
        worker: WorkerProcess,
        request: Request,
        only: str,
        timeout: float,
        tick: Callable[[], None] | None,
    ) -> PassTrace:
        self._busy = True
        try:
            worker.send(question("trace", request, only=only), timeout)
            worker.wait_ready(timeout)
            left = timeout
            while tick and left > 0 and not select.select([worker], [], [], _TICK)[0]:
                left -= _TICK
                tick()
            answer, log = worker.receive(max(left, 0.0))
        except TimeoutError:
            worker.condemned = "timeout"
            raise timed_out(request.label, timeout) from None
        except (EOFError, OSError):
            if worker.condemned == "interrupted":
                raise interrupted(request.label) from None
            worker.condemned = "died"
            raise died(*worker.post_mortem(), request.label, request) from None
        except BaseException:
            worker.condemned = "abandoned"
            raise
        finally:
            self._busy = False
            if worker.condemned:
                worker.kill()
        refuse(answer)
        border = answer["border"]
        steps = []
        for title, unit, start, size, verdict, nanoseconds in answer["steps"]:
            if title:
                text = log[start : start + size].decode("utf-8", "replace")
                machine = start >= border
                verified = None if verdict < 0 else bool(verdict)
                name = _machine_name(title) if machine else name_of(title)
                steps.append(Step(name, title, unit, machine, text, verified, nanoseconds))
        before, after = answer["texts"]
        return PassTrace(
            tuple(steps), before, after, bytes.fromhex(answer["object"]), answer["ran"],
            answer["spent"], answer["whole"],
        )  # fmt: skip

    def forget(self) -> None:
        """Look again, the next time."""
        with self._lock:
            self._known.clear()

    def interrupt(self) -> bool:
        """End the inspection in progress, which then raises Interrupted; whether there was one."""
        worker = self._worker
        if not self._busy or worker is None:
            return False
        worker.condemned = "interrupted"
        worker.kill()
        return True

    def _rest(self) -> None:
        if self._lock.acquire(blocking=False):
            try:
                self.close()
            finally:
                self._lock.release()

    def close(self) -> None:
        """End the worker, if there is one.  May be called again."""
        timer, self._timer = self._timer, None
        if timer and timer is not threading.current_thread():
            timer.cancel()
        worker, self._worker = self._worker, None
        if worker:
            with suppress(OSError):
                worker.close()


def _machine_name(title: str) -> str:
    """`x86-isel` of `X86 DAG->DAG Instruction Selection (x86-isel)`; a few passes have no name."""
    words, _, name = title.rpartition(" (")
    return name.rstrip(")") or words


def _size(inspection: PassTrace) -> int:
    return sum(len(step.text) for step in inspection.steps)
