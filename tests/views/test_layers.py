"""Layered drawings: nothing overlaps, nothing is clipped, edges cross no box."""

from __future__ import annotations

import random
import re
from itertools import combinations, pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jitkernel.views.layers import Drawing
from jitkernel.views.rerouting import crossed, rerouted
from tests.seeds import few
from tests.views.dot import crossings, dot

Edges = list[tuple[str, str, float]]


def graph(count: int, pairs: list[tuple[int, int]]) -> tuple[dict[str, tuple[float, float]], Edges]:
    boxes = {str(i): (60.0 + 37 * i % 150, 22.0 + 31 * i % 90) for i in range(count)}
    edges = [(str(a % count), str(b % count), 7.0) for a, b in dict.fromkeys(pairs)]
    wide = {name: sum(a == name != b for a, b, _ in edges) * 22.0 for name in boxes}
    return {n: (max(w, wide[n]), h) for n, (w, h) in boxes.items()}, edges


def points(path: str) -> list[tuple[float, float]]:
    """Points along an SVG path, close to each other; M, l, v, c as `layers` writes them."""
    x = y = 0.0
    found: list[tuple[float, float]] = []
    for command, rest in re.findall(r"([Mlvc])([^Mlvc]*)", path):
        n = [float(v) for v in re.findall(r"-?\d+", rest)]
        if command == "M":
            x, y = n
            found.append((x, y))
            continue
        n = [0.0, *n] if command == "v" else n
        steps = [(0.0, 0.0), *zip(n[::2], n[1::2], strict=True)]
        if len(steps) == 2:  # straight
            steps = [steps[0], steps[0], steps[1], steps[1]]
        for step in range(1, 17):
            t = step / 16
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
            along = [sum(w * s[i] for w, s in zip(weights, steps, strict=True)) for i in (0, 1)]
            found.append((x + along[0], y + along[1]))
        x, y = x + steps[-1][0], y + steps[-1][1]
    return found


def prove(boxes, edges: Edges, drawing: Drawing) -> None:
    """No two boxes overlap, all lies on the card, and no edge runs through a box of others."""
    areas = {n: (*drawing.at[n], *boxes[n]) for n in boxes}
    for a, b in combinations(areas.values(), 2):
        apart = a[0] + a[2] < b[0] or b[0] + b[2] < a[0] or a[1] + a[3] < b[1] or b[1] + b[3] < a[1]
        assert apart, (a, b)
    for x, y, w, h in areas.values():
        assert x >= 0 and y >= 0 and x + w <= drawing.width and y + h <= drawing.height
    for (start, stop, long), route in zip(edges, drawing.routes, strict=True):
        assert route.label[0] + long <= drawing.width, (start, stop)
        for x, y in points(route.path):
            assert 0 <= x <= drawing.width and 0 <= y <= drawing.height, (start, stop, x, y)
            for name, (left, top, w, h) in areas.items():
                margin = 0.6 if name in (start, stop) else -1.0
                inside = (
                    left + margin < x < left + w - margin and top + margin < y < top + h - margin
                )
                assert not inside, (start, stop, name, x, y)
    labels = [route.label for route in drawing.routes]
    for (x, y), (u, v) in combinations(labels, 2):
        assert abs(x - u) >= 7 or abs(y - v) >= 11, "labels on top of each other"


CASES = {
    "one": (1, []),
    "chain": (4, [(0, 1), (1, 2), (2, 3)]),
    "diamond": (4, [(0, 1), (0, 2), (1, 3), (2, 3)]),
    "skip": (4, [(0, 1), (1, 2), (2, 3), (0, 3), (0, 2)]),
    "loop": (3, [(0, 1), (1, 2), (2, 1)]),
    "itself": (2, [(0, 0), (0, 1), (1, 1)]),
    "nested": (6, [(0, 1), (1, 2), (2, 3), (3, 2), (3, 4), (4, 1), (4, 5)]),
    "circle": (3, [(0, 1), (1, 2), (2, 0)]),
    "two circles at one": (4, [(0, 1), (1, 0), (0, 2), (2, 0), (3, 0)]),
    "switch": (9, [(0, i) for i in range(1, 8)] + [(i, 8) for i in range(1, 8)]),
    "apart": (5, []),
}


