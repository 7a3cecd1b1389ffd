"""What one run or eviction did to the program, so that it can be taken back.  Start from `Change`.

Records only: `program.Program` makes them, `reverting` takes them back, `undo.UndoHistory` keeps
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from mmap import PAGESIZE
from typing import Any

from jitkernel.languages.llvm import TypedValue
from jitkernel.linker import Block, Symbol
from jitkernel.rollback import Recorded, RecordedDict, RecordedList
from jitkernel.session.cell import Cell
from jitkernel.session.results import Values

__all__ = ["Change", "Effects", "Removed", "title"]


@dataclass(slots=True, eq=False)
class Removed(Recorded):
    """A cell that left memory, with what is needed to bring it back at the same addresses.

    `exports` are where what it defined began and ended, and the names; `infos` the types that it
    takes the names for which it uses.
    """

    cell: Cell
    owned: frozenset[str]
    names: tuple[str, ...]
    rodata: Block | None
    data: Block | None
    adopted: tuple[Block, ...]
    pins: tuple[tuple[str, int], ...]
    held: tuple[Block, ...]
    text: tuple[int, int, int, list[str]]
    linked: bool
    ghosts: tuple[Symbol, ...] = ()
    exports: tuple[tuple[int, int, str], ...] = ()
    infos: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Effects(Recorded):
    """What a run did that taking it back leaves: bytes it printed, the names that its statements
    mention (see `effects.lasting`), the cells whose constructors and destructors ran."""

    printed: int = 0
    names: frozenset[str] = frozenset()
    constructed: int = 0
    destroyed: tuple[int, ...] = ()


@dataclass(slots=True, eq=False)
class Change(Recorded):
    """What one run or eviction did to the program, so that it can be taken back.

    `cell` is the number of the run that it is or was (0: an eviction, a collection).  `added` is
    the cell that the run made, `back` are cells that an undo brought back: both leave when the
    change is reverted, and those in `removed` return.

    `moved` maps a symbol's name to the number of the cell that defined it before (0: none) and
    what was known of its type; `infos` what a missing one was taken for before; `whys` has what
    calls of a missing one said.  `ids` maps a notebook
    cell's id to the number of the cell that had it before (0: none), `replaced` is that of
    `added`.  `types` are the bodies of named types before, `owners` the numbers of the cells that
    defined them before and after (0: none).  `pages` are bytes of the data zone as they were
    before, by address, `lost` ranges of it that were written and of which nothing was kept; `left`
    are those of the change that it takes back, which are as that left them.  `results` finds
    the last result before, `values` are those of cells that left.  `effects` say what the run did
    that is no part of the program.

    `ghosts` stand for symbols of another type, see `ghosts.retype`; `haunts` are ghosts that get
    back the cells of those numbers, and the symbol's entry where that is so.
    """

    title: str
    cell: int = 0
    added: Cell | None = None
    back: list[Cell] = field(default_factory=list)
    replaced: int = 0
    removed: RecordedList[Removed] = field(default_factory=RecordedList)
    leaving: list[tuple[Cell, frozenset[str]]] = field(default_factory=list)
    moved: dict[str, tuple[int, Any]] = field(default_factory=dict)
    infos: dict[str, Any] = field(default_factory=dict)
    whys: dict[str, str] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    types: dict[str, str | None] = field(default_factory=dict)
    owners: dict[str, tuple[int, int]] = field(default_factory=dict)
    results: Callable[[], TypedValue | None] | None = None
    values: Values = field(default_factory=Values)
    pages: RecordedDict[int, bytes] = field(default_factory=RecordedDict)
    lost: RecordedList[tuple[int, int]] = field(default_factory=RecordedList)
    left: RecordedList[tuple[int, int]] = field(default_factory=RecordedList)
    symbols: RecordedList[Symbol] = field(default_factory=RecordedList)
    ghosts: list[Symbol] = field(default_factory=list)
    haunts: list[tuple[Symbol, tuple[int, ...], bool]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    effects: Effects = field(default_factory=Effects)

    @property
    def is_empty(self) -> bool:
        """Whether nothing of the program or its data is different since."""
        added = self.added is not None and (self.added.image is not None or self.added.strings)
        return not (
            added
            or self.back
            or self.replaced
            or self.removed
            or self.moved
            or self.types
            or self.owners
            or self.pages
            or self.lost
        )

    @property
    def arrived(self) -> list[Cell]:
        """The cells that leave when the change is reverted."""
        return [*self.back, *([self.added] if self.added is not None else ())]

    def remember(self, pages: Iterable[tuple[int, bytes]]) -> None:
        """More old bytes; where some were known, those are older and stay."""
        parts = [at for at in self.pages if at % PAGESIZE]  # of a run taken out of the middle
        for address, old in pages:
            known = self.pages.get(address, b"")
            if len(old) <= len(known):
                continue
            merged = bytearray(known + old[len(known) :])
            for at in parts:
                if address < at < address + len(merged):
                    piece = self.pages[at][: address + len(merged) - at]
                    merged[at - address : at - address + len(piece)] = piece
            self.pages[address] = bytes(merged)

    def lose_pages(self) -> None:
        """Keep no old bytes any more: those places are lost."""
        self.lost += sorted((at, at + len(old)) for at, old in self.pages.items())
        self.pages.clear()


def title(number: int, source: str) -> str:
    """What the run of a cell is called: `cell 5: @sq(7)`."""
    first = source.strip().partition("\n")[0]
    return f"cell {number}: {first if len(first) <= 50 else first[:47] + '...'}"
