"""What can go wrong while code comes back, and threads that want it while nothing runs."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from programs import SQ, constant
from test_hibernation import PADDED, asleep

from jitkernel import Session
from jitkernel.errors import (
    ArenaFull,
    Fault,
    Interrupted,
    JitError,
    UndefinedSymbol,
    UsageError,
    WorkerDied,
)
from jitkernel.linker import Symbol
from jitkernel.linker.binding import Bindings
from jitkernel.session.program.cell import CellState
from tests.busy import until

SQUARES = "define i32 @f(i32 %x) {\n  %v = call i32 @sq(i32 %x)\n  ret i32 %v\n}"


@pytest.fixture
def s(either: Callable[..., Session]) -> Iterator[Session]:
    session = either(spare=False, inlining=False)
    session.run(SQ)
    session.run(SQUARES)
    session.run("@g = global i32 11")
    session.hibernate("sq")
    yield session
    session.check()


@contextmanager
def meanwhile(s: Session, before: Callable[[], Any], after: Callable[[], Any]) -> Iterator[None]:
    """Something happens just before code comes back, and something just after."""
    executor = s.inspect.engine.executor
    find = executor.on_wake

    def found(stub: int, alone: bool) -> int:
        before()
        at = find(stub, alone)
        after()
        return at

    executor.on_wake = found
    try:
        yield
    finally:
        executor.on_wake = find


def nothing() -> None:
    pass


def killer(pid: int) -> Callable[[], None]:
    return lambda: os.kill(pid, signal.SIGKILL)


@pytest.mark.process
@pytest.mark.parametrize("when", ["before", "after"])
def test_the_executor_is_killed(s: Session, when: str) -> None:
    kill = killer(s.inspect.engine.executor.pid)
    moments = (kill, nothing) if when == "before" else (nothing, kill)
    with meanwhile(s, *moments), pytest.raises(Fault, match="SIGKILL"):
        s.call("f", 3)
    s.check()
    assert (s.call("f", 3), s["g"].value) == (9, 11)
    s.hibernate("sq", "f")
    assert s.call("f", 4) == 16


def test_the_compiler_worker_is_killed(s: Session) -> None:
    pid = s.inspect.engine.pool.processes()[0][0]
    with meanwhile(s, killer(pid), nothing):
        assert s.call("f", 3) == 9
    with suppress(WorkerDied):  # the first that needs it may have to say so
        s.run(constant("k", 3))
    s.run(constant("k", 4))
    assert s.call("k") == 4


def damage(s: Session, name: str) -> Callable[[], None]:
    """Damage what the store has of a symbol's cell, of whose code there is no other copy; gives a
    function that mends it."""
    s.inspect.store.flush()
    (cell,) = s.find(name)
    db, number = s.inspect.store.tables.db, cell.number
    query = "select object from records where number = ?"
    good = db.execute(query, (number,)).fetchone()[0]
    bad = bytearray(good)
    bad[len(bad) // 2] ^= 1
    write = "update records set object = ? where number = ?"
    db.execute(write, (bytes(bad), number))

    def mend() -> None:
        db.execute(write, (good, number))

    return mend


def test_the_store_is_damaged(s: Session) -> None:
    mend = damage(s, "sq")
    words = r"@sq of cell 1 was called and cannot come back: .* of cell 1 cannot be read"
    for use in (
        lambda: s.call("f", 3),
        lambda: s.run("store i32 12, ptr @g\n%v = call i32 @f(i32 3)"),
    ):
        with pytest.raises(UsageError, match=words):
            use()
    for use in (lambda: s.call("sq", 3), lambda: s.run("@sq(3)"), lambda: s.wake("sq")):
        with pytest.raises(UsageError, match=r"what .* has of cell 1 cannot be read"):
            use()
    s.check()
    assert s["g"].value == 12, "what ran before the call stands"
    assert s.find("sq")[0].state is CellState.HIBERNATED
    mend()
    assert s.call("f", 3) == 9


def test_what_could_not_come_back_does_not_leave(s: Session) -> None:
    s.run(PADDED.format(1, 4000))
    s.run(PADDED.format(2, 4000))
    mend = damage(s, "p1")
    s.budget = 3000
    assert [c.names for c in s.cells if c.number in asleep(s)] == [["sq"], ["p2"]]
    assert "cannot be read" in s.inspect.residency.why_not(s.find("p1")[0])
    mend()


def test_the_arena_is_full(either: Callable[..., Session]) -> None:
    s = either(capacity=8 << 20)
    s.run(PADDED.format(1, 600_000))
    s.run("@g = global i32 1")
    s.hibernate("p1")
    held = s.inspect.engine.arena.reserve("text", s.inspect.engine.arena.usage()["text"]["largest"])
    with pytest.raises(ArenaFull, match=r"@p1 of cell 1 was called and cannot come back: the text"):
        s.run("store i32 2, ptr @g\n%v = call i32 @p1(i32 1)\nstore i32 3, ptr @g")
    with pytest.raises(ArenaFull):
        s.call("p1", 1)
    assert s["g"].value == 2 and asleep(s) == [1]
    s.check()
    s.inspect.engine.arena.free(held)
    assert s.run("%v = call i32 @p1(i32 1)").value == 2


def test_why_one_did_not_come_back_is_not_told_of_another(s: Session) -> None:
    s.run("declare i32 @missing()\ndefine i32 @m() {\n  %v = call i32 @missing()\n  ret i32 %v\n}")
    mend = damage(s, "sq")
    with (
        meanwhile(s, s.interrupt, lambda: time.sleep(0.05)),
        pytest.raises((Interrupted, UsageError)),
    ):
        s.call("f", 3)
    with pytest.raises(UndefinedSymbol, match="@missing"):
        s.call("m")
    mend()


@pytest.mark.process
@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_control_c_in_this_process_waits(
    s: Session, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library in a plain program: the run is ended, and KeyboardInterrupt raised when the
    session is in order."""
    press = lambda: signal.raise_signal(signal.SIGINT)  # noqa: E731
    release = s.inspect.program.linker.release_code

    def pressed(*arguments: Any) -> Any:
        monkeypatch.undo()  # only that of the wake
        press()
        return release(*arguments)

    if when == "during":
        monkeypatch.setattr(s.inspect.program.linker, "release_code", pressed)
    moments = {"before": (press, nothing), "after": (nothing, press)}.get(when, (nothing, nothing))
    with meanwhile(s, *moments), pytest.raises(KeyboardInterrupt):
        s.run("%v = call i32 @f(i32 3)\nbr label %l\nl:\nbr label %l")
    monkeypatch.undo()
    s.check()
    assert s.find("sq")[0].state is CellState.LIVE
    assert s.call("f", 3) == 9
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# -- while nothing runs --------------------------------------------------------------------------

