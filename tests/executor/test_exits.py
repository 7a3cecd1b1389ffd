"""What ends a C program ends the cell only; a forked child never answers for its parent."""

from __future__ import annotations

import os
import struct
import time

import pytest

from . import programs as p
from .conftest import Lab, in_time, timed
from .programs import program, string

EXITS = {
    "exit": ("  call void @exit(i32 3)", 3),
    "_exit": ("  call void @_exit(i32 4)", 4),
    "_Exit": ("  call void @_Exit(i32 -1)", -1),
    "quick_exit": ("  call void @quick_exit(i32 5)", 5),
    "pthread_exit": ("  call void @pthread_exit(ptr null)", 0),
}


@pytest.mark.parametrize("name", EXITS)
def test_an_exit_ends_the_cell_only(lab: Lab, name: str) -> None:
    body, status = EXITS[name]
    pid = lab.executor.pid
    ir = program(f"  %n = call i32 (ptr, ...) @printf(ptr @s)\n{body}", string("s", "so long"))
    outcome = lab.run(ir)
    assert outcome.kind == "exit" and outcome.record is not None
    assert (outcome.record.cause, outcome.record.status) == (name, status)
    assert outcome.record.pc in lab.cache[ir][1]
    assert not outcome.record.library and not outcome.respawned
    assert lab.out == b"so long"
    assert lab.executor.pid == pid
    lab.assert_sound()


def test_exit_from_below_a_library(lab: Lab) -> None:
    ir = program(
        "  %a = call ptr @malloc(i64 800)\n  call void @qsort(ptr %a, i64 100, i64 8, ptr @out)",
        "define i32 @out(ptr %a, ptr %b) {\n  call void @exit(i32 6)\n  ret i32 0\n}",
    )
    outcome = lab.run(ir)
    assert outcome.kind == "exit" and outcome.record is not None and outcome.record.status == 6
    lab.assert_sound()


def test_a_library_that_exits(lab: Lab) -> None:
    """err(3) of libc calls libc's own exit."""
    pid = lab.executor.pid
    for _ in range(3):
        outcome = lab.run(program("  call void @err(i32 9, ptr @s)", string("s", "words")))
        assert outcome.kind == "exit" and outcome.record is not None
        assert (outcome.record.status, outcome.record.cause) == (9, "exit in a library")
        assert b"words" in lab.err
        assert lab.executor.pid == pid and not outcome.respawned
        lab.assert_sound()


def test_an_exit_that_nobody_can_catch(fresh: Lab) -> None:
    fresh.run(p.KEEP)
    outcome = fresh.run(program("  %r = call i64 (i64, ...) @syscall(i64 231, i64 12)"))
    assert (outcome.kind, outcome.respawned) == ("exit", True)
    assert outcome.record is not None and outcome.record.status == 12
    fresh.assert_sound(heap=False)


def test_the_first_thread_ends_behind_our_back(fresh: Lab) -> None:
    fresh.run(p.KEEP)
    outcome = fresh.run(program("  %r = call i64 (i64, ...) @syscall(i64 60, i64 0)"))
    assert outcome.respawned
    fresh.assert_sound(heap=False)


@pytest.mark.parametrize("how", ["exit", "abort", "pthread_exit"])
def test_exits_on_another_thread(fresh: Lab, how: str) -> None:
    call = {
        "exit": "call void @exit(i32 8)",
        "abort": "call void @abort()",
        "pthread_exit": "call void @pthread_exit(ptr null)",
    }[how]
    ir = program(
        """  %id = call i64 @start(ptr @other)
  %j = call i32 @pthread_join(i64 %id, ptr null)
  store i64 5, ptr %ret""",
        p.THREAD,
        f"define ptr @other(ptr %x) {{\n  {call}\n  ret ptr null\n}}",
    )
    fresh.run(p.KEEP)
    outcome = fresh.run(ir, ret_size=8)
    if how == "pthread_exit":  # the thread's own business
        assert (outcome.kind, outcome.result) == ("ok", struct.pack("<q", 5))
        fresh.assert_sound()
        return
    assert outcome.kind == {"exit": "exit", "abort": "fault"}[how]
    assert outcome.respawned and outcome.record is not None
    assert outcome.record.thread == "other"
    if how == "exit":
        assert outcome.record.status == 8
    fresh.assert_sound(heap=False)


