"""Handlers of the program's signals run session code at any moment: not while it is written."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from programs import interrupting
from test_wakes import meanwhile, nothing

from jitkernel import Session
from jitkernel.errors import Fault

pytestmark = pytest.mark.process

#: Counts, for some milliseconds, in code that is redefined again and again.
WORK = (
    """@last = global i64 0
@ticks = global i64 0
""",
    """define void @work(i64 %n) {{
entry:
  br label %l
l:
  %i = phi i64 [0, %entry], [%j, %l]
  %j = add i64 %i, 1
  call void asm sideeffect "", "~{{memory}}"()
  %c = icmp ult i64 %j, %n
  br i1 %c, label %l, label %x
x:
  store volatile i64 {0}, ptr @last
  ret void
}}""",
)
TICK = """define void @tick(i32 %s) {
  call void @work(i64 2000000)
  %t = load volatile i64, ptr @ticks
  %u = add i64 %t, 1
  store volatile i64 %u, ptr @ticks
  ret void
}
"""
#: How a handler comes to run by itself, every 4 ms; each defines @go.
TIMERS = {
    "SIGALRM of an interval timer": """declare ptr @signal(i32, ptr)
declare i32 @setitimer(i32, ptr, ptr)
@every = global [4 x i64] [i64 0, i64 4000, i64 0, i64 4000]
define i32 @go() {
  %a = call ptr @signal(i32 14, ptr @tick)
  %b = call i32 @setitimer(i32 0, ptr @every, ptr null)
  ret i32 %b
}""",
    "SIGIO of a timer": """declare ptr @signal(i32, ptr)
declare i32 @timer_create(i32, ptr, ptr)
declare i32 @timer_settime(ptr, i32, ptr, ptr)
@every = global [4 x i64] [i64 0, i64 4000000, i64 0, i64 4000000]
@event = global { i64, i32, i32, [6 x i64] } { i64 0, i32 29, i32 0, [6 x i64] zeroinitializer }
@timer = global ptr null
define i32 @go() {
  %a = call ptr @signal(i32 29, ptr @tick)
  %b = call i32 @timer_create(i32 1, ptr @event, ptr @timer)
  %t = load ptr, ptr @timer
  %c = call i32 @timer_settime(ptr %t, i32 0, ptr @every, ptr null)
  ret i32 %c
}""",
    "threads of a timer": """declare i32 @timer_create(i32, ptr, ptr)
declare i32 @timer_settime(ptr, i32, ptr, ptr)
@every = global [4 x i64] [i64 0, i64 4000000, i64 0, i64 4000000]
%event = type { i64, i32, i32, ptr, [5 x i64] }
@event = global %event { i64 0, i32 0, i32 2, ptr @tick, [5 x i64] zeroinitializer }
@timer = global ptr null
define i32 @go() {
  %b = call i32 @timer_create(i32 1, ptr @event, ptr @timer)
  %t = load ptr, ptr @timer
  %c = call i32 @timer_settime(ptr %t, i32 0, ptr @every, ptr null)
  ret i32 %c
}""",
}


@pytest.fixture
def s() -> Iterator[Session]:
    with Session() as session:
        yield session
        session.check()


@pytest.mark.parametrize("timer", TIMERS, ids=lambda t: t.replace(" ", "-"))
def test_what_a_handler_calls_is_redefined(s: Session, timer: str) -> None:
    s.run(WORK[0] + WORK[1].format(1))
    s.run(TICK)
    s.run(TIMERS[timer])
    assert s.run("@go()").value == 0
    pid = s.inspect.engine.executor.pid
    for i in range(60):
        s.run(WORK[1].format(i + 2))
        if i % 7 == 0:
            s.run(TICK)
        assert s.call("labs", -5) == 5
    assert s.inspect.engine.executor.pid == pid
    ticks = s["ticks"].value
    assert ticks > 0
    deadline = time.monotonic() + 20
    while s["ticks"].value == ticks and time.monotonic() < deadline:
        time.sleep(0.01)
    assert s["ticks"].value > ticks and s["last"].value == 61, "it goes on, with what is new"


def test_signals_are_held_while_session_code_is_written(s: Session) -> None:
    s.run(WORK[0] + WORK[1].format(1))
    s.run(TICK.replace("2000000", "1"))
    s.run(TIMERS["SIGALRM of an interval timer"])
    executor = s.inspect.engine.executor
    assert not executor.handles_signals and not executor.threads
    s.run("@go()")
    assert executor.handles_signals and not executor.threads
    for _ in range(5):
        with s.inspect.engine.writing():
            before = s["ticks"].value
            time.sleep(0.03)
            assert s["ticks"].value == before
        deadline = time.monotonic() + 20
        while s["ticks"].value == before and time.monotonic() < deadline:
            time.sleep(0.001)
        assert s["ticks"].value > before
    s.run("%a = call ptr @signal(i32 14, ptr inttoptr (i64 1 to ptr))")  # SIG_IGN
    assert not executor.handles_signals


def test_a_handler_reaches_code_that_is_away_while_other_code_comes_back(
    fresh: Callable[..., Session],
) -> None:
    """One thread wants both: what it interrupts has to end before the handler asks."""
    s = fresh()
    s.run("@ticks = global i64 0\n@called = global i64 0")
    s.run("define i64 @one(i64 %x) {\n  %r = add i64 %x, 1\n  ret i64 %r\n}")
    s.run("define i64 @two(i64 %x) {\n  %r = add i64 %x, 2\n  ret i64 %r\n}")
    s.run(
        """declare i64 @two(i64)
define void @tick(i32 %s) {
  %t = load volatile i64, ptr @ticks
  %u = call i64 @two(i64 %t)
  store volatile i64 %u, ptr @ticks
  ret void
}"""
    )
    s.run("define i64 @f(i64 %x) {\n  %r = call i64 @one(i64 %x)\n  ret i64 %r\n}")
    s.run(TIMERS["SIGALRM of an interval timer"])
    s.hibernate("one", "two")
    with meanwhile(s, lambda: time.sleep(0.05), nothing):
        s.call("go")
        assert s.call("f", 5) == 6
    deadline = time.monotonic() + 20
    while not s["ticks"].value and time.monotonic() < deadline:
        time.sleep(0.01)
        s.frontend.drain(s._core.sink)
    assert s["ticks"].value > 0
    s.run("@every = [4 x i64] zeroinitializer\n@go()")
    s.check()


def test_a_handler_that_never_ends_can_be_interrupted(fresh: Callable[..., Session]) -> None:
    s = fresh(interrupt_grace=0.5)
    s.run(WORK[0] + WORK[1].format(1))
    s.run(TICK.replace("2000000", "-1"))
    s.run(TIMERS["SIGALRM of an interval timer"])
    s.run("@go()")
    time.sleep(0.1)
    with interrupting(s), pytest.raises(Fault):
        s.run(WORK[1].format(2) + "\n@work(1)")
    assert s.run("@work(1)\n@last").value in (1, 2)
    s.check()
