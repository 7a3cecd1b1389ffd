"""A cell's stdout and stderr on their way to the notebook: decoded, paced and cut.

The executor's bytes are published by us with the cell's own parent header; the process's own
descriptors are not used.  A cell that prints without end may not kill the browser: a message
carries what came in `INTERVAL`, and past `limit` bytes only a count goes on.
Start from `OutputStreams`.
"""

from __future__ import annotations

import codecs
import threading
import time
from collections.abc import Callable
from itertools import groupby
from operator import itemgetter

__all__ = ["OutputStreams"]

INTERVAL = 0.05  # seconds between two messages of one cell

Publish = Callable[[str, str], None]  # (stream name, text)
Later = Callable[[float, Callable[[], None]], None]  # (seconds, what to call)


class OutputStreams:
    """The two streams of the cell that runs.  Thread-safe.

    `publish` sends one message; `later` calls a function after some seconds on another thread,
    so that the last words before a long silence are shown too.  `interval` 0: at once.
    """

    def __init__(
        self, publish: Publish, later: Later, limit: int, interval: float = INTERVAL
    ) -> None:
        self._publish, self._interval = publish, interval
        self._later = later
        self._lock = threading.RLock()
        self._waiting: list[tuple[str, str]] = []
        self._scheduled = False
        self.reset(limit)

    def reset(self, limit: int) -> None:
        """A new cell begins: its own count, its own decoders."""
        with self._lock:
            self._limit = limit
            self._last = 0.0
            self._count = 0
            self._dropped = 0
            self._decoders = {
                name: codecs.getincrementaldecoder("utf-8")("replace")
                for name in ("stdout", "stderr")
            }

    def write(self, name: str, data: bytes | str) -> None:
        """Take bytes (a character may be split between two calls) or text."""
        with self._lock:
            if isinstance(data, str):
                text, size = data, len(data)
            else:
                text, size = self._decoders[name].decode(data), len(data)
            room = self._limit - self._count
            self._count += size
            if self._limit and size > room:
                if room > 0:
                    self._waiting.append((name, text[:room]))
                if not self._dropped:
                    words = f"\n[output cut at {self._limit} bytes: JITKernel.max_output]\n"
                    self._waiting.append(("stderr", words))
                self._dropped += size - max(room, 0)
            elif text:
                self._waiting.append((name, text))
            if not self._waiting:
                return
            now = time.monotonic()
            if now - self._last >= self._interval:
                self._send(now)
            elif not self._scheduled:
                self._scheduled = True
                self._later(self._interval, self._on_timer)

    def _on_timer(self) -> None:
        with self._lock:
            self._scheduled = False
            self._send(time.monotonic())

    def _send(self, now: float) -> None:
        self._last = now
        waiting, self._waiting = self._waiting, []
        for name, pieces in groupby(waiting, key=itemgetter(0)):
            self._publish(name, "".join(text for _, text in pieces))

    def flush(self) -> None:
        """Publish what waits: before a display, an input request and the end of the cell."""
        with self._lock:
            self._send(time.monotonic())

    def finish(self) -> None:
        """The cell ended: half characters and the count of what was cut come out."""
        with self._lock:
            for name, decoder in self._decoders.items():
                if rest := decoder.decode(b"", final=True):
                    self._waiting.append((name, rest))
            if self._dropped:
                self._waiting.append(("stderr", f"[{self._dropped} more bytes not shown]\n"))
                self._dropped = 0
            self._send(time.monotonic())
