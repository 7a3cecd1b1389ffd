"""Which pages of a slab were not written since somebody protected them.  Start from `Writes.clean`.

Every process that maps the slab has a page table, which tells what that process wrote: pages are
write-protected with a userfaultfd whose faults the system resolves by itself, only taking note
(UFFD_FEATURE_WP_ASYNC), and read with PAGEMAP_SCAN; both are there from Linux 6.7 on.  A system
call that writes to such a page counts like an instruction that does.  Where any of this is missing,
or a process may write that has no page table here, nothing is clean: who asks compares bytes
instead.  (Not told: write(2) to the slab as a file.  Nobody is given its descriptor but the
executor, which closes it before any code runs.)

Sources: ioctl_userfaultfd(2), Documentation/admin-guide/mm/pagemap.rst, include/uapi/linux/fs.h.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import struct
from collections.abc import Callable, Sequence
from typing import Protocol
from weakref import WeakSet

from jitkernel.arena.ranges import Range, between, common
from jitkernel.arena.slab import Slab, libc
from jitkernel.errors import present
from jitkernel.syscalls import SYS

_USER_MODE_ONLY = 1
_API, _WP_ASYNC, _WP_SHMEM, _MODE_WP = 0xAA, 1 << 15, 1 << 12, 2
_UFFDIO_API, _UFFDIO_REGISTER = 0xC018AA3F, 0xC020AA00
_PAGEMAP_SCAN = 0xC0606610
_WP_MATCHING, _CHECK_WPASYNC = 1, 2
_WPALLOWED, _WRITTEN, _PRESENT, _SWAPPED = 1, 2, 8, 16
_SCAN = struct.Struct("<12Q")  # struct pm_scan_arg
_REGIONS = 256  # that one call tells

_READ, _SHARED, _FAILED = 1, 1, 2**64 - 1  # mmap(2)

# A process that this one forks has the slab, too, and no page table here.
_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_parent=_count_fork)


def protectable(start: int, size: int) -> int:
    """Let pages of this process, at `start`, be protected: a descriptor that keeps them so.

    Raises OSError where the system has not what it takes, or refuses it.
    """
    fd = int(libc.syscall(SYS["userfaultfd"], os.O_CLOEXEC | _USER_MODE_ONLY))
    if fd < 0:
        raise OSError(ctypes.get_errno(), "userfaultfd")
    try:
        fcntl.ioctl(fd, _UFFDIO_API, struct.pack("<3Q", _API, _WP_ASYNC | _WP_SHMEM, 0))
        fcntl.ioctl(fd, _UFFDIO_REGISTER, struct.pack("<4Q", start, size, _MODE_WP, 0))
    except BaseException:
        os.close(fd)
        raise
    return fd


class PageTable:
    """A process's page table, by an open `/proc/PID/pagemap`; its addresses are `shift` beyond the
    slab's."""

    def __init__(self, fd: int, shift: int = 0):
        self.fd, self._shift = fd, shift
        self._regions = (ctypes.c_uint64 * (3 * _REGIONS))()

    def unwritten(self, start: int, stop: int) -> list[Range]:
        """Ranges of protected pages that this process has not written, in order.

        Raises OSError where the pages cannot be protected (any more).
        """
        return self._scan(start, stop, _CHECK_WPASYNC, _WRITTEN, _PRESENT | _SWAPPED)

    def present(self, start: int, stop: int) -> list[Range]:
        """Ranges of pages that are in the table.  Raises OSError."""
        return self._scan(start, stop, _CHECK_WPASYNC, _PRESENT, 0)

    def protect(self, start: int, stop: int) -> None:
        """From now on these pages are unwritten.  Raises OSError."""
        self._scan(start, stop, _CHECK_WPASYNC | _WP_MATCHING, 0, 0)

    def _scan(self, start: int, stop: int, flags: int, mask: int, any_of: int) -> list[Range]:
        found: list[Range] = []
        regions, shift = self._regions, self._shift
        at, end = start + shift, stop + shift
        where = ctypes.addressof(regions)
        while at < end:
            arguments = bytearray(
                _SCAN.pack(
                    _SCAN.size, flags, at, end, 0, where, _REGIONS, 0,
                    _WRITTEN & mask, mask, any_of, _WPALLOWED,
                )
            )  # fmt: skip
            count = fcntl.ioctl(self.fd, _PAGEMAP_SCAN, arguments)
            for index in range(0, 3 * count, 3):
                found.append((regions[index] - shift, regions[index + 1] - shift))
            walked = _SCAN.unpack(arguments)[4]
            if walked <= at:
                break
            at = walked
        return found

    def close(self) -> None:
        """Close the descriptor.  May be called again."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Reader(Protocol):
    """Whoever has compared pages, and takes them for clean as long as nobody says otherwise."""

    def invalidate(self, ranges: Sequence[Range]) -> None:
        """Others found these clean only now: what this one knows of them may be older."""


class Writes:
    """The writes to a slab by this process and by the one that runs code.

    `runner()` gives that one's page table, None where somebody else may write, too, or it cannot
    be told.  Readers compare by way of `window`, a mapping that nobody else reads: a page that was
    given back to the system (MADV_REMOVE writes to none, and leaves it protected) is missing from
    there until a reader has seen it, whoever made a new page of it meanwhile.
    """

    def __init__(self, slab: Slab):
        self.runner: Callable[[], PageTable | None] = lambda: None
        self._slab = slab
        self._readers: WeakSet[Reader] = WeakSet()
        self._window = 0  # its address
        self._seen: PageTable | None = None  # of the window
        self._own: PageTable | None = None
        self._asked: list[PageTable] = []  # by the last `clean`
        self._keepers: list[int] = []
        self._opened = self._broken = False
        self._forks = _forks

    def join(self, reader: Reader) -> None:
        """A reader hears what others protect."""
        self._readers.add(reader)

    @property
    def window(self) -> int:
        """The distance from an address in the slab to where this process reads it to compare."""
        slab = self._slab
        return (self._window or _address(slab.view)) - slab.base

    def clean(
        self, start: int, stop: int, by: Reader, own: bool = False
    ) -> tuple[list[Range], list[Range]]:
        """Ranges of pages that readers have seen, and of those that nobody wrote since they were
        protected, in order.  `own`: that this process did not write."""
        self._asked = self._tables(start, own)
        seen: list[Range] = []
        found: list[Range] = []
        if self._asked:
            window = present(self._seen, "the page table of the window")
            with contextlib.suppress(OSError):
                seen = unwritten = window.present(start, stop)
                for table in self._asked:
                    unwritten = common(unwritten, table.unwritten(start, stop))
                found = unwritten
        self._invalidate(between(seen, start, stop), by)  # this one is going to see them
        return seen, found

    def protect(self, ranges: Sequence[Range], by: Reader) -> bool:
        """Let pages be clean from now on; whether they are.

        They are some that `clean` was asked of just now.  Other readers that found them clean
        before must look again.
        """
        if not self._asked:
            return False
        self._invalidate(ranges, by)
        try:
            for start, stop in ranges:
                for table in self._asked:
                    table.protect(start, stop)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Nothing is clean any more."""
        self._broken = True
        for table in (self._own, self._seen):
            if table is not None:
                table.close()
        self._own = self._seen = None
        self._asked = []
        while self._keepers:
            os.close(self._keepers.pop())
        if self._window:
            libc.munmap(self._window, self._slab.capacity)
            self._window = 0

    def _invalidate(self, ranges: Sequence[Range], by: Reader) -> None:
        for reader in self._readers:
            if ranges and reader is not by:
                reader.invalidate(ranges)

    def _tables(self, at: int, own: bool) -> list[PageTable]:
        """The page tables of who may write to the zone of an address, none where they do not tell
        everything; what the program cannot write has no part in its table.  `own`: this process's
        alone."""
        if self._broken or _forks != self._forks:
            return []
        if not self._opened:
            self._opened = True
            self._open()
        if self._own is None:
            return []
        if own:
            return [self._own]
        if (other := self.runner()) is None:
            return []
        prot = next(region.prot for region in self._slab.regions if at < region.stop)
        return [self._own, other] if "w" in prot else [self._own]

    def _open(self) -> None:
        slab = self._slab
        try:
            at = libc.mmap(None, slab.capacity, _READ, _SHARED, slab.fd, 0)
            if at in (None, _FAILED):
                raise OSError(ctypes.get_errno(), "mmap")
            self._window = int(at)
            self._own = self._table(_address(slab.view))
            self._seen = self._table(self._window)
        except OSError:
            self.close()

    def _table(self, at: int) -> PageTable:
        """The table of this process's pages at `at`, which can be protected.

        Of such pages one that is read brings no others into the table.
        """
        slab = self._slab
        self._keepers.append(protectable(at, slab.capacity))
        fd = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        return PageTable(fd, at - slab.base)


def _address(view: memoryview) -> int:
    """The address of memory in this process."""
    return ctypes.addressof(ctypes.c_char.from_buffer(view))
