"""Graphviz's `dot` as the judge of layered drawings: the same boxes and edges, width and crossings."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest

Point = tuple[float, float]
Boxes = Mapping[str, tuple[float, float]]
Edges = Sequence[tuple[str, str, float]]
GAPS = (26, 58)  # pixels between boxes, as ours


def dot(boxes: Boxes, edges: Edges) -> tuple[float, list[list[Point]]]:
    """Width in pixels and a line of points for each edge; skips the test where there is none."""
    if shutil.which("dot") is None:
        pytest.skip("there is no dot: apt-get install graphviz")
    lines = [f"digraph g {{ nodesep={GAPS[0] / 72}; ranksep={GAPS[1] / 72}; splines=polyline;",
             "node [shape=box, fixedsize=true, label=\"\"];"]  # fmt: skip
    lines += [f'"{n}" [width={w / 72}, height={h / 72}];' for n, (w, h) in boxes.items()]
    lines += [f'"{a}" -> "{b}";' for a, b, _ in edges]
    found = subprocess.run(
        ["dot", "-Tjson"], input="\n".join([*lines, "}"]), capture_output=True, text=True,
        check=True, timeout=120,
    )  # fmt: skip
    drawn = json.loads(found.stdout)
    paths = []
    for edge in drawn.get("edges", []):
        numbers = edge["pos"].replace("e,", "").replace("s,", "").split()
        pairs = (p.split(",") for p in numbers)
        points: list[Point] = [(float(x), float(y)) for x, y in pairs]
        # The arrow's end comes first; every third of a Bezier's points is on a polyline.
        end = [points[0]] if edge["pos"].startswith("e,") else []
        body = points[len(end) :]
        paths.append([*body[::3], *end])
    return float(drawn["bb"].split(",")[2]), paths


def crossings(paths: Sequence[Sequence[Point]]) -> int:
    """The pairs of segments of different edges that cross, each in its inner part."""
    segments = [
        (a, b, number) for number, path in enumerate(paths)
        for a, b in pairwise(path) if a != b
    ]  # fmt: skip
    segments.sort(key=lambda s: min(s[0][1], s[1][1]))
    total, active = 0, list[tuple[Point, Point, int]]()
    for one in segments:
        low = min(one[0][1], one[1][1])
        active = [s for s in active if max(s[0][1], s[1][1]) > low]
        total += sum(s[2] != one[2] and _cross(*s[:2], *one[:2]) for s in active)
        active.append(one)
    return total


def _cross(a: Point, b: Point, c: Point, d: Point) -> bool:
    def side(p: Point, q: Point, r: Point) -> float:
        return (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])

    return side(a, b, c) * side(a, b, d) < -1e-6 and side(c, d, a) * side(c, d, b) < -1e-6
