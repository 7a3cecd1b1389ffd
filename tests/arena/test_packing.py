"""Which extents are moved so that one more fits: small zones, drawn, and random ones."""

from __future__ import annotations

import random

import pytest

from jitkernel.arena import FreeList
from jitkernel.arena.packing import Movable, plan

G = 16


def zone(drawing: str) -> FreeList:
    """A letter is 16 bytes: those of one extent are the same, `.` is free."""
    books = FreeList(0, G * len(drawing))
    at = 0
    while at < len(drawing):
        stop = at
        while stop < len(drawing) and drawing[stop] == drawing[at]:
            stop += 1
        if drawing[at] != ".":
            assert books.take_at(G * at, G * (stop - at))
        at = stop
    return books


def carry_out(books: FreeList, moves: list[tuple[int, int]]) -> None:
    for start, to in moves:
        size = books.live[start]
        books.give(start)
        assert books.take_at(to, size)
        books.check()


def find(
    books: FreeList, size: int, *, limit: int = 0, align: int = G, stay: str = "", drawing: str = "",
    most: int = 9, aligns: int = G,
) -> list[tuple[int, int]]:  # fmt: skip
    movable = Movable(
        lambda at: True, lambda at: 0 if drawing and drawing[at // G] in stay else aligns
    )
    return plan(books, limit or books.stop, size, align, movable, most)


@pytest.mark.parametrize(
    ("drawing", "granules", "stay", "moves"),
    [
        ("aa.bb.cc", 2, "", [(3, 2)]),  # b slides over what is left of a hole
        ("aa..b..c", 3, "", [(4, 2)]),
        ("aaa.bb.c..d", 3, "", [(7, 3)]),  # c goes where it fits
        ("aaa.bb.c..d", 3, "c", [(10, 3)]),
        ("aaa.bb.c..d", 3, "cd", [(4, 8)]),
        ("aaa.bb.c..d", 3, "bcd", []),
        ("a.b.c.d.", 4, "", [(2, 7), (4, 5)]),  # two go elsewhere, where three would slide
        ("aa.bb.cc.dd.", 4, "", [(3, 2), (6, 4), (9, 6)]),  # no hole takes one: they slide
        ("aa.bb.cc.dd.", 4, "b", []),
        ("a.b.c.d.", 5, "", []),
    ],
)
def test_the_fewest_moves(drawing, granules, stay, moves) -> None:
    books = zone(drawing)
    found = find(books, G * granules, stay=stay, drawing=drawing)
    assert len(found) == len(moves)
    carry_out(books, found)
    assert bool(found) == (books.largest >= G * granules)


def test_no_more_than_was_said() -> None:
    assert len(find(zone("aa.bb.cc.dd."), 4 * G)) == 3
    assert not find(zone("aa.bb.cc.dd."), 4 * G, most=2)


def test_below_a_limit() -> None:
    books = zone("aa.bb.c............")
    moves = find(books, 3 * G, limit=8 * G)
    carry_out(books, moves)
    assert books.find(3 * G) and any(
        stop - start >= 3 * G for start, stop in ((s, min(e, 8 * G)) for s, e in books.holes())
    )
    assert all(to + books.live[to] <= 8 * G for _, to in moves)


@pytest.mark.parametrize("seed", range(30))
def test_whatever_it_finds_makes_room(seed: int) -> None:
    rng = random.Random(seed)
    found = 0
    for _ in range(40):
        books = FreeList(1 << 12, (1 << 12) + G * 200)
        live = [at for _ in range(60) if (at := books.take(rng.randrange(1, 120), G)) is not None]
        for at in rng.sample(live, len(live) // 2):
            books.give(at)
            live.remove(at)
        stay = {at for at in live if rng.random() < 0.2}
        aligns = {at: min(at & -at, rng.choice([16, 16, 32, 64])) for at in live}
        last = max(books.live)
        limit = rng.choice([books.stop, min(last + books.live[last] + 64, books.stop) & -G])
        align, size = rng.choice([16, 16, 64]), rng.randrange(16, 800)
        aligns |= dict.fromkeys(stay, 0)
        movable = Movable(lambda at: True, aligns.__getitem__)
        before = dict(books.live)
        moves = plan(books, limit, size, align, movable, 8)
        assert books.live == before and len(moves) <= 8
        assert not stay & {at for at, _ in moves}
        assert all(to % aligns[at] == 0 and to + before[at] <= limit for at, to in moves)
        carry_out(books, moves)
        if moves:
            found += 1
            holes = [(s + -s % align, min(e, limit)) for s, e in books.holes()]
            assert any(start + size <= stop for start, stop in holes)
    assert found
