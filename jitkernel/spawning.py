"""How processes of ours are started.  Start from `spawning`."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # without the enums of the module signal
import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial


@contextmanager
def spawning(
    command: Sequence[str], environment: Mapping[str, str], streams: Sequence[int]
) -> Iterator[Callable[[], int]]:
    """A function that starts a process of this command, in a session of its own, whose descriptors
    from 0 on are these, and which has no other of this process's; it returns the number.  Raises
    OSError."""
    used: list[int] = []  # none of which has the number of one to be
    first = len(streams)
    try:
        for file in streams:
            used.append(fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, first))
        actions = [
            *((os.POSIX_SPAWN_DUP2, file, number) for number, file in enumerate(used)),
            *((os.POSIX_SPAWN_CLOSE, file) for file in _inherited(first)),
        ]
        yield partial(
            os.posix_spawnp, command[0], list(command), environment, file_actions=actions,
            setsid=True, setsigmask=(), setsigdef=(_signal.SIGPIPE, _signal.SIGXFSZ),
        )  # fmt: skip
    finally:
        for file in used:
            os.close(file)


def _inherited(first: int) -> list[int]:
    """The descriptors from `first` on that a program would get from this process."""
    found = []
    with suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with suppress(OSError):
                if int(name) >= first and os.get_inheritable(int(name)):
                    found.append(int(name))
    return found
