"""Watchpoints of the processor: who accesses a few bytes of memory is stopped behind it.

The kernel process opens an event of perf's for each thread of the executor and keeps its
descriptor: nothing runs in the executor for it.  Threads that these start have the events, too;
forked children and programs that are executed have not.  The system sends SIGTRAP with the si_code
TRAP_PERF, which native/stop.ll tells from others.  Start from `Watches.open`.

Sources: perf_event_open(2), include/uapi/linux/perf_event.h and hw_breakpoint.h; `sigtrap`,
`inherit_thread` and `remove_on_exec` are there from Linux 5.13 on.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Callable, Collection, Sequence
from typing import Literal, NamedTuple, TypeAlias

from jitkernel.errors import UsageError
from jitkernel.syscalls import SYS

__all__ = ["MOST", "SIZES", "Access", "Watch", "Watches", "check"]

#: What is told: writes, or reads as well; the processor cannot tell reads alone.
Access: TypeAlias = Literal["write", "readWrite"]

MOST = 4  # debug registers of x86-64
SIZES = (1, 2, 4, 8)

# struct perf_event_attr up to its sixth version: type, size, config, sample_period, sample_type,
# read_format, flags, wakeup_events, bp_type, bp_addr, bp_len.
_ATTRIBUTES = struct.Struct("<2I5Q2I2Q")
_SIZE = 128  # bytes of it
_BREAKPOINT = 5  # PERF_TYPE_BREAKPOINT
_INHERIT, _USER_ONLY = 1 << 1, 1 << 5 | 1 << 6  # not in the kernel nor below it
_INHERIT_THREAD, _REMOVE_ON_EXEC, _SIGTRAP = 1 << 35, 1 << 36, 1 << 37
_FLAGS = _INHERIT | _USER_ONLY | _INHERIT_THREAD | _REMOVE_ON_EXEC | _SIGTRAP
_TYPES: dict[Access, int] = {"write": 2, "readWrite": 3}  # HW_BREAKPOINT_W, _RW
_CLOEXEC = 8  # PERF_FLAG_FD_CLOEXEC
_GONE = errno.ESRCH

_syscall = ctypes.CDLL(None, use_errno=True).syscall


class Watch(NamedTuple):
    """A place that is watched: `size` bytes, of `SIZES`, at an address that is a multiple of it."""

    address: int
    size: int
    access: Access = "write"


class Watches:
    """The watchpoints that are open now: at most `MOST` at once."""

    def __init__(self) -> None:
        self._files: dict[int, dict[Watch, int]] = {}  # descriptors by thread

    def open(
        self, wanted: Sequence[Watch], pid: int, threads: Callable[[], Collection[int]]
    ) -> None:
        """Watch this in all `threads` of a process, which runs no code of the program or stands,
        and in those that they start, in place of what was watched before.

        Raises UsageError, with nothing watched, where that cannot be: it says why.
        """
        self.close()
        if not wanted:
            return
        try:
            while missing := set(threads()) - self._files.keys():  # some may have been started
                for thread in missing:
                    self._open(wanted, thread, thread == pid)
        except BaseException:
            self.close()
            raise

    def _open(self, wanted: Sequence[Watch], thread: int, first: bool) -> None:
        files = self._files[thread] = {}
        for watch in wanted:
            file = _event(watch, thread)
            if file < 0:
                number = ctypes.get_errno()
                if number == _GONE and not first:
                    return  # it has ended meanwhile
                raise UsageError(_refusal(watch, number))
            files[watch] = file

    def close(self) -> None:
        """Nothing is watched any more."""
        every, self._files = self._files, {}
        for files in every.values():
            for file in files.values():
                os.close(file)

    def drop(self, watch: Watch) -> None:
        """One less; the others go on, also while the program runs."""
        for files in self._files.values():
            if (file := files.pop(watch, -1)) >= 0:
                os.close(file)

    def __contains__(self, watch: Watch) -> bool:
        return any(watch in files for files in self._files.values())


def check(watch: Watch, pid: int = 0) -> None:
    """Raises UsageError, which says why, where this cannot be watched in a process; 0 is the
    present one."""
    if watch.size not in SIZES:
        raise UsageError(
            f"{watch.size} bytes cannot be watched at once, but 1, 2, 4 or 8: watch a part of them"
        )
    if watch.access not in _TYPES:
        raise UsageError(
            f"'{watch.access}' cannot be watched: the processor tells 'write' and 'readWrite'"
        )
    if watch.address % watch.size:
        raise UsageError(
            f"{watch.size} bytes at {watch.address:#x} cannot be watched at once: that is no "
            f"multiple of {watch.size}; watch smaller parts"
        )
    file = _event(watch, pid)
    if file < 0:
        raise UsageError(_refusal(watch, ctypes.get_errno()))
    os.close(file)


def _event(watch: Watch, thread: int) -> int:
    """The descriptor of an event; negative where it is refused, and errno says why."""
    attributes = _ATTRIBUTES.pack(
        _BREAKPOINT, _SIZE, 0, 1, 0, 0, _FLAGS, 0,
        _TYPES[watch.access], watch.address, watch.size,
    ).ljust(_SIZE, b"\0")  # fmt: skip
    number = ctypes.c_long(SYS["perf_event_open"])
    return int(_syscall(number, attributes, thread, -1, ctypes.c_int(-1), ctypes.c_ulong(_CLOEXEC)))


_REASONS = {
    errno.ENOSPC: (
        "the processor's four debug registers are in use: remove a watchpoint, or end another "
        "debugger"
    ),
    errno.EINVAL: "this system has no watchpoints that stop a program (Linux has, from 5.13 on)",
    errno.ENOSYS: "this system has no watchpoints",
    errno.EMFILE: "too many files are open: close some, or raise `ulimit -n`",
}
_FORBIDDEN = (
    "the system forbids it (perf_event_open(2)): in a container allow that call, outside set "
    "/proc/sys/kernel/perf_event_paranoid to 2"
)
_ABSENT = "this machine's processor has no debug registers that could be used"


def _refusal(watch: Watch, number: int) -> str:
    if number in (errno.EACCES, errno.EPERM):
        why = _FORBIDDEN
    elif number in (errno.ENODEV, errno.EOPNOTSUPP, errno.ENOENT, errno.ENXIO):
        why = _ABSENT
    else:
        why = _REASONS.get(number, os.strerror(number))
    what = "byte" if watch.size == 1 else "bytes"
    return f"{watch.size} {what} at {watch.address:#x} cannot be watched: {why}"
