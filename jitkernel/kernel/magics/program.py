"""Magics about the growing program: what is in it, taking away, taking back."""

from __future__ import annotations

import os
import textwrap
from typing import Any

from jitkernel.errors import UsageError
from jitkernel.files import read_text
from jitkernel.ir.names import bare, written
from jitkernel.kernel.magics.parsing import CELLS
from jitkernel.kernel.magics.registry import Argument, Magic, MagicContext

__all__ = ["MAGICS"]


def cells(context: MagicContext, arguments: Any) -> None:
    from jitkernel.views import tables

    context.display(tables.cells(context.session))


def symbols(context: MagicContext, arguments: Any) -> None:
    from jitkernel.views import tables

    context.display(tables.symbols(context.session, arguments.pattern, everything=arguments.all))


def who(context: MagicContext, arguments: Any) -> None:
    from jitkernel.views import tables

    names = tables.symbol_names(context.session, arguments.pattern)
    lines = textwrap.wrap("  ".join(names), 74, break_long_words=False, break_on_hyphens=False)
    context.print("\n".join(lines) if names else tables.nothing(arguments.pattern))


def evict(context: MagicContext, arguments: Any) -> None:
    if not arguments.target:
        raise UsageError("%evict needs a cell or a name: %evict 3, %evict 3-5, %evict @sq")
    before = {cell.number: (cell.names, sum(cell.sizes.values())) for cell in context.session.cells}
    gone = context.session.evict(
        *arguments.target, cascade=arguments.cascade, force=arguments.force
    )
    for cell in gone:
        names, size = before.get(cell.number, ([], 0))
        what = ", ".join(map(written, names))
        context.print(f"evicted cell {cell.number}{': ' * bool(what)}{what}, {size} bytes")


def deps(context: MagicContext, arguments: Any) -> None:
    from jitkernel.views import deps as view

    target = arguments.target
    context.display(view(context.session, int(target) if target and target.isdigit() else target))


def undo(context: MagicContext, arguments: Any) -> None:
    if arguments.list:
        from jitkernel.views.undo import undo as view

        context.display(view(context.session))
        return
    what, cell = arguments.what, arguments.cell
    if what is not None and cell is not None:
        raise UsageError("%undo takes a number of runs, a name, or --cell N: one of them")
    if what is not None and not what.isdigit():
        if not what.startswith("@") or not bare(what):
            raise UsageError(
                f"%undo {what}: a number of runs, or a name as @name; --cell N for one cell's run"
            )
        said = context.session.undo(
            name=bare(what), cascade=arguments.cascade, partial=arguments.partial
        )
    elif cell is not None:
        said = context.session.undo(cell=cell, cascade=arguments.cascade, partial=arguments.partial)
    else:
        said = context.session.undo(int(what or 1), partial=arguments.partial)
    for sentence in said:
        context.print(sentence)


def redo(context: MagicContext, arguments: Any) -> None:
    for sentence in context.session.redo(arguments.count, partial=arguments.partial):
        context.print(sentence)


def reset(context: MagicContext, arguments: Any) -> None:
    # As IPython's: a notebook that is run by no one may reset, and says so by its cell.
    if not arguments.force and context.session.cells:
        if not context.confirm("What is evicted cannot be brought back. Proceed?", unasked=True):
            context.print("Nothing was done.")
            return
    context.session.reset()
    context.print("The session is empty. Loaded libraries and the program's heap stay.")


def run(context: MagicContext, arguments: Any) -> Any:
    from jitkernel.languages import of_file

    path = os.path.expanduser(arguments.file)
    if path.endswith(".so") or ".so." in os.path.basename(path):
        raise UsageError(f"{path} is a shared library: %lib {path}")
    source = read_text(path, "%run: ")
    context.run_nested(source, of_file(path))


def library(context: MagicContext, arguments: Any) -> None:
    found = context.session.load(os.path.expanduser(arguments.name))
    context.print(f"{arguments.name} is loaded; its functions can be declared and called.")
    if found:
        context.print("It defines what was missing: " + ", ".join(map(written, found)))


def load(context: MagicContext, arguments: Any) -> None:
    name = arguments.name
    if ".so" not in name and not name.startswith("lib"):
        raise UsageError(f"%load loads shared libraries; to run a file as a cell: %run {name}")
    context.print("(%load is %lib here)")
    library(context, arguments)


