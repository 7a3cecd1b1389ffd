"""What malloc(3) of glibc tells of this process's blocks.  Worker only.  Start from `allocated`."""

from __future__ import annotations

import ctypes
from ctypes import c_size_t, c_void_p
from typing import Any

__all__ = ["allocated", "bounds", "free", "in_use", "mallinfo", "size", "word"]

_HEADER = 8  # bytes of a block that are not for its user
_FLAGS, _PREVIOUS_IN_USE = 7, 1  # bits of a block's size: glibc, malloc/malloc.c, `PREV_INUSE`


class _MallInfo(ctypes.Structure):
    """glibc's `struct mallinfo2`, mallinfo(3)."""

    _fields_ = [
        (name, c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
            "fordblks", "keepcost",
        )
    ]  # fmt: skip


_libc = ctypes.CDLL(None)
_mallinfo: Any = getattr(_libc, "mallinfo2", None)  # None where there is no glibc
if _mallinfo is not None:
    _mallinfo.restype = _MallInfo
    _libc.free.argtypes, _libc.free.restype = [c_void_p], None


def mallinfo() -> Any:
    """mallinfo2(3); zeros where there is no glibc."""
    return _mallinfo() if _mallinfo is not None else _MallInfo()


def allocated() -> int:
    """Bytes of all blocks that were not freed; 0 where there is no glibc."""
    info = mallinfo()
    return int(info.uordblks + info.hblkhd)


def bounds() -> range:
    """The addresses of the heap proper; empty where there is none."""
    with open("/proc/self/maps", encoding="ascii", errors="replace") as lines:
        for line in lines:
            if line.rstrip().endswith("[heap]"):
                start, _, stop = line.split()[0].partition("-")
                return range(int(start, 16), int(stop, 16))
    return range(0)


def size(address: int) -> int:
    """Bytes that the block at `address` takes, its header counted; reads only the header."""
    return word(address - _HEADER) & ~_FLAGS


def in_use(address: int) -> bool:
    """Whether the block at `address` was not freed.  Certain only above 1,040 bytes: of smaller
    ones that were freed some stay marked as they were."""
    mark = address + size(address) - _HEADER  # of one that joined the heap's free end: behind it
    return mark in bounds() and bool(word(mark) & _PREVIOUS_IN_USE)


def free(address: int) -> None:
    """free(3)."""
    _libc.free(address)


def word(address: int) -> int:
    """The 8 bytes at an address."""
    return c_size_t.from_address(address).value
