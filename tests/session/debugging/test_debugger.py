"""What a debugger does at stops and steps, case by case."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from jitkernel import Session
from jitkernel.errors import Fault, Interrupted, JitError, UsageError
from jitkernel.session.debugging.debugger import Debugger
from jitkernel.session.debugging.records import Breakpoint, Event
from tests.busy import until

FACT = """\
int fact(int n) {
  if (n < 2)
    return 1;
  int below = fact(n - 1);
  return n * below;
}
"""
SQ = """\
int sq(int x) {
  int y = x * x;
  return y;
}
"""
USE = """\
int use(int x) {
  int a = sq(x);
  int b = sq(a);
  return a + b;
}
"""
LOOP = """\
int sum(int n) {
  int all = 0;
  for (int i = 0; i < n; i++)
    all += i;
  return all;
}
"""


class Seen:
    """A listener that takes motions in order, then lets everything go on, and notes where it was.

    A motion is a word for `go`, or is called with the debugger first, which may go on itself.
    """

    def __init__(self, s: Session):
        self.debugger: Debugger = s.debugger
        self.motions: list[Any] = []
        self.places: list[tuple[str, int]] = []  # function and line
        self.reasons: list[str] = []
        self.depths: list[int] = []
        self.said: list[str] = []
        self.ended = 0
        self.debugger.listener = self.hear

    def hear(self, event: Event) -> None:
        if event.kind == "output":
            self.said.append(event.text)
        if event.kind == "ended":
            self.ended += 1
        if event.kind != "stopped" or event.stopped is None:
            return
        frames = self.debugger.frames()
        self.places.append((frames[0].name, frames[0].line))
        self.reasons.append(event.stopped.reason)
        self.depths.append(len(frames))
        motion = self.motions.pop(0) if self.motions else "continue"
        if callable(motion):
            motion = motion(self.debugger)
        if motion:
            self.debugger.go(motion)

    @property
    def lines(self) -> list[int]:
        return [line for _, line in self.places]


def value(debugger: Debugger, name: str) -> str:
    return debugger.evaluate(name).value


def text(s: Session) -> dict[int, bytes]:
    """The program's code, by where its extents begin."""
    arena = s.inspect.engine.arena
    return {start: arena.read(start, size) for start, size in arena.zones["text"].list.live.items()}


@pytest.fixture(scope="module")
def shared() -> Iterator[Session]:
    with Session(capacity=64 << 20, spare=False) as session:
        yield session


@pytest.fixture
def s(shared: Session) -> Iterator[Session]:
    """The module's session, empty, and a debugger that has seen nothing."""
    shared.reset()
    shared.debugger.start()
    yield shared
    shared.debugger.close()
    shared.check()


@pytest.fixture
def seen(s: Session) -> Seen:
    return Seen(s)


FLOATS = "float f(int i) {\n  float x = 1;\n  char c = 0;\n  return x + c;\n}\n"


def test_what_is_set_to_an_expression_is_converted(s: Session, seen: Seen) -> None:
    """An int's bytes are no float's, though there are as many of them."""
    s.run(FLOATS, "c")
    s.debugger.set_breakpoints(FLOATS, [Breakpoint(line=4)])

    def set_both(debugger: Debugger) -> str:
        scope, *_, registers = debugger.scopes()
        assert debugger.set_variable(registers.reference, "rax", "i + 0x10").value == "0x12"
        debugger.set_variable(scope.reference, "x", "i + 1")
        debugger.set_variable(scope.reference, "c", "x * 2")
        with pytest.raises(UsageError, match="expected an integer from -128 to 127"):
            debugger.set_variable(scope.reference, "c", "nobody + 1")
        return "continue"

    seen.motions = [set_both]
    assert s.call("f", 2) == 9


@pytest.mark.parametrize("of", ["_Float16", "float", "double", "long double"])
def test_complex_numbers_of_every_width_have_parts(s: Session, of: str) -> None:
    s.run(f"{of} _Complex z = 3;", "c")
    whole, half = s.debugger.evaluate("z"), s.debugger.evaluate("z.real")
    assert (whole.type, whole.named, half.type) == (f"{of} _Complex", 2, of)
    assert half.value.startswith("3.0")


# -- steps -----------------------------------------------------------------------------------------


