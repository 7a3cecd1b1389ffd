"""Starting and ending the executor's process, and the pipes that outlive it.  Start from `Spawned`.

Not here: what is said to it (process.py).  The process leads a session of its own, so that a
terminal's or Jupyter's group-wide signals do not reach it; it carries a mark in its environment by
which everything that it starts is found again, even what left its process group.
"""

from __future__ import annotations

import contextlib
import fcntl
import marshal
import os
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Mapping
from typing import Any

from jitkernel import procfs
from jitkernel.errors import JitError
from jitkernel.sockets import SOCK_SEQPACKET, pair
from jitkernel.spawning import spawning

_OWN_THREADS = 2  # the one that runs cells, the one that watches for the kernel process's end
MARK = "JITKERNEL_EXECUTOR"  # environment variable
#: child.py as a module, not as a script: then its compiled form is kept.  Its folder comes last, so
#: that nothing of ours can stand in for a module of the standard library.
_CHILD = f"import sys; sys.path.append({os.path.dirname(__file__)!r}); import child; child.main()"

#: What the process becomes when the kernel process is gone: end all that carries the mark, and
#: the process group with itself in it.
REAPER = """
import os, time
def kill(pid):
    try: os.kill(pid, 9)
    except OSError: pass
def marked(name):
    try: return MARK in open("/proc/" + name + "/environ", "rb").read().split(b"\\0")
    except OSError: return False
clean = 0
while clean < 3:
    found = [n for n in os.listdir("/proc") if n.isdigit() and marked(n)]
    found = [int(n) for n in found if int(n) != os.getpid()]
    for pid in found: kill(pid)
    clean = 0 if found else clean + 1
    time.sleep(0.002)
os.killpg(0, 9)
"""


def waiting(fd: int) -> int:
    """Bytes in a pipe that nobody has read yet."""
    word = bytearray(4)
    fcntl.ioctl(fd, termios.FIONREAD, word)
    return int(struct.unpack("<i", word)[0])


class Pipes:
    """The program's standard streams, as pipes that stay while processes come and go.

    The kernel process holds both ends, so no reader sees an end of file before `end_input`.
    """

    def __init__(self) -> None:
        self.stdin_read, self.stdin = os.pipe()
        self.stdout, self.stdout_write = os.pipe()
        self.stderr, self.stderr_write = os.pipe()
        for fd in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(fd, False)
        self.stdin_name = os.readlink(f"/proc/self/fd/{self.stdin_read}")

    def unread(self) -> int:
        """Bytes of input that nobody has read yet."""
        return waiting(self.stdin_read)

    def end_input(self) -> bool:
        """Let who reads meet the end of file, until `reopen_input`.  False where it did not help:
        somebody else has the pipe's other end."""
        if self.stdin < 0:
            return False
        os.close(self.stdin)
        self.stdin = -1
        return True

    def reopen_input(self) -> None:
        """There may be input again."""
        if self.stdin < 0:
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC
            self.stdin = os.open(f"/proc/self/fd/{self.stdin_read}", flags)

    def drop_input(self) -> None:
        """Throw away what a finished cell left unread."""
        if left := self.unread():
            # A description of its own: non-blocking must not be shared with the program.
            fd = os.open(f"/proc/self/fd/{self.stdin_read}", os.O_RDONLY | os.O_NONBLOCK)
            try:
                while left > 0 and (data := os.read(fd, 1 << 16)):
                    left -= len(data)
            except BlockingIOError:
                pass
            finally:
                os.close(fd)

    def reset(self) -> None:
        """Undo what a program may have done to the ends that it shares."""
        for fd in (self.stdin_read, self.stdout_write, self.stderr_write):
            os.set_blocking(fd, True)

    def close(self) -> None:
        for fd in (
            self.stdin_read, self.stdin, self.stdout, self.stdout_write, self.stderr,
            self.stderr_write,
        ):  # fmt: skip
            if fd >= 0:
                os.close(fd)


