"""The order of the nodes in each layer of a drawing, so that few edges cross.  Start from
`ordered`.

Each layer is sorted by the median of its neighbours' places, up and down, then neighbours change
places where that helps.  Long edges, of which each such step moves a part only, are then laid anew
as a whole.  Source: Gansner, Koutsofios, North, Vo, "A Technique for Drawing Directed Graphs"
(1993), 3.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from itertools import pairwise

from jitkernel.views.rerouting import crossed, rerouted

_SWEEPS = 24
_HARDLY = 1.1
_TRIAL = 4  # sweeps of each beginning; those of the fewest crossings go on first
_PATIENCE = 8  # sweeps without a better order
_WORK = 60_000  # nodes that are moved or compared, after which the best so far is taken
_ALL = 40_000  # the same, after which no other beginning goes on

Layers = list[list[int]]


def ordered(
    layers: Layers, above: Sequence[Sequence[int]], below: Sequence[Sequence[int]]
) -> list[Layers]:
    """Orders of the layers of few crossings: that of the fewest that were found, and others that
    have hardly more.  `above` and `below` have each node's neighbours in the layers next to its
    own.  Several orders are begun with."""
    starts = [layers, _by_breadth(layers, below)]
    for turn in (list, reversed):  # the neighbours from the left, or from the right
        starts.append(_by_depth(layers, [[*turn(near)] for near in below]))
        starts.append(_by_depth(layers[::-1], [[*turn(near)] for near in above])[::-1])
    different = {str(start): start for start in starts}.values()
    begun = [_Order(start, above, below) for start in different]
    begun.sort(key=lambda order: order.sweep(_TRIAL))
    found: list[tuple[int, Layers]] = []
    work = 0
    for order in begun:
        if work <= _ALL:
            found.append(order.best())
            work += order.work
    most = min(crossings for crossings, _ in found) * _HARDLY + 1
    kept: list[Layers] = []
    for crossings, best in found:
        if crossings <= most and best not in kept:
            kept.append(best)
    return kept


def _by_breadth(layers: Layers, below: Sequence[Sequence[int]]) -> Layers:
    """Each layer in the order in which a search in breadth from above meets its nodes."""
    at: dict[int, int] = {}
    found = []
    for layer in layers:
        found.append(sorted(layer, key=lambda node: at.get(node, len(at))))
        for node in found[-1]:
            for under in below[node]:
                at.setdefault(under, len(at))
    return found


def _by_depth(layers: Layers, below: Sequence[Sequence[int]]) -> Layers:
    """Each layer in the order in which a search in depth from above meets its nodes."""
    seen: dict[int, int] = {}
    for layer in layers:
        for root in layer:
            stack = [root]
            while stack:
                node = stack.pop()
                if node not in seen:
                    seen[node] = len(seen)
                    stack.extend(reversed(below[node]))
    return [sorted(layer, key=seen.__getitem__) for layer in layers]


class _Order:
    def __init__(
        self, layers: Layers, above: Sequence[Sequence[int]], below: Sequence[Sequence[int]]
    ):
        self.layers, self.above, self.below = [list(layer) for layer in layers], above, below
        self.place = [0] * len(above)
        for layer in self.layers:
            self._number(layer)
        self.layer_of = {node: at for at, layer in enumerate(layers) for node in layer}
        self.sweeps = self.last = self.work = 0
        self.fewest, self.kept = -1, self.layers

    def _number(self, layer: Sequence[int]) -> None:
        for at, node in enumerate(layer):
            self.place[node] = at

    def sweep(self, most: int) -> int:
        """Sweep up and down, until the sweep `most` at the latest; the fewest crossings so far."""
        if not self.sweeps:
            self._exchange(False)
            self._keep()
        while (
            self.fewest and self.sweeps < most
            and self.sweeps - self.last <= _PATIENCE and self.work <= _WORK
        ):  # fmt: skip
            self._sort(self.sweeps % 2 == 0, self.sweeps % 8 > 3)
            self._exchange(self.sweeps % 4 > 1)
            self._keep()
            self.sweeps += 1
        return self.fewest

    def _keep(self) -> None:
        """Keep this order if it is the best so far."""
        crossings = self._crossings()
        if self.fewest < 0 or crossings < self.fewest:
            self.fewest, self.last = crossings, self.sweeps
            self.kept = [list(layer) for layer in self.layers]

    def best(self) -> tuple[int, Layers]:
        """The fewest crossings that were met, and their order."""
        self.sweep(_SWEEPS)
        self.layers = self.kept
        for layer in self.layers:
            self._number(layer)
        ways = self._ways() if self.fewest else []
        while sum([self._lay(way) for way in ways]):
            self._exchange(False)
        return self._crossings(), self.layers

    def _ways(self) -> list[list[int]]:
        """Paths through nodes with one neighbour above and one below, at most: long edges, chains
        of boxes."""
        thin = {n for n in self.layer_of if len(self.above[n]) <= 1 >= len(self.below[n])}
        ways: list[list[int]] = []
        for node in self.layer_of:
            if node in thin and thin.isdisjoint(self.above[node]):
                ways.append([node])
                while not thin.isdisjoint(under := self.below[ways[-1][-1]]):
                    ways[-1] += under
        return ways

    def _lay(self, way: Sequence[int]) -> int:
        """A way goes where it crosses the fewest edges; how many fewer those are."""
        path = [*self.above[way[0]], *way, *self.below[way[-1]]]
        first, inside = self.layer_of[path[0]], {*way}
        layers = self.layers[first : first + len(path)]
        at: dict[int, int] = {}
        places: list[Sequence[int]] = []
        for node, layer in zip(path, layers, strict=True):
            own = self.place[node] if node in inside else len(layer)
            at.update((other, 2 * (k - (k > own)) + 1) for k, other in enumerate(layer))
            if node in inside:
                at[node] = 2 * own
            places.append(range(0, 2 * len(layer), 2) if node in inside else [at[node]])
        edges = [
            [(at[a], at[b]) for a in layer if a not in inside
             for b in self.below[a] if b not in inside]
            for layer in layers[:-1]
        ]  # fmt: skip
        now = crossed([at[node] for node in path], edges)
        if not now or self.work > 2 * _WORK:
            return 0
        self.work += sum(len(a) * len(b) for a, b in pairwise(places)) // 4
        line = rerouted(places, edges, now)
        if not line:
            return 0
        for node, layer, to in zip(path, layers, line, strict=True):
            if node in inside:
                layer.remove(node)
                layer.insert(to // 2, node)
                self._number(layer)
        return now - crossed(line, edges)

    def _sort(self, down: bool, turned: bool) -> None:
        """Layers by the medians of what is above (`down`) or below; equal ones keep their order or
        change it (`turned`), else the targets of one switch would never move."""
        near = self.above if down else self.below
        for layer in self.layers[1:] if down else self.layers[-2::-1]:
            self.work += len(layer)
            wanted = [self._median(near[node]) for node in layer]
            moving = sorted((m, -at if turned else at) for at, m in enumerate(wanted) if m >= 0)
            nodes = iter([layer[abs(at)] for _, at in moving])
            # Who has no neighbour there stays where it is.
            layer[:] = [
                next(nodes) if m >= 0 else node for node, m in zip(layer, wanted, strict=True)
            ]
            self._number(layer)

    def _median(self, near: Sequence[int]) -> float:
        """The place between the neighbours, -1 where there are none."""
        places = sorted([self.place[node] for node in near])
        count = len(places)
        if not count:
            return -1.0
        middle = count // 2
        if count % 2:
            return float(places[middle])
        if count == 2:
            return (places[0] + places[1]) / 2
        left, right = places[middle - 1] - places[0], places[-1] - places[middle]
        if not left + right:
            return (places[middle - 1] + places[middle]) / 2
        return (places[middle - 1] * right + places[middle] * left) / (left + right)

    def _exchange(self, equal: bool) -> None:
        """Neighbours change places, as long as that takes crossings away; once where it makes none,
        too, if `equal`."""
        dirty = set(range(len(self.layers)))
        while dirty and self.work <= _WORK:
            again = set[int]()
            for number in sorted(dirty):
                if self._exchange_in(self.layers[number], equal):
                    again |= {number - 1, number, number + 1}
            dirty = {n for n in again if 0 <= n < len(self.layers)}
            equal = False

    def _exchange_in(self, layer: list[int], equal: bool) -> bool:
        gained, place = False, self.place
        self.work += len(layer)
        for at in range(len(layer) - 1):
            left, right = layer[at], layer[at + 1]
            now = then = 0
            for near in (self.above, self.below):
                ours, theirs = near[left], near[right]
                if len(ours) == 1 == len(theirs):  # nearly all: edges on their way
                    one, other = place[ours[0]], place[theirs[0]]
                    now, then = now + (one > other), then + (other > one)
                elif ours and theirs:
                    mine = sorted([place[n] for n in ours])
                    yours = sorted([place[n] for n in theirs])
                    now += _inverted(mine, yours)
                    then += _inverted(yours, mine)
            if then < now or (equal and then == now):
                layer[at], layer[at + 1] = right, left
                self.place[left], self.place[right] = at + 1, at
                gained = gained or then < now
        return gained

    def _crossings(self) -> int:
        total = 0
        for upper, _ in pairwise(self.layers):
            met: list[int] = []
            for node in upper:
                ends = sorted([self.place[n] for n in self.below[node]])
                total += sum(len(met) - bisect_right(met, end) for end in ends)
                for end in ends:
                    insort(met, end)
        return total


def _inverted(ours: Sequence[int], theirs: Sequence[int]) -> int:
    """The pairs of which ours is the greater one."""
    return sum(len(ours) - bisect_right(ours, other) for other in theirs)
