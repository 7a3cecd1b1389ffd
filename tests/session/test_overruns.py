"""Code that writes past the end of a variable: told, with what comes next, or a fault."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from programs import constant

from jitkernel import Session
from jitkernel.errors import Fault
from tests.looping import looping

FILL = "void fill(volatile char *p, long n) { while (n--) *p++ = 77; }"


def overrun(notes: list[str]) -> str:
    found = [note for note in notes if "ran past" in note]
    assert len(found) <= 1
    return "".join(found)


def test_a_write_into_what_lies_behind_a_variable_is_told_once(s: Session) -> None:
    s.run(FILL, "c")
    s.run("@a = global [3 x i32] zeroinitializer")
    s.run("@b = global i32 5")
    assert overrun(s.run("@fill(@a, 12)").notes) == ""
    told = overrun(s.run("@fill(@a, 13)").notes)
    assert "past the end of @a (cell" in told and "over" not in told and "@b (cell" in told
    assert overrun(s.run("@fill(@a, 12)").notes) == ""
    assert s["b"].value == 5
    assert overrun(s.run("@fill(@a, 16)").notes), "once more is told once more"
    s.inspect.engine.arena.check()


def test_what_was_run_over_is_named_and_undo_brings_it_back(s: Session) -> None:
    s.run(FILL, "c")
    s.run("@a = global [4 x i32] [i32 1, i32 2, i32 3, i32 4]")
    s.run("@b = global i32 5")
    s.run("@c = global i64 6")
    told = overrun(s.run("@fill(@a, i64 24)").notes)
    assert "past the end of @a (cell" in told and "over @b (cell" in told and "@c (cell" in told
    assert s["b"].value == 0x4D4D4D4D and s["c"].value == 6
    s.undo()
    assert [s["b"].value, s["c"].value] == [5, 6] and s.run("@a").text.startswith(
        "[4 x i32] [i32 1"
    )


def test_variables_without_a_gap_behind_them(s: Session) -> None:
    s.run(FILL, "c")
    s.run("@a = global [16 x i8] zeroinitializer")
    s.run("@b = global [32 x i8] zeroinitializer")
    last = "@b" if s["b"].address > s["a"].address else "@a"
    told = overrun(s.run(f"@fill({last}, 500)").notes)
    assert f"past the end of {last} (cell" in told
    assert overrun(s.run(f"@fill({last}, 16)").notes) == ""


@pytest.mark.process
def test_a_write_past_all_variables_is_a_fault(s: Session) -> None:
    s.run(FILL, "c")
    s.run("@a = global [3 x i32] zeroinitializer")
    s.run("@b = global i32 5")
    with pytest.raises(Fault, match="behind all variables: the last one is @b") as caught:
        s.run("@fill(@a, 100000000)")
    words = str(caught.value)
    assert "A write ran past the end of @a (cell" in words and "over @b (cell" in words
    assert "Nothing was lost" in words
    s.undo()
    assert s["b"].value == 5
    s.run("@c = global i32 7")
    assert s["c"].value == 7 and s.inspect.engine.arena.resident() < 4 << 20


@pytest.mark.process
def test_a_thread_finds_the_data_of_code_that_is_redefined(s: Session) -> None:
    """Nothing calls the executor between the definition and the thread's use of it."""
    s.configure("inlining", False)  # else the thread goes on with what it has
    s.run("volatile int seen;\nint f(void) { return 1; }\n" + looping("seen = f();", "begin"), "c")
    assert s.call("begin") == 0
    generation = s.inspect.engine.executor.generation
    for number in range(2, 6):
        cell = f"char big{number}[20000]; int n{number} = {number}; int f(void) {{ return n{number}; }}"
        s.run(cell, "c")
        while s["seen"].value != number:  # or the process has ended, and the thread with it
            assert s.inspect.engine.executor.threads == 1
            time.sleep(0.001)
    s.run("@stop = 1")
    assert s.inspect.engine.executor.generation == generation


def test_nothing_is_told_of_what_is_as_it_should_be(
    fresh: Callable[..., Session], tmp_path: Path
) -> None:
    s = fresh()
    s.run(FILL, "c")
    for number in range(40):
        size = 1 + number * 7 % 61
        cell = f"@v{number} = global [{size} x i8] zeroinitializer\n{constant('f', number)}"
        assert overrun(s.run(f"{cell}\n@fill(@v{number}, {size})").notes) == ""
        if number % 5 == 4:
            s.undo()
            s.redo()
        if number % 7 == 6:
            s.evict(f"v{number - 3}")
    path = str(tmp_path / "overruns.jks")
    s.save(path)
    with Session.restore(path) as again:
        for symbol in [n for n in again.symbols if n.startswith("v")]:
            size = again.symbols[symbol].size
            assert overrun(again.run(f"@fill(@{symbol}, {size})").notes) == ""
