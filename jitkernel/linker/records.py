"""The linker's records: symbols, and the images that define and use them.

Start from `Symbol` and `Image`.  Only the linker assigns to their fields; everyone else reads them
and asks `Linker` for changes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar

from jitkernel.arena import Extent
from jitkernel.elf.constants import TABLE_LABELS
from jitkernel.ir.names import CONTROL
from jitkernel.linker.x86_64 import STUB_SIZE
from jitkernel.record import NamedTuple, record
from jitkernel.rollback import Recorded, RecordedDict, RecordedList, set_first


class SymbolKind(IntEnum):
    """The kind of a symbol; decides whether an address taken goes through a canonical entry."""

    UNKNOWN = 0
    FUNCTION = 1
    DATA = 2


class SymbolState(IntEnum):
    """The kind of place that a symbol leads to."""

    MISSING = 0  #: nobody defines it yet; calls reach a stub that raises
    DEFINED = 1  #: an image of the session defines it
    FAR = 2  #: the executor's process has it (libc, a loaded library), beyond 2 GiB
    FIXED = 3  #: an address that never changes: the runtime, an absolute symbol
    NULL = 4  #: weak and defined nowhere: address 0


#: Symbols that nobody defines.
NOWHERE: Final = (SymbolState.MISSING, SymbolState.NULL)

#: What a symbol's definition was, to put it back: state, address, size, image, kind, why.
Definition = tuple[SymbolState, int, int, "Image | None", SymbolKind, str]


@record(frozen=False, eq=False)
class _NewSymbol:
    """A symbol before it is one: see `new_symbol`."""

    name: str
    kind: SymbolKind = SymbolKind.UNKNOWN
    state: SymbolState = SymbolState.MISSING
    address: int = 0
    size: int = 0
    image: Image | None = None
    stub: int = 0
    slot: int = 0
    far_slot: int = 0
    held: int = 0
    users: RecordedDict[Image, bytes] | None = None
    info: Any = None
    why: str = ""

    def __post_init__(self) -> None:
        self.__class__ = Symbol


class Symbol(_NewSymbol, Recorded):
    """One name, its present definition, and every place that holds its address.

    `stub` is the canonical entry: 16 bytes of text at a fixed address that lead to the present
    definition, or raise.  `slot` is a GOT slot with the symbol's address, `far_slot` one with a far
    function's real address, through which its stub jumps.  `users` maps each image that refers to
    the symbol to its packed sites (see `sites`).  `held` counts who keeps the symbol alive although
    nobody may define or use it.  `info` and `why` belong to the session: type or signature, and the
    reason that a stub gives which raises for another one than a missing definition.
    """

    __slots__ = ()

    if not TYPE_CHECKING:

        def __init__(self, *_: object) -> None:
            raise TypeError("see `new_symbol`")

    @property
    def is_function(self) -> bool:
        """True if the symbol names code."""
        return self.kind is SymbolKind.FUNCTION

    @property
    def cell(self) -> int:
        """The number of the cell that defines it, 0 for none."""
        return self.image.cell if self.image is not None else 0

    @property
    def extents(self) -> list[Extent]:
        """Its stub and its slots."""
        slots = [Extent("rodata", at, 8) for at in (self.slot, self.far_slot) if at]
        return [Extent("text", self.stub, STUB_SIZE), *slots] if self.stub else slots

    @property
    def definition(self) -> Definition:
        """The definition that it leads to now, for `Linker.redefine`."""
        return self.state, self.address, self.size, self.image, self.kind, self.why

    @definition.setter
    def definition(self, was: Definition) -> None:
        state, self.address, size, self.image, kind, why = was
        if self.state is not state:  # each write is noted, and most stay as they are
            self.state = state
        if self.size != size:
            self.size = size
        if self.kind is not kind:
            self.kind = kind
        if self.why != why:
            self.why = why

    def __repr__(self) -> str:
        return f"<Symbol {self.name} {self.state.name.lower()} {self.address:#x}>"


#: offset from the slab's base, relocation type, and for instructions that may be relaxed their
#: original opcode, ModRM and REX bytes; addend
SITE = struct.Struct("<IBBBBq")
_TYPE_AT, _NOWHERE = 4, 64


class Site(NamedTuple):
    """One place in an image that holds a symbol's address; `offset` counts from the slab's base."""

    offset: int
    type: int
    opcode: int
    modrm: int
    rex: int
    addend: int


def sites(packed: bytes) -> list[Site]:
    """The sites in a symbol's `users[image]`."""
    return [Site._make(site) for site in SITE.iter_unpack(packed) if site[1]]


