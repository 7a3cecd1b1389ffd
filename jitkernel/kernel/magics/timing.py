"""Magics that measure: `%time` once, `%timeit` natively, in a loop compiled for the call."""

from __future__ import annotations

import time as clock
from typing import TYPE_CHECKING, Any

from jitkernel.errors import UsageError
from jitkernel.kernel.magics.table import Argument, Magic
from jitkernel.views.view import time_text

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend

__all__ = ["MAGICS"]


def time(frontend: Frontend, arguments: Any) -> Any:
    body = getattr(arguments, "body", None)
    if body is None and not arguments.code:
        raise UsageError("%time needs something to run: %time @sq(7)")
    if body is not None and arguments.code:
        raise UsageError("%%time takes the cell below it; for one line: %time " + arguments.code)
    start = clock.perf_counter_ns()
    try:
        if body is not None:
            return frontend.execute(body, arguments.cell_id)
        frontend.run_nested(arguments.code)
        return None
    finally:
        taken = clock.perf_counter_ns() - start
        frontend.print(f"Wall time: {time_text(taken)}")


def timeit(frontend: Frontend, arguments: Any) -> Any:
    body = getattr(arguments, "body", None)
    if body is not None and arguments.code:
        raise UsageError(
            f"%%timeit: what is {arguments.code!r} for? The call to time stands in the lines below"
        )
    code = (
        arguments.code
        if body is None
        else "\n".join(line for line in body.splitlines() if line.split(";")[0].strip())
    )
    if not code:
        raise UsageError("%timeit needs a call: %timeit @sq(7)")
    if frontend.setting("JITKernel.default_language") != "llvm" and code[0].isalpha():
        code = "@" + code  # `fib(20)` lacks no more than that to be a call line
    calls = frontend.session.time(
        code, number=arguments.n or 0, repeat=arguments.r or 7, sink=frontend
    )
    if not arguments.quiet:
        frontend.print(timing_text(calls))


def timing_text(calls: list[float]) -> str:
    """One line: `1.52 ns ± 0.03 ns a call (median 1.51 ns, best 1.5 ns of 7 runs)`."""
    mean = sum(calls) / len(calls)
    spread = (sum((v - mean) ** 2 for v in calls) / len(calls)) ** 0.5
    middle = sorted(calls)[len(calls) // 2]
    return (
        f"{time_text(mean)} ± {time_text(spread)} a call (median {time_text(middle)},"
        f" best {time_text(min(calls))} of {len(calls)} runs)"
    )


_CODE = Argument("code", "a call line, such as @sq(7)", "rest", completes="code")

MAGICS = (
    Magic(
        "time",
        "Run something once and say how long it took, compiling included.",
        time,
        (_CODE,),
        form="both",
        example="%time @sq(7)",
    ),
    Magic(
        "timeit",
        "Time a call in a native loop in the executor.",
        timeit,
        (
            Argument(
                "-n",
                "calls per run; without it, as many as make a run worth timing",
                "",
                int,
                least=0,
                most=(1 << 63) - 1,
            ),
            Argument("-r", "runs (7)", "", int, least=1),
            Argument("-q --quiet", "print nothing", "flag"),
            _CODE,
        ),
        form="both",
        example="%timeit -n 1000 -r 5 @sq(7)",
    ),
)
