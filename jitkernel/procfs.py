"""What /proc tells of processes: memory, threads, who waits for input, who belongs to whom.

Plain functions; whatever cannot be read counts as "no".  Source: proc(5).
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from select import POLLIN
from typing import Any

from jitkernel.reach import reached
from jitkernel.record import NamedTuple
from jitkernel.syscalls import SYS

#: Calls that wait to read, by how their arguments name descriptors.
_READS, _POLLS, _SELECTS = (
    {SYS[name] for name in names.split()}
    for names in ("read readv", "poll ppoll", "select pselect6")
)

#: Calls that open a file, with the argument that points to its name.
_OPENS = {SYS["open"]: 0, SYS["openat"]: 1}

_PAGE = os.sysconf("SC_PAGE_SIZE")
_READ = 1 << 14  # bytes asked for at a time


class Mapped(NamedTuple):
    """A file mapped from `start` to `stop`, its code in the addresses `code`."""

    start: int
    stop: int
    path: str
    code: range


class Activity(NamedTuple):
    """A thread's state (`R` runs, `S` sleeps, `D` waits for a device, ...), and how often it has
    gone to sleep."""

    state: str
    sleeps: int


class Region(NamedTuple):
    """One line of a process's map: `[start, stop)`, `rw-p`, and the file or `[heap]`, if any."""

    start: int
    stop: int
    access: str
    name: str


def _text(path: str) -> str:
    # Without a file object, which costs more than what it reads here; this is done for every cell.
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    try:
        data = part = os.read(file, _READ)
        while part:
            part = os.read(file, _READ)
            data += part
    except OSError:
        return ""
    finally:
        os.close(file)
    return data.decode("utf-8", "surrogateescape")


