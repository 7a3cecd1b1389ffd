"""The collector of lesson 14, by the session's stack maps: after each collection every reference
is what a shadow of the program says, in objects and in frames, whatever is defined meanwhile."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from jitkernel import Session
from jitkernel.errors import Fault
from tests.busy import until

LESSON = Path(__file__).parents[2] / "tools" / "course" / "14_collector.md"
COLLECTOR = re.search(r"^%%c\n(#include <string.h>.*?)^```", LESSON.read_text(), re.M | re.S)
# What objects are, and what they refer to, by the numbers they have; -1 is null.  `audit` looks at
# all of a half behind a collection; the other functions are asked by the program, of its frames.
SHADOW = r"""
#include <pthread.h>
enum { KNOWN = 1 << 16 };
static struct shadow { long id, n, seen, to[6]; } shadow[KNOWN];
long wrong, audited, until;
volatile long held, released;
static unsigned long state = 88172645463325252;

long identity(ref object *o) { return o ? o->id : -1; }
long chance(long below) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state % below;
}
void born(ref object *o) {
    struct shadow *s = shadow + (unsigned long)o->id % KNOWN;
    s->id = o->id, s->n = o->head / 2;
    for (int i = 0; i < 6; i++) s->to[i] = -1;
}
void linked(ref object *o, long i, long to) { shadow[(unsigned long)o->id % KNOWN].to[i] = to; }
void same(ref object *o, long id) { wrong += identity(o) != id; }
void slot(ref void *p, ref object *o, long i) { wrong += p != (ref void *)&o->to[i]; }
long enough(void) { return collections >= until; }
void audit(void) {
    for (char *at = space[half]; at < next;) {
        object *o = (object *)at;
        struct shadow *s = shadow + (unsigned long)o->id % KNOWN;
        if (!(o->head & 1) || s->id != o->id || s->n != o->head / 2 || s->seen == collections) { wrong++; return; }
        s->seen = collections;
        for (int i = 0; i < s->n; i++, audited++) {
            char *to = (char *)o->to[i];
            if (to && (to < space[half] || to >= next)) wrong++;
            else wrong += (to ? o->to[i]->id : -1) != s->to[i];
        }
        at += 16 + 8 * s->n;
    }
}
void pause(void) { held = 1; while (!released); }
long hold(void);
static pthread_t thread;
static void *holding(void *unused) { return (void *)hold(); }
int begin(void) { return pthread_create(&thread, 0, holding, 0); }
long finish(void) { void *result; released = 1; pthread_join(thread, &result); return (long)result; }
"""
# Objects that refer to their parents, and to some children each, made through a pointer that walks
# along in them; one tree is kept for a while, and at times one of two references is used.
PROGRAM = """
declare i64 @identity(ptr addrspace(1)) "gc-leaf-function"
declare i64 @chance(i64) "gc-leaf-function"
declare void @born(ptr addrspace(1)) "gc-leaf-function"
declare void @linked(ptr addrspace(1), i64, i64) "gc-leaf-function"
declare void @same(ptr addrspace(1), i64) "gc-leaf-function"
declare void @slot(ptr addrspace(1), ptr addrspace(1), i64) "gc-leaf-function"
declare i64 @enough() "gc-leaf-function"

