"""Ranges of addresses, `(start, stop)`, in order and apart from each other: what they have in
common, what lies between them, which of them others meet.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TypeAlias

Range: TypeAlias = tuple[int, int]


def common(one: Sequence[Range], other: Sequence[Range]) -> list[Range]:
    """The ranges that two lists have in common."""
    found: list[Range] = []
    i = j = 0
    while i < len(one) and j < len(other):
        start, stop = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        if start < stop:
            found.append((start, stop))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return found


def between(ranges: Iterable[Range], start: int, stop: int) -> list[Range]:
    """The parts of `[start, stop)` that are in none of the ranges."""
    found = []
    for low, high in ranges:
        if start < low:
            found.append((start, low))
        start = high
    return [*found, (start, stop)] if start < stop else found


def overlapping(ranges: Sequence[Range], start: int, stop: int) -> Sequence[Range]:
    """Those of the ranges that overlap `[start, stop)`."""
    first = max(bisect_right(ranges, (start, 0)) - 1, 0)
    last = bisect_right(ranges, (stop - 1, 1 << 64))
    if first < last and ranges[first][1] <= start:
        first += 1
    return ranges[first:last]


def within(ranges: Sequence[Range], low: int, high: int) -> bool:
    """True if one of the ranges has all from `low` to `high`."""
    at = bisect_right(ranges, (low, 1 << 64)) - 1
    return at >= 0 and high <= ranges[at][1]


def joined(ranges: Iterable[Range]) -> list[Range]:
    """The ranges, those that touch as one."""
    found: list[Range] = []
    for start, stop in ranges:
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], stop)
        else:
            found.append((start, stop))
    return found
