"""Which extents to move so that one more fits: a plan, of addresses alone.  Start from `plan`.

Two kinds are weighed.  Either all that lies in a window of the zone goes to holes outside of it
that are large enough; or what lies between holes slides down, one after the other, and the holes
become one.  The plan with the fewest moves is taken.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from jitkernel.arena.freelist import FreeList

__all__ = ["Movable", "plan"]

#: How many plans are tried before it is said that there is none.
_TRIES = 32


class Movable(NamedTuple):
    """What may be moved: `perhaps` says so of an extent by its start without looking closely,
    `align` does, with the alignment it needs in bytes, 0 where it has to stay."""

    perhaps: Callable[[int], bool]
    align: Callable[[int], int]


class _Item(NamedTuple):
    """A free range, or one that is taken, with its padding."""

    start: int
    stop: int
    free: bool

    @property
    def size(self) -> int:
        return self.stop - self.start


class _Window(NamedTuple):
    """What a plan would move: of items in address order `live` ones, of `bytes` in all."""

    live: int
    bytes: int
    slides: bool
    items: Sequence[_Item]
    first: int
    last: int


def plan(
    books: FreeList, limit: int, size: int, align: int, movable: Movable, most: int
) -> list[tuple[int, int]]:
    """Moves `(from, to)`, to be made in this order, after which `size` bytes aligned to `align` fit
    below the address `limit`; at most `most` of them.  None at all where that cannot be had."""
    granule = books.granule
    need = (size + granule - 1 & -granule or granule) + max(align - granule, 0)
    tries = _TRIES
    fixed: set[int] = set()
    windows: list[_Window] = []
    for items in _stretches(books, limit, movable.perhaps):
        windows += [w for w in _windows(items, need, False) if w.live <= most]
        windows += [w for w in _windows(items, need, True) if w.live <= most]
    windows.sort(key=_cost)
    holes = sorted((min(stop, limit) - s, s) for s, stop in books.holes() if s < limit)
    for window in windows:
        within = window.items[window.first : window.last]
        live = [item for item in within if not item.free]
        if not fixed.isdisjoint(item.start for item in live):
            continue
        tries -= 1
        if tries < 0:
            break
        aligns = {item.start: movable.align(item.start) for item in live}
        if stay := [start for start, needed in aligns.items() if not needed]:
            fixed.update(stay)
            continue
        found = _slide(within, aligns, need) if window.slides else _spread(within, aligns, holes)
        if found:
            return found
    return []


def _cost(window: _Window) -> tuple[int, int]:
    return window.live, window.bytes


def _stretches(
    books: FreeList, limit: int, perhaps: Callable[[int], bool]
) -> Iterator[list[_Item]]:
    """What is free or may be moved, in address order, between what is neither."""
    granule = books.granule
    everything = [(start, min(stop, limit), True) for start, stop in books.holes()]
    everything += [
        (start, start + (size + granule - 1 & -granule or granule), False)
        for start, size in books.live.items()
    ]
    stretch: list[_Item] = []
    for item in map(_Item._make, sorted(everything)):
        if item.start >= limit:
            break
        if item.free or perhaps(item.start):
            stretch.append(item)
        elif stretch:
            yield stretch
            stretch = []
    if stretch:
        yield stretch


def _windows(items: Sequence[_Item], need: int, slides: bool) -> Iterator[_Window]:
    """The smallest windows with `need` bytes: in all, or where what is taken slides, that are
    free; then they begin and end with what is."""
    have = live = taken = last = 0
    for first, head in enumerate(items):
        while have < need and last < len(items):
            item = items[last]
            have += item.size if item.free or not slides else 0
            live += not item.free
            taken += 0 if item.free else item.size
            last += 1
        if have < need:
            return
        if live and (head.free or not slides):
            yield _Window(live, taken, slides, items, first, last)
        have -= head.size if head.free or not slides else 0
        live -= not head.free
        taken -= 0 if head.free else head.size


def _spread(
    within: Sequence[_Item], aligns: dict[int, int], holes: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Each of the taken ranges of a window into the smallest hole outside; none where one does not
    fit.  `holes` are `(size, start)`, sorted."""
    low, high = within[0].start, within[-1].stop
    outside = [hole for hole in holes if not low <= hole[1] < high]
    moves: list[tuple[int, int]] = []
    for item in sorted((i for i in within if not i.free), key=_size, reverse=True):
        align = aligns[item.start]
        for index in range(bisect_left(outside, (item.size, 0)), len(outside)):
            size, start = outside[index]
            to = start + -start % align
            if to + item.size <= start + size:
                break
        else:
            return []
        del outside[index]
        if to > start:
            insort(outside, (to - start, start))
        if to + item.size < start + size:
            insort(outside, (start + size - to - item.size, to + item.size))
        moves.append((item.start, to))
    return moves


def _slide(within: Sequence[_Item], aligns: dict[int, int], need: int) -> list[tuple[int, int]]:
    """Each of the taken ranges of a window down to the one before; none where alignment wastes
    what is to be won."""
    moves: list[tuple[int, int]] = []
    at = within[0].start
    for item in within:
        if not item.free:
            at += -at % aligns[item.start]
            if at > item.start:
                return []
            if at != item.start:
                moves.append((item.start, at))
            at += item.size
    return moves if within[-1].stop - at >= need else []


def _size(item: _Item) -> int:
    return item.size
