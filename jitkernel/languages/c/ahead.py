"""A process of clang's that waits for its text.  Start from `prepare` and `take`.

clang has its program to load and its tables to set up before it reads standard input: half of the
time that a cell without headers takes it.  So the command of one cell is started again for the
next, while clang works on this one.  It is used if the next cell asks for the very same, ended
where it does not or where a session ends, and ends by itself where nobody has asked for a while: it
has 44 MB in memory, 1.6 of them its own, the rest the file's.
"""

from __future__ import annotations

import atexit
import os
import resource
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from jitkernel.children import Child
from jitkernel.files import working_folder
from jitkernel.languages.c.flags import folders_of
from jitkernel.languages.language import at_close

#: Flags that a folder, or a precompiled header, stands behind.
_NAMED = "I|iquote|isystem|idirafter|F|isysroot|internal-isystem|include-pch"
_IDLE = 5.0  # seconds
_MEMORY = 2 << 30  # bytes of address space

#: At most one; taken out in one step, by whatever thread.
_waiting: list[_Waiting] = []


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A process, its command, and what it looks at besides, as that was when it was started."""

    child: Child
    command: tuple[str, ...]
    around: tuple[object, ...]


def start(command: Sequence[str], patience: float = 60.0) -> Child:
    """A process of this command; it waits so many seconds for text.  Raises OSError."""
    child = Child(command, {**os.environ, "LC_ALL": "C.UTF-8"}, patience)
    child.limit(resource.RLIMIT_AS, _MEMORY)
    child.limit(resource.RLIMIT_CORE, 0)
    return child


def _around(command: Sequence[str]) -> tuple[object, ...]:
    """The inputs of a process besides its command, before it reads: the environment, and which of
    the folders are there."""
    there = [path for path in folders_of(tuple(command), _NAMED) if os.path.exists(path)]
    return working_folder(), there, dict(os.environb)


def prepare(command: Sequence[str]) -> None:
    """Start this command, instead of what waits."""
    end()
    with suppress(OSError):
        around = _around(command)
        _waiting.append(_Waiting(start(command, _IDLE), tuple(command), around))


def take(command: Sequence[str]) -> Child | None:
    """A process of this command that waits for its text; None where none does."""
    try:
        waiting = _waiting.pop()
    except IndexError:
        return None
    fits = waiting.command == tuple(command) and waiting.around == _around(command)
    if fits and not waiting.child.ended():
        return waiting.child
    waiting.child.close()
    return None


def end() -> None:
    """End the process that waits."""
    with suppress(IndexError):
        while True:
            _waiting.pop().child.close()


os.register_at_fork(after_in_child=end)  # what it frees is the fork's
atexit.register(end)
at_close.append(end)
