"""Magics that measure what runs: `%time`, `%timeit` in a native loop, `%watch` for globals."""

from __future__ import annotations

import time as clock
from typing import TYPE_CHECKING, Any

from jitkernel.errors import UsageError
from jitkernel.ir.names import bare
from jitkernel.kernel.magics.parsing import in_language
from jitkernel.kernel.magics.registry import Argument, magic
from jitkernel.views.view import time_text

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend

_CODE = Argument("code", "a call line, such as @sq(7)", "rest", completes="code")
_LEAST = 0.5  # seconds between two updates of a display


@magic("time", _CODE, form="both", example="%time @sq(7)")
def time(context: Frontend, arguments: Any) -> Any:
    """Run something once and say how long it took, compiling included."""
    body = arguments.body
    if body is None and not arguments.code:
        raise UsageError(in_language(context, "%time needs something to run: %time @sq(7)"))
    if body is not None and arguments.code:
        raise UsageError("%%time takes the cell below it; for one line: %time " + arguments.code)
    start = clock.perf_counter_ns()
    try:
        if body is not None:
            return context.execute(body, arguments.cell_id)
        context.run_nested(arguments.code)
        return None
    finally:
        taken = clock.perf_counter_ns() - start
        context.print(f"Wall time: {time_text(taken)}")


@magic(
    "timeit",
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
    Argument(
        "--language",
        "of the code, where it is not the notebook's",
        "",
        completes="language",
        value="NAME",
    ),
    Argument("code", "a call, or any code of another language than IR", "rest", completes="code"),
    form="both",
    example="%timeit -n 1000 -r 5 @sq(7)",
)
def timeit(context: Frontend, arguments: Any) -> Any:
    """Time a call in a native loop in the executor; of C and other languages than IR, any
    expression or statements, which are compiled once and leave nothing behind."""
    body, code = arguments.body, arguments.code
    if body is not None and code:
        raise UsageError(
            f"%%timeit: what is {code!r} for? The call to time stands in the lines below"
        )
    language = arguments.language or context.setting("JITKernel.default_language")
    code = body if body is not None else code or ""
    call = "\n".join(line for line in code.splitlines() if line.split(";")[0].strip())
    if language == "llvm" or call.lstrip().startswith("@"):  # a call line, in any notebook
        language, code = "llvm", call
    if not code.strip():
        raise UsageError(in_language(context, "%timeit needs a call: %timeit @sq(7)"))
    calls = context.session.time(
        code, arguments.n or 0, arguments.r or 7, sink=context, language=language
    )
    if not arguments.quiet:
        context.print(timing_text(calls))


def timing_text(calls: list[float]) -> str:
    """One line: `1.52 ns ± 0.03 ns a call (median 1.51 ns, best 1.5 ns of 7 runs)`."""
    mean = sum(calls) / len(calls)
    spread = (sum((v - mean) ** 2 for v in calls) / len(calls)) ** 0.5
    middle = sorted(calls)[len(calls) // 2]
    return (
        f"{time_text(mean)} ± {time_text(spread)} a call (median {time_text(middle)},"
        f" best {time_text(min(calls))} of {len(calls)} runs)"
    )


@magic(
    "watch",
    Argument("name", "globals, such as g", "*", completes="global"),
    Argument("--every", "seconds between two updates, at least 0.5", "", float),
    Argument("--stop", "look at these no more; without names, at none", "flag"),
    example="%watch g table --every 1",
)
def watch(context: Frontend, arguments: Any) -> None:
    """Show globals as they change in memory while cells run, and after the run or a crash. The
    program is not slowed down and needs nothing for it; but LLVM may keep a global in a register
    while a loop runs: `store volatile` shows every step. Without names: what is watched now."""
    from jitkernel.views.tables import watched_view

    session = context.session
    names = [bare(name) for name in arguments.name]
    if arguments.stop:
        session.unwatch(*names)
        left = len(session.watched())
        context.print(f"{left} still watched" if left else "nothing is watched any more")
        return
    if arguments.every is not None and not arguments.every >= _LEAST:
        raise UsageError(f"%watch: --every is at least {_LEAST} seconds")
    watched = session.watch(
        *names,
        call=lambda now: context.live(watched_view(session, now), now[0].seconds is None),
        every=arguments.every,
    )
    context.live(watched_view(session, watched))
