"""Magics about the growing program: what is in it, taking away, taking back."""

from __future__ import annotations

import os
import shlex
import textwrap
from typing import TYPE_CHECKING, Any

from jitkernel import views
from jitkernel.errors import UsageError
from jitkernel.files import read_text, write_text
from jitkernel.ir.names import bare
from jitkernel.kernel.magics.parsing import CELLS, shown
from jitkernel.kernel.magics.registry import Argument, magic
from jitkernel.wording import counted, cut_list

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend

_NAMES = 1000  # that %who lists
_LINKED = 12  # that %link names
_PATTERN = Argument("pattern", "only names that match, * and ? allowed", "?", completes="symbol")


@magic("cells")
def cells(context: Frontend, arguments: Any) -> None:
    """The cells of the session: what each defines, its size, its state."""
    context.display(views.cells(context.session))


@magic(
    "symbols",
    _PATTERN,
    Argument("-a --all", "also what the session itself defines", "flag"),
    aliases=("whos",),
    example="%symbols sq*",
)
def symbols(context: Frontend, arguments: Any) -> None:
    """The functions and globals of the session: type, size, cell, users."""
    context.display(views.symbols(context.session, arguments.pattern, everything=arguments.all))


@magic("who", _PATTERN)
def who(context: Frontend, arguments: Any) -> None:
    """The names that the session defines."""
    from jitkernel.views import tables

    names = cut_list(tables.symbol_names(context.session, arguments.pattern), _NAMES, "  ")
    lines = textwrap.wrap(names, 74, break_long_words=False, break_on_hyphens=False)
    context.print("\n".join(lines) if names else tables.nothing(arguments.pattern))


@magic(
    "evict",
    CELLS,
    Argument("--cascade", "free everything that uses them too", "flag"),
    Argument("--force", "leave stubs that raise UndefinedSymbol; take variables along", "flag"),
    example="%evict sq --cascade",
)
def evict(context: Frontend, arguments: Any) -> None:
    """Free cells or symbols. Refused while others use them, unless told what to do with those."""
    if not arguments.target:
        raise UsageError("%evict needs a cell or a name: %evict 3, %evict 3-5, %evict sq")
    called = context.session.inspect.program.called
    before = {
        cell.number: ([called(n) for n in cell.names], sum(cell.sizes.values()))
        for cell in context.session.cells
    }
    gone = context.session.evict(
        *arguments.target, cascade=arguments.cascade, force=arguments.force
    )
    for cell in gone:
        names, size = before.get(cell.number, ([], 0))
        what = ", ".join(names)
        context.print(
            f"evicted cell {cell.number}{': ' * bool(what)}{what}, {counted(size, 'byte')}"
        )


@magic(
    "deps",
    Argument("target", "a cell's number or a name", "?", completes="target"),
    example="%deps sq",
)
def deps(context: Frontend, arguments: Any) -> None:
    """Show what a cell uses, who uses it, and what evicting it would break; without one, of all."""
    for target in shown(arguments.target):
        context.display(views.deps(context.session, target))


@magic(
    "undo",
    Argument("what", "how many runs, or a name: the last that defined it", "?", completes="symbol"),
    Argument("-c --cell", "the run of this cell alone", "", int, completes="cell"),
    Argument("--cascade", "the later runs that build on it too", "flag"),
    Argument("-l --list", "show what can be undone", "flag"),
    example="%undo --cell 5",
)
def undo(context: Frontend, arguments: Any) -> None:
    """Take back the last runs, or one of them: definitions and the values of globals."""
    if arguments.list:
        from jitkernel.views.tables import undo as view

        context.display(view(context.session))
        return
    what, cell, name = arguments.what, arguments.cell, ""
    if what is not None and cell is not None:
        raise UsageError("%undo takes a number of runs, a name, or --cell N: one of them")
    if what is not None and not what.isdigit():
        if not (what.startswith("@") or what in context.session.symbols) or not bare(what):
            raise UsageError(
                f"%undo {what}: a number of runs, or a name that a run has defined; --cell N for "
                "one cell's run"
            )
        name, what = bare(what), None
    said = context.session.undo(int(what or 1), cell=cell, name=name, cascade=arguments.cascade)
    for sentence in said:
        context.print(sentence)


@magic("redo", Argument("count", "how many", "?", int, 1))
def redo(context: Frontend, arguments: Any) -> None:
    """Do again what %undo took back, until something new is run."""
    for sentence in context.session.redo(arguments.count):
        context.print(sentence)


