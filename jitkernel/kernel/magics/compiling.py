"""Magics about compiling: options of a cell, its IR and its machine code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jitkernel.kernel.magics.inspecting import one_of
from jitkernel.kernel.magics.program import targets
from jitkernel.kernel.magics.table import Argument, Magic
from jitkernel.kernel.magics.targets import SHOWN

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend
    from jitkernel.session import CellOptions

__all__ = ["COMPILE_OPTIONS", "MAGICS"]


def ir(frontend: Frontend, arguments: Any) -> None:
    from jitkernel.views.ir import ir as view

    stage = one_of(arguments, ("raw", "opt", "diff"))
    for target in targets([arguments.target]) if arguments.target else [None]:
        frontend.display(view(frontend.session, target, stage))


def asm(frontend: Frontend, arguments: Any) -> None:
    from jitkernel.errors import UsageError
    from jitkernel.views.asm import asm as view
    from jitkernel.views.foreign import foreign, unplaced

    session, body = frontend.session, getattr(arguments, "body", None)
    level = None if arguments.O is None else int(arguments.O)
    syntax = "att" if arguments.att else "intel" if arguments.intel else arguments.syntax
    syntax = syntax or frontend.setting("JITKernel.asm_syntax")
    if body is not None:
        if arguments.what:
            raise UsageError("%%asm takes the cell below it; for what is defined: %asm")
        level = session.settings.opt_level if level is None else level
        machine = arguments.target or "x86_64"
        frontend.display(unplaced(session, body, machine, arguments.cpu or "", level, syntax))
        return
    if not arguments.target and (arguments.cpu or level is not None):
        raise UsageError("%asm shows what is in memory; --cpu and -O go with --target")
    for target in targets([arguments.what]) if arguments.what else [None]:
        if arguments.target:
            shown = foreign(session, target, arguments.target, arguments.cpu or "", level, syntax)
        else:
            shown = view(session, target, syntax=syntax, lines=not arguments.no_lines)
        frontend.display(shown)


def object_file(frontend: Frontend, arguments: Any) -> None:
    from jitkernel.views.object import object as view

    for target in targets([arguments.target]) if arguments.target else [None]:
        frontend.display(view(frontend.session, target))


def cfg(frontend: Frontend, arguments: Any) -> None:
    from jitkernel.views.cfg import cfg as view

    level = None if arguments.O is None else int(arguments.O)
    for target in targets([arguments.target]) if arguments.target else [None]:
        shown = view(
            frontend.session, target, raw=arguments.raw, level=level,
            around=arguments.around or "", depth=arguments.depth,
        )  # fmt: skip
        frontend.display(shown)


def callgraph(frontend: Frontend, arguments: Any) -> None:
    from jitkernel.views.callgraph import callgraph as view

    for target in targets([arguments.target]) if arguments.target else [None]:
        frontend.display(view(frontend.session, target, arguments.depth))


def stack(frontend: Frontend, arguments: Any) -> None:
    from jitkernel.errors import UsageError
    from jitkernel.views.stack import stack as view

    session = frontend.session
    if arguments.after is None:
        frontend.display(view(session))
        return
    if not arguments.after > 0:
        raise UsageError("%stack: --after takes seconds, more than 0")
    session.look_after(arguments.after, lambda stopped: frontend.display(view(session)))


def compare(frontend: Frontend, arguments: Any) -> None:
    from jitkernel.views.compare import compare as view

    frontend.display(
        view(
            frontend.session,
            *targets(arguments.what),
            levels=[int(level) for level in arguments.O],
            machines=arguments.target,
            cpu=arguments.cpu or "",
            arguments=arguments.time,
            syntax=frontend.setting("JITKernel.asm_syntax"),
        )
    )


def llvm(frontend: Frontend, arguments: Any) -> Any:
    return frontend.execute(arguments.body, arguments.cell_id, cell_options(arguments), "llvm")


def cell_options(arguments: Any) -> CellOptions:
    """The options of `%%llvm` as the session takes them."""
    from jitkernel.compiler.passes import canonical
    from jitkernel.session import CellOptions

    return CellOptions(
        opt_level=None if arguments.O is None else int(arguments.O),
        cpu=arguments.cpu or "",
        closed=arguments.closed,
        ignore_optnone=arguments.ignore_optnone,
        retype=arguments.retype,
        keep_data=arguments.keep_data,
        passes=canonical(arguments.passes) if arguments.passes else "",
        fresh=arguments.fresh,
        keep_cpu=arguments.keep_cpu,
    )


COMPILE_OPTIONS = (
    Argument("-O", "optimisation level", choices=("0", "1", "2", "3")),
    Argument(
        "--passes", "passes to run instead of a level's, with commas between", completes="passes"
    ),
    Argument("--cpu", "the CPU to compile for", completes="cpu"),
    Argument("--closed", "let LLVM inline and fold exported symbols within the cell", "flag"),
    Argument("--ignore-optnone", "drop optnone, which clang -O0 puts on functions", "flag"),
    Argument("--keep-cpu", "compile for the CPU that pasted functions name by default", "flag"),
    Argument("--retype", "replace functions of another type; callers raise TypeMismatch", "flag"),
    Argument("--keep-data", "globals defined again keep their values", "flag"),
    Argument("--fresh", "compile it anew, also where the object cache has it", "flag"),
)

MAGICS = (
    Magic(
        "ir",
        "The LLVM IR of a function or a cell, as it was given to the compiler.",
        ir,
        (
            SHOWN,
            Argument("--raw", "as LLVM has it before its first pass", "flag"),
            Argument("--opt", "after its last pass", "flag"),
            Argument("--diff", "what the passes changed", "flag"),
        ),
        example="%ir @sq --opt",
    ),
    Magic(
        "asm",
        "Machine code as it stands in the arena, or with --target as it would be elsewhere.",
        asm,
        (
            Argument(
                "what", "a function or a cell; without it, the last cell", "?", completes="target"
            ),
            Argument("--syntax", "how to write it", choices=("intel", "att")),
            Argument("--intel", "the same as --syntax intel", "flag"),
            Argument("--att", "the same as --syntax att", "flag"),
            Argument("--no-lines", "leave the cell's lines out", "flag"),
            Argument(
                "--target",
                "another machine: aarch64, riscv64, ..., or a triple",
                completes="machine",
            ),
            Argument("--cpu", "its CPU, as LLVM calls it; with --target", completes="cpu"),
            Argument("-O", "optimisation level; with --target", choices=("0", "1", "2", "3")),
        ),
        aliases=("dis",),
        form="both",
        example="%asm @sq --target riscv64",
    ),
    Magic(
        "object",
        "A cell's relocatable object, and what the linker made of each relocation.",
        object_file,
        (SHOWN,),
        example="%object @sq",
    ),
    Magic(
        "cfg",
        "Control flow of a function: its blocks and where each can go next.",
        cfg,
        (
            SHOWN,
            Argument("--raw", "as the cell is written, before any pass", "flag"),
            Argument("-O", "as this optimisation level has it", choices=("0", "1", "2", "3")),
            Argument("--around", "draw the blocks around this one, such as %loop"),
            Argument("--depth", "draw so many edges around it, or around the entry", "", int),
        ),
        example="%cfg @sum --raw",
    ),
    Magic(
        "callgraph",
        "Who calls whom, read from the machine code as it stands now.",
        callgraph,
        (
            Argument(
                "target",
                "a function or a cell: what it reaches and who reaches it; without it, all",
                "?",
                completes="target",
            ),
            Argument("--depth", "only what is so many calls away from it", "", int),
        ),
        example="%callgraph @sum --depth 2",
    ),
    Magic(
        "stack",
        "The stack where a cell was stopped last, by a fault or by you: frames, words, registers.",
        stack,
        (
            Argument(
                "--after", "show it when code has run for so many seconds, and go on", "", float
            ),
        ),
        example="%stack --after 2",
    ),
    Magic(
        "compare",
        "Two functions, levels, machines or versions side by side, counted and timed.",
        compare,
        (
            Argument(
                "what", "two functions, or one and cells that defined it", "*", completes="target"
            ),
            Argument("-O", "a level; twice, or once against what is", "*", choices=tuple("0123")),
            Argument(
                "--target", "a machine; twice, or once against this one", "*", completes="machine"
            ),
            Argument("--cpu", "the machines' CPU, as LLVM calls it", completes="cpu"),
            Argument("--time", "time a call with these arguments: '7, 3'"),
        ),
        example="%compare @sum -O0 -O2 --time 100",
    ),
    Magic(
        "llvm",
        "Run the rest of the cell with options of its own.",
        llvm,
        COMPILE_OPTIONS,
        form="cell",
        example="%%llvm -O3 --closed",
    ),
)
