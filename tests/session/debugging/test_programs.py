"""C programs that somebody else wrote, stopped beside gdb: frames, arguments and locals at lines,
and, optimised, nothing that is not so.

`C_BENCHMARKS=folder pytest -m soak` takes all files of C of a folder, such as a benchmark of LLVM's
test suite; else there are those of the benchmarks.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.c_programs import PROGRAMS
from jitkernel import Session
from tests.seeds import few
from tests.session.debugging import beside_gdb

pytestmark = pytest.mark.process
HITS = (*range(1, 25), 30, 40, 50, 75, 100, 150, 200, 300)  # of `marker`, in optimised programs


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    pytest.importorskip("ziglang")
    for name in ("gdb", "gcc"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
    with Session(capacity=256 << 20, spare=False) as s:
        yield s


def own(name: str) -> str:
    return PROGRAMS[name] + "\nvolatile long got; int main(void) { got = work(); return 0; }\n"


def others() -> dict[str, str]:
    folder = os.environ.get("C_BENCHMARKS", "")
    files = sorted(Path(folder).glob("*.c")) if folder else []
    return {file.name: file.read_text(errors="replace") for file in files} or {
        name: own(name) for name in PROGRAMS
    }


def at_lines(s: Session, name: str, source: str, folder: Path, most: int) -> tuple[int, int, int]:
    """How many lines had a breakpoint, how many stops and values were compared."""
    beside_gdb.built(source, folder)
    where = beside_gdb.places(source, folder)
    some = random.Random(name).sample(sorted(where), min(most, len(where)))
    lines = sorted({where[line]: line for line in some}.values())
    theirs = beside_gdb.native(folder, lines)
    s.reset()
    set_at, mine = beside_gdb.ours(s, source, lines)
    assert set_at == {line: where[line] for line in lines}, name
    count, wrong = beside_gdb.differences(mine, theirs)
    assert not wrong, "\n".join([name, *wrong[:10]])
    return len(lines), len(theirs), count


def when_optimised(s: Session, name: str, source: str, folder: Path) -> tuple[int, int, int]:
    """How many stops there were, how many values were told, and how many were not."""
    source = beside_gdb.marked(source)
    beside_gdb.built(source, folder)
    theirs = beside_gdb.native(folder, (), hits=HITS)
    other = beside_gdb.optimised(source, folder, HITS)
    s.reset()
    s.debugger.start()
    s.debugger.optimised = True
    try:
        _, mine = beside_gdb.ours(s, source, (), HITS)
    finally:
        s.debugger.optimised = False
    told, missing, wrong = beside_gdb.untrue(mine, theirs, other)
    assert not wrong, "\n".join([name, *wrong[:10]])
    return len(theirs), told, missing


@pytest.mark.parametrize("name", few(["trees", "edit"], 1))
def test_stops_are_gdb_s(session: Session, name: str, tmp_path: Path) -> None:
    lines, stops, values = at_lines(session, name, own(name), tmp_path, 6)
    assert lines
    assert stops >= lines // 2
    assert values


def test_optimised_values_are_so(session: Session, tmp_path: Path) -> None:
    stops, told, _ = when_optimised(session, "spectral", own("spectral"), tmp_path)
    assert stops
    assert told


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_many_programs(
    session: Session, level: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    every = []
    for name, source in others().items():
        folder = tmp_path / name
        folder.mkdir()
        try:
            if level == "-O0":
                found = at_lines(session, name, source, folder, 24)
            else:
                found = when_optimised(session, name, source, folder)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            with capsys.disabled():
                print(f"\n{name}: left out: {error}", end="")
            continue
        every.append(found)
    words = "lines, {} stops, {}" if level == "-O0" else "stops, {} told, {} not"
    with capsys.disabled():
        sums = [sum(column) for column in zip(*every, strict=True)]
        print(f"\n{level}: {len(every)} programs, {sums[0]} {words.format(*sums[1:])} values")
    assert every
