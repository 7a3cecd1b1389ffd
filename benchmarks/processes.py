"""What processes hold, read from /proc: own bytes, mappings.  Start from `uss`."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jitkernel import Session

__all__ = [
    "Account",
    "account",
    "fixed_addresses",
    "kernel_environment",
    "mappings",
    "peak",
    "pids",
    "reset_peak",
    "uss",
    "writable_and_executable",
]

_ADDR_NO_RANDOMIZE = 0x0040000  # <sys/personality.h>
_SLAB = "memfd:jitkernel"


def uss(pid: int | str = "self") -> int:
    """Bytes that are the process's own, the slab left out (it is counted once, from its file).

    Private_Clean and Private_Dirty of every mapping, proc(5) `/proc/PID/smaps`; but not the clean
    pages of files: whether those are private depends on who else has the same library open.
    """
    total, counted, of_file = 0, True, False
    with open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            fields = line.split(None, 5)
            if not fields[0].endswith(":"):
                counted = _SLAB not in line
                of_file = len(fields) > 5 and fields[5].startswith("/")
            elif counted and (
                fields[0] == "Private_Dirty:" or (fields[0] == "Private_Clean:" and not of_file)
            ):
                total += int(fields[1]) * 1024
    return total


def mappings(pid: int | str = "self") -> int:
    """Lines of /proc/PID/maps."""
    with open(f"/proc/{pid}/maps", "rb") as lines:
        return sum(1 for _ in lines)


def peak(pid: int | str = "self") -> int:
    """The largest resident size so far, in bytes (VmHWM)."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as lines:
        for line in lines:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def pids(session: Session) -> Iterator[tuple[str, int]]:
    """The session's processes by role: kernel, executor, worker."""
    yield "kernel", os.getpid()
    yield "executor", session.inspect.executor[0]
    yield from session.inspect.workers()


@dataclass(frozen=True, slots=True)
class Account:
    """Bytes by process, and of the slab; `store` is on disk."""

    kernel: int
    executor: int
    workers: int
    slab: int

    @property
    def total(self) -> int:
        """All processes, the slab once."""
        return self.kernel + self.executor + self.workers + self.slab

    def per(self, before: Account, count: int) -> dict[str, float]:
        """Bytes per cell by place, since `before`."""
        return {
            name: (getattr(self, name) - getattr(before, name)) / count
            for name in ("kernel", "executor", "workers", "slab")
        }


def account(session: Session) -> Account:
    """Where a session's memory is now."""
    found = {"kernel": 0, "executor": 0, "worker": 0, "spare": 0}
    for role, pid in pids(session):
        found[role] = found.get(role, 0) + uss(pid)
    slab = os.fstat(session._core.engine.arena.fd).st_blocks * 512
    return Account(found["kernel"], found["executor"], found["worker"] + found["spare"], slab)


def writable_and_executable(pid: int | str = "self") -> int:
    """How many mappings of a process can be written and executed."""
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as lines:
        return sum(1 for line in lines if "wx" in line.split(None, 2)[1])


def reset_peak(pid: int | str = "self") -> None:
    """Let `peak` count from now on; proc(5), `/proc/PID/clear_refs`."""
    with open(f"/proc/{pid}/clear_refs", "w") as file:
        file.write("5")


def fixed_addresses() -> None:
    """The program executed next, and its children, have the same addresses in each run.

    personality(2), ADDR_NO_RANDOMIZE; where that is not allowed they stay random.
    """
    ctypes.CDLL(None).personality(_ADDR_NO_RANDOMIZE)


def kernel_environment() -> dict[str, str]:
    """What Jupyter adds to the kernel's environment, from our kernelspec."""
    from jitkernel.kernel.install import kernelspec_source

    spec = json.loads((kernelspec_source() / "kernel.json").read_text(encoding="utf-8"))
    found: dict[str, str] = spec.get("env", {})
    return found
