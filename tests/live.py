"""What a process holds: bytes in use of its heap, and live Python objects by type.

Exact where Python allocates with malloc (PYTHONMALLOC=malloc) and malloc maps nothing by itself
(MALLOC_MMAP_MAX_=0).  As a program, `python live.py kernel ...` is a kernel that writes both to the
file `JITKERNEL_TEST_LIVE` on SIGUSR1.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import sys
from collections import Counter
from typing import Any

HEAP = {"PYTHONMALLOC": "malloc", "MALLOC_MMAP_MAX_": "0", "PYTHONHASHSEED": "0"}


class _Heap(ctypes.Structure):
    """struct mallinfo2 of mallinfo(3)."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


_mallinfo = ctypes.CDLL(None).mallinfo2
_mallinfo.restype = _Heap


def bytes_now() -> int:
    """Bytes in use of the heap, after a collection."""
    _collect()
    now = _mallinfo()
    return now.uordblks + now.hblkhd


def types_now() -> Counter[str]:
    """How many objects of each type live that the collector knows."""
    _collect()
    return Counter(map(_kind, gc.get_objects()))


def _collect() -> None:
    """Twice: what has a finalizer goes in the first, and what it led to in the second."""
    gc.collect()
    gc.collect()


def _kind(thing: Any) -> str:
    kind = type(thing)
    if kind is type(len):  # whose method it is says who may keep it
        return f"{kind.__name__} {thing.__name__} of {type(thing.__self__).__qualname__}"
    return f"{kind.__module__}.{kind.__qualname__}"


def _write(*_: object) -> None:
    path = os.environ["JITKERNEL_TEST_LIVE"]
    found = {"bytes": bytes_now(), "types": types_now()}
    with open(path + ".new", "w") as file:
        json.dump(found, file)
    os.rename(path + ".new", path)


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, _write)
    from jitkernel.kernel.__main__ import main

    del sys.argv[1]
    main()
