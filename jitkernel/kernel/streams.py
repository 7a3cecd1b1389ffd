"""A cell's stdout and stderr on their way to the notebook: decoded, paced and cut.

The executor's bytes are published by us with the cell's own parent header; the process's own
descriptors are not used.  A cell that prints without end may not kill the browser: a message
carries what came in `INTERVAL`, and what comes past `limit` bytes is counted, and kept in a file
for as long as the streams are.  Start from `OutputStreams`.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import threading
import time
from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import groupby
from operator import itemgetter
from typing import IO

from jitkernel.files import scratch_folder
from jitkernel.kernel.output import Output

INTERVAL = 0.05  # seconds between two messages of one cell
_LONGEST_PROMPT = 4096  # characters
_FILES = 8  # of cells whose output was cut that are kept
_LARGEST = 256 << 20  # bytes that are kept of one


class OutputStreams(Output):
    """An `Output` with the two streams of the cell that runs.  Thread-safe.

    `limit` is how many bytes a cell may print, asked when it begins.
    """

    interval = INTERVAL

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit_now = limit
        self._lock = threading.RLock()
        self._waiting: list[tuple[str, str]] = []
        self._scheduled = False
        self._scratch: AbstractContextManager[str] | None = None
        self._folder = ""  # that of the files
        self._number = 0  # of the last file there
        super().__init__()

    @abstractmethod
    def publish(self, name: str, text: str) -> None:
        """Send one message of a stream."""

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call a function after some seconds on another thread, so that the last words before a
        long silence are shown too.  Not asked where `interval` is 0."""

    def begin(self, in_place: bool) -> None:
        """A new cell begins: its own count, its own decoders."""
        super().begin(in_place)
        with self._lock:
            self._limit = self._limit_now()
            self._last = 0.0
            self._printed = 0
            self._dropped = 0
            self._shown = ""  # the end of stdout
            self._rest: IO[bytes] | None = None  # the file of this cell's
            self._kept_bytes = 0
            self._decoders = {
                name: codecs.getincrementaldecoder("utf-8")("replace")
                for name in ("stdout", "stderr")
            }

    def close(self) -> None:
        """The session ends: what was not shown goes with it."""
        with self._lock:
            self._rest = None
            if self._scratch is not None:
                self._scratch.__exit__(None, None, None)
                self._scratch = None

    def write(self, name: str, data: bytes | str) -> None:
        """Take bytes (a character may be split between two calls) or text."""
        with self._lock:
            if isinstance(data, str):
                text, size = data, len(data)
            else:
                text, size = self._decoders[name].decode(data), len(data)
            room = self._limit - self._printed
            self._printed += size
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
            if time.monotonic() - self._last >= self.interval:
                self.flush()
            elif not self._scheduled:
                self._scheduled = True
                self.later(self.interval, self.flush)

    def _keep_rest(self) -> str:
        """Keep what comes from now on in a file; where that is, in words."""
        try:
            if self._scratch is None:
                scratch = scratch_folder()
                self._folder = scratch.__enter__()
                self._scratch = scratch
            path = os.path.join(self._folder, "rest-{}.txt")
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path.format(self._number + 1 - _FILES))
            self._number += 1
            path = path.format(self._number)
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            self._rest = open(file, "wb", buffering=0)  # noqa: SIM115
        except OSError:
            return ""
        return f"; the rest is in {path} while the session lives"

    def _keep(self, data: bytes | str, start: int) -> None:
        """Bytes that are not shown, from `start` on."""
        if self._rest is None:
            return
        rest = data[start:]
        content = rest.encode("utf-8", "replace") if isinstance(rest, str) else rest
        content = content[: _LARGEST - self._kept_bytes]
        try:
            self._kept_bytes += self._rest.write(content)
        except OSError:  # the disk is full
            self._rest = None

    def unshown(self, prompt: str) -> str:
        """The part of a prompt that an input request is to show: nothing where the program has
        printed it, and the cell's output ends with it."""
        self.flush()
        with self._lock:
            return "" if self._shown.endswith(prompt) else prompt

    def flush(self) -> None:
        """Publish what waits: when it is time, and before a display, an input request and the end
        of the cell."""
        with self._lock:
            self._last, self._scheduled = time.monotonic(), False
            waiting, self._waiting = self._waiting, []
            for name, pieces in groupby(waiting, key=itemgetter(0)):
                text = "".join(text for _, text in pieces)
                self.publish(name, text)
                if name == "stdout":
                    self._shown = (self._shown + text)[-_LONGEST_PROMPT:]

    def end(self) -> None:
        """The cell ended: half characters and the count of what was cut come out."""
        super().end()
        with self._lock:
            for name, decoder in self._decoders.items():
                if rest := decoder.decode(b"", final=True):
                    self._waiting.append((name, rest))
            if self._dropped:
                kept = ""
                if self._rest is not None and self._kept_bytes < self._dropped:
                    kept = f"; the first {self._kept_bytes} of them are in the file"
                words = f"[{self._dropped} more bytes not shown{kept}]\n"
                self._waiting.append(("stderr", words))
                self._dropped, self._rest = 0, None
            self.flush()
