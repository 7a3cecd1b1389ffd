"""Magics that show what became of the code: IR, passes, assembly, graphs, the stack."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jitkernel import views
from jitkernel.errors import Interrupted, UsageError
from jitkernel.ir.names import bare
from jitkernel.kernel.magics.parsing import ALL, SHOWN, cell_magic, one_of, room, shown, targets
from jitkernel.kernel.magics.registry import LEVELS, Argument, magic
from jitkernel.regex import regex

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend

_EVERY = 0.5  # seconds between two words of progress
_CALLED = regex(r'(@?[\w.$]+|@"[^"]*")\s*\(')  # functions that code calls


@magic(
    "ir",
    SHOWN,
    Argument("--raw", "as LLVM has it before its first pass", "flag"),
    Argument("--opt", "after its last pass", "flag"),
    Argument("--diff", "what the passes changed", "flag"),
    ALL,
    example="%ir sq --opt",
)
def ir(context: Frontend, arguments: Any) -> None:
    """The LLVM IR of a function or a cell, as it was given to the compiler."""
    stage = one_of(arguments, ("raw", "opt", "diff"))
    for target in shown(arguments.target):
        context.display(views.ir(context.session, target, stage, room(arguments)))


@magic(
    "asm",
    Argument("what", "a function or a cell; without it, the last cell", "?", completes="target"),
    Argument("--syntax", "how to write it", choices=("intel", "att")),
    Argument("--intel", "the same as --syntax intel", "flag"),
    Argument("--att", "the same as --syntax att", "flag"),
    Argument("--no-lines", "leave the cell's lines out", "flag"),
    Argument("--entry", "where pointers to a function lead, in place of its code", "flag"),
    Argument("--source", "its own lines and those inlined beside it", "flag"),
    Argument(
        "--target", "another machine: aarch64, riscv64, ..., or a triple", completes="machine"
    ),
    Argument("--cpu", "its CPU, as LLVM calls it; with --target", completes="cpu"),
    Argument("-O", "optimisation level; with --target", type=int, choices=LEVELS, value="LEVEL"),
    ALL,
    aliases=("dis",),
    form="both",
    example="%asm sq --target riscv64",
)
def asm(context: Frontend, arguments: Any) -> None:
    """Machine code as it stands in the arena, or with --target as it would be elsewhere."""
    from jitkernel.languages import names
    from jitkernel.views.foreign import foreign, unplaced

    session, body = context.session, arguments.body
    level = arguments.O
    syntax = "att" if arguments.att else "intel" if arguments.intel else arguments.syntax
    syntax = syntax or context.setting("JITKernel.asm_syntax")
    if body is not None:
        if arguments.what:
            raise UsageError("%%asm takes the cell below it; for what is defined: %asm")
        level = session.settings.opt_level if level is None else level
        machine = arguments.target or "x86_64"
        call = cell_magic(body)
        language = context.setting("JITKernel.default_language")
        if call is not None and call.name in names():
            language, body = call.name, call.body
        cpu = arguments.cpu or ""
        made = unplaced(session, body, machine, cpu, level, syntax, language, room(arguments))
        context.display(made)
        return
    if not arguments.target and (arguments.cpu or level is not None):
        raise UsageError("%asm shows what is in memory; --cpu and -O go with --target")
    for target in shown(arguments.what):
        if arguments.target:
            on = arguments.target, arguments.cpu or "", level, syntax
            made = foreign(session, target, *on, room(arguments))
        elif arguments.source:
            made = views.linked(session, target, syntax, ir=False, room=room(arguments))
        else:
            lines, entry = not arguments.no_lines, arguments.entry
            made = views.asm(session, target, syntax, lines, entry, room(arguments))
        context.display(made)


@magic("object", SHOWN, ALL, example="%object sq")
def object_file(context: Frontend, arguments: Any) -> None:
    """A cell's relocatable object, and what the linker made of each relocation."""
    for target in shown(arguments.target):
        context.display(views.object(context.session, target, arguments.all))


