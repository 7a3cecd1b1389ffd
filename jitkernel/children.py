"""Standard input of child processes.  Start from `give`."""

from __future__ import annotations

import fcntl
import subprocess
import threading
from contextlib import suppress

__all__ = ["give"]


def give(child: subprocess.Popen[bytes], data: bytes) -> None:
    """Give a child its standard input, all of it, and end that; it may end without reading it.

    For `communicate` with a timeout: called once more after TimeoutExpired, that forgets what it
    has not yet written (CPython 3.11, `Popen._communicate`), and the child waits for ever.
    """
    pipe, child.stdin = child.stdin, None
    if pipe is None:
        return

    def write() -> None:
        with suppress(BrokenPipeError), pipe:
            pipe.write(data)

    if len(data) <= fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ):
        write()
    else:  # it waits until the child has read some
        threading.Thread(target=write, name="input of a child", daemon=True).start()
