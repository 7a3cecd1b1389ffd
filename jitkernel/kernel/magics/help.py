"""Magics that help: what there is, in groups, and the words of the field."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from jitkernel.errors import UsageError
from jitkernel.kernel.magics.glossary import WORDS, explained
from jitkernel.kernel.magics.parsing import help_text, usage
from jitkernel.kernel.magics.registry import Argument, Magic, magic
from jitkernel.views.view import View, join, listing, paragraph, table

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend

__all__ = ["grouped"]

CELLS = """\
define i32 @sq(i32 %x) { ... }   define a function; running the cell again replaces it
@sq(7)                           call it and show the result
%y = add i32 40, 2               bare instructions run once; the last value is shown
@n = i64 5                       make a global, or store into one
@n                               show it; @n? inspects, @n?? adds IR and assembly
!command                         run a shell command"""


_REST = "The rest"
_GROUPS = {
    "Every day": "cells symbols who asm ir time timeit undo evict reset run history help",
    "What became of the code": "explain cfg passes compare mir object callgraph timeline stack",
    "How a cell is compiled": "llvm opt pass language kaleidoscope",
    "The session": "redo deps gc save restore",
    "Memory": "memory arena watch budget keep hibernate context",
    "Libraries, files, folders": "lib load link writefile cd pwd env",
    "Exercises": "check exercise",
    _REST: "config clear lsmagic quickref",
}


def grouped(magics: Iterable[Magic]) -> list[tuple[str, list[Magic]]]:
    """Every magic once: titles, each with its magics; those that no group names are the rest."""
    left = {magic.name: magic for magic in magics}
    found = [
        (title, [left.pop(name) for name in names.split() if name in left])
        for title, names in _GROUPS.items()
    ]
    found[-1][1].extend(left.values())
    return [(title, members) for title, members in found if members]


@magic("help", Argument("topic", "a magic, a name, a word", "rest", completes="magic"))
def help(context: Frontend, arguments: Any) -> None:
    """What there is, or help on one magic, a name, or a word such as predecessor."""
    topic = arguments.topic
    if topic:
        magic = context.magics.get(topic.lstrip("%"))
        view = listing("", help_text(magic)) if magic else context.look_up(topic)
        if view is None and (words := explained(topic)):
            view = _wrapped(words)
        if view is None:
            raise UsageError(f"no help for {topic}")
        context.display(view)
        return
    tables = [
        table(title, ("magic", "what it does", "how"), [_row(m) for m in members])
        for title, members in grouped(context.magics)
    ]
    glossary = _wrapped(f"%help WORD says what a word means: {', '.join(WORDS)}.")
    context.display(join([listing("Cells", CELLS), *tables, glossary]))


@magic("lsmagic")
def lsmagic(context: Frontend, arguments: Any) -> None:
    """The names of all magics."""
    magics = [m for _, members in grouped(context.magics) for m in members]
    line = "  ".join("%" + m.name for m in magics if m.form != "cell")
    cell = "  ".join("%%" + m.name for m in magics if m.form != "line")
    context.print(f"{line}\n{cell}\n%name? helps.")


@magic("quickref")
def quickref(context: Frontend, arguments: Any) -> None:
    """One page of everything."""
    width = max(len(usage(m)) for m in context.magics if len(usage(m)) < 60)
    lines = [CELLS, ""]
    for title, members in grouped(context.magics):
        lines += [title, ""]
        for member in members:
            how = usage(member).removeprefix("usage: ")
            lines.append(f"{how:<{width}}  {_first_sentence(member.help)}")
        lines.append("")
    context.page(listing("jitkernel, in short", "\n".join(lines)))


def _wrapped(text: str) -> View:
    return View(textwrap.fill(text, 100), paragraph(text).html)


def _row(magic: Magic) -> tuple[str, str, str]:
    how = usage(magic).removeprefix("usage: ")
    return _marked(magic), _first_sentence(magic.help), how


def _marked(magic: Magic) -> str:
    marks = {"line": ("%",), "cell": ("%%",), "both": ("%", "%%")}[magic.form]
    return ", ".join(mark + magic.name for mark in marks)


def _first_sentence(text: str) -> str:
    return text.split(". ")[0].rstrip(".")
