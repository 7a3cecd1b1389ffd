"""What a kernel holds while nobody asks it anything.  Start from `at_rest`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from tempfile import TemporaryDirectory

from benchmarks.harness import Figure, Scale
from benchmarks.rows.startup import started
from jitkernel import procfs
from jitkernel.kernel.install import NAME

__all__ = ["at_rest"]

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
