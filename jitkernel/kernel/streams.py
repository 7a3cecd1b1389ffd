"""A cell's stdout and stderr on their way to the notebook: decoded, paced and cut.

The executor's bytes are published by us with the cell's own parent header; the process's own
descriptors are not used.  A cell that prints without end may not kill the browser: a message
carries what came in `INTERVAL`, and what comes past `limit` bytes is counted, and kept in a file
(`Rest`) for as long as the streams are.  Start from `OutputStreams`.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Callable
from itertools import groupby
from operator import itemgetter
from typing import BinaryIO

from jitkernel.files import create_private

__all__ = ["OutputStreams"]

INTERVAL = 0.05  # seconds between two messages of one cell
_LONGEST_PROMPT = 4096  # characters
_FILES = 8  # of cells whose output was cut that are kept
_LARGEST = 256 << 20  # bytes that are kept of one

Publish = Callable[[str, str], None]  # (stream name, text)
Later = Callable[[float, Callable[[], None]], None]  # (seconds, what to call)


class Rest:
    """Output of cells that was not shown: a file each of the last cells, in a folder that goes
    with the session, or with this process."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._files: list[str] = []
        self._number = 0

    def begin(self) -> str:
        """The path of a new file, empty where none can be made; the oldest goes."""
        try:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="jitkernel-output-")
            self._number += 1
            path = os.path.join(self._folder.name, f"rest-{self._number}.txt")
            create_private(path)
        except OSError:
            return ""
        self._files.append(path)
        if len(self._files) > _FILES:
            with contextlib.suppress(OSError):
                os.unlink(self._files.pop(0))
        return path

    def close(self) -> None:
        """Remove all of them."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder, self._files = None, []


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
        self._rest = Rest()
        self._kept: BinaryIO | None = None
        self._kept_bytes = 0
        self.reset(limit)

    def reset(self, limit: int) -> None:
        """A new cell begins: its own count, its own decoders."""
        with self._lock:
            self._limit = limit
            self._last = 0.0
            self._count = 0
            self._dropped = 0
            self._shown = ""  # the end of stdout
            self._forget()
            self._decoders = {
                name: codecs.getincrementaldecoder("utf-8")("replace")
                for name in ("stdout", "stderr")
            }

    def close(self) -> None:
        """The session ends: what was not shown goes with it."""
        with self._lock:
            self._forget()
            self._rest.close()

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
                    where = self._keep_rest()
                    words = f"\n[output cut at {self._limit} bytes: JITKernel.max_output{where}]\n"
                    self._waiting.append(("stderr", words))
                self._dropped += size - max(room, 0)
                self._keep(data, max(room, 0))
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

    def _keep_rest(self) -> str:
        """Keep what comes from now on in a file; where that is, in words."""
        path = self._rest.begin()
        if not path:
            return ""
        try:
            self._kept, self._kept_bytes = open(path, "ab", buffering=0), 0  # noqa: SIM115
        except OSError:
            return ""
        return f"; the rest is in {path} while the session lives"

    def _keep(self, data: bytes | str, start: int) -> None:
        """Bytes that are not shown, from `start` on."""
        if self._kept is None:
            return
        rest = data[start:]
        content = rest.encode("utf-8", "replace") if isinstance(rest, str) else rest
        content = content[: _LARGEST - self._kept_bytes]
        try:
            self._kept_bytes += self._kept.write(content)
        except OSError:  # the disk is full
            self._forget()

    def _forget(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _on_timer(self) -> None:
        with self._lock:
            self._scheduled = False
            self._send(time.monotonic())

    def _send(self, now: float) -> None:
        self._last = now
        waiting, self._waiting = self._waiting, []
        for name, pieces in groupby(waiting, key=itemgetter(0)):
            text = "".join(text for _, text in pieces)
            self._publish(name, text)
            if name == "stdout":
                self._shown = (self._shown + text)[-_LONGEST_PROMPT:]

    def unshown(self, prompt: str) -> str:
        """The part of a prompt that an input request is to show: nothing where the program has
        printed it, and the cell's output ends with it."""
        self.flush()
        with self._lock:
            return "" if self._shown.endswith(prompt) else prompt

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
                kept = ""
                if self._kept is not None and self._kept_bytes < self._dropped:
                    kept = f"; the first {self._kept_bytes} of them are in the file"
                words = f"[{self._dropped} more bytes not shown{kept}]\n"
                self._waiting.append(("stderr", words))
                self._dropped = 0
                self._forget()
            self._send(time.monotonic())
