"""What Python functions that code calls have put off until the session is free.

Code of the program that has called Python waits in the middle of its run, so that a program cannot
be changed there.  Start from `Deferred`.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterator
from threading import get_ident
from traceback import extract_tb
from typing import TYPE_CHECKING, Any

from jitkernel.errors import JitError

if TYPE_CHECKING:
    from jitkernel.session.core import Core


class Deferred:
    """Calls that wait for the end of the operation in progress, the first first.

    Who defers and who ends an operation both try to take the session's lock when they have done so:
    one of them gets it.
    """

    def __init__(self, core: Core):
        self._core = core
        self.waiting: deque[Callable[[], Any]] = deque()  # empty, most often
        self._running = False
        self._inside: set[int] = set()  # threads whose code has called Python

    def add(self, call: Callable[[], Any]) -> None:
        """Do this when nothing else is done, perhaps at once."""
        self.waiting.append(call)
        self.run()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """While it lasts, this thread, which may be one of the program's, does nothing of it."""
        here = get_ident()
        if here in self._inside:
            yield
            return
        self._inside.add(here)
        try:
            yield
        finally:
            self._inside.discard(here)

    def run(self) -> None:
        """Do what waits, unless an operation is in progress, whose end does it.  What a call raises
        is for the user to read: nobody waits for its result."""
        core = self._core
        if get_ident() in self._inside:
            return
        while self.waiting and core.lock.acquire(blocking=False):
            try:
                if self._running or core.operating or core.engine.executor.serving:
                    return
                self._running = True
                try:
                    while self.waiting and not core.engine.closed:
                        self._do(self.waiting.popleft())
                finally:
                    self._running = False
                if core.engine.closed:
                    self.waiting.clear()
            finally:
                core.lock.release()

    def _do(self, call: Callable[[], Any]) -> None:
        try:
            call()
        except Exception as error:
            last = extract_tb(error.__traceback__)[-1]
            where = f", {os.path.basename(last.filename)}, line {last.lineno}"
            kind = "" if isinstance(error, JitError) else f"{where}: {type(error).__name__}"
            self._core.engine.notices.append(f"what session.later put off failed{kind}: {error}")
