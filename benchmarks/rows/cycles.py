"""What define + evict leaves behind, cycle after cycle.  Start from `define_evict`."""

from __future__ import annotations

import gc
import itertools
import sys
from collections.abc import Callable, Iterator

from benchmarks.harness import Figure, Scale, slope
from benchmarks.processes import account, pids, uss
from benchmarks.programs import fresh_types, tiny
from jitkernel import Session

__all__ = ["define_evict", "define_evict_types", "recompile"]

_KERNEL_BAR, _BLOCKS_BAR = 16.0, 0.05


def define_evict(scale: Scale) -> Iterator[Figure]:
    """Unique names."""

    def cycle(s: Session, i: int) -> None:
        s.run(tiny(f"f{i}", i))
        s.evict(f"f{i}")

    yield from _watch(scale, "define + evict", cycle)


def define_evict_types(scale: Scale) -> Iterator[Figure]:
    """Unique names, and a type of its own in each cell."""

    def cycle(s: Session, i: int) -> None:
        s.run(fresh_types(f"f{i}", i))
        s.evict(f"f{i}")

    yield from _watch(scale, "define + evict with fresh types", cycle)


def recompile(scale: Scale) -> Iterator[Figure]:
    """One function defined again and again, with a caller that follows."""

    def cycle(s: Session, i: int) -> None:
        s.run(tiny("f", i))

    yield from _watch(scale, "recompile for ever", cycle)


def _watch(scale: Scale, title: str, cycle: Callable[[Session, int], None]) -> Iterator[Figure]:
    """Least-squares slopes over samples every `step` cycles."""
    step = max(scale.cycles // 16, 1) if scale.name != "full" else 2_500
    at: list[float] = []
    samples: dict[str, list[float]] = {
        "kernel": [],
        "executor": [],
        "blocks": [],
        "slab": [],
        "store": [],
    }
    by_worker: dict[int, list[tuple[float, float]]] = {}
    # The level does not matter to what is left; at -O0 there is time for more cycles.
    with Session(opt_level=0) as s:
        numbers = itertools.count()
        for i in itertools.islice(numbers, scale.warm_up):
            cycle(s, i)
        for done in range(0, scale.cycles + 1, step):
            for i in itertools.islice(numbers, step if done else 0):
                cycle(s, i)
            s.frontend.idle()
            gc.collect()
            at.append(done)
            now = account(s)
            samples["kernel"].append(now.kernel)
            samples["executor"].append(now.executor)
            samples["slab"].append(now.slab)
            samples["blocks"].append(sys.getallocatedblocks())
            for role, pid in pids(s):
                if role == "worker":
                    by_worker.setdefault(pid, []).append((done, uss(pid)))
    short = (
        f"{scale.cycles:,} cycles; --full: 40,000"
        if scale.name != "full"
        else "8,000 + 40,000 cycles"
    )
    yield Figure(
        f"{title}: kernel, per cycle",
        slope(at, samples["kernel"]),
        "bytes",
        _KERNEL_BAR,
        note=short,
    )
    yield Figure(
        f"{title}: executor, per cycle", slope(at, samples["executor"]), "bytes", _KERNEL_BAR
    )
    yield Figure(
        f"{title}: allocated blocks, per cycle", slope(at, samples["blocks"]), "1", _BLOCKS_BAR
    )
    yield Figure(f"{title}: slab, per cycle", slope(at, samples["slab"]), "bytes", _KERNEL_BAR)
    fresh = [samples[0] for samples in by_worker.values()]
    recycled = len(by_worker) - 1
    if recycled >= 2:
        what, points = "from recycling to recycling", fresh[1:]
    else:
        what, points = "between recyclings", max(by_worker.values(), key=len)
    yield Figure(
        f"{title}: worker, {what}, per cycle", slope([x for x, _ in points], [y for _, y in points]),
        "bytes", note=f"recycled {recycled} times",
    )  # fmt: skip
