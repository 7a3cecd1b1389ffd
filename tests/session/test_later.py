"""What Python functions that cells call put off; functions that are defined again when they are
called often."""

from __future__ import annotations

import threading
import weakref

import pytest

from jitkernel import Session
from jitkernel.errors import Fault, UsageError
from tests.busy import soon, until

RUNS = "void tell(int n); int run(int n) { tell(n); return n + 1; }"

THREADS = """#include <pthread.h>
_Atomic long rounds, wrong; volatile int stop; static pthread_t threads[4];
long f(long x) { static long kept = 1; return x + kept; }
static void *work(void *of) {
    while (!stop) { long r = f(rounds++ & 7); if (r < 1 || r > 8) wrong++; }
    return 0;
}
int go(void) {
    int failed = 0;
    for (int i = 0; i < 4; i++) failed |= pthread_create(threads + i, 0, work, 0);
    return failed;
}
void finish(void) { stop = 1; for (int i = 0; i < 4; i++) pthread_join(threads[i], 0); }
"""


def test_a_callback_defines_something_when_the_call_is_over(either):
    with either() as s:
        seen = []

        @s.export_python("tell", type="void (int)")
        def tell(n):
            seen.append(n)
            s.later(s.run, f"@made{n} = global i32 {n}")
            s.later(lambda: seen.append(f"made{n}" in s))

        s.run(RUNS, "c")
        assert (s.call("run", 5), seen) == (6, [5, True])
        assert s["made5"].value == 5
        assert s.undo() == ["undone: cell 3: @made5 = global i32 5"]
        s.check()


def test_at_once_where_nothing_is_in_progress(s):
    seen = []
    s.later(seen.append, 1)
    assert seen == [1]


def test_what_puts_off_more(s):
    seen = []

    def again(n):
        seen.append(n)
        if n:
            s.later(again, n - 1)
            seen.append("put off")

    s.later(again, 2)
    assert seen == [2, "put off", 1, "put off", 0]