define ptr addrspace(1) @grow(i64 %depth, ptr addrspace(1) %up) noinline gc "statepoint-example" {
entry:
  %id.up = call i64 @identity(ptr addrspace(1) %up)
  %some = call i64 @chance(i64 4)
  %n = add i64 %some, 2
  %o = call ptr addrspace(1) @make(i64 %n)
  call void @born(ptr addrspace(1) %o)
  call void @same(ptr addrspace(1) %up, i64 %id.up)
  %id = call i64 @identity(ptr addrspace(1) %o)
  %parent = getelementptr i8, ptr addrspace(1) %o, i64 16
  store ptr addrspace(1) %up, ptr addrspace(1) %parent
  call void @linked(ptr addrspace(1) %o, i64 0, i64 %id.up)
  %leaf = icmp eq i64 %depth, 0
  br i1 %leaf, label %done, label %begin
begin:
  %first = getelementptr i8, ptr addrspace(1) %o, i64 24
  %less = sub i64 %depth, 1
  br label %loop
loop:
  %i = phi i64 [ 1, %begin ], [ %i1, %loop ]
  %p = phi ptr addrspace(1) [ %first, %begin ], [ %p1, %loop ]
  %child = call ptr addrspace(1) @grow(i64 %less, ptr addrspace(1) %o)
  call void @same(ptr addrspace(1) %up, i64 %id.up)
  call void @same(ptr addrspace(1) %o, i64 %id)
  call void @slot(ptr addrspace(1) %p, ptr addrspace(1) %o, i64 %i)
  store ptr addrspace(1) %child, ptr addrspace(1) %p
  %id.child = call i64 @identity(ptr addrspace(1) %child)
  call void @linked(ptr addrspace(1) %o, i64 %i, i64 %id.child)
  %p1 = getelementptr i8, ptr addrspace(1) %p, i64 8
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %n
  br i1 %more, label %loop, label %done
done:
  ret ptr addrspace(1) %o
}

define void @drive() gc "statepoint-example" {
entry:
  %first = call ptr addrspace(1) @grow(i64 3, ptr addrspace(1) null)
  br label %loop
loop:
  %kept = phi ptr addrspace(1) [ %first, %entry ], [ %next, %loop ]
  %id = call i64 @identity(ptr addrspace(1) %kept)
  %new = call ptr addrspace(1) @grow(i64 3, ptr addrspace(1) null)
  call void @same(ptr addrspace(1) %kept, i64 %id)
  %id.new = call i64 @identity(ptr addrspace(1) %new)
  %dice = call i64 @chance(i64 8)
  %change = icmp eq i64 %dice, 0
  %at.kept = getelementptr i8, ptr addrspace(1) %kept, i64 24
  %at.new = getelementptr i8, ptr addrspace(1) %new, i64 24
  %at = select i1 %change, ptr addrspace(1) %at.new, ptr addrspace(1) %at.kept
  %next = select i1 %change, ptr addrspace(1) %new, ptr addrspace(1) %kept
  %id.next = select i1 %change, i64 %id.new, i64 %id
  %garbage = call ptr addrspace(1) @grow(i64 1, ptr addrspace(1) null)
  call void @slot(ptr addrspace(1) %at, ptr addrspace(1) %next, i64 1)
  call void @same(ptr addrspace(1) %next, i64 %id.next)
  %stop = call i64 @enough()
  %go = icmp eq i64 %stop, 0
  br i1 %go, label %loop, label %out
out:
  ret void
}
"""


def collector(*edits: tuple[str, str], half: int = 1 << 14) -> str:
    """The lesson's collector with the shadow behind it, and some places of it changed."""
    assert COLLECTOR is not None
    text = COLLECTOR[1]
    for was, now in (
        ("HALF = 1 << 17", f"HALF = {half}"),
        ("    collections++,", "    void audit(void);\n    collections++, audit(),"),
        *edits,
    ):
        assert text.count(was) == 1, was
        text = text.replace(was, now)
    return text + SHADOW


def load(s: Session) -> None:
    """Give the collector the table of the calls that there are."""
    first, points, pairs = 0, s["points"].array, s["pairs"].array
    for row, point in enumerate(s.stack_maps.safepoints()):
        points[row] = point.address, point.frame, first, len(point.pointers)
        for pair in point.pointers:
            pairs[first] = pair
            first += 1
        s["n_points"].value = row + 1


def drive(s: Session, collections: int) -> None:
    s["until"].value = collections
    load(s)
    s.call("drive")


def test_every_reference_follows_ten_thousand_times(s: Session) -> None:
    collections = 10_000
    s.run(collector(), "c")
    s.run(PROGRAM)
    pointers = [pair for point in s.stack_maps.safepoints() for pair in point.pointers]
    assert any(base != derived for base, derived in pointers)
    drive(s, collections)
    assert s["collections"].value >= collections
    assert s["audited"].value > 100 * collections
    assert s["wrong"].value == 0


