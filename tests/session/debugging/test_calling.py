"""Functions that are called on the thread that stands: results, and nothing else of the thread."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jitkernel import Session
from jitkernel.errors import Fault, JitError, UsageError
from jitkernel.session.debugging.debugger import Debugger
from jitkernel.session.debugging.records import Breakpoint, Event
from tests.busy import soon
from tests.session.debugging.test_prompt import Talk

pytestmark = pytest.mark.process

FUNCTIONS = r"""#include <math.h>
#include <stdio.h>
#include <string.h>
#include <pthread.h>
struct pt { int x, y; };
int g = 5;
int sq(int x) { return x * x; }
double half(double v, int k) { return v / 2 + k; }
float twice(float a) { return a * 2; }
unsigned char up(unsigned char c) { return c + 1; }
signed char down(signed char c) { return c - 1; }
int many(int a, int b, int c, int d, int e, int f, int h, int i, long j) {
  return a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6 + h * 7 + i * 8 + j * 9;
}
double reals(double a, float b, double c, double d, double e, double f, double h, double i,
             double j, int k) {
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * h + 8 * i + 9 * j + 10 * k;
}
int bad(int *p) {
  return *p;
}
volatile int rounds; int forever(void) { for (;;) rounds++; }
long deep(long n) { volatile char room[4096]; room[0] = n; return n ? deep(n - 1) + 1 : 0; }
const char *name(int k) { return k ? "yes" : "no"; }
struct pt point = { 3, 4 };
struct pt *where(void) { return &point; }
struct pt whole(void) { return point; }
int sum(const int *v, int n) { int s = 0; for (int i = 0; i < n; i++) s += v[i]; return s; }
void set(int v) { g = v; printf("set %d\n", v); }
long double wide(void) { return 1; }
int (*chosen)(int) = sq;
int aligned(void) { return (int)((unsigned long)__builtin_frame_address(0) % 16); }
unsigned long length(const char *text) { return strlen(text) + (unsigned long)cbrt(strlen(text)); }
int apply(int (*f)(int), int x) { return f(x); }
"""
IR = """define i64 @plus(i64 %a, ptr %p) {
  %r = add i64 %a, 1
  ret i64 %r
}
define i1 @below(i8 %x) {
  %r = icmp slt i8 %x, 0
  ret i1 %r
}
define <4 x i32> @vector(<4 x i32> %x) {
  ret <4 x i32> %x
}
define fastcc i32 @fast(i32 %x) {
  ret i32 %x
}
"""
USE = """int use(int n) {
  int v[3] = { n, 2, 3 }; struct pt *at = &point;
  double d = n * 1.5;
  float f = 0.5f;
  d = d * 2 + f;
  return v[0] + v[1] + (int)d;
}
"""


class Stand:
    """A listener that does something where the program stands, then goes on."""

    def __init__(self, s: Session, do: Callable[[Debugger], Any]):
        self.session, self.do, self.found = s, do, []  # type: ignore[var-annotated]
        self.said: list[str] = []
        self.error: BaseException | None = None
        s.debugger.listener = self.hear

    def hear(self, event: Event) -> None:
        if event.kind == "output":
            self.said.append(event.text)
        if event.kind == "stopped":
            debugger = self.session.debugger
            try:
                self.found.append(self.do(debugger))
            except BaseException as error:
                self.error = error
            finally:
                debugger.go()


def stand(s: Session, do: Callable[[Debugger], Any], call: tuple[Any, ...] = ("use", 5)) -> Any:
    """Do something at line 5 of `use`; what it gave, if the result is what it is else."""
    held = Stand(s, do)
    points = s.debugger.set_breakpoints(USE, [Breakpoint(line=5)])
    assert points[0].verified or not points[0].message
    result = s.call(*call)
    if held.error is not None:
        raise held.error
    assert result == (22 if call == ("use", 5) else result)
    return held.found[0]


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    pytest.importorskip("ziglang")
    with Session(capacity=64 << 20, spare=False) as made:
        made.run(FUNCTIONS, "c")
        made.run(IR)
        made.run(USE, "c")
        yield made


@pytest.fixture
def s(session: Session) -> Iterator[Session]:
    session.debugger.start()
    yield session
    session.debugger.close()
    session.check()


def called(debugger: Debugger, text: str) -> tuple[str, str]:
    found = debugger.evaluate(text, calls=True)
    return found.type, found.value


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("sq(n)", ("int", "25")),
        ("sq(sq(2)) + 1", ("int", "17")),
        ("half(d, 3)", ("double", "6.75")),
        ("twice(f)", ("float", "1.0")),
        ("up(255)", ("unsigned char", "0")),
        ("up((unsigned char)65)", ("unsigned char", "66")),
        ("down(-128)", ("signed char", "127")),
        ("many(1, 2, 3, 4, 5, 6, 7, 8, 9)", ("int", "285")),
        ("many(-1, 0, 0, 0, 0, 0, -7, 0, -9)", ("int", "-131")),
        ("reals(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)", ("double", "385.0")),
        ("sum(v, 3)", ("int", "10")),
        ("where()->y", ("int", "4")),
        ("strlen(name(1))", ("unsigned long", "3")),
        ("chosen(7)", ("int", "49")),
        ("apply(sq, 3)", ("int", "9")),
        ("apply(chosen, 4)", ("int", "16")),
        ("plus(41, 0)", ("i64", "42")),
        ("@plus(n, 0) == 6", ("int", "1")),
        ("below(-3)", ("i1", "true")),
        ("below(3)", ("i1", "false")),
        ("aligned()", ("int", "0")),
        ("cbrt(d + 0.5)", ("double", "2.0")),
        ("n ? 1 : sq(bad(0))", ("int", "1")),
        ("0 && bad(0)", ("int", "0")),
        ("sizeof(bad(0))", ("unsigned long", "4")),
    ],
)
def test_results(s: Session, text: str, shown: tuple[str, str]) -> None:
    def do(debugger: Debugger) -> tuple[str, str]:
        before = debugger.registers()
        found = called(debugger, text)
        assert debugger.registers() == before
        return found

    assert stand(s, do) == shown


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sq(1, 2)", "sq takes 1 argument, not 2"),
        ("sq()", "sq takes 1 argument, not 0"),
        ("sq(v)", "argument 1 of sq is i32, not int"),
        ("bad(5)", "argument 1 of bad is an address"),
        ("vector(1)", "<4 x i32> is neither a number of up to 64 bits nor an address"),
        ("fast(1)", "its convention has fastcc"),
        ("wide()", "x86_fp80 is neither a number"),
        ("nosuch(1)", "nothing here is called nosuch"),
        ("n(1)", "what is called is a function, not a value of int"),
        ("((int (*)(int))8)(1)", "no cell defines the function at that address"),
        ("bad(0)", "SIGSEGV at bad"),
        ("deep(1 << 30)", "SIGSEGV at deep"),
    ],
)
def test_refusals_and_faults_leave_everything_as_it_was(s: Session, text: str, words: str) -> None:
    def do(debugger: Debugger) -> str:
        before, frames = debugger.registers(), debugger.frames()
        with pytest.raises(UsageError) as caught:
            called(debugger, text)
        assert debugger.registers() == before and debugger.frames() == frames
        assert called(debugger, "sq(3)") == ("int", "9")
        return str(caught.value)

    assert words in stand(s, do)


def test_conditions_watches_and_whoever_does_not_say_so_run_no_code(s: Session) -> None:
    def do(debugger: Debugger) -> None:
        for look in (debugger.evaluate, debugger.watch):
            with pytest.raises(UsageError, match=r"not evaluated here|nothing here is called"):
                look("sq(3)")

    stand(s, do)
    held = Stand(s, lambda debugger: None)
    s.debugger.set_breakpoints(USE, [Breakpoint(line=5, condition="sq(3) == 9", log="{sq(3)}")])
    assert s.call("use", 5) == 22
    assert any("calls are not evaluated here" in said for said in held.said)


def test_a_breakpoint_in_it_ends_it_and_false_conditions_do_not(s: Session) -> None:
    def do(debugger: Debugger) -> list[str]:
        debugger.add(Breakpoint(function="sq", condition="x == 4"))
        assert called(debugger, "sq(3)") == ("int", "9")
        with pytest.raises(UsageError, match="it met breakpoint"):
            called(debugger, "sq(4)")
        return [frame.name for frame in debugger.frames()]

    assert stand(s, do)[0] == "use"


def test_one_that_never_returns_is_ended_by_an_interrupt(s: Session) -> None:
    def do(debugger: Debugger) -> tuple[str, str]:
        rounds = s["rounds"].address

        def press() -> bool:
            return any(s.inspect.engine.arena.read(rounds, 4)) and s.interrupt() is None

        with soon(press), pytest.raises(UsageError, match="it was interrupted"):
            called(debugger, "forever()")
        return called(debugger, "sq(6)")

    assert stand(s, do) == ("int", "36")
    assert s.call("sq", 5) == 25  # nothing of the interrupt is left


def test_what_it_changes_and_prints_stays(s: Session, capfd: Any) -> None:
    found = stand(s, lambda debugger: (called(debugger, "set(77)"), called(debugger, "g")))
    assert found == (("void", "void"), ("int", "77")) and s["g"].value == 77
    assert "set 77\n" in capfd.readouterr().out


def test_vector_registers_are_as_before(s: Session) -> None:
    """Optimised code has `d` in one while `half` runs."""
    s.debugger.optimised = True
    try:
        for text in ("half(8.5, 1)", "twice(3)", "cbrt(8.0)"):
            stand(s, lambda debugger, text=text: called(debugger, text))  # type: ignore[misc]
    finally:
        s.debugger.optimised = False


def test_at_a_fault_and_then_on(s: Session) -> None:
    s.debugger.faults = True
    held = Stand(s, lambda debugger: (debugger.stop.reason, called(debugger, "sq(3)")[1]))  # type: ignore[union-attr]
    with pytest.raises(Fault, match="at bad"):
        s.call("bad", None)
    assert held.found == [("exception", "9")] and held.error is None
    held = Stand(s, lambda debugger: (called(debugger, "sq(3)"), debugger.evaluate("p = &g")))
    assert s.call("bad", None) == s["g"].value and held.error is None
    s.debugger.faults = False


def test_on_a_thread_of_its_own_while_others_run(s: Session) -> None:
    s.run(
        "volatile int beats, over;\n"
        "static void *beat(void *p) { while (!over) beats++; return 0; }\n"
        "int threads(int n) { pthread_t t; pthread_create(&t, 0, beat, 0); int r = sq(n);\n"
        "  over = 1; pthread_join(t, 0); return r; }",
        "c",
    )

    def do(debugger: Debugger) -> None:
        for number in range(20):
            assert called(debugger, f"many({number}, 0, 0, 0, 0, 0, 0, 0, 0)")[1] == str(number)

    held = Stand(s, do)
    s.debugger.add(Breakpoint(function="sq", temporary=True))
    assert s.call("threads", 6) == 36
    assert held.error is None and len(held.found) == 1


def test_two_hundred_random_calls_are_those_of_the_session(s: Session) -> None:
    r = random.Random(7)

    def do(debugger: Debugger) -> int:
        for _ in range(200):
            whole = [r.randrange(-(2**31), 2**31) // 64 for _ in range(9)]
            words = ", ".join(f"({n})" for n in whole)
            mine = called(debugger, f"many({words})")[1]
            wanted = sum(n * (i + 1) for i, n in enumerate(whole))
            assert int(mine) == (wanted + 2**31) % 2**32 - 2**31
            real = [r.randrange(-999, 999) / 8 for _ in range(9)]
            words = ", ".join(f"({n})" for n in real)
            mine = called(debugger, f"reals({words}, 3)")[1]
            assert math.isclose(
                float(mine), sum(n * (i + 1) for i, n in enumerate(real)) + 30, abs_tol=1e-9
            )
        return 1

    assert stand(s, do)


def test_at_the_prompt(s: Session) -> None:
    talk = Talk(s)
    s.debugger.set_breakpoints(USE, [Breakpoint(line=5)])
    shown = talk.run(
        "use(5)", "p sq(n)", "call half(2.0, 1)", "sq(3) + 1", "n = sq(2)", "set(3)", "display sq(2)",
        "p bad(0)", "p $rip == $rip", "c",
    )  # fmt: skip
    assert "(int) 25\n(double) 2.0\n(int) 10\nn = 4\n" in shown and "void" in shown
    assert "calls are not evaluated here" in shown and "SIGSEGV" in shown
    assert s.results.last.python == 22


def test_what_leaves_by_longjmp_and_what_ends_the_process(s: Session) -> None:
    s.run("#include <stdlib.h>\nint leave(int c) { exit(c); }", "c")
    held = Stand(s, lambda debugger: called(debugger, "leave(3)"))
    s.debugger.set_breakpoints(USE, [Breakpoint(line=5)])
    began = time.monotonic()
    with pytest.raises(JitError):
        s.call("use", 5)
    assert held.error is None or isinstance(held.error, UsageError)
    assert time.monotonic() - began < 100 and s.call("sq", 4) == 16
