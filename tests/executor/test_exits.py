"""What ends a C program ends the cell only; a forked child never answers for its parent."""

from __future__ import annotations

import os
import struct
import time

import pytest

from . import programs as p
from .conftest import Lab, in_time, timed
from .programs import program

EXITS = {"exit": 3, "_exit": 4, "_Exit": -1, "quick_exit": 5, "pthread_exit": 0}


@pytest.mark.parametrize("name", EXITS)
def test_an_exit_ends_the_cell_only(lab: Lab, name: str) -> None:
    status, pid = EXITS[name], lab.executor.pid
    ends = program(f'printf("so long");\n{name}({status});')
    outcome = lab.run(ends)
    assert outcome.kind == "exit" and outcome.record is not None
    assert (outcome.record.cause, outcome.record.status) == (name, status)
    assert outcome.record.pc - 1 in lab.cache[ends][1]  # it returns to what follows the call
    assert not outcome.record.library and not outcome.respawned
    assert lab.out == b"so long"
    assert lab.executor.pid == pid
    lab.assert_sound()


def test_exit_from_below_a_library(lab: Lab) -> None:
    out = "int out(const void *a, const void *b) { exit(6); }"
    outcome = lab.run(program("qsort(malloc(800), 100, 8, out);", out))
    assert outcome.kind == "exit" and outcome.record is not None and outcome.record.status == 6
    lab.assert_sound()


def test_a_library_that_exits(lab: Lab) -> None:
    """err(3) of libc calls libc's own exit."""
    pid = lab.executor.pid
    for _ in range(3):
        outcome = lab.run(program('err(9, "words");'))
        assert outcome.kind == "exit" and outcome.record is not None
        assert (outcome.record.status, outcome.record.cause) == (9, "exit in a library")
        assert b"words" in lab.err
        assert lab.executor.pid == pid and not outcome.respawned
        lab.assert_sound()


def test_an_exit_that_nobody_can_catch(fresh: Lab) -> None:
    fresh.run(p.KEEP)
    outcome = fresh.run(program("syscall(SYS_exit_group, 12L);"))
    assert (outcome.kind, outcome.respawned) == ("exit", True)
    assert outcome.record is not None and outcome.record.status == 12
    fresh.assert_sound(heap=False)


def test_the_first_thread_ends_behind_our_back(fresh: Lab) -> None:
    fresh.run(p.KEEP)
    outcome = fresh.run(program("syscall(SYS_exit, 0L);"))
    assert outcome.respawned
    fresh.assert_sound(heap=False)


@pytest.mark.parametrize("how", ["exit", "abort", "pthread_exit"])
def test_exits_on_another_thread(fresh: Lab, how: str) -> None:
    call = {"exit": "exit(8);", "abort": "abort();", "pthread_exit": "pthread_exit(0);"}[how]
    joins = program(
        "pthread_join(start(other), 0);\n*ret = 5;",
        p.THREAD,
        f"void *other(void *x) {{ {call} }}",
    )
    fresh.run(p.KEEP)
    outcome = fresh.run(joins, ret_size=8)
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


WAITS = "waitpid(child, (int *)ret, 0);\n((int *)ret)[1] = 77;"
CHILDREN = {
    # what the child does: the status that its parent sees
    "returns": ("", 0),
    "exits": ("exit(3);", 3 << 8),
    "exits at once": ("_exit(4);", 4 << 8),
    "crashes": (p.FAULT, 11),
    "aborts": ("abort();", 6),
    "crashes in a library": ("*ret = strlen(0);", 11),
    "divides by zero": ("volatile int zero = 0; zero = 1 / zero;", 8),
    "prints and returns": ('printf("from the child");', 0),
    "calls what nobody defines": ("nobody();", 6),
}


def fork(child: str, parent: str = "") -> str:
    """A program of which a forked child does one thing and returns, and its parent another."""
    body = f"pid_t child = fork();\nif (!child) {{ {child} return; }}\n{parent}"
    return program(body, "void nobody(void);")


@pytest.mark.parametrize("name", CHILDREN)
def test_fork(lab: Lab, name: str) -> None:
    child, status = CHILDREN[name]
    pid = lab.executor.pid
    outcome = lab.run(fork(child, WAITS), ret_size=8)
    assert outcome.kind == "ok", outcome
    assert struct.unpack("<2i", outcome.result) == (status, 77)
    assert lab.executor.pid == pid
    if name == "prints and returns":
        assert lab.out == b"from the child"
    lab.assert_sound()


def test_a_child_that_outlives_the_call(lab: Lab) -> None:
    """It returns, crashes or exits while its parent runs other cells."""
    for end in ("", p.FAULT, "exit(1);"):
        assert lab.run(fork(f"usleep(30000); {end}")).kind == "ok"
        deadline = time.monotonic() + 0.1
        while time.monotonic() < deadline:
            assert lab.square(6) == 36
        assert lab.run(p.NULL).kind == "fault"
    lab.assert_sound()


def test_a_forked_child_of_a_thread(lab: Lab) -> None:
    forks = program(
        "pthread_join(start(other), (void **)ret);",
        p.THREAD,
        f"""void *other(void *x) {{
  int status;
  pid_t child = fork();
  if (!child) {p.FAULT}
  waitpid(child, &status, 0);
  return (void *)(long)status;
}}""",
    )
    outcome = lab.run(forks, ret_size=8)
    assert (outcome.kind, outcome.result) == ("ok", struct.pack("<q", 11))
    lab.assert_sound()


@timed
def test_a_death_is_seen_although_a_forked_child_holds_the_socket(fresh: Lab) -> None:
    fresh.run(p.KEEP)
    began = time.monotonic()
    outcome = fresh.run(fork("sleep(1000);", "kill(getpid(), SIGKILL);"))
    assert (outcome.kind, outcome.respawned) == ("died", True)
    in_time(began, 0.5)
    fresh.assert_sound(heap=False)
    assert os.path.exists(f"/proc/{fresh.executor.pid}")
