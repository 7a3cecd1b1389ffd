"""Looks at code that runs in this process: on a thread beside it, as nobody waits for it.

Start from `looked_at`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

_FIRST_LOOK, _LOOK = 0.02, 0.03  # seconds until code counts as running long, and between looks


@contextlib.contextmanager
def looked_at(
    look: Callable[[float], object], lend: Callable[[int], AbstractContextManager[object]]
) -> Iterator[None]:
    """While the block lasts, `look(seconds)` is called with how long it has.

    `lend` gives a thread, by its number, what the present one has of the session.  What `look`
    raises is raised when the block is over; it is not called again.
    """
    over, raised = threading.Event(), []

    def watch() -> None:
        began, wait = time.monotonic(), _FIRST_LOOK
        while not over.wait(wait):
            try:
                look(time.monotonic() - began)
            except BaseException as error:
                raised.append(error)
                return
            wait = _LOOK

    thread = threading.Thread(target=watch, name="jitkernel looks", daemon=True)
    thread.start()
    with lend(thread.ident or 0):
        try:
            yield
        finally:
            over.set()
            thread.join()
    if raised:
        raise raised[0]


class Lent:
    """A lock that is held: to one other thread it is free meanwhile."""

    def __init__(self, lock: Any, thread: int):
        self._lock, self._thread = lock, thread

    def acquire(self, blocking: bool = True) -> bool:
        """As that of a lock of `threading`."""
        return threading.get_ident() == self._thread or self._lock.acquire(blocking)

    def release(self) -> None:
        """As that of a lock of `threading`."""
        if threading.get_ident() != self._thread:
            self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *exception: object) -> None:
        self.release()
