"""Images that refer to another version of a symbol than the session's current one.

When a definition changes its type under its users, those that were compiled for the old type refer
to a stale version: a symbol of the same name that is in no table and that nothing defines, so that
a call raises and a variable is where nothing is mapped.  Start from `Retargeting`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jitkernel.linker.linker import Linker
from jitkernel.linker.records import Image, Symbol, SymbolKind, new_symbol
from jitkernel.rollback import RecordedDict


class Retargeting:
    """Makes images refer to other versions of symbols, many at once: the list of what an image
    refers to is written once, when the block (`with`) ends."""

    def __init__(self, linker: Linker):
        self._linker = linker
        self._instead: dict[Image, dict[Symbol, Symbol]] = {}

    def __enter__(self) -> Retargeting:
        return self

    def __exit__(self, *_: object) -> None:
        for image, instead in self._instead.items():
            image.refs = tuple([instead.get(s, s) for s in image.refs])

    def retarget(self, images: Iterable[Image], symbol: Symbol, other: Symbol) -> None:
        """Let images refer to `other` where they refer to `symbol`."""
        users = symbol.users or RecordedDict[Image, bytes]()
        images = [i for i in images if i in users]
        was = self._linker.bind.former_value(symbol.definition, other.stub or symbol.stub)
        for image in images:
            if other.users is None:
                other.users = RecordedDict()
            other.users[image] = users.pop(image)
            self._instead.setdefault(image, {})[symbol] = other
        symbol.users = users or None
        if images:
            self._linker.bind.rebind(other, was)

    def split(
        self, symbol: Symbol, kind: SymbolKind, info: Any, why: str, images: Iterable[Image]
    ) -> Symbol:
        """A stale version of a symbol for these images, held once; calls of it raise `why`.

        It takes the canonical entry along, so that pointers to the old function which the program
        has stored raise as well.
        """
        linker = self._linker
        stale = new_symbol(symbol.name, kind)
        stale.info, stale.why = info, why
        images = list(images)
        if kind is SymbolKind.FUNCTION and symbol.stub:
            stale.stub, symbol.stub = symbol.stub, 0
            linker.bind.rebind(stale, stale.stub)
        self.retarget(images, symbol, stale)
        linker.retain_symbol(stale)
        if symbol.users or symbol.slot:
            linker.bind.rebind(symbol, symbol.address)
        return stale

    def restore(self, stale: Symbol) -> bool:
        """The current symbol has the stale version's type again: its users return, and so does its
        canonical entry.  Whether it had one."""
        linker = self._linker
        symbol = linker.symbols.get(stale.name)
        if symbol is None:
            return False
        images = list(stale.users or ())
        swapped = bool(stale.stub)
        if swapped:
            # Stored pointers to the function of the other type lead to the stale version now.
            fresh = self._swap_entries(symbol, stale)
            linker.bind.rebind(symbol, fresh or symbol.address)
        self.retarget(images, stale, symbol)
        return swapped

    def withdraw(self, stale: Symbol, images: Iterable[Image], swap: bool) -> None:
        """The opposite of `restore`, which returned `swap`: images refer to the stale version."""
        linker = self._linker
        symbol = linker.symbols.get(stale.name)
        if symbol is None:
            return
        was = linker.bind.former_value(symbol.definition, symbol.stub)
        if swap:
            self._swap_entries(symbol, stale)
        self.retarget(images, symbol, stale)
        if symbol.users or symbol.slot or symbol.stub:
            linker.bind.rebind(symbol, was)

    def _swap_entries(self, symbol: Symbol, stale: Symbol) -> int:
        """Exchange the canonical entries of two symbols; where the first one's was."""
        fresh, symbol.stub = symbol.stub, stale.stub
        stale.stub = fresh
        for one in (symbol, stale):
            if one.stub:
                self._linker.bind.write_stub(one)
        return fresh


def stale_symbols(linker: Linker, image: Image | None) -> tuple[Symbol, ...]:
    """The stale versions that an image refers to."""
    symbols = linker.symbols
    return tuple(
        s for s in (image.refs if image else ()) if s.name and symbols.get(s.name) is not s
    )


def keep_stale(linker: Linker, image: Image, stale: Iterable[Symbol]) -> None:
    """Let an image that was linked again refer to the versions that it was compiled for."""
    with Retargeting(linker) as retargeting:
        for version in stale:
            symbol = linker.symbols.get(version.name)
            if symbol is not None:
                retargeting.retarget([image], symbol, version)
                linker.resolver.drop_if_unused(symbol)  # it was there for this image
