"""A large flow graph in few boxes: what one block dominates becomes one.  Start from `outline`.

What splits large functions is the dominator tree, not loops: an interpreter's loop has all blocks,
but the block that dispatches has a subtree for each case.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from jitkernel.ir.dominators import dominators

_CASES = 8  # children of a node that dispatches


def children(successors: Sequence[Sequence[int]]) -> list[list[int]]:
    """The dominator tree: by node those that it dominates immediately, in their order."""
    found: list[list[int]] = [[] for _ in successors]
    for node, above in enumerate(dominators(successors)):
        if above >= 0 and above != node:
            found[above].append(node)
    return found


def subtree(tree: Sequence[Sequence[int]], root: int) -> list[int]:
    """The nodes that one dominates, itself first."""
    found = [root]
    for node in found:  # grows
        found.extend(tree[node])
    return found


def outline(tree: Sequence[Sequence[int]], root: int, most: int) -> list[list[int]]:
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
    closed = [(-size[child], child, root) for child in tree[root]]
    heapify(closed)
    while closed:
        _, node, above = heappop(closed)
        is_case = len(tree[above]) >= _CASES and size[node] <= len(nodes) / 2
        if is_case or shown + len(tree[node]) > most:
            continue
        opened.add(node)
        shown += len(tree[node])
        for child in tree[node]:
            heappush(closed, (-size[child], child, node))
    boxes = [root]
    for node in boxes:  # grows
        if node in opened:
            boxes.extend(tree[node])
    return [[node] if node in opened else subtree(tree, node) for node in boxes[:most]]
