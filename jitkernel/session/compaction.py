"""Code moves together where it lies scattered, so that what comes next fits.  Start from
`Compaction`.

Whose code may leave memory under a budget (residency.py) may also be moved; and as little as that,
only between runs.  Nothing is moved ahead of need: who is about to place code says how much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitkernel.arena.packing import Movable, plan
from jitkernel.elf import read_object
from jitkernel.errors import JitError, present
from jitkernel.executor import procfs
from jitkernel.executor.waking import undisturbed
from jitkernel.linker.hibernation import move
from jitkernel.linker.image import SITE
from jitkernel.linker.layout import arrange
from jitkernel.linker.moving import STUCK
from jitkernel.linker.symbols import SymbolKind
from jitkernel.linker.x86_64 import TABLE
from jitkernel.session.cell import Cell, CellState
from jitkernel.session.garbage import words_into

if TYPE_CHECKING:
    from jitkernel.linker import Image, Linker
    from jitkernel.session.engine import Engine
    from jitkernel.session.program import Program
    from jitkernel.session.residency import Residency

__all__ = ["Compaction"]

_WASTE = 64  # where less than this part of a zone is free below its high water, that may grow
_MOST = 16  # cells that are moved for one, unless it would not fit at all
_FEW = 64  # extents: in a zone with more, not every request is looked at,
_PATIENCE = {True: 32, False: 4}  # one is let pass for so many, after room was made or was not
_LOOKS = 4  # plans that are made when those before would move what has pointers to it
_LOOKED = 8 << 20  # bytes of data in which pointers are looked for, unless it would not fit at all
#: Who calls these may have return addresses on stacks of its own.
_STACKS = ("makecontext", "swapcontext", "setcontext", "getcontext")


class Compaction:
    """Makes room in the text zone; `times` is how often that was done, `moved` how many cells were
    moved for it, `bytes` how much code that was."""

    def __init__(self, program: Program, engine: Engine, residency: Residency):
        self._program, self._engine, self._residency = program, engine, residency
        self.times = self.moved = self.bytes = 0
        self._patience = 0  # how often not to try

    def make_room_for(self, object: bytes) -> None:
        """Code of an object is about to be placed: see `make_room`."""
        if self._asks(len(object), 16, 1):  # its code is smaller than the whole
            size, align = arrange(read_object(object)).needs.get("text", (0, 16))
            if size:
                self.make_room(size, align)

    def make_room(self, size: int, align: int = 16) -> None:
        """`size` bytes of code are about to be placed: see to it that they fit into the zone, below
        its high-water mark if enough is free there.  Where that cannot be, nothing is changed."""
        asks = self._asks(size, align, size)
        if not asks:
            return
        full = asks == "full"
        if not full and self._patience:
            self._patience -= 1
            return
        if not self._may(full):
            return
        made = self._move(size, align, full)
        # A plan takes time in proportion to what there is.
        extents = len(self._engine.arena.zones["text"].list.live)
        self._patience = max(extents - _FEW, 0) // _PATIENCE[made]

    def _move(self, size: int, align: int, full: bool) -> bool:
        """Move cells, the fewest that make room; whether there is some."""
        arena, linker = self._engine.arena, self._program.linker
        zone = arena.zones["text"]
        cells = {
            c.image.text.start: c
            for c in self._program.cells.values()
            if c.image is not None and c.image.text is not None
            and c.state is not CellState.HIBERNATED and not c.kept
        }  # fmt: skip

        movable = Movable(cells.__contains__, lambda start: self.align(cells[start]))
        moves: list[tuple[int, int]] = []
        for _ in range(_LOOKS):
            moves = plan(
                zone.list, zone.stop if full else zone.high, size, align, movable,
                len(cells) if full else _MOST,
            )  # fmt: skip
            ranges = sorted(_text(cells[start]) for start, _ in moves)
            found = words_into(arena, ranges) if ranges else set()
            if not found:
                break
            for start, _ in moves:
                if cells[start].number in found:
                    del cells[start]
        else:
            return False
        if not moves:
            return False
        with self._engine.writing(), undisturbed():
            try:
                for start, to in moves:
                    image = present(cells[start].image, f"the code at {start:#x}")
                    move(linker, image, to)
                    self.moved += 1
                    self.bytes += image.text.size if image.text is not None else 0
            except JitError:
                return False  # what has moved is as good there
        self.times += 1
        return True

    def align(self, cell: Cell) -> int:
        """The alignment of a cell's code in bytes; 0 where it has to stay where it is."""
        image = cell.image
        if cell.kept or image is None or self._residency.why_not(cell):
            return 0
        moves = image.moves
        if moves is None or moves is STUCK or _leaves_addresses(self._program.linker, image):
            return 0
        return max(moves.align, 16)

    def _may(self, full: bool) -> bool:
        """Whether nothing can be in code that is moved, and nothing have addresses in it."""
        engine = self._engine
        executor, symbols = engine.executor, self._program.linker.symbols
        if executor.busy or executor.threads or any(name in symbols for name in _STACKS):
            return False
        if not full and engine.arena.zones["data"].list.used > _LOOKED:
            return False
        return len(procfs.family(executor.pid)) <= 1  # children run the same code

    def _asks(self, size: int, align: int, least: int) -> str:
        """Whether code of a size, or of `least` bytes, would not fit (`full`), or raise a mark that
        need not rise (`high`); empty where it is as it should be."""
        zone = self._engine.arena.zones["text"]
        books, found = zone.list, zone.list.find(size, align)
        if found is None:
            return "full" if books.free_bytes >= least else ""
        if found[1] + size <= zone.high:
            return ""
        high = zone.high - zone.start
        free = high - books.used - books.padding
        return "high" if free >= least and free * _WASTE >= high else ""


def _text(cell: Cell) -> tuple[int, int, int]:
    image = present(cell.image, f"the code of {cell}")
    text = present(image.text, f"the code of {cell}")
    return text.start, text.stop, cell.number


def _leaves_addresses(linker: Linker, image: Image) -> bool:
    """Whether others have addresses of an image's functions that are not their canonical ones, in
    variables, or would have to be near them."""
    text = present(image.text, f"the code of {image}")
    data = linker.arena.zones["data"]
    low, high = data.start - linker.arena.base, data.stop - linker.arena.base
    for symbol, address, _ in image.exports:
        if not text.start <= address < text.stop:
            continue
        if symbol.kind is not SymbolKind.FUNCTION:
            return True
        for packed in (symbol.users or {}).values() if symbol.image is image else ():
            for offset, type, *_ in SITE.iter_unpack(packed):
                row = TABLE[type]
                if row.field < 4 or (low <= offset < high and row.base == "L"):
                    return True
    return False
