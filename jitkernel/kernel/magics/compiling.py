"""Magics about how a cell is compiled: its language, its options, its passes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jitkernel.errors import CompileError, UsageError
from jitkernel.kernel.magics.parsing import targets
from jitkernel.kernel.magics.registry import LEVELS, Argument, Magic, magic
from jitkernel.transform.examples import ANALYSES, PASSES

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend
    from jitkernel.session import CellOptions

_KEEP_CPU = Argument(
    "--keep-cpu", "compile for the CPU that pasted functions name by default", "flag"
)
_SANITIZE = Argument(
    "--sanitize",
    "stop where C leaves undefined what happens: overflow, shifts, divisions, indices of arrays,"
    " null and misaligned pointers, values that a type does not have; not found: pointers beyond"
    " their array, memory from malloc that is too small or freed, variables without a value",
    "flag",
)
_INLINE = Argument(
    "--inline", "whether LLVM puts functions and constants of cells into their callers",
    choices=("on", "off"), value="on|off",
)  # fmt: skip


def _example(names: tuple[str, ...]) -> Argument:
    help = "run one that comes with jitkernel, and show how it is written"
    return Argument("--example", help, choices=names, value="NAME")


_INLINES = ("--inline=on", "--inline=off")
COMPILE_OPTIONS = (
    Argument("-O", "optimisation level", type=int, choices=LEVELS, value="LEVEL"),
    Argument(
        "--passes", "passes to run instead of a level's, with commas between", completes="passes"
    ),
    Argument("--cpu", "the CPU to compile for", completes="cpu"),
    _INLINE,
    Argument("--closed", "let LLVM inline and fold exported symbols within the cell", "flag"),
    Argument("--ignore-optnone", "drop optnone, which clang -O0 puts on functions", "flag"),
    _KEEP_CPU,
    Argument("--retype", "replace functions of another type; callers raise TypeMismatch", "flag"),
    Argument("--keep-data", "globals defined again keep their values", "flag"),
    Argument(
        "--regalloc",
        "LLVM's register allocator: fast, block by block, as at -O0, or greedy",
        choices=("greedy", "fast"),
        value="greedy|fast",
    ),
    Argument("--fresh", "compile it anew, also where the object cache has it", "flag"),
)


@magic("llvm", *COMPILE_OPTIONS, form="cell", example="%%llvm -O3 --closed")
def llvm(context: Frontend, arguments: Any) -> Any:
    """Run the rest of the cell as LLVM IR, with options of its own."""
    return context.execute(arguments.body, arguments.cell_id, cell_options(arguments), "llvm")


def cell_options(arguments: Any) -> CellOptions:
    """The options of `%%llvm` as the session takes them."""
    from jitkernel.compiler.passes import canonical
    from jitkernel.session import CellOptions

    given = {
        k: v for k, v in vars(arguments).items() if k not in ("O", "body", "cell_id", "typed") and v
    }
    if arguments.passes:
        given["passes"] = canonical(arguments.passes)
    return CellOptions(opt_level=arguments.O, **given)


def language_magic(name: str, shown: str) -> Magic:
    """`%%name`: the rest of the cell in that language."""

    def call(context: Frontend, arguments: Any) -> Any:
        options = cell_options(arguments)
        return context.execute(arguments.body, arguments.cell_id, options, name)

    help = f"Run the rest of the cell as {shown}, in the same program as all other cells."
    own = (_SANITIZE,) if name == "c" else ()
    return Magic(name, help, call, (*COMPILE_OPTIONS, *own), form="cell")


c = language_magic("c", "C: any mixture of includes, types, functions, variables and statements")
kaleidoscope = language_magic("kaleidoscope", "Kaleidoscope, the language of LLVM's tutorial")


@magic(
    "language",
    Argument("file", "a Python file", "?", completes="file"),
    example="%language forth.py",
)
def language(context: Frontend, arguments: Any) -> None:
    """The languages that cells can be written in; with a Python file, add the one that it names
    LANGUAGE."""
    from jitkernel import languages
    from jitkernel.views.view import table

    if arguments.file:
        found = languages.load_file(arguments.file)
        context.print(f"%%{found.name} cells are read by {arguments.file} now")
        return
    default = context.setting("JITKernel.default_language")
    rows = []
    for name in languages.names():
        found = languages.find(name)
        use = "every cell without %%" if name == default else f"%%{name}"
        rows.append((name, found.display_name or name, use, found.file_extension))
    context.display(table("Languages of cells", ("name", "language", "used by", "files"), rows))


_NAME = Argument("name", "the function's name, or a name for the one function there is", "?")
_ON = Argument("--on", "the cell or function to run it on; else the last cell", completes="target")
_TIMEOUT = Argument("--timeout", "seconds until it is stopped", "", float, 10.0)


@magic(
    "pass",
    _NAME,
    _ON,
    Argument("--last", "after LLVM's passes instead of before them", "flag"),
    Argument(
        "--time",
        'a call to compare and time with both codes: "@f(3)"',
        completes="code",
        value="CALL",
    ),
    Argument("--keep", "let the new code stay in place of the old", "flag"),
    _TIMEOUT,
    _example(PASSES),
    form="cell",
    example='%%pass no-neg --on f --time "@f(3)"',
)
def python_pass(context: Frontend, arguments: Any) -> None:
    """A pass in Python: a function of the `module`, of each `function` of it, or of its `text`,
    that changes it or returns another; its diff, LLVM's verdict, and what it did to the code. All
    of `jitkernel.ir.model` is there without an import: functions have blocks, blocks instructions,
    those operands and users; TAB completes the names, Shift-TAB explains them."""
    from jitkernel.kernel.verdicts import effect_view
    from jitkernel.transform import apply_pass

    name, code, target = _own_code(context, "pass", arguments)
    effect = apply_pass(
        context.session,
        code,
        name,
        target,
        last=arguments.last,
        call=arguments.time or "",
        keep=arguments.keep,
        timeout=arguments.timeout,
    )
    context.display(effect_view(effect))
    if effect.complaint:
        raise CompileError(
            f"the pass {effect.name} left a module that LLVM refuses; cell {effect.cell} is as "
            f"it was\n{effect.complaint}"
        )


@magic(
    "analysis",
    _NAME,
    _ON,
    Argument("--last", "of the IR that LLVM's passes left instead of what they got", "flag"),
    _TIMEOUT,
    _example(ANALYSES),
    form="cell",
    example="%%analysis live --on f",
)
def python_analysis(context: Frontend, arguments: Any) -> None:
    """An analysis in Python: a function of the `module`, of each `function` of it, or of its
    `text`, that returns or yields text and rows (dicts), which are shown; nothing is changed. It
    sees what a pass sees: `%%pass?`."""
    from jitkernel.kernel.verdicts import analysis_view
    from jitkernel.transform import analyse

    name, code, target = _own_code(context, "analysis", arguments)
    last, timeout = arguments.last, arguments.timeout
    found = analyse(context.session, code, name, target, last=last, timeout=timeout)
    context.display(analysis_view(found))


def _own_code(context: Frontend, what: str, arguments: Any) -> tuple[str, str, int | str | None]:
    """Name, code and target of a pass or an analysis: the cell's, or an example's, which is
    shown."""
    from jitkernel.transform.examples import source
    from jitkernel.views.view import folding, listing

    target, *others = targets([arguments.on]) if arguments.on else [None]
    if others:
        raise UsageError(f"%%{what} runs on one cell or function at a time, not on {arguments.on}")
    if not arguments.example:
        if not arguments.name:
            raise UsageError(
                f"%%{what} needs the NAME of a function in the cell, or --example NAME"
            )
        return arguments.name, arguments.body, target
    if arguments.body.strip():
        raise UsageError(f"%%{what} --example runs what is there already: leave the cell empty")
    code = source(arguments.example)
    context.display(folding(f"{arguments.example}.py", listing("", code)))
    return arguments.example, code, target


@magic(
    "opt",
    Argument(
        "pipeline",
        "-O0 to -O3, or names of passes with commas between",
        "rest",
        completes="pipeline",
    ),
    _KEEP_CPU,
    _SANITIZE,
    _INLINE,
    example="%opt sroa,instcombine,simplifycfg",
)
def opt(context: Frontend, arguments: Any) -> None:
    """The level or the passes for this cell, above its code; alone in a cell, for all to come."""
    core, words = context.session.frontend.core, (arguments.pipeline or "").split()
    flags = {"keep_cpu": "--keep-cpu", "sanitize": "--sanitize"}
    given: dict[str, Any] = {
        name: True for name, flag in flags.items() if getattr(arguments, name) or flag in words
    }
    inline = arguments.inline or next((w[9:] for w in words if w in _INLINES), "")
    words = [word for word in words if word not in flags.values() and word not in _INLINES]
    if not words and not given and not inline:
        settings = context.session.settings
        calls = "" if settings.inlining else ", and nothing is inlined"
        how = settings.passes or f"-O{settings.opt_level}"
        context.print(f"cells are optimised with {how}{calls}")
        return
    level, names = pipeline(" ".join(words)) if words else (None, "")
    if core.cell_options is not None:  # above the code of a cell: for that one
        if words:
            given |= {"opt_level": level, "passes": names}
        if inline:
            given["inline"] = inline
        core.cell_options = replace(core.cell_options, **given)
        return
    for name in given:
        raise UsageError(f"%opt {flags[name]} is for one cell: write it above the cell's code")
    if inline:
        context.configure("Compiler.inlining", inline == "on")
        context.print(
            f"functions of cells are {'' if inline == 'on' else 'not '}inlined from now on"
        )
    if not words:
        return
    if level is not None:
        context.configure("Compiler.opt_level", level)
    context.configure("Compiler.passes", names)
    context.print(f"cells are optimised with {names or f'-O{level}'} from now on")


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
