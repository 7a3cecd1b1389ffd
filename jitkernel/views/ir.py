"""The LLVM IR that a cell was compiled from, read back from the session's store: `ir`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.ir.module import Function, GlobalValue, functions, global_values
from jitkernel.ir.names import bare, written
from jitkernel.views.diff import counts, difference, difference_view, parts
from jitkernel.views.view import View, join, listing, paragraph, titled

if TYPE_CHECKING:
    from jitkernel.session import Session

__all__ = ["STAGES", "entity", "ir"]

STAGES = {"raw": "before the first pass", "opt": "after the last pass", "diff": "what changed"}


def ir(session: Session, target: int | str | None = None, stage: str = "") -> View:
    """The module of a cell, or one function or global of it; without a target the last cell's.

    As it was written; or, with a `stage`, as LLVM printed it: `raw` before the first pass, `opt`
    after the last, `diff` what the passes changed between.  Raises UsageError.
    """
    cell, _ = session.inspect.cell_of(target)
    if stage:
        return _printed(session, target, stage)
    module = session.inspect.module(cell.number)
    if isinstance(target, str):
        name = bare(target)
        return listing(f"{written(name)}, cell {cell.number}", entity(module, name) or module)
    return listing(f"cell {cell.number}, {cell.options}".rstrip(", "), module)


def _printed(session: Session, target: int | str | None, stage: str) -> View:
    """The module before or after the passes, or what is different."""
    from jitkernel.views.passes import trace_of, untouched

    if stage not in STAGES:
        raise UsageError(f"there is no IR called {stage!r}; there are {', '.join(STAGES)}")
    number, symbol, trace = trace_of(session, target)
    name = written(bare(target)) if isinstance(target, str) else ""
    where = f"{name}, cell {number}" if name else f"cell {number}"
    if stage == "diff":
        before, after = parts(trace.before), parts(trace.after)
        lines = difference(before, after, written(symbol) if symbol else "")
        gone, new = counts(lines)
        title = f"{where}: -{gone} +{new} lines from the first pass to the last"
        sentence = untouched(trace, symbol)
        shown = titled(title, difference_view(lines))
        return join([shown, paragraph(sentence)]) if sentence else shown
    module = trace.before if stage == "raw" else trace.after
    body = entity(module, bare(name)) if name else module.strip()
    if name and not body:
        raise UsageError(f"{name} is not there any more {STAGES[stage]}: it was inlined or unused")
    return listing(f"{where}, {STAGES[stage]}", body)


def entity(module: str, name: str) -> str:
    """The text of the function or global called `name`; empty where the module defines none."""
    defined: list[Function | GlobalValue] = [*functions(module, "define"), *global_values(module)]
    for found in defined:
        if found.name == name:
            return found.text.strip()
    return ""