@pytest.mark.parametrize("page", [float("inf"), 400.0])
@pytest.mark.parametrize("case", CASES)
def test_drawings(case: str, page: float) -> None:
    boxes, edges = graph(*CASES[case])
    prove(boxes, edges, Drawing(boxes, edges, page))


@settings(max_examples=25)
@given(
    st.integers(1, 12),
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=24),
    st.sampled_from([float("inf"), 500.0, 200.0]),
)
def test_any_graph(count: int, pairs: list[tuple[int, int]], page: float) -> None:
    boxes, edges = graph(count, [(a % count, b % count) for a, b in pairs])
    prove(boxes, edges, Drawing(boxes, edges, page))


def test_layers_that_are_wider_than_the_page_are_folded() -> None:
    """Twelve ways of 140 pixels side by side take 12 * 140 + 11 * 26 = 1,966; folded, each row
    has its boxes and lanes of 12 + 2 pixels for the others' edges."""
    boxes = {str(i): (140.0, 60.0) for i in range(14)}
    edges = [("0", str(i), 0.0) for i in range(1, 13)] + [(str(i), "13", 0.0) for i in range(1, 13)]
    flat, folded = Drawing(boxes, edges), Drawing(boxes, edges, 770.0)
    assert flat.width >= 1966
    assert folded.width <= 0.6 * flat.width
    assert len({folded.at[str(i)][1] for i in range(1, 13)}) <= 6
    prove(boxes, edges, folded)
    assert Drawing(boxes, edges, flat.width * 2).at == flat.at


def test_edges_lead_down_except_those_that_close_a_circle() -> None:
    boxes, edges = graph(*CASES["nested"])
    drawing = Drawing(boxes, edges)
    back = {(a, b) for (a, b, _), r in zip(edges, drawing.routes, strict=True) if r.back}
    assert back == {("3", "2"), ("4", "1")}
    for a, b, _ in edges:
        assert (drawing.at[a][1] < drawing.at[b][1]) == ((a, b) not in back)


def test_a_ladder_has_no_crossings() -> None:
    """Two chains side by side stay side by side, whatever order they are named in."""
    pairs = [(0, 2), (0, 1), (1, 4), (2, 3), (3, 5), (4, 6), (5, 7), (6, 7)]
    boxes, edges = graph(8, pairs)
    at = Drawing(boxes, edges).at
    left = {(at[a][0] < at[b][0]) for a, b in (("1", "2"), ("4", "3"), ("6", "5"))}
    assert len(left) == 1


@given(st.data(), st.lists(st.integers(1, 3), min_size=2, max_size=4))
def test_a_line_goes_where_it_crosses_fewest_edges(data: st.DataObject, sizes: list[int]) -> None:
    """Of all lines through gaps, or from a node: there are at most 4 ** 4."""
    edges = [
        data.draw(st.lists(st.tuples(*(st.sampled_from(range(1, 2 * n, 2)) for n in pair))))
        for pair in pairwise(sizes)
    ]
    places = [range(0, 2 * n + 1, 2) for n in sizes]
    if data.draw(st.booleans()):
        places[0] = range(1, 2, 2)
    fewest = min(crossed(one, edges) for one in product(*places))
    line = rerouted(places, edges, fewest + 1)
    assert fewest == crossed(line, edges) and not rerouted(places, edges, fewest)
    assert all(at in row for at, row in zip(line, places, strict=True))


