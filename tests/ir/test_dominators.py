"""Immediate dominators, against the definition: without which nodes is there no way?  And loops."""

from __future__ import annotations

import random

import pytest

from jitkernel.ir.dominators import dominators, looped, loops


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


@pytest.mark.parametrize("seed", range(50))
def test_natural_loops(seed: int) -> None:
    """By their definition, and in time that grows as the graph does."""
    rng = random.Random(seed)
    count, most = rng.randrange(1, 15), rng.choice((1, 2, 3))
    graph = [[rng.randrange(count) for _ in range(rng.randrange(most + 1))] for _ in range(count)]
    expected = {}
    for header in (there := reached(graph)):
        within = there - reached(graph, header)
        ends = [node for node in sorted(within) for to in graph[node] if to == header]
        inside = {n for n in within if not reached_from(graph, n, header).isdisjoint(ends)}
        if ends:
            expected[header] = (ends, inside | {header})
    assert loops(graph, dominators(graph)) == expected


def test_many_ways_out_of_a_long_chain() -> None:
    count = 50_000
    graph = [[n + 1, count] for n in range(count)] + [[]]
    assert loops(graph, dominators(graph)) == {}
    back = [[n + 1, 0] for n in range(count)] + [[]]
    assert loops(back, dominators(back)) == {0: ([*range(count)], {*range(count)})}
