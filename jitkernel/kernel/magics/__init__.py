"""Every magic, declared in one table: `MAGICS`.  Parser, help and TAB read it.

A magic calls one method of the session or of the frontend; what it prints is a view.
Start from `MAGICS`, `run_line_magic` and `cell_magic`.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jitkernel.errors import UsageError
from jitkernel.kernel.magics import (
    compiling,
    environment,
    grading,
    inspecting,
    languages,
    memory,
    program,
    residency,
    saving,
    timing,
    watching,
)
from jitkernel.kernel.magics.habits import HABITS
from jitkernel.kernel.magics.table import Magic, help_text, parse

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend

__all__ = [
    "MAGICS",
    "CellCall",
    "cell_magic",
    "find",
    "lone_magic",
    "named",
    "run_cell_magic",
    "run_line_magic",
]

MAGICS: tuple[Magic, ...] = (
    *program.MAGICS,
    *saving.MAGICS,
    *memory.MAGICS,
    *residency.MAGICS,
    *compiling.MAGICS,
    *inspecting.MAGICS,
    *timing.MAGICS,
    *grading.MAGICS,
    *languages.MAGICS,
    *watching.MAGICS,
    *environment.MAGICS,
)

BY_NAME: dict[str, Magic] = {
    name: magic for magic in MAGICS for name in (magic.name, *magic.aliases)
}

#: What people type with a % elsewhere, and the shell does.
_SHELL = frozenset("ls ll cat cp mv rm mkdir rmdir man less more head tail grep gcc clang".split())

_CELL_HEAD = re.compile(r"%%([\w.]+)(\?{0,2})[ \t]*([^\n]*)(?:\n|$)")


@dataclass(frozen=True, slots=True)
class CellCall:
    """A cell magic and what it is applied to; `body` keeps the cell's line numbers."""

    name: str
    line: str
    body: str
    asks_help: bool = False


def find(name: str, form: str) -> Magic:
    """The magic called `name`; UsageError names the nearest one, or what to use instead."""
    marks = "%" if form == "line" else "%%"
    magic = BY_NAME.get(name)
    if magic is None:
        if form == "cell" and (found := _language(name)):
            return found
        there = f"; there are {', '.join(_cell_magics())}" if form == "cell" else ""
        if name in HABITS:
            raise UsageError(f"{marks}{name} is not here: {HABITS[name]}{there}")
        near = difflib.get_close_matches(name.lower(), BY_NAME, 1)
        words = f"; did you mean {marks}{near[0]}?" if near else ""
        if form == "line" and name in _SHELL:
            words = f"; a shell command is !{name}"
        words = words or there or "; %help lists what there is"
        raise UsageError(f"there is no magic {marks}{name}{words}")
    if magic.form == form or magic.form == "both":
        return magic
    if form == "line":
        raise UsageError(f"%{name} takes a whole cell: write %%{name} on its first line")
    raise UsageError(f"%%{name} takes no cell: write %{name}")


def _cell_magics() -> list[str]:
    """`%%llvm` and the others, languages that were added among them."""
    from jitkernel.languages import names

    every = [m.name for m in MAGICS if m.form != "line"]
    return [f"%%{name}" for name in dict.fromkeys([*every, *names()])]


def named(name: str) -> Magic | None:
    """The magic of that name, those of added languages among them; None where there is none."""
    return BY_NAME.get(name) or _language(name)


def _language(name: str) -> Magic | None:
    """The cell magic of a language that a package or a file has added."""
    from jitkernel.languages import find, names

    if name not in names():
        return None
    return languages.language_magic(name, find(name).display_name or name)


def run_line_magic(frontend: Frontend, name: str, line: str, within: bool = False) -> Any:
    """Run `%name line`; `within` a cell that a session runs."""
    if name.endswith("?") or line.strip() in ("?", "??"):
        magic = BY_NAME.get(name.rstrip("?"))
        if magic is not None:
            from jitkernel.views.view import listing

            frontend.page(listing("", help_text(magic)))
            return None
    if name not in BY_NAME and name in frontend.session.hidden.locals:
        raise UsageError(
            f"%{name} was a value of an instruction block and ended with it. A cell shows its last "
            f"instruction's value by itself; it is `_` in the next cell, and `@{name} = _` keeps it"
        )
    if name not in BY_NAME and name not in HABITS and name in frontend.session.symbols:
        raise UsageError(
            f"there is no magic %{name}; @{name} is a symbol: `@{name}` shows it, `@{name}(...)`"
            " calls it"
        )
    magic = find(name.rstrip("?"), "line")
    if magic.alone and within:
        raise UsageError(f"%{name} stands alone in its cell")
    return magic.call(frontend, parse(magic, line))


def lone_magic(source: str) -> tuple[str, str] | None:
    """Name and line of a cell that is one magic which ends its session, if it is."""
    name, _, line = source.strip().removeprefix("%").partition(" ")
    magic = BY_NAME.get(name) if source.lstrip().startswith("%") else None
    return (name, line) if magic is not None and magic.alone and "\n" not in line else None


def cell_magic(source: str) -> CellCall | None:
    """The cell magic that `source` begins with, if any."""
    start = len(source) - len(source.lstrip())
    match = _CELL_HEAD.match(source, start)
    if match is None:
        return None
    # The lines before the body are kept as empty ones: an error names the cell's own line.
    body = "\n" * source.count("\n", 0, match.end()) + source[match.end() :]
    return CellCall(match[1], match[3], body, bool(match[2]))


def run_cell_magic(frontend: Frontend, call: CellCall, cell_id: str | None) -> Any:
    """Run `%%name line` with the rest of its cell."""
    if call.asks_help:
        return run_line_magic(frontend, call.name + "?", "")
    magic = find(call.name, "cell")
    arguments = parse(magic, call.line)
    arguments.body = call.body
    arguments.cell_id = cell_id
    return magic.call(frontend, arguments)
