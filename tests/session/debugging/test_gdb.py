"""Stops of C cells at lines, against gdb's of the same programs built natively without
optimisation: frames, arguments, locals."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jitkernel import Session
from jitkernel.session.debugging.records import Breakpoint, Event
from tests.seeds import seeds

sys.path.insert(0, str(Path(__file__).parents[2] / "elf"))

from debugged import observe, program
from test_dwarf import leaves

MOST, LINES = 40, 20
FLAGS = ("-g", "-gdwarf-4", "-O0", "-fno-omit-frame-pointer")
Stop = list[tuple[str, int, dict[str, dict[str, str]]]]


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(capacity=64 << 20, spare=False) as s:
        yield s


def ours(s: Session, source: str, lines: list[int]) -> list[Stop]:
    """The frames at each stop: names, lines, and the scalars in their variables."""
    debugger, found = s.debugger, []

    def look(event: Event) -> None:
        if event.kind != "stopped":
            return
        stop: Stop = []
        for frame in debugger.frames():
            values: dict[str, dict[str, str]] = {}
            for name, value in debugger._standing.locals(frame.index):
                if not value.missing and value.type.bare.kind != "pointer" and name != "vla":
                    values[name] = leaves(value, debugger.read)
            stop.append((frame.name, frame.line, values))
        if len(found) < MOST:
            found.append(stop)
        debugger.go()

    debugger.start()
    debugger.listener = look
    s.run(source, "c")
    debugger.set_breakpoints(source, [Breakpoint(line=line) for line in lines])
    s.call("main")
    debugger.set_breakpoints(source, [])
    s.check()
    return found


def compare(s: Session, seed: int, folder: Path) -> tuple[int, int, int]:
    """How many lines had a breakpoint, how many stops and values were compared."""
    source = program(seed)
    s.reset()
    rows = source.split("\n")
    plain = [n for n, row in enumerate(rows, 1) if row.startswith(" ") and row.rstrip()[-1] == ";"]
    lines = sorted(random.Random(seed).sample(plain, min(LINES, len(plain))))
    places = [f"a.c:{line}" for line in lines]
    theirs = observe(source, folder, "clang", *FLAGS, places=places, most=MOST).stops
    mine = ours(s, source, lines)
    shape = [[(f["name"], f["line"]) for f in stop["frames"]] for stop in theirs]
    assert [[frame[:2] for frame in stop] for stop in mine] == shape
    count = 0
    for stop, other in zip(mine, theirs, strict=True):
        for (name, line, values), frame in zip(stop, other["frames"], strict=True):
            known: dict[str, Any] = frame["names"]
            assert values.keys() <= known.keys()
            for variable, found in values.items():
                its = known[variable]
                if its["line"] < line and "error" not in its:  # else nothing was put there yet
                    assert found == its["leaves"], (seed, name, line, variable)
                    count += len(found)
    return len(lines), len(mine), count


@pytest.mark.parametrize("seed", seeds(2, 10))
def test_stops_are_gdbs(session: Session, seed: int, tmp_path: Path) -> None:
    lines, stops, values = compare(session, seed, tmp_path)
    print(f"{lines} lines, {stops} stops, {values} values")
    assert stops
    assert values
