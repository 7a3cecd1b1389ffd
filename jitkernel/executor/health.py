"""Whether a process that checks itself (native/health.ll) will answer, or waits for ever.

On a busy machine a sound process may be slow to answer, so the clock does not decide.  A check has
failed when its threads sleep, do not run from one look to the next, and nobody in the process runs
who could wake them; or when the process has computed for long.  Start from `Check.failed`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from jitkernel import procfs

__all__ = ["Check"]

_STILL = 6  # looks, 30 ms apart, between which nothing has moved
_COMPUTED = 3.0  # seconds of processor time, of all threads; a check takes a thousandth of one
_LONGEST = 10.0  # seconds; for a process that somebody has stopped


class Check:
    """One check of the process `pid`; `thread` tells the number of the thread that it has started,
    0 where none has run yet."""

    def __init__(self, pid: int, thread: Callable[[], int]):
        self._pid, self._thread = pid, thread
        self._began, self._computed = time.monotonic(), procfs.processor_time(pid)
        self._before: list[procfs.Activity] = []
        self._still = 0

    def failed(self) -> bool:
        """Another look: whether there will be no answer."""
        threads = procfs.activity(self._pid)
        fresh = self._thread()
        checking = [threads[t] for t in (self._pid, fresh) if t in threads]
        if checking != self._before or any(thread.state != "S" for thread in checking):
            self._still = 0
        elif all(thread.state not in "RD" for thread in threads.values()):
            self._still += 1
        self._before = checking
        return (
            self._still >= _STILL
            or procfs.processor_time(self._pid) - self._computed > _COMPUTED
            or time.monotonic() - self._began > _LONGEST
        )
