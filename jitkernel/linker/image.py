"""What one object occupies once it is linked.  Start from `Image`."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from jitkernel.arena import Extent
from jitkernel.linker.symbols import Symbol
from jitkernel.rollback import Recorded, RecordedList, set_first

if TYPE_CHECKING:
    from jitkernel.linker.moving import Moves

__all__ = ["SITE", "Block", "Image", "Site", "appended", "sites"]

#: offset from the slab's base, relocation type, and for instructions that may be relaxed their
#: original opcode, ModRM and REX bytes; addend
SITE = struct.Struct("<IBBBBq")


class Site(NamedTuple):
    """One place in an image that holds a symbol's address; `offset` counts from the slab's base."""

    offset: int
    type: int
    opcode: int
    modrm: int
    rex: int
    addend: int


def sites(packed: bytes) -> Iterator[Site]:
    """The sites in a symbol's `users[image]`."""
    return map(Site._make, SITE.iter_unpack(packed))


class Block(Recorded):
    """An extent that outlives the image that brought it: freed when nobody holds it any more.

    Data and constants are blocks: a program may have stored pointers to them, a newer image may
    have taken a variable over, and undo brings them back at the same address.
    """

    __slots__ = ("extent", "holders")

    def __init__(self, extent: Extent):
        self.extent = extent
        self.holders = 1


Export = tuple[Symbol, int, int]
T = TypeVar("T")


def appended(items: Sequence[T], item: T) -> list[T]:
    """`items` and one more: the same list, where it is one already."""
    grown = items if isinstance(items, RecordedList) else RecordedList(items)
    grown.append(item)
    return grown


class Image(Recorded):
    """An object in the arena: its extents, what it defines and what it refers to.

    `exports` are `(symbol, address, size)`; a symbol whose `image` is another one by now has been
    redefined.  `refs` are the symbols whose `users` list this image.  `init` and `fini` are
    constructors and destructors in the order they run.  `dso` is what `__dso_handle` is in it, 0
    where it does not ask.  `groups` are COMDAT groups it provides, `copies` those it would have.
    `moves` is what putting its code elsewhere takes, None where nobody has asked yet.
    """

    __slots__ = (
        "_adopted", "_exports", "cell", "copies", "data", "dso", "extra", "fini", "groups", "init",
        "moves", "pins", "refs", "rodata", "text", "unwind",
    )  # fmt: skip

    cell: int
    text: Extent | None
    rodata: Block | None
    data: Block | None
    unwind: Extent | None
    _adopted: Sequence[Block]
    extra: tuple[Extent, ...]
    _exports: Sequence[Export]
    refs: tuple[Symbol, ...]
    init: tuple[int, ...]
    fini: tuple[int, ...]
    dso: int
    pins: tuple[tuple[str, int], ...]
    groups: tuple[str, ...]
    copies: tuple[str, ...]
    moves: Moves | None

    def __init__(self, cell: int):
        set_first(self, "cell", cell)
        set_first(self, "text", None)
        set_first(self, "rodata", None)
        set_first(self, "data", None)
        set_first(self, "unwind", None)
        # Tuples; lists while one variable after another is added: see `add`.
        set_first(self, "_adopted", ())
        set_first(self, "_exports", ())
        set_first(self, "extra", ())
        set_first(self, "refs", ())
        set_first(self, "init", ())
        set_first(self, "fini", ())
        set_first(self, "dso", 0)
        set_first(self, "pins", ())
        set_first(self, "groups", ())
        set_first(self, "copies", ())
        set_first(self, "moves", None)

    @property
    def exports(self) -> tuple[Export, ...]:
        """What it defines: symbol, address, size."""
        if self._exports.__class__ is RecordedList:
            self._exports = tuple(self._exports)
        return self._exports  # type: ignore[return-value]

    @exports.setter
    def exports(self, exports: tuple[Export, ...]) -> None:
        self._exports = exports

    @property
    def adopted(self) -> tuple[Block, ...]:
        """Blocks that it took over, or that came later."""
        if self._adopted.__class__ is RecordedList:
            self._adopted = tuple(self._adopted)
        return self._adopted  # type: ignore[return-value]

    @adopted.setter
    def adopted(self, blocks: tuple[Block, ...]) -> None:
        self._adopted = blocks

    def add(self, symbol: Symbol, address: int, size: int, block: Block) -> None:
        """It defines one more variable.  Many in a row take time in proportion to their number."""
        self._exports = appended(self._exports, (symbol, address, size))
        self._adopted = appended(self._adopted, block)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Data and constants the image holds, its own and those it took over."""
        own = tuple(b for b in (self.rodata, self.data) if b is not None)
        return own + self.adopted

    def sizes(self) -> dict[str, int]:
        """Bytes per zone."""
        return {
            "text": (self.text.size if self.text else 0) + sum(e.size for e in self.extra),
            "rodata": self.rodata.extent.size if self.rodata else 0,
            "data": self.data.extent.size if self.data else 0,
            "unwind": self.unwind.size if self.unwind else 0,
        }

    @property
    def superseded(self) -> bool:
        """Whether it defines something and all of it has been redefined by others."""
        return bool(self.exports) and all(s.image is not self for s, _, _ in self.exports)

    def __repr__(self) -> str:
        return f"<Image of cell {self.cell}>"
