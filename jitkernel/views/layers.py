"""Where the boxes and arrows of a layered drawing go.  Start from `lay_out`.

Sugiyama's method: edges that close a circle are turned round, every node gets a layer below those
that lead to it, layers are ordered so that few edges cross, boxes are drawn to their neighbours.
An edge over several layers has a place of its own in each, so that it crosses no box; those that
were turned round have lanes on the right.  Geometry
only; sizes are pixels, y grows downwards.  Source: Sugiyama, Tagawa, Toda (1981); Gansner et al.,
"A Technique for Drawing Directed Graphs" (1993).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from jitkernel.views.graph import back_edges

__all__ = ["Drawing", "Route", "lay_out"]

GAP_X, GAP_Y, LANE, MARGIN, PORT, STEP = 26.0, 58.0, 12.0, 14.0, 22.0, 9.0
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


@dataclass(frozen=True, slots=True)
class Drawing:
    """`at` is the left upper corner of each box; `routes` stand in the order of the edges."""

    at: dict[str, tuple[float, float]]
    routes: tuple[Route, ...]
    width: float
    height: float


def lay_out(
    boxes: Mapping[str, tuple[float, float]],
    edges: Sequence[tuple[str, str, float]],
    page: float = float("inf"),
) -> Drawing:
    """Places for `boxes` (width and height by name) and `edges` (from, to, width of its label).

    The first box stands on top.  There may be circles and edges from a box to itself.  Layers that
    are wider than `page` become several, one below the other.
    """
    return _Layout(boxes, edges, page).drawing()


class _Layout:
    """The drawing while it is made: layers, then their order, then coordinates."""

    def __init__(
        self,
        boxes: Mapping[str, tuple[float, float]],
        edges: Sequence[tuple[str, str, float]],
        page: float,
    ):
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

    # -- layers ----------------------------------------------------------------------------------

    def _back_edges(self) -> set[int]:
        """Numbers of edges that lead to a node on the path from the top to them."""
        out: dict[str, list[str]] = {name: [] for name in self.boxes}
        for a, b, _ in self.edges:
            if a != b:
                out[a].append(b)
        entered = {b for a, b, _ in self.edges if a != b}
        found = back_edges(sorted(self.boxes, key=lambda name: name in entered), out)
        return {number for number, (a, b, _) in enumerate(self.edges) if (a, b) in found}

    def _layers(self) -> dict[str, int]:
        """The longest way from the top to each node."""
        down: dict[str, list[str]] = {name: [] for name in self.boxes}
        waiting = dict.fromkeys(self.boxes, 0)
        for number, (a, b, _) in enumerate(self.edges):
            if a != b:
                upper, lower = (b, a) if number in self.back else (a, b)
                down[upper].append(lower)
                waiting[lower] += 1
        layer = dict.fromkeys(self.boxes, 0)
        ready = [name for name, count in waiting.items() if not count]
        while ready:
            name = ready.pop()
            for to in down[name]:
                layer[to] = max(layer[to], layer[name] + 1)
                waiting[to] -= 1
                if not waiting[to]:
                    ready.append(to)
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
        for number, (a, b, _) in enumerate(self.edges):
            chain: list[Item] = []
            if a != b and number not in self.back:
                inner = [(number, at) for at in range(self.layer[a] + 1, self.layer[b])]
                chain = [a, *inner, b]
            for item in chain:
                if isinstance(item, tuple):
                    self.layers[item[1]].append(item)
            for upper, lower in pairwise(chain):
                self.below.setdefault(upper, []).append(lower)
                self.above.setdefault(lower, []).append(upper)
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
                    straight = isinstance(item, tuple) and any(isinstance(n, tuple) for n in near)
                    wanted.append(_mean([self.x[n] for n in near], self.x[item]))
                    weights.append(4.0 if straight else 1.0 if near else 0.1)
                places = _spread(wanted, weights, self._offsets(layer))
                for item, x in zip(layer, places, strict=True):
                    self.x[item] = x

    def _offsets(self, layer: Sequence[Item]) -> list[float]:
        """Centres of a layer's places as close together as they may stand, the first at 0."""
        offsets = [0.0] if layer else []
        for left, right in pairwise(layer):
            lanes = isinstance(left, tuple) and isinstance(right, tuple)
            near = (self._width(left) + self._width(right)) / 2
            offsets.append(offsets[-1] + near + (GAP_LANE if lanes else GAP_X))
        return offsets

    def drawing(self) -> Drawing:
        """The finished drawing."""
        items = [(i, self._width(i) / 2) for layer in self.layers for i in layer]
        left = min((self.x[item] - half for item, half in items), default=0.0)
        for item in self.x:
            self.x[item] += MARGIN - left
        edge = [
            max((self.x[i] + self._width(i) / 2 for i in layer), default=0.0)
            for layer in self.layers
        ]
        lanes = self._lanes(edge)
        leaving, entering = self._crossroads(0), self._crossroads(1)
        tops, bottoms, y = [], [], MARGIN
        for number, layer in enumerate(self.layers):
            comes = sum(at == number for at, _ in entering.values())
            goes = sum(at == number for at, _ in leaving.values())
            y += STEP * comes + (8 if comes and not number else 0)
            height = max((self.boxes[i][1] for i in layer if isinstance(i, str)), default=0.0)
            tops.append(y)
            bottoms.append(y + height)
            y += height + (GAP_Y if number < len(self.layers) - 1 else 14.0 * (goes > 0))
            y += STEP * goes
        starts, stops = self._ports()
        routes = []
        for number, (a, b, _) in enumerate(self.edges):
            if a == b:
                routes.append(self._loop(a, tops[self.layer[a]]))
            elif number in self.back:
                floor = bottoms[leaving[number][0]] + 17 + STEP * leaving[number][1]
                roof = tops[entering[number][0]] - 12 - STEP * entering[number][1]
                ends = (starts[number], floor, lanes[number], roof, stops[number])
                routes.append(self._around(number, ends, tops))
            else:
                routes.append(self._route(number, starts[number], stops[number], tops, bottoms))
        at = {
            name: (self.x[name] - box[0] / 2, tops[self.layer[name]])
            for name, box in self.boxes.items()
        }
        return Drawing(at, tuple(routes), max(edge, default=0.0) + MARGIN, y + MARGIN)

    def _lanes(self, edge: list[float]) -> dict[int, float]:
        """Where edges that lead back run: right of all layers they pass, short ones inside.

        `edge` is the right edge of each layer, and is moved.
        """
        spans = {n: (self.layer[self.edges[n][1]], self.layer[self.edges[n][0]]) for n in self.back}
        lanes = {}
        for number in sorted(spans, key=lambda n: (spans[n][1] - spans[n][0], spans[n])):
            first, last = spans[number]
            lanes[number] = x = max(edge[first : last + 1]) + LANE + 2
            for at in range(first, last + 1):
                edge[at] = x
        return lanes

    def _crossroads(self, end: int) -> dict[int, tuple[int, int]]:
        """By edge that leads back: the layer where it leaves (0) or enters (1), and its number
        there, so that no two run on the same height."""
        met: dict[int, int] = {}
        found = {}
        for number in sorted(self.back):
            at = self.layer[self.edges[number][:2][end]]
            found[number] = (at, met.get(at, 0))
            met[at] = met.get(at, 0) + 1
        return found

    def _ports(self) -> tuple[dict[int, float], dict[int, float]]:
        """Where each edge leaves its box's bottom and where it enters the other's top."""
        leaving: dict[str, list[tuple[float, int]]] = {}
        entering: dict[str, list[tuple[float, int]]] = {}
        for number, (a, b, _) in enumerate(self.edges):
            if a == b:
                continue
            chain = self.chains[number]
            far = float("inf")  # to the right of all others
            first = self.x[chain[1]] if chain else far
            last = self.x[chain[-2]] if chain else far
            leaving.setdefault(a, []).append((first, number))
            entering.setdefault(b, []).append((last, number))
        starts: dict[int, float] = {}
        stops: dict[int, float] = {}
        for name, found in leaving.items():
            found.sort()
            steps = [max(PORT, self.edges[n][2] + 12) for _, n in found]
            at = self.x[name] - (sum(steps) - steps[-1]) / 2
            for (_, number), step in zip(found, steps, strict=True):
                starts[number] = at
                at += step
        for name, found in entering.items():
            found.sort()
            room = self.boxes[name][0] - 16
            step = min(PORT, room / max(len(found) - 1, 1))
            at = self.x[name] - step * (len(found) - 1) / 2
            for i, (_, number) in enumerate(found):
                stops[number] = at + step * i
        return starts, stops

    def _loop(self, name: str, top: float) -> Route:
        """An arrow from a box to itself, at its right side."""
        x = self.x[name] + self.boxes[name][0] / 2
        low, high = min(top + 30, top + self.boxes[name][1] - 4), top + 8
        path = f"M{x:.1f},{low:.1f} C{x + 30:.1f},{low + 8:.1f} {x + 30:.1f},{high - 8:.1f} "
        return Route(f"{path}{x:.1f},{high:.1f}", (x + 6, low + 16), True)

    def _around(
        self, number: int, ends: tuple[float, float, float, float, float], tops: list[float]
    ) -> Route:
        """Down, to the right, up, to the left and down into the box above."""
        start, floor, lane, roof, stop = ends
        a, b, _ = self.edges[number]
        foot = tops[self.layer[a]] + self.boxes[a][1]
        r = 6.0
        path = (
            f"M{start:.1f},{foot:.1f} V{floor - r:.1f} q0,{r} {r},{r} H{lane - r:.1f} "
            f"q{r},0 {r},{-r} V{roof + r:.1f} q0,{-r} {-r},{-r} H{stop + r:.1f} "
            f"q{-r},0 {-r},{r} V{tops[self.layer[b]]:.1f}"
        )
        return Route(path, (start + 4, foot + 12), True)

    def _route(
        self, number: int, start: float, stop: float, tops: list[float], bottoms: list[float]
    ) -> Route:
        """Down, around what stands between."""
        a, b, _ = self.edges[number]
        foot = tops[self.layer[a]] + self.boxes[a][1]
        # Straight on beside its label, so that it does not run through it.
        x, y = start, bottoms[self.layer[a]] + (14 if self.edges[number][2] else 0)
        path = f"M{x:.1f},{foot:.1f} L{x:.1f},{y:.1f} "
        for item in self.chains[number][1:-1]:
            if not isinstance(item, tuple):
                continue  # between the ends are places only
            here, high, low = self.x[item], tops[item[1]], bottoms[item[1]]
            path += f"{_curve(x, y, here, high)}L{here:.1f},{low:.1f} "
            x, y = here, low
        path += _curve(x, y, stop, tops[self.layer[b]])
        return Route(path, (start + 4, foot + 12), False)


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
