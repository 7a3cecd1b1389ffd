"""Runs linked code in this process, by mapping the arena a second time where the code expects it.

For code that is known to behave; what happens when it does not is the executor's tests' business.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from mmap import PAGESIZE as PAGE

from jitkernel import procfs
from jitkernel.arena import Arena, Region
from jitkernel.arena.slab import HIGHEST, LOWEST
from jitkernel.executor import child
from jitkernel.linker import Linker

__all__ = ["free_base", "lookup", "mapped", "unwinding"]

for _name in ("libgcc_s.so.1", "libstdc++.so.6"):
    with suppress(OSError):
        ctypes.CDLL(_name, ctypes.RTLD_GLOBAL)
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_FIXED_NOREPLACE = 0x100000
_GROWTH = 128 << 20  # bytes that the heap may grow while a test runs
_PROT = {"r": 1, "w": 2, "x": 4}


def lookup(names: Sequence[str]) -> list[int]:
    """Addresses of names in this process, 0 where unknown."""
    found = []
    for name in names:
        try:
            found.append(ctypes.cast(getattr(_libc, name), ctypes.c_void_p).value or 0)
        except AttributeError:
            found.append(0)
    return found


@contextmanager
def mapped(arena: Arena) -> Iterator[None]:
    """The arena's regions at their addresses, with their protections."""
    there: list[Region] = []
    try:
        for region in arena.regions:
            prot = sum(_PROT[p] for p in region.prot)
            size = region.stop - region.start
            flags, offset = mmap.MAP_SHARED | _FIXED_NOREPLACE, region.start - arena.base
            got = _libc.mmap(region.start, size, prot, flags, arena.fd, offset)
            assert got == region.start, ctypes.get_errno()
            there.append(region)
        yield
    finally:
        for region in there:  # of others' memory, nothing
            _libc.munmap(region.start, region.stop - region.start)


def free_base(capacity: int) -> int:
    """A random low address where this process has nothing, and its heap is not about to grow: the
    heap of a Python that is linked for a fixed address lies anywhere below 1 GiB."""
    free, at = [], LOWEST
    for start, stop in sorted((r.start, r.stop) for r in procfs.regions(os.getpid())):
        free.append(range(at, min(start, HIGHEST) - capacity + 1, PAGE))
        at = max(at, stop + _GROWTH & -PAGE)
    chance = random.SystemRandom()
    return chance.choice(chance.choice([gap for gap in free if gap]))


@contextmanager
def unwinding(linker: Linker) -> Iterator[None]:
    """The unwinder of this process finds the code that is linked by now, and mapped."""
    child.declare()
    base = linker.arena.base
    known = child.KnownCode(base, base + linker.arena.capacity)
    known.show(*linker.unwind.publish())
    try:
        yield
    finally:
        known.take_back()
