"""Handlers of the program's signals run session code at any moment: not while it is written."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from programs import interrupting
from test_wakes import meanwhile, nothing

from jitkernel import Session
from jitkernel.errors import Fault
from tests.busy import until

pytestmark = pytest.mark.process

#: Counts, for some milliseconds, in code that is redefined again and again.
WORK = (
    "long last, ticks;\n",
    """void work(unsigned long n) {{
  for (unsigned long i = 0; i < n; i++) __asm__ volatile("" ::: "memory");
  *(volatile long *)&last = {0};
}}""",
)
TICK = "void tick(int s) { work(2000000); ++*(volatile long *)&ticks; again(); }"
#: How a handler comes to run by itself: each defines @go, and @again, which has it run 4 ms after
#: the last one has ended, however long that took on a busy machine.
TIMER = """#include <signal.h>
#include <time.h>
void tick(int s);
struct itimerspec once = {{0}, {0, 4000000}};
timer_t timer;
int again(void) { return timer_settime(timer, 0, &once, 0); }
"""
TIMERS = {
    "SIGALRM of an interval timer": """#include <signal.h>
#include <sys/time.h>
void tick(int s);
struct itimerval once = {{0}, {0, 4000}};
int again(void) { return setitimer(ITIMER_REAL, &once, 0); }
int go(void) { signal(SIGALRM, tick); return again(); }""",
    "SIGIO of a timer": TIMER + """
int go(void) {
  struct sigevent event = {.sigev_signo = SIGIO, .sigev_notify = SIGEV_SIGNAL};
  signal(SIGIO, tick);
  return timer_create(CLOCK_MONOTONIC, &event, &timer) | again();
}""",
    "threads of a timer": TIMER + """
void in_thread(union sigval v) { tick(v.sival_int); }
int go(void) {
  struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = in_thread};
  return timer_create(CLOCK_MONOTONIC, &event, &timer) | again();
}""",
}  # fmt: skip


@pytest.mark.parametrize("timer", TIMERS, ids=lambda t: t.replace(" ", "-"))
def test_what_a_handler_calls_is_redefined(s: Session, timer: str) -> None:
    s.run(WORK[0] + WORK[1].format(1), "c")
    s.run(TIMERS[timer], "c")
    s.run(TICK, "c")
    assert s.run("@go()").value == 0
    pid = s.inspect.engine.executor.pid
    for i in range(8):
        s.run(WORK[1].format(i + 2), "c")
        if i % 7 == 0:
            s.run(TICK, "c")
        assert s.call("labs", -5) == 5
    assert s.inspect.engine.executor.pid == pid
    ticks = s["ticks"].value
    assert ticks > 0
    new = until(lambda: s["ticks"].value > ticks and s["last"].value == 9)
    assert new, "it goes on, with what is new"


def test_signals_are_held_while_session_code_is_written(s: Session) -> None:
    s.run(WORK[0] + WORK[1].format(1), "c")
    s.run(TIMERS["SIGALRM of an interval timer"], "c")
    s.run(TICK.replace("2000000", "1"), "c")
    executor = s.inspect.engine.executor
    assert not executor.handles_signals and not executor.threads
    s.run("@go()")
    assert executor.handles_signals and not executor.threads
    for _ in range(5):
        with s.inspect.engine.world_stopped:
            before = s["ticks"].value
            time.sleep(0.03)
            assert s["ticks"].value == before
        assert until(lambda: s["ticks"].value != before)  # noqa: B023 (at once)
    s.run("signal(SIGALRM, SIG_IGN);", "c")
    assert not executor.handles_signals


def test_a_handler_reaches_code_that_is_away_while_other_code_comes_back(
    fresh: Callable[..., Session],
) -> None:
    """One thread wants both: what it interrupts has to end before the handler asks."""
    s = fresh()
    s.run("volatile long ticks;", "c")
    s.run("long one(long x) { return x + 1; }", "c")
    s.run("long two(long x) { return x + 2; }", "c")
    s.run(TIMERS["SIGALRM of an interval timer"], "c")
    s.run("void tick(int s) { ticks = two(ticks); again(); }", "c")
    s.run("long f(long x) { return one(x); }", "c")
    s.hibernate("one", "two")
    with meanwhile(s, lambda: time.sleep(0.05), nothing):
        s.call("go")
        assert s.call("f", 5) == 6
    assert until(lambda: s.frontend.drain(s._core.sink) or s["ticks"].value)
    s.run("once = (struct itimerval){0}; go();", "c")
    s.check()


def test_a_handler_that_never_ends_can_be_interrupted(fresh: Callable[..., Session]) -> None:
    s = fresh(interrupt_grace=0.5)
    s.run(WORK[0] + WORK[1].format(1), "c")
    s.run(TIMERS["SIGALRM of an interval timer"], "c")
    s.run(TICK.replace("2000000", "-1"), "c")
    s.run("@go()")
    time.sleep(0.1)
    with interrupting(s), pytest.raises(Fault):
        s.run(WORK[1].format(2) + "\nwork(1);", "c")
    assert s.run("@work(1)\n@last").value in (1, 2)
    s.check()
