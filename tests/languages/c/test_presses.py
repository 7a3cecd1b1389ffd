"""The stop button while a cell of C is read, compiled or run: it ends the cell, whenever it comes."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jitkernel import Session

sys.path.insert(0, str(Path(__file__).parent))
from pressing import press

pytest.importorskip("ziglang")
pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def no_callbacks() -> Iterator[None]:
    """Hypothesis is called by the garbage collector, where Python drops what is raised."""
    callbacks = gc.callbacks[:]
    gc.callbacks.clear()
    yield
    gc.callbacks.extend(callbacks)


#: A press that comes while Python calls back for a weak reference is dropped by Python, which says
#: so; the session ends the cell at its next step.
dropped = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@dropped
def test_presses_at_every_moment_of_a_cell():
    with Session() as s:
        assert press(s, 60, seed=1) >= 20
        s.check()


@dropped
def test_presses_while_a_session_begins():
    ended = 0
    for seed in range(4):
        with Session() as s:
            ended += press(s, 1, seed)
    assert ended


def test_nothing_that_reads_a_cell_starts_a_thread(monkeypatch):
    """An exception that is raised in the reading thread might reach the new one instead."""
    started = []
    start = threading.Thread.start

    def noted(thread):
        if s._core.foreign:
            started.append(thread)
        start(thread)

    with Session() as s:
        monkeypatch.setattr(threading.Thread, "start", noted)
        for number in range(3):
            s.run("#include <math.h>\n#include <string.h>\n", "c")
            s.run(f"/* {'x' * 300_000} */ int f(int x) {{ return x + {number}; }}", "c")
            assert s.run('f(strlen("ab")) + (int) hypot(3, 4)', "c").value == 7 + number
    assert not started


@pytest.mark.soak
@pytest.mark.timeout(3600)
@dropped
def test_many_presses():
    ended = 0
    for seed in range(10):
        with Session() as s:
            ended += press(s, 300, seed)
            s.check()
    assert ended >= 1000
