"""Objects that are linked another time: where they were, with the data that they had.

A cell is linked again when it provides what another one leaves behind, when its object changed
under it, and when it comes back (history/reverting.py).  Start from `relink`.

When a definition changes its type under its users (`--retype`), they get a ghost: a symbol of the
old name and type that is in no table and that nothing defines.  Start from `retype`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jitkernel.errors import LinkError
from jitkernel.ir.names import written
from jitkernel.linker import Block, Image, Linker, Symbol, SymbolKind, SymbolState, new_symbol
from jitkernel.linker.layout import same_places
from jitkernel.rollback import RecordedDict
from jitkernel.session.program.cell import Cell, CellState, Change, names_of
from jitkernel.session.program.signatures import Signature, Variable, same_type
from jitkernel.session.saved.store import Record

if TYPE_CHECKING:
    from jitkernel.session.program.program import Program

__all__ = [
    "Exchange",
    "bind_ghosts",
    "extend",
    "ghosts_of",
    "haunt",
    "lay",
    "place_again",
    "relink",
    "replace",
    "retype",
]


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
    cell.pin_reason = None
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
        symbol = program.linker.symbols[name] = new_symbol(name, SymbolKind.DATA)
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
            program.linker.resolver.drop_if_unused(symbol)
    return image


class Exchange:
    """Symbols that images refer to in place of others, many of them: what an image refers to is
    written once, when the block ends."""

    def __init__(self, linker: Linker):
        self.linker = linker
        self._instead: dict[Image, dict[Symbol, Symbol]] = {}

    def __enter__(self) -> Exchange:
        return self

    def note(self, image: Image, was: Symbol, now: Symbol) -> None:
        """An image refers to `now` where it referred to `was`."""
        self._instead.setdefault(image, {})[was] = now

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for image, instead in self._instead.items():
            image.refs = tuple([instead.get(s, s) for s in image.refs])
            self.linker.changed(image)


def retype(
    exchange: Exchange, symbol: Symbol, new: Image, before: tuple[int, Any], change: Change
) -> None:
    """Give the users of a symbol's old type a ghost of it, until they are run again.

    The ghost has the symbol's name but is in no table.  It takes the canonical entry with it:
    pointers to the old function that the program stored raise as well.  Nothing defines it,
    so a call raises and a variable is where nothing is mapped.
    """
    linker, was = exchange.linker, before[1]
    ghost = new_symbol(symbol.name, symbol.kind)
    if isinstance(was, Signature):
        ghost.kind = SymbolKind.FUNCTION
    elif isinstance(was, Variable):
        ghost.kind = SymbolKind.DATA
    ghost.info = was
    ghost.why = (
        f"this cell was compiled when {written(symbol.name)} was {was}; it has another type "
        "now, and the cell would use it wrongly"
    )
    users = symbol.users or RecordedDict[Image, bytes]()
    moving = [i for i in users if i is not new and i is not symbol.image and i.cell]
    if ghost.kind is SymbolKind.FUNCTION and symbol.stub:
        ghost.stub, symbol.stub = symbol.stub, 0
        linker.rebind(ghost, ghost.stub)
    _haunt(exchange, symbol, ghost, moving)
    linker.hold(ghost)
    change.symbols.append(ghost)
    change.ghosts.append(ghost)
    if symbol.users or symbol.slot:
        linker.rebind(symbol, symbol.address)


def _haunt(exchange: Exchange, symbol: Symbol, ghost: Symbol, images: Iterable[Image]) -> None:
    """Make images refer to one symbol instead of another, a ghost of it or the other way."""
    linker = exchange.linker
    users = symbol.users or RecordedDict[Image, bytes]()
    images = [i for i in images if i in users]
    was = linker.bind.former_value(symbol.definition, ghost.stub or symbol.stub)
    for image in images:
        if ghost.users is None:
            ghost.users = RecordedDict()
        ghost.users[image] = users.pop(image)
        exchange.note(image, symbol, ghost)
    symbol.users = users or None
    if images:
        linker.rebind(ghost, was)


def ghosts_of(linker: Linker, image: Image | None) -> tuple[Symbol, ...]:
    symbols = linker.symbols
    return tuple(
        s for s in (image.refs if image else ()) if s.name and symbols.get(s.name) is not s
    )


def bind_ghosts(linker: Linker, image: Image, ghosts: Iterable[Symbol]) -> None:
    """An image that was linked again goes on referring to what it was compiled for."""
    with Exchange(linker) as exchange:
        for ghost in ghosts:
            symbol = linker.symbols.get(ghost.name)
            if symbol is not None:
                _haunt(exchange, symbol, ghost, [image])
                linker.resolver.drop_if_unused(symbol)  # it was there for this image


def lay(exchange: Exchange, ghost: Symbol) -> bool:
    """The symbol has the ghost's type again: its users return to it, and its entry where the ghost
    has one: whether it has."""
    linker = exchange.linker
    symbol = linker.symbols.get(ghost.name)
    if symbol is None:
        return False
    images = list(ghost.users or ())
    swapped = bool(ghost.stub)
    if swapped:
        # Who stored a pointer to the function of the other type meets what is missing.
        fresh = _swap_entries(linker, symbol, ghost)
        linker.rebind(symbol, fresh or symbol.address)
    _haunt(exchange, ghost, symbol, images)
    return swapped


def haunt(exchange: Exchange, ghost: Symbol, images: Iterable[Image], swap: bool) -> None:
    """The opposite of `lay`: those images refer to the ghost again."""
    linker = exchange.linker
    symbol = linker.symbols.get(ghost.name)
    if symbol is None:
        return
    was = linker.bind.former_value(symbol.definition, symbol.stub)
    if swap:
        _swap_entries(linker, symbol, ghost)
    _haunt(exchange, symbol, ghost, images)
    if symbol.users or symbol.slot or symbol.stub:
        linker.rebind(symbol, was)


def _swap_entries(linker: Linker, symbol: Symbol, ghost: Symbol) -> int:
    """The canonical entries of the two change places; what the symbol's was."""
    fresh, symbol.stub = symbol.stub, ghost.stub
    ghost.stub = fresh
    for one in (symbol, ghost):
        linker.bind.note(one)
        if one.stub:
            linker.bind.write_stub(one)
    return fresh
