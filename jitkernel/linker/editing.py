"""Changes to what is linked that take no object: names, types, variables, exports.

Start from `add_variable`.  Like `Linker`'s own methods these leave everything consistent, and are
undone with the operation that they are part of.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jitkernel.linker.linker import Linker
from jitkernel.linker.records import Block, Image, Symbol, SymbolKind, SymbolState, new_symbol

__all__ = [
    "add_variable",
    "adopt",
    "attach_variable",
    "describe",
    "drop_initialisers",
    "restore_exports",
    "set_reason",
    "unname",
]


def describe(linker: Linker, symbol: Symbol, info: Any) -> None:
    """Say what a symbol's type or signature is; the linker itself does not look at it."""
    linker.bind.note(symbol)
    symbol.info = info


def set_reason(linker: Linker, symbol: Symbol, why: str) -> None:
    """Say why calls of a symbol raise, where not because nobody has defined it yet."""
    linker.bind.note(symbol)
    symbol.why = why


def unname(linker: Linker, image: Image, name: str) -> int:
    """Take a name that an image defines out of the session: it is reached by its address alone.

    The address; 0, and nothing done, where the name is not the image's.
    """
    symbol = linker.symbols.get(name)
    if symbol is None or symbol.image is not image:
        return 0
    del linker.symbols[name]
    image.exports = tuple([e for e in image.exports if e[0] is not symbol])
    return symbol.address


def add_variable(linker: Linker, image: Image, name: str, data: bytes, align: int) -> Block:
    """Let an image define one more variable, which holds `data`; the block that it is in.

    Raises ArenaFull.
    """
    block = Block(linker.arena.reserve("data", max(len(data), 1), align))
    linker.arena.write(block.extent.start, data)
    _attach(linker, image, name, block.extent.start, len(data), block, True)
    return block


def attach_variable(
    linker: Linker, image: Image, name: str, address: int, size: int, block: Block, owned: bool
) -> None:
    """Let an image have a variable that is in memory already; `owned`: and define it."""
    if owned or name in linker.symbols:
        linker.hold_block(block)
        _attach(linker, image, name, address, size, block, owned)


def _attach(
    linker: Linker, image: Image, name: str, address: int, size: int, block: Block, owned: bool
) -> None:
    symbol = linker.symbols.get(name)
    if symbol is None:
        symbol = linker.symbols[name] = new_symbol(name, SymbolKind.DATA)
    if owned:
        definition = (SymbolState.DEFINED, address, size, image, SymbolKind.DATA, "")
        linker.redefine(symbol, definition)
    image.add(symbol, address, size, block)


def adopt(linker: Linker, image: Image, blocks: Iterable[Block]) -> None:
    """Let an image hold blocks that others have brought."""
    for block in blocks:
        if block not in image.blocks:
            linker.hold_block(block)
            image.adopted += (block,)


def restore_exports(linker: Linker, image: Image, symbols: Iterable[Symbol]) -> bool:
    """Point symbols at what an image has under their names; whether one of them is another record
    than the image knew, because the name was forgotten meanwhile."""
    exports, replaced = list(image.exports), False
    where = {symbol.name: at for at, (symbol, _, _) in enumerate(exports)}
    for symbol in symbols:
        at = where.get(symbol.name)
        if at is None:
            continue
        other, address, size = exports[at]
        if other is not symbol:
            exports[at] = symbol, address, size
            replaced = True
        definition = (SymbolState.DEFINED, address, size, image, other.kind, "")
        linker.redefine(symbol, definition)
    image.exports = tuple(exports)
    return replaced


def drop_initialisers(image: Image) -> None:
    """Neither constructors nor destructors of an image are to run."""
    image.init = image.fini = ()
