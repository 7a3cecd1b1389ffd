"""`!command`: a shell command whose output is streamed and which an interrupt ends.

It runs in the kernel's process tree but in a process group of its own, so that an interrupt
reaches all of it and nothing else.  Start from `ShellCommand`.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable

__all__ = ["ShellCommand"]

GRACE = 0.5  # seconds between SIGINT, SIGTERM and SIGKILL


class ShellCommand:
    """One command.  `run` blocks until it ends; `interrupt` may be called from anywhere."""

    def __init__(self, command: str) -> None:
        self.command = command
        self.interrupted = False
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._interrupted_at = 0.0
        self._sent = 0

    def run(self, output: Callable[[str, bytes], None]) -> int:
        """The exit status (negative: the signal that ended it); output as it comes."""
        shell = os.environ.get("SHELL", "/bin/sh")
        if not os.access(shell, os.X_OK):
            shell = "/bin/sh"
        with self._lock:
            if self.interrupted:
                return -signal.SIGINT
            self._process = process = subprocess.Popen(
                [shell, "-c", self.command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        try:
            self._pump(process, output)
        finally:
            if process.poll() is None:
                self._kill(signal.SIGKILL)
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        return process.returncode

    def _pump(self, process: subprocess.Popen[bytes], output: Callable[[str, bytes], None]) -> None:
        with selectors.DefaultSelector() as selector:
            for name, stream in (("stdout", process.stdout), ("stderr", process.stderr)):
                if stream is not None:
                    selector.register(stream, selectors.EVENT_READ, name)
            while selector.get_map():
                ready = selector.select(0.05)
                for key, _ in ready:
                    data = os.read(key.fd, 65536)
                    if data:
                        output(key.data, data)
                    else:
                        selector.unregister(key.fileobj)
                self._press()
                # A background child that keeps the pipe open does not keep the cell.
                if not ready and process.poll() is not None:
                    break
        while process.poll() is None:
            self._press()
            time.sleep(0.01)

    def _press(self) -> None:
        """After an interrupt: SIGTERM, then SIGKILL, to a command that goes on."""
        if not self.interrupted:
            return
        waited = time.monotonic() - self._interrupted_at
        if self._sent == 0 and waited > GRACE:
            self._sent = 1
            self._kill(signal.SIGTERM)
        elif self._sent == 1 and waited > 2 * GRACE:
            self._sent = 2
            self._kill(signal.SIGKILL)

    def interrupt(self) -> None:
        """End the command.  From a signal handler or another thread."""
        self.interrupted = True
        self._interrupted_at = time.monotonic()
        self._kill(signal.SIGINT)

    def _kill(self, number: int) -> None:
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