def test_step_over_recursion_stays_in_its_frame(s: Session, seen: Seen) -> None:
    s.run(FACT, "c")
    s.debugger.add(Breakpoint(function="fact", temporary=True))
    seen.motions = ["next"] * 9
    assert s.call("fact", 5) == 120
    assert seen.lines[:4] == [2, 4, 5, 6]
    assert len(set(seen.depths[:4])) == 1


def test_step_out_of_recursion_goes_up_one_frame(s: Session, seen: Seen) -> None:
    s.run(FACT, "c")
    s.debugger.set_breakpoints(FACT, [Breakpoint(line=3)])
    depths: list[str] = []

    def out(debugger: Debugger) -> str:
        depths.append(value(debugger, "n"))
        return "step_out"

    seen.motions = [out] * 10
    assert s.call("fact", 4) == 24
    assert depths == ["1", "2", "3", "4"]


def test_step_in_through_a_function_of_another_cell(s: Session, seen: Seen) -> None:
    s.run(SQ, "c")
    s.run(USE, "c")
    before = text(s)
    s.debugger.set_breakpoints(USE, [Breakpoint(line=2)])
    seen.motions = ["step_in", "next", "next", "step_in", "step_out"]
    assert s.call("use", 3) == 90
    assert seen.places[3:] == [("use", 3), ("sq", 2), ("use", 3)]
    assert seen.places[:3] == [("use", 2), ("sq", 2), ("sq", 3)]
    assert text(s).items() >= before.items()


def test_step_in_through_a_pointer(s: Session, seen: Seen) -> None:
    s.run(SQ, "c")
    s.run("int (*chosen)(int) = sq;", "c")
    apply = "int apply(int x) {\n  int r = chosen(x);\n  return r + 1;\n}\n"
    s.run(apply, "c")
    s.debugger.set_breakpoints(SQ, [Breakpoint(line=3, condition="0")])  # it can be stepped through
    s.debugger.set_breakpoints(apply, [Breakpoint(line=2)])
    seen.motions = ["step_in", "step_out", "next"]
    assert s.call("apply", 5) == 26
    assert seen.places[:2] == [("apply", 2), ("sq", 2)]
    assert seen.places[2][0] == "apply"


QSORT = """\
#include <stdlib.h>
int less(const void *a, const void *b) {
  int x = *(const int *)a;
  int y = *(const int *)b;
  return x - y;
}
int sorted(void) {
  int v[4] = {4, 2, 3, 1};
  qsort(v, 4, sizeof(int), less);
  return v[0] * 1000 + v[1] * 100 + v[2] * 10 + v[3];
}
"""


def test_into_the_comparator_of_qsort_and_out(s: Session, seen: Seen) -> None:
    s.run(QSORT, "c")
    s.debugger.set_breakpoints(QSORT, [Breakpoint(line=9)])
    names: list[list[str]] = []

    def look(debugger: Debugger) -> str:
        names.append([frame.name for frame in debugger.frames()])
        return "step_in"

    seen.motions = ["step_in", look, "step_in", "step_out"]
    assert s.call("sorted") == 1234
    assert seen.places[:3] == [("sorted", 9), ("less", 3), ("less", 4)]
    assert names[0][0] == "less"
    assert "sorted" in names[0]
    # Out of it lies the next comparison, or the caller behind `qsort`.
    assert seen.places[4][0] in ("less", "sorted")


def test_code_that_refers_to_what_is_not_looked_up_yet_comes_with_the_next_call(
    s: Session, seen: Seen
) -> None:
    """Optimised, `three` does not call `strcspn`."""
    s.run('#include <string.h>\nint three(void) {\n  return strcspn("abcd", "d");\n}', "c")
    s.run("int use(int n) {\n  int z = n;\n  return z + three();\n}", "c")
    s.debugger.add(Breakpoint(function="use"))
    made: list[Breakpoint] = []

    def add(debugger: Debugger) -> str:
        made.append(debugger.add(Breakpoint(function="three")))
        return "continue"

    seen.motions = [add]
    assert s.call("use", 2) == 5 and seen.places == [("use", 2)]
    assert not made[0].verified and "from the next call on" in made[0].message
    assert s.call("use", 2) == 5 and seen.places[1:] == [("use", 2), ("three", 3)]


def test_step_out_to_optimised_code(s: Session, seen: Seen) -> None:
    s.run(SQ.replace("sq", "far"), "c")
    s.run("int outer(int x) { return far(x) + 1; }", "c")
    s.debugger.add(Breakpoint(function="far"))
    seen.motions = ["step_out", "continue"]
    assert s.call("outer", 3) == 10
    assert [name for name, _ in seen.places] == ["far", "outer"]


