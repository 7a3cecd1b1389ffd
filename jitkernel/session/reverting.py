"""A change to the program is taken back, or what was kept for that is given up.

Start from `revert`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jitkernel.errors import LinkError
from jitkernel.linker import SymbolState
from jitkernel.session.cell import CellState
from jitkernel.session.change import Change, Removed
from jitkernel.session.ghosts import bind_ghosts, lay
from jitkernel.session.relinking import place_again

if TYPE_CHECKING:
    from jitkernel.session.program import Program

__all__ = ["forget", "revert"]


def revert(program: Program, change: Change) -> None:
    """Take a change back: what it removed returns to its addresses, what it added goes."""
    with program.writing():
        _bring_back(program, change.removed)
        _move_back(program, change)
        _take_out(program, change)
    forget(program, change)


def _bring_back(program: Program, gone: Sequence[Removed]) -> None:
    """Link the cells that left again, the last first."""
    for removed in reversed(gone):
        cell = removed.cell
        for block in cell.strings:
            block.holders += 1
        cell.state = CellState.LIVE
        program.cells[cell.number] = cell
        program.note(cell)
        program.libraries.add(cell)
        if removed.cell_id:
            cell.cell_id = removed.cell_id
            program.by_id[removed.cell_id] = cell.number
        if not removed.linked:
            continue
        record = program.store.get(cell.number)
        if record is None:
            raise LinkError(f"cell {cell.number} cannot come back: its object is gone")
        at = {
            z: b for z, b in (("data", removed.data), ("rodata", removed.rodata)) if b is not None
        }
        cell.image = image = place_again(
            program, cell, record.object, cell.number, removed.names, removed.owned, removed.pins,
            at, text_was=removed.text[0],
        )  # fmt: skip
        bind_ghosts(program.linker, image, removed.ghosts)
    if gone:
        program.cells = dict(sorted(program.cells.items()))


def _move_back(program: Program, change: Change) -> None:
    """Symbols and types mean what they meant."""
    linker, symbols = program.linker, program.linker.symbols
    for name, (owner, info) in change.moved.items():
        symbol = symbols.get(name)
        if symbol is None:
            continue
        linker.bind.note(symbol)
        if owner:
            symbol.info = info
            holder = program.cells.get(owner)
            owned = holder.image if holder is not None else None
            if owned is not None and symbol.image is not owned:
                for other, address, size in owned.exports:
                    if other is symbol:
                        linker.redefine(
                            symbol, (SymbolState.DEFINED, address, size, owned, symbol.kind, "")
                        )
    for ghost in change.ghosts:
        lay(linker, ghost)
    for name, body in change.types.items():
        if body is None:
            program.types.pop(name, None)
        else:
            program.types[name] = body


def _take_out(program: Program, change: Change) -> None:
    """The cell that the change added leaves for good."""
    linker = program.linker
    added = change.added
    if added is not None and added.number in program.cells:
        program.note(added)
        if added.image is not None:
            linker.unlink(added.image)
        for block in added.strings:
            linker.release_block(block)
        added.strings = ()
        added.extras = ()
        added.image, added.state = None, CellState.EVICTED
        program.cells.pop(added.number, None)
        program.libraries.drop(added)
        if added.cell_id and program.by_id.get(added.cell_id) == added.number:
            del program.by_id[added.cell_id]
    if added is not None and added.cell_id and change.replaced in program.cells:
        program.by_id[added.cell_id] = change.replaced


def forget(program: Program, change: Change) -> None:
    """Give up what was kept so that a change could be taken back."""
    for removed in change.removed:
        for block in removed.held:
            program.linker.release_block(block)
        if removed.cell.image is None:
            program.store.drop(removed.cell.number)
    change.removed = []
    for symbol in change.symbols:
        program.linker.unhold(symbol)
    change.symbols = []
