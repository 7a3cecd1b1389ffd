"""A change of the program is taken back; data and results are `undo.UndoHistory`'s.

Start from `revert`; what it returns is a change too: taking that back does the first again.
`forget` gives up what was kept for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from jitkernel.errors import LinkError
from jitkernel.linker import Former, Image, Symbol, SymbolState
from jitkernel.linker.editing import adopt, describe, restore_exports, set_reason
from jitkernel.linker.records import NOWHERE
from jitkernel.linker.retargeting import Retargeting, keep_stale
from jitkernel.rollback import RecordedDict, RecordedList
from jitkernel.session.program.cell import CellState, Change, Removed, names_of
from jitkernel.session.program.relinking import place_again, restore

if TYPE_CHECKING:
    from jitkernel.session.program.program import Program

__all__ = ["forget", "revert"]


def revert(program: Program, change: Change) -> Change:
    """Take a change back: what it removed returns to its addresses, what it added goes.

    The opposite change, which holds what is needed to do the first again: give that to `forget`
    or to `revert`.  Data is not written: see `DataShadow.restore`.
    """
    inverse = _opposite(program, change)
    owned = {c.number: frozenset(c.names) for c in change.arrived}
    with program.writing():
        _bring_back(program, change.removed)
        inverse.back = [r.cell for r in change.removed]
        for remade in reversed(change.remade):
            if remade.cell in program.cells:
                inverse.remade.append(restore(program, remade))
        _move_back(program, change, inverse)
        for cell in change.arrived:
            if cell.number in program.cells:
                program.remove(cell, CellState.EVICTED, owned[cell.number], inverse)
        for name, why in change.whys.items():
            symbol = program.symbol(name)
            if symbol is not None and symbol.state is SymbolState.MISSING:
                set_reason(program.linker, symbol, why)
    for cell_id, number in change.facts("id").items():
        is_there = number in program.cells or program.has_notes(number)
        program.name(cell_id, number if is_there else 0, inverse)
    forget(program, change)
    return inverse


def _opposite(program: Program, change: Change) -> Change:
    """The change that leads from after the revert to what is now, as far as it is known before."""
    inverse = Change(change.title, change.cell, effects=replace(change.effects, destroyed=()))
    for name in change.moved:
        symbol = program.symbol(name)
        if symbol is None:
            inverse.moved[name] = 0, None
            continue
        inverse.moved[name] = symbol.image.cell if symbol.image is not None else 0, symbol.info
        inverse.whys[name] = symbol.why
    for name in change.infos:
        symbol = program.symbol(name)
        inverse.infos[name] = symbol.info if symbol is not None else None
    return inverse


def _bring_back(program: Program, gone: Sequence[Removed]) -> None:
    """Link the cells that left again, the last first."""
    for removed in reversed(gone):
        cell = removed.cell
        for block in cell.strings:
            program.linker.retain_block(block)
        cell.state = CellState.LIVE
        program.cells[cell.number] = cell
        program.note(cell)
        program.libraries.add(cell)
        program.type_uses.add(cell)
        if removed.image is None:
            continue
        record = program.store.get(cell.number)
        if record is None:
            raise LinkError(f"cell {cell.number} cannot come back: its object is gone")
        cell.image = image = place_again(
            program, cell, record.object, names_of(removed.image), removed.owned,
            removed.image.pins, Former(removed.at, keeps_data=True, text=removed.text),
        )  # fmt: skip
        adopt(program.linker, image, removed.adopted)  # its variables, whoever had them meanwhile
        stale = {symbol.name for symbol in removed.stale}
        for name, info in removed.infos.items():
            symbol = program.symbol(name) if name not in stale else None
            if symbol is not None and info is not None and symbol.state in NOWHERE:
                # as for its other users: see `dependence`
                describe(program.linker, symbol, info)
        keep_stale(program.linker, image, removed.stale)
    if gone:
        program.cells = RecordedDict(sorted(program.cells.items()))


def _move_back(program: Program, change: Change, inverse: Change) -> None:
    """Symbols and types mean what they meant."""
    linker, symbols = program.linker, program.linker.symbols
    returned: dict[Image, list[Symbol]] = {}
    moving = {c.image for c in (*change.arrived, *(r.cell for r in change.removed))}
    for name, (owner, info) in change.moved.items():
        symbol = symbols.get(name)
        if symbol is None:
            continue
        linker.bind.note(symbol)
        # Where nobody defines it afterwards, it keeps its type for the users that stay.
        if owner or (info is not None and moving.issuperset(symbol.users or ())):
            describe(linker, symbol, info)
        if owner:
            holder = program.cells.get(owner)
            owned = holder.image if holder is not None else None
            if owned is not None and symbol.image is not owned:
                returned.setdefault(owned, []).append(symbol)
    for image, given in returned.items():
        if restore_exports(linker, image, given):
            program.note(program.cells[image.cell])
    with Retargeting(linker) as retargeting:
        for stale in change.stale:
            users = tuple(i.cell for i in stale.users or ())
            _keep(program, stale, inverse)
            inverse.restored.append((stale, users, retargeting.restore(stale)))
    with Retargeting(linker) as retargeting:
        for stale, users, swapped in change.restored:
            inverse.stale.append(stale)
            _keep(program, stale, inverse)
            cells = [program.cells[n] for n in users if n in program.cells]
            images = [c.image for c in cells if c.image is not None]
            retargeting.withdraw(stale, images, swapped)
    named = {fact: value for fact, value in change.before.items() if fact[0] != "id"}
    program.state.restore(named, inverse.before)


def _keep(program: Program, symbol: Symbol, inverse: Change) -> None:
    program.linker.retain_symbol(symbol)
    inverse.symbols.append(symbol)


def forget(program: Program, change: Change) -> None:
    """Give up what was kept so that a change could be taken back."""
    for removed in change.removed:
        for block in removed.held:
            program.linker.release_block(block)
        if removed.cell.image is None and removed.cell.number not in program.cells:
            program.store.drop(removed.cell.number)
    change.removed = RecordedList()
    for symbol in change.symbols:
        program.linker.release_symbol(symbol)
    change.symbols = RecordedList()
