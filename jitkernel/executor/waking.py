"""The kernel process's half of a call that reached code which is not in memory.

A thread of the program waits in native/wake.ll; `serve` finds out where it is to go on and
tells it.  What has to be done for that is not known here.  Start from `Waking`.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["WAKE", "Waking"]

WAKE = 5  # the message that says that there is a request
_SYS_FUTEX, _FUTEX_WAKE = 202, 1  # x86-64


class Waking:
    """Answers requests for code; `find` maps a stub's address to that of the code, 0 for none.

    `get` and `put` read and write control words, `view` is the slab, where they begin at `at`.
    """

    def __init__(
        self,
        get: Callable[[str], int],
        put: Callable[[str, int], None],
        view: memoryview,
        done_at: int,
    ):
        self._get, self._put, self._view, self._done_at = get, put, view, done_at
        self.find: Callable[[int], int] = lambda stub: 0

    def serve(self) -> None:
        """Answer the request that there is, if there is one.  Raises what `find` raises, after
        the thread was told that nothing came."""
        stub = self._get("wake_stub")
        if not stub or self._get("wake_done"):
            return
        target = 0
        with _undisturbed():
            try:
                target = self.find(stub)
            finally:
                self._put("wake_target", target)
                self._put("wake_done", 1)
                self._notify()

    def _notify(self) -> None:
        """futex(2), FUTEX_WAKE; the thread would look by itself, but later."""
        word = ctypes.c_uint32.from_buffer(self._view, self._done_at)
        libc = _libc()
        libc.syscall(_SYS_FUTEX, ctypes.c_void_p(ctypes.addressof(word)), _FUTEX_WAKE, 1, 0, 0, 0)
        del word


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C in this process waits: code that is half linked is no place to stop at."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    pressed: list[tuple[int, Any]] = []
    signal.signal(signal.SIGINT, lambda number, frame: pressed.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if pressed:
            before(*pressed[0])


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)
