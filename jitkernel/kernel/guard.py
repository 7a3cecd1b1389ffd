"""A process between the kernel and a shell command: when the kernel ends, all that the command
started ends too, however the kernel ended.  A program of its own, of the standard library alone.

What a command starts and leaves becomes this process's child (prctl(2), PR_SET_CHILD_SUBREAPER), so
nothing gets away, not what leads a session of its own either.  Lines on the status descriptor: the
shell's process, then its exit status, negative for a signal.  Goes on as long as anything of the
command runs.  Start from `main`; its caller is `shell.py`.
"""

import ctypes
import os
import select
import signal
import sys

_PR_SET_CHILD_SUBREAPER = 36
_DEAF = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_DEFAULT = (*_DEAF, signal.SIGPIPE, signal.SIGXFSZ)
_TRIES = 2000  # to end processes that fork meanwhile, and that may not be ours to end
_PAUSE = 0.002  # seconds


def main() -> None:
    """`guard.py KERNEL_PIDFD STATUS_FD PROGRAM ARGUMENT...`."""
    kernel, status = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(kernel, False)
    os.set_inheritable(status, False)
    for number in _DEAF:
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    ended, note = os.pipe()
    os.set_blocking(note, False)
    os.set_blocking(ended, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(note)
    shell = os.fork()
    if shell == 0:
        _become(sys.argv[3:])
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):  # the command's own: their readers wait for their end
        os.dup2(nothing, stream)
    _tell(status, shell)
    poll = select.poll()
    poll.register(kernel, select.POLLIN)
    poll.register(ended, select.POLLIN)
    while _reap(shell, status):
        ready = [fd for fd, _ in poll.poll()]
        if kernel in ready:
            _end_all(shell, status)
            return
        if ended in ready:
            os.read(ended, 4096)


def _become(arguments: list[str]) -> None:
    try:
        os.setsid()
        for number in _DEFAULT:
            signal.signal(number, signal.SIG_DFL)
        os.execv(arguments[0], arguments)
    except BaseException as error:
        os.write(2, f"{arguments[0]}: {error}\n".encode())
    finally:
        os._exit(127)


def _tell(status: int, value: int) -> None:
    try:
        os.write(status, b"%d\n" % value)
    except OSError:
        pass  # nobody waits any more


def _reap(shell: int, status: int) -> bool:
    """Take in what has ended; whether anything is left."""
    while True:
        try:
            pid, how = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        if pid == shell:
            _tell(status, os.waitstatus_to_exitcode(how))


def _end_all(shell: int, status: int) -> None:
    for _ in range(_TRIES):
        for pid in _children():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        if not _reap(shell, status):
            return
        select.select([], [], [], _PAUSE)


def _children() -> list[int]:
    """The processes right below this one; whoever loses its parent becomes one (proc(5))."""
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]


if __name__ == "__main__":
    main()