def test_out_of_the_outermost_function_goes_on(s: Session, seen: Seen) -> None:
    s.run(SQ, "c")
    s.debugger.add(Breakpoint(function="sq"))
    seen.motions = ["step_out"]
    assert s.call("sq", 3) == 9
    seen.motions = ["next", "next", "next", "next"]
    assert s.call("sq", 4) == 16
    assert 0 not in seen.lines


def test_out_into_a_statement_stops_at_its_line_if_anywhere(s: Session, seen: Seen) -> None:
    s.run(SQ, "c")
    s.debugger.add(Breakpoint(function="sq"))
    seen.motions = ["step_out"] * 4
    assert s.run("sq(3) + 1", "c").value == 10
    assert 0 not in seen.lines


def test_instructions_step_through_a_call(s: Session, seen: Seen) -> None:
    """Also where one has a breakpoint of its own: each ends, and each is somewhere else."""
    s.run(SQ, "c")
    s.run(USE, "c")
    points = s.debugger.set_breakpoints(USE, [Breakpoint(line=2)])
    at: list[int] = []

    def look(debugger: Debugger) -> str:
        address = debugger.registers()["rip"]
        if not at:  # breakpoints at the next instructions, a call among them
            rows = debugger.disassemble(address, 4)
            for start, _ in rows[1:]:
                debugger.add(Breakpoint(address=start))
        at.append(address)
        return "instruction"

    seen.motions = [look] * 400
    assert s.call("use", 3) == 90
    assert all(a != b for a, b in pairwise(at))
    assert len(at) > 10
    assert points[0].hits == 1


def test_next_from_the_first_instruction_stays_in_the_function(s: Session, seen: Seen) -> None:
    s.run(SQ, "c")
    s.run(USE, "c")
    s.debugger.set_breakpoints(USE, [Breakpoint(line=2)])
    s.debugger.set_breakpoints(SQ, [Breakpoint(line=3, condition="0")])
    entered: list[str] = []

    def walk(debugger: Debugger) -> str:
        name = debugger.frames()[0].name
        if name == "sq":
            entered.append(name)
            return "next"
        seen.motions.insert(0, walk)
        return "instruction"

    seen.motions = [walk]
    assert s.call("use", 3) == 90
    after = seen.places[[name for name, _ in seen.places].index("sq") + 1]
    assert after[0] == "sq"


# -- breakpoints -----------------------------------------------------------------------------------


def test_a_condition_a_count_and_a_message(s: Session, seen: Seen) -> None:
    s.run(LOOP, "c")
    values: list[str] = []
    seen.motions = [lambda d: values.append(value(d, "i")) or "continue"] * 20
    s.debugger.set_breakpoints(LOOP, [Breakpoint(line=4, condition="i == 5")])
    assert s.call("sum", 10) == 45
    assert values == ["5"]
    s.debugger.set_breakpoints(LOOP, [])
    values.clear()
    s.debugger.set_breakpoints(LOOP, [Breakpoint(line=4, hit_condition="% 3")])
    assert s.call("sum", 10) == 45
    assert values == ["2", "5", "8"]
    s.debugger.set_breakpoints(LOOP, [])
    values.clear()
    s.debugger.set_breakpoints(LOOP, [Breakpoint(line=4, log="i is {i}, all {all} {nothing}")])
    assert s.call("sum", 3) == 3
    assert values == []
    assert len(seen.said) == 3
    assert seen.said[2].startswith("i is 2, all 1 <")


def test_a_broken_condition_stops_and_says_why(s: Session, seen: Seen) -> None:
    s.run(LOOP, "c")
    s.debugger.set_breakpoints(LOOP, [Breakpoint(line=5, condition="nothing == 5")])
    assert s.call("sum", 4) == 6
    assert seen.lines == [5]
    assert "nothing" in seen.said[0]


def test_in_a_block_of_statements_and_a_function_of_the_same_cell(s: Session, seen: Seen) -> None:
    cell = SQ + "int k = sq(3);\nk = k + 1;\nk\n"
    s.debugger.set_breakpoints(cell, [Breakpoint(line=2), Breakpoint(line=6)])
    assert s.run(cell, "c").value == 10
    assert seen.lines == [2, 6]
    assert s.run(cell, "c").value == 10
    assert seen.lines == [2, 6, 2, 6]


