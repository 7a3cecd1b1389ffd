"""What changed since somebody last asked, for who keeps a copy.  Start from `Journal`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jitkernel.linker.image import Image
    from jitkernel.linker.symbols import Symbol

__all__ = ["Journal"]


class Journal:
    """Symbols that were made, moved or dropped, and the numbers of cells whose images were.

    Where a change is undone again, its symbols and cells are noted all the same: who asks looks at
    what they are now.
    """

    __slots__ = ("cells", "symbols")

    def __init__(self) -> None:
        self.symbols: dict[Symbol, None] = {}  # in order: the file is the same each time
        self.cells: dict[int, None] = {}

    def image(self, image: Image) -> None:
        """An image came, went, or defines or uses something else."""
        if image.cell:
            self.cells[image.cell] = None
        self.symbols.update(dict.fromkeys(image.refs))
        for symbol, _, _ in image.exports:
            self.symbols[symbol] = None

    def take(self) -> tuple[dict[Symbol, None], dict[int, None]]:
        """What was noted; the journal is empty then."""
        found = (self.symbols, self.cells)
        self.symbols, self.cells = {}, {}
        return found
