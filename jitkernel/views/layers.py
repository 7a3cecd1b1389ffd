"""Where the boxes and arrows of a layered drawing go.  Start from `Drawing`.

Sugiyama's method: edges that close a circle are turned round, every node gets a layer below those
that lead to it, layers are ordered so that few edges cross (`ordering`), boxes are drawn to their
neighbours.  Layers and places in them are such that edges are short (`simplex`).
An edge over several layers has a place of its own in each, so that it crosses no box; one that was
turned round leads from the top of its box to the bottom of the other.  Geometry only; sizes are
pixels, y grows downwards.  Source: Gansner, Koutsofios, North, Vo, "A Technique for Drawing
Directed Graphs" (1993).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from jitkernel.views.graph import back_edges
from jitkernel.views.ordering import ordered
from jitkernel.views.simplex import Edge, ranks

GAP_X, GAP_Y, LANE, MARGIN, PORT = 26.0, 58.0, 12.0, 14.0, 22.0
GAP_LANE = 2.0  # between two edges that pass the same layer
UPRIGHT = 17.0  # of an edge, where it leaves a box and where it meets one
_PIVOTS = 20_000  # divided by the number of nodes: how often a place is looked for
# The weight of an edge between so many places on a way: those of one way that can stand below each
# other do so anyway.
_STRAIGHT = (1, 1, 2)


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
        self.names = list(boxes)
        self.number = {name: at for at, name in enumerate(boxes)}  # of its place
        self.lanes: list[tuple[int, int]] = []  # of the places behind those: edge, layer
        self.chains: list[list[int]] = []  # by edge: the places on its way, from top to bottom
        self.layers: list[list[int]] = [[] for _ in range(max(self.layer.values(), default=0) + 1)]
        self.above: list[list[int]] = [[] for _ in boxes]
        self.below: list[list[int]] = [[] for _ in boxes]
        self._places()
        found: list[tuple[float, int, list[list[int]], list[float]]] = []
        for layers in ordered(self.layers, self.above, self.below):
            places = self._coordinates(layers)
            found.append((max(places, default=0.0), len(found), layers, places))
        width, _, self.layers, self.x = min(found)  # the narrowest
        # The arrows of a box lead from left to right, or else what begins is seen at the left.
        if self.names and (self._turned(), self.x[0]) > (0, width / 2):
            self.layers = [layer[::-1] for layer in self.layers]
            self.x = [width - x for x in self.x]
        self._finish()

    def _turned(self) -> int:
        """The number of arrows that lead to the left of their box's last one, less the others."""
        found, last = 0, dict[str, float]()
        for number, (a, b, _) in enumerate(self.edges):
            if number not in self.back and a != b:
                here = self.x[self.number[b]]
                before = last.setdefault(a, here)
                found += (before > here) - (before < here)
                last[a] = here
        return found

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
        """Layers of which no edge leads up, and edges lead down over few."""
        number = {name: at for at, name in enumerate(self.boxes)}
        found = []
        for at in range(len(self.edges)):
            upper, lower = self._downwards(at)
            if upper != lower:
                found.append(Edge(number[upper], number[lower], 1, 1))
        layers = self._balanced(ranks(len(number), found, _PIVOTS), found)
        used = {layer: at for at, layer in enumerate(sorted(set(layers)))}
        return {name: used[layers[at]] for name, at in number.items()}

    def _balanced(self, layers: list[int], edges: Sequence[Edge]) -> list[int]:
        """The layers, of those that a box may stand in with no edge longer the narrowest."""
        above: list[list[int]] = [[] for _ in layers]
        below: list[list[int]] = [[] for _ in layers]
        for edge in edges:
            above[edge.head].append(edge.tail)
            below[edge.tail].append(edge.head)
        widths = [width + GAP_X for width, _ in self.boxes.values()]
        wide = [0.0] * (max(layers, default=0) + 1)
        for layer, width in zip(layers, widths, strict=True):
            wide[layer] += width
        for node in sorted(range(len(layers)), key=lambda node: -widths[node]):
            if above[node] and len(above[node]) == len(below[node]):
                first = max(layers[upper] for upper in above[node]) + 1
                stop = min(layers[lower] for lower in below[node])
                wide[layers[node]] -= widths[node]
                layers[node] = min(range(first, stop), key=wide.__getitem__)
                wide[layers[node]] += widths[node]
        return layers

    def _folded(self, layer: dict[str, int], page: float) -> dict[str, int]:
        """Layers with room for their boxes and for the edges that pass those beside them."""
        layers: list[list[str]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
        for name in self.boxes:
            layers[layer[name]].append(name)
        begin = [0] * (len(layers) + 1)  # of passing edges: more than pass the layer above
        for a, b, _ in self.edges:
            upper, lower = sorted((layer[a], layer[b]))
            if upper < lower:
                begin[upper + 1] += 1
                begin[lower] -= 1
        found: dict[str, int] = {}
        below = 0
        for names, passing in zip(layers, accumulate(begin), strict=False):
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
            sum(self._box(n) + GAP_X for n in part)
            + (passing + len(names) - len(part)) * (LANE + GAP_LANE)
            for part in parts
        )

    def _places(self) -> None:
        for name, number in self.number.items():
            self.layers[self.layer[name]].append(number)
        for number in range(len(self.edges)):
            chain: list[int] = []
            upper, lower = self._downwards(number)
            if upper != lower:
                chain.append(self.number[upper])
                for at in range(self.layer[upper] + 1, self.layer[lower]):
                    chain.append(len(self.above))
                    self.layers[at].append(len(self.above))
                    self.lanes.append((number, at))
                    self.above.append([])
                    self.below.append([])
                chain.append(self.number[lower])
            for item, under in pairwise(chain):
                self.below[item].append(under)
                self.above[under].append(item)
            self.chains.append(chain)

    # -- coordinates -----------------------------------------------------------------------------

    def _is_lane(self, item: int) -> bool:
        return item >= len(self.names)

    def _box(self, name: str) -> float:
        return self.boxes[name][0] + (2 * GAP_X if name in self.loops else 0)

    def _width(self, item: int) -> float:
        return LANE if self._is_lane(item) else self._box(self.names[item])

    def _coordinates(self, layers: Sequence[Sequence[int]]) -> list[float]:
        """Centres: edges as short and as straight as the widths allow."""
        column = self._columns(layers)
        count = max(column, default=-1) + 1
        apart: dict[tuple[int, int], int] = {}
        for layer in layers:
            for left, right in pairwise(layer):
                gap = GAP_LANE if self._is_lane(left) and self._is_lane(right) else GAP_X
                need = round((self._width(left) + self._width(right)) / 2 + gap + 0.5)
                pair = column[left], column[right]
                apart[pair] = max(apart.get(pair, 0), need)
        edges = [Edge(*pair, need, 0) for pair, need in apart.items()]
        for chain in self.chains:
            for item, under in pairwise(chain):
                if column[item] != column[under]:
                    weight = _STRAIGHT[self._is_lane(item) + self._is_lane(under)]
                    edges += (
                        Edge(count, column[item], 0, weight),
                        Edge(count, column[under], 0, weight),
                    )
                    count += 1
        places = ranks(count, edges, _PIVOTS * 100 // max(count, 1)) if count else []
        return [float(places[at]) for at in column]

    def _columns(self, layers: Sequence[Sequence[int]]) -> list[int]:
        """A number for each place; those of one edge that can stand below each other have one."""
        column = list(range(len(self.above)))
        for upper in layers[:-1]:
            last = -1
            place: dict[int, int] = {}
            for item in upper:
                under = self.below[item][0] if self._is_lane(item) else -1
                if under < 0 or not self._is_lane(under):
                    continue
                if not place:
                    layer = layers[self.lanes[under - len(self.names)][1]]
                    place = {one: at for at, one in enumerate(layer)}
                if place[under] > last:  # else it crosses one that goes straight on
                    last = place[under]
                    column[under] = column[item]
        used = {one: at for at, one in enumerate(dict.fromkeys(column))}
        return [used[one] for one in column]

    def _finish(self) -> None:
        left = min((x - self._width(item) / 2 for item, x in enumerate(self.x)), default=0.0)
        self.x = [x - left + MARGIN for x in self.x]
        right = max((x + self._width(item) / 2 for item, x in enumerate(self.x)), default=0.0)
        tops, bottoms, y = [], [], MARGIN
        for layer in self.layers:
            tops.append(y)
            inside = (self.names[i] for i in layer if not self._is_lane(i))
            y += max((self.boxes[name][1] for name in inside), default=0.0)
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
            name: (self.x[self.number[name]] - box[0] / 2, tops[self.layer[name]])
            for name, box in self.boxes.items()
        }
        ends = (r.label[0] + e[2] for r, e in zip(self.routes, self.edges, strict=True))
        self.width, self.height = max(right, *ends, 0.0) + MARGIN, y - GAP_Y + MARGIN

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
                at = self.x[self.number[box]] - (sum(steps) - steps[-1]) / 2
                for (_, number), step in zip(edges, steps, strict=True):
                    places[number] = at
                    at += step
        return found

    def _loop(self, name: str, top: float) -> Route:
        """An arrow from a box to itself, at its right side."""
        x = self.x[self.number[name]] + self.boxes[name][0] / 2
        low, high = min(top + 30, top + self.boxes[name][1] - 4), top + 8
        tall = high - low
        path = f"M{x:.0f} {low:.0f}c30 8 30 {tall - 8:.0f} 0 {tall:.0f}"
        return Route(path, (x + 6, low + 16), True)

    def _route(
        self, number: int, lower: float, upper: float, tops: list[float], bottoms: list[float]
    ) -> Route:
        """Between two boxes, around what stands between."""
        back, chain = number in self.back, self.chains[number]
        above, below = self._downwards(number)
        foot, roof = tops[self.layer[above]] + self.boxes[above][1], tops[self.layer[below]]
        # Upright lines, from the upper box to the lower: where, from and to which height.  What
        # is slanted lies between them, in a strip of its own for all edges alike: past labels, and
        # so that a head points at its box.
        lines = [(lower, foot, bottoms[self.layer[above]] + UPRIGHT)]
        for item in chain[1:-1]:
            at = self.lanes[item - len(self.names)][1]
            lines.append((self.x[item], tops[at] - UPRIGHT, bottoms[at] + UPRIGHT))
        lines.append((upper, roof - UPRIGHT, roof))
        if back:
            lines = [(x, end, begin) for x, begin, end in reversed(lines)]
        x, begin, _ = lines[0]
        points = [(x, y) for x, *ends in lines for y in ends]
        return Route(_path(_bends(points)), (x + 4, begin - 4 if back else begin + 12), back)


def _bends(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points where a line does not go straight on: upright ones are many."""
    kept = [points[0]]
    for at in range(1, len(points) - 1):
        if not kept[-1][0] == points[at][0] == points[at + 1][0]:
            kept.append(points[at])
    return [*kept, points[-1]]


def _path(points: Sequence[tuple[float, float]]) -> str:
    """An SVG path along straight lines, in whole pixels: from each point to the next."""
    places = [(round(x), round(y)) for x, y in points]
    steps = ["M{} {}".format(*places[0])]
    for (x, y), (to_x, to_y) in pairwise(places):
        across, down = to_x - x, to_y - y
        if not across:
            steps.append(f"v{down}")
        else:
            steps.append(f"l{across} {down}".replace(" -", "-"))
    return "".join(steps)