def test_a_cell_with_the_same_text_again(s: Session, seen: Seen) -> None:
    s.run(SQ, "c", cell_id="a")
    s.debugger.set_breakpoints(SQ, [Breakpoint(line=2)])
    assert s.call("sq", 2) == 4
    s.run(SQ, "c", cell_id="a")
    assert s.call("sq", 3) == 9
    s.run(SQ, "c")
    assert s.call("sq", 4) == 16
    assert seen.lines == [2, 2, 2]


def test_bad_ones_change_nothing(s: Session, seen: Seen) -> None:
    s.run(SQ, "c")
    s.debugger.set_breakpoints(SQ, [Breakpoint(line=2)])
    with pytest.raises(UsageError):
        s.debugger.set_breakpoints(SQ, [Breakpoint(line=3), Breakpoint(line=3, hit_condition="x")])
    assert [p.line for p in s.debugger.breakpoints] == [2]
    with pytest.raises(UsageError):
        s.debugger.remove(99)
    assert s.call("sq", 2) == 4
    assert seen.lines == [2]


def test_a_session_that_was_reset(s: Session, seen: Seen) -> None:
    s.run(LOOP, "c")
    s.debugger.set_breakpoints(LOOP, [Breakpoint(line=2)])
    s.call("sum", 2)
    s.reset()
    s.run(SQ, "c")
    s.debugger.set_breakpoints(SQ, [Breakpoint(line=3)])
    assert s.call("sq", 2) == 4
    assert seen.places == [("sum", 2), ("sq", 3)]


def test_after_undo_another_cell_has_the_number(s: Session, seen: Seen) -> None:
    s.run(LOOP, "c")
    s.debugger.set_breakpoints(LOOP, [Breakpoint(line=2)])
    s.call("sum", 2)
    s.undo()
    s.run(SQ, "c")
    s.debugger.set_breakpoints(SQ, [Breakpoint(line=3)])
    assert s.call("sq", 2) == 4
    assert seen.places == [("sum", 2), ("sq", 3)]


def test_in_an_inlined_body(s: Session, seen: Seen) -> None:
    s.run("define i32 @f(i32 %x) {\n  %r = mul i32 %x, 3\n  ret i32 %r\n}")
    s.run("define i32 @g(i32 %x) {\n  %r = call i32 @f(i32 %x)\n  ret i32 %r\n}")
    for source in ("f", "g"):
        assert source in s
    before = text(s)
    point = s.debugger.add(Breakpoint(function="@f"))
    assert s.call("g", 4) == 12
    assert [name for name, _ in seen.places] == ["@f"]
    assert point.hits == 1
    assert text(s).items() >= before.items()


def test_in_code_that_is_away(s: Session, seen: Seen) -> None:
    s.run(SQ, "c")
    s.run(USE, "c")
    s.debugger.set_breakpoints(SQ, [Breakpoint(line=2)])
    s.hibernate("sq", "use")
    assert s.call("use", 2) == 20
    assert seen.lines == [2, 2]
    s.hibernate("sq")
    assert s.call("sq", 2) == 4
    assert seen.lines == [2, 2, 2]


def test_constructors(s: Session, seen: Seen) -> None:
    source = (
        "int made;\n__attribute__((constructor)) void make(void) {\n  made = 5;\n}\n"
        "__attribute__((destructor)) void end(void) {\n  made = 6;\n}\n"
    )
    s.debugger.set_breakpoints(source, [Breakpoint(line=3)])
    s.run(source, "c")
    assert s["made"].value == 5
    # Constructors run before their cell is one: if they stop, it is there.
    assert seen.lines in ([3], [])


def test_calls_with_a_false_condition_cost_little(s: Session, seen: Seen) -> None:
    s.run(SQ, "c")
    point = s.debugger.add(Breakpoint(function="sq", condition="x == -1"))
    before = text(s)
    for i in range(300):
        assert s.call("sq", i) == i * i
    assert seen.places == []
    assert text(s).items() >= before.items()
    assert point.hits == 0


# -- faults ----------------------------------------------------------------------------------------

READ = """\
int at(int *p) {
  int r = 0;
  r = *p;
  return r;
}
int good = 7;
"""


def test_a_fault_is_met_and_mended(s: Session, seen: Seen) -> None:
    s.run(READ, "c")
    s.debugger.faults = True
    s.debugger.set_breakpoints(READ, [Breakpoint(line=2, condition="0")])

    def mend(debugger: Debugger) -> str:
        assert debugger.stop is not None
        assert "SIGSEGV" in debugger.stop.text
        debugger.evaluate("p = &good")
        return "continue"

    seen.motions = [mend]
    assert s.call("at", None) == 7
    assert seen.reasons == ["exception"]
    assert seen.lines == [3]


