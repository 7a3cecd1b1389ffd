"""Answers of a worker as results or errors.  Start from `ask` and `compiled`.

LLVM has no bounds in a worker, whose memory it may have spoilt before it answers: what has another
form than the worker gives it is not believed, and a new worker takes its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

from jitkernel.compiler.questions import Question
from jitkernel.compiler.records import Compiled, Summary, diagnostics_of
from jitkernel.compiler.wire import readable
from jitkernel.compiler.worker_process import WorkerProcess
from jitkernel.errors import CompileError, Interrupted, WorkerDied
from jitkernel.forms import Maybe, check

_SPIN = 2_000_000  # nanoseconds; the answer to a tiny cell comes within two milliseconds
_SHORT = 4096  # bytes of a request that may be one
_TICK = 0.5  # seconds
_STAGES = ("parse", "verify", "optimise", "emit", "summarise")
_DIAGNOSTIC = (str, int, int, str, str, str, str)  # of which those at the end may be left out
#: What headers of answers tell besides, and what they are by the function that answers.
_ANY = {
    "broken": Maybe(str), "error": Maybe([list]), "notes": Maybe([list]),
    "words": Maybe([list]),
}  # fmt: skip
_REFUSED = ("error", "broken", "lacks")
_OWN = {"own": Maybe((int, int))}
_FORMS: Mapping[str, Any] = {
    "pipeline:compiled": {
        "summary": (
            [(str, int, str, str, str, str, str)], [(str, int, str, str, int, int)], {...: str},
            [(str, str, int)],
        ),
        "times": (int,) * len(_STAGES), **_OWN,
    },
    "pipeline:account": {"live": int, "kept": [int], "costs": [(int, str, int, int, int)], **_OWN},
    "products:merged": {"sizes": [int], **_OWN},
    "products:printed": {"size": int, **_OWN},
    "pass_tracing:ends": {"first": (str, bool), "last": (str, bool), **_OWN},
}  # fmt: skip


def refuse(header: dict[str, Any]) -> None:
    """Raise the CompileError that an answer stands for, if it does."""
    if "error" in header:
        raise CompileError(diagnostics_of(header["error"]))
    if "broken" in header:
        raise CompileError(f"the compiler worker failed:\n{header['broken']}")


def compiled(header: dict[str, Any], blob: bytes) -> Compiled:
    """The result that a worker's answer stands for; raises CompileError."""
    if "error" in header or "broken" in header:
        refuse(header)
    rows = [*header.get("notes", ()), *header.get("words", ())]
    return Compiled(
        blob,
        Summary.of(header["summary"]),
        dict(zip(_STAGES, header["times"], strict=False)),
        diagnostics_of(rows) if rows else (),
    )


def _check_told(header: dict[str, Any]) -> None:
    """Raise ValueError where what an answer tells has another form."""
    check(header, _ANY)
    for key in ("error", "notes", "words"):
        for row in header.get(key) or ():
            check(row, _DIAGNOSTIC[: max(len(row), 1)])


def ask(
    worker: WorkerProcess,
    question: Question,
    timeout: float,
    tick: Callable[[], None] | None = None,
    meanwhile: Callable[[], object] | None = None,
) -> tuple[dict[str, Any], bytes]:
    """Send a question to a worker and wait for the answer, at most `timeout` seconds.

    `meanwhile` is done when it is sent, `tick` is called twice a second until the answer is there.
    Where there is none, the worker is condemned.
    Raises CompileError, WorkerDied or Interrupted.
    """
    try:
        if tick:
            worker.wait_started()
        end = monotonic() + timeout
        worker.send(question.data, timeout)
        if meanwhile:
            meanwhile()
        if tick:
            while monotonic() < end and not readable(worker, _TICK):
                tick()
        spin = _SPIN if len(question.data) < _SHORT else 0
        try:
            header, blob = worker.receive(end - monotonic(), spin)
            if not header.keys().isdisjoint(_ANY):
                _check_told(header)
            if header.keys().isdisjoint(_REFUSED):
                check(header, _FORMS.get(question.function, _OWN))
        except (ValueError, RecursionError) as odd:
            raise _senseless(odd, question) from None
        return header, blob
    except TimeoutError:
        worker.condemned = "timeout"
        worker.kill()
        raise CompileError(
            f"compiling {question.label} took longer than {timeout:g} s and was stopped; "
            "Compiler.timeout sets the limit"
        ) from None
    except (EOFError, OSError) as seen:
        if worker.condemned == "interrupted":
            raise interrupted(question.label) from None
        # Linux resets a socket whose other end was closed with bytes unread: it does not just end.
        begun = not isinstance(seen, ConnectionError)
        error = _died(*worker.post_mortem(), question, begun)
        worker.condemned = "died"
        raise error from None
    except BaseException:
        worker.condemned = "abandoned"  # an answer may be on its way: it fits no later request
        worker.kill()
        raise


def _senseless(error: Exception, question: Question) -> WorkerDied:
    """The error of an answer that has another form than the worker gives it."""
    return WorkerDied(
        f"the compiler gave an answer that makes no sense ({error}) when it was asked for "
        f"{question.label}; the session is as it was, and the next cell has a new compiler"
    )


def _died(how: str, words: str, question: Question, begun: bool) -> WorkerDied:
    """The error of a compile whose worker ended, in LLVM's words, at their place if they tell."""
    from jitkernel.compiler.diagnose import fatal_error  # not needed to start

    after = (
        f"this ended the compiler ({how}) {'while' if begun else 'before'} it compiled "
        f"{question.label}; "
        "the session is as it was, and the next cell has a new compiler"
    )
    request = question.request
    place = begun and request and fatal_error(words, request.source, request.first_line)
    if not place:
        return WorkerDied(f"{words}\n{after}" if words else after, words, begun)
    error = WorkerDied(f"{place.render()}\n{after}", words)
    error.diagnostics = (place._replace(message=f"{place.message}\n{after}"),)
    return error


def interrupted(label: str) -> Interrupted:
    """The error of a compile that was stopped."""
    return Interrupted(f"interrupted while compiling {label}; the session is as it was")
