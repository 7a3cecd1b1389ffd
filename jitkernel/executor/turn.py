"""Who may change the program while its code runs in this process.  Start from `Turn`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from threading import Lock, get_ident


class Turn:
    """The calls in progress, and who may change the program meanwhile.

    The rule: with no call in progress, who has the session's lock changes the program.  While code
    of the program runs, the turn is free, and whoever is in Python and wants to change the program
    takes it, one at a time: a thread that brings code back, one that looks at variables, and the
    caller when its code has called Python.  A call lets go of the turn when it begins and ends only
    with it, so that nothing changes under a caller that goes on.

    One thread at a time calls, for it has the session's lock; in a callback it may call again.
    """

    __slots__ = ("_holder", "caller", "depth", "lock")

    def __init__(self) -> None:
        self.lock = Lock()  # held by whoever has the turn
        self._holder = 0  # the thread that is named as having it
        self.depth = 0  # calls in progress, one in a callback of the other
        self.caller = 0  # the thread of the innermost

    @property
    def is_callers(self) -> bool:
        """True if this thread has called the code that runs."""
        return self.depth > 0 and self.caller == get_ident()

    @property
    def in_callback(self) -> bool:
        """True if code that this thread has called has called Python, which has to take the turn
        before it changes the program."""
        here = get_ident()
        return self.depth > 0 and self.caller == here != self._holder

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """While it lasts, this thread may change the program, whatever code runs on others.

        A thread that has the turn must not ask for it again.
        """
        with self.lock:
            self._holder = get_ident()
            try:
                yield
            finally:
                self._holder = 0

    def call(self, enter: Callable[[], int]) -> int:
        """Run code of the program: what `enter` gives.  (direct.py does the same by itself, where
        no other call is in progress.)"""
        here = get_ident()
        before, self.caller = self.caller, here
        self.depth += 1
        if has_turn := self._holder == here:  # in a callback of another call
            self._holder = 0
            self.lock.release()
        try:
            return enter()
        finally:
            self.lock.acquire()  # whoever brings code back at this moment is waited for
            self.depth -= 1
            self.caller = before
            if has_turn:
                self._holder = here
            else:
                self.lock.release()