@magic("reset", Argument("-f --force", "do not ask", "flag"))
def reset(context: Frontend, arguments: Any) -> None:
    # As IPython's: a notebook that is run by no one may reset, and says so by its cell.
    """Evict every cell and forget results and undo; loaded libraries stay. Asks first, where the
    client can be asked."""
    if not arguments.force and context.session.cells:
        if not context.confirm("What is evicted cannot be brought back. Proceed?", unasked=True):
            context.print("Nothing was done.")
            return
    context.session.reset()
    context.print("The session is empty. Loaded libraries and the program's heap stay.")


@magic(
    "run",
    Argument("file", "a file of LLVM IR, C or Kaleidoscope; or main", completes="file"),
    Argument("arguments", "what main gets", "rest"),
    example="%run main 3 4",
)
def run(context: Frontend, arguments: Any) -> Any:
    """Run a file as a cell; then the main function that it defines, with arguments, and say its
    exit status. `%run main` does so with the one that there is. Headers in quotation marks are
    looked for beside the file."""
    from jitkernel.kernel.program_main import cell_of_main, run_main
    from jitkernel.languages import of_file

    try:
        words = shlex.split(arguments.arguments or "")
    except ValueError as error:
        raise UsageError(f"%run: {error}") from None
    path, ran = os.path.expanduser(arguments.file), arguments.file == "main"
    before = cell_of_main(context)
    if not (ran and before):
        if path.endswith(".so") or ".so." in os.path.basename(path):
            raise UsageError(f"{path} is a shared library: %lib {path}")
        if ran and not os.path.exists(path):
            raise UsageError("%run main: no cell defines a function main, and no file is called so")
        source = read_text(path, "%run: ")
        context.run_file(source, of_file(path), path)
        ran = cell_of_main(context) not in (0, before)
        if words and not ran:
            raise UsageError(f"%run: {path} defines no main, which would get the arguments")
    if ran:
        context.print(f"exit status {run_main(context, [arguments.file, *words])}")


@magic(
    "lib",
    Argument("name", "a file, or a name that the loader finds", "?", completes="file"),
    Argument(
        "-l", "a library as a linker finds it: -lz is libz.so, or else libz.a", "?", value="NAME"
    ),
    example="%lib -lz",
)
def library(context: Frontend, arguments: Any) -> None:
    """Load a shared library into the executor; its functions can then be declared. -lNAME finds it
    in the system's folders and those of LIBRARY_PATH."""
    if (arguments.name is None) == (arguments.l is None):
        raise UsageError("%lib takes one library: %lib libz.so.1, %lib ./mine.so or %lib -lz")
    name = f"-l{arguments.l}" if arguments.l else os.path.expanduser(arguments.name)
    found = context.session.load(name)
    context.print(f"{name} is loaded; its functions can be declared and called.")
    if found:
        context.print(
            "It defines what was missing: "
            + ", ".join(map(context.session.inspect.program.called, found))
        )


@magic("load", Argument("name", "a shared library", completes="file"))
def load(context: Frontend, arguments: Any) -> None:
    """Load a shared library, as %lib does."""
    name = arguments.name
    if ".so" not in name and not name.startswith("lib"):
        raise UsageError(f"%load loads shared libraries; to run a file as a cell: %run {name}")
    context.print("(%load is %lib here)")
    arguments.l = None
    library.call(context, arguments)


@magic(
    "link",
    Argument("file", "an ELF object for x86-64, or an archive of them", completes="file"),
    Argument("--whole", "of an archive all members, not just those that are used", "flag"),
    example="%link libfast.a",
)
def link(context: Frontend, arguments: Any) -> None:
    """Link an object file (.o) or an archive (.a) into the session. Of an archive, members are
    linked when something uses what they define."""
    from jitkernel.session.run.results import StreamsOf

    result = context.session.link(os.path.expanduser(arguments.file), arguments.whole)
    if isinstance(context.session.sink, StreamsOf):  # else the cell that this is in has told them
        for note in result.notes:
            context.note(note)
    if result.cell is not None:
        names = [*map(context.session.inspect.program.called, result.cell.names)]
        defined = cut_list(names, _LINKED) or "nothing"
        context.print(f"{arguments.file} is cell {result.cell.number}; it defines {defined}")


@magic(
    "history",
    Argument("-n", "the last N cells, of earlier sessions too", "", int),
    Argument("-g --search", "cells that contain TEXT, of earlier sessions too", value="TEXT"),
    Argument("-f --file", "write them to a new file", completes="file"),
    aliases=("hist",),
)
def history(context: Frontend, arguments: Any) -> None:
    """The sources of this session's cells."""
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
        write_text(arguments.file, text + "\n", "%history: ", new=True)
        context.print(f"{counted(len(texts), 'cell')} written to {arguments.file}")
    else:
        context.print(text or "no cells yet")
