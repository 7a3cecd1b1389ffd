"""Who keeps the lock of a standard stream, for which every later cell would wait.

A thread of the program may take stdout's lock and sleep; the runtime then leaves what was printed
where it is (native/enter.ll, `flush_one`).  Start from `keeper`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from jitkernel import procfs
from jitkernel.executor.peek import stack_pointer
from jitkernel.executor.records import Keeper

__all__ = ["keeper"]

_DEPTH = 4096  # bytes of its stack that are searched


def keeper(get: Callable[[str], int], pid: int) -> Keeper | None:
    """The thread that kept a stream's lock when the last call ended; `get` reads a control word."""
    thread = get("kept_by")
    if not thread:
        return None
    at = get("tid_at")
    data = procfs.memory(pid, thread + at, 4) if at else b""
    tid = int.from_bytes(data, "little")
    if not procfs.has_thread(pid, tid):
        tid = 0
    stack = procfs.memory(pid, stack_pointer(tid), _DEPTH) if tid else b""
    low, high = get("text_start"), get("text_stop")
    words = struct.unpack_from(f"<{len(stack) // 8}Q", stack)
    stream = "stdout" if get("kept_fd") == 1 else "stderr"
    return Keeper(stream, tid, tuple(w for w in words if low <= w < high))
