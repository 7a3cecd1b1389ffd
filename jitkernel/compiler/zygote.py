"""A process that has LLVM ready and forks workers from there, as the kernel process sees it.

Start from `first_worker` or `Zygote.fork`; `forks` is the other side.  What LLVM and llvmlite set
up is there once for all of them: a forked worker is there in a millisecond and has 3 MB of its own
after a compile, one that was started by itself 17 MB.  A zygote compiles nothing that a cell says,
so nothing ends it but the system; it waits as the spare that `Workers` keeps.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
from contextlib import suppress

from jitkernel.compiler.process import WorkerProcess, start_worker, stderr_file, stderr_tail

__all__ = ["Zygote", "close_first", "first_worker"]


def first_worker(spare: bool = True) -> WorkerProcess:
    """A session's first worker, which its pool takes over later; it may not be there yet.

    With a `spare` it is forked by a zygote.  Raises OSError, and JitError without llvmlite.
    """
    if not spare:
        return WorkerProcess()
    zygote = Zygote()
    try:
        return zygote.fork()
    except OSError:  # it has just ended
        zygote.close()
        return WorkerProcess()
    except BaseException:
        zygote.close()
        raise


def close_first(worker: WorkerProcess) -> None:
    """End such a worker, which no pool has taken, and what it was forked from."""
    if worker.zygote is not None:  # first: what it has not forked yet is not waited for
        worker.zygote.close()
    worker.close()


class Zygote:
    """The process, from its start until `close`.  Raises OSError where it cannot be started.

    Workers that it forks are children of this process, not its own: they outlive it, and this
    process learns how they ended.
    """

    role = "spare"
    compiles = 0

    def __init__(self) -> None:
        self._words = stderr_file()
        self._sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._process = start_worker(theirs, self._words)
        except BaseException:
            self._sock.close()
            os.close(self._words)
            raise
        finally:
            theirs.close()
        self.pid = self._process.pid
        self._sock.setblocking(False)

    def gone(self) -> bool:
        """Whether it has ended, or forks no more, as far as one quick look tells."""
        if self._words < 0:
            return True
        poll = select.poll()
        poll.register(self._sock, select.POLLRDHUP)
        return bool(poll.poll(0))

    def fork(self) -> WorkerProcess:
        """A new worker; it may not be there yet.  Raises OSError where the zygote is gone."""
        return WorkerProcess(self)

    def send(self, sock: socket.socket, words: int) -> None:
        """Have a worker forked that serves `sock` and writes to the file `words`."""
        socket.send_fds(self._sock, [b"fork"], [sock.fileno(), words])

    def stderr_tail(self) -> str:
        """What it wrote before it ended, which it is waited for."""
        if self._words < 0:
            return ""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        return stderr_tail(self._words)

    def _serves(self) -> bool:
        """Whether it told that it serves the first socket itself."""
        try:
            return bool(self._sock.recv(16))
        except OSError:
            return False

    def close(self) -> None:
        """End the process and free what it holds here.  May be called again.

        One that could fork nothing is a worker now, who is waited for as that.
        """
        if self._process.returncode is None and self._words >= 0 and self._serves():
            self._process.returncode = 0
        if self._process.returncode is None:
            self._process.kill()
            self._process.wait()
        self._sock.close()
        if self._words >= 0:
            os.close(self._words)
            self._words = -1
