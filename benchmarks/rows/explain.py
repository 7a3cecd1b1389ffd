"""`%explain` of a function of 100 lines and of one of 5,000.  Start from `panels`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median

from benchmarks.harness import Figure, Scale
from jitkernel import Session, views

__all__ = ["function", "panels"]


def function(lines: int) -> str:
    """A function of about so many lines: arithmetic over memory in a variable, with branches."""
    out = [
        "define i64 @f(ptr %p, i64 %n) {",
        "entry:",
        "  %a = alloca i64",
        "  store i64 %n, ptr %a",
    ]
    k = 0
    while len(out) < lines - 4:
        out += [f"  br label %b{k}", f"b{k}:"]
        for j in range(4):
            v = f"{k}.{j}"
            out += [
                f"  %v{v} = load i64, ptr %a",
                f"  %g{v} = getelementptr i64, ptr %p, i64 {(4 * k + j) % 64}",
                f"  %w{v} = load i64, ptr %g{v}",
                f"  %m{v} = mul i64 %v{v}, %w{v}",
                f"  %x{v} = xor i64 %m{v}, {7 * k + j + 1}",
                f"  store i64 %x{v}, ptr %a",
            ]
        out += [
            f"  %c{k} = icmp ugt i64 %x{k}.3, {1000 * k}",
            f"  br i1 %c{k}, label %t{k}, label %e{k}",
            f"t{k}:",
            f"  %q{k} = add i64 %x{k}.3, %n",
            f"  store i64 %q{k}, ptr %a",
            f"  br label %e{k}",
            f"e{k}:",
        ]
        k += 1
    return "\n".join([*out, "  %r = load i64, ptr %a", "  ret i64 %r", "}"])


def panels(scale: Scale) -> Iterator[Figure]:
    """The first time, and again with nothing remembered."""
    for lines, limit, size in ((100, 0.3, 400_000), (scale.pick(500, 5_000), 3.0, None)):
        with Session(spare=False) as s:
            source = function(lines)
            s.run(source)
            took, html = [], 0
            for _ in range(scale.pick(2, 6)):
                start = time.perf_counter_ns()
                html = len(views.explain(s, "f").html)
                took.append((time.perf_counter_ns() - start) / 1e6)
                s._core.engine.pool.traces._traced.clear()
                s._core.places.lines.tables.clear()
                s._core.places.lines.shown = None
        count = len(source.splitlines())
        yield Figure(
            f"explain, {count:,} lines", median(took[1:]), "ms", limit * 1e3,
            note=f"the first {took[0]:.0f} ms",
        )  # fmt: skip
        yield Figure(f"explain, {count:,} lines: HTML", html, "bytes", size)
