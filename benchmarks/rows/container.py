"""Whether a normal session fits into a small container.  Start from `normal_session`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from benchmarks.container import confined, descendants, shared_out
from benchmarks.harness import Figure, Scale
from benchmarks.programs import sixty_lines
from benchmarks.rows.cache import empty_cache
from jitkernel.kernel.client import code_cells, read_notebook, run_cell, running_kernel
from jitkernel.kernel.tour import notebook_path

__all__ = ["normal_session"]

LIMIT = 512 << 20
_WORDS = 1 << 20


def normal_session(scale: Scale) -> Iterator[Figure]:
    """The tour, some hundreds of cells of 60 lines, and 8 MiB of data that are written, through
    the kernel with its own settings."""
    cells = [cell["source"] for cell in code_cells(read_notebook(notebook_path()))]
    many = scale.pick(100, 300, 600)
    cells += [sixty_lines(f"f{i}", i) for i in range(many)]
    cells.append(
        f"@words = global [{_WORDS} x i64] zeroinitializer\n"
        f"%p = call ptr @memset(ptr @words, i32 1, i64 {8 * _WORDS})"
    )
    cells += ["%memory", "%arena"]
    most, failed, last = 0, 0, 0
    with empty_cache(), confined(LIMIT) as container, running_kernel(Path.cwd()) as client:
        for index, source in enumerate(cells):
            reply, _ = run_cell(client, source, timeout=120)
            failed += reply["status"] != "ok"
            if index % 20 == 0 or index >= len(cells) - 3:
                last = sum(map(shared_out, descendants(os.getpid())))
                most = max(most, last)
        peak, killed = (container.peak, container.killed) if container else (0, 0)
    what = f"the tour and {many} cells of 60 lines"
    yield Figure(
        f"{what}: all processes and the slab, at most", most, "bytes", LIMIT,
        note="pages counted once (PSS)",
    )  # fmt: skip
    yield Figure("  at the end", last, "bytes")
    if container is None:
        note = "no control group can be made here (that takes root, or a delegated one)"
        yield Figure("  in a container of 512 MiB", None, "bytes", note=note)
        return
    yield Figure(
        "  in a container of 512 MiB: charged at most", peak, "bytes", LIMIT,
        note="its client and the page cache included",
    )  # fmt: skip
    yield Figure("  processes killed for memory", killed, "1", 0)
    yield Figure("  cells that failed, the tour's three on purpose", failed, "1", 3)
