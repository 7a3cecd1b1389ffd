"""Measuring: scales, figures, interleaved blocks, ratios, slopes.  Start from `compare`.

Figures of two sides that are compared come from blocks run in random order in one process, so that
a slow moment of the machine hits both; what is reported is the median of the block ratios.
"""

from __future__ import annotations

import gc
import itertools
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

__all__ = [
    "Comparison",
    "Figure",
    "Row",
    "Scale",
    "compare",
    "frozen",
    "median_ns",
    "ratios",
    "scales",
    "slope",
]


@dataclass(frozen=True, slots=True)
class Scale:
    """How much a run measures.

    `name` is quick, normal or full (tiny is for the tests of this harness); `blocks` of `block` repetitions make a latency; `cells` is the
    largest number of live cells, `cycles` that of define + evict cycles after `warm_up` of them.
    """

    name: str
    blocks: int
    block: int
    cells: int
    cycles: int
    warm_up: int

    def pick(self, quick: int, normal: int, full: int | None = None) -> int:
        """The number for this scale."""
        if self.name in ("tiny", "quick"):
            return quick if self.name == "quick" else max(quick // 8, 2)
        return normal if self.name == "normal" or full is None else full


def scales() -> Mapping[str, Scale]:
    """The scales by name."""
    return {
        "tiny": Scale("tiny", 1, 3, 40, 30, 10),
        "quick": Scale("quick", 3, 60, 2_000, 1_500, 500),
        "normal": Scale("normal", 5, 200, 20_000, 10_000, 3_000),
        "full": Scale("full", 5, 200, 20_000, 40_000, 8_000),
    }


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table.

    `value` is in `unit` (ns, us, ms, s, bytes, x, 1).  With a `bar` it must be at most that, or at
    least, where `at_least`.  `value` None: it could not be measured, and `note` says why.
    """

    what: str
    value: float | None
    unit: str
    bar: float | None = None
    at_least: bool = False
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the bar is met; None where there is none or nothing was measured."""
        if self.bar is None or self.value is None:
            return None
        return self.value >= self.bar if self.at_least else self.value <= self.bar

    def row(self) -> dict[str, Any]:
        """As plain data."""
        return {**asdict(self), "met": self.met}


@dataclass(frozen=True, slots=True)
class Row:
    """Something that is measured, in a process of its own.

    `where` is `module:function` under `benchmarks.rows`; the function yields figures as it has
    them.  `timeout` (seconds) is for the whole at full scale.  A row `as_kernel` runs with the
    environment that the kernelspec gives, and with addresses that are not random: mappings that
    touch are one, so that two processes of the same program would differ by chance.
    """

    name: str
    title: str
    where: str
    timeout: float = 1200.0
    as_kernel: bool = False

    @property
    def run(self) -> Callable[[Scale], Iterator[Figure]]:
        """The function, imported now."""
        module, _, function = self.where.partition(":")
        found: Callable[[Scale], Iterator[Figure]] = getattr(
            import_module(f"benchmarks.rows.{module}"), function
        )
        return found


@contextmanager
def frozen() -> Iterator[None]:
    """What exists is set apart from garbage collection, so that its size does not count."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@dataclass(frozen=True, slots=True)
class Comparison:
    """Nanoseconds per repetition by side: the median of each block, in the order of rounds."""

    blocks: Mapping[str, Sequence[float]]

    def median(self, side: str) -> float:
        """The median of a side's block medians."""
        return statistics.median(self.blocks[side])

    def ratio(self, side: str, to: str) -> float:
        """The median of the ratios of blocks of one round."""
        return statistics.median(ratios(self.blocks[side], self.blocks[to]))

    def spread(self, side: str, to: str) -> str:
        """The least and the largest of those ratios: how quiet the machine was."""
        found = ratios(self.blocks[side], self.blocks[to])
        return f"blocks {min(found):.2f} to {max(found):.2f}"


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Block by block."""
    return [a / b for a, b in zip(ours, theirs, strict=True)]


def compare(
    sides: Mapping[str, Callable[[int], object]],
    blocks: int,
    block: int,
    warm_up: int = 20,
    seed: int = 1,
) -> Comparison:
    """Run `block` repetitions of each side in random order, `blocks` times over.

    A side is called with the number of the repetition, which it never sees twice.
    """
    order = random.Random(seed)
    numbers = itertools.count(1)
    found: dict[str, list[float]] = {name: [] for name in sides}
    for run in sides.values():
        for _ in range(warm_up):
            run(next(numbers))
    with frozen():
        for _ in range(blocks):
            names = list(sides)
            order.shuffle(names)
            for name in names:
                run, times = sides[name], []
                for number in itertools.islice(numbers, block):
                    start = time.perf_counter_ns()
                    run(number)
                    times.append(time.perf_counter_ns() - start)
                found[name].append(statistics.median(times))
    return Comparison(found)


def median_ns(run: Callable[[int], object], times: int, first: int = 0) -> float:
    """The median time of one call, in nanoseconds."""
    found = []
    for i in range(first, first + times):
        start = time.perf_counter_ns()
        run(i)
        found.append(time.perf_counter_ns() - start)
    return statistics.median(found)


def slope(xs: Sequence[float], ys: Sequence[float]) -> float:
    """The least-squares slope of y over x."""
    x0, y0 = statistics.fmean(xs), statistics.fmean(ys)
    below = sum((x - x0) ** 2 for x in xs)
    return sum((x - x0) * (y - y0) for x, y in zip(xs, ys, strict=True)) / below if below else 0.0
