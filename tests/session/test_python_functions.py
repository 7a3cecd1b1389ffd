"""Functions of Python's that cells call."""

from __future__ import annotations

import os
import signal
import time
from functools import partial

import pytest

from jitkernel import Session
from jitkernel.errors import Fault, Interrupted, JitError, UsageError
from tests.busy import soon

pytestmark = pytest.mark.process

LOOP = """int step(int, double);
int loop(int n) { int r; for (int i = 0; i < n; i++) r = step(i, 1.5); return r; }"""


def test_a_cell_calls_python(s):
    seen = []

    def step(i, x):
        seen.append((i, x))
        return i * 10

    s.export_python("step", step, "i32 (i32, double)")
    s.run(LOOP, "c")
    assert s.call("loop", 3) == 20
    assert seen == [(0, 1.5), (1, 1.5), (2, 1.5)]
    assert s.run("@step(i32 4, double 0.5)").value == 40


def test_as_a_decorator(s):
    @s.export_python("twice", type="i64 (i64)")
    def twice(x):
        return 2 * x

    assert twice(2) == 4 == s["twice"](2)


@pytest.mark.parametrize(
    ("type", "arguments", "result"),
    [
        ("void ()", (), None),
        ("i1 (i1)", (True,), False),
        ("i8 (i8, i64)", (-3, 1 << 40), -128),
        ("float (half, float, double)", (0.5, 0.25, 0.1), 2.5),
        ("ptr (ptr)", (0x1234,), 0x5678),
        ("{ i32, double } ({ i8, i64 })", ((1, 2),), (3, 4.5)),
        ("[3 x i16] (<4 x i32>)", ((1, 2, 3, 4),), (5, 6, 7)),
        ("i128 (i128)", (-(1 << 100),), 1 << 90),
    ],
)
def test_types(s, type, arguments, result):
    seen = []

    def function(*given):
        seen.append(given)
        return result

    s.export_python("f", function, type)
    assert s.call("f", *arguments) == result
    assert seen == [arguments]


def test_what_it_raises_is_raised_where_the_cell_was_called(s):
    class Mine(Exception):
        pass

    def step(i, x):
        raise Mine(i)

    s.export_python("step", step, "i32 (i32, double)")
    s.run("@count = global i32 0")
    s.run(LOOP, "c")
    with pytest.raises(Mine, match="0"):
        s.call("loop", 3)
    with pytest.raises(Mine):
        s.run("@loop(2)")
    s.export_python("step", lambda i, x: i, "i32 (i32, double)")
    assert s.call("loop", 3) == 2  # its callers follow


def test_results_that_are_none_of_the_type(s):
    for result, words in [("text", "own"), (None, "cannot be i32"), (1 << 40, "does not fit")]:
        kind = "ptr ()" if isinstance(result, str) else "i32 ()"
        s.export_python("f", lambda result=result: result, kind)
        with pytest.raises(UsageError, match=words):
            s.call("f")


def test_what_cannot_be_exported(s):
    for function, kind in [(3, "void ()"), (abs, "nonsense"), (abs, "i32 (...)"), (abs, "i32")]:
        with pytest.raises(JitError):
            s.export_python("f", function, kind)
    with pytest.raises(UsageError, match="name"):
        s.export_python("", abs, "void ()")
    assert "f" not in s


def test_it_reads_and_writes_what_it_is_given(s):
    s.run('@text = global [6 x i8] c"hello\\00"')

    def upper(at, size):
        s.write(at, s.read(at, size).upper())

    s.export_python("upper", upper, "void (ptr, i64)")
    s.run("define void @do() {\n  call void @upper(ptr @text, i64 5)\n  ret void\n}\n@do()")
    assert s.read(s["text"].address, 6) == b"HELLO\0"


def test_it_cannot_call_the_session(s):
    s.run("define void @f() {\n  ret void\n}")
    s.export_python("back", lambda: s.call("f"), "void ()")
    with pytest.raises(JitError, match="running"):
        s.call("back")
    s.export_python("define", lambda: s.run("@x = global i32 1"), "void ()")
    with pytest.raises(JitError, match="running"):
        s.call("define")
    assert s.call("f") is None


def test_it_is_interrupted(s):
    begun = []

    def spin():
        begun.append(True)
        while True:
            time.sleep(0.01)

    s.export_python("spin", spin, "void ()")
    with soon(lambda: begun and s.interrupt() is None), pytest.raises(Interrupted):
        s.call("spin")
    begun.clear()
    press = partial(os.kill, os.getpid(), signal.SIGINT)
    with soon(lambda: begun and press() is None), pytest.raises((Interrupted, KeyboardInterrupt)):
        s.call("spin")
    s.export_python("spin", lambda: None, "void ()")
    assert s.call("spin") is None


def test_a_crash_after_it_and_a_crash_before_it(s):
    s.export_python("f", lambda: 1, "i32 ()")
    with pytest.raises(Fault):
        s.run("%x = call i32 @f()\nstore volatile i32 0, ptr null")
    assert s.call("f") == 1


def test_from_threads_of_the_program(s):
    seen = []
    s.export_python("note", seen.append, "void (i64)")
    s.run(
        "define ptr @work(ptr %n) {\n  %i = ptrtoint ptr %n to i64\n"
        "  call void @note(i64 %i)\n  ret ptr null\n}\n"
        "define void @go() {\n"
        + "".join(
            f"  %t{i} = alloca i64\n"
            f"  call i32 @pthread_create(ptr %t{i}, ptr null, ptr @work, ptr inttoptr (i64 {i} to ptr))\n"
            for i in range(4)
        )
        + "".join(
            f"  %v{i} = load i64, ptr %t{i}\n  call i32 @pthread_join(i64 %v{i}, ptr null)\n"
            for i in range(4)
        )
        + "  ret void\n}\ndeclare i32 @pthread_create(ptr, ptr, ptr, ptr)\n"
        "declare i32 @pthread_join(i64, ptr)"
    )
    s.call("go")
    assert sorted(seen) == [0, 1, 2, 3]


def test_a_fork_gets_zeros(s):
    s.export_python("f", lambda: 7, "i32 ()")
    s.run(
        "declare i32 @fork()\ndeclare i32 @waitpid(i32, ptr, i32)\ndeclare void @_exit(i32)\n"
        "define i32 @go() {\n  %status = alloca i32\n  %pid = call i32 @fork()\n"
        "  %child = icmp eq i32 %pid, 0\n  br i1 %child, label %in, label %out\n"
        "in:\n  %r = call i32 @f()\n  call void @_exit(i32 %r)\n  unreachable\n"
        "out:\n  %w = call i32 @waitpid(i32 %pid, ptr %status, i32 0)\n"
        "  %s = load i32, ptr %status\n  ret i32 %s\n}"
    )
    assert s.call("go") == 0
    assert s.call("f") == 7


def test_a_restored_session_says_that_it_is_gone(s, tmp_path):
    s.export_python("f", lambda: 7, "i32 ()")
    path = str(tmp_path / "s.jks")
    s.save(path)
    with Session.restore(path) as other:
        with pytest.raises(UsageError, match="restored"):
            other.call("f")
        other.export_python("f", lambda: 8, "i32 ()")
        assert other.call("f") == 8
