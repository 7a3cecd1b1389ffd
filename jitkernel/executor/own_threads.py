"""Which threads of this process are the program's, that runs in it.  Start from `OwnThreads.look`.

Python's are not, nor are those that came while no code of the program ran: libraries of Python's
start threads as they like.  All others count as the program's until they end, for nobody can tell
who started them.
"""

from __future__ import annotations

import os
import threading
import time

from jitkernel import procfs

_LOOKS = 5  # 1 ms apart, before a thread counts as the program's


class OwnThreads:
    """The threads of the program; whoever runs its code sets `called`."""

    def __init__(self) -> None:
        self.called = False
        self._others: frozenset[int] = frozenset()
        self._own: set[int] = set()
        self._count = 0

    def look(self) -> int:
        """Count the program's threads as they are now.  Of those that are new since the last look,
        some may be the program's where its code was called meanwhile."""
        called, self.called = self.called, False
        if not called and not self._own and _count() == self._count:
            return 0
        tasks = _tasks()
        self._count = len(tasks)
        new = tasks - self._others - self._own
        if called or self._own & tasks:
            # One of Python's that has just ended is still there for a moment.
            for _ in range(_LOOKS):
                new &= tasks
                if not (new := new - _of_python()):
                    break
                time.sleep(0.001)
                tasks = _tasks()
            self._own |= new & tasks
        self._own &= tasks
        if self._own:
            self._own -= _of_python()  # it was just beginning
        self._others = tasks - self._own
        return len(self._own)

    @property
    def alone(self) -> bool:
        """True if the thread that asks is the process's only one: no other runs any code."""
        return _count() == 1


def _count() -> int:
    return procfs.thread_count(os.getpid())


def _tasks() -> frozenset[int]:
    return procfs.threads(os.getpid())


def _of_python() -> set[int | None]:
    """Threads that Python has started: a dummy stands for another's that Python's code ran on."""
    dummy = threading._DummyThread
    return {t.native_id for t in threading.enumerate() if not isinstance(t, dummy)}
