"""The public operations of a session: one after another, and each of them whole.

While an operation lasts, what a signal's Python handler raises (Ctrl-C: KeyboardInterrupt) waits:
the operation is asked to end, and the exception is raised when the session is in order.  Whatever
else an operation raises, at whatever line, leaves nothing half done: see `jitkernel.rollback`.
Start from `operation`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from jitkernel.collecting import without_collections
from jitkernel.errors import JitError, limit_met

if TYPE_CHECKING:
    from jitkernel.session.core import Core

FORKED = (
    "this process is a fork of the one that the session belongs to: make a Session here, or hand "
    "functions over as pickles, which run in a session of their own (a process pool does that)"
)

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="HasCore")


class HasCore(Protocol):
    """A session, or what looks at one."""

    @property
    def _core(self) -> Core:
        """The contents of a session."""


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

        def outermost(session: S, arguments: Any, named: Any) -> R:
            core = session._core
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

        @wraps(function)
        def run(session: S, /, *arguments: P.args, **named: P.kwargs) -> R:
            core = session._core
            try:
                with core.lock:
                    if core.engine.closed:
                        core.refuse_closed()
                    if core.direct is not None and core.direct.turn.in_callback:
                        with core.direct.turn.taken():
                            return run(session, *arguments, **named)
                    if core.operating:
                        core.nested = True
                        return step(session, *arguments, **named)
                    return outermost(session, arguments, named)
            finally:
                if core.deferred.waiting:
                    core.deferred.run()

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
