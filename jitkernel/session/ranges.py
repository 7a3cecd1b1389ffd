"""Which of many address ranges hold an address, without looking at all of them.  Start from
`Ranges`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

__all__ = ["Ranges"]

T = TypeVar("T")

#: As many addresses are looked up by looking at all ranges before it is worth while to sort them.
_BEFORE_SORTING = 3
#: Ranges may lie in each other (an alias into a variable): how far to look for the outer one.
_NESTED = 8


class Ranges(Generic[T]):
    """Ranges `(start, stop, what)`, both ends included, as `read` gives them.

    They are read again after `version` has changed.  They are kept sorted only where several
    addresses are asked for at one version: a hundred thousand of them take 50 ms to sort.
    """

    def __init__(
        self,
        read: Callable[[], Iterable[tuple[int, int, T]]],
        version: Callable[[], Hashable],
    ):
        self._read, self._version = read, version
        self._seen: Hashable = None
        self._asked = 0
        self._starts, self._stops, self._order = array("Q"), array("Q"), array("L")
        self._what: list[T] = []

    def find(self, address: int) -> list[T]:
        """What of the ranges that hold an address, in the order in which `read` gives them."""
        version = self._version()
        if version != self._seen:
            self._seen, self._asked = version, 0
            self._what = []
        self._asked += 1
        if self._asked <= _BEFORE_SORTING:
            return [what for start, stop, what in self._read() if start <= address <= stop]
        if self._asked == _BEFORE_SORTING + 1:
            self._sort()
        at = bisect_right(self._starts, address) - 1
        found = [
            self._order[i]
            for i in range(at, max(at - _NESTED, -1), -1)
            if address <= self._stops[i]
        ]
        return [self._what[index] for index in sorted(found)]

    def _sort(self) -> None:
        rows = list(self._read())
        order = sorted(range(len(rows)), key=lambda i: rows[i][0])
        self._order = array("L", order)
        self._starts = array("Q", [rows[i][0] for i in order])
        self._stops = array("Q", [rows[i][1] for i in order])
        self._what = [row[2] for row in rows]