class Spawned:
    """One process: its socket, its pid, a descriptor that becomes readable when it ends.

    `setup` is the first message to child.py, `memory` the slab's descriptor."""

    def __init__(
        self,
        pipes: Pipes,
        memory: int,
        setup: Mapping[str, Any],
        env: Mapping[str, str],
        stack_size: int,
    ):
        pipes.reset()
        mark = os.urandom(8).hex()
        self.mark = f"{MARK}={mark}"
        ticks = os.sysconf("SC_CLK_TCK")
        self._since = int(time.clock_gettime(time.CLOCK_BOOTTIME) * ticks)
        span = [str(setup["base"]), str(max(stop for _, stop, _ in setup["regions"]))]
        command = [sys.executable, "-I", "-S", "-c"]
        reaper = REAPER.replace("MARK", repr(self.mark.encode()))
        self.ready, self.pid = False, 0
        self._own: frozenset[int] = frozenset()  # its threads that are none of the program's
        self.socket, theirs = pair(SOCK_SEQPACKET)
        lifeline = -1
        try:
            lifeline = os.pidfd_open(os.getpid())
            streams = pipes.stdin_read, pipes.stdout_write, pipes.stderr_write
            files = *streams, theirs.fileno(), lifeline, memory  # as child.py calls them
            environment = {**os.environ, **env, MARK: mark}
            with spawning([*command, _CHILD, str(stack_size), *span], environment, files) as spawn:
                self.pid = spawn()
            self.pidfd = os.pidfd_open(self.pid)
        except OSError as error:
            if self.pid:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
            self.socket.close()
            raise JitError(f"the executor cannot start: {error}") from None
        finally:
            theirs.close()
            if lifeline >= 0:
                os.close(lifeline)
        first = {**setup, "reaper": [*command, reaper]}
        with contextlib.suppress(OSError):  # it has ended: its descriptor tells
            self.socket.send(marshal.dumps(first))

    def end(self, patience: float = 0.0) -> int:
        """Make sure that the process and all that it started are gone; its exit status.

        Waits `patience` seconds for it to end by itself.  Negative: the signal that ended it.
        """
        self._over(patience)
        try:
            # Not waited for before: its number cannot be another's group by now.
            os.killpg(self.pid, signal.SIGKILL)
        except OSError:
            pass  # nobody is left in its group
        status = 0
        with contextlib.suppress(ChildProcessError):  # somebody else has waited for it
            status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        for _ in range(25):  # it may be forking as fast as it is killed
            found, unsure = procfs.marked(self.mark, self._since)
            for pid in found:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            if not found and not unsure:
                break
            time.sleep(0.001)
        self.socket.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
        return status

    def greet(self) -> None:
        """It is ready: what threads it has by now are its own, and an emulator's."""
        self.ready, self._own = True, procfs.threads(self.pid)

    @property
    def threads(self) -> int:
        """The number of threads that the program has started and that live."""
        if not self.ready:
            return 0
        if len(self._own) == _OWN_THREADS:  # none of which ends before the process
            return max(procfs.thread_count(self.pid) - _OWN_THREADS, 0)
        return len(procfs.threads(self.pid) - self._own)

    def program_threads(self) -> frozenset[int]:
        """The threads that run code of the program: the one of the cells, and its own."""
        return procfs.threads(self.pid) - self._own | {self.pid}

    def has_descendants(self) -> bool:
        """True if anything lives that it started, also where its own parent has ended."""
        if procfs.has_children(self.pid):
            return True
        found, unsure = procfs.marked(self.mark, self._since)
        return unsure or any(pid != self.pid for pid in found)

    def ended(self) -> bool:
        """True if the process is gone, or as good as gone."""
        return self._over() or procfs.first_thread(self.pid) in ("Z", "X")

    def _over(self, patience: float = 0.0) -> bool:
        """True if the process has ended, perhaps within so many seconds; its status is kept."""
        if self.pidfd < 0:
            return True
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(1000 * patience))
