"""What a worker's process holds, and what it can give back.  Worker only.

Start from `held` and `give_back`.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

from jitkernel.procfs import own_bytes

#: Seconds without a request until memory is given back.  The next compile takes 2 ms more.
IDLE = 5.0

_DONTNEED = 4  # madvise(2), <asm-generic/mman-common.h>
_libc = ctypes.CDLL(None)
_madvise: Any = _libc.madvise
_madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class _MallInfo(ctypes.Structure):
    """glibc's `struct mallinfo2`, whose fields are alike: mallinfo(3)."""

    _fields_ = [("words", ctypes.c_size_t * 10)]


_HBLKHD, _UORDBLKS = 4, 7  # bytes of blocks that are mapped by themselves, and of all others
_mallinfo: Any = getattr(_libc, "mallinfo2", _MallInfo)  # zeros where glibc is before 2.33
if _mallinfo is not _MallInfo:
    _mallinfo.restype = _MallInfo


def held() -> tuple[int, int]:
    """Resident bytes that are this process's own (those of no file), and bytes of all blocks that
    were not freed."""
    words = _mallinfo().words
    return own_bytes(os.getpid()), int(words[_UORDBLKS] + words[_HBLKHD])


def give_back() -> int:
    """Give the system what is not needed to wait: freed memory, LLVM's file; bytes of the file."""
    _libc.malloc_trim(0)
    return _unmap_llvm()


def _unmap_llvm() -> int:
    """Take LLVM's code and constants out of this process; the number of bytes.

    They are clean pages of a file: they stay in the system's cache, to be mapped again as they are
    used, or dropped where memory is short.  Loading alone touches 60 MB of them.
    """
    given = size = 0
    start = stop = anonymous = 0
    wanted = False
    with open("/proc/self/smaps", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            name, _, rest = line.partition(" ")
            if not name.endswith(":"):
                low, _, high = name.partition("-")
                start, stop = int(low, 16), int(high, 16)
                wanted = rest.startswith("r") and rest[1] == "-" and "/libllvmlite" in rest
                size = anonymous = 0
            elif wanted and name == "Rss:":
                size = int(rest.split()[0]) << 10
            elif wanted and name == "Anonymous:":
                anonymous = int(rest.split()[0])
            elif wanted and name == "VmFlags:" and size and not anonymous:
                # What was relocated is this process's own: it would be lost.
                if _madvise(start, stop - start, _DONTNEED) == 0:
                    given += size
    return given
