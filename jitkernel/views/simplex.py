"""Whole numbers for the nodes of a graph so that its edges are as short as they may be: network
simplex.  Start from `ranks`.

Source: Gansner, Koutsofios, North, Vo, "A Technique for Drawing Directed Graphs" (1993), 2.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_SEARCHED = 30  # edges that could leave, of which the worst does


class Edge(NamedTuple):
    """`head` stands at least `length` behind `tail`; `weight` is what each unit of it costs."""

    tail: int
    head: int
    length: int
    weight: int


def ranks(count: int, edges: Sequence[Edge], pivots: int) -> list[int]:
    """A number for each of `count` nodes, of the least sum of weight times distance over `edges`,
    which have no circle, or of near the least where so many `pivots` do not reach it."""
    return _Tree(count, edges).solved(pivots) if count else []


class _Tree:
    """A feasible spanning tree: its edges are as short as they may be, no edge is too short.

    `parent` and `by` (an edge's number) lead to the root; `total` is the weight that leaves a
    node's subtree less what enters it, which is the cut value of its edge, or minus that.
    """

    def __init__(self, count: int, edges: Sequence[Edge]):
        # Node `count` is the root, which all parts hang on.
        self.edges = [*edges, *(Edge(count, n, 0, 0) for n in range(count))]
        self.at: list[list[int]] = [[] for _ in range(count + 1)]
        for number, edge in enumerate(self.edges):
            self.at[edge.tail].append(number)
            self.at[edge.head].append(number)
        self.rank = self._first(count + 1)
        self.parent, self.by = [-1] * (count + 1), [-1] * (count + 1)
        self.children: list[set[int]] = [set() for _ in range(count + 1)]
        self._grow(count)
        self._sum(count)

    def _first(self, count: int) -> list[int]:
        """Each as low as it may be."""
        waiting, rank = [0] * count, [0] * count
        for edge in self.edges:
            waiting[edge.head] += 1
        ready = [node for node in range(count) if not waiting[node]]
        for node in ready:  # grows
            for number in self.at[node]:
                edge = self.edges[number]
                if edge.tail == node:
                    rank[edge.head] = max(rank[edge.head], rank[node] + edge.length)
                    waiting[edge.head] -= 1
                    if not waiting[edge.head]:
                        ready.append(edge.head)
        return rank

    def _slack(self, number: int) -> int:
        edge = self.edges[number]
        return self.rank[edge.head] - self.rank[edge.tail] - edge.length

    def _grow(self, root: int) -> None:
        inside, todo = {root}, [root]
        while True:
            while todo:
                node = todo.pop()
                for number in self.at[node]:
                    edge = self.edges[number]
                    other = edge.head if edge.tail == node else edge.tail
                    if other not in inside and not self._slack(number):
                        self._hang(other, node, number)
                        inside.add(other)
                        todo.append(other)
            if len(inside) == len(self.rank):
                return
            leading = (
                n for n, e in enumerate(self.edges) if (e.tail in inside) != (e.head in inside)
            )
            nearest = min(leading, key=self._slack)
            slack = self._slack(nearest)
            step = slack if self.edges[nearest].tail in inside else -slack
            for node in inside:
                self.rank[node] += step
            todo = list(inside & {*self.edges[nearest][:2]})

    def _hang(self, node: int, parent: int, number: int) -> None:
        self.parent[node], self.by[node] = parent, number
        self.children[parent].add(node)

    def _sum(self, root: int) -> None:
        self.total = [0] * len(self.rank)
        for edge in self.edges:
            self.total[edge.tail] += edge.weight
            self.total[edge.head] -= edge.weight
        for node in reversed(self._subtree(root)):
            if node != root:
                self.total[self.parent[node]] += self.total[node]

    def _subtree(self, node: int) -> list[int]:
        found = [node]
        for one in found:  # grows
            found.extend(self.children[one])
        return found

    def solved(self, pivots: int) -> list[int]:
        """The ranks, the least of which is 0."""
        start = 0
        for _ in range(pivots):
            start, leaving = self._leaving(start)
            if leaving < 0:
                break
            self._pivot(leaving)
        found = self.rank[:-1]
        least = min(found)
        return [rank - least for rank in found]

    def _leaving(self, start: int) -> tuple[int, int]:
        """The node to go on with, and the one below an edge that should leave: its cut
        value is negative.  -1 where there is none."""
        count, worst, least, met = len(self.rank), -1, 0, 0
        for step in range(count):
            node = (start + step) % count
            number = self.by[node]
            if number < 0:
                continue
            cut = self.total[node] if self.edges[number].tail == node else -self.total[node]
            if cut < 0:
                met += 1
                if cut < least:
                    worst, least = node, cut
                if met == _SEARCHED:
                    return node + 1, worst
        return 0, worst

    def _pivot(self, node: int) -> None:
        """Take the edge above a node out of the tree, and another one in."""
        below = self._subtree(node)
        inside = set(below)
        falls = self.edges[self.by[node]].tail == node  # then what is below moves back
        entering, slack = -1, 0
        for one in below:
            for number in self.at[one]:
                edge = self.edges[number]
                end, other = (edge.head, edge.tail) if falls else (edge.tail, edge.head)
                if end == one and other not in inside:
                    free = self._slack(number)
                    if entering < 0 or free < slack:
                        entering, slack = number, free
        if entering < 0:  # nothing holds it: its weight is that of the root's edges
            self.total[node] = 0
            return
        if slack:
            step = -slack if falls else slack
            for one in below:
                self.rank[one] += step
        edge = self.edges[entering]
        end, other = (edge.head, edge.tail) if falls else (edge.tail, edge.head)
        self._replace(node, end, other, entering)

    def _replace(self, node: int, end: int, other: int, entering: int) -> None:
        """Hang the subtree of `node` on `other`, by its own node `end`."""
        whole = self.total[node]
        for top, change in ((self.parent[node], -whole), (other, whole)):
            at = top
            while at >= 0:
                self.total[at] += change
                at = self.parent[at]
        path = [end]
        while path[-1] != node:
            path.append(self.parent[path[-1]])
        by = [self.by[one] for one in path]
        totals = [self.total[one] for one in path]
        for one in path:
            self.children[self.parent[one]].discard(one)
        self._hang(end, other, entering)
        self.total[end] = whole
        for k in range(1, len(path)):
            self._hang(path[k], path[k - 1], by[k - 1])
            self.total[path[k]] = whole - totals[k - 1]
