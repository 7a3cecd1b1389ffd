"""More code than may be in memory: what a call costs that finds it there, and one that does not.
Start from `under_budget`.
"""

from __future__ import annotations

import gc
import itertools
import random
import statistics
import time
from collections.abc import Iterator

from benchmarks.harness import Figure, Scale, frozen
from jitkernel import Session

__all__ = ["under_budget"]

_CODE = 4096
_BUDGET = 8 << 20


def under_budget(scale: Scale) -> Iterator[Figure]:
    """Cells of 4 KB of code, a fifth of which may be in memory (8 MB of 10,000), called at random, a few of them often (Zipf)."""
    count = scale.pick(2_500, 10_000)
    budget = min(_BUDGET, count * _CODE // 5)
    calls = scale.pick(2_000, 20_000)
    with Session(budget=budget) as s, Session(spare=False) as free:
        for session in (s, free):
            session.run(
                "define i32 @via(ptr %f, i32 %x) {\n  %r = call i32 %f(i32 %x)\n  ret i32 %r\n}"
            )
        for i in range(200):
            free.run(_cell(i))
        over = 0
        for i in range(count):
            s.run(_cell(i))
            over += s.inspect.residency.code > budget
        s.frontend.idle()
        asleep = sum(c.state.value == "hibernated" for c in s.cells)
        chance = random.Random(1)
        weights = list(itertools.accumulate(1 / (i + 1) for i in range(count)))
        names = list(range(count))
        chance.shuffle(names)
        resident: list[int] = []
        woken: list[int] = []
        without: list[int] = []
        with frozen():
            for which in chance.choices(names, cum_weights=weights, k=calls):
                before = s.inspect.residency.woken
                start = time.perf_counter_ns()
                answer = s.run(f"@via(@f{which}, 1)").value
                took = time.perf_counter_ns() - start
                assert answer == which + 1
                (woken if s.inspect.residency.woken > before else resident).append(took)
                over += s.inspect.residency.code > budget
                start = time.perf_counter_ns()
                free.run(f"@via(@f{which % 200}, 1)")
                without.append(time.perf_counter_ns() - start)
        gc.collect()
        woken.sort()
        there = statistics.median(resident)
        same = statistics.median(without)
        extra = statistics.median(woken) - there
        yield Figure(
            "runs after which the code was over the budget", over, "1", 0,
            note=f"{count:,} cells defined, {asleep:,} of them hibernated then, {calls:,} calls",
        )  # fmt: skip
        yield Figure(
            "call that finds its code / the same without a budget", there / same, "x", 1.05,
            note=f"{there / 1e3:.0f} us and {same / 1e3:.0f} us, {len(resident):,} calls",
        )  # fmt: skip
        yield Figure(
            "bringing code back, in the middle of a run", extra / 1e3, "us", 200,
            note=f"{(extra + there) / 1e3:.0f} us, the median of {len(woken):,} such calls, less the {there / 1e3:.0f} us of the others",
        )  # fmt: skip
        p99 = woken[int(len(woken) * 0.99)] - there
        yield Figure(
            "  99 in 100 take at most", p99 / 1e3, "us", note="trimming after the run included"
        )


def _cell(number: int) -> str:
    """A function of 4 KB."""
    return (
        f"define i32 @f{number}(i32 %x) {{\n"
        f'  call void asm sideeffect ".fill {_CODE - 16}, 1, 0x90", ""()\n'
        f"  %r = add i32 %x, {number}\n  ret i32 %r\n}}"
    )
