"""Other threads than the one that has stopped: frames, variables, steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jitkernel import Session
from jitkernel.errors import UsageError
from jitkernel.session.debugging.debugger import Debugger
from jitkernel.session.debugging.records import Breakpoint, Event
from tests.session.debugging.test_prompt import Talk

pytestmark = pytest.mark.process

C = """#include <pthread.h>
volatile int go, over, steps, added;
static int inner(int n) {
  int a = n + 1;
  steps++;
  return a;
}
static void *worker(void *p) {
  int mine = 7;
  go = 1;
  while (!over) {
    mine = inner(mine) & 0xff;
    added += mine & 1;
  }
  return 0;
}
int here(int k) {
  int r = k + 1;
  over = 1;
  return r;
}
int both(int k) {
  pthread_t t;
  go = over = 0;
  pthread_create(&t, 0, worker, 0);
  while (!go);
  int r = here(k);
  pthread_join(t, 0);
  return r;
}
"""
LINE = 18


@pytest.fixture
def s() -> Iterator[Session]:
    pytest.importorskip("ziglang")
    with Session(capacity=64 << 20, spare=False) as session:
        session.run(C, "c")
        session.debugger.start()
        session.debugger.set_breakpoints(C, [Breakpoint(line=LINE)])
        yield session
        session.debugger.close()
        session.check()


def walk(s: Session, *does: Callable[[Debugger], Any]) -> list[Any]:
    """What these gave, one at each stop; the last goes on."""
    found: list[Any] = []
    left = list(does)
    failed: list[BaseException] = []

    def hear(event: Event) -> None:
        if event.kind != "stopped":
            return
        if not left:
            s.debugger.go()
            return
        try:
            found.append(left.pop(0)(s.debugger))
        except BaseException as error:
            failed.append(error)
            left.clear()
        if s.debugger.stop is not None:
            s.debugger.go()

    s.debugger.listener = hear
    assert s.call("both", 5) == 6
    if failed:
        raise failed[0]
    return found


def other(debugger: Debugger) -> int:
    assert debugger.stop is not None
    [found] = [thread for thread, _ in debugger.threads() if thread != debugger.stop.thread]
    return found


def names(debugger: Debugger) -> list[str]:
    return [frame.name for frame in debugger.frames()]


def test_frames_and_variables_of_another_thread(s: Session) -> None:
    def do(debugger: Debugger) -> tuple[list[str], int, str, list[str]]:
        mine = debugger.thread
        debugger.choose(other(debugger))
        there = names(debugger)
        index = there.index("worker")
        value = int(debugger.evaluate("mine", index).value)
        debugger.choose(mine)
        return there, value, debugger.evaluate("k").value, names(debugger)

    [(there, value, k, here)] = walk(s, do)
    assert there[-1] == "worker" and there[0] in ("worker", "inner")
    assert 0 <= value <= 0xFF and k == "5" and here[:2] == ["here", "both"]


def test_a_step_is_the_chosen_thread_s(s: Session) -> None:
    stops: list[tuple[int, str, int]] = []

    def step(debugger: Debugger) -> None:
        assert debugger.stop is not None
        thread = chosen[0] if chosen else other(debugger)
        chosen[:] = [thread]
        debugger.choose(thread)
        frame = debugger.frames()[0]
        stops.append((debugger.stop.thread, frame.name, frame.line))
        debugger.go("step_in")

    chosen: list[int] = []
    # The cell's thread goes on meanwhile, and ends the other one's loop.
    walk(s, *[step] * 6)
    assert len(stops) >= 2 and all(thread == chosen[0] for thread, *_ in stops[1:])
    assert {name for _, name, _ in stops} <= {"worker", "inner"}


def test_by_instruction_and_registers_that_are_set(s: Session) -> None:
    seen: list[int] = []

    def one(debugger: Debugger) -> None:
        if not chosen:
            chosen.append(other(debugger))
        debugger.choose(chosen[0])
        seen.append(debugger.registers()["rip"])
        debugger.go("instruction")

    chosen: list[int] = []
    walk(s, *[one] * 5)
    assert len(seen) == 5 and len(set(seen)) > 1

    def change(debugger: Debugger) -> int:
        debugger.choose(other(debugger))
        debugger.evaluate("added = 1000000")
        index = names(debugger).index("worker")
        debugger.evaluate("mine = 2", index)
        return int(debugger.evaluate("mine", index).value)

    assert walk(s, change) == [2] and s["added"].value >= 1000000


def test_threads_that_do_not_stand_and_calls_are_refused(s: Session) -> None:
    def do(debugger: Debugger) -> None:
        with pytest.raises(UsageError, match="thread 1 does not stand; those that do: "):
            debugger.choose(1)
        debugger.choose(other(debugger))
        with pytest.raises(UsageError, match="functions are called on the thread that has stopped"):
            debugger.evaluate("here(3)", calls=True)

    walk(s, do)
    with pytest.raises(UsageError, match="nothing stands"):
        s.debugger.choose(1)


def test_at_the_prompt(s: Session) -> None:
    talk = Talk(s)
    shown = talk.run(
        "both(5)", "info threads", "thread 2", "info threads", "thread 1", "p k", "thread 9", "c"
    )
    assert "=> 1  cell, id " in shown and "here, cell 1, line 18" in shown
    assert "thread 2: " in shown and "=> 2  thread " in shown and "(int) 5" in shown
    assert "thread 9 does not stand" in shown


# -- a thread in a function's first bytes ----------------------------------------------------------

#: A thread that waits in `take` goes on at its fourth byte, which a jump to the debug form is over.
TAKE = """#include <pthread.h>
#include <unistd.h>
static int ends[2];
volatile int got;
__attribute__((noinline)) long take(int fd, void *to, long n) {
  long r = 0;
  __asm__ volatile("syscall" : "+a"(r) : "D"(fd), "S"(to), "d"(n) : "rcx", "r11", "memory");
  return r;
}
static void *waits(void *p) {
  char c = 0;
  take(ends[0], &c, 1);
  got = c;
  return 0;
}
static pthread_t thread;
int begin(void) { got = 0; return pipe(ends) | pthread_create(&thread, 0, waits, 0); }
int end(int c) {
  char byte = c;
  write(ends[1], &byte, 1);
  pthread_join(thread, 0);
  return got;
}
int again(void) {
  char c[2] = { 0, 0 };
  int more[2];
  pipe(more);
  write(more[1], "ab", 2);
  return take(more[0], c, 2) + c[1];
}
"""


def test_a_thread_in_the_first_bytes_of_a_function_is_noticed(s: Session) -> None:
    s.run(TAKE, "c")
    take = s.symbols["take"].address
    code = s.inspect.engine.arena.read(take, 4)
    if code != b"\x31\xc0\x0f\x05":  # xor %eax, %eax; syscall
        pytest.skip("the compiler has made other code of it")
    said: list[str] = []
    places: list[str] = []

    def hear(event: Event) -> None:
        if event.kind == "breakpoint" and event.breakpoint is not None:
            said.append(event.breakpoint.message)
        if event.kind == "stopped":
            places.append(s.debugger.frames()[0].name)
            s.debugger.go()

    s.debugger.listener = hear
    assert s.call("begin") == 0
    executor = s.inspect.engine.executor
    for _ in range(1000):
        if take + 4 in executor.taken():
            break
    else:
        pytest.fail("the thread does not wait where it should")
    point = s.debugger.add(Breakpoint(function="take"))
    assert s.call("again") == 2 + ord("b") and places == []
    assert not point.verified and "its code is being run" in point.message
    assert s.call("end", 7) == 7
    assert s.call("again") == 2 + ord("b") and places == ["take"]
    assert point.verified and s.inspect.engine.arena.read(take, 4) == code


def test_where_nobody_may_look_nothing_is_written_over(
    s: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jitkernel.executor import channel

    def refused(*_: object) -> set[int]:
        raise UsageError("this system does not let us look")

    monkeypatch.setattr(channel, "addresses", refused)
    s.run(TAKE, "c")
    assert s.call("begin") == 0
    s.debugger.add(Breakpoint(function="take"))
    s.debugger.listener = lambda event: s.debugger.go() if event.kind == "stopped" else None
    assert s.call("again") == 2 + ord("b") and s.call("end", 5) == 5
