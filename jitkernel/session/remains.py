"""Cells of which only data is left: strings of call lines, constants of instructions that have run.

Such a cell defines nothing, and nothing that the linker knows refers to it; but the program may
have kept a pointer (putenv() does).  Start from `unreachable`; `Remains` takes those that are out
of reach for good, now and then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING

from jitkernel.executor import procfs
from jitkernel.session.cell import Cell
from jitkernel.session.change import Change
from jitkernel.session.eviction import evict
from jitkernel.session.reaching import Range, Unreadable, live_words, pointed_to, program_words
from jitkernel.session.reverting import forget

if TYPE_CHECKING:
    from jitkernel.session.core import Core
    from jitkernel.session.program import Program

__all__ = ["Remains", "has_only_data", "unreachable"]

_FEW = 256  # cells
_BYTES = 1 << 14  # of memory that are looked through for each cell that may go


def has_only_data(program: Program, cell: Cell) -> bool:
    """Whether nothing is left of a cell but data that its statements brought."""
    if cell.image is not None or not cell.strings or cell.extras:
        return False
    return not program.type_uses.defined_by(cell)


def unreachable(session: Core, cells: Mapping[int, Cell]) -> tuple[list[Cell], int]:
    """Those of the cells, which have only data, that nothing seems to point into, and how many
    bytes were looked through.

    No cell is while threads or children of the program live: what those hold cannot be seen.
    """
    executor, arena = session.engine.executor, session.engine.arena
    if not cells or executor.busy or executor.threads or len(procfs.family(executor.pid)) > 1:
        return [], 0
    ranges: list[Range] = sorted(
        (b.extent.start, b.extent.stop, number) for number, c in cells.items() for b in c.strings
    )
    looked = 0

    def counted(memory: Iterator[bytes]) -> Iterator[bytes]:
        nonlocal looked
        for piece in memory:
            looked += len(piece)
            yield piece

    try:
        roots = chain(
            live_words(arena, "data", ranges), live_words(arena, "rodata", ranges),
            _known(session), program_words(executor.pid, arena),
        )  # fmt: skip
        kept = pointed_to(counted(roots), ranges)
    except Unreadable:
        return [], looked
    fresh = kept
    while fresh:  # what is kept may point to others
        inside = (
            arena.read(start, stop - start) for start, stop, number in ranges if number in fresh
        )
        fresh = pointed_to(counted(inside), ranges) - kept
        kept |= fresh
    return [c for n, c in cells.items() if n not in kept], looked


def _known(session: Core) -> Iterator[bytes]:
    """Values that can be named, and data that an undo or a redo would bring back."""
    results, history = session.results, session.history
    for value in [*results.values(), *filter(None, [results.last])]:
        yield value.data
    for change in history.every():
        last = change.results() if change.results is not None else None
        for value in [*change.values.values(), *filter(None, [last])]:
            yield value.data
        yield from change.pages.values()


class Remains:
    """Frees cells that have only data when no undo step knows them and nothing points to them.

    Looked for when more than `_FEW` came since the last time, and more than twice of those that
    stayed, and as many as make up for the memory to be looked through: so the cost of each cell is
    bounded.
    """

    def __init__(self, session: Core):
        self._session = session
        self._wait = _FEW
        self._before = 0  # cells that had come at the last time

    def collect(self) -> int:
        """Free what can be freed, where it is time for that; how many cells went."""
        program = self._session.program
        if program.adopted - self._before <= self._wait:
            return 0
        self._before = program.adopted
        history = self._session.history
        undoable = {c.number for change in history.every() for c in change.arrived}
        cells = {n: c for n, c in program.cells.items() if has_only_data(program, c)}
        cells = {n: c for n, c in cells.items() if n not in undoable}
        gone, looked = unreachable(self._session, cells)
        self._wait = max(_FEW, 2 * (len(cells) - len(gone)), looked // _BYTES)
        if gone:
            change = Change("remains")
            with program.linker.arena.rollback.atomic():
                evict(program, gone, change)
                forget(program, change)
        return len(gone)
