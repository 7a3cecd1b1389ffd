"""What child.py does on request: symbols, libraries, places, directory and environment.

A request is rare and cheap to repeat.  What must hold in every process to come (loaded libraries,
directory, environment) is remembered here.  Start from `Services.lookup`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from jitkernel import procfs
from jitkernel.arena.ranges import Range
from jitkernel.errors import JitError
from jitkernel.executor.abi import PAYLOAD_SIZE
from jitkernel.files import absolute, refuse_irregular

_MANY_NAMES, _MANY_PLACES, _MANY_RANGES = 2000, 100, 1000  # in one message
_MOST_SHARED = 4000  # arrays: the first message of a process names them
_MARSHALLED = 5  # bytes before those of a string
_LONG = 4000  # bytes of a name; no library has a longer one
#: Where the upper address space begins, in which libraries, stacks and most heaps are.
UPPER = 0x5000_0000_0000
_KEPT = 8  # generations whose libraries' places are remembered


class Process(Protocol):
    """The process that runs code: which in the row of them it is, and its id."""

    generation: int

    @property
    def pid(self) -> int: ...

    def tell(self, name: str, *arguments: Any) -> None:
        """Ask without waiting for an answer."""


class Services:
    """Requests through `ask(name, *arguments, fits)`, which calls a method of child.py's `Loader`:
    it answers with bytes for which `fits` holds, or raises OSError.  `process`: the present one."""

    def __init__(
        self,
        ask: Callable[..., bytes],
        process: Process,
        env: Mapping[str, str],
        cwd: str,
    ):
        self.libraries: tuple[str, ...] = ()  # that were loaded, in order
        # By address: the size of memory that is mapped there, this process's descriptor of it, and
        # the file's number, since the descriptor may be another's when it is opened.
        self.shared: dict[int, tuple[int, int, int]] = {}
        self.env, self.cwd = dict(env), cwd
        self._ask, self._process = ask, process
        self._spans: dict[int, list[procfs.Mapped]] = {}
        self._memory: dict[int, list[Range]] = {}

    def remember(self) -> None:
        """Remember where the libraries of the present process are, and its memory."""
        generation, pid = self._process.generation, self._process.pid
        self._spans[generation] = procfs.libraries(pid)
        self._spans.pop(generation - _KEPT, None)
        self._memory.pop(generation - _KEPT, None)
        self.memory()

    def memory(self) -> list[Range]:
        """The present process's own memory, in ascending ranges: its heap, stacks and libraries.
        Of one that has ended, as it was when this was asked last."""
        generation, pid = self._process.generation, self._process.pid
        found: list[Range] = []
        for r in procfs.regions(pid):
            if r.name.startswith(("/memfd:", "[vsyscall]")):  # the slab and arrays: they stay
                continue
            if found and found[-1][1] == r.start:
                found[-1] = found[-1][0], r.stop
            else:
                found.append((r.start, r.stop))
        if found:
            self._memory[generation] = found
        return self.last_memory(generation)

    def last_memory(self, generation: int) -> list[Range]:
        """The same of any process, as it was when `memory` was asked last."""
        return self._memory.get(generation, [])

    def watch_low_memory(self) -> None:
        """Ask again where there is memory in the lower address space, which only a Python that is
        linked for a fixed address has: its heap grows among what are numbers more often."""
        known = self._memory.get(self._process.generation)
        if known and known[0][0] < UPPER:
            self.memory()

    def code(self) -> list[range]:
        """The addresses of the libraries' code in the present process."""
        return [m.code for m in self._spans.get(self._process.generation, [])]

    def file_at(self, address: int) -> str:
        """The library that an address of the present process is in, empty for none."""
        spans = self._spans.get(self._process.generation, [])
        return next((m.path for m in spans if m.start <= address < m.stop), "")

    def lookup(self, names: Sequence[str]) -> list[int]:
        """Addresses of symbols of the loaded libraries, 0 where unknown."""
        found: list[int] = []
        for part in _messages([n.encode("utf-8", "surrogateescape") for n in names]):
            size = 8 * len(part)
            with _refused("look up names"):
                answer = self._ask("lookup", part, fits=lambda a, size=size: len(a) == size)
            found += struct.unpack(f"<{len(part)}Q", answer)
        return found

    def library(self, path: str) -> None:
        """Load a shared library for all to see; raises OSError with the loader's words, and
        UsageError for what is no file: the loader would wait for one who writes to a pipe."""
        if not path:
            raise OSError(errno.EINVAL, "a library has a name, such as libm.so.6")
        path = absolute(path) if "/" in path else path
        if "/" in path and os.path.exists(path):
            refuse_irregular(path)
        self._ask("library", _plain(path))
        if path not in self.libraries:
            self.libraries += (path,)
        self.remember()

    def locate(self, addresses: Sequence[int], generation: int | None = None) -> list[str]:
        """`strlen+0x2d, libc.so.6` for addresses in libraries, "" for others.

        `generation` is of the process that they come from, by default the present one.
        """
        now = self._process.generation
        was = now if generation is None else generation
        if was != now:
            with _refused("tell what is at an address"):
                self._ask("locate", [0])  # so that the present process has said where its files are
            addresses = [self._moved(a, was, now) for a in addresses]
        found: list[str] = []
        for first in range(0, len(addresses), _MANY_PLACES):
            part = addresses[first : first + _MANY_PLACES]
            zeros = len(part) - 1
            with _refused("tell what is at an address"):
                text = self._ask(
                    "locate", part, fits=lambda a, zeros=zeros: a.count(b"\0") == zeros
                )
            found += text.decode("utf-8", "replace").split("\0")
        return found

    def map(self, start: int, size: int, fd: int) -> None:
        """Map a file that this process has open at `start`, now and after a respawn.

        Raises JitError where that cannot be.
        """
        if len(self.shared) >= _MOST_SHARED:
            raise JitError(
                f"{len(self.shared)} arrays are mapped: drop some, or make fewer and larger ones"
            )
        inode = os.fstat(fd).st_ino
        with _refused(f"map {size} bytes at {start:#x}"):
            self._ask("map", start, size, fd, inode)
        self.shared[start] = size, fd, inode

    def unmap(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Unmap such files: addresses and sizes."""
        for start, _ in ranges:
            self.shared.pop(start, None)
        for first in range(0, len(ranges), _MANY_RANGES):
            self._process.tell("unmap", list(ranges[first : first + _MANY_RANGES]))

    def show(self, path: str) -> None:
        """Have the process map a file's beginning, executable; raises OSError."""
        self._ask("show", _plain(path))

    def chdir(self, path: str) -> None:
        """Change the program's working directory, now and after a respawn; raises OSError."""
        self._ask("chdir", _plain(path))
        self.cwd = os.path.abspath(os.path.join(self.cwd, path))

    def setenv(self, name: str, value: str) -> None:
        """Set an environment variable of the program, now and after a respawn; raises OSError."""
        if not name or "=" in name:
            raise OSError(errno.EINVAL, f"{name!r} is no name of a variable")
        self._ask("setenv", _plain(name), _plain(value))
        self.env[name] = value

    def _moved(self, address: int, was: int, now: int) -> int:
        """The present process's address for what an earlier one's library had at `address`."""
        new = {m.path: m.start for m in self._spans.get(now, [])}
        for m in self._spans.get(was, []):
            if m.start <= address < m.stop and m.path in new:
                return address - m.start + new[m.path]
        return 0


@contextlib.contextmanager
def _refused(what: str) -> Iterator[None]:
    """Raise JitError for what a sound process does not refuse."""
    try:
        yield
    except OSError as error:
        raise JitError(f"the executor could not {what}: {error}") from None


def _plain(text: str) -> bytes:
    """A text as the bytes of one part of a message; raises OSError where it cannot be."""
    data = os.fsencode(text)
    if b"\0" in data:
        raise OSError(errno.EINVAL, "there is a NUL in it")
    if len(data) > PAYLOAD_SIZE // 2:
        raise OSError(errno.E2BIG, f"{len(data)} bytes are too many")
    return data


def _messages(names: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Names in pieces that fit a message; a name that is too long for any library's is empty."""
    part: list[bytes] = []
    size = 0
    for name in names:
        name = name if len(name) <= _LONG else b""
        if part and (size + len(name) >= PAYLOAD_SIZE or len(part) == _MANY_NAMES):
            yield part
            part, size = [], 0
        part.append(name)
        size += len(name) + _MARSHALLED
    if part:
        yield part