@pytest.mark.parametrize("motion", ["continue", "next", "step_out"])
def test_a_fault_is_met_and_recovered_from(s: Session, seen: Seen, motion: str) -> None:
    s.run(READ, "c")
    s.debugger.faults = True
    seen.motions = [motion]
    with pytest.raises(Fault, match="null"):
        s.call("at", None)
    assert seen.reasons == ["exception"]
    assert s.run("good", "c").value == 7


DEEP = "int deep(int n) {\n  volatile char room[4096];\n  room[0] = n;\n  return deep(n + 1) + room[0];\n}\n"


@pytest.mark.parametrize("faults", [False, True])
def test_a_stack_overflow(s: Session, seen: Seen, faults: bool) -> None:
    s.run(DEEP, "c")
    s.debugger.faults = faults
    s.debugger.set_breakpoints(DEEP, [Breakpoint(line=3, condition="n == 5")])
    with pytest.raises(Fault, match="used up"):
        s.call("deep", 0)
    assert seen.reasons == ["breakpoint"] + ["exception"] * faults
    assert s.run("1 + 1", "c").value == 2


# -- threads and processes -------------------------------------------------------------------------

THREADS = """\
#include <pthread.h>
int work(int n) {
  int all = 0;
  for (int i = 0; i < n; i++)
    all += i;
  return all;
}
static void *run(void *n) {
  return (void *)(long)work((int)(long)n);
}
long both(int n) {
  pthread_t a, b;
  void *x, *y;
  pthread_create(&a, 0, run, (void *)(long)n);
  pthread_create(&b, 0, run, (void *)(long)n);
  pthread_join(a, &x);
  pthread_join(b, &y);
  return (long)x + (long)y;
}
"""


def test_two_threads_at_one_breakpoint(s: Session, seen: Seen) -> None:
    s.run(THREADS, "c")
    points = s.debugger.set_breakpoints(THREADS, [Breakpoint(line=5)])
    assert s.call("both", 20) == 380
    assert points[0].hits == 40
    assert len(seen.lines) == 40


def test_a_step_is_one_thread_s(s: Session, seen: Seen) -> None:
    """The other one, which runs over the same lines, does not end it, nor is it harmed."""
    s.run(THREADS, "c")
    s.debugger.add(Breakpoint(function="work"))
    threads: list[tuple[int, str]] = []

    def step(debugger: Debugger) -> str:
        assert debugger.stop is not None
        threads.append((debugger.stop.thread, debugger.stop.reason))
        return "next"

    seen.motions = [step] * 300
    for _ in range(2):
        assert s.call("both", 20) == 380
    for (thread, _), (after, reason) in pairwise(threads):
        assert reason == "breakpoint" or thread == after


def test_steps_in_two_threads_do_no_harm(s: Session, seen: Seen) -> None:
    s.run(THREADS, "c")
    s.debugger.set_breakpoints(THREADS, [Breakpoint(line=5)])
    seen.motions = ["next", "step_in", "instruction", "next", "step_out", "continue"] * 60
    for _ in range(2):
        assert s.call("both", 20) == 380


LASTING = """\
#include <pthread.h>
#include <unistd.h>
static pthread_t thread;
volatile int over;
volatile long turns;
int work(int n) {
  turns++;
  return n + 1;
}
static void *run(void *n) {
  while (!over)
    work(1);
  return 0;
}
int begin(void) {
  pthread_create(&thread, 0, run, 0);
  usleep(20000);
  return 1;
}
int finish(void) {
  over = 1;
  return pthread_join(thread, 0);
}
"""


def test_a_thread_that_outlives_its_call(s: Session, seen: Seen) -> None:
    """Between calls it meets nothing, in whatever code it is."""
    s.run(LASTING, "c")
    pid = s.inspect.engine.executor.pid
    s.debugger.set_breakpoints(LASTING, [Breakpoint(line=7, condition="n == 1")])
    seen.motions = ["next", "step_out", "step_in"] * 7
    assert s.call("begin") == 1
    for line in (8, 7, 12, 8):
        s.debugger.set_breakpoints(LASTING, [Breakpoint(line=line, condition="0")])
        assert s.run("1 + 1", "c").value == 2
        before = s["turns"].value
        for _ in range(1000):  # the machine may be busy
            if s["turns"].value > before:
                break
            time.sleep(0.01)
        assert s["turns"].value > before
    assert s.call("finish") == 0
    assert s.inspect.engine.executor.pid == pid


