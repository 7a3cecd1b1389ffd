"""What ends an operation before its time: signals of this process, and other threads.

Start from `Signals`, which holds back what their handlers raise, and `InterruptibleCall`.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import contextlib
import ctypes
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from time import monotonic, sleep
from typing import Any, ParamSpec, TypeVar

from jitkernel.errors import Interrupted
from jitkernel.tracebacks import shortened

P = ParamSpec("P")
R = TypeVar("R")

#: Signals whose Python handlers programs use to get out of a call.
_HELD = tuple(
    int(s)
    for s in (
        signal.SIGINT, signal.SIGALRM, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT,
        signal.SIGUSR1, signal.SIGUSR2, signal.SIGVTALRM, signal.SIGPROF,
    )
)  # fmt: skip
TOO_LONG = "the cell ran longer than Executor.cell_timeout allows"
_AGAIN = 0.5  # seconds after which what was interrupted and goes on is interrupted again
_STARTED = 0.25  # seconds within which a thread that is being started runs
_main = threading.main_thread().ident
#: Threads that `threading` lists for ever: their start was interrupted.
_never_started: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


class Signals:
    """Handlers of signals run at once, what they raise is held back between `hold` and `release`.

    `stop` is called when one has raised; while not `active`, handlers are not held back.  Only
    Python's main thread runs handlers: on any other nothing is done.
    """

    def __init__(self, stop: Callable[[], object], active: Callable[[], bool]):
        self._stop, self.active = stop, active
        self._before: dict[int, Any] = {}
        self._raised: BaseException | None = None

    def hold(self) -> None:
        """From now on."""
        if threading.get_ident() != _main:
            return
        self._raised = None  # what is left where `release` was interrupted itself
        for number in _HELD:
            handler = _signal.getsignal(number)
            owner = getattr(handler, "__self__", None)
            held = isinstance(owner, Signals) and (owner is self or owner.active())
            if callable(handler) and not held:
                self._before[number] = handler
                _signal.signal(number, self._handle)

    def release(self) -> None:
        """Until now; raises what a handler has raised meanwhile."""
        if self._before and threading.get_ident() == _main:
            while self._before:
                number = next(iter(self._before))
                # Unless the program has another handler by now.
                if getattr(_signal.getsignal(number), "__self__", None) is self:
                    _signal.signal(number, self._before[number])
                del self._before[number]
        raised, self._raised = self._raised, None
        if raised is not None:
            try:
                raise shortened(raised)
            finally:  # as its traceback leads here: no cycle
                del raised

    def put_off(self, error: BaseException) -> None:
        """Raise this when the operation is over: a handler raised it where it was not held back."""
        self._raised = self._raised or error

    def _handle(self, number: int, frame: Any) -> None:
        handler = self._before.get(number, signal.default_int_handler)
        if not self.active():
            handler(number, frame)
            return
        try:
            handler(number, frame)
        except _Ended:  # not the handler's: another thread has ended the call that it interrupts
            raise
        except BaseException as error:
            self._raised = self._raised or error
            self._stop()


class _Ended(KeyboardInterrupt):
    """Whoever interrupts an `InterruptibleCall` raises a class of that call's own."""


class _Run:
    """A run of such code: its thread, how many of the exceptions that were raised from elsewhere
    have arrived, and who came first after each: somebody who raises another one, or the end.

    No lock: an exception may come at any line, and would leave it held.
    """

    def __init__(self, thread: int):
        self.thread, self.arrived = thread, 0
        self.claims: dict[int, object] = {}
        self.again = 0.0  # when it is interrupted another time, as it has gone on


class InterruptibleCall:
    """Code of somebody else's that runs in this process, and that whoever interrupts ends at once:
    a language reads a cell.  What it does to the session is made of atomic steps, as elsewhere.

    On the thread that runs it a handler's exception is not held back; another thread that calls
    `interrupt` raises KeyboardInterrupt in it.
    """

    def __init__(self, why: str = "the cell was interrupted") -> None:
        self._run: _Run | None = None
        self._why = why

        def __init__(stop: BaseException) -> None:
            if (run := self._run) is not None:
                run.arrived += 1

        self._stop: type[_Ended] = type("Stop", (_Ended,), {"__init__": __init__})

    def __bool__(self) -> bool:
        return self._run is not None

    def interrupt(self) -> None:
        """End what runs, where another thread runs it.  Once is enough, unless it goes on."""
        if (run := self._run) is None or run.thread == threading.get_ident():
            return
        with _starting() as threads:
            now, token = monotonic(), object()
            if not threads and now >= run.again:
                if run.claims.setdefault(run.arrived, token) is token:  # atomic
                    run.again = now + _AGAIN
                    # PyThreadState_SetAsyncExc, Python/C API
                    stop = ctypes.py_object(self._stop)
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(run.thread), stop)

    def run(self, function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        """Call a function; raises Interrupted where another thread has ended it."""
        try:
            try:
                self._run = _Run(threading.get_ident())
                return function(*arguments, **named)
            finally:
                self.end()
        except self._stop:
            self.end()
            raise Interrupted(self._why) from None

    def end(self) -> None:
        """From now on nothing is raised, and nothing that was is on its way."""
        while (run := self._run) is not None:
            try:
                if run.claims.setdefault(run.arrived, self) is self:
                    self._run = None
            except self._stop:
                pass


@contextlib.contextmanager
def _starting() -> Iterator[set[threading.Thread]]:
    """A block in which no thread is being started; else those that take too long to run.

    Until it runs, a new thread has the number of the one that starts it: an exception raised by
    number would end it, and the other would wait for ever for a sign of it.
    """
    lock = getattr(threading, "_active_limbo_lock", None) or threading.Lock()
    listed: dict[threading.Thread, object] = getattr(threading, "_limbo", {})
    end = monotonic() + _STARTED
    with lock:  # which every start takes, and a new thread when it has its own number
        while threads := {t for t in listed if t.ident is None and t not in _never_started}:
            if monotonic() > end:
                _never_started.update(threads)
                break
            sleep(0.0005)
        yield threads