def _names(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def _stat(pid: int | str, task: str = "") -> list[str]:
    """The fields of a stat file after the program's name: state, ppid, pgrp, session, ..."""
    text = _text(f"/proc/{pid}{task}/stat")
    return text.rpartition(")")[2].split()


def _children(pid: int) -> list[int]:
    """The children of a process, by the kernel's own lists."""
    texts = (_text(f"/proc/{pid}/task/{task}/children") for task in _names(f"/proc/{pid}/task"))
    return [int(child) for text in texts for child in text.split()]


def family(pid: int) -> list[int]:
    """The process and its living descendants."""
    return list(reached([pid], _children))


def has_children(pid: int) -> bool:
    """True if a process has children that have not ended."""
    states = (_stat(child)[:1] for child in _children(pid))
    return any(state and state[0] not in ("Z", "X") for state in states)


def session_members(leader: int) -> list[int]:
    """Every process of the session that `leader` leads, but for itself."""
    wanted, found = str(leader), []
    for name in _names("/proc"):
        if name.isdigit() and name != wanted:
            fields = _stat(name)
            if len(fields) > 3 and fields[3] == wanted and fields[0] != "Z":
                found.append(int(name))
    return found


def marked(mark: str, since: int) -> tuple[list[int], bool]:
    """Every process that was started with `mark` (NAME=value) in its environment.

    The flag says that there may be more: a process younger than `since` (clock ticks after boot)
    shows no environment while it is in the middle of execve().
    """
    wanted, found, unsure = mark.encode(), [], False
    for name in _names("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                variables = file.read()
        except OSError:
            continue
        if wanted in variables.split(b"\0"):
            found.append(int(name))
        elif not variables:
            fields = _stat(name)
            unsure |= len(fields) > 19 and fields[0] not in "ZX" and int(fields[19]) >= since
    return found, unsure


def first_thread(pid: int) -> str:
    """The state of a process's first thread, as in `Activity`; "" where there is none."""
    return "".join(_stat(pid, f"/task/{pid}")[:1])


def activity(pid: int) -> dict[int, Activity]:
    """The activity of each thread of a process, by its number."""
    tasks, found = f"/proc/{pid}/task", {}
    for task in _names(tasks):
        lines = _text(f"{tasks}/{task}/status").splitlines()
        fields = dict(line.partition(":")[::2] for line in lines)
        if state := fields.get("State", "").strip():
            found[int(task)] = Activity(state[0], int(fields.get("voluntary_ctxt_switches", 0)))
    return found


def processor_time(pid: int, first: bool = False) -> float:
    """Seconds for which a process has computed, or the first of its threads has."""
    fields = _stat(
        pid, f"/task/{pid}" if first else ""
    )  # utime and stime are the 14th and 15th of proc(5)
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def handled(pid: int) -> int:
    """The signals that a process has handlers for, bit n - 1 for signal n."""
    return _signals(f"/proc/{pid}/status", "SigCgt:")


def thread_count(pid: int) -> int:
    """The number of threads of a process; 0 where there is none."""
    try:
        # A folder's link count is two and one for each folder in it: one a thread.
        return os.stat(f"/proc/{pid}/task").st_nlink - 2 if pid else 0
    except OSError:
        return 0


def threads(pid: int) -> frozenset[int]:
    """The numbers of a process's threads."""
    return frozenset(int(name) for name in _names(f"/proc/{pid}/task"))


def threads_that_block(pid: int, signals: int) -> list[int]:
    """The threads of a process that block some of these."""
    tasks = f"/proc/{pid}/task"
    return [int(t) for t in _names(tasks) if _signals(f"{tasks}/{t}/status", "SigBlk:") & signals]


def _signals(path: str, field: str) -> int:
    """A set of signals in a status file, 0 where there is none."""
    _, _, rest = _text(path).partition(field)
    return int(rest.split(None, 1)[0], 16) if rest else 0


def own_bytes(pid: int) -> int:
    """Resident bytes of a process that are no file's and not shared; 0 where there is none.

    As good as the kernel counts them in `statm`: it may be late by some pages a thread, `smaps` is
    exact and takes a hundred times longer.
    """
    fields = _text(f"/proc/{pid}/statm").split()
    return (int(fields[1]) - int(fields[2])) * _PAGE if len(fields) > 2 else 0


def memory_totals(pid: int) -> dict[str, int]:
    """Bytes of a process by kind of page, from `smaps_rollup`: `Rss`, `Private_Dirty`, `Anonymous`,
    `Pss_File` (a page that n processes map counts for one n-th in each), ..."""
    found = {}
    for line in _text(f"/proc/{pid}/smaps_rollup").splitlines():
        kind, _, amount = line.partition(":")
        if amount.endswith(" kB"):
            found[kind] = int(amount[:-3]) << 10
    return found


def regions(pid: int) -> list[Region]:
    """The map of a process, ascending; empty where there is none."""
    found = []
    for line in _text(f"/proc/{pid}/maps").splitlines():
        span, access, _, _, _, *name = line.split(maxsplit=5)
        low, high = (int(n, 16) for n in span.split("-"))
        found.append(Region(low, high, access, name[0] if name else ""))
    return found


def libraries(pid: int) -> list[Mapped]:
    """The libraries that are mapped in a process, and where."""
    spans: dict[str, Mapped] = {}
    for low, high, access, path in regions(pid):
        if path.startswith("/") and access[3] == "p":
            old = spans.get(path, Mapped(low, high, path, range(0)))
            code = range(low, high) if access[2] == "x" else old.code
            spans[path] = Mapped(min(old.start, low), max(old.stop, high), path, code)
    return list(spans.values())


class SystemCall(NamedTuple):
    """A system call that a thread waits in; `pc` is the address behind its instruction."""

    number: int
    arguments: tuple[int, ...]
    pc: int


def system_call(pid: int, task: int | str) -> SystemCall | None:
    """The system call that a thread of a process waits in, None for none."""
    words = _text(f"/proc/{pid}/task/{task}/syscall").split()
    if len(words) < 9:
        return None
    number, *arguments = (int(w, 0) for w in words[:7])
    return SystemCall(number, tuple(arguments), int(words[8], 0))


def _calls(pids: Iterable[int]) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """The system calls that threads of these processes wait in: process, number, arguments."""
    for pid in pids:
        for task in _names(f"/proc/{pid}/task"):
            if (call := system_call(pid, task)) is not None:
                yield pid, call.number, call.arguments


def waits_for_input(pids: Iterable[int], pipe: str) -> bool:
    """True if a thread of these processes is blocked waiting for `pipe` (`pipe:[123]`) to fill."""
    return any(
        _link(pid, fd) == pipe
        for pid, number, args in _calls(pids)
        for fd in _waited_for(pid, number, args)
    )


def _link(pid: int, fd: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/fd/{fd}")
    except OSError:
        return ""


def _waited_for(pid: int, number: int, args: Sequence[int]) -> Iterator[int]:
    """Descriptors that a system call in progress waits to read."""
    if number in _READS:
        yield args[0]
    elif number in _POLLS:
        data = memory(pid, args[0], 8 * min(args[1], 1024))
        for fd, events, _ in struct.iter_unpack("<ihh", data[: len(data) & -8]):
            if fd >= 0 and events & POLLIN:
                yield fd
    elif number in _SELECTS and args[1]:
        data = memory(pid, args[1], (min(args[0], 1024) + 7) // 8)
        yield from (fd for fd in range(min(args[0], 8 * len(data))) if data[fd // 8] >> fd % 8 & 1)


def waits_to_open(pids: Iterable[int]) -> str:
    """The named pipe that a thread of these processes waits to open until somebody opens its other
    end; "" where none does.  One without a name (`/dev/fd/4`: its `realpath` is not there) is open
    at once, however late its thread goes on: fifo(7)."""
    for pid, number, args in _calls(pids):
        if (at := _OPENS.get(number)) is not None:
            name = memory(pid, args[at], 4096).partition(b"\0")[0]
            path = os.path.join(f"/proc/{pid}/cwd", os.fsdecode(name))
            with contextlib.suppress(OSError):
                if stat.S_ISFIFO(os.stat(os.path.realpath(path)).st_mode):
                    return os.fsdecode(name)
    return ""


def write_memory(pid: int, address: int, data: bytes) -> int:
    """Write to a process's memory where it could itself; how many bytes (process_vm_writev(2))."""
    import ctypes  # only here, and large

    kept = ctypes.create_string_buffer(data, max(len(data), 1))
    source = (ctypes.c_uint64 * 2)(ctypes.addressof(kept), len(data))
    target = (ctypes.c_uint64 * 2)(address, len(data))
    done = _writer()(pid, source, 1, target, 1, 0)
    return max(int(done), 0)


@cache
def _writer() -> Callable[..., int]:
    import ctypes

    write: Any = ctypes.CDLL(None).process_vm_writev
    write.restype = ctypes.c_long
    return write  # type: ignore[no-any-return]


def memory(pid: int, address: int, size: int) -> bytes:
    """Bytes of a process's memory, fewer where no more is there."""
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
            file.seek(address)
            return file.read(size)
    except (OSError, ValueError, OverflowError):
        return b""