def hold(text: int) -> bytes:
    """The site, which is no field, of a body or a value that an image has in its code."""
    return SITE.pack(_NOWHERE, 0, 0, 0, 0, text)


def holds(packed: bytes) -> bool:
    """True if an image with these sites has a symbol's body or its value in its code."""
    return 0 in packed[_TYPE_AT :: SITE.size]


def held_text(packed: bytes) -> int | None:
    """The number of the text that it has, 0 for its own, None where it has none."""
    return next((site[5] for site in SITE.iter_unpack(packed) if not site[1]), None)


class Block(Recorded):
    """An extent that outlives the image that brought it: freed when nobody holds it any more.

    Data and constants are blocks: a program may have stored pointers to them, a newer image may
    have taken a variable over, and undo brings them back at the same address.
    """

    __slots__ = ("extent", "holders")

    extent: Extent
    holders: int

    def __init__(self, extent: Extent):
        set_first(self, "extent", extent)
        set_first(self, "holders", 1)


def value_of(name: str, address: int, size: int) -> tuple[int, int]:
    """The place of the bytes of a symbol that are its value and not its object's: address and size.
    Of a control block that is the number by which libgcc knows the threads' copies."""
    return (address + 16, 8) if name.startswith(CONTROL) else (address, size)


Export = tuple[Symbol, int, int]
T = TypeVar("T")


def appended(items: Sequence[T], item: T) -> list[T]:
    """`items` and one more: the same list, where it is one already."""
    grown = items if isinstance(items, RecordedList) else RecordedList(items)
    grown.append(item)
    return grown


@record(frozen=False, eq=False)
class _NewImage:
    """An image before it is one: see `new_symbol`."""

    cell: int
    text: Extent | None = None
    rodata: Block | None = None
    data: Block | None = None
    unwind: Extent | None = None
    # These two are tuples; lists while one variable after another is added: see `Image.add`.
    _adopted: Sequence[Block] = ()
    extra: tuple[Extent, ...] = ()
    _exports: Sequence[Export] = ()
    refs: tuple[Symbol, ...] = ()
    init: tuple[int, ...] = ()
    fini: tuple[int, ...] = ()
    dso: int = 0
    pins: tuple[tuple[str, int], ...] = ()
    groups: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.__class__ = Image


class Image(_NewImage, Recorded):
    """An object in the arena: its extents, what it defines and what it refers to.

    `exports` are `(symbol, address, size)`; a symbol whose `image` is another one by now has been
    redefined.  `refs` are the symbols whose `users` list this image.  `init` and `fini` are
    constructors and destructors in the order they run.  `dso` is what `__dso_handle` is in it, 0
    where it does not ask.  `groups` are COMDAT groups it provides, `copies` those it would have.
    """

    __slots__ = ()

    if not TYPE_CHECKING:

        def __init__(self, *_: object) -> None:
            raise TypeError("see `new_image`")

    @property
    def exports(self) -> tuple[Export, ...]:
        """The definitions in it: symbol, address, size."""
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
    def own(self) -> dict[str, Block]:
        """Its own constants and data, by zone."""
        found = {"rodata": self.rodata, "data": self.data}
        return {zone: block for zone, block in found.items() if block is not None}

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

    def has_code_at(self, address: int) -> bool:
        """True if an address is in its code."""
        text = self.text
        return text is not None and text.start <= address < text.stop

    @property
    def superseded(self) -> bool:
        """True if it defines something, and all of it has been redefined by others, but for labels
        of tables about its code that nobody reads."""
        return bool(self.exports) and all(
            s.image is not self or (s.name in TABLE_LABELS and not s.users)
            for s, _, _ in self.exports
        )

    def __repr__(self) -> str:
        return f"<Image of cell {self.cell}>"


#: Make a record that nobody knows yet: its fields are set before it has the class whose writes are
#: noted in the undo log, which is faster, and leaves nothing to put back.
new_symbol: type[Symbol] = _NewSymbol  # type: ignore[assignment]
new_image: type[Image] = _NewImage  # type: ignore[assignment]
