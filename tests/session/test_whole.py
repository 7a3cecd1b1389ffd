"""Every public operation is whole, whatever ends it and at whatever line: done, or not begun."""

from __future__ import annotations

import contextlib
import random
import re
import signal
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from jitkernel import Session
from jitkernel.errors import JitError
from jitkernel.session import CellOptions
from tests.interruption import Torn, state, torn
from tests.seeds import sampled

T = "define i32 @t(i32 %x) {\n  %r = add i32 %x, 1\n  ret i32 %r\n}"
T2 = T.replace("add", "mul")
MISSING = (
    "declare i32 @later(i32)\n"
    "define i32 @ul(i32 %x) {\n  %r = call i32 @later(i32 %x)\n  ret i32 %r\n}"
)
CONSTRUCTOR = (
    "@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] "
    "[{ i32, ptr, ptr } { i32 65535, ptr @ini, ptr null }]\n"
    "define void @ini() {\n  store i32 77, ptr @n\n  ret void\n}"
)
TYPED = "%pt = type { i8, i32 }\n@pt = global %pt { i8 1, i32 2 }"
RETYPED = "define i64 @t(i64 %x) {\n  ret i64 %x\n}"

#: What is done, and what before it.
OPERATIONS: dict[str, tuple[Callable[[Session], Any], ...]] = {
    "define": (lambda s: s.run(T.replace("@t", "@new") + "\n@new(2)"),),
    "redefine": (lambda s: s.run(T2),),
    "run again": (lambda s: s.run(T2, cell_id="a"),),
    "run again without": (lambda s: s.run("@other = global i8 1", cell_id="a"),),
    "variables": (lambda s: s.run("@n = global i32 6\n@q = global i64 4", cell_id="b"),),
    "retype": (lambda s: s.run(RETYPED, options=CellOptions(retype=True)),),
    "missing": (lambda s: s.run(MISSING),),
    "types": (lambda s: s.run(TYPED.replace("i8", "i16")), lambda s: s.run(TYPED)),
    "define what is missing": (
        lambda s: s.run(T.replace("@t", "@later")),
        lambda s: s.run(MISSING),
    ),
    "construct": (lambda s: s.run(CONSTRUCTOR),),
    "call line": (lambda s: s.run("@uset(4)"),),
    "string": (lambda s: s.run('@puts("hello there")'),),
    "instructions": (lambda s: s.run("%x = add i32 40, 2\n%y = call i32 @t(i32 %x)"),),
    "assign": (lambda s: s.run("@n = 8\n@fresh = i64 5"),),
    "fail to compile": (lambda s: s.run("define i32 @t(i32 %x) {\n ret i64 %x\n}"),),
    "fail to link": (
        lambda s: s.run(
            "@ext = external global i32\n"
            "define i32 @t(i32 %x) {\n %v = load i32, ptr @ext\n ret i32 %v\n}"
        ),
    ),
    "fail to agree": (lambda s: s.run(RETYPED),),
    "fault": (lambda s: s.run("%v = load volatile i64, ptr null"),),
    "many": (lambda s: s.run_many([T.replace("@t", f"@m{i}") for i in range(3)]),),
    "call": (lambda s: s.call("uset", 4),),
    "call a library": (lambda s: s.call("abs", -4),),
    "value": (lambda s: s.value("@uset(4)"),),
    "time": (lambda s: s.time("@uset(4)", number=3, repeat=2),),
    "compile and place": (lambda s: s.place(s.compile(T2)),),
    "evict, force": (lambda s: s.evict("t", force=True),),
    "evict, cascade": (lambda s: s.evict("t", cascade=True),),
    "evict": (lambda s: s.evict("lone"),),
    "undo": (lambda s: s.undo(),),
    "undo three": (lambda s: s.undo(3),),
    "undo in the middle": (lambda s: s.undo(cell=5),),
    "undo an eviction": (lambda s: s.undo(), lambda s: s.evict("t", force=True)),
    "undo a redefinition": (lambda s: s.undo(), lambda s: s.run(T2)),
    "redo": (lambda s: s.redo(), lambda s: s.undo(2)),
    "hibernate": (lambda s: s.hibernate("t", "lone"),),
    "wake": (lambda s: s.wake("t"), lambda s: s.hibernate("t", "uset")),
    "call what is away": (lambda s: s.call("uset", 4), lambda s: s.hibernate("t", "uset")),
    "keep": (lambda s: s.keep("t"), lambda s: s.hibernate("t")),
    "budget": (lambda s: setattr(s, "budget", 8),),
    "collect": (lambda s: s.gc(),),
    "collect for good": (lambda s: s.gc(undo=True), lambda s: s.evict("lone")),
    "reset": (lambda s: s.reset(),),
    "contexts": (lambda s: s.configure("context", "kept"),),
    "load": (lambda s: s.load("libm.so.6"),),
    "save": (lambda s: s.save("saved.jks"),),
    "respawn": (lambda s: s.respawn(),),
    "watch": (lambda s: s.watch("n"),),
    "environment": (lambda s: s.setenv("A", "b"),),
    "variable": (lambda s: setattr(s["n"], "value", 9),),
    "check": (lambda s: s.check(),),
}
#: What can be done once in a session of `_begin`; the rest again and again.
ONCE = re.compile(
    "evict|undo|redo|hibernate|wake|call what|keep|collect|reset|define what|assign|many"
)
#: Each so many lines is one that ends the operation, and the first is one of so many.
STRIDE, STRIDE_SIGNAL, FIRST = 1997, 8819, 461