FORK = """\
#include <sys/wait.h>
#include <unistd.h>
int sq(int x) {
  int y = x * x;
  return y;
}
int forked(int x) {
  int status = 0, child = fork();
  if (child == 0)
    _exit(sq(x));
  waitpid(child, &status, 0);
  return status;
}
"""


def test_a_child_goes_through(s: Session, seen: Seen) -> None:
    s.run(FORK, "c")
    s.debugger.set_breakpoints(FORK, [Breakpoint(line=4)])
    assert s.call("forked", 7) == 49 << 8
    assert seen.places == []
    seen.motions = ["next"]
    s.debugger.set_breakpoints(FORK, [Breakpoint(line=4), Breakpoint(line=8)])
    assert s.call("forked", 7) == 49 << 8


def test_the_process_is_replaced(s: Session, seen: Seen) -> None:
    s.run(SQ, "c")
    s.debugger.set_breakpoints(SQ, [Breakpoint(line=2)])
    before = text(s)
    os.kill(s.inspect.engine.executor.pid, signal.SIGKILL)
    assert s.call("sq", 3) == 9
    assert seen.lines == [2]

    def kill(debugger: Debugger) -> None:
        os.kill(s.inspect.engine.executor.pid, signal.SIGKILL)

    seen.motions = [kill]
    with pytest.raises(Fault, match="SIGKILL"):
        s.call("sq", 3)
    assert s.debugger.stop is None
    assert text(s).items() >= before.items()
    seen.motions = ["next", "next"]
    assert s.call("sq", 5) == 25
    assert seen.lines == [2, 2, 2, 3]
    assert text(s).items() >= before.items()


def test_two_sessions(s: Session, seen: Seen) -> None:
    s.run(SQ, "c")
    s.debugger.add(Breakpoint(function="sq"))
    with Session(capacity=64 << 20, spare=False) as other:
        other.debugger.start()
        beside = Seen(other)
        other.run(LOOP, "c")
        other.debugger.add(Breakpoint(function="sum"))

        def inner(debugger: Debugger) -> str:
            assert other.call("sum", 4) == 6
            return "next"

        seen.motions = [inner]
        assert s.call("sq", 3) == 9
        assert beside.places == [("sum", 2)]
        other.check()
    assert seen.lines == [2, 3]


# -- while it stands -------------------------------------------------------------------------------


def test_nothing_runs_while_it_stands(s: Session, seen: Seen) -> None:
    s.run(SQ, "c")
    s.debugger.add(Breakpoint(function="sq"))
    refused: list[str] = []

    def run(debugger: Debugger) -> str:
        for job in (lambda: s.call("sq", 2), lambda: s.run(LOOP, "c"), s.undo):
            try:
                job()
            except JitError as error:
                refused.append(str(error))
        return "continue"

    seen.motions = [run]
    assert s.call("sq", 3) == 9
    assert len(refused) == 3
    assert all("stands" in words or "running" in words for words in refused), refused
    assert s.run(LOOP, "c")


def test_nothing_is_placed_while_it_stands(s: Session, seen: Seen) -> None:
    s.run(SQ, "c")
    made = s.compile("define i32 @placed(i32 %x) {\n  ret i32 %x\n}")
    s.debugger.add(Breakpoint(function="sq"))
    before = text(s)
    refused: list[str] = []

    def place(debugger: Debugger) -> str:
        for job in (lambda: s.place(made), lambda: s.evict("sq"), lambda: s.hibernate("sq")):
            try:
                job()
            except JitError as error:
                refused.append(str(error))
        return "next"

    seen.motions = [place]
    assert s.call("sq", 3) == 9
    assert len(refused) == 3
    assert "placed" not in s
    assert text(s).items() >= before.items()
    s.place(made)
    assert s.call("placed", 4) == 4


@pytest.mark.parametrize("motion", ["continue", "next", "instruction"])
def test_interrupt_at_a_stop(s: Session, seen: Seen, motion: str) -> None:
    s.run(LOOP, "c")
    s.debugger.set_breakpoints(LOOP, [Breakpoint(line=4)])
    before = text(s)
    seen.motions = [motion, motion, lambda d: s.interrupt() or ""]
    with pytest.raises(Interrupted):
        s.call("sum", 10)
    assert s.debugger.stop is None
    assert text(s).items() >= before.items()
    s.debugger.set_breakpoints(LOOP, [])
    assert s.call("sum", 10) == 45


