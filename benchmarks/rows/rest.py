"""What a kernel holds while nobody asks it anything.  Start from `at_rest`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from tempfile import TemporaryDirectory

from benchmarks.harness import Figure, Scale
from benchmarks.rows.startup import started
from jitkernel import procfs
from jitkernel.kernel.install import NAME

__all__ = ["at_rest", "second"]

_CELL = "define i32 @f(i32 %x) {\n  %r = add i32 %x, 17\n  ret i32 %r\n}\n@f(7)"
_RESTS = 7.0  # seconds after which every process has given back what it does not need to rest


def at_rest(scale: Scale) -> Iterator[Figure]:
    """The proportional set size of all of a kernel's processes, before and after its first cell.

    What other programs have mapped of the same files, another kernel's LLVM before all, makes it
    less: `of it not of files` does not depend on that.
    """
    with TemporaryDirectory() as cache, started(NAME, cache) as (manager, client):
        for when in ("when it has started", "after a cell"):
            if when == "after a cell":
                client.execute(_CELL, store_history=False)
                client.get_shell_msg(timeout=60)
            time.sleep(_RESTS)
            parts = [_parts(pid) for pid in procfs.family(manager.provisioner.pid)]
            whole, own = sum(p["Pss"] for p in parts), sum(p["Pss_Anon"] for p in parts)
            words = ", ".join(f"{p['Pss'] / 2**20:.0f}" for p in parts)
            yield Figure(
                f"a kernel at rest {when}, all its processes", whole, "bytes", 80 << 20,
                note=f"PSS; MB each: {words}",
            )  # fmt: skip
            yield Figure("  of it not of files", own, "bytes")


def second(scale: Scale) -> Iterator[Figure]:
    """What a second kernel adds to the proportional set size of all, when both have run a cell.

    LLVM's file is mapped while it is used, and one kernel's use of it counts for one kernel: so
    what is added is said right after a cell, too, where no other kernel has it mapped.  ipykernel
    is what any kernel in Python on its classes takes.
    """
    for name, cell in ((NAME, _CELL), ("python3", "40 + 9")):
        totals: list[list[int]] = []
        with ExitStack() as open_kernels:
            kernels: list[int] = []
            for number in (17, 18):  # two cells, so that none is known from the other
                cache = open_kernels.enter_context(TemporaryDirectory())
                manager, client = open_kernels.enter_context(started(name, cache))
                kernels.append(manager.provisioner.pid)
                client.execute(cell.replace("17", str(number)), store_history=False)
                client.get_shell_msg(timeout=60)
                soon = _whole(kernels)
                time.sleep(_RESTS)
                totals.append([soon, _whole(kernels)])
        (_, first), (soon, both) = totals
        if name == NAME:
            yield Figure("a second kernel adds", both - first, "bytes", 60 << 20, note="at rest")
            yield Figure("  right after its first cell", soon - first, "bytes")
        else:
            yield Figure("a second kernel of ipykernel's adds", both - first, "bytes")


def _whole(kernels: list[int]) -> int:
    """The proportional set size of kernels with all their processes."""
    return sum(_parts(pid)["Pss"] for kernel in kernels for pid in procfs.family(kernel))


def _parts(pid: int) -> dict[str, int]:
    """`/proc/PID/smaps_rollup` in bytes; zeros where it has ended."""
    found = {"Pss": 0, "Pss_Anon": 0}
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as lines:
            for line in lines:
                name, _, rest = line.partition(":")
                if name in found:
                    found[name] = int(rest.split()[0]) << 10
    except OSError:
        assert not os.path.exists(f"/proc/{pid}")
    return found
