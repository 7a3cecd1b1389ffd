"""What a magic is, what it may use, and the registry of all: parser, help and TAB read it.

A `Magic` says everything about itself once: its words, its arguments, what completes them and the
function that does it.  That function gets the `Frontend`, never the kernel.  Which magics there
are is in `magics/__init__`.  Start from `Registry`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from jitkernel.errors import UsageError
from jitkernel.wording import did_you_mean

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend

#: What the values of an argument are; `kernel/arguments.py` offers them.  `symbol` is any name,
#: `target` a name or a cell's number, `code` a call line, `pipeline` a level or names of passes.
Completes = Literal[
    "", "block", "breakpoint", "cell", "code", "cpu", "exercise", "expression", "file", "function",
    "global", "language", "machine", "magic", "pass", "passes", "pipeline", "setting", "size",
    "symbol", "target", "type", "variable",
]  # fmt: skip


#: What is written as a cell of the notebook's language is, and completed by it.
IN_LANGUAGE = frozenset(("code", "expression", "type"))
#: What `-O` takes.
LEVELS = ("0", "1", "2", "3")
#: The names of options' values by what completes them.
_VALUES = {"block": "BLOCK", "machine": "MACHINE", "pass": "PASS", "target": "TARGET"}


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument.  `words` is `target` for a positional one, `-n --number` for an option.

    `take`: "" one value, "?" at most one (an option alone is ""), "*" any number (an option is
    given once for each), "flag" none, "rest" the remaining text exactly as it was typed.  `least`
    and `most` bound a number; `value` is what usage calls an option's value, where neither its kind
    nor the option's name says that.
    """

    words: str
    help: str
    take: Literal["", "?", "*", "flag", "rest"] = ""
    type: Callable[[str], Any] = str
    default: Any = None
    choices: tuple[str, ...] = ()
    completes: Completes = ""
    least: int | None = None
    most: int | None = None
    value: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.words.split())

    @property
    def is_option(self) -> bool:
        return self.words.startswith("-")

    @property
    def title(self) -> str:
        """The name that help has for it: `-n, --number`, or `TARGET`."""
        return ", ".join(self.names) if self.is_option else self.words.upper()

    @property
    def meaning(self) -> str:
        """The help on it, and what it may be."""
        return self.help + (f" ({', '.join(self.choices)})" if self.choices else "")

    @property
    def value_name(self) -> str:
        """The name that usage has for an option's value."""
        kind = "SECONDS" if self.type is float else _VALUES.get(self.completes, self.dest.upper())
        return self.value or kind

    @property
    def dest(self) -> str:
        """The attribute that holds the value."""
        return self.names[-1].lstrip("-").replace("-", "_")


@dataclass(frozen=True, slots=True)
class Magic:
    """One magic.  `call(context, arguments)` does it; a cell magic also gets `arguments.body`."""

    name: str
    help: str
    call: Callable[[Frontend, Any], Any]
    arguments: tuple[Argument, ...] = ()
    aliases: tuple[str, ...] = ()
    form: Literal["line", "cell", "both"] = "line"
    example: str = ""
    alone: bool = False  # it ends the session, so nothing can stand beside it

    @property
    def options(self) -> dict[str, Argument]:
        return {name: a for a in self.arguments if a.is_option for name in a.names}

    @property
    def positional(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if not a.is_option)


def magic(
    name: str, *arguments: Argument, **more: Any
) -> Callable[[Callable[[Frontend, Any], Any]], Magic]:
    """Makes a function a magic; what it says of itself is the magic's help.  `more` as in
    `Magic`."""

    def declare(call: Callable[[Frontend, Any], Any]) -> Magic:
        return Magic(name, " ".join((call.__doc__ or "").split()), call, arguments, **more)

    return declare


