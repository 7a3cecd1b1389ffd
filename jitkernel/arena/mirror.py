"""What a zone held when somebody last looked, and what differs since.  Start from `Mirror`.

Pieces of 64 KB are compared with a copy (about 0.06 ms a megabyte); of those that differ the pages
are told.  Pages that hold no memory read as zero and are not read: that would allocate them.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from typing import NamedTuple

from jitkernel.arena.arena import PAGE, Arena

__all__ = ["Mirror", "Seen"]

_PIECE = 16 * PAGE
_ZEROS = bytes(PAGE)
_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class Seen(NamedTuple):
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
        self._known: dict[int, tuple[int, bytes]] = {}  # by piece: address and bytes, of what holds
        self._stop = self._zone.start  # where the zone ended at the last look
        first = ctypes.c_char.from_buffer(arena.view)
        self._slab = ctypes.addressof(first) - arena.base  # of this process, for an address of 0

    def note(self, address: int, content: bytes) -> None:
        """A page was this at the last look; the bytes after `content` were zero."""
        index = address - (address - self._zone.start) % _PIECE
        start, known = self._known.get(index, (index, b""))
        data = bytearray(known.ljust(address - start + PAGE, b"\0"))
        data[address - start : address - start + PAGE] = content.ljust(PAGE, b"\0")
        self._known[index] = (start, bytes(data))
        self._stop = max(self._stop, address + PAGE)

    def look(self) -> list[Seen]:
        """The pages that differ since the last look, in order; what is now is remembered.

        New pages that hold no memory are not told.
        """
        arena, known = self._arena, self._known
        if arena.fd < 0:
            return []
        found: list[Seen] = []
        stop, before = min(self._zone.high, self._zone.start + self.limit), self._stop
        now = self._held(stop)
        for index in known.keys() - now.keys():  # given back to the system
            now[index] = (index, index)
        for index, (low, high) in sorted(now.items()):
            start, old = known.get(index, (low, b""))
            if start == low and len(old) == high - low and high <= before:
                if not _memcmp(self._slab + low, old, high - low):
                    continue
            new = bytes(arena.view[low - arena.base : high - arena.base])
            first = min(low, start if old else low)
            last = max(high, start + len(old))
            for at in range(first - first % PAGE, last, PAGE):
                was, is_now = _page(start, old, at, before), _page(low, new, at, stop)
                if was != is_now:
                    found.append(Seen(at, was, is_now))
            if new:
                known[index] = (low, new)
            else:
                del known[index]
        self._stop = stop
        return found

    def _held(self, stop: int) -> dict[int, tuple[int, int]]:
        """The pieces that hold memory, each with where that begins and ends."""
        start = self._zone.start
        found: dict[int, tuple[int, int]] = {}
        for at, end in self._segments(start, stop):
            while at < end:
                index = at - (at - start) % _PIECE
                until = min(index + _PIECE, end)
                found[index] = (found[index][0] if index in found else at, until)
                at = until
        return found

    def _segments(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Runs of pages that hold memory, the last one up to `stop`."""
        arena = self._arena
        at, end = start - arena.base, stop - arena.base
        while at < end:
            try:
                data = os.lseek(arena.fd, at, os.SEEK_DATA)
            except OSError:  # nothing up to the end of the slab
                return
            if data >= end:
                return
            at = min(os.lseek(arena.fd, data, os.SEEK_HOLE), end)
            yield arena.base + data, arena.base + at


def _page(start: int, data: bytes, at: int, stop: int) -> bytes:
    """The page at an address, of bytes from `start`; zero where there are none, up to `stop`."""
    size = min(PAGE, stop - at)
    if size <= 0:
        return b""
    offset = at - start
    found = data[offset : offset + size] if offset >= 0 else b""
    return found if len(found) == size else found + _ZEROS[: size - len(found)]
