"""The public operations of a session: one after another, and each of them whole.

While an operation lasts, what a signal's Python handler raises (Ctrl-C: KeyboardInterrupt) waits:
the operation is asked to end, and the exception is raised when the session is in order.  Whatever
else an operation raises, at whatever line, leaves nothing half done: see `jitkernel.rollback`.
Start from `operation`.

`without_collections` keeps Python's garbage collector from going through all that lives each time
a quarter as much has been made, where nothing of it is garbage.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import contextlib
import ctypes
import gc
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import wraps
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from jitkernel.errors import Interrupted, JitError, limit_met
from jitkernel.tracebacks import shortened

if TYPE_CHECKING:
    from jitkernel.session.core import Core

FORKED = (
    "this process is a fork of the one that the session belongs to: make a Session here, or hand "
    "functions over as pickles, which run in a session of their own (a process pool does that)"
)

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="HasCore")

#: Signals whose Python handlers programs use to get out of a call.
_HELD = tuple(
    int(s)
    for s in (
        signal.SIGINT, signal.SIGALRM, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT,
        signal.SIGUSR1, signal.SIGUSR2, signal.SIGVTALRM, signal.SIGPROF,
    )
)  # fmt: skip
_AGAIN = 0.5  # seconds after which what was interrupted and goes on is interrupted again
_STARTED = 0.25  # seconds within which a thread that is being started runs
_main = threading.main_thread().ident
#: Threads that `threading` lists for ever: their start was interrupted.
_never_started: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


class HasCore(Protocol):
    """A session, or what looks at one."""

    @property
    def _core(self) -> Core:
        """The contents of a session."""


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
            raise shortened(raised)

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
        except BaseException as error:
            self._raised = self._raised or error
            self._stop()


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

    def __init__(self) -> None:
        self._run: _Run | None = None

        def __init__(stop: BaseException) -> None:
            if (run := self._run) is not None:
                run.arrived += 1

        self._stop: type[KeyboardInterrupt] = type(
            "Stop", (KeyboardInterrupt,), {"__init__": __init__}
        )

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
            raise Interrupted("the cell was interrupted") from None

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


class Cleanups(list[Callable[[], object]]):
    """The last steps of an operation, however it ends.

    `done` does a step: at the end of the block that needs it, or of the operation where that block
    was left in the middle of its end.  A step may be called twice.
    """

    def done(self, step: Callable[[], object]) -> None:
        """Do this now, and not again."""
        step()
        if step in self:
            self.remove(step)

    def finish(self) -> None:
        """Do all that is left, the last first."""
        while self:
            self[-1]()
            self.pop()


def operation(
    *, atomic: bool = False, observed: bool = False
) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], R]]:
    """Makes a function of a session one of its operations: others wait, an interrupt ends it.

    `atomic`: where it raises, the program is as it was.  Otherwise it is made of atomic steps, and
    those that were done stand.  `observed`: it runs code, and observers are called at its end.
    Within another operation it is a part of that.  Where it fails and an argument is plainly wrong,
    it raises WrongArgument.
    """

    def decorate(
        function: Callable[Concatenate[S, P], R],
    ) -> Callable[Concatenate[S, P], R]:
        def whole(session: S, *arguments: P.args, **named: P.kwargs) -> R:
            with without_collections(), session._core.engine.arena.rollback.atomic():
                return function(session, *arguments, **named)

        step = whole if atomic else function

        @wraps(function)
        def run(session: S, /, *arguments: P.args, **named: P.kwargs) -> R:
            core = session._core
            with core.lock:
                if core.engine.closed:
                    raise JitError(FORKED if core.forked else "this session is closed")
                if core.direct is not None and core.direct.turn.in_callback:
                    with core.direct.turn.taken():
                        return run(session, *arguments, **named)
                if core.operating:
                    core.nested = True
                    return step(session, *arguments, **named)
                sink = core.sink
                try:
                    core.signals.hold()
                    try:
                        core.begin_operation()
                        return step(session, *arguments, **named)
                    except BaseException:
                        core.restore_order()
                        raise
                    finally:
                        core.end_operation(observed)
                except BaseException as error:
                    core.sink = sink
                    try:
                        core.restore_order()
                    finally:  # else the next one would be taken for a part of this
                        core.operating = False
                        core.engine.running = core.engine.stopping = False
                    if core.engine.closed:
                        _end(error)
                    if limit := limit_met(error):
                        raise limit from None
                    _blame(error, function, (session, *arguments), named)
                    raise
                finally:
                    core.operating = False
                    core.signals.release()

        return run

    return decorate


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Makes a function that is no operation raise WrongArgument where it fails and an argument is
    plainly wrong."""

    @wraps(function)
    def run(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            return function(*arguments, **named)
        except Exception as error:
            _blame(error, function, arguments, named)
            raise

    return run


def _end(error: BaseException) -> None:
    """The error of an operation whose session was closed by a callback or a signal's handler: of
    what it still touched nothing is left."""
    if isinstance(error, Exception) and not isinstance(error, JitError):
        raise JitError("the session was closed while it ran a call") from None


def _blame(
    error: BaseException, function: Callable[..., object], arguments: Any, named: Any
) -> None:
    if isinstance(error, JitError) or not isinstance(error, Exception):
        return
    from jitkernel.arguments import blamed

    if wrong := blamed(function, arguments, named):
        raise wrong from None


class without_collections:
    """A block in which nothing is collected."""

    def __enter__(self) -> None:
        self._collects = gc.isenabled()
        gc.disable()

    def __exit__(self, *exception: object) -> None:
        if self._collects:
            gc.enable()
