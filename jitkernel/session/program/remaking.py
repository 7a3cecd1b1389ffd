"""A live cell's object is made anew, because of what another cell has changed under it.

Its number stays, and its place among the cells; its variables stay with their values where their
types do.  Start from `remake`; `restore` takes it back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitkernel.compiler import Summary
from jitkernel.errors import CompileError, present
from jitkernel.ir.names import written
from jitkernel.linker.editing import adopt, describe
from jitkernel.session.program.cell import Cell, Change, Remade
from jitkernel.session.program.relinking import link_again, variables
from jitkernel.session.program.signatures import described, same_type
from jitkernel.session.saved.store import Record

if TYPE_CHECKING:
    from jitkernel.session.program.program import Program

__all__ = ["check", "remake", "restore"]


def check(cell: Cell, summary: Summary, leaving: frozenset[str]) -> None:
    """Raise CompileError where a new object lacks what the cell defines now, apart from the names
    that leave it."""
    made = {f.name for f in summary.functions if f.defined}
    made |= {v.name for v in summary.variables if v.defined}
    if missing := sorted(set(cell.names) - made - leaving):
        names = ", ".join(map(written, missing[:5]))
        raise CompileError(
            f"this changes what cell {cell.number} is made of, and {names} there cannot be made "
            f"again by itself: run cell {cell.number} again with the change in it"
        )


def remake(
    program: Program,
    cell: Cell,
    record: Record,
    summary: Summary,
    leaving: frozenset[str],
    change: Change,
) -> list[str]:
    """Link a cell's new object in place of the present one; the variables that began anew.

    `leaving` are names that another cell is about to define.
    """
    infos = {name: info for name, info, defined in described(summary) if defined}
    before = _state(program, cell)
    places = {
        name: place
        for name, place in before.places.items()
        if name in infos and name in before.infos and same_type(infos[name], before.infos[name])
    }
    change.remade.append(before)
    owned = before.owned - leaving
    _link(program, cell, Remade(cell.number, record, owned, places, before.blocks, infos))
    program.retype_cell(cell, summary, change)
    return sorted(before.places.keys() - places.keys() - leaving)


def restore(program: Program, remade: Remade) -> Remade:
    """Give a cell the object back that it had; what restores the present one."""
    cell = program.cells[remade.cell]
    now = _state(program, cell)
    _link(program, cell, remade)
    return now


def _state(program: Program, cell: Cell) -> Remade:
    """What brings a cell back as it is."""
    record, image = program.store.get(cell.number), cell.image
    if record is None or image is None:
        raise CompileError(f"cell {cell.number} cannot be made again: its source is gone")
    infos = {s.name: s.info for s, _, _ in image.exports if s.image is image and s.info is not None}
    owned = frozenset(cell.names)
    return Remade(cell.number, record, owned, variables(program, image), image.blocks, infos)


def _link(program: Program, cell: Cell, made: Remade) -> None:
    link_again(program, cell, made.record.object, frozenset(), places=made.places, owned=made.owned)
    cell.pin_reason = None
    program.store.put(made.record)
    image = present(cell.image, f"the code of {cell}")
    starts = [address for address, _ in made.places.values()]
    adopt(
        program.linker, image,
        [b for b in made.blocks if any(b.extent.start <= a < b.extent.stop for a in starts)],
    )  # fmt: skip
    for symbol, _, _ in image.exports:
        if symbol.image is image and symbol.name in made.infos:
            describe(program.linker, symbol, made.infos[symbol.name])
