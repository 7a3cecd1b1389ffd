"""What a zone held when somebody last looked, and what differs since.

Start from `Mirror`, which has a copy of the bytes, or `Digests`, which has hashes.

Pieces of 64 KB are compared with a copy (about 0.14 ms a megabyte); of those that differ the pages
are told.  Pages that hold no memory read as zero and are not read: that would allocate them.

In a large zone a piece that did not differ is protected (writes.py), and not compared again until
somebody wrote to it: what is written again and again costs no faults, what never is no comparison.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from functools import lru_cache

from jitkernel.arena.arena import Arena
from jitkernel.arena.ranges import Range, between, joined, within
from jitkernel.arena.slab import PAGE
from jitkernel.record import NamedTuple
from jitkernel.rollback import RecordedDict, log_undo

_PIECE = 16 * PAGE
_LONGEST = 64  # looks
_LARGE = 4 << 20  # bytes from which on it pays to ask who wrote before any are compared
_ZEROS = bytes(PAGE)
_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


#: What a mirror holds: bytes and where they begin, by piece, and where the zone ended.
Snapshot = tuple[dict[int, tuple[int, bytes]], int]


class ChangedPage(NamedTuple):
    """A page that differs: its address, its bytes then and now.

    `was` is shorter than a page, perhaps empty, where the zone ended there then; so is `now`.
    """

    address: int
    was: bytes
    now: bytes


class Mirror:
    """A copy of the first `limit` bytes of a zone, as of the last `look`.

    What other processes write meanwhile is there as of some moment of the look.
    """

    def __init__(self, arena: Arena, zone: str, limit: int = 1 << 48):
        self._arena, self._zone = arena, arena.zones[zone]
        self.limit = limit
        self._known: RecordedDict[int, tuple[int, bytes]] = (
            RecordedDict()
        )  # by piece: address and bytes, of what holds
        self._stop = self._zone.start  # where the zone ended at the last look
        # Pieces before `_tracked` that may differ from `_known`; the others do if `arena.writes`
        # tells that they were written.
        self._unsure: set[int] = set()
        self._tracked = self._zone.start
        self._looks = 0
        self._waits: dict[int, tuple[int, int]] = {}  # by piece: until which look, for how many
        arena.writes.join(self)

    def learn(self, address: int, content: bytes) -> None:
        """A page was this at the last look; the bytes after `content` were zero."""
        index = address - (address - self._zone.start) % _PIECE
        self._unsure.add(index)
        start, known = self._known.get(index, (index, b""))
        data = bytearray(known.ljust(address - start + PAGE, b"\0"))
        data[address - start : address - start + PAGE] = content.ljust(PAGE, b"\0")
        self._known[index] = (start, bytes(data))
        self._stop = max(self._stop, address + PAGE)

    def snapshot(self) -> Snapshot:
        """The zone's content at the last look, for `since`."""
        return dict(self._known), self._stop

    def since(self, snapshot: Snapshot) -> list[tuple[int, bytes]]:
        """The pages that differ from what was snapshot, with what they held then; nothing is
        remembered."""
        known, before = snapshot
        held = {index: (start, start) for index, (start, _) in known.items()}
        held |= self._held(self._zone.start, before)
        found: list[tuple[int, bytes]] = []
        for index, (low, high) in sorted(held.items()):
            start, old = known.get(index, (low, b""))
            new = bytes(self._arena.view[low - self._arena.base : high - self._arena.base])
            found += [(at, was) for at, was, _ in _differing(low, new, start, old, before, before)]
        return found

    def look(self, own: bool = False) -> list[ChangedPage]:
        """The pages that differ since the last look, in order; what is now is remembered.

        New pages that hold no memory are not told.  `own`: what others than this process wrote may
        wait for the next look.
        """
        arena = self._arena
        first, before = self._zone.start, self._stop
        stop = min(self._zone.high, first + self.limit)
        if arena.fd < 0 or stop == before == first:
            return []
        found: list[ChangedPage] = []
        log_undo(self._return, before)
        large = stop - first >= _LARGE
        seen, clean = arena.writes.clean(first, stop, self, own) if large else ([], [])
        now: dict[int, Range] = {}
        whole = [(first, stop)] if first < stop else []
        for start, end in self._to_compare(clean, stop) if clean else whole:
            now |= self._places(start, end, seen)
        if not own:
            self._looks += 1
            for index in now.keys() - self._unsure:
                if index < self._tracked and not within(clean, index, index + _PIECE):
                    self._wait(index)
        self._unsure.update(now)
        same = []
        for index, (low, high) in sorted(now.items()):
            pages = self._compare(index, low, high, before, stop)
            found += pages
            if not own and low == index and high == index + _PIECE:
                if within(clean, low, high):
                    self._unsure.discard(index)
                elif not pages and self._waits.get(index, (0, 0))[0] <= self._looks:
                    same.append((low, high))
        if large and same and arena.writes.protect(joined(same), self):
            for low, high in same:  # once more: it may have been written just before
                if pages := self._compare(low, low, high, before, stop):
                    found = sorted([*found, *pages])
                else:
                    self._unsure.discard(low)
        self._stop = stop
        return found

    def _return(self, stop: int) -> None:
        """Have what is known older again than what is clean."""
        self._unsure.update(range(self._zone.start, self._tracked, _PIECE))
        self._stop = stop

    def _wait(self, index: int) -> None:
        """A protected piece was written, which cost its writer a fault a page: do without for a
        while, longer each time."""
        wait = min(2 * self._waits.get(index, (0, 1))[1], _LONGEST)
        self._waits[index] = (self._looks + wait, wait)

    def invalidate(self, ranges: Sequence[Range]) -> None:
        """Others found these clean only now: what this one knows of them may be older."""
        first = self._zone.start
        for start, stop in ranges:
            self._unsure.update(range(start - (start - first) % _PIECE, stop, _PIECE))

    def _to_compare(self, clean: list[Range], stop: int) -> list[Range]:
        """The ranges to compare: whole pieces, without those known to be as they were."""
        start = self._zone.start
        end = stop - (stop - start) % _PIECE  # of whole pieces
        if end > self._tracked:
            self._unsure.update(range(self._tracked, end, _PIECE))
            self._tracked = end
        wanted = {index for index in self._unsure if index < end}
        for low, high in (*between(clean, start, stop), (end, stop)):
            wanted.update(range(low - (low - start) % _PIECE, high, _PIECE))
        return joined([(index, min(index + _PIECE, stop)) for index in sorted(wanted)])

    def _places(self, start: int, stop: int, seen: list[Range]) -> dict[int, Range]:
        """Pieces, each with where memory begins and ends in it: those that hold some, and those
        known that gave theirs back to the system.  What was `seen` by readers holds it all."""
        pieces = range(start, stop, _PIECE)
        if seen and within(seen, start, stop):
            return {index: (index, min(index + _PIECE, stop)) for index in pieces}
        found, known = self._held(start, stop), self._known
        gone = pieces if len(pieces) < len(known) else known.keys()
        for index in [i for i in gone if start <= i < stop and i in known and i not in found]:
            found[index] = (index, index)
        return found

    def _compare(
        self, index: int, low: int, high: int, before: int, stop: int
    ) -> list[ChangedPage]:
        """The pages of a piece that differ; what is now is remembered.

        It holds memory from `low` to `high`; the zone ended at `before`, and ends at `stop` now.
        """
        arena, known = self._arena, self._known
        start, old = known.get(index, (low, b""))
        if start == low and len(old) == high - low and high <= before:
            if not _memcmp(arena.writes.window + low, old, high - low):
                return []
        new = bytes(arena.view[low - arena.base : high - arena.base])
        found = _differing(low, new, start, old, before, stop)
        if new:
            known[index] = (low, new)
        else:
            known.pop(index, None)
        return found

    def _held(self, begin: int, stop: int) -> dict[int, Range]:
        """The pieces from `begin` to `stop` that hold memory, each with where that begins and
        ends."""
        start = self._zone.start
        found: dict[int, Range] = {}
        for at, end in self._arena.held(begin, stop):
            while at < end:
                index = at - (at - start) % _PIECE
                until = min(index + _PIECE, end)
                found[index] = (found[index][0] if index in found else at, until)
                at = until
        return found


