"""Nodes of a flow graph that every way to a node leads through, where that ends, and circles.

A graph is a list: of each node, by its number, the numbers of those that follow it; the first one
is the entry.  Start from `dominators`.

Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (Rice University, TR-06-33870).
"""

from __future__ import annotations

from collections.abc import Sequence


def dominators(successors: Sequence[Sequence[int]]) -> list[int]:
    """The immediate dominator of each node, the first of which is the entry: a node's number; that
    of the entry is its own, and of a node that no way leads to -1."""
    order = postorder(successors)
    rank = {node: position for position, node in enumerate(order)}
    before: dict[int, list[int]] = {node: [] for node in order}
    for node in order:
        for successor in successors[node]:
            before[successor].append(node)
    found = [-1] * len(successors)
    if not found:
        return found
    found[0] = 0
    changed = True
    while changed:
        changed = False
        for node in reversed(order[:-1]):
            nearest = -1
            for other in before[node]:
                if found[other] < 0:
                    continue
                nearest = other if nearest < 0 else _common(nearest, other, found, rank)
            if found[node] != nearest:
                found[node], changed = nearest, True
    return found


def frontiers(successors: Sequence[Sequence[int]], found: Sequence[int]) -> list[list[int]]:
    """Of each node those that it does not dominate, or that it is itself, though it dominates one
    before them; `found` are the immediate dominators.  Nodes that no way leads to have none."""
    before: list[list[int]] = [[] for _ in successors]
    for node, following in enumerate(successors):
        if found[node] >= 0:
            for each in following:
                before[each].append(node)
    ends: list[dict[int, None]] = [{} for _ in successors]
    for node, others in enumerate(before):
        for other in others:
            at = other
            # The entry is its own dominator: what leads back to it ends there too.
            while at != found[node] or found[node] == node:
                ends[at][node] = None
                if at == found[at]:
                    break
                at = found[at]
    return [[*end] for end in ends]


def _common(left: int, right: int, found: Sequence[int], rank: dict[int, int]) -> int:
    """The nearest node that dominates both."""
    while left != right:
        while rank[left] < rank[right]:
            left = found[left]
        while rank[right] < rank[left]:
            right = found[right]
    return left


def postorder(successors: Sequence[Sequence[int]]) -> list[int]:
    """The nodes that ways from the first lead to, each behind those found from it."""
    order: list[int] = []
    seen = {0} if successors else set[int]()
    stack = [(node, iter(successors[node])) for node in seen]
    while stack:
        node, left = stack[-1]
        for successor in left:
            if successor not in seen:
                seen.add(successor)
                stack.append((successor, iter(successors[successor])))
                break
        else:
            order.append(node)
            stack.pop()
    return order


def looped(successors: Sequence[Sequence[int]]) -> set[int]:
    """The nodes from which a way leads back to them.  Kosaraju's algorithm: Aho, Hopcroft, Ullman,
    "Data Structures and Algorithms", 6.7."""
    before: list[list[int]] = [[] for _ in successors]
    order = postorder(successors)
    for node in order:
        for successor in successors[node]:
            before[successor].append(node)
    found: set[int] = set()
    left = set(order)
    for root in reversed(order):
        if root not in left:
            continue
        left.discard(root)
        component, todo = {root}, [root]
        while todo:
            for other in before[todo.pop()]:
                if other in left:
                    left.discard(other)
                    component.add(other)
                    todo.append(other)
        if len(component) > 1 or root in successors[root]:
            found |= component
    return found
