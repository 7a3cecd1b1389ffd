"""The program is made what a change says that it was; data and results are `undo.UndoHistory`'s.

Start from `reconcile`; what it returns is a change too: taking that back does the first again.
`forget` gives up what was kept for that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from jitkernel.linker import Image, Symbol, SymbolState
from jitkernel.linker.editing import restore_exports
from jitkernel.linker.records import NOWHERE
from jitkernel.linker.retargeting import Retargeting, stale_symbols
from jitkernel.rollback import RecordedDict, RecordedList
from jitkernel.session.program.cell import CellState, Change, Definition, Version, names_of
from jitkernel.session.program.relinking import bring_back

if TYPE_CHECKING:
    from jitkernel.session.program.program import Program
    from jitkernel.session.program.state import Kind


def reconcile(program: Program, wanted: Change) -> Change:
    """Make the facts what they were before a change: what it removed returns to its addresses, what
    it added goes.

    The opposite change, whose facts are what they were before this: give that to `forget` or to
    `reconcile`.  Data is not written: see `DataShadow.restore`.
    """
    effects = wanted.effects._replace(destroyed=())
    inverse = Change(wanted.title, wanted.cell, effects=effects)
    facts: dict[Kind, dict[Any, Any]] = {}
    for (kind, key), was in wanted.before.items():
        facts.setdefault(kind, {})[key] = was
    names, cells = facts.get("name", {}), facts.get("cell", {}).values()
    leaving = [was.cell for was in cells if not was.there and was.cell.number in program.cells]
    # Versions of symbols that images will refer to again, with their entries: see `_split`.
    splits = {stale for stale, was in facts.get("stale", {}).items() if was is not None}
    removed = [_without(was, splits) for was in cells if was.there]
    for name in names:
        inverse.before["name", name] = program.definition(name)
    _keep_taken(program, (*removed, *facts.get("object", {}).values()), inverse)
    with program.world_stopped:
        for was in reversed(removed):
            inverse.before["cell", was.cell.number] = Version(was.cell)
            bring_back(program, was, _owned(was, names))
        if removed:
            program.cells = RecordedDict(sorted(program.cells.items()))
        for number, was in reversed(facts.get("object", {}).items()):
            if number in program.cells:
                now = program.object_version(was.cell, inverse)
                inverse.before["object", number] = now._replace(lent=was.lent)
                bring_back(program, _still_stale(program, was, splits), _owned(was, names))
        moving = {cell.image for cell in (*leaving, *[was.cell for was in removed])}
        _define(program, names, moving)
        if "stale" in facts:
            _split(program, facts["stale"], facts.get("object", {}), inverse)
        for cell in leaving:
            program.remove(cell, CellState.EVICTED, inverse)
        for name, (_, _, why) in names.items():
            symbol = program.linker.symbols.get(name) if why else None
            if symbol is not None and symbol.state is SymbolState.MISSING:
                symbol.why = why
    for kind in _OF_STATE:
        for key, value in facts.get(kind, {}).items():
            program.state.put(kind, key, value, inverse.before)
    for cell_id, number in facts.get("id", {}).items():  # a cell is there if its notes are again
        is_there = number in program.cells or program.has_notes(number)
        program.name(cell_id, number if is_there else 0, inverse)
    forget(program, wanted)
    return inverse


def _without(was: Version, stale: Collection[Symbol]) -> Version:
    """A version that refers to none of these."""
    return was._replace(stale=tuple(s for s in was.stale if s not in stale))


def _still_stale(program: Program, was: Version, splits: Collection[Symbol]) -> Version:
    """The earlier object of a cell that has stayed: what was retyped under it since stays stale."""
    names = {symbol.name for symbol in was.stale}
    now = [s for s in stale_symbols(program.linker, was.cell.image) if s.name not in names]
    return _without(was._replace(stale=(*was.stale, *now)), splits)


def _keep_taken(program: Program, versions: Iterable[Version], inverse: Change) -> None:
    """Keep what names that nobody defines are taken for: who comes back says something else."""
    for was in versions:
        for name in was.taken:
            symbol = program.linker.symbols.get(name)
            if symbol is not None and symbol.state in NOWHERE:
                inverse.before.setdefault(("taken", name), symbol.info)


_OF_STATE: tuple[Kind, ...] = ("type", "owner", "note", "below", "archive", "declared")


def _owned(was: Version, names: Mapping[str, Definition]) -> frozenset[str]:
    """The names that were a cell's own: others have taken them, or it still has them."""
    number, kept = was.cell.number, set(was.cell.names)
    return frozenset(
        [
            name for name in names_of(was.image)
            if (names[name].cell == number if name in names else name in kept)
        ]
    )  # fmt: skip


def _define(program: Program, names: Mapping[str, Definition], moving: set[Image | None]) -> None:
    """Names mean what they meant; `moving` are the images that came and those that will go."""
    linker, symbols = program.linker, program.linker.symbols
    returned: dict[Image, list[Symbol]] = {}
    for name, (owner, info, _) in names.items():
        symbol = symbols.get(name)
        if symbol is None:
            continue
        # Where nobody defines it afterwards, it keeps its type for the users that stay.
        if owner or (info is not None and moving.issuperset(symbol.users or ())):
            symbol.info = info
        if owner:
            holder = program.cells.get(owner)
            owned = holder.image if holder is not None else None
            if owned is not None and symbol.image is not owned:
                returned.setdefault(owned, []).append(symbol)
    for image, given in returned.items():
        restore_exports(linker, image, given)


def _split(
    program: Program, versions: Mapping[Symbol, Any], objects: Mapping[int, Version],
    inverse: Change,
) -> None:  # fmt: skip
    """Users of a symbol refer to its stale version, or to it again; those that have another object
    again, one of `objects`, as that did."""
    with Retargeting(program.linker) as retargeting:
        for stale, was in versions.items():
            if was is None:
                users = tuple(image.cell for image in stale.users or ())
                inverse.before["stale", stale] = users, retargeting.restore(stale)
    with Retargeting(program.linker) as retargeting:
        for stale, was in versions.items():
            if was is not None:
                inverse.before["stale", stale] = None
                cells = [
                    program.cells[n] for n in was[0]
                    if n in program.cells and (n not in objects or stale in objects[n].stale)
                ]  # fmt: skip
                images = [cell.image for cell in cells if cell.image is not None]
                retargeting.withdraw(stale, images, was[1])
    program.keep_symbols(versions, inverse)


def forget(program: Program, change: Change) -> None:
    """Give up what was kept so that a change could be taken back."""
    for was in change.removed:
        for block in was.held:
            program.linker.release_block(block)
        if was.cell.image is None and was.cell.number not in program.cells:
            program.store.drop(was.cell.number)
    change.before = RecordedDict()
    for symbol in change.symbols:
        program.linker.release_symbol(symbol)
    change.symbols = RecordedList()
