"""What a rival keeps per live cell, and leaves per evicted one.  Start from `rivals_memory`."""

from __future__ import annotations

import gc
from collections.abc import Iterator

from benchmarks.harness import Figure, Scale, slope
from benchmarks.processes import mappings, uss
from benchmarks.programs import tiny
from benchmarks.rivals import LLJIT, MCJITEach, MCJITOne

__all__ = ["rivals_cycles", "rivals_memory"]


def rivals_memory(scale: Scale) -> Iterator[Figure]:
    """The rivals' memory and mappings per live cell, and LLJIT's latency as cells grow."""
    low, high = scale.pick(50, 200), scale.pick(250, 2_000)
    for title, rival in (
        ("LLJIT, RuntimeDyld", LLJIT(2)),
        ("LLJIT, JITLink", LLJIT(2, "jitlink")),
        ("MCJIT, one engine", MCJITOne(2)),
        ("MCJIT, engine per module", MCJITEach(2)),
    ):
        first, last = low, high
        if isinstance(rival, MCJITEach):
            first, last = low // 5, high // 5
        for i in range(first):
            rival.define(tiny(f"f{i}", i), f"f{i}")
        gc.collect()
        memory, maps = uss(), mappings()
        for i in range(first, last):
            rival.define(tiny(f"f{i}", i), f"f{i}")
        gc.collect()
        cells = last - first
        yield Figure(
            f"memory per live tiny cell: {title}", (uss() - memory) / cells, "bytes",
            note=f"USS, {first:,} to {last:,} cells",
        )  # fmt: skip
        yield Figure(f"mappings per live cell: {title}", (mappings() - maps) / cells, "1")


def rivals_cycles(scale: Scale) -> Iterator[Figure]:
    """LLJIT: a tracker closed for each cell.  MCJIT keeps a removed module's code by design."""
    warm, cycles = scale.pick(50, 500), scale.pick(300, 2_000)
    for title, linker in (("RuntimeDyld", "rtdyld"), ("JITLink", "jitlink")):
        rival = LLJIT(0, linker)

        def cycle(i: int, rival: LLJIT = rival) -> None:
            rival.define(tiny(f"f{i}", i), f"f{i}")
            rival.evict(f"f{i}")

        for i in range(warm):
            cycle(i)
        gc.collect()
        xs, ys = [0.0], [float(uss())]
        step = cycles // 5
        for done in range(step, cycles + 1, step):
            for i in range(warm + done - step, warm + done):
                cycle(i)
            gc.collect()
            xs.append(done)
            ys.append(uss())
        yield Figure(f"define + evict: LLJIT, {title}, per cycle", slope(xs, ys), "bytes")
