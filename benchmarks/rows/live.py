"""Many live cells: memory, where it goes, mappings, padding, latency.  Start from `live_cells`.

Rivals are measured in `rivals_live`: LLVM must not be in this process, whose mappings are looked at.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Iterator

from benchmarks.harness import Figure, Scale, compare
from benchmarks.processes import account, mappings, pids, writable_and_executable
from benchmarks.programs import tiny
from jitkernel import Session

__all__ = ["live_cells"]


def live_cells(scale: Scale) -> Iterator[Figure]:
    """Tiny cells run through the session until `scale.cells` are live."""
    many = scale.cells
    low = max(many // 10, 11)
    with Session() as s:
        number = _fill(s, 0, 10)
        s.call("f3", 1)
        s.frontend.idle()  # as a kernel does after every cell; the first time loads what writing needs
        _wait_for_spare(s)
        maps = {name: mappings(pid) for name, pid in pids(s)}
        number = _fill(s, number, low)
        s.frontend.idle()
        gc.collect()
        before = account(s)
        number = _fill(s, number, many)
        s.frontend.idle()
        gc.collect()
        after = account(s)
        s.call("f3", 1)
        grown = {name: mappings(pid) - maps.get(name, 0) for name, pid in pids(s)}
        bad = sum(writable_and_executable(pid) for _, pid in pids(s))
        zones = {
            name: (z.list.used / many, z.list.padding / many, len(z.list.live))
            for name, z in s.inspect.engine.arena.zones.items()
        }
        parts = after.per(before, many - low)
        span = f"{low:,} to {many:,} cells"
        yield Figure(
            "memory per live tiny cell, all processes", (after.total - before.total) / (many - low),
            "bytes", 2500, note=f"USS, slab once, {span}",
        )  # fmt: skip
        for name, words in _PARTS.items():
            yield Figure(f"  of it: {words}", parts[name], "bytes")
        for name, (used, padding, extents) in zones.items():
            if extents:
                yield Figure(f"  used in zone {name}", used, "bytes")
                yield Figure(f"  padding per cell in zone {name}", padding, "bytes", 16)
        yield from _kernel_side(s, number)
        for name, more in grown.items():
            yield Figure(
                f"mappings in the {name} process, beyond those with 10 cells", more, "1", 0,
                note=f"{maps.get(name, 0)} with 10 cells, {maps.get(name, 0) + more} with {many:,}",
            )  # fmt: skip
        yield Figure("pages writable and executable", bad, "1", 0, note="mappings of every process")
        yield from _latency(scale, s)


_PARTS = {
    "kernel": "kernel process (symbols, images, books)",
    "executor": "executor",
    "workers": "compiler worker",
    "slab": "slab (code, unwind tables, data)",
}


def _fill(s: Session, start: int, stop: int) -> int:
    """Run cells `start` to `stop`; `stop`."""
    for i in range(start, stop):
        s.run(tiny(f"f{i}", i))
    return stop


def _wait_for_spare(s: Session) -> None:
    """Until the spare worker has started and warmed up: it is memory too."""
    found: list[dict[str, int]] = []
    for _ in range(60):
        found.append({role: mappings(pid) for role, pid in pids(s)})
        if "spare" in found[-1] and found[-5:] == [found[-1]] * 5:
            return
        time.sleep(0.2)


def _kernel_side(s: Session, number: int, cells: int = 300) -> Iterator[Figure]:
    """Bytes that Python allocated and kept, by part of the project that allocated them."""
    sources = [tiny(f"t{number + i}", i) for i in range(cells)]
    s.frontend.idle()
    gc.collect()
    tracemalloc.start()
    try:
        first = tracemalloc.take_snapshot()
        for source in sources:
            s.run(source)
        s.frontend.idle()
        gc.collect()
        last = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    parts: dict[str, int] = {}
    for stat in last.compare_to(first, "filename"):
        path = stat.traceback[0].filename
        if "/jitkernel/" in path:
            part = path.rpartition("/jitkernel/")[2].partition("/")[0]
            parts[part] = parts.get(part, 0) + stat.size_diff
    for part, size in sorted(parts.items(), key=lambda p: -p[1]):
        if size > 8 * cells:
            yield Figure(f"  of the kernel's: kept by jitkernel/{part}", size / cells, "bytes")


def _latency(scale: Scale, many: Session) -> Iterator[Figure]:
    """Define + call with many live cells and with a hundredth of them."""
    few_cells = max(scale.cells // 100, 5)
    with Session(spare=False) as few:
        _fill(few, 0, few_cells)

        def one(s: Session, i: int) -> None:
            s.run(tiny(f"g{i}", i))
            assert s.call(f"g{i}", 2) == 4 + i
            s.evict(f"g{i}")

        took = compare(
            {"many": lambda i: one(many, i), "few": lambda i: one(few, i)}, scale.blocks,
            scale.block // 2 + 1,
        )  # fmt: skip
    yield Figure(
        f"define + call + evict, {scale.cells:,} live / {few_cells:,} live", took.ratio("many", "few"), "x",
        note=f"{took.median('few') / 1e3:.0f} us and {took.median('many') / 1e3:.0f} us",
    )  # fmt: skip
