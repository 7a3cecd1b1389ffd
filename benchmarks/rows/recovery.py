"""What stops a cell, and how soon the next one works.  Start from `faults`."""

from __future__ import annotations

import os
import signal
import statistics
import threading
import time
from collections.abc import Iterator

from benchmarks.harness import Figure, Scale
from benchmarks.programs import tiny
from jitkernel import Session
from jitkernel.errors import JitError
from jitkernel.session import VariableHandle

__all__ = ["FAULTS", "LOSSES", "STOPPED", "faults", "interrupts"]

_DECLARED = """
declare void @abort()
declare void @exit(i32)
declare void @pthread_exit(ptr)
declare void @__stack_chk_fail()
declare i64 @strlen(ptr)
declare i32 @printf(ptr, ...)
declare ptr @malloc(i64)
declare void @free(ptr)
declare i32 @sleep(i32)
declare i32 @puts(ptr)
declare i32 @close(i32)
declare i32 @pipe(ptr)
declare i64 @read(i32, ptr, i64)
declare i32 @system(ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
"""

#: name: body of `void @NAME()`.
FAULTS = {
    "SIGSEGV": "  store volatile i32 1, ptr null",
    "SIGFPE": "  %z = load volatile i32, ptr @zero\n  %q = sdiv i32 7, %z\n  store volatile i32 %q, ptr @sink",
    "SIGILL": '  call void asm sideeffect "ud2", ""()',
    "abort": "  call void @abort()",
    "exit(3)": "  call void @exit(i32 3)",
    "pthread_exit": "  call void @pthread_exit(ptr null)",
    "stack smashed": "  call void @__stack_chk_fail()",
    "store to text": "  store volatile i32 1, ptr @spare_text",
    "strlen(NULL)": "  %n = call i64 @strlen(ptr null)\n  store volatile i64 %n, ptr @wide",
    "printf, wild %s": "  %n = call i32 (ptr, ...) @printf(ptr @fmt, ptr inttoptr (i64 12345 to ptr))",
    "wild call": "  %p = load volatile ptr, ptr @wild\n  call void %p()",
    "null call": "  %p = load volatile ptr, ptr @none\n  call void %p()",
}
LOSSES = {
    "double free": (
        "  %p = call ptr @malloc(i64 100)\n  store volatile ptr %p, ptr @block\n"
        "  %a = load volatile ptr, ptr @block\n  call void @free(ptr %a)\n"
        "  %b = load volatile ptr, ptr @block\n  call void @free(ptr %b)"
    ),
    "fault on a thread": (
        "  %t = alloca i64\n  %c = call i32 @pthread_create(ptr %t, ptr null, ptr @crash, ptr null)\n"
        "  %i = load i64, ptr %t\n  %j = call i32 @pthread_join(i64 %i, ptr null)"
    ),
    "close of every descriptor": (
        "  br label %l\nl:\n  %i = phi i32 [ 0, %0 ], [ %k, %l ]\n  %c = call i32 @close(i32 %i)\n"
        "  %k = add i32 %i, 1\n  %m = icmp ult i32 %k, 256\n  br i1 %m, label %l, label %e\ne:"
    ),
}
_RECURSION = """
define i32 @recursion_(i32 %x) noinline {
  %p = alloca [64 x i8]
  store volatile i8 1, ptr %p
  %y = add i32 %x, 1
  %r = call i32 @recursion_(i32 %y)
  %s = load volatile i8, ptr %p
  %t = zext i8 %s to i32
  %u = add i32 %r, %t
  ret i32 %u
}
"""
_BESIDE = """
@zero = global i32 0
@sink = global i32 0
@wide = global i64 0
@fmt = constant [4 x i8] c"%s\\0A\\00"
@wild = global ptr inttoptr (i64 1311768467463790320 to ptr)
@none = global ptr null
@block = global ptr null
define void @spare_text() {
  ret void
}
define ptr @crash(ptr %x) {
  store volatile i32 1, ptr null
  ret ptr null
}
"""
#: name: (body, seconds until it must have stopped, beside it)
STOPPED = {
    "endless loop": ("  br label %l\nl:\n  br label %l\nu:", 0.2, ""),
    "sleep(1000)": ("  %s = call i32 @sleep(i32 1000)", 0.2, ""),
    "endless printf": (
        "  br label %l\nl:\n  %n = call i32 @puts(ptr @w)\n  br label %l\nu:", 0.2,
        '@w = constant [6 x i8] c"again\\00"',
    ),
    "blocked read": (
        "  %p = alloca [2 x i32]\n  %r = call i32 @pipe(ptr %p)\n  %f = load i32, ptr %p\n"
        "  %n = call i64 @read(i32 %f, ptr %p, i64 1)", 0.2, "",
    ),
    "pthread_mutex_lock, held": (
        "  %a = call i32 @pthread_mutex_lock(ptr @m)\n  %b = call i32 @pthread_mutex_lock(ptr @m)", 2.0,
        "@m = global [8 x i64] zeroinitializer",
    ),
    "pthread_join": (
        "  %t = alloca i64\n  %c = call i32 @pthread_create(ptr %t, ptr null, ptr @idle, ptr null)\n"
        "  %i = load i64, ptr %t\n  %j = call i32 @pthread_join(i64 %i, ptr null)", 2.0,
        "define ptr @idle(ptr %x) {\n  %s = call i32 @sleep(i32 1000)\n  ret ptr null\n}",
    ),
    'system("sleep 1000")': (
        "  %s = call i32 @system(ptr @c)", 2.0, '@c = constant [11 x i8] c"sleep 1000\\00"',
    ),
}  # fmt: skip


