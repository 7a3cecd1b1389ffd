"""Which nodes of a flow graph every way to a node leads through.  Start from `dominators`.

Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (Rice University, TR-06-33870).
"""

from __future__ import annotations

from collections.abc import Sequence


def dominators(successors: Sequence[Sequence[int]]) -> list[int]:
    """The immediate dominator of each node, the first of which is the entry: a node's number; that
    of the entry is its own, and of a node that no way leads to -1."""
    order = _postorder(successors)
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


def _common(left: int, right: int, found: Sequence[int], rank: dict[int, int]) -> int:
    """The nearest node that dominates both."""
    while left != right:
        while rank[left] < rank[right]:
            left = found[left]
        while rank[right] < rank[left]:
            right = found[right]
    return left


def _postorder(successors: Sequence[Sequence[int]]) -> list[int]:
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
