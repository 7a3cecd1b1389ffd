"""Stopping a cell that runs: from a signal to its thread up to the end of the process.

The runtime's handler (native/handler.ll) decides what a signal may do at the place where it
arrives; this is the kernel process's half, a clock: what to try next, and when to give up.  It
never waits.  `Check` comes after: whether the process still works.  Start from `Interruption.step`.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from jitkernel import procfs
from jitkernel.executor import abi
from jitkernel.executor.control import ControlBlock

AGAIN = 0.05  # seconds between signals
CHILDREN = 0.06  # when the cell's own programs get SIGINT, as from a terminal
BLOCKED, LATE = 0.25, 0.7  # fractions of the grace period: when to leave a library by force
_STILL = 6  # looks, 30 ms apart, between which nothing has moved
_COMPUTED = 3.0  # seconds of processor time, of all threads; a check takes a thousandth of one
_LONGEST = 10.0  # seconds; for a process that somebody has stopped
_OWED = 0.1  # seconds of processor time, a hundred times what it takes to leave a call


class Interruption:
    """One request to stop the call with number `seq`, begun at `now` (seconds, monotonic).

    `cause` is "" for the user's wish, "timeout" or "stdin".
    """

    def __init__(
        self,
        pid: int,
        seq: int,
        control: ControlBlock,
        grace: float,
        cause: str,
        now: float,
    ):
        self.pid, self.seq, self.cause = pid, seq, cause
        self._control, self._grace, self._began = control, max(grace, 0.2), now
        self._children, self._forced = False, False
        self._computed = procfs.processor_time(pid, first=True)
        self.due = now  # when `step` has something to do
        control["interrupt_seq"] = seq

    def step(self, now: float) -> bool:
        """Do what is due; False when the grace period is over and the process has to go."""
        passed = now - self._began
        if passed > self._grace and (passed > _LONGEST or not self._starved()):
            return False
        if passed >= CHILDREN and not self._children:
            self._children = True
            for pid in procfs.session_members(self.pid):
                _send(pid, signal.SIGINT)
        blocked = passed >= BLOCKED * self._grace and procfs.first_thread(self.pid) == "S"
        if not self._forced and (blocked or passed >= LATE * self._grace):
            self._forced = True
            self._control["force_seq"] = self.seq
        _send(self.pid, abi.SIGINTERRUPT)
        self.due = now + AGAIN
        return True

    def _starved(self) -> bool:
        """True if the thread of the call wants a processor, and has had none to leave it with."""
        computed = procfs.processor_time(self.pid, first=True) - self._computed
        return procfs.first_thread(self.pid) == "R" and computed < _OWED


class Check:
    """A watch on the process `pid`, which checks itself (native/health.ll): it will answer, or
    waits for ever.

    On a busy machine a sound process may be slow to answer, so the clock does not decide.  A check
    has failed when its threads sleep, do not run from one look to the next, and nobody in the
    process runs who could wake them; or when the process has computed for long. `thread` tells the
    number of the thread that the check has started, 0 where none has run yet.
    """

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


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass  # it has ended meanwhile
