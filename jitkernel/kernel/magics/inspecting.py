"""Magics that look into the compiler: passes, machine IR, and which pipeline a cell gets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jitkernel.errors import CompileError, UsageError
from jitkernel.kernel.magics.program import targets
from jitkernel.kernel.magics.table import Argument, Magic
from jitkernel.kernel.magics.targets import SHOWN
from jitkernel.views.view import View, prose

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend

__all__ = ["MAGICS", "pipeline"]


def passes(frontend: Frontend, arguments: Any) -> None:
    from jitkernel.views.passes import passes as view

    only, stop = arguments.only or "", arguments.stop_after
    for target in targets([arguments.target]) if arguments.target else [None]:
        with _telling(frontend, "compiling it again, watched", "watched") as progress:
            made = view(frontend.session, target, only, stop, lambda: progress("the passes"))
        frontend.display(made)


def mir(frontend: Frontend, arguments: Any) -> None:
    from jitkernel.views.mir import mir as view

    stage = one_of(arguments, ("isel", "regalloc", "final"))
    for target in targets([arguments.target]) if arguments.target else [None]:
        with _telling(frontend, "compiling it again, watched", "watched") as progress:
            made = view(frontend.session, target, stage, lambda: progress("code generation"))
        frontend.display(made)


def one_of(arguments: Any, flags: tuple[str, ...]) -> str:
    """The flag that was given, "" for none.  Raises UsageError for two."""
    given = [flag for flag in flags if getattr(arguments, flag)]
    if len(given) > 1:
        raise UsageError(f"one of {', '.join('--' + flag for flag in given)} at a time")
    return given[0] if given else ""


def pipeline(text: str) -> tuple[int | None, str]:
    """A level (`-O2`, `O2`) or the names of passes, checked.  Raises CompileError, UsageError."""
    from jitkernel.compiler.passes import canonical

    words = text.strip().strip("\"'")
    level = words.removeprefix("-")
    if level[:1] == "O" and len(level) <= 3:
        if level[1:] not in ("0", "1", "2", "3"):
            raise UsageError(f"there is no level {words}; there are -O0, -O1, -O2 and -O3")
        return int(level[1:]), ""
    return None, canonical(words)


def timeline(frontend: Frontend, arguments: Any) -> None:
    from jitkernel.views.timeline import timeline as view

    picture = not frontend.setting("JITKernel.deterministic")
    for target in targets([arguments.target]) if arguments.target else [None]:
        frontend.display(view(frontend.session, target, picture))


def explain(frontend: Frontend, arguments: Any) -> None:
    from jitkernel.views.explain import explain as view

    session = frontend.session
    syntax = arguments.syntax or frontend.setting("JITKernel.asm_syntax")
    picture = not frontend.setting("JITKernel.deterministic")
    for target in targets([arguments.target]) if arguments.target else [None]:
        with _telling(frontend, "explaining", "explained") as progress:
            made = view(session, target, syntax, picture, progress)
        frontend.display(made)


@contextmanager
def _telling(frontend: Frontend, doing: str, done: str) -> Iterator[Callable[[str], None]]:
    """What is told, in one place, about something that takes more than a moment."""
    began = last = time.monotonic()
    shown = False

    def tell(words: str) -> None:
        # None of it is for good: a client that cannot write over it is not told.
        frontend.live(View(words, f"<small>{prose(words)}</small>"), last=False)

    def progress(what: str) -> None:
        nonlocal last, shown
        now = time.monotonic()
        if now - last >= _EVERY:
            last, shown = now, True
            tell(f"{doing}, {now - began:.1f} s: {what}")

    yield progress
    if shown:
        tell(f"{done} in {time.monotonic() - began:.1f} s")


def own_pass(frontend: Frontend, arguments: Any) -> None:
    from jitkernel.transform import apply_pass
    from jitkernel.views.own_pass import own_pass as view

    target, *others = targets([arguments.on]) if arguments.on else [None]
    if others:
        raise UsageError(f"%%pass runs on one cell or function at a time, not on {arguments.on}")
    effect = apply_pass(
        frontend.session,
        arguments.body,
        arguments.name,
        target,
        last=arguments.last,
        call=arguments.time or "",
        keep=arguments.keep,
        timeout=arguments.timeout,
    )
    frontend.display(view(effect))
    if effect.complaint:
        raise CompileError(
            f"the pass {effect.name} left a module that LLVM refuses; cell {effect.cell} is as "
            f"it was\n{effect.complaint}"
        )


def opt(frontend: Frontend, arguments: Any) -> None:
    session = frontend.session
    if not arguments.pipeline:
        settings = session.settings
        now = settings.passes or f"-O{settings.opt_level}"
        frontend.print(f"cells are optimised with {now}")
        return
    words = arguments.pipeline.split()
    if "--keep-cpu" in words:
        if session.cell_options is None:
            raise UsageError("%opt --keep-cpu is for one cell: write it above the cell's code")
        session.cell_options = replace(session.cell_options, keep_cpu=True)
        words.remove("--keep-cpu")
        if not words:
            return
    level, names = pipeline(" ".join(words))
    if session.cell_options is not None:  # above the code of a cell: for that one
        session.cell_options = replace(session.cell_options, opt_level=level, passes=names)
        return
    if level is not None:
        frontend.configure("Compiler.opt_level", level)
    frontend.configure("Compiler.passes", names)
    frontend.print(f"cells are optimised with {names or f'-O{level}'} from now on")


_EVERY = 0.5  # seconds between two words of progress

MAGICS = (
    Magic(
        "explain",
        "All that became of a function or a cell, from its source to its bytes in the arena.",
        explain,
        (SHOWN, Argument("--syntax", "how to write assembly", choices=("intel", "att"))),
        example="%explain @sq",
    ),
    Magic(
        "timeline",
        "Microseconds of each step of a cell: parse, verify, optimise, emit, link, run.",
        timeline,
        (SHOWN,),
        example="%timeline 3",
    ),
    Magic(
        "passes",
        "Which pass of the optimiser changed what, step by step, each step verified.",
        passes,
        (
            SHOWN,
            Argument("--only", "the steps of this pass alone; * and ? allowed", completes="pass"),
            Argument(
                "--stop-after",
                "end after step N, or a pass's last one, and show the IR",
                completes="pass",
            ),
        ),
        example="%passes @sq --only instcombine",
    ),
    Magic(
        "mir",
        "Machine IR after instruction selection, after register allocation, final; spills marked.",
        mir,
        (
            SHOWN,
            Argument("--isel", "after instruction selection alone", "flag"),
            Argument("--regalloc", "after register allocation alone", "flag"),
            Argument("--final", "as it is emitted alone", "flag"),
        ),
        example="%mir @sq --regalloc",
    ),
    Magic(
        "pass",
        "A pass in Python: a function of the module (or of its `text: str`) that changes it or "
        "returns another; its diff, LLVM's verdict, and what it did to the code.",
        own_pass,
        (
            Argument("name", "the function's name, or a name for the one function there is"),
            Argument(
                "--on", "the cell or function to run it on; else the last cell", completes="target"
            ),
            Argument("--last", "after LLVM's passes instead of before them", "flag"),
            Argument(
                "--time", 'a call to compare and time with both codes: "@f(3)"', completes="code"
            ),
            Argument("--keep", "let the new code stay in place of the old", "flag"),
            Argument("--timeout", "seconds until it is stopped", "", float, 10.0),
        ),
        form="cell",
        example='%%pass no-neg --on @f --time "@f(3)"',
    ),
    Magic(
        "opt",
        "The level or the passes for this cell, above its code; alone in a cell, for all to come.",
        opt,
        (
            Argument(
                "pipeline",
                "-O0 to -O3, or names of passes with commas between; --keep-cpu",
                "rest",
                completes="pipeline",
            ),
        ),
        example="%opt sroa,instcombine,simplifycfg",
    ),
)
