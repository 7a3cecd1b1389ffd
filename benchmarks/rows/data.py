"""What live data costs each cell, written or not.  Start from `beside_data`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median

from benchmarks.harness import Figure, Scale
from jitkernel import Session

__all__ = ["beside_data"]

_PROGRAM = """
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
@big = global [{size} x i8] zeroinitializer
define void @fill(i8 %x) {{
  call void @llvm.memset.p0.i64(ptr @big, i8 %x, i64 {size}, i1 false)
  ret void
}}
define void @one(i64 %i, i8 %x) {{
  %p = getelementptr i8, ptr @big, i64 %i
  store i8 %x, ptr %p
  ret void
}}
define void @nothing() {{
  ret void
}}
"""


def beside_data(scale: Scale) -> Iterator[Figure]:
    """A cell that writes nothing, one byte, everything; as it is, and where all is compared."""
    times = scale.pick(5, 30)
    for megabytes in (0, 64, 256):
        took = _costs(megabytes, times)
        for what in took["told"]:
            ours, plain = median(took["told"][what]), median(took["compared"][what])
            bar = 0.2 if what == "nothing" and megabytes else None
            yield Figure(f"{megabytes} MB of data, a cell that writes {what}", ours * 1e3, "ms")
            yield Figure("  the same, all compared after each cell", plain * 1e3, "ms")
            yield Figure("  ratio", ours / plain, "x", bar)


def _costs(megabytes: int, times: int) -> dict[str, dict[str, list[float]]]:
    """Seconds by side and by what is written, the sides in turn."""
    size = max(megabytes << 20, 64)
    calls = {"nothing": lambda i: "@nothing()"}
    if megabytes:
        calls["one byte"] = lambda i: f"@one({i * 400_009 % size}, {i % 100 + 2})"
        calls["everything"] = lambda i: f"@fill({i % 100 + 2})"
    found: dict[str, dict[str, list[float]]] = {"told": {}, "compared": {}}
    with Session(undo_data=1 << 30, undo_depth=2) as s:
        s.run(_PROGRAM.format(size=size))
        s.run("@fill(1)")
        tells = s._core.engine.arena.writes.runner
        for what, call in calls.items():
            for turn in range(4):
                side = ("told", "compared")[turn % 2]
                s._core.engine.arena.writes.runner = tells if side == "told" else lambda: None
                for i in range(3):  # what does not change is known to
                    s.run(call(-i))
                for i in range(times if what != "everything" else max(times // 6, 2)):
                    start = time.perf_counter()
                    s.run(call(i))
                    found[side].setdefault(what, []).append(time.perf_counter() - start)
    return found
