"""A name of the session and where it leads now.  Start from `Symbol`."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

from jitkernel.rollback import Recorded, RecordedDict, set_first

if TYPE_CHECKING:
    from jitkernel.linker.image import Image

__all__ = ["Definition", "Symbol", "SymbolKind", "SymbolState"]


class SymbolKind(IntEnum):
    """What a symbol names; decides whether an address taken goes through a canonical entry."""

    UNKNOWN = 0
    FUNCTION = 1
    DATA = 2


class SymbolState(IntEnum):
    """Where a symbol leads."""

    MISSING = 0  #: nobody defines it yet; calls reach a stub that raises
    DEFINED = 1  #: an image of the session defines it
    FAR = 2  #: the executor's process has it (libc, a loaded library), beyond 2 GiB
    FIXED = 3  #: an address that never changes: the runtime, an absolute symbol
    NULL = 4  #: weak and defined nowhere: address 0


#: What a symbol's definition was, to put it back: state, address, size, image, kind, why.
Definition = tuple[SymbolState, int, int, "Image | None", SymbolKind, str]


class Symbol(Recorded):
    """One name, its present definition, and every place that holds its address.

    `stub` is the canonical entry: 16 bytes of text at a fixed address that lead to the present
    definition, or raise.  `slot` is a GOT slot with the symbol's address, `far_slot` one with a far
    function's real address, through which its stub jumps.  `users` maps each image that refers to
    the symbol to its packed sites (see `sites`).  `held` counts who wants the entry kept all the
    same.  `info` belongs to the session: type, signature.
    """

    __slots__ = (
        "address", "far_slot", "held", "image", "info", "kind", "name", "size", "slot", "state",
        "stub", "users", "why",
    )  # fmt: skip

    name: str
    kind: SymbolKind
    state: SymbolState
    address: int
    size: int
    image: Image | None
    stub: int
    slot: int
    far_slot: int
    held: int
    users: RecordedDict[Image, bytes] | None
    info: Any
    why: str  # of a stub that raises for another reason than a missing definition

    def __init__(self, name: str, kind: SymbolKind = SymbolKind.UNKNOWN):
        set_first(self, "name", name)
        set_first(self, "kind", kind)
        set_first(self, "state", SymbolState.MISSING)
        set_first(self, "address", 0)
        set_first(self, "size", 0)
        set_first(self, "image", None)
        set_first(self, "stub", 0)
        set_first(self, "slot", 0)
        set_first(self, "far_slot", 0)
        set_first(self, "held", 0)
        set_first(self, "users", None)
        set_first(self, "info", None)
        set_first(self, "why", "")

    @property
    def is_function(self) -> bool:
        """Whether the symbol names code."""
        return self.kind is SymbolKind.FUNCTION

    @property
    def definition(self) -> Definition:
        """What it leads to now, for `Linker.redefine`."""
        return self.state, self.address, self.size, self.image, self.kind, self.why

    @definition.setter
    def definition(self, was: Definition) -> None:
        self.state, self.address, self.size, self.image, self.kind, self.why = was

    def __repr__(self) -> str:
        return f"<Symbol {self.name} {self.state.name.lower()} {self.address:#x}>"
