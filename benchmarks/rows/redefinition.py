"""Redefinition with many callers.  Start from `callers`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

from benchmarks.harness import Figure, Scale
from benchmarks.programs import caller, tiny
from benchmarks.rivals import LLJIT
from jitkernel import Session

__all__ = ["callers"]


def callers(scale: Scale) -> Iterator[Figure]:
    """1,000 callers in cells of their own, 1,000 in one cell; pointers stored by the program."""
    count, times = scale.pick(100, 1_000), scale.pick(5, 21)
    with Session(opt_level=0, spare=False) as s:
        s.run(tiny("f"))
        s.run_many([caller(f"c{i}", "f") for i in range(count)])
        yield _figure(s, "f", [f"c{i}" for i in range(count)], count, "other cells", times)
    with Session(opt_level=0, spare=False) as s:
        body = "".join(caller(f"c{i}", "f").partition("\n")[2] for i in range(count))
        s.run(tiny("f") + body + "@held = global ptr null\ndefine void @hold() {\n"
              "  store ptr @f, ptr @held\n  ret void\n}\ndefine i32 @through() {\n"
              "  %p = load ptr, ptr @held\n  %r = call i32 %p(i32 2)\n  ret i32 %r\n}\n")  # fmt: skip
        s.call("hold")
        names = [f"c{i}" for i in range(count)]
        yield _figure(s, "f", names, count, "the same cell, and a stored pointer", times, "through")
    yield Figure(
        "redefinition: LLJIT, MCJIT",
        None,
        "ms",
        note="cannot: callers keep the old code until compiled again",
    )
    rival = LLJIT(0)
    first = time.perf_counter_ns()
    for i in range(20):
        rival.define(tiny(f"c{i}", i), f"c{i}")
    each = (time.perf_counter_ns() - first) / 20
    yield Figure(
        f"redefinition: LLJIT, {count:,} callers compiled again", each * count / 1e6, "ms",
        note="20 measured, times the number",
    )  # fmt: skip


def _figure(
    s: Session, name: str, names: list[str], count: int, where: str, times: int, pointer: str = ""
) -> Figure:
    took = []
    for k in range(1, times + 1):
        compiled = s.compile(tiny(name, 100 * k))
        start = time.perf_counter_ns()
        s.place(compiled)
        took.append(time.perf_counter_ns() - start)
        checked = names if k in (1, times) else names[:: max(len(names) // 10, 1)]
        wrong = [n for n in checked if s.call(n, 2) != 4 + 100 * k + 1]
        assert not wrong, f"{len(wrong)} callers have the old answer: {wrong[:3]}"
        if pointer:
            assert s.call(pointer) == 4 + 100 * k, "the stored pointer leads to the old one"
    return Figure(
        f"redefine, {count:,} callers in {where}", statistics.median(took) / 1e6, "ms", 1.0,
        note=f"after the compile; first {took[0] / 1e6:.2f} ms; every caller checked",
    )  # fmt: skip