def _begin(name: str) -> Session:
    s = Session(capacity=64 << 20, object_cache=False, spare=False)
    try:
        s.run(T, cell_id="a")
        s.run("@n = global i32 5\n@p = global ptr @t\n@k = constant [2 x i32] [i32 1, i32 2]",
              cell_id="b")  # fmt: skip
        s.run("define i32 @uset(i32 %x) {\n  %r = call i32 @t(i32 %x)\n  ret i32 %r\n}")
        s.run("define i32 @viap(i32 %x) {\n  %f = load ptr, ptr @p\n"
              "  %r = call i32 %f(i32 %x)\n  ret i32 %r\n}")  # fmt: skip
        s.run(T.replace("@t", "@lone"))
        s.run('@puts("hi")')
        s.run("@uset(3)\n@n = 7")
        for step in OPERATIONS[name][1:]:
            step(s)
    except BaseException:
        s.close()
        raise
    return s


def _goes_on(s: Session) -> None:
    """The books are right, callers lead to what is defined, and new cells can be run."""
    s.check()
    assert s.run(T.replace("@t", "@probe") + "\n@probe(5)").value == 6
    if "t" in s and "uset" in s and str(s.symbols["t"].type).startswith("i32"):
        assert s.call("uset", 10) == s.call("t", 10)
        assert "viap" not in s or s.call("viap", 10) == s.call("t", 10)
    s.undo()
    s.check()


def _tear(name: str, stride: int, by_signal: bool, seed: int) -> int:
    """End an operation at one of `stride` lines after the other; at how many it was."""
    operation = OPERATIONS[name][0]
    rng = random.Random(f"{name} {seed}")
    s, line, times = _begin(name), rng.randrange(1, min(stride, FIRST) + 1), 0
    try:
        before = state(s)
        while True:
            where, error = torn(partial(operation, s), line, by_signal)
            if not where:
                break
            times += 1
            line += rng.randrange(1, 2 * stride)
            wanted = KeyboardInterrupt if by_signal else (Torn, JitError)
            assert isinstance(error, wanted), (where, error)
            s.check()
            if state(s) != before:  # it had passed the point of no return
                try:
                    _goes_on(s)
                except Exception as error:
                    raise AssertionError(f"torn at {where}") from error
                if ONCE.match(name):
                    s.close()
                    s = _begin(name)
                before = state(s)
        _goes_on(s)
        return times
    finally:
        s.close()


@pytest.mark.parametrize("name", sampled(OPERATIONS, 3))
def test_an_exception_at_any_line(name: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _tear(name, STRIDE, False, 1)


@pytest.mark.parametrize("name", sampled(OPERATIONS, 5))
def test_ctrl_c_at_any_line(name: str, tmp_path, monkeypatch) -> None:
    """One press is enough: the operation ends whole, then KeyboardInterrupt is raised."""
    monkeypatch.chdir(tmp_path)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        _tear(name, STRIDE_SIGNAL, True, 1)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("by_signal", [False, True])
def test_many_lines(by_signal: bool, tmp_path, monkeypatch) -> None:
    """At least 5,000 lines of all operations together, of each kind."""
    monkeypatch.chdir(tmp_path)
    with contextlib.ExitStack() as stack:
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        stack.callback(signal.signal, signal.SIGINT, before)
        total = 0
        for name in OPERATIONS:
            times = _tear(name, 12, by_signal, 2)
            total += times
            print(f"{name}: {times} lines", flush=True)
    print(f"{total} lines of {len(OPERATIONS)} operations, nothing wrong", flush=True)
    assert total >= 5000
