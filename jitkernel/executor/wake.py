"""Requests of threads that have called hibernated code, answered by the kernel process.

The thread waits in native/wake.ll; `serve` has the code brought back and tells the thread where to
continue.  How code comes back is not known here.  Start from `WakeRequests.serve`.
"""

from __future__ import annotations

# The half of `signal` that is in C: the other makes enums of what it is given, and takes ten times
# as long.
import _signal  # type: ignore[import-not-found]
import contextlib
import ctypes
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from jitkernel.executor.abi import FUTEX_WAKE
from jitkernel.executor.records import Callbacks
from jitkernel.syscalls import SYS

__all__ = ["WakeRequests"]


class WakeRequests:
    """Answers requests for code with what `user.on_wake` says.

    `get` and `put` read and write control words, `view` is the slab, `done_at` where `wake_done` is
    in it.
    """

    def __init__(
        self,
        user: Callbacks,
        get: Callable[[str], int],
        put: Callable[[str, int], None],
        view: memoryview,
        done_at: int,
    ):
        self._user, self._get, self._put = user, get, put
        # The slab stays where it is for as long as it is mapped; nothing is held of the view.
        done = ctypes.addressof(ctypes.c_uint32.from_buffer(view, done_at))
        # It takes no time to speak of: not worth letting another Python thread run meanwhile.
        syscall = ctypes.PyDLL(None).syscall
        futex, word = SYS["futex"], ctypes.c_void_p(done)
        self._notify = partial(syscall, futex, word, FUTEX_WAKE, 1, 0, 0, 0)

    def serve(self) -> None:
        """Answer the request that there is, if there is one.  Raises what `on_wake` raises, after
        the thread was told that nothing came."""
        stub = self._get("wake_stub")
        if not stub or self._get("wake_done"):
            return
        target = 0
        with _undisturbed():
            try:
                target = self._user.on_wake(stub, self._get("wake_alone") != 0)
            finally:
                self._put("wake_target", target)
                self._put("wake_done", 1)
                self._notify()  # futex(2); the thread would look by itself, but later


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C in this process waits: code that is half linked is no place to stop at."""
    before = _signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    pressed: list[tuple[int, Any]] = []
    _signal.signal(signal.SIGINT, lambda number, frame: pressed.append((number, frame)))
    try:
        yield
    finally:
        _signal.signal(signal.SIGINT, before)
        if pressed:
            before(*pressed[0])
