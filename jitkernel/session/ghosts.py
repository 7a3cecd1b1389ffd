"""Stand-ins for a symbol's former type, for the cells that were compiled with it.

When a definition changes its type under its users (`--retype`), they get a ghost: a symbol of the
old name and type that is in no table and that nothing defines.  Start from `retype`.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any

from jitkernel.linker import Image, Linker, Symbol, SymbolKind
from jitkernel.printable import written
from jitkernel.rollback import RecordedDict
from jitkernel.session.change import Change
from jitkernel.session.signatures import Signature, Variable

__all__ = ["Exchange", "bind_ghosts", "ghosts_of", "haunt", "lay", "retype"]


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
    ghost = Symbol(symbol.name, symbol.kind)
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
    was = linker.bind.held_value(symbol.definition, ghost.stub or symbol.stub)
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
                linker.table.drop_if_unused(symbol)  # it was there for this image


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
    was = linker.bind.held_value(symbol.definition, symbol.stub)
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
