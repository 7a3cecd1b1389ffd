"""Forks of a process that has LLVM ready.  Worker only.

The zygote forks itself for each worker that is wanted: `next_socket`.  There is one thread then,
and what LLVM has set up is frozen, not counted again by any collection, so that its pages stay
shared.  A worker forks for what would change LLVM for good: `in_child`.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import ctypes
import gc
import os
from collections.abc import Callable

from jitkernel.compiler.memory import give_back
from jitkernel.compiler.wire import readable
from jitkernel.sockets import Socket, receive_files
from jitkernel.syscalls import SYS

_CLONE_PARENT = 0x8000  # clone(2), <linux/sched.h>
_IDLE = 1.0  # seconds without a request until there is time for what can wait
_PAUSE = 0.1  # the same where it is warm: LLVM's file, 60 MB, is unmapped in some milliseconds
_STDOUT, _STDERR = 1, 2
_PR_SET_PDEATHSIG = 1  # prctl(2), <linux/prctl.h>


class Fork:
    """Some work in a child of this process, which may set LLVM's options: they are the whole
    process's, and stay.  What LLVM writes there goes to the file `words`, if any."""

    def __init__(self, work: Callable[[], bytes], words: int = -1):
        self._answer = os.memfd_create("jitkernel-answer")
        worker = os.getpid()
        self._child = os.fork()
        if self._child:
            return
        try:
            # The worker may be killed in the middle of a compile, or was before this is asked for.
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0)
            if os.getppid() == worker:
                if words >= 0:
                    os.dup2(words, _STDERR)
                with open(self._answer, "wb") as file:
                    file.write(work())
                os._exit(0)
        finally:
            os._exit(70)

    def result(self) -> bytes | None:
        """The result of the work, waited for once; None where the child ended otherwise."""
        try:
            done = os.waitpid(self._child, 0)[1] == 0
            return content(self._answer) if done else None
        finally:
            os.close(self._answer)


def in_child(work: Callable[[], bytes], words: int = -1) -> bytes | None:
    """The result of some work in a child: see `Fork`."""
    return Fork(work, words).result()


def content(file: int) -> bytes:
    """All that a file has."""
    return os.pread(file, os.lseek(file, 0, os.SEEK_END), 0)


def next_socket(control: Socket, warm_up: Callable[[], None]) -> Socket:
    """Serve forks for ever; comes back in each forked process, with the socket that it serves.

    `warm_up` is run once, before the first fork unless that one has a request waiting already.
    Where no process can be forked this one serves the socket itself, and is a zygote no more.
    """
    warm = gave = False
    while True:
        idle = _PAUSE if warm else _IDLE
        if not gave and not readable(control, idle):
            if not warm:
                warm_up()
                warm = True
            gc.collect()
            gave = bool(give_back())
        message, descriptors = receive_files(control, 16, 2)
        if not message:
            os._exit(0)
        served, words = descriptors
        if not warm and not readable(served, 0):
            warm_up()
            warm = True
        gave = False
        gc.freeze()
        try:
            forked = _fork()
        except OSError:
            forked = 0
            control.send(b"serves")
        if not forked:
            control.close()
            os.dup2(words, _STDOUT)
            os.dup2(words, _STDERR)
            os.close(words)
            if os.getsid(0) != os.getpid():
                os.setsid()
            return Socket(fileno=served)
        os.close(served)
        os.close(words)


def _fork() -> int:
    """fork(2), but the new process is a child of this one's parent, which waits for it.

    As `os.fork` does it (Python's C API, "Operating System Utilities"); glibc's own fork would
    reset the locks of other threads, and there are none.
    """
    api = ctypes.pythonapi
    system = ctypes.PyDLL(None, use_errno=True).syscall  # holds Python's lock, as a fork must
    system.restype = ctypes.c_long
    after_child, after_parent = api.PyOS_AfterFork_Child, api.PyOS_AfterFork_Parent
    flags = ctypes.c_long(_CLONE_PARENT | _signal.SIGCHLD)
    none = ctypes.c_long(0)
    api.PyOS_BeforeFork()
    pid = int(system(ctypes.c_long(SYS["clone"]), flags, none, none, none, none))
    if pid == 0:
        after_child()
        return 0
    number = ctypes.get_errno()
    after_parent()
    if pid < 0:
        raise OSError(number, os.strerror(number))
    return pid
