"""One memfd, and its bytes by the addresses that its pages have in an executor.  Start from `Slab`.

The process that owns a slab sees all of it readable and writable and never executable; an executor
maps `Slab.regions` at `Slab.base` with the protections named there.  Which regions there are, and
which bytes are whose, is the arena's business.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
from collections.abc import Iterator

from jitkernel.errors import JitError
from jitkernel.files import memory_file
from jitkernel.record import NamedTuple

PAGE = mmap.PAGESIZE
#: Bases lie in [LOWEST, HIGHEST - capacity]: below 2 GiB absolute 32-bit relocations hold, and
#: 16 MiB are left to either side for the offsets that compilers fold into an address.
LOWEST, HIGHEST = 0x1000_0000, 0x7F00_0000
#: Where there is room, a base is above this: a Python that is not position independent has its heap
#: below, and to who looks for pointers its whole numbers of up to 30 bits look like some.
_ABOVE_HEAPS = 1 << 30
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


def no_room(capacity: int, error: OSError) -> JitError:
    """The error of a process that has no such range of addresses left."""
    return JitError(
        f"no room for an arena of {capacity >> 20} MB of addresses: {error}; a smaller one may fit "
        "(Session(capacity=64 << 20), %config Arena.capacity=64M), or `ulimit -v` allow more"
    )


class Slab:
    """`capacity` bytes, sparse until used, whose pages belong at `base` in an executor, with the
    protections of its `regions`.

    `base` 0 picks a random page-aligned low address.  The bytes are there from `open` on.
    """

    regions: tuple[Region, ...]

    def __init__(self, capacity: int, base: int = 0):
        if base % PAGE or base < 0:
            raise JitError(f"Arena.base {base:#x} is not a multiple of the page size, {PAGE}")
        self.capacity = capacity
        highest = HIGHEST - capacity
        lowest = max(LOWEST, min(_ABOVE_HEAPS, highest & -PAGE))
        places = (highest - lowest) // PAGE + 1
        self.base = base or lowest + PAGE * (int.from_bytes(os.urandom(8), "little") % places)

    def open(self) -> None:
        """Make the file and map it.  Raises JitError."""
        self.fd = _memfd(self.capacity)
        try:
            protection = mmap.PROT_READ | mmap.PROT_WRITE
            self._map = mmap.mmap(self.fd, self.capacity, mmap.MAP_SHARED, protection)
            self.view = memoryview(self._map)
        except BaseException as error:
            os.close(self.fd)
            if not isinstance(error, OSError):
                raise
            raise no_room(self.capacity, error) from None

    def close(self) -> None:
        """Unmap and close it.  May be called again."""
        if self.fd >= 0:
            self.view.release()
            with contextlib.suppress(BufferError):  # a view of a variable goes on: see `part`
                self._map.close()
            os.close(self.fd)
            self.fd = -1

    def write(self, address: int, data: bytes | bytearray | memoryview) -> None:
        """Copy `data` to `address`."""
        offset = address - self.base
        self.view[offset : offset + len(data)] = data

    def read(self, address: int, size: int) -> bytes:
        """A copy of `size` bytes at `address`.  Raises IndexError outside the slab."""
        offset = address - self.base
        if offset < 0 or size < 0 or offset + size > self.capacity:
            raise IndexError(f"{size} bytes at {address:#x} are not in the arena")
        return bytes(self.view[offset : offset + size])

    def part(self, address: int, size: int) -> memoryview:
        """Bytes of the slab as they are from now on; it may outlive the slab.  Raises IndexError
        outside of it."""
        offset = address - self.base
        if offset < 0 or size < 0 or offset + size > self.capacity:
            raise IndexError(f"{size} bytes at {address:#x} are not in the arena")
        return memoryview(self._map)[offset : offset + size]

    def __contains__(self, address: int) -> bool:
        return self.base <= address < self.base + self.capacity

    def zone_of(self, address: int) -> str:
        """The name of the region an address lies in, or the empty string."""
        for region in self.regions:
            if region.start <= address < region.stop:
                return region.name
        return ""

    def punch(self, first: int, last: int) -> None:
        """Give whole pages back to the system: they read as zero.  Offsets into the slab."""
        self._map.madvise(mmap.MADV_REMOVE, first, last - first)

    def resident(self) -> int:
        """Bytes of the slab that occupy memory now."""
        return os.fstat(self.fd).st_blocks * 512

    def resident_regions(self) -> dict[str, int]:
        """The same by region (`runtime.text` and so on), page for page."""
        return {
            region.name: sum(b - a for a, b in self.held(region.start, region.stop))
            for region in self.regions
        }

    def held(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """The parts of `[start, stop)` that occupy memory, page for page, as ranges in order."""
        at, end = start - self.base, stop - self.base
        while at < end:
            try:
                data = os.lseek(self.fd, at, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # nothing up to the end of the slab
                    return
                raise
            if data >= end:
                return
            at = min(os.lseek(self.fd, data, os.SEEK_HOLE), end)
            yield self.base + data, self.base + at


def _memfd(capacity: int) -> int:
    """A file of `capacity` bytes in memory.  Raises JitError."""
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
