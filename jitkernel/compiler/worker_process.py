"""Worker processes as the kernel process sees them.  Start from `WorkerProcess`.

A zygote is a process that has LLVM ready and forks workers from there; `forks` is the other side.
What LLVM and llvmlite set up is there once for all of them: a forked worker is there in a
millisecond and has 3 MB of its own after a compile, 17 MB where what it was forked from has left.
A zygote compiles nothing that a cell says, so nothing ends it but the system; it waits as the spare
that `Workers` keeps.

What the worker (and LLVM in it) writes goes to a memory file of fixed size: nothing reaches the
user's terminal, nothing is left on disk, and the last words of a worker that died can be read.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import importlib.util
import os
import select
import sys
from contextlib import suppress
from functools import cache
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from jitkernel.errors import JitError
from jitkernel.files import memory_file
from jitkernel.forms import check
from jitkernel.sockets import SHUT_WR, SOCK_SEQPACKET, SOCK_STREAM, Socket, pair, send_files
from jitkernel.spawning import spawning

if TYPE_CHECKING:
    from jitkernel.compiler.records import Identity

_SCRIPT = os.path.join(os.path.dirname(__file__), "worker.py")
_STDERR_SIZE = 1 << 20
_STDERR_SHOWN = 4000
_FIRST = {"ready": int, "who": (str,) * 5}  # the header of its first word
_STARTED_WITHIN = 30.0  # seconds; a process that does not start by then never will

# Memory that a compile frees is wanted again by the next one: giving it back to the system in
# between costs page faults each time.  The memory limit of the pool bounds what stays.
_ENVIRONMENT = {
    "MALLOC_TRIM_THRESHOLD_": str(32 << 20),
    "MALLOC_TOP_PAD_": str(1 << 20),
    "MALLOC_ARENA_MAX": "1",
    # One heap for everything: no compile maps and unmaps the block that emitting takes, and the
    # mappings do not grow with the number of cells compiled.
    "MALLOC_MMAP_MAX_": "0",
}


@cache
def packages() -> tuple[str, ...]:
    """Folders that the worker needs on its path: first llvmlite's, found without importing it."""
    spec = importlib.util.find_spec("llvmlite")
    if spec is None or spec.origin is None:
        raise JitError("llvmlite is not installed: pip install llvmlite")
    return (os.path.dirname(os.path.dirname(spec.origin)),)


class _Process:
    """A process at the other end of a socket; what it writes goes to a memory file."""

    role = ""
    compiles = 0

    def __init__(self, kind: int):
        self._pid = 0
        self._status: int | None = None  # as waitpid(2) told, negative for a signal
        self._words = memory_file("jitkernel-worker-stderr", _STDERR_SIZE)
        self._sock, theirs = pair(kind)
        try:
            self._start(theirs)
        except BaseException:
            self._free()
            raise
        finally:
            theirs.close()
        self._sock.setblocking(False)

    def _start(self, theirs: Socket) -> None:
        """Have it started, with the other end of the socket."""
        raise NotImplementedError

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._pid

    def gone(self) -> bool:
        """True if the process has ended, or does no more, as far as one quick look tells."""
        if self._words < 0 or self._sock.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(self._sock, select.POLLRDHUP)
        return bool(poll.poll(0))

    def kill(self) -> None:
        """End the process at once; from any thread."""
        if self._status is not None:
            return
        try:
            if self._pid:
                os.kill(self._pid, _signal.SIGKILL)
            else:  # it has not said its number: it ends when it finds that nobody asks
                self._sock.shutdown(SHUT_WR)
        except OSError:
            pass

    def _wait(self, seconds: float | None = None) -> int | None:
        """The process's status, None where it has not within so many seconds."""
        end = None if seconds is None else monotonic() + seconds
        while self._status is None and self.pid:
            try:
                pid, status = os.waitpid(self._pid, 0 if end is None else os.WNOHANG)
            except ChildProcessError:  # somebody else in this process has waited for it
                self._status = 0
            else:
                if pid:
                    self._status = os.waitstatus_to_exitcode(status)
                elif end is not None and monotonic() > end:
                    break
                else:
                    sleep(0.0005)
        return self._status

    def _tail(self) -> str:
        """The end of what it wrote."""
        if self._words < 0:
            return ""
        size = min(os.lseek(self._words, 0, os.SEEK_CUR), _STDERR_SIZE)
        begin = max(0, size - _STDERR_SHOWN)
        return _without_noise(os.pread(self._words, size - begin, begin).decode("utf-8", "replace"))

    def _free(self) -> None:
        self._sock.close()
        words, self._words = self._words, -1  # first: a number is not closed twice
        if words >= 0:
            os.close(words)


