"""Graphs of blocks and functions: what is near a node, edges that close a loop.

Start from `within` and `back_edges`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

from jitkernel.reach import postorder

T = TypeVar("T", bound=Hashable)


def links(edges: Iterable[tuple[T, T]]) -> dict[T, list[T]]:
    """The neighbours of each node, in both directions, in the order of the edges."""
    found: dict[T, dict[T, None]] = {}
    for start, stop in edges:
        if start != stop:
            found.setdefault(start, {})[stop] = None
            found.setdefault(stop, {})[start] = None
    return {node: list(near) for node, near in found.items()}


def within(
    start: Iterable[T],
    near: Mapping[T, Iterable[T]],
    depth: int | None = None,
    most: int | None = None,
) -> set[T]:
    """The nodes at most `depth` links away from one of `start`; None for any distance.  Of more
    than `most`, those that are the fewest links away."""
    found = edge = dict.fromkeys(start)
    while edge and depth != 0 and (most is None or len(found) < most):
        met = (other for node in edge for other in near.get(node, ()))
        edge = dict.fromkeys(other for other in met if other not in found)
        found = found | edge
        depth = depth - 1 if depth is not None else None
    return set(list(found)[:most])


def back_edges(roots: Iterable[T], edges: Iterable[tuple[T, T]]) -> set[tuple[T, T]]:
    """Edges to a node on the way from a root to them, themselves included: those that close a loop.

    Found by a search in depth, which takes the edges of each node in their order.
    """
    out: dict[T, list[T]] = {}
    for start, stop in edges:
        out.setdefault(start, []).append(stop)
    order = postorder(roots, lambda node: out.get(node, ()))
    done = {node: at for at, node in enumerate(order)}  # who is on the way to a node is done later
    return {(node, to) for node, at in done.items() for to in out.get(node, ()) if at <= done[to]}
