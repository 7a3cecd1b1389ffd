"""The IR of a cell: as it was given to the compiler, before its first pass, after its last, and
what changed between.  Start from `ir`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.ir.module import functions, global_values
from jitkernel.ir.names import bare, written
from jitkernel.views.room import Room
from jitkernel.views.sides import sides
from jitkernel.views.view import View, join, listing, paragraph, titled
from jitkernel.views.watched import between, watched

if TYPE_CHECKING:
    from jitkernel.session import Session

_DIFF = 80_000  # bytes of a difference
_IR_STAGES = {
    "raw": "before the first pass",
    "opt": "after the last pass",
    "diff": "what changed",
}


def ir(
    session: Session, target: int | str | None = None, stage: str = "", room: Room | None = None
) -> View:
    """The module of a cell, or one function or global of it; without a target the last cell's.

    As it was written; or, with a `stage`, as LLVM printed it: `raw` before the first pass, `opt`
    after the last, `diff` what the passes changed between.  Lines are shown as far as there is
    `room`.  Raises UsageError.
    """
    room = room or Room()
    if not stage:
        cell, _ = session.inspect.cell_of(target)
        module = session.inspect.module(cell.number)
        if isinstance(target, str):
            name = bare(target)
            title = f"{session.inspect.program.called(name)}, cell {cell.number}"
            return listing(title, entity(module, name) or module, room)
        return listing(f"cell {cell.number}, {cell.options}".rstrip(", "), module, room)
    if stage not in _IR_STAGES:
        raise UsageError(f"there is no IR called {stage!r}; there are {', '.join(_IR_STAGES)}")
    made = watched(session, target)
    symbol = made.symbol
    name = written(bare(target)) if isinstance(target, str) else ""
    where = f"{name}, cell {made.cell}" if name else f"cell {made.cell}"
    if stage == "diff":
        found = between(*session.inspect.ends(made.request), written(symbol) if symbol else "")
        gone, new = (sum(piece.counts[k] for piece in found) for k in (0, 1))
        title = f"{where}: -{gone} +{new} lines from the first pass to the last"
        shown = titled(title, sides(found, room.within(_DIFF)))
        return join([shown, paragraph(made.untouched)]) if made.untouched else shown
    module = session.inspect.printed(made.request, stage == "opt")
    body = entity(module, bare(name)) if name else module.strip()
    if name and not body:
        raise UsageError(
            f"{name} is not there any more {_IR_STAGES[stage]}: it was inlined or unused"
        )
    return listing(f"{where}, {_IR_STAGES[stage]}", body, room)


def entity(module: str, name: str) -> str:
    """The text of the function or global called `name`; empty where the module defines none."""
    for found in (*functions(module, "define"), *global_values(module)):
        if found.name == name:
            return found.text.strip()
    return ""
