"""Nothing that is done with a session leaves anything behind but what is documented.

What is done is in growing.py, which runs in a process of its own: there each byte is counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from growing import CELLS, operations
from live import HEAP

from jitkernel import Session
from jitkernel.session import FrontendSide
from tests.seeds import few

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
#: What has a bound that a short test does not reach.
BOUNDED = {
    "jitkernel.session.report.memory.Sample",  # 240
    "jitkernel.procfs.Mapped",  # of the last few executors
    "jitkernel.ir.types.IntType",  # of the 100 results
    "weakref.ReferenceType",
}
#: Parts of a session, which have operations of their own, or nothing that could be repeated.
PARTS = {
    "aside",
    "closed",
    "core",
    "configure",
    "debugger",
    "frontend",
    "inspect",
    "number",
    "restored",
    "results",
    "settings",
}


def grown(folder: Path, before: int, steps: int, *names: str) -> dict[str, tuple[float, dict]]:
    """Bytes a time, and types, by operation."""
    done = subprocess.run(
        [sys.executable, HERE / "growing.py", str(before), str(steps), folder, *names],
        capture_output=True,
        text=True,
        env=os.environ | HEAP | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {name: (each, kinds) for name, each, kinds in rows}


def test_everything_is_done(s, tmp_path):
    """Whoever adds an operation to the session adds it there."""
    words = {w for name in operations(s, tmp_path) for w in name.partition(":")[0].split()}
    both = {*dir(Session), *dir(FrontendSide)}
    public = {name for name in both if not name.startswith("_")}
    assert public - PARTS <= words
    assert {f"run: {name}" for name in CELLS} <= set(operations(s, tmp_path))


@pytest.mark.parametrize("names", few([["every fourth"], []], 1), ids=["some", "all"])
def test_no_operation_leaves_an_object(tmp_path, names):
    steps = 40
    found = grown(tmp_path, 30, steps, *names)
    assert len(found) > (11 if names else 45)
    left = {
        name: {k: n for k, n in kinds.items() if n > 0.7 * steps and k not in BOUNDED}
        for name, (_, kinds) in found.items()
    }
    assert {name: kinds for name, kinds in left.items() if kinds} == {}


def test_what_holds_on_is_found(tmp_path, monkeypatch):
    """The count can fail: a result that is kept by its number is one too many each time."""
    monkeypatch.setenv("GROWING_LEAK", "1")
    _, kinds = grown(tmp_path, 30, 40, "call")["call"]
    assert kinds["builtins.list"] >= 40


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_no_operation_leaves_bytes(tmp_path):
    """Caches are full by then: each has a bound."""
    found = grown(tmp_path, 5000, 3000, *[f"run: {name}" for name in CELLS], "call", "value")
    assert {name: each for name, (each, _) in found.items() if each > 16} == {}


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_twenty_thousand_cells(tmp_path, capsys):
    """Of every kind in turn; the tables that have a bound are full before."""
    each, kinds = grown(tmp_path, 10_000, 20_000, "run: mixed")["run: mixed"]
    with capsys.disabled():
        print(f"\nlibrary: {each:.1f} bytes a cell over 20,000 cells")
    assert each <= 16 and not kinds, (each, kinds)
