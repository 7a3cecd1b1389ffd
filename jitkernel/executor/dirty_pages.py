"""Whether the executor's page table tells of every write by the program.  Start from
`Tracking.table`.

It does not where somebody else has the arena mapped: a forked child, or a second mapping; nor where
a device writes to memory whose address it was given before.
"""

from __future__ import annotations

import ctypes
import os
from itertools import pairwise

from jitkernel.arena.writes import PageTable

_PAGE = 4096
_RUSAGE_THREAD, _MINOR_FAULTS = 1, 8  # getrusage(2), index of `ru_minflt` in longs
_SLAB = b"/memfd:jitkernel (deleted)"
# Mappings of whoever may let a device write: io_uring(7), io_setup(2), drivers.
_DEVICES = (b"io_uring", b"/[aio]", b"/dev/")

_libc = ctypes.CDLL(None, use_errno=True)


class Tracking:
    """The executor's page table, process after process.

    That the program forked is seen on two private pages of its process: after a fork the first
    write to each is a page fault.  From then on nothing is told, whatever became of the child.
    """

    def __init__(self) -> None:
        self._table: PageTable | None = None
        self._pid = 0
        self._forked = False
        self._byte = ctypes.create_string_buffer(b"\1", 1)
        self._from = (ctypes.c_uint64 * 2)(ctypes.addressof(self._byte), 1)
        self._to = (ctypes.c_uint64 * 2)(0, 1)
        self._usage = (ctypes.c_long * 18)()

    def table(self, pid: int, fork_pages: int) -> PageTable | None:
        """The process's page table; None where there may be writes that it does not tell."""
        if not pid or not fork_pages or self._forked:
            return None
        if pid != self._pid:
            self.close()
            self._pid = pid
            try:
                fd = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return None
            self._table = PageTable(fd)
        try:
            # Each by itself may be moved by the system; both at once are not.
            if self._faults(fork_pages) and self._faults(fork_pages + _PAGE):
                self._forked = True
                return None
            if not _plain(pid):
                return None
        except OSError:
            return None
        return self._table

    def _faults(self, page: int) -> bool:
        """True if writing to a page of the process is a page fault; it is none the next time."""
        self._to[0] = page
        usage, call = self._usage, _libc.getrusage
        call(_RUSAGE_THREAD, usage)
        before = usage[_MINOR_FAULTS]
        done = _libc.process_vm_writev(self._pid, self._from, 1, self._to, 1, 0)
        call(_RUSAGE_THREAD, usage)
        if done != 1:
            raise OSError(ctypes.get_errno(), "process_vm_writev")
        return bool(usage[_MINOR_FAULTS] != before)

    def close(self) -> None:
        """Close what is open.  May be called again."""
        if self._table is not None:
            self._table.close()
            self._table = None
        self._pid = 0


def _plain(pid: int) -> bool:
    """True if each page of the slab has one address in the process, and no device is at hand."""
    with open(f"/proc/{pid}/maps", "rb") as file:
        maps = file.read()
    if any(word in maps for word in _DEVICES):
        return False
    spans = []
    for line in maps.split(b"\n"):
        if line.endswith(_SLAB):
            _, _, offset, _ = line.split(b" ", 3)
            low, _, high = line.split(b" ", 1)[0].partition(b"-")
            at = int(offset, 16)
            spans.append((at, at + int(high, 16) - int(low, 16)))
    return all(one[1] <= other[0] for one, other in pairwise(sorted(spans)))
