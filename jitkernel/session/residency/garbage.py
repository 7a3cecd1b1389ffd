"""Cells that nothing can reach any more are found and freed.

A cell is garbage when it defines nothing any more, no type either, or when its notebook cell was
run again since, and nothing outside the garbage refers to what it still defines; nor may a word of
the data zone look like a pointer into it.  Most go by themselves when the last definition is
replaced; what stays is what an earlier version's users have kept, until now.  Start from `collect`.

Of some cells only data is left: strings of call lines, constants of instructions that have run.
Such a cell defines nothing, and nothing that the linker knows refers to it; but the program may
have kept a pointer (putenv() does).  `unreachable` says which nothing points to; `DataCells` frees
them now and then.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from jitkernel import procfs
from jitkernel.executor.pointers import Range, Unreadable, live_words, pointed_to, program_words
from jitkernel.session.history.reverting import forget
from jitkernel.session.program.cell import Cell, Change
from jitkernel.session.program.eviction import evict
from jitkernel.session.report.memory import pages

if TYPE_CHECKING:
    from jitkernel.arena import Arena
    from jitkernel.session.core import Core
    from jitkernel.session.program.program import Program

__all__ = ["Garbage", "DataCells", "collect", "find", "has_only_data", "unreachable", "words_into"]

ZONES = ("text", "rodata", "unwind", "data")


@dataclass(frozen=True, slots=True)
class Garbage:
    """What a collection did, or would do where `dry_run`.

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
        return False  # see `unreachable`
    newer = program.by_id.get(cell.cell_id, 0) if cell.cell_id else 0
    defines = cell.exports or program.type_uses.defined_by(cell)
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
    own: set[int] = set()
    for number, cell in cells.items():
        image = cell.image
        if image is None:  # types alone
            continue
        extents = [b.extent for b in image.blocks] + ([image.text] if image.text else [])
        ranges += [(e.start, e.stop, number) for e in extents]
        if image.data is not None:
            own.add(image.data.extent.start)
    return words_into(arena, sorted(ranges), own) if ranges else set()


def words_into(
    arena: Arena, ranges: Sequence[tuple[int, int, int]], apart: Collection[int] = ()
) -> set[int]:
    """The numbers of the ranges `(start, stop, number)`, sorted, that an aligned word of live data
    seems to point into, but for extents that start at one of `apart`."""
    low, high = ranges[0][0], max(stop for _, stop, _ in ranges)
    found: set[int] = set()
    for start, size in arena.zones["data"].list.live.items():
        if start in apart:
            continue
        at, skip = start - arena.base, -start % 8
        words = arena.view[at + skip : at + skip + (size - skip & -8)].cast("Q") if size > 7 else ()
        for word in words:
            if low <= word < high:
                first, stop, number = ranges[bisect_right(ranges, (word, 1 << 64, 0)) - 1]
                if first <= word < stop:
                    found.add(number)
    return found


def collect(session: Core, dry_run: bool, undo: bool) -> Garbage:
    """Free what nothing can reach; see `Session.gc`."""
    program, history, arena = session.program, session.history, session.engine.arena
    data = {n: c for n, c in program.cells.items() if has_only_data(program, c)}
    cells = [*find(program), *unreachable(session, data)[0]]
    named = tuple(
        (c.number, tuple(s.name for s, _, _ in c.image.exports) if c.image else ()) for c in cells
    )
    forgotten = len(history) + len(history.undone) if undo else 0
    if dry_run:
        freed = _sizes(cells)
        if undo:
            freed = {z: freed[z] + history.held(z) for z in ZONES}
        return Garbage(named, freed, {}, _held(session), history.bytes, forgotten, True)
    used, before = _used(session), _processes(session)
    if cells:
        words = ", ".join(str(c.number) for c in cells)
        change = history.begin(f"collection of cell{'s' * (len(cells) > 1)} {words}")
        evict(program, cells, change, finish=session.finish)
        for removed in change.removed:
            session.freed_code.add(*removed.text)
        if undo:
            forget(program, change)
        else:
            history.keep(change)
    if undo:
        history.clear()
    session.release_contexts()
    arena.trim()
    now, after = _used(session), _processes(session)
    return Garbage(
        named,
        {z: used[z] - now[z] for z in ZONES},
        {p: before[p] - after[p] for p in before},
        _held(session),
        history.bytes,
        forgotten,
    )


def _sizes(cells: Sequence[Cell]) -> dict[str, int]:
    """What taking those cells out frees at once: their data stays for undo."""
    sizes = [c.sizes for c in cells]
    return {z: sum(s.get(z, 0) for s in sizes) if z in ("text", "unwind") else 0 for z in ZONES}


def _held(session: Core) -> dict[str, int]:
    return {zone: session.history.held(zone) for zone in ("rodata", "data")}


def _used(session: Core) -> dict[str, int]:
    zones = session.engine.arena.zones
    return {zone: zones[zone].list.used for zone in ZONES}


def _processes(session: Core) -> dict[str, int]:
    """Bytes of memory that the slab and each process occupy."""
    engine = session.engine
    found = {"slab": engine.arena.resident(), "kernel": pages(os.getpid()).own}
    if engine.started:
        found["executor"] = pages(engine.executor.pid).own
    for number, (pid, _, _) in enumerate(engine.pool.processes(), 1):
        found[f"worker {number}"] = pages(pid).own
    return found


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


class DataCells:
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
            change = Change("cells of data")
            with program.linker.arena.rollback.atomic():
                evict(program, gone, change)
                forget(program, change)
        return len(gone)