def _function(name: str, body: str, beside: str = "") -> str:
    """A cell that defines `void @name()`, with the declarations it needs."""
    text = f"{beside}\ndefine void @{name}() {{\n{body}\n  ret void\n}}\n"
    needed = [
        d
        for d in _DECLARED.splitlines()
        if d and d.partition("@")[2].partition("(")[0] + "(" in text
    ]
    return "\n".join([*needed, text])


def faults(scale: Scale) -> Iterator[Figure]:
    """From the call that faults to the value of the next one: error text and backtrace included."""
    times, losses = scale.pick(3, 15), scale.pick(1, 5)
    with Session(spare=False) as s:
        s.run("@kept = global i32 0\n" + tiny("works"))
        s.run(_BESIDE)
        s.run(
            _RECURSION
            + "define void @recursion() {\n  %r = call i32 @recursion_(i32 1)\n  ret void\n}"
        )
        outside = "\n".join(
            f"@{n} = external global {t}" for n, t in (
                ("zero", "i32"), ("sink", "i32"), ("wide", "i64"), ("wild", "ptr"), ("none", "ptr"),
                ("block", "ptr"),
            )
        ) + "\n@fmt = external constant [4 x i8]\ndeclare void @spare_text()\ndeclare ptr @crash(ptr)"  # fmt: skip
        names = {}
        for i, (name, body) in enumerate({**FAULTS, **LOSSES}.items()):
            used = "\n".join(
                d for d in outside.splitlines() if d.split("@")[1].split()[0].split("(")[0] in body
            )
            s.run(_function(f"fault{i}", body, used))
            names[name] = f"fault{i}"
        names["endless recursion"] = "recursion"
        s.call("works", 2)
        for name in FAULTS:
            yield _recovery(s, name, names[name], times, 5.0)
        yield _recovery(s, "endless recursion", "recursion", times, 50.0)
        for name in LOSSES:
            yield _recovery(s, name, names[name], losses, 200.0)
        yield _killed(s, losses)
    yield Figure(
        "faults: LLJIT, MCJIT", None, "ms", note="cannot: the fault ends the caller's process"
    )


def _recovery(s: Session, name: str, function: str, times: int, bar: float) -> Figure:
    took, said, state = [], "", s["kept"]
    assert isinstance(state, VariableHandle)
    state.value = 4711
    for _ in range(times):
        start = time.perf_counter_ns()
        try:
            s.call(function)
        except JitError as error:
            said = str(error).partition("\n")[0]
        assert s.call("works", 3) == 9
        took.append(time.perf_counter_ns() - start)
        assert state.value == 4711, "a global changed"
    first = f"first {took[0] / 1e6:.1f} ms; " if times > 1 else ""
    return Figure(
        f"recover: {name}", statistics.median(took) / 1e6, "ms", bar, note=first + said[:60]
    )


def _killed(s: Session, times: int) -> Figure:
    took = []
    for _ in range(times):
        pid, _ = s.inspect.executor
        os.kill(pid, signal.SIGKILL)
        start = time.perf_counter_ns()
        assert s.call("works", 3) == 9
        took.append(time.perf_counter_ns() - start)
    return Figure("recover: SIGKILL to the executor", statistics.median(took) / 1e6, "ms", 200.0)


def interrupts(scale: Scale) -> Iterator[Figure]:
    """From `Session.interrupt` in another thread to the end of the call."""
    times = scale.pick(1, 3)
    with Session(spare=False, interrupt_grace=1.5) as s:
        s.run(tiny("works"))
        for i, (name, (body, limit, beside)) in enumerate(STOPPED.items()):
            s.run(_function(f"stop{i}", body, beside))
            took = []
            for _ in range(times):
                asked = [0.0]

                def ask(asked: list[float] = asked) -> None:
                    asked[0] = time.perf_counter()
                    s.interrupt()

                timer = threading.Timer(0.15, ask)
                timer.start()
                try:
                    s.call(f"stop{i}")
                except JitError:
                    pass
                took.append(time.perf_counter() - asked[0])
                timer.join()
                assert s.call("works", 3) == 9
            yield Figure(f"interrupt: {name}", statistics.median(took) * 1e3, "ms", limit * 1e3)
    yield Figure("interrupt: LLJIT, MCJIT", None, "ms", note="cannot")