@pytest.mark.process
@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(("else if (base != (object **)derived)", "else if (0)"), id="derived"),
        pytest.param(("q < pairs + p->first + p->count;", "q + 1 < pairs + p->first + p->count;"), id="root"),
        pytest.param(("(int step = 0; step < 3;", "(int step = collections % 7 == 3 && p == points + 1 ? 3 : 0; step < 3;"), id="frame"),
        pytest.param(("i < o->head / 2; i++) o", "i + 1 < o->head / 2; i++) o"), id="field"),
        pytest.param(("return (object *)old->head; ", "return old; "), id="forwarding"),
    ],
)  # fmt: skip
def test_one_that_forgets_is_noticed(fresh: Callable[..., Session], edit: tuple[str, str]) -> None:
    s = fresh()
    s.run(collector(edit), "c")
    s.run(PROGRAM)
    try:
        drive(s, 300)
    except Fault:
        return
    assert s["wrong"].value > 0


# A frame that waits with a reference, and then makes so many objects that it moves.
HOLD = """
declare ptr addrspace(1) @make(i64)
declare i64 @identity(ptr addrspace(1)) "gc-leaf-function"
declare void @born(ptr addrspace(1)) "gc-leaf-function"
declare void @same(ptr addrspace(1), i64) "gc-leaf-function"
declare void @pause()
define i64 @hold() gc "statepoint-example" {
entry:
  %o = call ptr addrspace(1) @make(i64 1)
  call void @born(ptr addrspace(1) %o)
  %id = call i64 @identity(ptr addrspace(1) %o)
  call void @pause()
  br label %loop
loop:
  %i = phi i64 [ 2000, %entry ], [ %i1, %loop ]
  %new = call ptr addrspace(1) @make(i64 1)
  call void @born(ptr addrspace(1) %new)
  call void @same(ptr addrspace(1) %o, i64 %id)
  %i1 = sub i64 %i, 1
  %more = icmp ne i64 %i1, 0
  br i1 %more, label %loop, label %done
done:
  ret i64 %id
}
"""
OTHER = """
define i64 @hold() gc "statepoint-example" {
  %o = call ptr addrspace(1) @make(i64 1)
  %n = call ptr addrspace(1) @make(i64 2)
  %id = call i64 @identity(ptr addrspace(1) %o)
  %less = sub i64 -7, %id
  ret i64 %less
}
"""


def places(s: Session) -> set[str]:
    """The functions that have safepoints."""
    return {re.sub(r"\+\d+.*", "", s.describe(p.address)) for p in s.stack_maps.safepoints()}


def addresses(s: Session) -> set[int]:
    return {point.address for point in s.stack_maps.safepoints()}


def test_the_table_follows_the_program(s: Session) -> None:
    s.run(collector(), "c")
    s.run(PROGRAM)
    s.run(HOLD)
    before = addresses(s)
    assert places(s) == {"@grow", "@drive", "@hold"}
    notes = s.run(OTHER).notes  # as a notebook shows them
    assert not any("StackMaps" in note for note in notes)
    after = addresses(s)
    assert len(before - after) == 2 == len(after - before)
    assert places(s) == {"@grow", "@drive", "@hold"}
    s.undo()
    assert len(addresses(s) - after) == 2
    drive(s, 50)
    s.run(OTHER)
    drive(s, 100)
    s.evict("hold", force=True)
    assert places(s) == {"@grow", "@drive"}
    drive(s, 150)
    assert s["wrong"].value == 0


@pytest.mark.process
def test_a_frame_of_former_code_is_found(s: Session) -> None:
    """A thread waits in a function that is defined anew, and then has it collect."""
    s.run(collector(half=1 << 12), "c")
    s.run(HOLD)
    s.call("begin")
    assert until(lambda: s.serve(0.01) or s["held"].value)
    before = addresses(s)
    s.run(OTHER)
    assert before < addresses(s), "the thread may be there yet"
    load(s)
    s.call("finish")
    assert s["collections"].value > 5
    assert s["wrong"].value == 0
    assert s.call("hold") < -7
    later = "define void @later() {\n  ret void\n}"
    assert until(lambda: s.run(later) and not before & addresses(s)), "nobody is there any more"
    s.inspect.program.check()