def structured(count: int, seed: int) -> tuple[dict[str, tuple[float, float]], Edges]:
    """The flow graph of a made-up function: sequences, conditions, loops and early exits."""
    chance = random.Random(seed)
    pairs: list[tuple[int, int]] = []
    made = 1  # 0 is the entry, 1 the exit

    def new() -> int:
        nonlocal made
        made += 1
        return made

    def statement(start: int, left: int, loop: int) -> int:
        kind = chance.choice(["if", "else", "loop", "exit", "break"]) if left > 3 else "if"
        body, end = new(), new()
        pairs.append((start, body))
        inner = statement(body, left // 2, start if kind == "loop" else loop) if left > 4 else body
        if kind == "loop":
            pairs.extend([(inner, start), (start, end)])
        elif kind == "else":
            other = new()
            pairs.extend([(start, other), (inner, end), (other, end)])
        elif kind in ("exit", "break"):
            pairs.extend([(inner, 1 if kind == "exit" or not loop else loop), (start, end)])
        else:
            pairs.extend([(inner, end), (start, end)])
        return end

    last = 0
    while made < count:
        last = statement(last, chance.randint(2, 12), 0)
    pairs.append((last, 1))
    boxes = {
        str(n): (chance.randint(120, 620) * 1.0, 24.0 + 15 * chance.randint(1, 14))
        for n in range(made + 1)
    }
    return boxes, [(str(a), str(b), 0.0) for a, b in dict.fromkeys(pairs) if a != b]


@pytest.mark.parametrize(("count", "seed"), [(20, 14), (20, 84), (30, 22), (30, 59), (40, 20)])
def test_long_edges_are_laid_as_a_whole(count: int, seed: int) -> None:
    """Of functions that can be drawn without a crossing, though none of the steps that move nodes
    of one layer alone leads there."""
    drawing = Drawing(*structured(count, seed))
    assert not crossings([points(route.path) for route in drawing.routes])


@pytest.mark.parametrize("count", few([60, 30, 90], 1))
def test_as_narrow_as_dot_and_with_as_few_crossings(count: int) -> None:
    """Of several functions, so that one that happens to be better elsewhere does not count."""
    ours, theirs, mine, yours = 0.0, 0.0, 0, 0
    for seed in range(4):
        boxes, edges = structured(count, seed)
        drawing = Drawing(boxes, edges)
        width, paths = dot(boxes, edges)
        ours, theirs = ours + drawing.width, theirs + width
        mine += crossings([points(route.path) for route in drawing.routes])
        yours += crossings(paths)
    assert ours <= 1.3 * theirs
    assert mine <= 1.3 * yours + 2


def test_no_tree_is_a_mirror_image():
    """What is left in a search tree is drawn left, of most of its boxes."""
    chance, turned, pairs = random.Random(7), 0, 0
    for _ in range(60):
        below: dict[int, list[int | None]] = {}
        for key in chance.sample(range(15), 15):
            at = next(iter(below), None)
            while at is not None:
                side = int(key > at)
                if below[at][side] is None:
                    below[at][side] = key
                    break
                at = below[at][side]
            below[key] = [None, None]
        met = [next(iter(below))]  # nearest first, as pointers are followed
        for key in met:
            met += [other for other in below[key] if other is not None]
        edges = [(str(a), str(b), 30.0) for a in met for b in below[a] if b is not None]
        at = Drawing({str(n): (90.0, 50.0) for n in met}, edges, 770.0).at
        both = [two for two in below.values() if None not in two]
        wrong = sum(at[str(left)][0] > at[str(right)][0] for left, right in both)
        assert 2 * wrong <= len(both)
        turned, pairs = turned + wrong, pairs + len(both)
    assert turned <= pairs // 20


def test_a_box_of_many_arrows_has_room_for_their_words():
    boxes = {"all": (48 * 82.0, 200.0)} | {str(n): (90.0, 40.0) for n in range(30)}
    edges = [("all", str(n), 70.0) for n in range(30)]
    prove(boxes, edges, Drawing(boxes, edges, 770.0))