FORK = """  %pid = call i32 @fork()
  %child = icmp eq i32 %pid, 0
  br i1 %child, label %in_child, label %in_parent
in_child:
{child}
  ret void
in_parent:
  %w = call i32 @waitpid(i32 %pid, ptr %ret, i32 0)
  %second = getelementptr i32, ptr %ret, i64 1
  store i32 77, ptr %second
"""
CHILDREN = {
    # what the child does: the status that its parent sees
    "returns": ("", 0),
    "exits": ("  call void @exit(i32 3)", 3 << 8),
    "exits at once": ("  call void @_exit(i32 4)", 4 << 8),
    "crashes": ("  %v = load volatile i64, ptr null", 11),
    "aborts": ("  call void @abort()", 6),
    "crashes in a library": (
        "  %n = call i64 @strlen(ptr null)\n  store volatile i64 %n, ptr @sink",
        11,
    ),
    "divides by zero": (
        "  %z = load volatile i32, ptr @zero\n  %q = sdiv i32 1, %z\n"
        "  store volatile i32 %q, ptr @zero",
        8,
    ),
    "prints and returns": ("  %n = call i32 (ptr, ...) @printf(ptr @s)", 0),
    "calls what nobody defines": ("  call void @nobody()", 6),
}


@pytest.mark.parametrize("name", CHILDREN)
def test_fork(lab: Lab, name: str) -> None:
    child, status = CHILDREN[name]
    parts = ["@sink = global i64 0", "@zero = global i32 0", string("s", "from the child")]
    if "nobody" in child:
        parts.append("declare void @nobody()")
    pid = lab.executor.pid
    outcome = lab.run(program(FORK.replace("{child}", child), *parts), ret_size=8)
    assert outcome.kind == "ok", outcome
    assert struct.unpack("<2i", outcome.result) == (status, 77)
    assert lab.executor.pid == pid
    if name == "prints and returns":
        assert lab.out == b"from the child"
    lab.assert_sound()


def test_a_child_that_outlives_the_call(lab: Lab) -> None:
    """It returns, crashes or exits while its parent runs other cells."""
    for child in (
        "  %u = call i32 @usleep(i32 30000)",
        "  %u = call i32 @usleep(i32 30000)\n  %v = load volatile i64, ptr null",
        "  %u = call i32 @usleep(i32 30000)\n  call void @exit(i32 1)",
    ):
        head = FORK.partition("in_parent:")[0].replace("{child}", child)
        outcome = lab.run(program(head + "in_parent:"))
        assert outcome.kind == "ok"
        deadline = time.monotonic() + 0.1
        while time.monotonic() < deadline:
            assert lab.square(6) == 36
        assert lab.run(program("  %v = load volatile i64, ptr null")).kind == "fault"
    lab.assert_sound()


def test_a_forked_child_of_a_thread(lab: Lab) -> None:
    ir = program(
        """  %id = call i64 @start(ptr @other)
  %j = call i32 @pthread_join(i64 %id, ptr %ret)""",
        p.THREAD,
        """
define ptr @other(ptr %x) {
  %pid = call i32 @fork()
  %child = icmp eq i32 %pid, 0
  br i1 %child, label %in_child, label %in_parent
in_child:
  %v = load volatile i64, ptr null
  ret ptr null
in_parent:
  %s = alloca i32
  %w = call i32 @waitpid(i32 %pid, ptr %s, i32 0)
  %i = load i32, ptr %s
  %j = zext i32 %i to i64
  %k = inttoptr i64 %j to ptr
  ret ptr %k
}""",
    )
    outcome = lab.run(ir, ret_size=8)
    assert (outcome.kind, outcome.result) == ("ok", struct.pack("<q", 11))
    lab.assert_sound()


@timed
def test_a_death_is_seen_although_a_forked_child_holds_the_socket(fresh: Lab) -> None:
    fresh.run(p.KEEP)
    ir = program(
        FORK.partition("in_parent:")[0].replace("{child}", "  %s = call i32 @sleep(i32 1000)")
        + "in_parent:\n  %me = call i32 @getpid()\n  %k = call i32 @kill(i32 %me, i32 9)"
    )
    began = time.monotonic()
    outcome = fresh.run(ir)
    assert (outcome.kind, outcome.respawned) == ("died", True)
    in_time(began, 0.5)
    fresh.assert_sound(heap=False)
    assert os.path.exists(f"/proc/{fresh.executor.pid}")
