"""Memory over time: bounded, thinned out evenly, peaks kept."""

from __future__ import annotations

import mmap
import os

import pytest

from jitkernel.procfs import own_bytes
from jitkernel.session.report.memory import MemoryLog


class Slab:
    """An arena that holds what it is told."""

    size = 0

    def resident(self) -> int:
        return self.size


@pytest.mark.parametrize("count", [1, 5, 11, 12, 500, 5000])
def test_the_number_of_samples_is_bounded_and_the_ends_are_there(count):
    log = MemoryLog(Slab(), kept=10)
    for cell in range(1, count + 1):
        log.sample(cell, 0, (), now=True)
    cells = [s.cell for s in log.samples]
    assert len(cells) <= 10 and cells == sorted(set(cells))
    assert cells[0] == 1 and cells[-1] == count


def test_a_peak_outlives_thinning():
    slab = Slab()
    log = MemoryLog(slab, kept=10)
    for cell in range(1, 300):
        slab.size = 1 << 30 if cell == 77 else 4096
        log.sample(cell, 0, (), now=True)
    assert [s.cell for s in log.samples if s.slab == 1 << 30] == [77]


def test_samples_are_not_taken_all_the_time():
    log = MemoryLog(Slab(), often=3600)
    for cell in range(100):
        log.sample(cell, 0, ())
    assert [s.cell for s in log.samples] == [0]
    log.sample(100, 0, (), now=True)
    assert [s.cell for s in log.samples] == [0, 100]


def test_looking_again_adds_nothing():
    log = MemoryLog(Slab())
    for _ in range(5):
        log.sample(3, 0, (), now=True)
    assert len(log.samples) == 1


def test_own_bytes_counts_what_is_no_files():
    before = own_bytes(os.getpid())
    # Not from the heap: what other tests have freed there may be in memory already.
    with mmap.mmap(-1, 32 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as block:
        block.write(b"x" * (32 << 20))
        assert 31 << 20 <= own_bytes(os.getpid()) - before <= 66 << 20
    assert own_bytes(0) == own_bytes((1 << 22) + 1) == 0


@pytest.mark.process
def test_a_session_notes_its_cells(s):
    s.run("define i32 @one() {\n  ret i32 1\n}\n@one()")  # the program's process is there now
    s.run("@g = global i32 1")
    last = s.inspect.memory_samples()[-1]
    assert last.cell == s.number
    assert last.slab == s.inspect.engine.arena.resident()
    assert min(last.kernel, last.executor, last.workers) > 1 << 20
    assert last.total == last.slab + last.kernel + last.executor + last.workers