#: Where an extent begins and ends, and where a part of it does.
_Key = tuple[int, int, int]


class Digests:
    """Hashes of what is live in a zone beyond its first `skip` bytes, as of the last `look`: one of
    each 64 KB, where a `Mirror` would have the bytes.

    An extent that came meanwhile, or left, was not written: who brought or freed it knows of it.
    """

    def __init__(self, arena: Arena, zone: str, skip: int):
        self._arena, self._zone = arena, arena.zones[zone]
        self._first = self._zone.start + skip
        self._live: set[tuple[int, int]] = set()  # the extents at the last look
        self._known: dict[_Key, int] = {}

    def look(self) -> list[Range]:
        """The ranges written since the last look, in order; what is now is remembered."""
        high = self._zone.high
        if self._arena.fd < 0 or (high <= self._first and not self._live):
            return []
        live = {(s, s + n) for s, n in self._zone.list.live.items() if s + n > self._first}
        known, self._known = self._known, dict(self._hashes(sorted(live), high))
        lasting, self._live = live & self._live, live
        parts = known.keys() | self._known.keys()
        return joined(
            sorted(
                (at, min(at + _PIECE, stop))
                for start, stop, at in parts
                if (start, stop) in lasting
                and known.get((start, stop, at), 0) != self._known.get((start, stop, at), 0)
            )
        )

    def _hashes(self, live: list[Range], high: int) -> Iterator[tuple[_Key, int]]:
        """By part of an extent: the hash of what it holds; none where that is all zero."""
        arena = self._arena
        segments, at = list(arena.held(self._first, high)), 0
        for start, stop in live:
            begin = max(start, self._first)
            while at < len(segments) and segments[at][1] <= begin:
                at += 1
            parts: dict[int, bool] = {}  # that hold memory: whether everywhere
            for index in range(at, len(segments)):
                low, end = max(segments[index][0], begin), min(segments[index][1], stop)
                if low >= end:
                    break
                for part in range(low - (low - begin) % _PIECE, end, _PIECE):
                    parts[part] = low <= part and min(part + _PIECE, stop) <= end
            for part, whole in parts.items():
                at_part, size = part - arena.base, min(_PIECE, stop - part)
                if whole:
                    found = hash(arena.view[at_part : at_part + size].toreadonly())
                else:
                    found = hash(os.pread(arena.fd, size, at_part))  # fills no holes
                if found != _of_zeros(size):
                    yield (start, stop, part), found


@lru_cache(maxsize=64)
def _of_zeros(size: int) -> int:
    return hash(bytes(size))


def _differing(
    low: int, new: bytes, start: int, old: bytes, before: int, stop: int
) -> list[ChangedPage]:
    """The pages that differ of a piece that holds `new` from `low`, and held `old` from `start`."""
    first, last = min(low, start if old else low), max(low + len(new), start + len(old))
    found = []
    for at in range(first - first % PAGE, last, PAGE):
        was, is_now = _page(start, old, at, before), _page(low, new, at, stop)
        if was != is_now:
            found.append(ChangedPage(at, was, is_now))
    return found


def _page(start: int, data: bytes, at: int, stop: int) -> bytes:
    """The page at an address, of bytes from `start`; zero where there are none, up to `stop`."""
    size = min(PAGE, stop - at)
    if size <= 0:
        return b""
    offset = at - start
    found = data[offset : offset + size] if offset >= 0 else b""
    return found if len(found) == size else found + _ZEROS[: size - len(found)]
