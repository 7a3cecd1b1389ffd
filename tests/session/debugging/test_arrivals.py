"""Steps over, into and out of functions that are left by an exception or by `longjmp`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jitkernel import Session
from jitkernel.errors import JitError
from jitkernel.session.debugging.records import Breakpoint, Event, Motion

pytestmark = pytest.mark.process

THROWS = """declare ptr @__cxa_allocate_exception(i64)
declare void @__cxa_throw(ptr, ptr, ptr)
declare ptr @__cxa_begin_catch(ptr)
declare void @__cxa_end_catch()
declare i32 @__gxx_personality_v0(...)
@_ZTIl = external constant ptr
define void @throws(i64 %x) {
  %p = call ptr @__cxa_allocate_exception(i64 8)
  store i64 %x, ptr %p
  call void @__cxa_throw(ptr %p, ptr @_ZTIl, ptr null)
  unreachable
}
define i64 @mid(i64 %x) personality ptr @__gxx_personality_v0 {
  invoke void @throws(i64 %x) to label %n unwind label %pad
n:
  ret i64 %x
pad:
  %e = landingpad { ptr, i32 } cleanup
  resume { ptr, i32 } %e
}
"""
TOP = """define i64 @top(i64 %x) personality ptr @__gxx_personality_v0 {
  %first = icmp eq i64 %x, 0
  br i1 %first, label %call, label %again
again:
  %less = sub i64 %x, 1
  %in = call i64 @top(i64 %less)
  ret i64 %in
call:
  %r = invoke i64 @mid(i64 4) to label %n unwind label %pad
n:
  ret i64 %r
pad:
  %e = landingpad { ptr, i32 } catch ptr null
  %p = extractvalue { ptr, i32 } %e, 0
  %v = call ptr @__cxa_begin_catch(ptr %p)
  %i = load i64, ptr %v
  call void @__cxa_end_catch()
  %q = add i64 %i, 1000
  ret i64 %q
}
"""
JUMPS = """#include <setjmp.h>
static jmp_buf env;
int depth;
__attribute__((noinline)) void leaf(int n) {
  depth = n;
  longjmp(env, n);
}
__attribute__((noinline)) void mid(int n) {
  leaf(n + 1);
  depth = -1;
}
int top(int n) {
  volatile int k = 0;
  int r = setjmp(env);
  k++;
  if (r == 0)
    mid(n);
  return k + r;
}
"""


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(spare=False) as s:
        yield s


def walk(s: Session, function: str, motion: Motion, result: int) -> list[tuple[str, int]]:
    """The innermost frame at each stop of a walk that begins in a function."""
    found: list[tuple[str, int]] = []

    def look(event: Event) -> None:
        if event.kind == "stopped":
            frame = s.debugger.frames()[0]
            found.append((frame.name.lstrip("@"), frame.line))
            s.debugger.go(motion if len(found) < 40 else "continue")

    s.debugger.start()
    s.debugger.listener = look
    s.debugger.add(Breakpoint(function=function, temporary=True))
    assert s.call("top", 1 if function[0] == "@" else 3) == result
    s.debugger.close()
    s.check()
    return found


def test_a_step_ends_where_an_exception_is_caught_or_cleaned_up(session: Session) -> None:
    """In unoptimised code, and in the code of another cell, which is not compiled to be debugged;
    the frames of a recursion above have the same landing pads."""
    s = session
    s.reset()
    try:
        s.load("libstdc++.so.6")
    except JitError:
        pytest.skip("there is no libstdc++")
    s.run(THROWS + TOP)
    assert s.call("top", 1) == 1004
    rest = [*(("top", n) for n in range(33, 40)), ("top", 27)]
    pad = [("mid", 18), ("mid", 19)]
    over = [("throws", n) for n in (8, 9, 10)]
    assert walk(s, "@throws", "next", 1004) == over + pad + rest
    assert walk(s, "@throws", "step_in", 1004) == over + pad + rest
    assert walk(s, "@throws", "step_out", 1004) == [
        ("throws", 8),
        ("mid", 18),
        ("top", 33),
        ("top", 26),
    ]
    assert walk(s, "@mid", "next", 1004) == [("mid", 14), *pad, *rest]
    assert walk(s, "@mid", "step_out", 1004) == [("mid", 14), ("top", 33), ("top", 26)]
    s.reset()
    s.load("libstdc++.so.6")
    s.run(THROWS)
    s.run(TOP)
    found = walk(s, "@throws", "step_out", 1004)
    assert [name for name, _ in found] == ["throws", "mid", "top", "top"]


def test_a_step_ends_where_longjmp_arrives(session: Session) -> None:
    s = session
    s.reset()
    s.run(JUMPS, "c")
    assert s.call("top", 3) == 6
    rest = [("top", n) for n in (15, 16, 18)]
    assert walk(s, "leaf", "next", 6) == [("leaf", 5), ("leaf", 6), *rest]
    assert walk(s, "leaf", "step_out", 6)[:2] == [("leaf", 5), ("top", 14)]
    assert walk(s, "mid", "next", 6) == [("mid", 9), *rest]
