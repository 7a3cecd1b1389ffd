"""Memory beside the slab that this process and executors have at one address.  Start from
`SharedMemory`; `find` tells which one holds an address, `called` in words.

Each is a memfd of its own, mapped readable and writable, between two pages that nobody has.
Addresses are given out once in a process, so that any executor can map any of them.

Memory of whole pages fills them; other memory begins somewhere in its first page, no two alike one
after the other.  A processor compares a load with the stores before it by the lower 12 bits of
their addresses, and waits where they are equal ("4K aliasing", Intel's Optimization Reference
Manual, Memory Disambiguation): small arrays that all begin with a page would be taken for one.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import resource
import threading
import weakref
from bisect import bisect_right, insort
from collections.abc import Callable
from typing import Any

from jitkernel.arena.slab import PAGE, libc
from jitkernel.errors import JitError
from jitkernel.files import memory_file

#: Above what programs that are linked for a fixed address have, below libraries and most heaps.
_LOWEST, _HIGHEST = 0x2000_0000_0000, 0x4000_0000_0000
_READ_WRITE, _SHARED, _FIXED_NOREPLACE, _FAILED = 3, 1, 0x100000, 2**64 - 1  # mmap(2)
_NOEXEC_SEAL = 8  # memfd_create(2)
_SKIPPED, _ATTEMPTS = 1 << 32, 64  # bytes to go on by where an address is taken
_LINE = 64  # bytes of a line of the cache
_LINES = PAGE // _LINE
_STEP = 27  # lines: of seven in a row, each two are at least seven apart

_lock = threading.Lock()
_next = _LOWEST
_count = 0
_starts: list[int] = []  # of all that there are, ascending
_known: dict[int, weakref.ref[SharedMemory]] = {}


class SharedMemory:
    """`size` bytes, at first zero, at the address `start`, a multiple of 64; gone when nobody
    refers to it.  `base` and `room` are address and size of what is mapped, whole pages.

    numpy and others see it through `__array_interface__`, and what they make of it keeps it.
    Raises JitError where the system has no more memory, addresses or descriptors.
    """

    def __init__(self, size: int):
        self.size = size
        self.room = max(size + -size % PAGE, PAGE)
        self.fd = _file(self.room)
        try:
            self.base, number = _map(self.fd, self.room)
        except BaseException:
            os.close(self.fd)
            raise
        places = (self.room - size) // _LINE + 1
        self.start = self.base + number * _STEP % _LINES * places // _LINES * _LINE
        #: Called with `base` and `room` when it is gone, from wherever that is: may not wait for a
        #: lock.
        self.on_end: list[Callable[[int, int], object]] = []
        with _lock:
            insort(_starts, self.start)
            _known[self.start] = weakref.ref(self)
        weakref.finalize(
            self, _release, self.start, self.base, self.room, self.fd, self.on_end, os.getpid()
        ).atexit = False

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """All of it as bytes: see numpy's page "The array interface protocol"."""
        return {
            "version": 3, "shape": (self.size,), "typestr": "|u1", "data": (self.start, False),
        }  # fmt: skip

    def __repr__(self) -> str:
        return f"<SharedMemory {self.start:#x}, {self.size} bytes>"


def called(address: int) -> str:
    """`byte 16 of an array of 800`, also for what lies in the page behind its end; else nothing."""
    memory = find(address, PAGE)
    if memory is None:
        return ""
    at = address - memory.start
    words = f"byte {at} of an array of {memory.size}"
    return words if at < memory.size else f"{words}, behind its end"


def find(address: int, beyond: int = 0) -> SharedMemory | None:
    """The memory that holds an address, or ends so many bytes before it.  An array's end counts,
    where an empty part of it may begin."""
    index = bisect_right(_starts, address) - 1
    if index < 0:
        return None
    start = _starts[index]
    memory = _known[start]() if start in _known else None
    return memory if memory is not None and address - start <= memory.size + beyond else None


def _file(room: int) -> int:
    """A file in memory that nobody can run, shorten or lengthen (memfd_create(2))."""
    how = "jitkernel-array", room, _NOEXEC_SEAL
    try:
        try:
            return memory_file(*how)
        except OSError as error:
            if error.errno != errno.EMFILE or not _more_descriptors():
                raise
            return memory_file(*how)
    except (OSError, OverflowError) as error:
        raise JitError(
            f"no shared memory of {room} bytes: {error}; {len(_starts)} arrays are there, and each "
            "has a descriptor (`ulimit -n`)"
        ) from None


def _map(fd: int, room: int) -> tuple[int, int]:
    """Map the file; return its address, and how many were mapped before."""
    global _next, _count
    with _lock:
        for _ in range(_ATTEMPTS):
            if _next + room + PAGE > _HIGHEST:
                _next = _LOWEST
            at = libc.mmap(_next, room, _READ_WRITE, _SHARED | _FIXED_NOREPLACE, fd, 0)
            number = ctypes.get_errno()
            if at == _next:
                _next += room + PAGE
                _count += 1
                return int(at), _count - 1
            if at not in (None, _FAILED):
                libc.munmap(at, room)  # a system before 4.17 takes the address for a wish
            elif number != errno.EEXIST:
                raise JitError(f"{room} bytes cannot be mapped: {os.strerror(number)}")
            _next += _SKIPPED
    raise JitError(f"no free address for {room} bytes of shared memory")


def _release(
    start: int, base: int, room: int, fd: int, on_end: list[Callable[[int, int], object]], pid: int
) -> None:
    """Nobody refers to it any more: its pages go, those that sessions have mapped too, who unmap it
    later.  No lock: whoever was interrupted by this may hold it."""
    if os.getpid() == pid:  # not in a forked child, whose sessions are the parent's
        for call in on_end:
            call(base, room)
        libc.madvise(base, room, mmap.MADV_REMOVE)
    _starts.remove(start)
    _known.pop(start, None)
    libc.munmap(base, room)
    os.close(fd)


def _more_descriptors() -> bool:
    """Twice as many as this process may have now, within what it may ask for (getrlimit(2)): the
    limit is 1,024 on most systems, for the sake of select(2).  False where there are no more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    more = 2 * soft if hard == resource.RLIM_INFINITY else min(2 * soft, hard)
    if soft == resource.RLIM_INFINITY or more <= soft:
        return False
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))
    except (OSError, ValueError):
        return False
    return True
