"""A large flow graph in few boxes: what one block dominates becomes one.  Start from `outline`.

What splits large functions is the dominator tree, not loops: an interpreter's loop has all blocks,
but the block that dispatches has a subtree for each case.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
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


def outline(tree: Mapping[T, Sequence[T]], root: T, most: int) -> list[list[T]]:
    """The subtree of `root` as at most `most` boxes: a node alone, or one with all that it
    dominates.  Of a node with more children the first ones are boxes, and the rest are left out.

    The largest are opened first, but for the cases of a node that dispatches.
    """
    nodes = subtree(tree, root)
    if len(nodes) <= most:
        return [[node] for node in nodes]
    size = dict.fromkeys(nodes, 1)
    for node in reversed(nodes):
        size[node] += sum(size[child] for child in tree[node])
    opened = {root}
    shown = 1 + len(tree[root])
    at = {node: number for number, node in enumerate(nodes)}
    closed = [(-size[child], at[child], child, root) for child in tree[root]]
    heapify(closed)
    while closed:
        _, _, node, above = heappop(closed)
        is_case = len(tree[above]) >= _CASES and size[node] <= len(nodes) / 2
        if is_case or shown + len(tree[node]) > most:
            continue
        opened.add(node)
        shown += len(tree[node])
        for child in tree[node]:
            heappush(closed, (-size[child], at[child], child, node))
    boxes = [root]
    for node in boxes:  # grows
        if node in opened:
            boxes.extend(tree[node])
    return [[node] if node in opened else subtree(tree, node) for node in boxes[:most]]