def test_what_fails_is_told_with_the_next_cell(s):
    s.later(lambda: 1 // 0)
    s.later(s.run, "define i32 @f() { ret i32 }")
    notes = s.run("@f.later = global i32 0").notes
    assert [n for n in notes if "ZeroDivisionError" in n and "test_later.py, line" in n]
    assert [n for n in notes if "session.later put off failed: " in n and "expected" in n]


@pytest.mark.process
def test_it_is_done_also_when_the_call_was_stopped(s):
    s.export_python("tell", lambda n: s.later(s.run, "@after = global i8 1"), "void (int)")
    with pytest.raises(Fault):
        s.run("void tell(int n); int run(int *p) { tell(1); return *p; }\nrun(0);", "c")
    assert s["after"].value == 1


@pytest.mark.process
def test_another_thread_of_python_need_not_wait(s):
    """What it puts off is done by whoever has the session, when that is done."""
    seen = []
    s.run(
        "#include <unistd.h>\nvolatile int over;\nvoid rest(void) { while (!over) usleep(1000); }",
        "c",
    )

    def put_off():
        s.later(lambda: seen.append(threading.current_thread().name))
        seen.append("went on")
        s.inspect.engine.arena.write(s["over"].address, b"\1")
        return True

    with soon(lambda: s.inspect.engine.executor.serving and put_off(), 0.05):
        s.call("rest")
    assert sorted(seen) == ["MainThread", "went on"]


def test_a_closed_session_forgets_it(fresh):
    s = fresh()
    s.export_python("tell", lambda n: (s.later(s.run, "@x = global i8 1"), s.close()), "void (int)")
    s.run(RUNS, "c")
    with pytest.raises(Exception, match="closed"):
        s.call("run", 1)
    s.later(lambda: pytest.fail("it is closed"))


SLOW = "define i32 @slow() { ret i32 1 }\ndefine i32 @user() { %r = call i32 @slow() ret i32 %r }"
FAST = "define i32 @slow() { ret i32 2 }"


def test_a_function_is_defined_again_when_it_is_hot(either):
    with either() as s:
        s.run(SLOW)
        handles = []
        s.on_hot("@slow", 3, lambda f: handles.append(f.name) or FAST)
        assert [s.call("user") for _ in range(5)] == [1, 1, 1, 2, 2]
        assert (handles, s["slow.calls"].value) == (["slow"], 3)
        assert [n for n in s.run("@slow()").notes if "called 3 times" in n]
        s.undo()
        assert (s.call("slow"), "slow.calls" in s) == (1, True)
        assert s.undo() == ["undone: cell 2: define i32 @slow()"]
        assert (s.call("user"), "slow.calls" in s) == (1, False)
        s.check()


def test_it_stays_where_nothing_is_given_for_it(s):
    s.run(SLOW)
    calls = []
    s.on_hot("slow", 2, calls.append)
    assert [s.call("user") for _ in range(5)] == [1] * 5
    assert (len(calls), s["slow.calls"].value) == (1, 5)


def test_one_that_was_defined_again_before_is_left_alone(s):
    s.run(SLOW)
    s.on_hot("slow", 2, lambda f: pytest.fail("it is another function now"))
    s.run("define i32 @slow() { ret i32 7 }")
    assert [s.call("user") for _ in range(4)] == [7] * 4


def test_a_session_that_nobody_has_ends():
    other = Session(capacity=64 << 20)
    other.run(SLOW)
    other.on_hot("slow", 2, lambda f: FAST)
    assert [other.call("user") for _ in range(3)] == [1, 1, 2]
    gone = weakref.ref(other)
    del other
    assert gone() is None


def test_statics_keep_their_values(s):
    s.run("int next(void) { static int n; return ++n; }", "c")
    assert s.call("next") == 1
    s.on_hot("next", 100, lambda f: None)
    assert [s.call("next") for _ in range(3)] == [2, 3, 4]


def test_kaleidoscope(s):
    s.run("def add(a b) a + b;", "kaleidoscope")
    s.on_hot("add", 2, lambda f: "define double @add(double %a, double %b) { ret double 9.0 }")
    assert [s.call("add", 1, 2) for _ in range(4)] == [3, 3, 9, 9]


@pytest.mark.process
def test_threads_come_to_the_new_definition(s):
    s.run(THREADS, "c")
    s.on_hot("f", 100_000, lambda f: "define i64 @f(i64 %x) { %r = add i64 %x, 1  ret i64 %r }")
    assert s.call("go") == 0
    assert until(lambda: s.serve(0.02) or len(s.cells) > 1)
    calls, rounds = s["f.calls"].value, s["rounds"].value
    assert until(lambda: s.serve(0.05) or s["rounds"].value > rounds + 4)
    # Nobody counts any more, but for a call that each thread may have been in.
    assert s["f.calls"].value <= calls + 4
    s.call("finish")
    assert (s["wrong"].value, calls >= 100_000) == (0, True)


@pytest.mark.parametrize(
    ("name", "calls", "words"),
    [
        ("nothing", 1, "nothing of the session is called @nothing"),
        ("value", 1, "no function with code of its own"),
        ("slow", 0, "One at least"),
    ],
)
def test_what_cannot_be_counted(s, name, calls, words):
    s.run(SLOW + "\n@value = global i32 1")
    before = len(s.cells)
    with pytest.raises(UsageError, match=words):
        s.on_hot(name, calls, lambda f: None)
    assert len(s.cells) == before


OPERATIONS = """#include <pthread.h>
_Atomic long rounds, wrong, seen[4]; volatile int stop; static pthread_t threads[4];
__attribute__((noinline)) long op(long x) { return 0; }
static void *work(void *of) {
    long last = 0;
    while (!stop) {
        long r = op(rounds++);
        if (r < 0 || r > 3) wrong++; else seen[r]++;
    }
    return 0;
}
int go(void) {
    int failed = 0;
    for (int i = 0; i < 4; i++) failed |= pthread_create(threads + i, 0, work, 0);
    return failed;
}
void finish(void) { stop = 1; for (int i = 0; i < 4; i++) pthread_join(threads[i], 0); }
"""


@pytest.mark.process
@pytest.mark.parametrize("often", [20, pytest.param(1_000, marks=pytest.mark.soak)])
def test_redefined_under_four_threads(fresh, often: int) -> None:
    """Each version is called, no other; the memory of former ones comes back in the end."""
    with fresh(opt_level=2) as s:
        s.run(OPERATIONS, "c")
        s.run("define i64 @op(i64 %x) noinline { ret i64 0 }")
        assert s.call("go") == 0
        for n in range(often):
            made = s.run(f"define i64 @op(i64 %x) noinline {{ ret i64 {n & 3} }}")
            # They wait for a part of the step that says so.
            assert 0 < made.cell.paused <= made.cell.times[-1]
        s.call("finish")
        assert s["wrong"].value == 0 and min(s["seen"].array) > 0
        s.gc(undo=True)
        s.check()
        assert s.memory()["zones"]["text"]["used"] < 64 << 10