@magic(
    "cfg",
    SHOWN,
    Argument("--raw", "as the cell is written, before any pass", "flag"),
    Argument("-O", "as this optimisation level has it", type=int, choices=LEVELS, value="LEVEL"),
    Argument("--around", "draw the blocks around this one, such as %loop", completes="block"),
    Argument(
        "--depth", "draw so many edges around it, or around the entry", "", int, value="EDGES"
    ),
    Argument("--block", "draw this block and what it dominates", completes="block"),
    Argument("--dominators", "tell which blocks dominate which, and frontiers", "flag"),
    Argument("--live", "tell which values are live into and out of blocks", "flag"),
    Argument("--loops", "tell which loops blocks are in", "flag"),
    Argument(
        "--counts",
        "run this once, such as f(3), and tell how often blocks and edges are executed",
        completes="code",
        value="CODE",
    ),
    example='%cfg sum --counts "sum(a, 4)"',
)
def cfg(context: Frontend, arguments: Any) -> None:
    """Control flow of a function: its blocks and where each can go next."""
    from jitkernel.views.cfg import Part, Told
    from jitkernel.views.overlays import ANALYSES

    code = arguments.counts or ""
    called = next((name for name in _CALLED.findall(code) if bare(name) in context.session), None)
    told = Told([name for name in ANALYSES if getattr(arguments, name)], code)
    for target in shown(arguments.target or called):
        made = views.cfg(
            context.session, target, raw=arguments.raw, level=arguments.O,
            part=Part(arguments.around or "", arguments.depth, arguments.block or ""), told=told,
        )  # fmt: skip
        context.display(made)


@magic(
    "callgraph",
    Argument(
        "target",
        "a function or a cell: what it reaches and who reaches it; without it, all",
        "?",
        completes="target",
    ),
    Argument("to", "a second one: what is on a way between both", "?", completes="target"),
    Argument("--depth", "only what is so many calls away from it", "", int, value="CALLS"),
    ALL,
    example="%callgraph sum --depth 2",
)
def callgraph(context: Frontend, arguments: Any) -> None:
    """Calls between functions, read from the machine code as it stands now."""
    if arguments.to:
        first, to = targets([arguments.target, arguments.to])
        context.display(views.callgraph(context.session, first, everything=arguments.all, to=to))
        return
    for target in shown(arguments.target):
        context.display(views.callgraph(context.session, target, arguments.depth, arguments.all))


@magic(
    "inline",
    Argument("target", "a function or a cell; without it, the last", "?", completes="target"),
    example="%inline sum",
)
def inline(context: Frontend, arguments: Any) -> None:
    """Functions of others that became part of a cell's code, those that did not, and why.

    A cell is compiled again when a body that it has is redefined.  One that calls a function which
    was too large then goes on to call it when it is smaller: run the cell again to have it inlined.
    """
    for target in shown(arguments.target):
        context.display(views.inlining(context.session, target))


@magic(
    "stack",
    Argument("--after", "show it when code has run for so many seconds, and go on", "", float),
    example="%stack --after 2",
)
def stack(context: Frontend, arguments: Any) -> None:
    """The stack where a cell was stopped last, by a fault or by you: frames, words, registers."""
    session = context.session
    if arguments.after is None:
        context.display(views.stack(session))
        return
    if not arguments.after > 0:
        raise UsageError("%stack: --after takes seconds, more than 0")
    session.frontend.look_after(
        arguments.after, lambda stopped: context.display(views.stack(session))
    )


@magic("threads")
def threads(context: Frontend, arguments: Any) -> None:
    """The threads that the program has started: where they are, in which version of a function."""
    context.display(views.threads(context.session))


@magic(
    "compare",
    Argument("what", "two functions, or one and cells that defined it", "*", completes="target"),
    Argument(
        "-O", "a level; twice, or once against what is", "*", int, choices=LEVELS, value="LEVEL"
    ),
    Argument("--target", "a machine; twice, or once against this one", "*", completes="machine"),
    Argument("--cpu", "the machines' CPU, as LLVM calls it", completes="cpu"),
    Argument("--time", "time a call with these arguments: '7, 3'", value="ARGUMENTS"),
    ALL,
    example="%compare sum -O0 -O2 --time 100",
)
def compare(context: Frontend, arguments: Any) -> None:
    """Two functions, levels, machines or versions side by side, counted and timed."""
    context.display(
        views.compare(
            context.session,
            *targets(arguments.what),
            levels=arguments.O,
            machines=arguments.target,
            cpu=arguments.cpu or "",
            arguments=arguments.time,
            syntax=context.setting("JITKernel.asm_syntax"),
            room=room(arguments),
        )
    )


@magic(
    "explain",
    SHOWN,
    Argument("--syntax", "how to write assembly", choices=("intel", "att")),
    example="%explain sq",
)
def explain(context: Frontend, arguments: Any) -> None:
    """All that became of a function or a cell, from its source to its bytes in the arena."""
    session = context.session
    syntax = arguments.syntax or context.setting("JITKernel.asm_syntax")
    picture = not context.setting("JITKernel.deterministic")
    for target in shown(arguments.target):
        with _telling(context, "explaining", "explained") as progress:
            made = views.explain(session, target, syntax, picture, progress)
        context.display(made)


