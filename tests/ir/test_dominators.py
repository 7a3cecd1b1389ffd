"""Immediate dominators, against the definition: without which nodes is there no way?  And loops."""

from __future__ import annotations

import random

import pytest

from jitkernel.ir.dominators import dominators, looped


def reached(successors: list[list[int]], without: int = -1) -> set[int]:
    return reached_from(successors, 0, without)


def reached_from(successors: list[list[int]], first: int, without: int = -1) -> set[int]:
    todo, seen = [first], set[int]()
    while todo:
        node = todo.pop()
        if node not in seen and node != without:
            seen.add(node)
            todo += successors[node]
    return seen


@pytest.mark.parametrize("seed", range(200))
def test_any_graph(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randrange(1, 30)
    most = rng.choice((1, 2, 4))
    graph = [[rng.randrange(count) for _ in range(rng.randrange(most + 1))] for _ in range(count)]
    there = reached(graph)
    above = {n: {d for d in there if n not in reached(graph, d)} for n in there}
    found = dominators(graph)
    for node in range(count):
        if node not in there:
            assert found[node] == -1
            continue
        climbed, at = {node}, node
        while found[at] != at:
            at = found[at]
            climbed.add(at)
        assert climbed == above[node]


def test_a_long_chain() -> None:
    count = 20_000
    assert dominators([[n + 1] for n in range(count - 1)] + [[0]]) == [0, *range(count - 1)]
    assert dominators([]) == []


@pytest.mark.parametrize("seed", range(50))
def test_what_leads_back_to_itself(seed: int) -> None:
    rng = random.Random(seed)
    count, most = rng.randrange(1, 20), rng.choice((1, 2, 3))
    graph = [[rng.randrange(count) for _ in range(rng.randrange(most + 1))] for _ in range(count)]
    behind = {
        n: set[int]().union(*(reached_from(graph, s) for s in graph[n])) for n in range(count)
    }
    assert looped(graph) == {n for n in reached(graph) if n in behind[n]}
