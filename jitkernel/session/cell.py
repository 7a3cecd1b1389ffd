"""One executed piece of source, as long as something of it is in memory.  Start from `Cell`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING

from jitkernel.linker.image import appended
from jitkernel.printable import written
from jitkernel.rollback import Recorded, RecordedList, set_first

if TYPE_CHECKING:
    from jitkernel.linker import Block, Image, Symbol
    from jitkernel.session.signatures import Signature

__all__ = ["Cell", "CellState", "cells_words", "names_of"]


class CellState(Enum):
    """What became of a cell."""

    LIVE = "live"
    SUPERSEDED = "superseded"
    EVICTED = "evicted"
    FAILED = "failed"
    HIBERNATED = "hibernated"


class Cell(Recorded):
    """A cell of the session: its number, where it came from, and its image while it has one.

    `number` counts from 1 and is never used again.  `cell_id` is the notebook's name for it, if it
    has one.  `options` is what it asked of the compiler for itself (`-O0, closed`).  `times` are
    nanoseconds by step: parse, verify, optimise, emit, link; `ran` those of its statements.  Where
    the object was `cached`, found in the object cache, all but the link's were spent earlier.
    `strings` is what call lines of the cell left in the data zone, `libraries` the functions it
    takes from libraries, `types` are the named types that it mentions, `defines`
    those of them that its own text defines,
    `extras` are variables that its statements made (name, address, bytes,
    where) and that are not in the object.  `used` is when it was last called (`Residency.clock`),
    `kept` whether its code is to stay in memory, `stays` why it has to (None: not looked at yet).
    Source and object are in the store.
    """

    __slots__ = (
        "_extras",
        "cached",
        "cell_id",
        "defines",
        "image",
        "kept",
        "libraries",
        "number",
        "options",
        "ran",
        "state",
        "stays",
        "strings",
        "times",
        "types",
        "used",
    )

    number: int
    cell_id: str | None
    options: str
    image: Image | None
    state: CellState
    strings: tuple[Block, ...]
    _extras: Sequence[tuple[str, int, int, Block]]
    libraries: tuple[tuple[str, Signature], ...]
    times: tuple[int, ...]
    types: tuple[str, ...]
    defines: tuple[str, ...]
    cached: bool
    ran: int
    used: int
    kept: bool
    stays: str | None

    def __init__(self, number: int, cell_id: str | None = None, options: str = ""):
        set_first(self, "number", number)
        set_first(self, "cell_id", cell_id)
        set_first(self, "options", options)
        set_first(self, "image", None)
        set_first(self, "state", CellState.LIVE)
        set_first(self, "strings", ())
        set_first(self, "_extras", ())
        set_first(self, "libraries", ())
        set_first(self, "times", ())
        set_first(self, "types", ())
        set_first(self, "defines", ())
        set_first(self, "cached", False)
        set_first(self, "ran", 0)
        set_first(self, "used", 0)
        set_first(self, "kept", False)
        set_first(self, "stays", None)

    @property
    def extras(self) -> tuple[tuple[str, int, int, Block], ...]:
        """Variables that its statements made and that are not in the object."""
        if self._extras.__class__ is RecordedList:
            self._extras = tuple(self._extras)
        return self._extras  # type: ignore[return-value]

    @extras.setter
    def extras(self, extras: tuple[tuple[str, int, int, Block], ...]) -> None:
        self._extras = extras

    def add_extra(self, extra: tuple[str, int, int, Block]) -> None:
        """One more; many in a row take time in proportion to their number."""
        self._extras = appended(self._extras, extra)

    @property
    def closed(self) -> bool:
        """Whether LLVM may have copied its functions into each other."""
        return "closed" in self.options

    @property
    def exports(self) -> list[Symbol]:
        """The symbols whose present definition is this cell's."""
        image = self.image
        return [] if image is None else [s for s, _, _ in image.exports if s.image is image]

    @property
    def names(self) -> list[str]:
        """The names of `exports`."""
        return [s.name for s in self.exports]

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes per zone; empty when nothing is resident."""
        return {} if self.image is None else self.image.sizes()

    def __repr__(self) -> str:
        names = ", ".join(written(n) for n in self.names)
        return f"<Cell {self.number} {self.state.value}{': ' if names else ''}{names}>"


def names_of(image: Image | None) -> tuple[str, ...]:
    """The names an image defines or defined."""
    return tuple(s.name for s, _, _ in image.exports) if image is not None else ()


def cells_words(numbers: Sequence[int]) -> str:
    """`cell 5`, `cells 5, 8`, `cells 1, 2, 3 and 7 more`; empty for none."""
    if not numbers:
        return ""
    if len(numbers) == 1:
        return f"cell {numbers[0]}"
    shown = ", ".join(map(str, numbers[:8]))
    return f"cells {shown}" + (f" and {len(numbers) - 8} more" if len(numbers) > 8 else "")