@magic("timeline", SHOWN, example="%timeline 3")
def timeline(context: Frontend, arguments: Any) -> None:
    """Microseconds of each step of a cell: read, parse, verify, optimise, emit, link, run."""
    picture = not context.setting("JITKernel.deterministic")
    for target in shown(arguments.target):
        context.display(views.timeline(context.session, target, picture))


@magic(
    "passes",
    SHOWN,
    Argument("--step", "one step, by its number or its pass", completes="pass", value="STEP"),
    Argument("--only", "the steps of this pass alone; * and ? allowed", completes="pass"),
    Argument(
        "--stop-after",
        "end after step N, or a pass's last one, and show the IR",
        completes="pass",
        value="STEP",
    ),
    Argument("--loop", "each pass over one loop, by a label of its header", "?", value="HEADER"),
    Argument("-a --all", "metadata, attributes and debug records too", "flag"),
    example="%passes sq --only instcombine",
)
def passes(context: Frontend, arguments: Any) -> None:
    """The passes of the optimiser that changed something, and what: each one's difference, counts
    and time."""
    session, only, stop = context.session, arguments.only or "", arguments.stop_after
    for target in shown(arguments.target):
        with _telling(context, "compiling it again, watched", "watched") as progress:
            if arguments.loop is not None:
                made = views.loop(session, target, arguments.loop, progress)
            else:
                made = views.passes(
                    session, target, only, stop, progress, step=arguments.step,
                    everything=arguments.all,
                )  # fmt: skip
        context.display(made)


@magic(
    "remarks",
    SHOWN,
    Argument("-a --all", "all of them: on each load too", "flag"),
    example="%remarks sum",
)
def remarks(context: Frontend, arguments: Any) -> None:
    """LLVM's remarks beside the lines of the code: inlined, vectorised, hoisted; what not, and
    why."""
    for target in shown(arguments.target):
        with _telling(context, "compiling it again, watched", "watched") as progress:
            made = views.remarks(context.session, target, arguments.all, progress)
        context.display(made)


@magic(
    "mir",
    SHOWN,
    Argument("--isel", "after instruction selection alone", "flag"),
    Argument("--regalloc", "after register allocation alone", "flag"),
    Argument("--final", "as it is emitted alone", "flag"),
    Argument(
        "--live", "before registers are allocated: which are live where, and together", "flag"
    ),
    Argument("--around", "with --live: the instruction that is shown with those near it", type=int),
    ALL,
    example="%mir sq --regalloc",
)
def mir(context: Frontend, arguments: Any) -> None:
    """Machine IR after instruction selection, after register allocation, final; spills marked."""
    stage = one_of(arguments, ("isel", "regalloc", "final", "live"))
    around = arguments.around
    if around is not None and stage != "live":
        raise UsageError("%mir --around shows a part of what --live shows")
    for target in shown(arguments.target):
        with _telling(context, "compiling it again, watched", "watched") as progress:
            if stage == "live":
                made = views.live_ranges(context.session, target, around, progress)
            else:
                made = views.mir(context.session, target, stage, progress, room(arguments))
        context.display(made)


@magic(
    "reproduce",
    Argument("--timeout", "seconds that all cells together may take (60)", "", float, 60.0),
    alone=True,
    example="%reproduce --timeout 300",
)
def reproduce(context: Frontend, arguments: Any) -> None:
    """Run the cells' present text, in order, in a session beside this one, and show what differs
    here: values, definitions that no cell has any more, code. Nothing here changes. A cell stands
    where it was run first. What the cells print is dropped, they get no input, shell commands do
    not run, and what Python did to the program is not done again."""
    if not arguments.timeout > 0:
        raise UsageError("%reproduce: --timeout takes seconds, more than 0")
    with _telling(context, "a fresh run", "") as progress:
        made = views.reproduce(context.session, arguments.timeout, progress)
    context.live(made)


@contextmanager
def _telling(context: Frontend, doing: str, done: str) -> Iterator[Callable[[str], None]]:
    """Tell, in one place, about something that takes more than a moment; in the end how long that
    was, unless what is `done` says so itself."""
    began = last = time.monotonic()
    shown = False

    def progress(what: str) -> None:
        nonlocal last, shown
        now = time.monotonic()
        if now - last >= _EVERY:
            last, shown = now, True
            context.progress(f"{doing}, {now - began:.1f} s: {what}")

    try:
        yield progress
    except (Interrupted, KeyboardInterrupt) as error:
        if view := vars(error).get("view"):  # of what there was until then
            context.display(view)
        raise
    if shown and done:
        context.progress(f"{done} in {time.monotonic() - began:.1f} s")
