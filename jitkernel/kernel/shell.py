"""`!command`: a shell command whose output is streamed and which an interrupt ends.

It runs in the kernel's process tree but in a process group of its own, so that an interrupt
reaches all of it and nothing else; a guard (guard.py) ends it, and what it left running, when the
kernel ends.  Start from `ShellCommand`.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable

GRACE = 0.5  # seconds between these, to a command that goes on
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
_GUARD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "guard.py")
#: Guards of commands that left something running: a process that has ended wants to be waited for.
_guards: list[subprocess.Popen[bytes]] = []


class ShellCommand:
    """One command.  `run` blocks until it ends, or until `stopped` says that it has to."""

    def __init__(self, command: str, stopped: Callable[[], bool] = lambda: False) -> None:
        self.command, self._stopped = command, stopped
        self._group = 0  # the shell's process, which leads a group
        self._status: int | None = None
        self._told = b""  # what the guard has said
        self._signals = iter(_SIGNALS)
        self._next = 0.0  # when the next of them is due, once it is to end

    def run(self, output: Callable[[str, bytes], None]) -> int:
        """The exit status (negative: the signal that ended it); output as it comes."""
        _guards[:] = [guard for guard in _guards if guard.poll() is None]
        if self._stopped():
            return -signal.SIGINT
        guard, words = self._start()
        try:
            self._pump(guard, words, output)
        finally:
            if self._status is None:
                self._kill(signal.SIGKILL)
            self._group = 0  # its number may be another's from now on
            os.close(words)
            for stream in (guard.stdout, guard.stderr):
                if stream is not None:
                    stream.close()
            _guards.append(guard)
        return -signal.SIGKILL if self._status is None else self._status

    def _start(self) -> tuple[subprocess.Popen[bytes], int]:
        """The guard, and a descriptor of what it says; the shell runs."""
        shell = os.environ.get("SHELL", "/bin/sh")
        if not os.access(shell, os.X_OK):
            shell = "/bin/sh"
        kernel = os.pidfd_open(os.getpid())
        words, theirs = os.pipe()
        arguments = [sys.executable, "-I", "-S", _GUARD, str(kernel), str(theirs)]
        try:
            guard = subprocess.Popen(
                [*arguments, shell, "-c", self.command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(kernel, theirs),
                start_new_session=True,
            )
        except BaseException:
            os.close(words)
            raise
        finally:
            os.close(kernel)
            os.close(theirs)
        return guard, words

    def _listen(self, words: int) -> bool:
        """Take in what the guard says: the shell's number, then its status; whether it ends."""
        said = os.read(words, 64)
        self._told += said
        lines = self._told.split(b"\n")
        if not self._group and len(lines) > 1:
            self._group = int(lines[0])
        if len(lines) > 2:
            self._status = int(lines[1])
        return not said

    def _pump(
        self, guard: subprocess.Popen[bytes], words: int, output: Callable[[str, bytes], None]
    ) -> None:
        if guard.stdout is None or guard.stderr is None:
            raise RuntimeError("the command has no streams")
        with selectors.DefaultSelector() as selector:
            selector.register(words, selectors.EVENT_READ)
            selector.register(guard.stdout, selectors.EVENT_READ, "stdout")
            selector.register(guard.stderr, selectors.EVENT_READ, "stderr")
            streams, over = 2, False
            while True:
                ready = selector.select(0.05)
                for key, _ in ready:
                    if key.fd == words:
                        if self._listen(words):
                            selector.unregister(words)
                            over = True
                    elif data := os.read(key.fd, 65536):
                        output(key.data, data)
                    else:
                        selector.unregister(key.fileobj)
                        streams -= 1
                self._press()
                over |= self._status is not None
                # A background child that keeps the pipe open does not keep the cell.
                if over and (not ready or not streams):
                    break

    def _press(self) -> None:
        """End a command that is to end, ever harder."""
        now = time.monotonic()
        if self._group and self._stopped() and now >= self._next:
            self._next = now + GRACE
            self._kill(next(self._signals, signal.SIGKILL))

    def _kill(self, number: int) -> None:
        if self._group:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._group, number)
