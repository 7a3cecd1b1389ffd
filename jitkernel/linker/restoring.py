"""Symbols and images as a saved session had them.  Start from `restore_image`.

The bytes of their code are in the arena already; what leads to other places is written again by
`rebind_all`, once all of them are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jitkernel.arena import Extent
from jitkernel.linker.linker import Linker
from jitkernel.linker.records import (
    Block,
    Image,
    Symbol,
    SymbolKind,
    SymbolState,
    new_image,
    new_symbol,
)
from jitkernel.linker.x86_64 import STUB_SIZE
from jitkernel.rollback import RecordedDict, RecordedList

__all__ = ["file", "rebind_all", "restore_image", "restore_symbol", "restore_uses", "set_image"]


def restore_symbol(
    name: str,
    kind: SymbolKind,
    state: SymbolState,
    address: int,
    size: int,
    entries: tuple[int, int, int],
    why: str,
    info: Any,
) -> tuple[Symbol, list[Extent]]:
    """A symbol, and the extents of its `entries`: stub, slot and far slot, 0 for none."""
    symbol = new_symbol(name, kind, state, address, size)
    symbol.stub, symbol.slot, symbol.far_slot = entries
    symbol.why, symbol.info = why, info
    zones = (("text", STUB_SIZE), ("rodata", 8), ("rodata", 8))
    extents = [
        Extent(zone, at, size) for at, (zone, size) in zip(entries, zones, strict=True) if at
    ]
    return symbol, extents


def file(linker: Linker, symbol: Symbol) -> None:
    """Make a symbol the session's current one of its name."""
    linker.symbols[symbol.name] = symbol


def set_image(symbol: Symbol, image: Image | None) -> None:
    """Say which image defines a symbol."""
    symbol.image = image


def restore_image(
    linker: Linker,
    cell: int,
    text: Extent | None,
    unwind: Extent | None,
    extra: tuple[Extent, ...],
    rodata: Block | None,
    data: Block | None,
    adopted: tuple[Block, ...],
    exports: Iterable[tuple[str, int, int]],
    initialisers: tuple[Sequence[int], Sequence[int], int],
    pins: Iterable[tuple[str, int]],
    groups: Iterable[tuple[str, bool]],
    copies: Iterable[str],
) -> Image:
    """An image with what it defines; of `groups` it says which it provides.

    `initialisers` are constructors, destructors and what `__dso_handle` is.
    """
    # Of what it defined once, and nobody knows any more, it has the name alone.
    known = linker.symbols
    init, fini, dso = initialisers
    groups, copies = list(groups), tuple(copies)
    image = new_image(
        cell, None, rodata, data, unwind, adopted, extra,
        tuple([(known.get(name) or new_symbol(name), at, size) for name, at, size in exports]),
        (), tuple(init), tuple(fini), dso, tuple([(name, address) for name, address in pins]),
        tuple([name for name, _ in groups]), copies,
    )  # fmt: skip
    linker.put_code(image, text)
    for name, provides in groups:
        if provides:
            linker.groups[name] = image
    for name in copies:
        linker.copies.setdefault(name, RecordedList()).append(image)
    return image


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
