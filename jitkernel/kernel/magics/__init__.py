"""Every magic: `MAGICS`.

A magic calls one method of the session or of its context; what it prints is a view.
Start from `MAGICS`, `run_line_magic` and `run_cell_magic`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jitkernel.errors import UsageError
from jitkernel.kernel.magics import (
    compiling,
    data,
    debugging,
    environment,
    grading,
    help,
    measuring,
    memory,
    program,
    saving,
    views,
)
from jitkernel.kernel.magics.parsing import CellCall, cell_magic, help_view, parse
from jitkernel.kernel.magics.registry import HABITS, Magic, Registry

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend

__all__ = ["MAGICS", "CellCall", "cell_magic", "lone_magic", "run_cell_magic", "run_line_magic"]

_MODULES = (
    program, saving, memory, compiling, views, data, debugging, measuring, grading, environment,
    help,
)  # fmt: skip
MAGICS = Registry(
    [found for module in _MODULES for found in vars(module).values() if isinstance(found, Magic)],
    compiling.language_magic,
)


def run_line_magic(context: Frontend, name: str, line: str, within: bool = False) -> Any:
    """Run `%name line`; `within` a cell that a session runs."""
    known = context.magics.get(name.rstrip("?"))
    if known is not None and (name.endswith("?") or line.strip() in ("?", "??", "--help")):
        context.page(help_view(context, known))
        return None
    if known is None and name in context.session.frontend.core.hidden.locals:
        raise UsageError(
            f"%{name} was a value of an instruction block and ended with it. A cell shows its last "
            f"instruction's value by itself; it is `_` in the next cell, and `@{name} = _` keeps it"
        )
    language = context.setting("JITKernel.default_language")
    if known is None and name not in HABITS and name in context.session.symbols:
        typed = f"@{name}" if language == "llvm" else name
        raise UsageError(
            f"there is no magic %{name}; {typed} is a symbol: `{typed}` shows it, `{typed}(...)`"
            " calls it"
        )
    magic = context.magics.find(name.rstrip("?"), "line", language)
    if magic.alone and within:
        raise UsageError(f"%{name} stands alone in its cell")
    return magic.call(context, parse(magic, line, context.symbol_for, context.worded))


def lone_magic(source: str) -> tuple[str, str] | None:
    """Name and line of a cell that is one magic which ends its session, if it is."""
    name, _, line = source.strip().removeprefix("%").partition(" ")
    magic = MAGICS.get(name) if source.lstrip().startswith("%") else None
    return (name, line) if magic is not None and magic.alone and "\n" not in line else None


def run_cell_magic(context: Frontend, call: CellCall, cell_id: str | None) -> Any:
    """Run `%%name line` with the rest of its cell."""
    if call.asks_help:
        return run_line_magic(context, call.name + "?", "")
    language = context.setting("JITKernel.default_language")
    magic = context.magics.find(call.name, "cell", language)
    arguments = parse(magic, call.line, context.symbol_for, context.worded)
    arguments.body, arguments.typed = call.body, f"%{arguments.typed}"
    arguments.cell_id = cell_id
    return magic.call(context, arguments)
