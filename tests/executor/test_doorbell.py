"""Calls that are handed over in shared memory: each runs once, whatever the moment it comes at."""

from __future__ import annotations

import os
import random
import time
from typing import Any

import pytest

from jitkernel import Session
from jitkernel.errors import Fault
from jitkernel.executor import doorbell

CELL = """#include <stdio.h>
#include <unistd.h>
long n;
long next(void) { return ++n; }
long said(void) { printf("%ld\\n", next()); return n; }
long slow(int us) { usleep(us); return next(); }
long wrong(volatile long *p) { next(); return *p; }"""


@pytest.fixture
def s() -> Any:
    with Session() as s:
        s.run(CELL, "c")
        yield s


def bell_of(s: Session) -> Any:
    return s.inspect.engine.executor._bell  # type: ignore[attr-defined]


def pause(seconds: float) -> None:
    """A moment in which this process runs."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def counted(s: Session) -> dict[str, int]:
    """How many calls were handed over, and how many of those went over the socket, too."""
    bell, found = bell_of(s), {"rung": 0, "twice": 0}
    ring = bell.ring

    def counting(message: bytes) -> bool:
        rung: bool = ring(message)
        found["rung"] += rung
        found["twice"] += bell._twice
        return rung

    bell.ring = counting
    return found


@pytest.mark.parametrize(("cycles", "looks"), [(2_000, 10), (60_000, 0), (250_000, 150)])
def test_each_call_runs_once_at_whatever_moment_it_comes(
    s: Session, cycles: int, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doorbell, "_CYCLES", cycles)
    monkeypatch.setattr(doorbell, "_LOOKS", looks)
    monkeypatch.setattr(doorbell, "_MOST", 1)
    monkeypatch.setattr(doorbell, "_NEAR", 10**9)
    chance, is_now = random.Random(cycles + looks), 0
    for _ in range(400):
        is_now += 1
        match chance.randrange(12):
            case 0:
                assert s["slow"](chance.randrange(200)) == is_now
            case 1:
                with pytest.raises(Fault):
                    s["wrong"](None)
            case 2:
                s.inspect.engine.executor.services.lookup(["strlen"])
                assert s["next"]() == is_now
            case 3:  # nobody waits for what is told
                s.inspect.engine.executor.tell("unmap", [])
                assert s["next"]() == is_now
            case _:
                assert s["next"]() == is_now
        pause(chance.choice([0, 0, 5e-6, 2e-5, 5e-5, 1e-4]))
    assert s["n"].value == is_now


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="nobody looks where one core is")
def test_calls_that_follow_one_another_closely_are_handed_over(
    s: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each looks for so long that a busy machine lets the other come to it meanwhile."""
    monkeypatch.setattr(doorbell, "_CYCLES", 10**9)
    monkeypatch.setattr(doorbell, "_NEAR", 10**9)
    found, end = counted(s), time.monotonic() + 120
    while not found["rung"]:
        s["next"]()
        assert time.monotonic() < end


def test_a_request_that_came_both_ways_is_served_once(s: Session) -> None:
    bell = bell_of(s)
    ring = bell.ring

    def both(message: bytes) -> bool:
        if ring(message):
            bell._twice = True
        return False

    bell.ring = both
    for number in range(1, 2001):
        assert s["next"]() == number
    assert s["n"].value == 2000


def test_what_is_printed_comes_before_the_call_ends(s: Session, capfd: Any) -> None:
    found = []
    for number in range(1, 301):
        assert s["said"]() == number
        found.append(capfd.readouterr().out)
    assert found == [f"{number}\n" for number in range(1, 301)]


def test_where_looking_finds_nothing_it_is_seldom_tried(s: Session) -> None:
    """As where another process has the only core that is free."""
    bell = bell_of(s)
    for _ in range(20):
        s["next"]()
    tried, ring = 0, bell.ring

    def deaf(message: bytes) -> bool:
        nonlocal tried
        bell._view[bell._listening : bell._listening + 8] = bytes(8)
        ring(message)
        tried += bell._trying
        return False

    bell.ring = deaf
    bell._several = True
    for _ in range(1000):
        s["next"]()
    assert tried < 100


def test_a_process_with_one_core_never_looks(s: Session) -> None:
    bell, found = bell_of(s), counted(s)
    bell._several = False
    for number in range(1, 200):
        assert s["next"]() == number
    assert not found["rung"]


def test_calls_go_on_when_the_process_was_replaced(s: Session) -> None:
    for number in range(1, 50):
        assert s["next"]() == number
        if number % 10 == 0:
            s.inspect.engine.executor.respawn()
    s.check()
