"""Objects that are linked another time: where they were, with the data that they had.

A cell is linked again when it provides what another one leaves behind, when its object changed
under it, and when it comes back (history/reverting.py).  Start from `relink`.

A cell whose object is made anew, because of what another cell has changed under it, keeps its
number and its place among the cells, and its variables where their types stay: see `remake`, and
`restore`, which takes it back.

When a definition changes its type under its users (`--retype`), they get a stale version of it: see
`retype`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from jitkernel.compiler import Summary
from jitkernel.errors import CompileError, LinkError, present
from jitkernel.ir.names import written
from jitkernel.linker import Former, Image, Symbol, SymbolKind, SymbolState
from jitkernel.linker.editing import add_variable, adopt, attach_variable, describe
from jitkernel.linker.layout import ReadObject, same_places
from jitkernel.linker.linkmap import LinkedVariable, linked_variables
from jitkernel.linker.retargeting import Retargeting, keep_stale, stale_symbols
from jitkernel.linker.thread_locals import value_of
from jitkernel.session.program.cell import Cell, CellState, Change, Remade, names_of
from jitkernel.session.program.signatures import Signature, Variable, described, same_type
from jitkernel.session.saved.store import Record

if TYPE_CHECKING:
    from jitkernel.session.program.program import Program

__all__ = [
    "check",
    "extend",
    "place_again",
    "relink",
    "remake",
    "replace",
    "restore",
    "retype",
]


def relink(
    program: Program, cell: Cell, takeover: frozenset[str] = frozenset(), whole: bool = False
) -> None:
    """Link a cell's object again, its data where it is, with groups it did not provide.

    `whole`: with just what it provided, its constants where they are too.
    """
    record = program.store.get(cell.number)
    if record is None:
        raise LinkError(f"cell {cell.number} cannot be linked again: its object is gone")
    zones = frozenset(("data", "rodata") if whole else ("data",))
    _link_again(program, cell, record.object, zones, takeover)


def replace(program: Program, cell: Cell, record: Record) -> None:
    """Give a live cell another object made from the same source; its variables stay."""
    was = program.store.get(cell.number)
    same = same_places(was.object, record.object) if was is not None else frozenset()
    _link_again(program, cell, record.object, same)
    cell.pin_reason = None
    program.store.put(record)


def _variables(program: Program, image: Image) -> dict[str, tuple[int, int]]:
    """Where the variables stand that an image defines now, and their sizes."""
    data = program.linker.arena.zones["data"]
    return {
        symbol.name: (address, size)
        for symbol, address, size in image.exports
        if symbol.image is image and data.start <= address < data.stop
    }


def _link_again(
    program: Program,
    cell: Cell,
    object: bytes,
    zones: frozenset[str],
    takeover: frozenset[str] = frozenset(),
    made: Remade | None = None,
    again: frozenset[str] | None = None,
) -> None:
    """Link an object in place of a live cell's image; `zones` are laid out as they were.

    Where the data zone is not, variables stay with their values: all, or those of `made`, which
    says what the cell is to be, but for those that begin `again`; where these are said, what it has
    for itself keeps values, too.
    """
    image = cell.image
    if image is None:
        return
    arena = program.linker.arena
    owned = frozenset(cell.names) if made is None else made.owned
    blocks = {"data": image.data, "rodata": image.rodata}
    at = {z: b for z, b in blocks.items() if b is not None and z in zones}
    pins = dict(image.pins)
    anew = image.data is not None and "data" not in zones
    if made is None:
        places = _variables(program, image) if anew else {}
    else:
        anew, places, pins, at = not made.at, made.places, dict(made.pins), dict(made.at)
    if anew:
        pins |= {name: address for name, (address, _) in places.items()}
    values = [
        value_of(name, address, size) for name, (address, size) in places.items()
        if not again or name not in again
    ]  # fmt: skip
    kept = [(address, arena.read(address, size)) for address, size in values]
    own = {
        (v.name, v.size): arena.read(v.address, v.size)
        for v in (_locals(program, cell, image) if again is not None else ()) if not v.is_first
    }  # fmt: skip
    names = {*names_of(image)}
    if anew or made is not None:  # another object, which may define what others do by now
        names.update(export.name for export in ReadObject.of(object).names.exports)
    text = image.text.start if image.text else 0
    former = Former(at, not anew, takeover | frozenset(image.groups), text)
    fresh = place_again(program, cell, object, names, owned, pins.items(), former)
    for variable in linked_variables(program.linker, fresh, object) if own else ():
        content = own.get((variable.name, variable.size), b"")
        if content and variable.is_local:
            arena.write(variable.address, content)
    for address, content in kept:
        arena.write(address, content)
    keep_stale(program.linker, fresh, stale_symbols(program.linker, image))
    for block in image.blocks:  # what the program may have pointers to
        if block not in fresh.blocks:
            program.linker.retain_block(block)
            cell.strings += (block,)
    if image.dso:
        program.handles[cell.number] = (*program.handles.get(cell.number, ()), image.dso)
    program.linker.unlink(image)
    cell.image = fresh
    cell.state = CellState.LIVE


def _locals(program: Program, cell: Cell, image: Image) -> list[LinkedVariable]:
    """The variables that a cell has for itself, such as `static` ones within functions."""
    record = program.store.get(cell.number)
    every = linked_variables(program.linker, image, record.object) if record is not None else []
    return [variable for variable in every if variable.is_local]


def extend(
    program: Program, cell: Cell, name: str, info: Variable, data: bytes, align: int, change: Change
) -> bool:
    """Give a cell that is in memory one more variable; False where that takes a module."""
    image, known = cell.image, program.linker.symbols.get(name)
    if image is None:
        return False
    if known is not None:
        if known.is_function or known.state is not SymbolState.MISSING:
            return False
        if known.users and (known.info is None or not same_type(known.info, info)):
            return False
    block = add_variable(program.linker, image, name, data, align)
    cell.add_extra((name, block.extent.start, len(data), block))
    program.note(cell)
    describe(program.linker, program.linker.symbols[name], info)
    change.moved.setdefault(name, (0, None))
    return True


def place_again(
    program: Program,
    cell: Cell,
    object: bytes,
    names: Iterable[str],
    owned: frozenset[str],
    pins: Iterable[tuple[str, int]],
    former: Former,
) -> Image:
    """Link an object where it has been before; only the names it owned are its own again."""
    symbols = program.linker.symbols
    lost = {n for n in names if n not in owned}
    others = {s: s.definition for n in lost if (s := symbols.get(n))}
    image = program.linker.place(
        object, cell.number, weak=frozenset(), pins=dict(pins), former=former, missing=True
    )
    for name, address, size, block in cell.extras:
        attach_variable(program.linker, image, name, address, size, block, name in owned)
    if cell.extras:
        program.linker.changed(image)
    for symbol, was in others.items():
        program.linker.redefine(symbol, was)
    for symbol, _, _ in image.exports:
        if symbol.image is image and symbol.name in lost:  # nobody has defined it since
            program.linker.fail(symbol, "")
            program.linker.resolver.drop_if_unused(symbol)
    return image


def retype(
    retargeting: Retargeting,
    symbol: Symbol,
    new: Image,
    was: Signature | Variable,
    change: Change,
    called: str,
) -> None:
    """Give the users of a symbol's old type a stale version of it, until they are run again."""
    kind = SymbolKind.FUNCTION if isinstance(was, Signature) else SymbolKind.DATA
    why = (
        f"this cell was compiled when {called} was {was}; it has another type "
        "now, and the cell would use it wrongly"
    )
    users = [i for i in symbol.users or () if i is not new and i is not symbol.image and i.cell]
    stale = retargeting.split(symbol, kind, was, why, users)
    change.symbols.append(stale)
    change.stale.append(stale)


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
    begins: frozenset[str],
    change: Change,
) -> tuple[list[str], frozenset[str]]:
    """Link a cell's new object in place of the present one; the variables that began anew because
    their types have changed, and those of `begins`, which may have other first values, because
    they still had theirs.

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
    again = begins & places.keys()
    if again and cell.image is not None:
        every = linked_variables(program.linker, cell.image, before.record.object)
        again &= {variable.name for variable in every if variable.is_first}
    after = Remade(cell.number, record, owned, places, before.blocks, infos)
    _link(program, cell, after, again)
    program.retype_cell(cell, summary, change)
    return sorted(before.places.keys() - places.keys() - leaving), again


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
    blocks = {"data": image.data, "rodata": image.rodata}
    return Remade(
        cell.number, record, owned, _variables(program, image), image.blocks, infos,
        tuple(image.pins), {zone: block for zone, block in blocks.items() if block is not None},
    )  # fmt: skip


def _link(program: Program, cell: Cell, made: Remade, again: frozenset[str] | None = None) -> None:
    _link_again(program, cell, made.record.object, frozenset(), made=made, again=again)
    cell.pin_reason = None
    program.store.put(made.record)
    image = present(cell.image, f"the code of {cell}")
    starts = [address for address, _ in made.places.values()]
    adopt(
        program.linker, image,
        [
            block for block in made.blocks if block not in image.blocks
            and any(block.extent.start <= at < block.extent.stop for at in starts)
        ],
    )  # fmt: skip
    for symbol, _, _ in image.exports:
        if symbol.image is image and symbol.name in made.infos:
            describe(program.linker, symbol, made.infos[symbol.name])