def test_end_at_a_stop(s: Session, seen: Seen) -> None:
    s.run(LOOP, "c")
    s.debugger.add(Breakpoint(function="sum"))
    seen.motions = [lambda d: d.end()]
    with pytest.raises(Interrupted):
        s.call("sum", 10)
    assert s.call("sum", 10) == 45


def test_a_listener_that_raises(s: Session, seen: Seen) -> None:
    s.run(SQ, "c")
    s.debugger.add(Breakpoint(function="sq"))
    before = text(s)

    def fail(debugger: Debugger) -> None:
        raise ZeroDivisionError("the listener")

    seen.motions = [fail]
    with pytest.raises(ZeroDivisionError):
        s.call("sq", 3)
    assert text(s).items() >= before.items()
    assert s.debugger.stop is None
    assert s.call("sq", 4) == 16


def test_close_while_it_stands(s: Session, seen: Seen) -> None:
    s.run(LOOP, "c")
    before = text(s)
    s.debugger.set_breakpoints(LOOP, [Breakpoint(line=4)])
    seen.motions = ["next", lambda d: d.close()]
    assert s.call("sum", 10) == 45
    assert len(seen.places) == 2
    assert not s.debugger.on
    assert text(s).items() >= before.items()
    assert s.call("sum", 10) == 45
    s.debugger.start()
    again = Seen(s)
    s.debugger.set_breakpoints(LOOP, [Breakpoint(line=2)])
    assert s.call("sum", 10) == 45
    assert again.lines == [2]


def test_close_and_start_while_it_runs(s: Session, seen: Seen) -> None:
    """By another thread: what has stopped since, or will, goes on."""
    s.run(THREADS, "c")
    s.debugger.set_breakpoints(THREADS, [Breakpoint(line=5, condition="i == -1")])
    done = threading.Event()

    def close() -> None:
        s.debugger.ask(s.debugger.close)
        done.set()

    thread = later(s, close)
    assert s.call("both", 30_000) == 2 * sum(range(30_000))
    thread.join()
    assert done.is_set()
    assert not s.debugger.on
    assert s.call("both", 20) == 380


SPIN = "volatile int stop_;\nint spin(void) {\n  int n = 0;\n  while (!stop_)\n    n++;\n  return 5;\n}\n"


def later(s: Session, job: Callable[[], object], seconds: float = 0.2) -> threading.Thread:
    """Do something in a thread while the call runs that is about to begin."""

    def run() -> None:
        until(lambda: s.inspect.engine.executor.serving)
        time.sleep(seconds)
        job()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_pause(s: Session, seen: Seen) -> None:
    s.run(SPIN, "c")
    thread = later(s, s.debugger.pause)
    seen.motions = [lambda d: d.evaluate("stop_ = 1") and "continue"]
    assert s.call("spin") == 5
    thread.join()
    assert seen.reasons == ["pause"]
    assert seen.places[0][0].startswith("spin")


def test_pause_where_nothing_runs(s: Session, seen: Seen) -> None:
    with pytest.raises(UsageError):
        s.debugger.pause()


def test_breakpoints_set_by_another_thread_while_it_runs(s: Session, seen: Seen) -> None:
    """They are met at once, and code that is being run is not torn."""
    hot = (
        "__attribute__((noinline)) int step(int x) {\n  return x + stop_;\n}\n"
        "int hot(void) {\n  long n = 0;\n  while (!stop_)\n    n += step(1);\n  return n > 0;\n}\n"
    )
    s.run("volatile int stop_;", "c")
    s.run(hot, "c")

    def set_there() -> None:
        s.debugger.set_breakpoints(hot, [Breakpoint(line=2)])

    def end(debugger: Debugger) -> str:
        debugger.evaluate("stop_ = 1")
        debugger.set_breakpoints(hot, [])
        return "continue"

    for _ in range(4):
        thread = later(s, lambda: s.debugger.ask(set_there), 0.1)
        seen.motions = ["next", "continue", end]
        assert s.call("hot") == 1
        thread.join()
        s.run("stop_ = 0;", "c")
    assert seen.places.count(("step", 2)) >= 8


