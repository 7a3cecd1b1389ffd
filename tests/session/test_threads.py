"""Redefinition under the feet of threads that the program has started."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from programs import interrupting

from jitkernel import Session
from jitkernel.errors import ArenaFull, Interrupted
from tests.busy import until
from tests.looping import looping

pytestmark = pytest.mark.process

WORKER = """volatile long count, wrong;
long same(long x) { return x ^ 5 ^ 5; }
""" + looping("long c = count; if (same(c) != c) wrong = 1; count = c + 1;")
SAME = """define i64 @same(i64 %x) {{
  %a = xor i64 %x, {0}
  %m = mul i64 %a, 3
  %d = udiv i64 %m, 3
  %b = xor i64 %d, {0}
  ret i64 %b
}}"""


@pytest.fixture
def session():
    with Session(opt_level=1, inlining=False) as s:
        yield s
        s.check()


def text_used(s: Session) -> int:
    return s.inspect.engine.arena.usage()["text"]["used"]


def test_a_running_thread_never_sees_half_a_patch_or_freed_text(session):
    s = session
    s.run(WORKER, "c")
    assert s.call("start") == 0
    assert s.inspect.engine.executor.threads == 1
    before, counted, rounds = text_used(s), 0, 0
    end = time.monotonic() + 1.5
    while time.monotonic() < end or rounds < 20 or s["count"].value <= 1000:
        rounds += 1
        s.run(SAME.format(rounds % 97 + 1))
        assert s["wrong"].value == 0
    counted = s["count"].value
    assert counted > 1000, "the thread went on between the redefinitions"
    assert text_used(s) > before, "old text stays while a thread may be in it"
    assert s.call("finish") == 0
    # The next change finds the thread ended, which may be a moment after it was waited for.
    assert until(lambda: s.run(SAME.format(3)) and not s.inspect.engine.executor.threads)
    assert text_used(s) <= before + 64
    assert s["wrong"].value == 0


def test_evicting_and_undoing_under_a_thread(session):
    s = session
    s.run(WORKER, "c")
    s.run("define i64 @other() {\n  ret i64 1\n}")
    assert s.call("start") == 0
    for _ in range(10):
        s.evict("other")
        s.undo()
        s.run(SAME.format(9))
        s.undo()
    assert s.call("finish") == 0
    assert (s["wrong"].value, s.call("other")) == (0, 1)


def test_text_is_written_only_while_threads_are_parked():
    """By no operation, nor by a check of the session: see the program."""
    program = Path(__file__).with_name("text_closed.py")
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, timeout=200, check=False,
        env={**os.environ, "PYTHONPATH": str(program.parents[2])},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr


CLOSES = """#include <pthread.h>
#include <sys/mman.h>
int shut(void) { mprotect((void *)((long)shut & -4096), 4096, PROT_READ); return 7; }
void *body(void *x) { return (void *)(long)shut(); }
long elsewhere(void) {
  pthread_t t;
  void *r;
  pthread_create(&t, 0, body, 0);
  pthread_join(t, &r);
  return (long)r;
}"""


def test_text_that_is_closed_and_nobody_holds_is_opened(s):
    """As after two threads close and open it in the same instant."""
    s.run(CLOSES, "c")
    assert s.call("shut") == 7
    assert s.call("elsewhere") == 7
    assert s.call("shut") == 7


#: A thread that counts in a variable, reads a constant and walks its own stack, all of its cell.
COUNT = """long frames;
int wish;
int count(void *context, long *k) { ++*k; return 0; }"""
OWN = """#include <pthread.h>
#include <unistd.h>
extern volatile long frames;
extern volatile int wish;
long _Unwind_Backtrace(int (*)(void *, long *), long *);
int count(void *, long *);
static volatile long n;
static const volatile long step[4] = {1, 1, 1, 1};
__attribute__((noinline)) static void once(void) {
  n += step[n & 3];
  usleep(1000);
  if (wish) {
    long k = 0;
    wish = 0;
    _Unwind_Backtrace(count, &k);
    frames = k;
  }
}
static void *worker(void *p) { for (;;) once(); }
int start(void) { pthread_t t; return pthread_create(&t, 0, worker, 0); }"""


def frames(s: Session) -> int:
    """How many frames the thread finds on its stack."""
    s.run("@frames = i64 0\n@wish = i32 1")
    assert until(lambda: s["frames"].value)
    return int(s["frames"].value)


def test_what_a_thread_uses_stays_though_its_cell_is_gone(session):
    s = session
    s.run(COUNT, "c")
    s.run(OWN, "c", cell_id="a")
    s.run("@start()")
    seen = frames(s)
    assert seen >= 3
    s.run("define i32 @start() {\n  ret i32 0\n}", cell_id="a")  # run again, without the thread
    for i in range(25):  # past what undo keeps
        s.run(f"@k = i64 {i}")
    kept = {
        zone: sum(e.size for e in s.inspect.engine.arena.deferred if e.zone == zone)
        for zone in s.inspect.engine.arena.zones
    }
    assert all(kept.values()), kept
    s.check()
    for i in range(40):
        s.run(
            f"@mine{i} = internal global i64 0\n@fix{i} = internal constant [4 x i64] "
            f"[i64 {i}, i64 {i}, i64 {i}, i64 {i}]\n"
            f"define i64 @get{i}() {{\n  %v = load volatile i64, ptr @mine{i}\n"
            f"  %w = load volatile i64, ptr @fix{i}\n  %r = add i64 %v, %w\n  ret i64 %r\n}}"
        )
    assert frames(s) == seen, "an exception would still find its way"
    assert [s.call(f"get{i}") for i in range(40)] == list(range(40))
    s.check()
    s.inspect.engine.executor.respawn()  # as good as the thread's end
    before = s.inspect.engine.arena.usage()["data"]["used"]
    s.run("@k = i64 99")
    s.run("define i32 @another() {\n  ret i32 0\n}")
    assert (
        s.inspect.engine.arena.deferred == ()
        and s.inspect.engine.arena.usage()["data"]["used"] < before
    )
    assert [s.call(f"get{i}") for i in range(40)] == list(range(40))


def test_a_full_zone_says_what_threads_keep(fresh):
    s = fresh(capacity=8 << 20, undo_depth=0)
    s.run(COUNT, "c")
    s.run(OWN + "\nchar large[1000000];", "c", cell_id="a")
    s.run("@start()")
    s.run("define i32 @start() {\n  ret i32 0\n}", cell_id="a")
    with pytest.raises(ArenaFull, match="until the threads that the program has started end: "):
        s.run("@larger = global [3000000 x i8] zeroinitializer")
    s.check()


def test_who_keeps_stdouts_lock_is_named(session):
    s = session
    s.run(
        """#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
volatile int held;
void *keeping(void *p) { flockfile(stdout); held = 1; sleep(1000); return p; }
pthread_t t;
pthread_create(&t, 0, keeping, 0);
while (!held) usleep(1000);""",
        "c",
    )
    words = "of the program, at keeping"
    notes = s.run("@labs(3)").notes
    assert any(words in note and "the lock of stdout" in note for note in notes), notes
    with interrupting(s, call=True), pytest.raises(Interrupted, match=words):
        s.run('@puts("hello")')
    assert s.inspect.engine.executor.threads == 1 and s.run("@labs(-4)").value == 4
