"""A process of clang's that compiles one text after another.  Start from `lent`.

Most of the time that a cell would take clang goes into loading the program, its tables and the
pages that it writes first.  `-cc1` takes any number of inputs and opens one when it is done with
the one before.  So the inputs are pipes, which are filled and ended one by one, and what it writes
to its standard output meanwhile is the module of that text.

It is done with a text when it reads the next pipe.  That has room for nothing but the byte which is
in it, and can be written to again as soon as that is read.

What clang keeps from one text to the next is why a process is spent, sooner or later: contents of
files, diagnostics that pragmas have turned on or off, errors, memory.  Names of types are kept,
too: those of later texts are made what they would be in a process of their own.

Source: clang's lib/Frontend/CompilerInstance.cpp, ExecuteAction; LLVM's lib/IR/Type.cpp, setName;
pipe(7), F_SETPIPE_SZ in fcntl(2).
"""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import resource
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count

from jitkernel import procfs
from jitkernel.children import Answer, Child, decoded
from jitkernel.files import working_folder
from jitkernel.languages.c.flags import folders_of
from jitkernel.languages.language import at_close
from jitkernel.regex import regex

#: Flags that a folder, or a precompiled header, stands behind.
_NAMED = "I|iquote|isystem|idirafter|F|isysroot|internal-isystem|include-pch"
_MEMORY = 2 << 30  # bytes of address space
_TEXTS = 32  # for a process, which grows by some 0.3 MB with each
_LONG = 1 << 18  # bytes of text
_SLOW = 1.0  # seconds for a text
_ROOM = 1 << 16  # bytes that a pipe holds while it is filled
#: Words of texts that clang does not forget: it reads files, or has other diagnostics from then on.
_LASTING = regex(rb"\b(?:include\w*|import|embed|__has_\w+|diagnostic|_Pragma)\b")
#: Names of types that are numbered, and what else stands in quotation marks.
_NUMBERED = regex(
    r"%(?:struct|union)\.[-\w$.]*\.(\d+)(?![-\w$.])"
    r'|%"(?:struct|union)\.[^"]*\.(\d+)"|"[^"]*"',
    re.ASCII,
)
_DEFINED = regex(r'^(%(?:"[^"]*"|\S+)) = type ', re.MULTILINE)

#: Those that wait for a text: at most one; taken out in one step, by whatever thread.
_waiting: list[Resident] = []
#: The environment: `os.environb` itself makes every name and value anew when it is copied.
_environment: Mapping[bytes, bytes] = getattr(os.environb, "_data", os.environb)
_pipes: set[int] = set()  # that no fork may keep: what is read from them ends with the last copy


def start(command: Sequence[str], inputs: Sequence[int] = ()) -> Child:
    """A process of this command, which has these inputs from number 3 on.  Raises OSError."""
    child = Child(command, {**os.environ, "LC_ALL": "C.UTF-8"}, more=inputs)
    child.limit(resource.RLIMIT_AS, _MEMORY)
    child.limit(resource.RLIMIT_CORE, 0)
    return child


def _around(command: Sequence[str], files: Iterable[str]) -> tuple[object, ...]:
    """The inputs of a process besides its command and its texts: the environment, which of the
    folders are there, and what `files` are."""
    there = [path for path in folders_of(tuple(command), _NAMED) if os.access(path, os.F_OK)]
    return working_folder(), there, dict(_environment), [*map(_state, files)]


def _state(path: str) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns


