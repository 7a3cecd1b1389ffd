"""A process of clang's that waits for its text.  Start from `prepare` and `take`.

clang has its program to load and its tables to set up before it reads standard input: half of the
time that a cell without headers takes it.  So the command of one cell is started again for the
next, shortly after, while the session's own compiler works.  It is used if the next cell asks for
the very same, and ended where it does not, where nobody has asked for a while, or where a session
ends: it has 44 MB in memory, 1.6 of them its own, the rest the file's.
"""

from __future__ import annotations

import atexit
import os
import re
import resource
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress

from jitkernel.languages.language import at_close

__all__ = ["end", "prepare", "start", "take"]

#: Flags that a folder follows at once: `-Iinclude`.
_FOLDER = re.compile(r"\A(?:-I|-iquote|-isystem|-idirafter|-F|--sysroot=|-isysroot)(?=.)")
_DELAY = 0.005  # seconds: the cell's module is on its way to the session's compiler
_IDLE = 5.0  # seconds
_MEMORY = 2 << 30  # bytes of address space

_lock = threading.Lock()
_waiting: _Waiting | None = None


def start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """A process of this command, with pipes; raises OSError."""
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True, env={**os.environ, "LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    with suppress(OSError):
        resource.prlimit(child.pid, resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        resource.prlimit(child.pid, resource.RLIMIT_CORE, (0, 0))
    return child


class _Waiting(threading.Thread):
    """Starts a command, waits for somebody to take it, and ends it where nobody does."""

    def __init__(self, command: Sequence[str]):
        super().__init__(name="clang ahead", daemon=True)
        self._command = command
        self._key = _around(command)
        self._over = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        if self._over.wait(_DELAY):
            return
        with _lock:
            if _waiting is self:
                with suppress(OSError):
                    self._child = start(self._command)
        self._over.wait(_IDLE)
        with _lock:
            if _waiting is self:
                _forget()
            child, self._child = self._child, None
        if child is not None:
            _end(child)

    def over(self, command: Sequence[str] | None) -> subprocess.Popen[bytes] | None:
        """The process, if it is for this command and as it would be started now.  The lock is
        held."""
        child = self._child
        if child is not None and command == self._command and self._key == _around(command):
            self._child = None
        else:
            child = None
        self._over.set()
        return child


def _around(command: Sequence[str]) -> tuple[object, ...]:
    """What a process looks at besides its command, before it reads: the environment, and which of
    the folders are there."""
    try:
        here = os.getcwd()
    except OSError:
        here = ""
    paths = [_FOLDER.sub("", word) for word in command]
    there = tuple(os.path.exists(path) for path in paths if path[:1] != "-")
    return here, there, tuple(os.environ.items())


def prepare(command: Sequence[str]) -> None:
    """Start this command soon, instead of what waits."""
    global _waiting
    with _lock:
        if _waiting is not None:
            _waiting.over(None)
        new = _waiting = _Waiting(tuple(command))
    with suppress(RuntimeError):  # the system has no more threads, or the interpreter ends
        new.start()


def take(command: Sequence[str]) -> subprocess.Popen[bytes] | None:
    """A process of this command that waits for its text; None where none does."""
    with _lock:
        found = _waiting.over(tuple(command)) if _waiting is not None else None
        _forget()
    if found is not None and found.poll() is not None:
        _end(found)
        return None
    return found


def end() -> None:
    """End the process that waits, and be there when it has ended."""
    with _lock:
        waiting = _waiting
        if waiting is not None:
            waiting.over(None)
            _forget()
    if waiting is not None and waiting.is_alive():
        waiting.join()


def _forget() -> None:
    global _waiting
    _waiting = None


def _end(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    with child:
        pass


def _in_forked_child() -> None:
    """The process, and the thread that waits, are the parent's."""
    global _lock
    _lock = threading.Lock()
    _forget()


os.register_at_fork(after_in_child=_in_forked_child)
atexit.register(end)
at_close.append(end)
