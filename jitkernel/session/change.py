"""What one run or eviction did to the program, so that it can be taken back.  Start from `Change`.

Records only: who makes and reverts them is `program.Program`, who keeps them `undo.UndoHistory`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jitkernel.linker import Block, Symbol
from jitkernel.session.cell import Cell

__all__ = ["Change", "Removed"]


@dataclass(slots=True)
class Removed:
    """A cell that left memory, with what is needed to bring it back at the same addresses."""

    cell: Cell
    owned: frozenset[str]
    names: tuple[str, ...]
    rodata: Block | None
    data: Block | None
    pins: tuple[tuple[str, int], ...]
    held: tuple[Block, ...]
    cell_id: str | None
    text: tuple[int, int, int, list[str]]
    linked: bool
    ghosts: tuple[Symbol, ...] = ()


@dataclass(slots=True)
class Change:
    """What one run or eviction did to the program, so that it can be taken back.

    `moved` maps a symbol's name to the number of the cell that defined it before (0: none) and
    what was known of its type.  `replaced` is the cell that had the notebook cell's id before (0:
    none).  `ghosts` stand for symbols of another type, see `_retype`.  `pages` are bytes of the
    data zone as they were before.
    """

    title: str
    added: Cell | None = None
    replaced: int = 0
    removed: list[Removed] = field(default_factory=list)
    leaving: list[tuple[Cell, frozenset[str]]] = field(default_factory=list)
    moved: dict[str, tuple[int, Any]] = field(default_factory=dict)
    types: dict[str, str | None] = field(default_factory=dict)
    results: Any = None
    pages: list[tuple[int, bytes]] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    symbols: list[Symbol] = field(default_factory=list)
    ghosts: list[Symbol] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether nothing of the program or its data is different since."""
        added = self.added is not None and (self.added.image is not None or self.added.strings)
        return not (
            added or self.replaced or self.removed or self.moved or self.types or self.pages
        )
