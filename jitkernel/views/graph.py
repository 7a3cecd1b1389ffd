"""Graphs of blocks and functions: what is near a node, straight chains, edges that close a loop.

Start from `within`, `folded` and `back_edges`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

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


def folded(count: int, edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """The nodes 0 to `count` - 1 as straight chains: each one's only way on is the next one, which
    nothing else leads to.  A node in no chain is alone; node 0 and others nobody leads to begin
    one."""
    after: dict[int, set[int]] = {}
    before: dict[int, set[int]] = {}
    for start, stop in edges:
        after.setdefault(start, set()).add(stop)
        before.setdefault(stop, set()).add(start)

    def follower(node: int) -> int | None:
        ways = after.get(node, set())
        (to,) = ways if len(ways) == 1 else (0,)
        return to if to and to != node and len(before[to]) == 1 else None

    inner = {to for node in range(count) if (to := follower(node)) is not None}
    chains = []
    for node in range(count):
        if node in inner:
            continue
        chain = [node]
        while (to := follower(chain[-1])) is not None:
            chain.append(to)
        chains.append(chain)
    # A circle that nothing enters has no beginning; its nodes stand alone.
    told = {node for chain in chains for node in chain}
    return chains + [[node] for node in range(count) if node not in told]


def back_edges(roots: Iterable[T], edges: Iterable[tuple[T, T]]) -> set[tuple[T, T]]:
    """Edges to a node on the way from a root to them, themselves included: those that close a loop.

    Found by a search in depth, which takes the edges of each node in their order.
    """
    out: dict[T, list[T]] = {}
    for start, stop in edges:
        out.setdefault(start, []).append(stop)
    back: set[tuple[T, T]] = set()
    open_: dict[T, bool] = {}  # by node that was reached: whether it is on the way
    for root in roots:
        if root in open_:
            continue
        open_[root] = True
        stack = [(root, iter(out.get(root, ())))]
        while stack:
            here, rest = stack[-1]
            for to in rest:
                if to not in open_:
                    open_[to] = True
                    stack.append((to, iter(out.get(to, ()))))
                    break
                if open_[to]:
                    back.add((here, to))
            else:
                open_[here] = False
                stack.pop()
    return back
