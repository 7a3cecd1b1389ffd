"""Every value at every step, against LLVM's interpreter, or that of the tests where there is none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import random_ir
import traced_ir
from random_ir import Env, Program, same

from jitkernel import Session
from jitkernel.errors import JitError
from jitkernel.session.debugging.records import Breakpoint, Event
from jitkernel.session.debugging.values import bytes_of
from jitkernel.values.python import to_python
from tests.seeds import sampled

pytestmark = pytest.mark.process
LIMIT = 500  # steps of a program that are looked at


@pytest.fixture(scope="module")
def shared() -> Iterator[Session]:
    with Session() as s:
        yield s


def agrees(wanted: Any, found: Any) -> bool:
    """True if a value that Python sees, whose integers have signs, is the interpreter's."""
    if isinstance(wanted, tuple):
        return len(wanted) == len(found) and all(map(agrees, wanted, found))
    if isinstance(wanted, int):
        bits = max(wanted.bit_length(), 1)
        return (int(found) - wanted) % (1 << bits) == 0 if int(found) < 0 else int(found) == wanted
    return same(wanted, found)


def steps(s: Session, program: Program) -> list[tuple[int, dict[str, Any]]]:
    """The line and the values at each step of the program's last function but one."""
    debugger, found = s.debugger, []
    [types] = [f.types for f in program.functions if f.name == program.name]

    def look(event: Event) -> None:
        if event.kind != "stopped":
            return
        frame = debugger.frames()[0]
        if frame.name != f"@{program.name}" or len(found) >= LIMIT:
            debugger.go()
            return
        values = {}
        for name, value in debugger._standing.locals(0):
            data = None if value.missing else bytes_of(value, debugger.read)
            if data is not None and name in types:
                values[name] = to_python(value.type, data)
        found.append((frame.line, values))
        debugger.go("next")

    debugger.listener = look
    point = debugger.add(Breakpoint(function=f"@{program.name}", temporary=True))
    assert s.call(program.entry) % (1 << 64) == program.result % (1 << 64)
    assert point.number not in {p.number for p in debugger.breakpoints}
    return found


def traces(programs: list[Program], folder: Path) -> list[list[tuple[int, Env]]]:
    """The steps of programs with all values."""
    if shutil.which("lli"):
        return traced_ir.by_lli(programs, folder)
    return [traced_ir.without_pointers(program) for program in programs]


def check(
    s: Session, seed: int, program: Program, trace: list[tuple[int, Env]], more: str = ""
) -> int:
    """The number of values that were compared; the module ends with `more`."""
    s.reset()
    if more:
        try:
            s.load("libstdc++.so.6")
        except JitError:
            pytest.skip("there is no libstdc++")
    s.debugger.start()
    s.run(program.text + more)
    assert s.call(program.entry) % (1 << 64) == program.result % (1 << 64)
    found = steps(s, program)
    wanted = trace[:LIMIT]
    assert [line for line, _ in found] == [line for line, _ in wanted], seed
    compared = 0
    for (line, values), (_, env) in zip(found, wanted, strict=True):
        assert values.keys() == env.keys(), (seed, line)
        for name, value in env.items():
            here = values[name]
            assert agrees(value, here), (seed, line, name, value, here)
            compared += 1
    s.check()
    return compared


QUICK, THROWING = range(4), range(2)


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Program, list[tuple[int, Env]]]]:
    programs = [random_ir.program(seed) for seed in QUICK]
    return [*zip(programs, traces(programs, tmp_path_factory.mktemp("lli")), strict=True)]


@pytest.mark.parametrize("seed", sampled(QUICK, 4))
def test_each_value_at_each_step_is_the_interpreter_s(
    shared: Session, seed: int, quick: list[tuple[Program, list[tuple[int, Env]]]]
) -> None:
    assert check(shared, seed, *quick[seed]) > 0


@pytest.fixture(scope="module")
def throwing(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Program, Any]]:
    programs = [random_ir.program(seed, throws=True) for seed in THROWING]
    traced = traced_ir.natively(programs, tmp_path_factory.mktemp("native"))
    return [*zip(programs, traced, strict=True)]


@pytest.mark.parametrize("seed", THROWING)
def test_each_value_where_functions_throw_is_a_native_program_s(
    shared: Session, seed: int, throwing: list[tuple[Program, list[tuple[int, Env]]]]
) -> None:
    assert check(shared, seed, *throwing[seed], random_ir.THROWING) > 0


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_hundreds_of_programs_that_throw(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    programs = [random_ir.program(seed, throws=True) for seed in range(1_000, 1_300)]
    traced = traced_ir.natively(programs, tmp_path)
    pads = compared = 0
    with Session() as s:
        for seed, (program, trace) in enumerate(zip(programs, traced, strict=True), 1_000):
            compared += check(s, seed, program, trace, random_ir.THROWING)
            rows = program.text.split("\n")
            pads += sum("landingpad" in rows[line - 1] for line, _ in trace[:LIMIT])
    with capsys.disabled():
        print(f"\n{len(programs)} programs, {pads} landing pads, {compared:,} values compared")


@pytest.mark.slow
def test_one_interpreter_against_the_other(tmp_path: Path) -> None:
    """Each value at each step of many programs, without a debugger."""
    if not shutil.which("lli"):
        pytest.skip("there is no lli")
    programs = [random_ir.program(seed) for seed in range(2_000, 2_300)]
    for program, trace in zip(programs, traced_ir.by_lli(programs, tmp_path), strict=True):
        wanted = traced_ir.without_pointers(program)
        assert [line for line, _ in trace] == [line for line, _ in wanted]
        for (line, env), (_, other) in zip(trace, wanted, strict=True):
            assert env.keys() == other.keys(), (program.name, line)
            assert all(same(value, other[name]) for name, value in env.items()), (
                program.name,
                line,
            )


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_thousand_programs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    compared = 0
    with Session() as s:
        for first in range(1_000, 2_000, 100):
            programs = [random_ir.program(seed) for seed in range(first, first + 100)]
            every = zip(programs, traces(programs, tmp_path), strict=True)
            compared += sum(check(s, first + at, *each) for at, each in enumerate(every))
    with capsys.disabled():
        print(f"\n1,000 programs, {compared:,} values compared")
