"""Objects that are linked another time: where they were, with the data that they had.

Start from `relink`.  A cell is linked again when it provides what another one leaves behind, when
its object changed under it, and when it comes back (reverting.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from jitkernel.errors import LinkError
from jitkernel.linker import Block, Image, Symbol, SymbolKind, SymbolState
from jitkernel.linker.layout import same_places
from jitkernel.session.cell import Cell, CellState, names_of
from jitkernel.session.change import Change
from jitkernel.session.ghosts import bind_ghosts, ghosts_of
from jitkernel.session.signatures import Variable, same_type
from jitkernel.session.store import Record

if TYPE_CHECKING:
    from jitkernel.session.program import Program

__all__ = ["extend", "place_again", "relink", "replace"]


def relink(
    program: Program, cell: Cell, takeover: frozenset[str] = frozenset(), whole: bool = False
) -> None:
    """Link a cell's object again, its data where it is, with groups it did not provide.

    `whole`: with just what it provided, its constants where they are too.
    """
    object = program.store.object(cell.number)
    if object is None:
        raise LinkError(f"cell {cell.number} cannot be linked again: its object is gone")
    zones = frozenset(("data", "rodata") if whole else ("data",))
    _link_again(program, cell, object, zones, takeover)


def replace(program: Program, cell: Cell, record: Record) -> None:
    """Give a live cell another object made from the same source; its variables stay."""
    was = program.store.get(cell.number)
    same = same_places(was.object, record.object) if was is not None else frozenset()
    _link_again(program, cell, record.object, same)
    cell.stays = None
    program.store.put(record)


def _link_again(
    program: Program,
    cell: Cell,
    object: bytes,
    zones: frozenset[str],
    takeover: frozenset[str] = frozenset(),
) -> None:
    """Link an object in place of a live cell's image; `zones` are laid out as they were."""
    image = cell.image
    if image is None:
        return
    arena = program.linker.arena
    owned = frozenset(cell.names)
    blocks = {"data": image.data, "rodata": image.rodata}
    at = {z: b for z, b in blocks.items() if b is not None and z in zones}
    pins = dict(image.pins)
    kept: list[tuple[int, bytes]] = []
    anew = image.data is not None and "data" not in zones
    if anew:
        data = arena.zones["data"]
        for symbol, address, size in image.exports:
            if symbol.image is image and data.start <= address < data.stop:
                pins[symbol.name] = address
                kept.append((address, arena.read(address, size)))
    fresh = place_again(
        program, cell, object, cell.number, names_of(image), owned, pins.items(), at,
        takeover | frozenset(image.groups), anew, image.text.start if image.text else 0,
    )  # fmt: skip
    for address, content in kept:
        arena.write(address, content)
    bind_ghosts(program.linker, fresh, ghosts_of(program.linker, image))
    for block in image.blocks:  # what the program may have pointers to
        if block not in fresh.blocks:
            block.holders += 1
            cell.strings += (block,)
    if image.dso:
        program.handles[cell.number] = (*program.handles.get(cell.number, ()), image.dso)
    program.linker.unlink(image)
    cell.image = fresh
    cell.state = CellState.LIVE


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
    arena = program.linker.arena
    block = Block(arena.reserve("data", max(len(data), 1), align))
    arena.write(block.extent.start, data)
    extra = (name, block.extent.start, len(data), block)
    _add_extra(program, image, extra, True)
    block.holders -= 1  # the image's hold is the only one
    cell.add_extra(extra)
    program.note(cell)
    program.linker.symbols[name].info = info
    change.moved.setdefault(name, (0, None))
    return True


def _add_extra(
    program: Program, image: Image, extra: tuple[str, int, int, Block], owned: bool
) -> None:
    name, address, size, block = extra
    symbol = program.linker.symbols.get(name)
    if symbol is None:
        if not owned:
            return
        symbol = program.linker.symbols[name] = Symbol(name, SymbolKind.DATA)
    if owned:
        definition = (SymbolState.DEFINED, address, size, image, SymbolKind.DATA, "")
        program.linker.redefine(symbol, definition)
    image.add(symbol, address, size, block)
    block.holders += 1


def place_again(
    program: Program,
    cell: Cell,
    object: bytes,
    number: int,
    names: Iterable[str],
    owned: frozenset[str],
    pins: Iterable[tuple[str, int]],
    at: Mapping[str, Block],
    takeover: frozenset[str] = frozenset(),
    write_data: bool = False,
    text_was: int = 0,
) -> Image:
    """Link an object where it has been before; only the names it owned are its own again."""
    symbols = program.linker.symbols
    lost = {n for n in names if n not in owned}
    others = {s: s.definition for n in lost if (s := symbols.get(n))}
    image = program.linker.place(
        object, number, weak=frozenset(), pins=dict(pins) or None, at=at or None,
        write_data=write_data, takeover=takeover, text_was=text_was, missing=True,
    )  # fmt: skip
    for extra in cell.extras:
        _add_extra(program, image, extra, extra[0] in owned)
    if cell.extras:
        program.linker.changed(image)
    for symbol, was in others.items():
        program.linker.redefine(symbol, was)
    for symbol, _, _ in image.exports:
        if symbol.image is image and symbol.name in lost:  # nobody has defined it since
            program.linker.fail(symbol, "")
            program.linker.table.drop_if_unused(symbol)
    return image