def test_a_callback_to_python(s: Session, seen: Seen) -> None:
    """Stops are met around it and in what it calls; it may raise."""

    def asked(x: int) -> int:
        if x > 2:
            raise LookupError("from Python")
        return x * x

    s.export_python("asked", asked, "i32 (i32)")
    s.run(SQ, "c")
    source = "int asked(int);\nint ask(int x) {\n  int r = asked(x);\n  return r + 1;\n}\n"
    s.run(source, "c")
    s.debugger.set_breakpoints(source, [Breakpoint(line=3)])
    before = text(s)
    seen.motions = ["next"] * 5
    assert s.call("ask", 2) == 5
    assert seen.lines == [3, 4]
    with pytest.raises(LookupError):
        s.call("ask", 3)
    assert text(s).items() >= before.items()
    assert s.debugger.stop is None
    assert s.call("ask", 1) == 2


def test_inline_sessions_refuse() -> None:
    with (
        Session(capacity=64 << 20, executor="inline") as s,
        pytest.raises(UsageError, match=r"process|inline"),
    ):
        s.debugger.start()


# -- what stands on the stack is not written over ---------------------------------------------------


def test_code_that_is_on_the_stack_is_not_written_over(s: Session, seen: Seen) -> None:
    """A caller's return address may be within the first bytes of its code, where a jump to its
    debug form would be."""
    apply = (
        "define i32 @apply(ptr %f) {\n  %r = call i32 %f()\n  %t = add i32 %r, 1\n  ret i32 %t\n}"
    )
    s.run("define i32 @five() {\n  ret i32 5\n}")
    s.run(apply)
    s.run("define i32 @go() {\n  %r = call i32 @apply(ptr @five)\n  ret i32 %r\n}")
    s.run("@hold = global ptr @five")
    s.run(
        "define i32 @go2() {\n  %f = load volatile ptr, ptr @hold\n  %r = call i32 @apply(ptr %f)\n  ret i32 %r\n}"
    )
    s.debugger.add(Breakpoint(function="@five"))

    def more(debugger: Debugger) -> str:
        debugger.set_breakpoints(apply, [Breakpoint(line=3)])
        return "step_out"

    seen.motions = [more, "next", "next"]
    address = s.symbols["apply"].address
    assert s.call("apply", s.symbols["five"].address) == 6
    assert address
    assert s.call("apply", s.symbols["five"].address) == 6
    assert ("@apply", 3) in seen.places


KINDS = """enum color { RED, GREEN = 7, BLUE = -2 };
static double corner(int n, int m, double a[n][m]) { return a[n - 1][m - 1]; }
int kinds(int n) {
  static const int limit = 3;
  static const char *const word = "word";
  enum color color = BLUE;
  int line[n], rows[n][3];
  for (int i = 0; i < n; i++)
    line[i] = rows[i][0] = rows[i][1] = rows[i][2] = i;
  double all[2][2] = {{1, 2}, {3, 4}};
  int sum = (int)corner(2, 2, all) + line[n - 1] + rows[0][1] + limit + word[0];
  return sum + color;
}
"""


def test_lengths_constants_and_enumerators(s: Session) -> None:
    """What a variable says of an array's length, what clang has put in its place, and a name that
    is no variable's.  (gdb shows all of them.)"""
    seen: dict[str, str] = {}
    d = s.debugger

    def look(event: Event) -> None:
        if event.kind == "stopped":
            for text in (
                "limit", "word", "color", "GREEN", "color == BLUE", "line", "sizeof line",
                "sizeof rows", "rows[4]", "(long)(color = RED)", "color",
            ):  # fmt: skip
                seen[text] = d.evaluate(text).value
            [scope, *_] = d.scopes(0)
            seen["names"] = " ".join(v.name for v in d.variables(scope.reference))
            d.go()

    s.run(KINDS, "c")
    d.start()
    d.listener = look
    d.set_breakpoints(KINDS, [Breakpoint(line=12)])
    assert s.call("kinds", 5) == 4 + 4 + 3 + ord("w")
    d.close()
    assert seen == {
        "limit": "3", "word": '"word"', "GREEN": "GREEN", "color == BLUE": "1",
        "line": "{0, 1, 2, 3, 4}", "sizeof line": "20", "sizeof rows": "60",
        "rows[4]": "{4, 4, 4}", "(long)(color = RED)": "0", "color": "RED",
        "names": "limit word n color all sum line rows",
    }  # fmt: skip
