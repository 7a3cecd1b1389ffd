"""What a slab is made of: its file, its regions, its zones with their poison.  Start from `Zone`.

What is free below a zone's high water holds poison, or is a whole page that was given back to the
system and reads as zero.  Which extents there are, and when they may go, is the arena's business.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
from typing import TYPE_CHECKING

from jitkernel.arena.freelist import Extent, FreeList
from jitkernel.errors import JitError
from jitkernel.files import memory_file
from jitkernel.record import NamedTuple
from jitkernel.rollback import log_undo

if TYPE_CHECKING:
    from jitkernel.arena.arena import Arena

PAGE = mmap.PAGESIZE
#: What freed bytes are filled with.
POISON = {"text": 0xCC, "rodata": 0xDD, "unwind": 0xDD, "data": 0xDD}
_MFD_EXEC = 0x10

#: mmap(2) and others, with `ctypes.get_errno`
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
]  # fmt: skip
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Region(NamedTuple):
    """Pages `[start, stop)` of the executor's address space; `prot` is one of rx, r and rw."""

    name: str
    start: int
    stop: int
    prot: str


class Zone:
    """One zone's free list, poison and high-water mark; all addresses are the executor's."""

    def __init__(self, arena: Arena, name: str, start: int, stop: int, granule: int):
        self._arena = arena
        self.name, self.poison = name, POISON[name]
        self.list = FreeList(start, stop, granule)
        self.start, self.stop = start, stop
        self.high = start  # bytes from here up were never handed out
        self.punched: set[int] = set()  # pages given back: they read as zero, not as poison

    def hand_out(self, start: int, size: int) -> Extent:
        """Make an extent that was taken its owner's: what is free beside it is poison."""
        log_undo(self.poison_again, start, size)
        stop = start + size
        if self.punched:
            self.unpunch(start, stop)
        if stop > self.high:
            if start > self.high:
                self.fill(self.high, start)
            if padding := -stop % self.list.granule:
                self.fill(stop, stop + padding)
            self.high = stop + padding
        return Extent(self.name, start, size)

    def poison_again(self, start: int, size: int) -> None:
        """Undo `hand_out`: fill the extent with poison again."""
        if self.list.kept is not None:
            return
        stop = min(start + (size + -size % self.list.granule or self.list.granule), self.high)
        self.clear(start, stop)

    def clear(self, start: int, stop: int) -> None:
        """Make a free range poison, or give its whole pages back to the system."""
        first, last = start + -start % PAGE, stop & -PAGE
        if self.name == "text" or last <= first:  # text that is free is never left zero
            self.fill(start, stop)
        else:
            self.fill(start, first)
            self.fill(last, stop)
            self.punch(first, last)

    def fill(self, start: int, stop: int) -> None:
        """Fill a range with poison."""
        if stop > start:
            base = self._arena.base
            self._arena.view[start - base : stop - base] = bytes([self.poison]) * (stop - start)

    def punch(self, start: int, stop: int) -> int:
        """Give the whole pages of a free range back to the system; the bytes that were not yet."""
        first, last = start + -start % PAGE, stop & -PAGE
        if last <= first:
            return 0
        before = len(self.punched)
        self.punched.update(range(first // PAGE, last // PAGE))
        self._arena.punch(first - self._arena.base, last - self._arena.base)
        return (len(self.punched) - before) * PAGE

    def unpunch(self, start: int, stop: int) -> None:
        """Pages about to be used again get their poison back where the extent leaves them free."""
        for page in (start // PAGE, (stop - 1) // PAGE):
            if page in self.punched:
                self.fill(page * PAGE, min((page + 1) * PAGE, self.high))
                self.punched.discard(page)
        if stop - start > PAGE:
            self.punched.difference_update(range(start // PAGE, stop // PAGE))

    def check(self) -> None:
        """Prove the books and the poison; raises AssertionError.  Reads no page that is a hole."""
        self.list.check()
        for start, size in self.list.live.items():
            if start + size > self.high:
                raise AssertionError(f"{self.name}: an extent at {start:#x} lies above high water")
        fill = bytes([self.poison]) * PAGE
        for start, stop in self.list.holes():
            for at, end in self._arena.held(start, min(stop, self.high)):
                for low in range(at & -PAGE, end, PAGE):
                    first, last = max(low, at), min(low + PAGE, end)
                    if (
                        low // PAGE not in self.punched
                        and self._arena.read(first, last - first) != (fill[: last - first])
                    ):
                        raise AssertionError(
                            f"{self.name}: freed bytes near {first:#x} were written"
                        )


def memfd(capacity: int) -> int:
    """A file of `capacity` bytes in memory, for the slab.  Raises JitError."""
    try:
        return memory_file("jitkernel", capacity, _MFD_EXEC, 0o700)
    except OSError as error:
        why = f"the slab of {capacity} bytes cannot be made: {error.strerror}"
        if error.errno == errno.EACCES:
            why = (
                f"no executable shared memory: memfd_create says {error.strerror}. Where the "
                "sysctl vm.memfd_noexec is 2, set it to 0 or 1: sysctl vm.memfd_noexec=1"
            )
        raise JitError(why) from error
