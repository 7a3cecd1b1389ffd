"""Tables of functions that threads may look into while others are made."""

from __future__ import annotations

import random
import struct

import pytest

from jitkernel.arena import Arena
from jitkernel.errors import ArenaFull
from jitkernel.linker.unwind_table import UnwindTable

_LEAST = 4096  # bytes of a table


def entries(arena: Arena, at: int) -> list[int]:
    """A table as an unwinder reads it: its number of entries first."""
    _, count = struct.unpack("<QQ", arena.read(at, 16))
    return [*struct.unpack(f"<{count}Q", arena.read(at + 16, 8 * count))]


@pytest.fixture
def arena():
    made = Arena(capacity=32 << 20)
    yield made
    made.close()


@pytest.mark.parametrize("shared", [False, True])
def test_a_table_in_use_is_only_added_to(arena, shared):
    """And it is left as it is when another one is made; where threads may be, for long."""
    arena.in_use = lambda: shared
    table, rng = UnwindTable(arena), random.Random(4)
    rows: list[tuple[int, int]] = []
    before: list[tuple[int, list[int]]] = []
    for step in range(150):
        if rows and rng.random() < 0.3:
            gone = [rows.pop(rng.randrange(len(rows)))]
            table.remove([*gone, (1, 2)])  # who is not listed is passed over
        else:
            come = [
                (rng.randrange(1 << 20) * 4096 + step, step) for _ in range(rng.choice((1, 9, 70)))
            ]
            rows += come
            table.add(come)
        table.publish()
        rows.sort()
        assert entries(arena, table.address) == [fde for _, fde in rows]
        area = next(r for r in arena.regions if r.name == "unwind.table")
        assert area.start <= table.address <= area.stop - 16 - 8 * len(rows)
        for at, was in before[-1 if not shared else -4 :]:
            found = arena.read(at + 16, 8 * len(was))
            assert found == struct.pack(f"<{len(was)}Q", *was), "nobody has written over it"
        before.append((table.address, [fde for _, fde in rows]))
    held = sum(b - a for a, b in arena.held(area.start, area.stop))
    assert shared or held <= 3 * (16 + 10 * len(before[-1][1])) + 4 * _LEAST


def test_what_comes_behind_the_end_makes_no_other_table(arena):
    table = UnwindTable(arena)
    seen = set()
    for number in range(400):
        table.add([(1000 + number, number)])
        table.publish()
        seen.add(table.address)
    assert len(seen) == 1
    table.add([(3, 3)])
    table.publish()
    assert table.address not in seen


def test_there_is_room_for_another_one_always(arena):
    table = UnwindTable(arena)
    area = next(r for r in arena.regions if r.name == "unwind.table")
    with pytest.raises(ArenaFull, match=r"the table of \d+ functions"):
        for first in range(0, 1 << 20, 5000):
            if len(table.fdes) + 5000 > table.most:
                raise table.full(5000)
            table.add([(number, number) for number in range(first, first + 5000)])
            table.publish()
    for _ in range(20):
        table.remove([(5, 5)])
        table.publish()
        table.add([(5, 5)])
        table.publish()
        assert entries(arena, table.address)[5] == 5
        assert area.start <= table.address < area.stop