LATER = """@answer = global i32 0
@go = global i32 0
@thread = global i64 0
declare i32 @usleep(i32)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
define ptr @body(ptr %p) {
  br label %rest
rest:
  %z = call i32 @usleep(i32 1000)
  %go = load volatile i32, ptr @go
  %on = icmp ne i32 %go, 0
  br i1 %on, label %work, label %rest
work:
  %v = call i32 @sq(i32 6)
  store volatile i32 %v, ptr @answer
  ret ptr null
}
define i32 @start() {
  %r = call i32 @pthread_create(ptr @thread, ptr null, ptr @body, ptr null)
  ret i32 %r
}"""


def watch(s: Session, done: Callable[[], bool], seconds: float = 60.0) -> bool:
    """An event loop between two runs."""
    end = time.monotonic() + seconds
    while not done() and time.monotonic() < end:
        ready, _, _ = select.select(s.frontend.output_fds(), [], [], 0.2)
        if ready:
            s.frontend.drain(s._core.sink)
    return done()


@pytest.mark.process
def test_a_thread_is_served_between_runs(s: Session) -> None:
    s.run(LATER)
    assert s.call("start") == 0
    assert asleep(s) == [1]
    woken = s.inspect.residency.woken
    s["go"].value = 1
    assert watch(s, lambda: s["answer"].value == 36)
    assert asleep(s) == [] and s.inspect.residency.woken == woken + 1
    s.check()
    assert s.call("f", 3) == 9


@pytest.mark.process
def test_a_thread_whose_code_does_not_come_back_between_runs(s: Session) -> None:
    s.run(LATER)
    mend = damage(s, "sq")
    pid = s.inspect.engine.executor.pid
    assert s.call("start") == 0
    s["go"].value = 1
    assert watch(s, lambda: bool(s.inspect.engine.notices))
    assert (
        "on a thread of the program: @sq of cell 1 was called and cannot come back"
        in (s.inspect.engine.notices[0])
    )
    assert until(lambda: not s.inspect.engine.executor.alive)
    mend()
    assert s.call("f", 3) == 9  # in another process
    assert s.inspect.engine.executor.pid != pid
    assert s["answer"].value == 0


@pytest.mark.process
def test_a_process_that_has_ended_is_not_watched(s: Session) -> None:
    before = s.frontend.output_fds()
    os.kill(s.inspect.engine.executor.pid, signal.SIGKILL)
    watch(s, lambda: s.frontend.output_fds() != before)
    assert len(s.frontend.output_fds()) == len(before) - 1
    assert select.select(s.frontend.output_fds(), [], [], 0.05)[0] == []
    assert s.call("f", 3) == 9
    assert len(s.frontend.output_fds()) == len(before)


def test_threads_keep_code_in_memory_and_it_is_said(s: Session) -> None:
    from jitkernel.views.memory import residency

    s.run(LATER)
    s.run(PADDED.format(1, 4000))
    s.hibernate("f")
    assert s.call("start") == 0
    with pytest.raises(JitError, match="threads of the program may run it"):
        s.hibernate("p1")
    s.budget = 1000
    assert s.inspect.residency.code > 4000
    text = residency(s).text
    assert (
        "1 thread is running of the program's own: no code leaves memory before it has ended"
        in text
    )
    s["go"].value = 1
    assert watch(s, lambda: s["answer"].value == 36)
    until(lambda: not s.inspect.engine.executor.threads)
    assert s.call("f", 2) == 4
    assert s.inspect.residency.code <= 1000
    assert "thread" not in residency(s).text


def test_nobody_is_led_to_code_that_is_not_there_yet(s, monkeypatch):
    """Threads of the program run meanwhile: users follow when the bytes have been written."""
    led: list[bytes] = []
    rebind = Bindings.rebind

    def looking(self: Bindings, symbol: Symbol, was: int) -> None:
        if symbol.name == "sq":
            led.append(self.arena.read(symbol.address, 1))
        rebind(self, symbol, was)

    monkeypatch.setattr(Bindings, "rebind", looking)
    s.hibernate("f")
    assert s.call("f", 3) == 9
    s.hibernate("sq")
    assert s.call("f", 4) == 16
    assert len(led) == 3 and b"\xcc" not in led
