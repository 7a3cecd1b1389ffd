"""Which ranges of the arena something may still point into, the program's own memory included.

Start from `pointed_to`.  It errs on the side of "yes": any eight bytes count, at any address, that
would be an address in one of the ranges.  Memory of the program (heap, stacks, libraries' data) is
read through /proc while none of its code runs; what only other processes or files know is not seen.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from mmap import PAGESIZE
from typing import TYPE_CHECKING

from jitkernel import procfs

if TYPE_CHECKING:
    from jitkernel.arena import Arena

#: `(start, stop, whose)`
Range = tuple[int, int, int]

_CHUNK = 1 << 20
_SLAB = "/memfd:jitkernel"
_HELD = 3 << 62  # of an entry of a page map: in memory, swapped (proc_pid_pagemap(5))
_GUARD = 1 << 58  # nothing is there, and nobody can read it (madvise(2), MADV_GUARD_INSTALL)


class Unreadable(Exception):
    """Memory of the program cannot be read."""


def pointed_to(memory: Iterable[bytes], ranges: Sequence[Range]) -> set[int]:
    """The owners of those sorted, disjoint `ranges` that `memory` seems to point into."""
    starts = [start for start, _, _ in ranges]
    found: set[int] = set()
    patterns = _patterns(ranges)
    for piece in memory:
        for pattern in patterns:
            for match in pattern.finditer(piece):
                word = int.from_bytes(piece[match.start() - 3 : match.end()], "little")
                at = bisect_right(starts, word) - 1
                if at >= 0 and match.start() >= 3 and word < ranges[at][1]:
                    found.add(ranges[at][2])
    return found


def _patterns(ranges: Sequence[Range]) -> list[re.Pattern[bytes]]:
    """The upper five bytes of addresses in the ranges: looking for them is a thousand times faster
    than looking at each word."""
    upper = {a >> 24 for low, high, _ in ranges for a in range(low, high + (1 << 24), 1 << 24)}
    return [re.compile(re.escape((u << 24).to_bytes(8, "little")[3:])) for u in sorted(upper)]


def live_words(arena: Arena, zone: str, excluding: Sequence[Range] = ()) -> Iterator[bytes]:
    """The content of a zone's live extents, but for those that begin where one of `excluding`
    does."""
    skip = {start for start, _, _ in excluding}
    for start, size in sorted(arena.zones[zone].list.live.items()):
        if start not in skip:
            for at in range(start, start + size, _CHUNK):
                yield arena.read(at, min(_CHUNK + 7, start + size - at))


def program_words(pid: int, arena: Arena) -> Iterator[bytes]:
    """All that a process could have written, without the arena.  Raises Unreadable."""
    low, high = arena.base, arena.base + arena.capacity
    try:
        memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise Unreadable(str(error)) from error
    try:
        regions = procfs.regions(pid)
        if not regions:
            raise Unreadable(f"there is no map of process {pid}")
        for region in regions:
            if region.name.startswith(_SLAB):
                continue  # also where this process sees it a second time
            if "w" in region.access and not low <= region.start < high:
                yield from _read(memory, _held(pid, region))
    except OSError as error:
        raise Unreadable(str(error)) from error
    finally:
        os.close(memory)


def _read(memory: int, runs: Iterable[tuple[int, int]]) -> Iterator[bytes]:
    for start, stop in runs:
        before = b""
        for at in range(start, stop, _CHUNK):
            piece = os.pread(memory, min(_CHUNK, stop - at), at)
            yield before + piece
            before = piece[-7:]


def _held(pid: int, region: procfs.Region) -> Iterator[tuple[int, int]]:
    """The parts of a private mapping that hold memory: to read the others would allocate it.

    Guard pages count as swapped.  Stacks of threads have one inside their mapping, from glibc 2.42
    on; Linux tells of them from 6.15 on.
    """
    if region.access.endswith("s"):
        yield region.start, region.stop
        return
    count = (region.stop - region.start) // PAGESIZE
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as file:
        table = os.pread(file.fileno(), 8 * count, region.start // PAGESIZE * 8)
    if len(table) != 8 * count:
        raise Unreadable(f"the page map of {region.start:#x} is cut short")
    begun = -1
    for page, entry in enumerate(memoryview(table).cast("Q")):
        if entry & _HELD and not entry & _GUARD:
            begun = page if begun < 0 else begun
        elif begun >= 0:
            yield region.start + begun * PAGESIZE, region.start + page * PAGESIZE
            begun = -1
    if begun >= 0:
        yield region.start + begun * PAGESIZE, region.stop
