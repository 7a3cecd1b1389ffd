"""A process that is given a text and answers.  Start from `Child`; `ask` is all of it at once.

No end of file is waited for.  A process that is forked from this one at any moment, as by a pool in
the user's program, has copies of all its descriptors, and a pipe ends only when the last copy is
closed.  So the text goes through a socket, which `shutdown` ends whoever else has it; the answer is
written to files in memory; and what is waited for is the end of the process.  Nor is there a
thread: an exception that somebody raises in this one might reach another that it is just starting.

Source: unix(7), pidfd_open(2), memfd_create(2), SO_RCVTIMEO in socket(7), SIOCOUTQ in tcp(7).
"""

from __future__ import annotations

import fcntl
import math
import os
import resource
import select
import signal
import socket
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import starmap

from jitkernel.record import NamedTuple
from jitkernel.spawning import spawning

_ANSWER = 1 << 30  # bytes of output that are taken
_STEP = 0.002  # seconds between looks, where the system cannot tell of an end
_GRACE = 1.0  # seconds that a process which was killed is waited for

_unreaped: list[int] = []  # processes that had not yet ended when they were left


class Child:
    """A process of this command in a session of its own, from now until `close`.

    `patience` is how many seconds it waits for text before it finds its input unreadable: so it
    ends by itself where nobody gives it any.  It has `more` descriptors, from number 3 on.  Raises
    OSError where it cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        patience: float = 60.0,
        more: Sequence[int] = (),
    ):
        self.__class__ = _OpenChild
        self._owner = os.getpid()
        # Whoever raises asynchronously does so between two steps of Python's: what has to be freed
        # is kept in the very step that gets it.
        self._process: list[int] = []
        self._files: list[int] = []  # descriptors: standard output, standard error, the process
        self._end: int | None = None  # its status, once it has been waited for
        self._left = memoryview(b"")
        self._given = False
        self._socket, theirs = socket.socketpair()
        try:
            self._socket.setblocking(False)
            seconds, fraction = divmod(patience, 1)
            limit = struct.pack("ll", int(seconds), int(fraction * 1e6))
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            self._files.extend(map(os.memfd_create, ("output", "errors")))
            streams = (theirs.fileno(), *self._files, *more)
            self._start(command, os.environ if environment is None else environment, streams)
        except BaseException:
            self.close()
            raise
        finally:
            theirs.close()

    def _start(
        self, command: Sequence[str], environment: Mapping[str, str], streams: Sequence[int]
    ) -> None:
        _reap()
        with spawning(command, environment, streams) as spawn:
            self._process.extend(starmap(spawn, [()]))
        with suppress(OSError):  # it has ended and nobody waits, or no descriptor is left
            self._files.extend(map(os.pidfd_open, self._process))
        self.limit(resource.RLIMIT_FSIZE, _ANSWER)

    def limit(self, which: int, most: int) -> None:
        """Bound a resource of it, as setrlimit(2) has it, where the system lets us."""
        with suppress(OSError, ValueError):
            resource.prlimit(self.pid, which, (most, most))

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process[0]

    # -- its text ----------------------------------------------------------------------------------

    def give(self, data: bytes) -> None:
        """Begin to give it its standard input, all of it; `wait` goes on.  It need not read it."""
        self._left, self._given = memoryview(data), True
        self._send()

    def _send(self) -> None:
        try:
            while self._left:
                self._left = self._left[self._socket.send(self._left, socket.MSG_NOSIGNAL) :]
        except BlockingIOError:
            return
        except OSError:  # it has closed its input, or has ended
            self._left = memoryview(b"")
        if self._given:
            self._given = False
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)

    @property
    def unread(self) -> bool:
        """True if it has not yet read all that it was given."""
        count = bytearray(4)
        with suppress(OSError):
            fcntl.ioctl(self._socket, termios.TIOCOUTQ, count)
        return bool(self._left) or any(count)

    # -- its end -----------------------------------------------------------------------------------

    def wait(self, seconds: float) -> bool:
        """Wait for its end, at most so long; whether it has ended."""
        end = time.monotonic() + seconds
        while not self.ended():
            left = end - time.monotonic()
            if left <= 0:
                return False
            self.poll(left, self._socket.fileno() if self._left else -1)
            self._send()
        return True

    def poll(self, seconds: float, file: int = -1) -> bool:
        """Wait until it has ended, or `file` can be written to, or so long; true for the file."""
        poll = select.poll()
        if len(self._files) > 2:
            poll.register(self._files[2], select.POLLIN)
        else:
            seconds = min(seconds, _STEP)
        if file >= 0:
            poll.register(file, select.POLLOUT)
        return any(ready == file for ready, _ in poll.poll(math.ceil(seconds * 1000)))

    def ended(self) -> bool:
        """True if it has ended, as one look tells."""
        if self._end is None:
            try:
                how = os.WEXITED | os.WNOHANG | os.WNOWAIT
                return os.waitid(os.P_PID, self.pid, how) is not None
            except ChildProcessError:  # the program has waited for it, or has no child wait
                self._end = 0
        return True

    def finish(self) -> int:
        """End it, and what it has started: how it ended, negative for a signal; 0 where somebody
        else has waited for it."""
        if self._process and self._end is None and self._owner == os.getpid():
            if not self.ended() or self._end is None:  # else its number may be another's by now
                with suppress(OSError):
                    os.killpg(self.pid, signal.SIGKILL)
            if self.wait(_GRACE):
                with suppress(ChildProcessError):
                    self._end = self._end or os.waitpid(self.pid, os.WNOHANG)[1]
            else:
                _unreaped.append(self.pid)
                self._end = signal.SIGKILL
        return os.waitstatus_to_exitcode(self._end or 0)

    def output(self, start: int = 0) -> bytes:
        """The bytes that it has written to its standard output, from the given one on."""
        return _content(self._files[0], start)

    def errors(self, start: int = 0) -> bytes:
        """The same for standard error."""
        return _content(self._files[1], start)

    def answer(self) -> Answer:
        """End it, and return how it ended and what it has written."""
        return Answer(self.finish(), *map(decoded, (self.output(), self.errors())))

    def close(self) -> None:
        """End it and free what it holds here.  May be called again; a fork leaves it running."""
        self.finish()
        self._process.clear()
        while self._files:
            with suppress(OSError):
                os.close(self._files.pop())
        self._socket.close()
        self.__class__ = Child

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class _OpenChild(Child):
    """One that nobody has closed.  Only such have a destructor: what the handler of a signal raises
    in one is lost (Python's data model, `object.__del__`)."""

    def __del__(self) -> None:
        with suppress(Exception):
            self.close()


class Answer(NamedTuple):
    """A process's exit status, negative for a signal, and what it has written."""

    status: int
    output: str
    errors: str


def ask(
    command: Sequence[str], seconds: float, environment: Mapping[str, str] | None = None
) -> Answer:
    """Run a command that reads nothing, and return its answer.  Raises OSError where it cannot be
    started, and TimeoutError, which is one, where it needs longer."""
    with Child(command, environment, seconds) as child:
        child.give(b"")
        if not child.wait(seconds):
            raise TimeoutError(f"it needs more than {seconds:g} s and was ended")
        return child.answer()


def decoded(written: bytes) -> str:
    """The text that a process has written, as far as it is one."""
    return written.decode("utf-8", "replace")


def _content(file: int, start: int) -> bytes:
    """The content of a file from a byte on."""
    return os.pread(file, max(os.fstat(file).st_size - start, 0), start)


def _reap() -> None:
    """Wait for those that have ended since they were left."""
    for pid in list(_unreaped):
        try:
            left = os.waitpid(pid, os.WNOHANG)[0] == 0
        except ChildProcessError:
            left = False
        if not left:
            with suppress(ValueError):
                _unreaped.remove(pid)
