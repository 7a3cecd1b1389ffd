"""Changes to what is linked that take no object: names, types, variables, exports; and symbols and
images as a saved session had them.

Start from `add_variable`, or `restore_image`.  Like `Linker`'s own methods these leave everything
consistent, and are undone with the operation that they are part of.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jitkernel.arena import Extent
from jitkernel.linker.linker import Linker
from jitkernel.linker.records import (
    Block,
    Image,
    Symbol,
    SymbolKind,
    SymbolState,
    new_symbol,
)
from jitkernel.rollback import RecordedDict, RecordedList


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
        linker.retain_block(block)
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
            linker.retain_block(block)
            image.adopted += (block,)


def restore_exports(linker: Linker, image: Image, symbols: Iterable[Symbol]) -> None:
    """Point symbols at what an image has under their names, also those that are other records than
    the image knew, because their names were forgotten meanwhile."""
    exports = list(image.exports)
    where = {symbol.name: at for at, (symbol, _, _) in enumerate(exports)}
    for symbol in symbols:
        at = where.get(symbol.name)
        if at is None:
            continue
        other, address, size = exports[at]
        exports[at] = symbol, address, size
        definition = (SymbolState.DEFINED, address, size, image, other.kind, "")
        linker.redefine(symbol, definition)
    image.exports = tuple(exports)


def drop_initialisers(image: Image) -> None:
    """Neither constructors nor destructors of an image are to run."""
    image.init = image.fini = ()


# -- what a saved session had --------------------------------------------------------------------
#
# The bytes of its code are in the arena already; what leads to other places is written again by
# `rebind_all`, once all symbols and images are there.


def file(linker: Linker, symbol: Symbol) -> None:
    """Make a symbol the session's current one of its name."""
    linker.symbols[symbol.name] = symbol


def set_image(symbol: Symbol, image: Image | None) -> None:
    """Say which image defines a symbol."""
    symbol.image = image


def restore_image(
    linker: Linker, image: Image, text: Extent | None, provides: Iterable[str]
) -> None:
    """Make an image, whose code is at `text`, the session's; `provides` are its COMDAT groups that
    others have but copies of."""
    linker.put_code(image, text)
    for name in provides:
        linker.groups[name] = image
    for name in image.copies:
        linker.copies.setdefault(name, RecordedList()).append(image)


def restore_uses(image: Image, uses: Sequence[tuple[Symbol, bytes]]) -> None:
    """Say which symbols an image refers to, each with its packed sites."""
    image.refs = tuple([symbol for symbol, _ in uses])
    for symbol, packed in uses:
        if symbol.users is None:
            symbol.users = RecordedDict()
        symbol.users[image] = packed


def rebind_all(linker: Linker, symbols: Iterable[Symbol]) -> list[str]:
    """Write what leads to every symbol, wherever that is now; names that no library has any more.

    The code of an image is as it was when it was placed; symbols that it uses may have moved since,
    and their stubs are nowhere but in the arena.
    """
    bind = linker.bind
    for symbol in symbols:
        was = bind.former_value(symbol.definition, symbol.stub)
        if symbol.state is SymbolState.FIXED and symbol.image is None:
            symbol.address = linker.resolver.fixed(symbol.name) or symbol.address
        if symbol.far_slot:
            bind.write_far_slot(symbol)
        if symbol.users or symbol.stub or symbol.slot:
            bind.rebind(symbol, was)
    return linker.resolver.renew_far()
