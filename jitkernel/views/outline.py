"""A large flow graph in few boxes: what one block dominates becomes one.  Start from `outline`.

What splits large functions is the dominator tree, not loops: an interpreter's loop has all blocks,
but the block that dispatches has a subtree for each case.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import TypeVar

T = TypeVar("T", bound=Hashable)

_CASES = 8  # children of a node that dispatches


def subtree(tree: Mapping[T, Sequence[T]], root: T) -> list[T]:
    """The nodes that one dominates, itself first; `tree` has those that each dominates
    immediately."""
    found = [root]
    for node in found:  # grows
        found.extend(tree[node])
    return found


def outline(
    tree: Mapping[T, Sequence[T]],
    root: T,
    most: int,
    size: Callable[[T], float] = lambda node: 0,
    room: float = 0,
    closed: float = 0,
) -> list[list[T]]:
    """The subtree of `root` as at most `most` boxes: a node alone, or one with all that it
    dominates.  Of a node with more children the first ones are boxes, and the rest are left out.

    Boxes take at most the `room`, where the root and those below it do not take more: a node alone
    takes its `size`, and one that is closed so much.  The largest are opened first, but for the
    cases of a node that dispatches.
    """
    nodes = subtree(tree, root)
    if len(nodes) <= most and sum(map(size, nodes)) <= room:
        return [[node] for node in nodes]
    count = dict.fromkeys(nodes, 1)
    for node in reversed(nodes):
        count[node] += sum(count[child] for child in tree[node])

    def takes(node: T) -> float:
        return closed if tree[node] else size(node)

    opened = {root}
    shown = 1 + len(tree[root])
    taken = size(root) + sum(map(takes, tree[root]))
    at = {node: number for number, node in enumerate(nodes)}
    heap = [(-count[child], at[child], child, root) for child in tree[root]]
    heapify(heap)
    while heap:
        _, _, node, above = heappop(heap)
        is_case = len(tree[above]) >= _CASES and count[node] <= len(nodes) / 2
        more = size(node) - takes(node) + sum(map(takes, tree[node]))
        if is_case or shown + len(tree[node]) > most or taken + more > room:
            continue
        opened.add(node)
        shown += len(tree[node])
        taken += more
        for child in tree[node]:
            heappush(heap, (-count[child], at[child], child, node))
    boxes = [root]
    for node in boxes:  # grows
        if node in opened:
            boxes.extend(tree[node])
    return [[node] if node in opened else subtree(tree, node) for node in boxes[:most]]
