"""Redefinition under the feet of threads that the program has started."""

from __future__ import annotations

import time

import pytest

from jitkernel import Session

WORKER = """@stop = global i32 0
@count = global i64 0
@wrong = global i64 0
@thread = global i64 0
define i64 @same(i64 %x) {
  %a = xor i64 %x, 5
  %b = xor i64 %a, 5
  ret i64 %b
}
define ptr @worker(ptr %p) {
entry:
  br label %loop
loop:
  %c = load volatile i64, ptr @count
  %v = call i64 @same(i64 %c)
  %ok = icmp eq i64 %v, %c
  br i1 %ok, label %next, label %oops
oops:
  store volatile i64 1, ptr @wrong
  br label %next
next:
  %d = add i64 %c, 1
  store volatile i64 %d, ptr @count
  %s = load volatile i32, ptr @stop
  %go = icmp eq i32 %s, 0
  br i1 %go, label %loop, label %done
done:
  ret ptr null
}
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
define i32 @start() {
  %r = call i32 @pthread_create(ptr @thread, ptr null, ptr @worker, ptr null)
  ret i32 %r
}
define i32 @finish() {
  store volatile i32 1, ptr @stop
  %t = load i64, ptr @thread
  %r = call i32 @pthread_join(i64 %t, ptr null)
  ret i32 %r
}"""
SAME = """define i64 @same(i64 %x) {{
  %a = xor i64 %x, {0}
  %m = mul i64 %a, 3
  %d = udiv i64 %m, 3
  %b = xor i64 %d, {0}
  ret i64 %b
}}"""


@pytest.fixture
def session():
    with Session(opt_level=1) as s:
        yield s
        s.check()


def text_used(s: Session) -> int:
    return s.engine.arena.usage()["text"]["used"]


def test_a_running_thread_never_sees_half_a_patch_or_freed_text(session):
    s = session
    s.run(WORKER)
    assert s.call("start") == 0
    assert s.engine.executor.threads == 1
    before, counted, rounds = text_used(s), 0, 0
    end = time.monotonic() + 1.5
    while time.monotonic() < end or rounds < 20:
        rounds += 1
        s.run(SAME.format(rounds % 97 + 1))
        assert s["wrong"].value == 0
    counted = s["count"].value
    assert counted > 1000, "the thread went on between the redefinitions"
    assert text_used(s) > before, "old text stays while a thread may be in it"
    assert s.call("finish") == 0
    s.run(SAME.format(3))  # the next change finds the thread ended
    assert s.engine.executor.threads == 0
    assert text_used(s) <= before + 64
    assert s["wrong"].value == 0


def test_evicting_and_undoing_under_a_thread(session):
    s = session
    s.run(WORKER)
    s.run("define i64 @other() {\n  ret i64 1\n}")
    assert s.call("start") == 0
    for _ in range(10):
        s.evict("other")
        s.undo()
        s.run(SAME.format(9))
        s.undo()
    assert s.call("finish") == 0
    assert (s["wrong"].value, s.call("other")) == (0, 1)


CLOSES = """
declare i32 @mprotect(ptr, i64, i32)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)

define i32 @shut() {
  %here = ptrtoint ptr @shut to i64
  %page = and i64 %here, -4096
  %p = inttoptr i64 %page to ptr
  %r = call i32 @mprotect(ptr %p, i64 4096, i32 1)
  ret i32 7
}

define ptr @body(ptr %x) {
  %r = call i32 @shut()
  %q = sext i32 %r to i64
  %p = inttoptr i64 %q to ptr
  ret ptr %p
}

define i64 @elsewhere() {
  %h = alloca i64
  %v = alloca i64
  %c = call i32 @pthread_create(ptr %h, ptr null, ptr @body, ptr null)
  %n = load i64, ptr %h
  %j = call i32 @pthread_join(i64 %n, ptr %v)
  %r = load i64, ptr %v
  ret i64 %r
}
"""


def test_text_that_is_closed_and_nobody_holds_is_opened(s):
    """As after two threads close and open it in the same instant."""
    s.run(CLOSES)
    assert s.call("shut") == 7
    assert s.call("elsewhere") == 7
    assert s.call("shut") == 7
