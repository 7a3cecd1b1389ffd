"""Cells that nothing can reach any more are found and freed.

A cell is garbage when it defines nothing any more, no type either, or when its notebook cell was
run again since, and nothing outside the garbage refers to what it still defines; nor may a word of
the data zone look like a pointer into it.  Most go by themselves when the last definition is
replaced; what stays is what users of an earlier version have kept.  Start from `GarbageCollector`.

Of some cells only data is left: strings of call lines, constants of instructions that have run.
Such a cell defines nothing, and nothing that the linker knows refers to it; but the program may
have kept a pointer (putenv() does): those that nothing points to are freed now and then.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from jitkernel import procfs
from jitkernel.executor.pointers import Range, Unreadable, live_words, pointed_to, program_words
from jitkernel.record import record
from jitkernel.session.history.reverting import forget
from jitkernel.session.program.cell import Cell, Change, names_of
from jitkernel.session.report.memory import pages

if TYPE_CHECKING:
    from jitkernel.linker import Image
    from jitkernel.session.engine import Engine
    from jitkernel.session.history.undo import UndoHistory
    from jitkernel.session.program.program import Program
    from jitkernel.session.run.results import Results

ZONES = ("text", "rodata", "unwind", "data")
_FEW = 256  # cells
_BYTES = 1 << 14  # of memory that are looked through for each cell that may go


@record
class Garbage:
    """The result of a collection, or what it would do where `dry_run`.

    `cells` are numbers and what each defined; `freed` and `processes` bytes given back by zone and
    by process (the slab counts as one), `undo` bytes of each zone that the history keeps for what
    is gone, `undo_data` those of old values.  `forgotten` changes can no longer be undone.
    """

    cells: tuple[tuple[int, tuple[str, ...]], ...]
    freed: dict[str, int]
    processes: dict[str, int]
    undo: dict[str, int]
    undo_data: int
    forgotten: int = 0
    dry_run: bool = False


def find(program: Program) -> list[Cell]:
    """The cells that are garbage, those that use others first."""
    found = {c.number: c for c in program.cells.values() if _may_go(program, c)}
    while True:
        kept = {n for n, c in found.items() if not _users(program, c) <= found.keys()}
        if found and not kept:
            kept = _pointed_to(program, found)
        if not kept:
            break
        for number in kept:
            del found[number]
    return [found[n] for n in sorted(found, reverse=True)]


def _may_go(program: Program, cell: Cell) -> bool:
    if cell.image is None and (cell.strings or not cell.types):
        return False  # see `has_only_data`
    newer = program.state.ids.get(cell.cell_id, 0) if cell.cell_id else 0
    defines = cell.exports or program.state.defines(cell)
    return not defines or newer > cell.number


def _users(program: Program, cell: Cell) -> set[int]:
    image = cell.image
    if image is None:
        return set()
    return {i.cell for users in program.linker.dependents(image).values() for i in users}


def _pointed_to(program: Program, cells: Mapping[int, Cell]) -> set[int]:
    """Those of the cells that live data of others seems to point into."""
    arena = program.linker.arena
    ranges: list[tuple[int, int, int]] = []
    own: list[Range] = []
    for number, cell in cells.items():
        image = cell.image
        if image is None:  # types alone
            continue
        extents = [b.extent for b in image.blocks] + ([image.text] if image.text else [])
        ranges += [(e.start, e.stop, number) for e in extents]
        if image.data is not None:
            own.append((image.data.extent.start, image.data.extent.stop, number))
    return pointed_to(live_words(arena, "data", own), sorted(ranges)) if ranges else set()


def _sizes(cells: Sequence[Cell]) -> dict[str, int]:
    """The bytes that taking those cells out frees at once: their data stays for undo."""
    sizes = [c.sizes for c in cells]
    return {z: sum(s.get(z, 0) for s in sizes) if z in ("text", "unwind") else 0 for z in ZONES}


def has_only_data(program: Program, cell: Cell) -> bool:
    """True if nothing is left of a cell but data that its statements brought."""
    if cell.image is not None or not cell.strings or cell.extras:
        return False
    return not program.state.defines(cell)


class GarbageCollector:
    """Finds and frees cells: all that can go (`collect`), and now and then those of data.

    Cells of data are looked for when more than `_FEW` came since the last time, and more than twice
    of those that stayed, and as many as make up for the memory to be looked through: so the cost of
    each cell is bounded.
    """

    def __init__(
        self,
        program: Program,
        engine: Engine,
        history: UndoHistory,
        results: Results,
        finish: Callable[[Image], None],
    ):
        self._program, self._engine = program, engine
        self._history, self._results, self._finish = history, results, finish
        self._wait = _FEW
        self._before = 0  # cells of data that had come at the last time

    def collect(self, dry_run: bool, undo: bool) -> Garbage:
        """Free what nothing can reach; see `Session.gc`."""
        from jitkernel.session.program.eviction import evict

        program, history, arena = self._program, self._history, self._engine.arena
        history.settle()
        data = {n: c for n, c in program.cells.items() if has_only_data(program, c)}
        cells = [*find(program), *self._unreachable(data, undo)[0]]
        named = tuple((c.number, names_of(c.image)) for c in cells)
        forgotten = len(history) + len(history.undone) if undo else 0
        if dry_run:
            freed = _sizes(cells)
            if undo:
                freed = {z: freed[z] + history.held(z) for z in ZONES}
            return Garbage(named, freed, {}, self._held(), history.bytes, forgotten, True)
        used, before = self._used(), self._processes()
        if cells:
            words = ", ".join(str(c.number) for c in cells)
            change = history.begin(f"collection of cell{'s' * (len(cells) > 1)} {words}")
            evict(program, cells, change, finish=self._finish)
            history.keep(change)
        if undo:
            history.clear()
        self._engine.pool.release_contexts(program.cells.__contains__)
        arena.trim()
        now, after = self._used(), self._processes()
        return Garbage(
            named,
            {z: used[z] - now[z] for z in ZONES},
            {p: before[p] - after[p] for p in before},
            self._held(),
            history.bytes,
            forgotten,
        )

    def _held(self) -> dict[str, int]:
        return {zone: self._history.held(zone) for zone in ("rodata", "data")}

    def _used(self) -> dict[str, int]:
        zones = self._engine.arena.zones
        return {zone: zones[zone].list.used for zone in ZONES}

    def _processes(self) -> dict[str, int]:
        """Bytes of memory that the slab and each process occupy."""
        engine = self._engine
        found = {"slab": engine.arena.resident(), "kernel": pages(os.getpid()).own}
        if engine.started:
            found["executor"] = pages(engine.executor.process).own
        for number, (pid, _, _) in enumerate(engine.pool.processes(), 1):
            found[f"worker {number}"] = pages(pid).own
        return found

    def collect_data(self) -> None:
        """Free cells of data that no undo step knows and nothing points to, where it is time."""
        program, history = self._program, self._history
        if program.data_cells - self._before <= self._wait:
            return
        self._before = program.data_cells
        history.settle()
        undoable = {c.number for change in history.every() for c in change.arrived}
        cells = {n: c for n, c in program.cells.items() if has_only_data(program, c)}
        cells = {n: c for n, c in cells.items() if n not in undoable}
        gone, looked = self._unreachable(cells)
        self._wait = max(_FEW, 2 * (len(cells) - len(gone)), looked // _BYTES)
        if gone:
            from jitkernel.session.program.eviction import evict

            change = Change("cells of data")
            with program.linker.arena.rollback.atomic():
                evict(program, gone, change)
                forget(program, change)

    def _unreachable(self, cells: Mapping[int, Cell], undo: bool = False) -> tuple[list[Cell], int]:
        """Those of the cells, which have only data, that nothing seems to point into, and how many
        bytes were looked through; `undo`: what can be undone is to be forgotten.

        No cell is while threads or children of the program live: what those hold cannot be seen.
        """
        executor, arena = self._engine.executor, self._engine.arena
        if not cells or executor.busy or executor.threads:
            return [], 0
        if executor.process and len(procfs.family(executor.process)) > 1:
            return [], 0
        ranges: list[Range] = sorted(
            (b.extent.start, b.extent.stop, number)
            for number, c in cells.items()
            for b in c.strings
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
                self._known(undo), program_words(executor.pid, arena),
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

    def _known(self, undo: bool) -> Iterator[bytes]:
        """Values that can be named, and data that an undo or a redo would bring back, unless that
        is to be forgotten."""
        results = self._results
        for value in [*results.values(), *filter(None, [results.last])]:
            yield value.data
        for change in () if undo else self._history.every():
            last = change.results() if change.results is not None else None
            for value in [*change.values.values(), *filter(None, [last])]:
                yield value.data
            yield from change.pages.values()
