"""The slab where it belongs in this process, with the protections of its regions.

The view through which the linker writes is another mapping of the same file, elsewhere: no page is
writable and executable at one address.  Start from `OwnMap`.
"""

from __future__ import annotations

import ctypes
import os
import random
from collections.abc import Iterable
from typing import TYPE_CHECKING

from jitkernel import procfs
from jitkernel.arena.slab import HIGHEST, LOWEST, PAGE, Region, no_room
from jitkernel.errors import UsageError
from jitkernel.executor import child

if TYPE_CHECKING:
    from jitkernel.arena import Arena

_PRIVATE, _FIXED, _ANONYMOUS, _NORESERVE = 2, 0x10, 0x20, 0x4000  # mmap(2)
_NOTHING = 0  # PROT_NONE
_FREE = _PRIVATE | _ANONYMOUS | _NORESERVE
_TRIES = 16
#: Below a slab that lies above 2 GiB code looks for variables that are gone (linker/binding.py):
#: nothing is to be there.
_BELOW = 272 << 20

child.declare()
child.libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class OwnMap:
    """`capacity` bytes of addresses from `base` on, this process's own until `close`.

    `base` 0 takes a random place below 2 GiB that is free, where there is one, else a place above,
    which takes position-independent code.  Raises UsageError where `base` is taken,
    JitError where there is no room.
    """

    def __init__(self, capacity: int, base: int = 0):
        self.size = max(capacity & -PAGE, PAGE)
        self._below = 0  # bytes that are kept free below it
        self.base = self._take(base) if base else self._find()
        if not self.base:
            raise UsageError(
                f"the addresses {base:#x} to {base + self.size:#x} are taken in this process, and "
                "an inline session needs them: close the session that has them, start it where "
                'they are free, or use Session(executor="process")'
            )

    def _take(self, base: int) -> int:
        """The same where it is free, else 0."""
        flags = _FREE | child.MAP_FIXED_NOREPLACE
        try:
            return child.map_pages(base, self.size, _NOTHING, flags)
        except OSError:
            return 0

    def _find(self) -> int:
        chance = random.SystemRandom()
        for _ in range(_TRIES):
            rooms = list(self._rooms())
            if not rooms:
                break
            low, high = chance.choice(rooms)
            if at := self._take(chance.randrange(low, high - self.size + 1, PAGE)):
                return at
        try:
            at = child.map_pages(None, _BELOW + self.size, _NOTHING, _FREE)
            self._below = _BELOW
            return at + _BELOW
        except OSError as error:
            raise no_room(self.size, error) from None

    def _rooms(self) -> Iterable[tuple[int, int]]:
        """The ranges below 2 GiB where nothing is mapped, and a slab fits."""
        at = LOWEST
        for region in procfs.regions(os.getpid()):
            if min(region.start, HIGHEST) - at >= self.size:
                yield at, min(region.start, HIGHEST)
            at = max(at, region.stop)
        if HIGHEST - at >= self.size:
            yield at, HIGHEST

    def show(self, arena: Arena, regions: Iterable[Region]) -> None:
        """Map a slab's regions there.  Raises OSError."""
        spans = [(region.start, region.stop, region.prot) for region in regions]
        child.map_regions(arena.fd, arena.base, spans, _FIXED)

    def close(self) -> None:
        """Give the addresses back.  May be called again."""
        if self.base:
            child.libc.munmap(self.base - self._below, self._below + self.size)
            self.base = 0