class Registry:
    """All magics, those of languages that are added later among them."""

    def __init__(self, magics: Iterable[Magic], language_magic: Callable[[str, str], Magic]):
        self._magics = tuple(magics)
        self._by_name = {n: m for m in self._magics for n in (m.name, *m.aliases)}
        self._language_magic = language_magic

    def __iter__(self) -> Iterator[Magic]:
        return iter(self._magics)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def get(self, name: str) -> Magic | None:
        """The magic of that name or alias; None where there is none."""
        return self._by_name.get(name)

    def get_cell(self, name: str) -> Magic | None:
        """As `get`; also the cell magic of a language that a package or a file has added."""
        if name in self._by_name:
            return self._by_name[name]
        from jitkernel.languages import find, names

        if name not in names():
            return None
        return self._language_magic(name, find(name).display_name or name)

    def find(self, name: str, form: Literal["line", "cell"], language: str = "llvm") -> Magic:
        """The magic called `name`; UsageError names the nearest one, or what to use instead where
        cells are of that language."""
        magic = self.get(name) if form == "line" else self.get_cell(name)
        if magic is None:
            raise UsageError(self._unknown(name, form, language))
        if magic.form not in (form, "both"):
            if form == "line":
                raise UsageError(f"%{name} takes a whole cell: write %%{name} on its first line")
            raise UsageError(f"%%{name} takes no cell: write %{name}")
        return magic

    def _unknown(self, name: str, form: str, language: str) -> str:
        marks, there = "%", ""
        if form == "cell":
            from jitkernel.languages import names

            own = [magic.name for magic in self if magic.form != "line"]
            marks = "%%"
            there = f"; there are {', '.join(f'%%{n}' for n in dict.fromkeys([*own, *names()]))}"
        if name in HABITS:
            habits = HABITS | HABITS_OF_C if language == "c" else HABITS
            return f"{marks}{name} is not here: {habits[name]}{there}"
        lower = name.lower()
        if name != lower in self._by_name:
            words = f"; did you mean {marks}{lower}?"
        else:
            words = did_you_mean(lower, self._by_name, f"{marks}{{}}".format)
        if form == "line" and name in _SHELL:
            where = "in a cell that begins with %%llvm, " if language == "c" else ""
            words = f"; {where}a shell command is !{name}"
        return f"there is no magic {marks}{name}{words or there or '; %help lists what there is'}"


#: Words that people bring from other kernels, and what to use here instead.
_HABITS = {
    "store": "a global keeps its value as long as the session: @name = i64 5",
    "macro": "define a function: define i32 @name(...) { ... }",
    "pip conda": "cells are LLVM IR, not Python; for a shared library: %lib libname.so",
    "matplotlib pylab": "cells are LLVM IR, not Python; values are shown as text and tables",
    "tbreak": "%break --once",
    "unbreak": "%break --delete NUMBER",
    "load_ext": "there are no extensions; for a shared library: %lib libname.so",
    "autoreload": "callers follow a redefined function by themselves; just run the cell again",
    "quit exit": "restart or end the kernel from the client's menu; %reset empties the session",
    "pdb gdb lldb": "%debug is the debugger; %break @name stops in a function",
    "prun": "%timeit @f(...) times a call natively",
    "sql": "cells are LLVM IR",
    "python": "notebooks/write_your_own_language.ipynb adds Python; or: !python3 -c '...'",
    "bash sh": "use !command, one line each",
    "cpp": "cells are LLVM IR, which clang makes from C++: !clang++ -O1 -S -emit-llvm x.cpp",
    "vars": "%symbols",
    "undo_all": "%reset",
    "del xdel": "%evict @name",
    "rerun": "run the cell again; %history lists earlier ones",
    "recall": "%history",
    "save_session": "%history -f FILE writes the sources to a file",
    "edit": "edit the cell and run it again: what it defined is replaced",
    "disassemble": "%asm @name",
    "jit": "every cell is compiled; %%llvm -O3 sets its options",
    "include": "%run FILE.ll",
    "import": "%run FILE.ll runs a file as a cell, %lib libname.so loads a library",
}
#: What is otherwise where cells are C.
_HABITS_OF_C = {
    "store": "a global keeps its value as long as the session: int n = 5;",
    "macro": "define a function, or a macro: #define NAME(x) ...",
    "pip conda": "cells are C, not Python; for a C library: %lib -lNAME and its #include",
    "tbreak": "%break --once",
    "unbreak": "%break --delete NUMBER",
    "matplotlib pylab": "cells are C, not Python; values are shown as text and tables",
    "load_ext": "there are no extensions; for a C library: %lib -lNAME and its #include",
    "pdb gdb lldb": "%debug is the debugger; %break NAME stops in a function",
    "prun": "%timeit NAME(...) times a call natively",
    "sql": "cells are C",
    "python": "cells are C; or in a cell of %%llvm: !python3 -c '...'",
    "bash sh": "a cell that begins with %%llvm takes !command, one line each",
    "cpp": "cells are C; of C++, %link takes the object that g++ -c makes",
    "del xdel": "%evict NAME",
    "disassemble": "%asm NAME",
    "jit": "every cell is compiled; %%c -O3 sets its options",
    "include": '#include "file.h", or %run file.c for a program',
    "import": "%run file.c runs a file as a cell, %lib -lNAME loads a library",
}
#: The same, word by word.
HABITS = {word: use for words, use in _HABITS.items() for word in words.split()}
HABITS_OF_C = {word: use for words, use in _HABITS_OF_C.items() for word in words.split()}

#: What people type with a % elsewhere, and the shell does.
_SHELL = frozenset("ls ll cat cp mv rm mkdir rmdir man less more head tail grep gcc clang".split())
