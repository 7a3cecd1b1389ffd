"""Nodes of a flow graph that every way to a node leads through, where that ends, and loops.

A graph is a list: of each node, by its number, the numbers of those that follow it; the first one
is the entry.  Start from `dominators`.

Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (Rice University, TR-06-33870).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jitkernel import reach


def dominators(successors: Sequence[Sequence[int]]) -> list[int]:
    """The immediate dominator of each node, the first of which is the entry: a node's number; that
    of the entry is its own, and of a node that no way leads to -1."""
    order = postorder(successors)
    rank = {node: position for position, node in enumerate(order)}
    before = predecessors(successors, order)
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
    before = predecessors(successors, [node for node, above in enumerate(found) if above >= 0])
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


def loops(
    successors: Sequence[Sequence[int]], found: Sequence[int]
) -> dict[int, tuple[list[int], set[int]]]:
    """The natural loops by their headers: the nodes that lead back there, and all nodes.  `found`
    are the immediate dominators.  A circle that can be entered in several places is none."""
    tree: list[list[int]] = [[] for _ in successors]
    for node, above in enumerate(found):
        if above >= 0 and node:
            tree[above].append(node)
    last = {node: at for at, node in enumerate(postorder(tree))}
    first: dict[int, int] = {}  # whom a node dominates, and itself, come one after another
    for node in last:
        first[node] = min((first[below] for below in tree[node]), default=last[node])
    reached = [node for node, above in enumerate(found) if above >= 0]
    before = predecessors(successors, reached)
    latches: dict[int, list[int]] = {}
    for node in reached:
        for each in successors[node]:
            if first[each] <= last[node] <= last[each]:
                latches.setdefault(each, []).append(node)
    inside: dict[int, set[int]] = {}
    for header, work in latches.items():
        inside[header], todo = {header}, [*work]
        while todo:
            if (node := todo.pop()) not in inside[header]:
                inside[header].add(node)
                todo += before[node]
    return {header: (work, inside[header]) for header, work in latches.items()}


def _common(left: int, right: int, found: Sequence[int], rank: dict[int, int]) -> int:
    """The nearest node that dominates both."""
    while left != right:
        while rank[left] < rank[right]:
            left = found[left]
        while rank[right] < rank[left]:
            right = found[right]
    return left


def predecessors(successors: Sequence[Sequence[int]], nodes: Iterable[int]) -> list[list[int]]:
    """Of each node of a graph, those of some `nodes` that lead there, in their order."""
    found: list[list[int]] = [[] for _ in successors]
    for node in nodes:
        for following in successors[node]:
            found[following].append(node)
    return found


def postorder(successors: Sequence[Sequence[int]]) -> list[int]:
    """The nodes that ways from the first lead to, each behind those found from it."""
    return reach.postorder([0] if successors else [], successors.__getitem__)


def looped(successors: Sequence[Sequence[int]]) -> set[int]:
    """The nodes from which a way leads back to them.  Kosaraju's algorithm: Aho, Hopcroft, Ullman,
    "Data Structures and Algorithms", 6.7."""
    order = postorder(successors)
    before = predecessors(successors, order)
    found: set[int] = set()
    left = set(order)
    for root in reversed(order):
        if root not in left:
            continue
        component = reach.reached([root], lambda node: filter(left.__contains__, before[node]))
        left.difference_update(component)
        if len(component) > 1 or root in successors[root]:
            found.update(component)
    return found