class Resident:
    """A process of this command, whose last word is `-`, for some texts, one at a time; it reads
    `files` for any of them.

    `give`, `wait`, `unread` and `answer` are those of a `Child`, of the latest text.  It is `spent`
    where it cannot compile another one as a process of its own would.  Raises OSError where it
    cannot be started.
    """

    def __init__(self, command: Sequence[str], files: Sequence[str]):
        self.__class__ = _OpenResident
        self._command, self._files = tuple(command), files
        self._around = _around(command, files)
        self.spent = False
        self._at = -1  # the text that it has
        self._left, self._since = memoryview(b""), 0.0
        self._begin = 0, 0  # where its output and errors begin in all that was written
        self._pipes: list[int] = []
        inputs: list[int] = []
        try:
            while len(inputs) <= _TEXTS:
                for end, ends in zip(os.pipe(), (inputs, self._pipes), strict=True):
                    ends.append(end)
                _pipes.add(self._pipes[-1])
            self._fill(0)
            self._names = [f"/dev/fd/{3 + at}" for at in range(len(inputs))]
            self._child = start([*command[:-1], *self._names], inputs)
        except BaseException:
            self._close_pipes()
            raise
        finally:
            for file in inputs:
                os.close(file)

    def fits(self, command: Sequence[str]) -> bool:
        """True if it does what a process of this command would."""
        if self.spent or self._child.ended() or self._command != tuple(command):
            return False
        return self._around == _around(command, self._files)

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._child.pid

    def ended(self) -> bool:
        """True if it has ended, which it should not."""
        return self._child.ended()

    def limit(self, which: int, most: int) -> None:
        """Bound a resource of it; see `Child`."""
        self._child.limit(which, most)

    # -- a text ------------------------------------------------------------------------------------

    def give(self, data: bytes) -> None:
        """Begin to give it a text; it has answered the one before."""
        self._at += 1
        self._fill(self._at + 1)
        fcntl.fcntl(self._pipes[self._at], fcntl.F_SETPIPE_SZ, _ROOM)
        self._left, self._since = memoryview(b'# 1 "<stdin>"\n' + data), time.monotonic()
        self.spent = self._at + 2 > _TEXTS or len(data) > _LONG or bool(_LASTING.search(data))
        self._send()
        if self.spent:  # while it works
            prepare(self._command, self._files)

    def _fill(self, at: int) -> None:
        """Fill a pipe, of which no more is wanted than that somebody reads it."""
        fcntl.fcntl(self._pipes[at], fcntl.F_SETPIPE_SZ, 1)  # it becomes a page
        os.set_blocking(self._pipes[at], False)
        os.write(self._pipes[at], b"\n")

    def _send(self) -> None:
        with suppress(BlockingIOError):
            while self._left:
                self._left = self._left[os.write(self._pipes[self._at], self._left) :]
            self._close_pipe(self._at)

    def wait(self, seconds: float) -> bool:
        """Wait until it has compiled its text or has ended, at most so long; whether it has."""
        end = time.monotonic() + seconds
        while not self._child.ended():
            left = max(end - time.monotonic(), 0)
            if self._child.poll(left, self._pipes[self._at + (not self._left)]):
                if not self._left:
                    return True
                self._send()
            elif not left:
                return False
        return True

    @property
    def unread(self) -> bool:
        """True if it does not work on its text, but sleeps."""
        return not any(one.state in "RD" for one in procfs.activity(self.pid).values())

    def answer(self) -> Answer:
        """Its answer to the text; the status is 0."""
        output, errors = self._child.output(self._begin[0]), self._child.errors(self._begin[1])
        self._begin = self._begin[0] + len(output), self._begin[1] + len(errors)
        self.spent |= time.monotonic() - self._since > _SLOW
        text = decoded(output).replace(self._names[self._at], "-").replace('"/dev/fd/<', '"<')
        return Answer(0, plain_names(text) if self._at else text, decoded(errors))

    # -- its end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """End it and free what it holds here.  May be called again; a fork leaves it running."""
        self._close_pipes()
        self._child.close()
        self.__class__ = Resident

    def _close_pipes(self) -> None:
        for at in range(len(self._pipes)):
            self._close_pipe(at)

    def _close_pipe(self, at: int) -> None:
        """End a text, or what else is in a pipe."""
        file, self._pipes[at] = self._pipes[at], -1
        if file in _pipes:
            _pipes.remove(file)
            os.close(file)


class _OpenResident(Resident):
    """One that nobody has closed: see `children._OpenChild`."""

    def __del__(self) -> None:
        with suppress(Exception):
            self.close()


def plain_names(text: str) -> str:
    """The text of a module whose types have the names that they have where no other module was.

    One that has the name of an earlier one is numbered, all kinds in one row.
    """
    if "struct." not in text and "union." not in text:
        return text
    numbers = {int(n): m[0] for m in _NUMBERED.finditer(text) if (n := m[1] or m[2])}
    taken = {*_DEFINED.findall(text)}.difference(numbers.values()) if numbers else set()
    names: dict[str, str] = {}
    again = count()
    for number, numbered in sorted(numbers.items()):
        plain, _, behind = numbered.rpartition(f".{number}")
        name = plain + behind
        while name in taken:
            name = f"{plain}.{next(again)}{behind}"
        taken.add(name)
        names[numbered] = name
    return _NUMBERED.sub(lambda found: names.get(found[0], found[0]), text) if names else text


# -- for the next cell -----------------------------------------------------------------------------


@contextmanager
def lent(command: Sequence[str], files: Callable[[], Sequence[str]]) -> Iterator[Resident]:
    """A process of this command that is given one text: the one that waits, where it fits.  One
    that is started reads `files`, be the text what it may."""
    resident = _take(command) or Resident(command, files())
    try:
        yield resident
    except BaseException:
        resident.close()
        raise
    if not (resident.spent or resident.ended()):
        end()
        _waiting.append(resident)
    else:
        resident.close()
        if not _waiting:
            prepare(command, files())


def _take(command: Sequence[str]) -> Resident | None:
    try:
        waiting = _waiting.pop()
    except IndexError:
        return None
    if waiting.fits(command):
        return waiting
    waiting.close()
    return None


def prepare(command: Sequence[str], files: Sequence[str]) -> None:
    """Start a process for the next text, instead of what waits."""
    end()
    with suppress(OSError):
        _waiting.append(Resident(command, files))


def end() -> None:
    """End the process that waits."""
    with suppress(IndexError):
        while True:
            _waiting.pop().close()


def _forked() -> None:
    """In a fork: nothing is to wait until it ends."""
    for file in _pipes:
        os.close(file)
    _pipes.clear()
    end()


os.register_at_fork(after_in_child=_forked)
atexit.register(end)
at_close.append(end)
