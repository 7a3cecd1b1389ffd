"""What a zone held and what differs since, beside a copy of the whole zone."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from jitkernel.arena import Arena
from jitkernel.arena.mirror import Mirror
from jitkernel.arena.slab import PAGE


@pytest.fixture
def arena() -> Iterator[Arena]:
    arena = Arena(8 << 20)
    yield arena
    arena.close()


def whole(arena: Arena) -> bytes:
    """The data zone without touching what holds no memory."""
    zone = arena.zones["data"]
    data = bytearray(zone.high - zone.start)
    for at, stop in arena.held(zone.start, zone.high):
        data[at - zone.start : stop - zone.start] = arena.read(at, stop - at)
    return bytes(data)


def test_each_page_that_differs_is_told_with_what_it_was(arena: Arena) -> None:
    chance, mirror, zone = random.Random(5), Mirror(arena, "data"), arena.zones["data"]
    live, before, taken = [], b"", mirror.snapshot()
    for _ in range(300):
        for _ in range(chance.randrange(4)):
            roll = chance.random()
            if roll < 0.3 or not live:
                live.append(arena.reserve("data", chance.choice([8, 500, 9000, 100_000])))
            elif roll < 0.5:
                arena.free(live.pop(chance.randrange(len(live))))
            elif roll < 0.6:
                extent = chance.choice(live)
                arena.zero(extent.start, extent.size)
            else:
                extent = chance.choice(live)
                at = extent.start + chance.randrange(extent.size)
                arena.write(at, chance.randbytes(min(8, extent.stop - at)))
        if chance.random() < 0.1:
            arena.trim()
        now = whole(arena)
        then = dict(mirror.since(taken))
        told = {seen.address: (seen.was, seen.now) for seen in mirror.look()}
        for at in range(0, len(now), PAGE):
            was, is_now = before[at : at + PAGE], now[at : at + PAGE]
            found = told.pop(zone.start + at, None)
            if found is None:  # what holds no memory is not told where it is new
                assert was == is_now or not (was + is_now).strip(b"\0")
            else:
                assert found == (was, is_now) and was != is_now
            changed = was != is_now[: len(was)]
            assert then.pop(zone.start + at, None) == (was if changed else None)
        assert not told and not then
        before, taken = now, mirror.snapshot()
        arena.check()


def test_looking_takes_no_memory(arena: Arena) -> None:
    extent = arena.reserve("data", 2 << 20)
    arena.write(extent.start + (1 << 20), b"x")
    mirror, held = Mirror(arena, "data"), arena.resident()
    assert [seen.now[:1] for seen in mirror.look()] == [b"x"]
    assert mirror.look() == [] and arena.resident() == held


def test_what_is_noted_is_what_was(arena: Arena) -> None:
    extent = arena.reserve("data", 3 * PAGE, PAGE)
    arena.write(extent.start, b"a" * 10)
    arena.write(extent.start + 2 * PAGE, b"b" * PAGE)
    mirror = Mirror(arena, "data")
    mirror.learn(extent.start, b"a" * 10)
    mirror.learn(extent.start + 2 * PAGE, b"b" * (PAGE - 1) + b"c")
    assert [(s.address, s.was[-1:], s.now[-1:]) for s in mirror.look()] == [
        (extent.start + 2 * PAGE, b"c", b"b")
    ]
    assert mirror.look() == []
    arena.close()
    assert mirror.look() == []
