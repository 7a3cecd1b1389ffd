"""Requests of a debugger, and calls that stop, ended at any line: what comes next works."""

from __future__ import annotations

import functools
import os
import random
import signal
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any

import pytest

from jitkernel import Session
from jitkernel.errors import Interrupted, JitError
from jitkernel.session.debugging.records import Breakpoint, Event
from tests.interruption import Torn, lines, torn

T = "int t(int x) {\n  int y = x + 1;\n  return y;\n}\n"
U = "int u(int x) {\n  int a = t(x);\n  int b = t(a);\n  return a + b;\n}\n"


def start(s: Session) -> None:
    s.debugger.start()
    s.debugger.listener = partial(_walk, s, count(1))


def _walk(s: Session, stops: Iterator[int], event: Event) -> None:
    """Steps over lines, into functions and out of them, and looks at what is there."""
    debugger = s.debugger
    if event.kind == "stopped":
        debugger.frames()
        for scope in debugger.scopes(0):
            if scope.name == "Locals":
                debugger.variables(scope.reference)
        number = next(stops)
        motions = ("next", "step_in", "next", "instruction", "step_out")
        debugger.go(motions[number % 5] if number % 40 else "continue")


def ready(s: Session) -> None:
    start(s)
    s.debugger.set_breakpoints(U, [Breakpoint(line=2)])


#: What is done, and what before it.
OPERATIONS: dict[str, tuple[Callable[[Session], Any], ...]] = {
    "start": (start,),
    "add": (lambda s: s.debugger.add(Breakpoint(function="t")), start),
    "set_breakpoints": (lambda s: s.debugger.set_breakpoints(T, [Breakpoint(line=3)]), start),
    "remove": (lambda s: s.debugger.remove(s.debugger.breakpoints[-1].number), ready),
    "call": (lambda s: s.call("u", 3), ready),
    "statement": (lambda s: s.run("u(3) + 1", "c"), ready),
    "close": (lambda s: s.debugger.close(), ready),
}


def _begin(name: str) -> Session:
    s = Session(capacity=64 << 20, object_cache=False, spare=False)
    try:
        s.run(T, "c")
        s.run(U, "c")
        assert s.call("u", 1) == 5
        for step in OPERATIONS[name][1:]:
            step(s)
    except BaseException:
        s.close()
        raise
    return s


def text(s: Session) -> dict[int, bytes]:
    arena = s.inspect.engine.arena
    return {at: arena.read(at, size) for at, size in arena.zones["text"].list.live.items()}


def _breakpoints(s: Session) -> list[Breakpoint]:
    debugger = s.inspect.debugger  # `Session.debugger` makes one
    return debugger.breakpoints if debugger is not None else []


@functools.cache
def _moments(name: str, seed: int) -> list[int]:
    """One of the times that an operation comes to each line, counted from its beginning."""
    rng, came = random.Random(f"{name} {seed}"), dict[str, list[int]]()
    for counted in (False, True):  # the first time, modules are imported
        s = _begin(name)
        try:
            operation = partial(OPERATIONS[name][0], s)
            if not counted:
                operation()
                continue
            for number, place in enumerate(lines(operation), 1):
                came.setdefault(place, []).append(number)
        finally:
            s.close()
    return sorted(map(rng.choice, came.values()))


def _tear(name: str, moments: Sequence[int], by_signal: bool) -> int:
    """End an operation at each of these lines, counted from its beginning; at how many it was."""
    times = 0
    s = _begin(name)
    before = text(s)
    try:
        for line in moments:
            stood = _breakpoints(s)
            where, error = torn(partial(OPERATIONS[name][0], s), line, by_signal)
            times += bool(where)
            wanted: Any = (KeyboardInterrupt, Interrupted) if by_signal else (Torn, JitError)
            assert error is None or isinstance(error, wanted), (where, error)
            try:
                _goes_on(s, before)
            except BaseException as error:
                raise AssertionError(f"torn at {where}, line {line}") from error
            if name in ("remove", "close", "start") or _breakpoints(s) != stood:
                s.close()
                s = _begin(name)
                before = text(s)
        return times
    finally:
        s.close()


def _goes_on(s: Session, before: dict[int, bytes]) -> None:
    """The books are right, the code is what it was, and calls stop."""
    s.check()
    assert s.debugger.stop is None
    assert text(s).items() >= before.items()
    s.debugger.start()
    met: list[int] = []

    def look(event: Event) -> None:
        if event.kind == "stopped":
            met.append(s.debugger.frames()[0].line)
            s.debugger.go()

    heard, s.debugger.listener = s.debugger.listener, look
    point = s.debugger.add(Breakpoint(source=T, line=2))
    assert s.call("u", 1) == 5
    assert met.count(2) >= 2
    s.debugger.remove(point.number)
    s.check()
    assert text(s).items() >= before.items()
    s.debugger.listener = heard


def _some(name: str, most: int) -> list[int]:
    every = _moments(name, 1)
    return sorted(random.Random(name).sample(every, min(most, len(every))))


# What is raised in a finaliser is nobody's.
_unraised = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


# The two of a name one after the other: the moments are looked for once.
@pytest.mark.parametrize("by_signal", [False, pytest.param(True, marks=_unraised)])
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_exception_or_ctrl_c_at_any_line(name: str, by_signal: bool) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert _tear(name, _some(name, 1 if by_signal else 3), by_signal)
    finally:
        signal.signal(signal.SIGINT, before)


@_unraised
@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("by_signal", [False, True])
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_line(name: str, by_signal: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """At one of the times that it is come to; `SEED` chooses others."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        moments = _moments(name, int(os.environ.get("SEED", "2")))
        times = _tear(name, moments, by_signal)
    finally:
        signal.signal(signal.SIGINT, before)
    with capsys.disabled():
        print(f"\n{name}: {times} of {len(moments)} lines")