class WorkerProcess(_Process):
    """A worker, which the `zygote` forks; it may not be there yet.  Raises OSError where that is
    gone.

    `condemned` says why it must not be used.  Not thread-safe, but for `kill`.
    """

    role = "worker"

    def __init__(self, zygote: Zygote):
        self.condemned = ""
        self.own_bytes = 0  # resident, as it last told
        self.held_bytes = 0  # not freed, as it last told
        self.first_held = 0  # the same as it told at first
        self.identity: Identity | None = None  # as it told when it had started
        self.contexts: set[int] = set()  # the cells for which it keeps one
        self.bodies: set[str] = set()  # keys of those that it was lent
        self.shares = False  # whether it has a context for all cells
        self.ready = False  # it has told that it has started
        self.zygote = zygote
        from jitkernel.compiler.wire import FrameReader  # the zygote is on its way

        super().__init__(SOCK_STREAM)
        self._inbox = FrameReader(self._sock)

    def _start(self, theirs: Socket) -> None:
        self.zygote.send(theirs, self._words)

    @property
    def pid(self) -> int:
        """The process's number; waits until it is known.  0: it did not start."""
        if not self._pid:
            self.wait_started()
        return self._pid

    def wait_started(self) -> None:
        """Wait for its first word, unless it has come or the process has ended."""
        with suppress(EOFError, OSError, ValueError):
            self._welcome(_STARTED_WITHIN)

    def _welcome(self, timeout: float) -> None:
        """Take the first word of a process that has started, unless that is done.  Raises as
        `receive` does.

        Only when what the word says is known is it taken from the socket: a number that is lost
        halfway leaves a process that nobody can wait for.
        """
        if self.ready:
            return
        header: dict[str, Any] = {}
        try:
            header, size = self._inbox.peek(0.0 if self._pid else timeout)
        except TimeoutError:
            if not self._pid:
                raise
        check(header, dict)
        if "ready" in header:  # else it was taken, and then this was ended
            check(header, _FIRST)
            self._pid = int(header["ready"])
            from jitkernel.compiler.records import Identity  # not needed to start

            self.identity = Identity(*header["who"])
            self._sock.recv(size)
        self.ready = True

    def fileno(self) -> int:
        """The socket's descriptor, to wait on."""
        return self._sock.fileno()

    def send(self, data: bytes, timeout: float) -> None:
        """Send one frame.  Raises OSError where it is gone, TimeoutError where it does not read."""
        deadline = monotonic() + timeout
        left = memoryview(data)
        while True:
            try:
                left = left[self._sock.send(left) :]
            except BlockingIOError:
                pass
            if not left:
                return
            poll = select.poll()
            poll.register(self._sock, select.POLLOUT)
            if not poll.poll(max(0.0, deadline - monotonic()) * 1000):
                raise TimeoutError

    def receive(self, timeout: float, spin: int = 0) -> tuple[dict[str, Any], bytes]:
        """The next answer.  Raises EOFError or OSError where it is gone, TimeoutError, ValueError
        for what is none.

        `spin`: see `FrameReader.receive`.
        """
        if not self.ready:
            self._welcome(timeout)
            spin = 0
        header, blob = self._inbox.receive(spin, timeout)
        self.compiles += 1
        if header.__class__ is not dict:
            raise ValueError("it has no header")
        own = header.get("own")
        if own.__class__ is list and len(own) == 2:
            self.own_bytes, self.held_bytes = own
        self.first_held = self.first_held or self.held_bytes
        return header, blob

    def close(self) -> None:
        """End the process and free what it holds here.  May be called again."""
        self.kill()
        if self._words < 0:
            return
        if not self._pid and self.pid:
            self.kill()
        self._wait()
        self._free()

    def post_mortem(self) -> tuple[str, str]:
        """Close this worker, which died: how it ended, and its last words."""
        dead = self if self.pid else self.zygote  # whose end is this one's that it has not forked
        status = dead._wait(5 if dead is self else 1)
        if status is None:
            self.kill()
            status = self._wait()
        words = dead._tail()
        if not words and not self.ready and not self.compiles:
            words = "it did not start"
        elif not words and status == -_signal.SIGSEGV:
            words = "LLVM ran out of stack, or met a bug of its own"
        elif not words and status == -_signal.SIGKILL:
            words = "it was killed, perhaps for want of memory"
        self.close()
        if status is None:
            return "no process", words
        if status >= 0:
            return f"exit status {status}", words
        from jitkernel.executor.records import signal_name  # not needed to start

        return signal_name(-status), words


class Zygote(_Process):
    """The process, from its start until `close`.  Raises OSError where it cannot be started.

    Workers that it forks are children of this process, not its own: they outlive it, and this
    process learns how they ended.
    """

    role = "spare"

    def __init__(self) -> None:
        super().__init__(SOCK_SEQPACKET)

    def _start(self, theirs: Socket) -> None:
        command = [sys.executable, "-I", "-S", _SCRIPT, "0", *packages()]
        streams = (theirs.fileno(), self._words, self._words)
        with spawning(command, {**os.environ, **_ENVIRONMENT}, streams) as spawn:
            self._pid = spawn()

    def send(self, sock: Socket, words: int) -> None:
        """Have a worker forked that serves `sock` and writes to the file `words`.  Raises
        OSError."""
        send_files(self._sock, b"fork", [sock.fileno(), words])

    def _serves(self) -> bool:
        """True if it told that it serves the first socket itself."""
        try:
            return bool(self._sock.recv(16))
        except OSError:
            return False

    def close(self) -> None:
        """End the process and free what it holds here.  May be called again.

        One that could fork nothing is a worker now, who is waited for as that.
        """
        if self._status is None and self._words >= 0 and self._serves():
            self._status = 0
        self.kill()
        self._wait()
        self._free()


def first_worker() -> WorkerProcess:
    """A session's first worker, which its pool takes over later; it may not be there yet.

    Raises OSError, and JitError without llvmlite.
    """
    zygote = Zygote()
    try:
        return WorkerProcess(zygote)
    except BaseException:
        zygote.close()
        raise


def close_first(worker: WorkerProcess) -> None:
    """End such a worker, which no pool has taken, and what it was forked from."""
    worker.zygote.close()  # first: what it has not forked yet is not waited for
    worker.close()


def _without_noise(text: str) -> str:
    """LLVM's sentences without the stack dump after them; of a Python traceback, its last line."""
    if text.startswith("Traceback"):
        text = text.rstrip().rpartition("\n")[2]
    lines = []
    for line in text.replace("\0", "").splitlines():
        if line.startswith(("PLEASE submit a bug report", "Stack dump", " #", "#0 ")):
            break
        if line.strip():
            lines.append(line.strip())
    return "\n".join(lines)