def link(context: MagicContext, arguments: Any) -> None:
    result = context.session.link(os.path.expanduser(arguments.file))
    for note in result.notes:
        context.note(note)
    if result.cell is not None:
        names = ", ".join(map(written, result.cell.names)) or "nothing"
        context.print(f"{arguments.file} is cell {result.cell.number}; it defines {names}")


def history(context: MagicContext, arguments: Any) -> None:
    if arguments.search:
        pattern = arguments.search
        if not any(c in pattern for c in "*?["):
            pattern = f"*{pattern}*"
        found = context.history.search(pattern, arguments.n or 20, unique=True)
    elif arguments.n:
        found = context.history.tail(arguments.n)
    else:
        found = context.history.range()
    texts = [f"; [{line}]\n{source}" for _, line, source in found]
    text = "\n\n".join(texts)
    if arguments.file:
        try:
            with open(arguments.file, "x", encoding="utf-8") as file:
                file.write(text + "\n")
        except OSError as error:
            raise UsageError(f"%history: {arguments.file}: {error.strerror}") from None
        except ValueError as error:
            raise UsageError(f"%history: {arguments.file}: {error}") from None
        context.print(f"{len(texts)} cells written to {arguments.file}")
    else:
        context.print(text or "no cells yet")


_PATTERN = Argument("pattern", "only names that match, * and ? allowed", "?", completes="symbol")

MAGICS = (
    Magic("cells", "The cells of the session: what each defines, its size, its state.", cells),
    Magic(
        "symbols",
        "The functions and globals of the session: type, size, cell, users.",
        symbols,
        (_PATTERN, Argument("-a --all", "also what the session itself defines", "flag")),
        aliases=("whos",),
        example="%symbols sq*",
    ),
    Magic("who", "The names that the session defines.", who, (_PATTERN,)),
    Magic(
        "evict",
        "Free cells or symbols. Refused while others use them, unless told what to do with those.",
        evict,
        (
            CELLS,
            Argument("--cascade", "free everything that uses them too", "flag"),
            Argument("--force", "leave stubs: a call to one raises UndefinedSymbol", "flag"),
        ),
        example="%evict @sq --cascade",
    ),
    Magic(
        "deps",
        "What a cell uses, who uses it, and what evicting it would break; without one, of all.",
        deps,
        (Argument("target", "a cell's number or a name", "?", completes="target"),),
        example="%deps @sq",
    ),
    Magic(
        "undo",
        "Take back the last runs, or one of them: definitions and the values of globals.",
        undo,
        (
            Argument(
                "what", "how many runs, or @name: the last that defined it", "?", completes="symbol"
            ),
            Argument("-c --cell", "the run of this cell alone", "", int, completes="cell"),
            Argument("--cascade", "the later runs that build on it too", "flag"),
            Argument("--partial", "leave data of which too much was written as it is", "flag"),
            Argument("-l --list", "show what can be undone", "flag"),
        ),
        example="%undo --cell 5",
    ),
    Magic(
        "redo",
        "Do again what %undo took back, until something new is run.",
        redo,
        (
            Argument("count", "how many", "?", int, 1),
            Argument("--partial", "as for %undo", "flag"),
        ),
    ),
    Magic(
        "reset",
        "Evict every cell and forget results and undo; loaded libraries stay. Asks first, where the"
        " client can be asked.",
        reset,
        (Argument("-f --force", "do not ask", "flag"),),
    ),
    Magic(
        "run",
        "Run a file as a cell.",
        run,
        (Argument("file", "a file of LLVM IR", completes="file"),),
        example="%run sort.ll",
    ),
    Magic(
        "lib",
        "Load a shared library into the executor; its functions can then be declared.",
        library,
        (Argument("name", "a file, or a name that the loader finds", completes="file"),),
        example="%lib libz.so.1",
    ),
    Magic(
        "load",
        "Load a shared library, as %lib does.",
        load,
        (Argument("name", "a shared library", completes="file"),),
    ),
    Magic(
        "link",
        "Link a relocatable object file (.o) into the session.",
        link,
        (Argument("file", "an ELF object for x86-64", completes="file"),),
        example="%link fast.o",
    ),
    Magic(
        "history",
        "The sources of this session's cells.",
        history,
        (
            Argument("-n", "the last N cells, of earlier sessions too", "", int),
            Argument("-g --search", "cells that contain TEXT, of earlier sessions too"),
            Argument("-f --file", "write them to a new file", completes="file"),
        ),
        aliases=("hist",),
    ),
)
