"""Where the boxes and arrows of a layered drawing go.  Start from `Drawing`.

Sugiyama's method: edges that close a circle are turned round, every node gets a layer below those
that lead to it, layers are ordered so that few edges cross, boxes are drawn to their neighbours.
An edge over several layers has a place of its own in each, so that it crosses no box; one that was
turned round leads from the top of its box to the bottom of the other.  Geometry only; sizes are
pixels, y grows downwards.  Source: Sugiyama, Tagawa, Toda (1981); Gansner et al.,
"A Technique for Drawing Directed Graphs" (1993).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import pairwise

from jitkernel.views.graph import back_edges

GAP_X, GAP_Y, LANE, MARGIN, PORT = 26.0, 58.0, 12.0, 14.0, 22.0
GAP_LANE = 2.0  # between two edges that pass the same layer
_SWEEPS = 12

#: A place in a layer: a node, or (edge number, layer) for an edge on its way.
Item = str | tuple[int, int]


@dataclass(frozen=True, slots=True)
class Route:
    """One edge: `path` is an SVG path, `label` where its text begins (the baseline's left end).

    `back`: it leads up again, to a node that also leads here.
    """

    path: str
    label: tuple[float, float]
    back: bool


class Drawing:
    """Places for `boxes` (width and height by name) and `edges` (from, to, width of its label).

    `at` is the left upper corner of each box; `routes` stand in the order of the edges.
    The first box stands on top.  There may be circles and edges from a box to itself.  Layers that
    are wider than `page` become several, one below the other.
    """

    at: dict[str, tuple[float, float]]
    routes: tuple[Route, ...]
    width: float
    height: float

    def __init__(
        self,
        boxes: Mapping[str, tuple[float, float]],
        edges: Sequence[tuple[str, str, float]],
        page: float = float("inf"),
    ):
        # Layers, then their order, then coordinates.
        self.boxes, self.edges = boxes, edges
        self.loops = {a for a, b, _ in edges if a == b}
        self.back = self._back_edges()
        self.layer = self._folded(self._layers(), page)
        self.chains: list[list[Item]] = []  # by edge: the places on its way, from top to bottom
        self.layers: list[list[Item]] = [[] for _ in range(max(self.layer.values(), default=0) + 1)]
        self.above: dict[Item, list[Item]] = {}
        self.below: dict[Item, list[Item]] = {}
        self._places()
        self._order()
        self.x: dict[Item, float] = {}
        self._coordinates()
        self._finish()

    # -- layers ----------------------------------------------------------------------------------

    def _back_edges(self) -> set[int]:
        """Numbers of edges that lead to a node on the path from the top to them."""
        pairs = [(a, b) for a, b, _ in self.edges if a != b]
        entered = {b for _, b in pairs}
        found = back_edges(sorted(self.boxes, key=entered.__contains__), pairs)
        return {number for number, (a, b, _) in enumerate(self.edges) if (a, b) in found}

    def _downwards(self, number: int) -> tuple[str, str]:
        """The upper and the lower end of an edge."""
        a, b, _ = self.edges[number]
        return (b, a) if number in self.back else (a, b)

    def _layers(self) -> dict[str, int]:
        """The longest way from the top to each node."""
        above: dict[str, list[str]] = {name: [] for name in self.boxes}
        for number in range(len(self.edges)):
            upper, lower = self._downwards(number)
            if upper != lower:
                above[lower].append(upper)
        layer: dict[str, int] = {}
        for name in TopologicalSorter(above).static_order():
            layer[name] = max((layer[upper] + 1 for upper in above[name]), default=0)
        return layer

    def _folded(self, layer: dict[str, int], page: float) -> dict[str, int]:
        """Layers with room for their boxes and for the edges that pass those beside them."""
        found: dict[str, int] = {}
        below = 0
        for number in range(max(layer.values(), default=-1) + 1):
            names = [name for name in self.boxes if layer[name] == number]
            passing = sum(
                min(layer[a], layer[b]) < number < max(layer[a], layer[b]) for a, b, _ in self.edges
            )
            rows = next(
                k for k in range(1, len(names) + 1)
                if k == len(names) or self._widest(names, k, passing) <= page
            )  # fmt: skip
            for at, name in enumerate(names):
                found[name] = below + at * rows // len(names)
            below += rows
        return found

    def _widest(self, names: Sequence[str], rows: int, passing: int) -> float:
        """Pixels of a layer in so many rows: a row's boxes, and lanes past it for all others."""
        size = -(-len(names) // rows)
        parts = [names[k : k + size] for k in range(0, len(names), size)]
        return max(
            sum(self._width(n) + GAP_X for n in part)
            + (passing + len(names) - len(part)) * (LANE + GAP_LANE)
            for part in parts
        )

    def _places(self) -> None:
        for name in self.boxes:
            self.layers[self.layer[name]].append(name)
        for number in range(len(self.edges)):
            chain: list[Item] = []
            upper, lower = self._downwards(number)
            if upper != lower:
                inner = [(number, at) for at in range(self.layer[upper] + 1, self.layer[lower])]
                chain = [upper, *inner, lower]
            for item in chain:
                if isinstance(item, tuple):
                    self.layers[item[1]].append(item)
            for item, under in pairwise(chain):
                self.below.setdefault(item, []).append(under)
                self.above.setdefault(under, []).append(item)
            self.chains.append(chain)

    # -- order -----------------------------------------------------------------------------------

    def _order(self) -> None:
        """Sort each layer by its neighbours' places, up and down; keep what crosses least."""
        best, fewest = [list(layer) for layer in self.layers], self._crossings()
        for sweep in range(_SWEEPS):
            if not fewest:
                break
            down = sweep % 2 == 0
            numbers = range(1, len(self.layers)) if down else range(len(self.layers) - 2, -1, -1)
            for number in numbers:
                near = self.above if down else self.below
                other = self.layers[number - 1 if down else number + 1]
                place = {item: float(i) for i, item in enumerate(other)}
                layer = self.layers[number]
                scale = len(other) / max(len(layer), 1)
                key = {
                    item: _mean([place[n] for n in near.get(item, ()) if n in place], i * scale)
                    for i, item in enumerate(layer)
                }
                layer.sort(key=key.__getitem__)
            crossings = self._crossings()
            if crossings < fewest:
                best, fewest = [list(layer) for layer in self.layers], crossings
        self.layers = best

    def _crossings(self) -> int:
        total = 0
        for upper, lower in pairwise(self.layers):
            place = {item: i for i, item in enumerate(lower)}
            ends = [
                place[n] for item in upper
                for n in sorted((n for n in self.below.get(item, ()) if n in place), key=place.get)  # type: ignore[arg-type]
            ]  # fmt: skip
            total += sum(a > b for i, a in enumerate(ends) for b in ends[i + 1 :])
        return total

    # -- coordinates -----------------------------------------------------------------------------

    def _width(self, item: Item) -> float:
        if isinstance(item, tuple):
            return LANE
        return self.boxes[item][0] + (2 * GAP_X if item in self.loops else 0)

    def _coordinates(self) -> None:
        """Centres: as near to the neighbours' as the widths allow."""
        for layer in self.layers:
            for item, offset in zip(layer, self._offsets(layer), strict=True):
                self.x[item] = offset
        for sweep in range(2 * _SWEEPS):
            down = sweep % 2 == 0
            for layer in self.layers if down else reversed(self.layers):
                wanted, weights = [], []
                for item in layer:
                    first = (self.above if down else self.below).get(item, [])
                    near = first or (self.below if down else self.above).get(item, [])
                    # What leads back goes round the boxes: neither draws the other.
                    near = [n for n in near if self._returns(n) == self._returns(item)]
                    straight = isinstance(item, tuple) and any(isinstance(n, tuple) for n in near)
                    wanted.append(_mean([self.x[n] for n in near], self.x[item]))
                    weights.append(4.0 if straight else 1.0 if near else 0.1)
                places = _spread(wanted, weights, self._offsets(layer))
                for item, x in zip(layer, places, strict=True):
                    self.x[item] = x

    def _returns(self, item: Item) -> bool:
        return isinstance(item, tuple) and item[0] in self.back

    def _offsets(self, layer: Sequence[Item]) -> list[float]:
        """Centres of a layer's places as close together as they may stand, the first at 0."""
        offsets = [0.0] if layer else []
        for left, right in pairwise(layer):
            lanes = isinstance(left, tuple) and isinstance(right, tuple)
            near = (self._width(left) + self._width(right)) / 2
            offsets.append(offsets[-1] + near + (GAP_LANE if lanes else GAP_X))
        return offsets

    def _finish(self) -> None:
        left = min((x - self._width(item) / 2 for item, x in self.x.items()), default=0.0)
        self.x = {item: x - left + MARGIN for item, x in self.x.items()}
        right = max((x + self._width(item) / 2 for item, x in self.x.items()), default=0.0)
        tops, bottoms, y = [], [], MARGIN
        for layer in self.layers:
            tops.append(y)
            y += max((self.boxes[i][1] for i in layer if isinstance(i, str)), default=0.0)
            bottoms.append(y)
            y += GAP_Y
        lower, upper = self._ports()
        self.routes = tuple(
            self._loop(a, tops[self.layer[a]])
            if a == b
            else self._route(number, lower[number], upper[number], tops, bottoms)
            for number, (a, b, _) in enumerate(self.edges)
        )
        self.at = {
            name: (self.x[name] - box[0] / 2, tops[self.layer[name]])
            for name, box in self.boxes.items()
        }
        self.width, self.height = right + MARGIN, y - GAP_Y + MARGIN

    def _ports(self) -> tuple[dict[int, float], dict[int, float]]:
        """The x where each edge meets the bottom of its upper box and the top of its lower one."""
        ends: tuple[dict[str, list[tuple[float, int]]], ...] = ({}, {})
        for number, chain in enumerate(self.chains):
            if chain:
                for side, box, near in zip(ends, self._downwards(number), (1, -2), strict=True):
                    side.setdefault(box, []).append((self.x[chain[near]], number))
        found: tuple[dict[int, float], dict[int, float]] = ({}, {})
        for side, places in zip(ends, found, strict=True):
            for box, edges in side.items():
                edges.sort()
                # Room for the labels of those that begin here; the others have what is left.
                own = {n: max(PORT, self.edges[n][2] + 12) for _, n in edges
                       if self.edges[n][0] == box}  # fmt: skip
                left = (self.boxes[box][0] - 16 - sum(own.values())) / max(len(edges) - len(own), 1)
                steps = [own.get(n, min(PORT, max(left, 3.0))) for _, n in edges]
                at = self.x[box] - (sum(steps) - steps[-1]) / 2
                for (_, number), step in zip(edges, steps, strict=True):
                    places[number] = at
                    at += step
        return found

    def _loop(self, name: str, top: float) -> Route:
        """An arrow from a box to itself, at its right side."""
        x = self.x[name] + self.boxes[name][0] / 2
        low, high = min(top + 30, top + self.boxes[name][1] - 4), top + 8
        path = f"M{x:.1f},{low:.1f} C{x + 30:.1f},{low + 8:.1f} {x + 30:.1f},{high - 8:.1f} "
        return Route(f"{path}{x:.1f},{high:.1f}", (x + 6, low + 16), True)

    def _route(
        self, number: int, lower: float, upper: float, tops: list[float], bottoms: list[float]
    ) -> Route:
        """Between two boxes, around what stands between."""
        back, chain = number in self.back, self.chains[number]
        above, below = self._downwards(number)
        foot, roof = tops[self.layer[above]] + self.boxes[above][1], tops[self.layer[below]]
        # Upright lines, from the upper box to the lower: where, from and to which height.
        lines = [(lower, foot, bottoms[self.layer[above]])]
        lines += [(self.x[i], tops[i[1]], bottoms[i[1]]) for i in chain if isinstance(i, tuple)]
        lines.append((upper, roof, roof))  # where the arrow's head is
        if back:
            lines = [(x, end, begin) for x, begin, end in reversed(lines)]
        x, begin, y = lines[0]
        if self.edges[number][2]:  # straight on beside its label, so as not to run through it
            y += -14 if back else 14
        path = f"M{x:.1f},{begin:.1f} L{x:.1f},{y:.1f} "
        for here, start, end in lines[1:]:
            path += _curve(x, y, here, start)
            if start != end:
                path += f"L{here:.1f},{end:.1f} "
            x, y = here, end
        return Route(path, (lines[0][0] + 4, begin - 4 if back else begin + 12), back)


def _curve(x0: float, y0: float, x1: float, y1: float) -> str:
    middle = (y0 + y1) / 2
    return f"C{x0:.1f},{middle:.1f} {x1:.1f},{middle:.1f} {x1:.1f},{y1:.1f} "


def _mean(values: Sequence[float], otherwise: float) -> float:
    """The mean of `values`, of none of them `otherwise`."""
    return sum(values) / len(values) if values else otherwise


def _spread(
    wanted: Sequence[float], weights: Sequence[float], offsets: Sequence[float]
) -> list[float]:
    """Places in this order, no closer than `offsets` says, of the least squared distance to
    `wanted`.

    Pool adjacent violators: boxes that would overlap move as one block.
    """
    blocks: list[tuple[float, float, int]] = []  # mean, weight, members
    for want, weight, offset in zip(wanted, weights, offsets, strict=True):
        middle, total, count = want - offset, weight, 1
        while blocks and blocks[-1][0] > middle:
            other, heavy, members = blocks.pop()
            middle = (middle * total + other * heavy) / (total + heavy)
            total, count = total + heavy, count + members
        blocks.append((middle, total, count))
    places: list[float] = []
    for middle, _, count in blocks:
        places += [middle] * count
    return [place + offset for place, offset in zip(places, offsets, strict=True)]
