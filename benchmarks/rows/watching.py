"""What looking at globals costs the program that runs.  Start from `watched`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median

from benchmarks.harness import Figure, Scale, ratios
from jitkernel import Session

__all__ = ["watched"]

_LOOP = """
@count = global i64 0
@table = global [1000 x i32] zeroinitializer
define void @run(i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
  store volatile i64 %i, ptr @count
  %k = urem i64 %i, 1000
  %p = getelementptr i32, ptr @table, i64 %k
  %v = trunc i64 %i to i32
  store volatile i32 %v, ptr %p
  %j = add i64 %i, 1
  %more = icmp ult i64 %j, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


def watched(scale: Scale) -> Iterator[Figure]:
    """A loop of some tenths of a second, in turn unwatched and with a number and an array of
    1,000 numbers read thirty and ten times a second."""
    rounds, steps = scale.pick(4, 9), scale.pick(500_000_000, 1_500_000_000)
    shown = 0

    def show(_: object) -> None:
        nonlocal shown
        shown += 1

    with Session(spare=False) as s:
        s.run(_LOOP)
        s.call("run", steps)

        def run() -> float:
            begin = time.perf_counter()
            s.call("run", steps)
            return time.perf_counter() - begin

        plain, seen = [], []
        for turn in range(rounds):
            for side in (plain, seen) if turn % 2 else (seen, plain):
                if side is seen:
                    s.watch("count", "table", call=show, every=0.1)
                side.append(run())
                s.unwatch()
    yield Figure("a run that nobody watches", median(plain) * 1e3, "ms")
    yield Figure(
        "watched / not watched", median(ratios(seen, plain)), "x", 1.05,
        note=f"shown {shown} times",
    )  # fmt: skip
