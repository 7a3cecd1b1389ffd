"""What LLVM contexts cost that are thrown away, shared or kept.  Start from `named_types`.

In a JIT that never stops and compiles everything in one context, each module's types and constants
stay in it for ever.  A context for each method can be freed, but with the method's code, so all
that LLVM knows of it stays as long.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from statistics import fmean, median

from benchmarks.harness import Figure, Scale
from benchmarks.processes import uss
from jitkernel import Session
from jitkernel.setting import declared
from jitkernel.settings import SessionSettings

__all__ = ["named_types"]

_TYPES = 500


def _cell(k: int) -> str:
    """A cell that brings 500 named types along, as one that includes a header does."""
    types = [f"%t{i} = type {{ i32, [{i + 1} x i8], ptr }}" for i in range(_TYPES)]
    return "\n".join(
        [
            *types,
            f"define i64 @f{k}(ptr %p) {{",
            f"  %q = getelementptr %t{k % _TYPES}, ptr %p, i64 1",
            "  %v = load i64, ptr %q",
            f"  %r = add i64 %v, {k}",
            "  ret i64 %r",
            "}",
            "",
        ]
    )


def named_types(scale: Scale) -> Iterator[Figure]:
    """500 named types in each of 1,000 cells; then half of the cells are evicted."""
    cells = max(4, scale.pick(20 if scale.block < 10 else 200, 1_000))
    for policy in declared(SessionSettings)["context"].choices:
        # One worker for the whole row: no spare takes over from one that has grown.
        with Session(context=policy, opt_level=0, spare=False) as s:
            s.contexts()
            for k in range(10):
                s.run(_cell(k))
            ((_, worker),) = s.inspect.workers()
            marks, times = [uss(worker)], []
            for k in range(10, 10 + cells):
                result = s.run(_cell(k))
                assert result.cell is not None
                times.append(sum(result.cell.times[:4]))
                if (k - 9) % (cells // 4) == 0:
                    marks.append(uss(worker))
            account = s.contexts()
            costs = account.costs[-cells:]
            assert [worker] == [pid for _, pid in s.inspect.workers()]
            for k in range(0, cells, 2):
                s.evict(f"f{k}")
            before, left = uss(worker), s.contexts().live
            for k in range(10 + cells, 10 + cells + cells // 2):
                s.run(_cell(k))
            again = (uss(worker) - before) / (cells // 2)
            quarters = ", ".join(f"{(b - a) / 2**20:.1f}" for a, b in pairwise(marks))
            yield Figure(
                f"{policy}: {cells} cells of {_TYPES} types, worker's own memory, per cell",
                (marks[-1] - marks[0]) / cells, "bytes", note=f"MiB by quarter: {quarters}",
            )  # fmt: skip
            yield Figure(
                f"{policy}: LLVM's heap, per cell", fmean(c.heap for c in costs), "bytes",
                note=f"{costs[-1].live} contexts live",
            )  # fmt: skip
            yield Figure(
                f"{policy}: half of them evicted, as many new ones, per new cell", again, "bytes",
                note=f"{left} contexts live after evicting",
            )  # fmt: skip
            yield Figure(f"{policy}: compile time", median(times) / 1e3, "us")
