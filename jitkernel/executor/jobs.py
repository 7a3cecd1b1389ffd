"""Work that other threads have done by the thread that waits for a call.

Start from `Jobs.post`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")


class Jobs:
    """Jobs for whoever has begun to take them; `ring` tells it that there are some.

    There is no lock, since each call begins and ends here: who posts looks behind whether anybody
    takes jobs, who ends taking them looks behind whether there are any.  (What a deque does is
    atomic.)  `taker` is the thread that takes them, 0 for none; it sets that itself, and looks at
    what is `waiting` when it has ended.
    """

    def __init__(self, ring: Callable[[], object]):
        self._ring = ring
        self.waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self.taker = 0

    def post(self, job: Callable[[], T]) -> Future[T] | None:
        """Have the thread that takes jobs do one: its result, or what it raised.  None where no
        thread does, and nothing will be done.  May be called from any thread; in the one that takes
        them it is done at once."""
        from concurrent.futures import Future  # with `logging`: not for the first cell

        future: Future[T] = Future()
        if self.taker == threading.get_ident():
            _do(future, job)
            return future
        entry = future, job
        self.waiting.append(entry)
        if self.taker:
            self._ring()
            return future
        try:
            self.waiting.remove(entry)
        except ValueError:
            return future  # somebody took it
        return None

    def run(self) -> None:
        """Do what is waiting.  Raises KeyboardInterrupt and its like, after the job was told."""
        for entry in iter(self._taken, None):
            _do(*entry)

    def close(self, cancelled: bool) -> None:
        """Nobody takes any more, and some wait: they are done yet, or `cancelled`."""
        try:
            if not cancelled:
                self.run()
        finally:
            for future, _ in iter(self._taken, None):
                future.cancel()

    def _taken(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        try:
            return self.waiting.popleft()
        except IndexError:
            return None


def _do(future: Future[T], job: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = job()
    except BaseException as error:
        future.set_exception(error)
        if not isinstance(error, Exception):
            raise
    else:
        future.set_result(result)
