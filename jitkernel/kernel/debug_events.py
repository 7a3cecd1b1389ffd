"""In which order a debugger's client learns things: the answer to `next` comes before the stop that
`next` leads to, though another thread tells of that.  Start from `DebugEvents`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["DebugEvents"]

Body = dict[str, Any]


class DebugEvents:
    """Events on their way, which `send` publishes; from any thread."""

    def __init__(self, send: Callable[[Body], object]):
        self._send = send
        self._lock = threading.Lock()
        self._number = 0
        self._unanswered = 0  # requests whose answers are to come first
        self._held: list[Body] = []

    def number(self) -> int:
        """The number of the next message."""
        with self._lock:
            return self._next()

    def _next(self) -> int:
        self._number += 1
        return self._number

    def event(self, name: str, body: Body) -> None:
        """Publish an event, or keep it until what comes first has been answered."""
        event = {"type": "event", "event": name, "body": body}
        with self._lock:
            if self._unanswered:
                self._held.append(event)
            else:
                self._send({**event, "seq": self._next()})

    @contextlib.contextmanager
    def answered_first(self) -> Iterator[None]:
        """A block that sets going what events will tell of: they wait until `answered`, unless the
        block raises something."""
        with self._lock:
            self._unanswered += 1
        try:
            yield
        except BaseException:
            self.answered()
            raise

    def answered(self) -> None:
        """The answer to one such request has been sent."""
        with self._lock:
            self._unanswered -= 1
            if not self._unanswered:
                held, self._held = self._held, []
                for event in held:
                    self._send({**event, "seq": self._next()})
