"""Memory over time: what slab and processes held when cells ended.  Start from `MemoryLog`."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import NamedTuple

from jitkernel.arena import Arena

__all__ = ["MemoryLog", "Sample"]

_PAGE = os.sysconf("SC_PAGE_SIZE")
_KEPT = 240  # samples; more are thinned out
_OFTEN = 0.05  # seconds between two of them, doubled whenever they are thinned out


class Sample(NamedTuple):
    """Bytes held when a cell had ended, `seconds` after the session began."""

    cell: int
    seconds: float
    slab: int
    kernel: int
    executor: int
    workers: int

    @property
    def total(self) -> int:
        """The sum: all but the pages of files."""
        return self.slab + self.kernel + self.executor + self.workers


class MemoryLog:
    """At most 240 samples of a session's life, evenly thinned out, peaks kept.

    One costs some tens of microseconds, and none is taken soon after the last one, so that a
    program of thousands of short cells does not notice.
    """

    def __init__(self, arena: Arena, kept: int = _KEPT, often: float = _OFTEN):
        self._arena, self._kept, self._often = arena, max(kept, 4), often
        self._began = time.monotonic()
        self._due = 0.0
        self._samples: list[Sample] = []

    @property
    def samples(self) -> Sequence[Sample]:
        """What was noted, the oldest first."""
        return tuple(self._samples)

    def note(self, cell: int, executor: int, workers: Sequence[int], now: bool = False) -> None:
        """A cell ended: take a sample if the last one is old enough, or `now`.

        `executor` and `workers` are process ids; 0 is none.
        """
        at = time.monotonic()
        if at < self._due and not now:
            return
        self._due = at + self._often
        sample = Sample(
            cell, at - self._began, self._arena.resident(), own_bytes(os.getpid()),
            own_bytes(executor), sum(map(own_bytes, workers)),
        )  # fmt: skip
        if self._samples and self._samples[-1].cell == cell:
            self._samples.pop()  # somebody looks at the same cell again
        self._samples.append(sample)
        if len(self._samples) > self._kept:
            self._thin()

    def _thin(self) -> None:
        """Keep the larger of each two, and the first and the last."""
        first, *rest, last = self._samples
        pairs = [rest[i : i + 2] for i in range(0, len(rest), 2)]
        self._samples = [first, *(max(p, key=lambda s: s.total) for p in pairs), last]
        self._often *= 2


def own_bytes(pid: int) -> int:
    """Bytes of a process that are no file's and not the slab's; 0 where there is none.

    Source: proc(5), `/proc/PID/statm`: resident and shared pages, as good as the kernel counts
    them (it may be late by some pages a thread; `smaps` is exact and takes a hundred times longer).
    """
    if not pid:
        return 0
    try:
        file = os.open(f"/proc/{pid}/statm", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        fields = os.read(file, 128).split()
    except OSError:
        return 0
    finally:
        os.close(file)
    return (int(fields[1]) - int(fields[2])) * _PAGE if len(fields) > 2 else 0
