"""Every value at every step, against an interpreter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import random_ir
from random_ir import Program, same

from jitkernel import Session
from jitkernel.session.debugging.records import Breakpoint, Event
from jitkernel.session.debugging.values import bytes_of
from jitkernel.values.python import to_python

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


def steps(s: Session, program: Program, source: str) -> list[tuple[int, dict[str, Any]]]:
    """The line and the values at each step of the program's last function but one."""
    debugger, found = s.debugger, []

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
            if data is not None and value.type.kind != "pointer":
                values[name] = to_python(value.type, data)
        found.append((frame.line, values))
        debugger.go("next")

    debugger.listener = look
    debugger.set_breakpoints(source, [])
    point = debugger.add(Breakpoint(function=f"@{program.name}", temporary=True))
    assert s.call(program.entry) % (1 << 64) == program.result % (1 << 64)
    assert point.number not in {p.number for p in debugger.breakpoints}
    return found


def check(s: Session, seed: int) -> int:
    """The number of values that were compared."""
    program = random_ir.program(seed)
    s.reset()
    s.debugger.start()
    s.run(program.text)
    assert s.call(program.entry) % (1 << 64) == program.result % (1 << 64)
    found = steps(s, program, program.text)
    wanted = program.trace[:LIMIT]
    assert [line for line, _ in found] == [line for line, _ in wanted], seed
    compared = 0
    for (line, values), (_, env) in zip(found, wanted, strict=True):
        assert values.keys() == {f"%{name.lstrip('%')}" for name in env}, (seed, line)
        for name, value in env.items():
            here = values[f"%{name.lstrip('%')}"]
            assert agrees(value, here), (seed, line, name, value, here)
            compared += 1
    s.check()
    return compared


@pytest.mark.parametrize("seed", range(8))
def test_each_value_at_each_step_is_the_interpreter_s(shared: Session, seed: int) -> None:
    assert check(shared, seed) > 0


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_thousand_programs(capsys: pytest.CaptureFixture[str]) -> None:
    compared = 0
    with Session() as s:
        for seed in range(1_000, 2_000):
            compared += check(s, seed)
    with capsys.disabled():
        print(f"\n1,000 programs, {compared:,} values compared")
