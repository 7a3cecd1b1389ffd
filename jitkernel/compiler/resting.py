"""What an idle worker need not have mapped.  Worker only.  Start from `give_back`."""

from __future__ import annotations

import ctypes
from typing import Any

__all__ = ["IDLE", "give_back"]

#: Seconds without a request until a process rests.  The next compile takes 2 ms more.
IDLE = 5.0

_DONTNEED = 4  # madvise(2), <asm-generic/mman-common.h>
_libc = ctypes.CDLL(None)
_madvise: Any = _libc.madvise
_madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def give_back() -> int:
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
