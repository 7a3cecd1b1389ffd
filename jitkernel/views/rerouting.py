"""Where a line goes from layer to layer of a drawing so that it crosses the fewest edges.  Start
from `rerouted`.

A place among the nodes of a layer is a number: the node at k stands at 2 k + 1, and at 2 k is the
gap before it.  An edge between two layers is a pair of such numbers.  This is a shortest path in
layers, whose lengths are crossings: all other nodes stay where they are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from itertools import pairwise

Edge = tuple[int, int]


def crossed(line: Sequence[int], edges: Sequence[Iterable[Edge]]) -> int:
    """The number of edges between each two layers that a line through these places crosses."""
    return sum(
        (start - p) * (stop - q) < 0
        for (p, q), near in zip(pairwise(line), edges, strict=True)
        for start, stop in near
    )


def rerouted(
    places: Sequence[Sequence[int]], edges: Sequence[Sequence[Edge]], most: int
) -> list[int]:
    """A place in each layer, out of those that there are (in rising order), so that a line through
    them crosses the fewest edges; none where that is not less than `most`."""
    fewest = dict.fromkeys(places[0], 0)
    before: list[dict[int, int]] = []  # by layer from the second on: from where one comes
    for (starts, stops), near in zip(pairwise(places), edges, strict=True):
        costs, come = dict.fromkeys(stops, most), dict[int, int]()
        waiting = sorted(near, reverse=True)
        left: list[int] = []  # the lower ends of edges from the left of `start`, and from its right
        right = sorted(stop for _, stop in near)
        for start in starts:
            while waiting and waiting[-1][0] <= start:
                upper, lower = waiting.pop()
                right.remove(lower)
                if upper < start:
                    insort(left, lower)
            if (spent := fewest[start]) >= most:
                continue
            for stop in stops:
                cost = spent + len(left) - bisect_right(left, stop) + bisect_left(right, stop)
                if cost < costs[stop]:
                    costs[stop], come[stop] = cost, start
        fewest = costs
        before.append(come)
    line = [min(fewest, key=fewest.__getitem__)]
    if fewest[line[0]] >= most:
        return []
    for come in reversed(before):
        line.append(come[line[-1]])
    return line[::-1]
