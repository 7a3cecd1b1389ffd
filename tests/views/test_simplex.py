"""Network simplex against all that there is to try."""

from __future__ import annotations

import random
from itertools import product

import pytest

from jitkernel.views.simplex import Edge, ranks


def cost(edges: list[Edge], rank: tuple[int, ...] | list[int]) -> int:
    return sum(e.weight * (rank[e.head] - rank[e.tail]) for e in edges)


def is_right(edges: list[Edge], rank: tuple[int, ...] | list[int]) -> bool:
    return all(rank[e.head] - rank[e.tail] >= e.length for e in edges)


@pytest.mark.parametrize("seed", range(60))
def test_nothing_is_shorter(seed: int) -> None:
    """Lengths are 0 to 2, so that four nodes lie within 0 to 6."""
    chance = random.Random(seed)
    count = chance.randint(1, 4)
    edges = [
        Edge(a, b, chance.randint(0, 2), chance.randint(0, 3))
        for a in range(count) for b in range(a + 1, count) if chance.random() < 0.7
    ]  # fmt: skip
    found = ranks(count, edges, 1000)
    assert is_right(edges, found)
    every = (rank for rank in product(range(7), repeat=count) if is_right(edges, rank))
    assert cost(edges, found) == min(cost(edges, rank) for rank in every)


def test_a_large_one_is_feasible_after_few_pivots() -> None:
    chance = random.Random(1)
    edges = [Edge(n, chance.randint(n + 1, 400), 1, 1) for n in range(400)]
    edges += [Edge(chance.randint(0, n), n + 1, 1, chance.randint(0, 4)) for n in range(400)]
    few, many = ranks(401, edges, 10), ranks(401, edges, 10_000)
    assert is_right(edges, few) and is_right(edges, many)
    assert cost(edges, many) < cost(edges, few)


def test_of_nothing() -> None:
    assert ranks(0, [], 10) == []
    assert ranks(3, [], 10) == [0, 0, 0]
