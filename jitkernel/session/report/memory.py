"""Where a session's memory is and was: the slab, its processes, the files that they map.

Start from `memory`; `MemoryLog` keeps what was held when cells ended; `occupancy` says who has
each byte of the arena, read from the books of arena, linker and session when it is asked for;
`explain_full` says what to do where a zone of the arena has no room.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from jitkernel import procfs
from jitkernel.arena import Arena
from jitkernel.errors import ArenaFull
from jitkernel.procfs import own_bytes
from jitkernel.record import NamedTuple
from jitkernel.wording import counted

if TYPE_CHECKING:
    from jitkernel.linker import Image
    from jitkernel.session.engine import Engine
    from jitkernel.session.history.undo import UndoHistory
    from jitkernel.session.program.cell import Cell
    from jitkernel.session.program.program import Program

_KEPT = 240  # samples; more are thinned out
_OFTEN = 0.25  # seconds between two of them, doubled whenever they are thinned out


class Sample(NamedTuple):
    """Bytes held when a cell had ended, `seconds` after the session began."""

    cell: int
    seconds: float
    slab: int
    kernel: int
    executor: int
    workers: int

    @property
    def total(self) -> int:
        """The sum: all but the pages of files."""
        return self.slab + self.kernel + self.executor + self.workers


class MemoryLog:
    """At most 240 samples of a session's life, evenly thinned out, peaks kept.

    One costs some tens of microseconds, and none is taken soon after the last one, so that a
    program of thousands of short cells does not notice.
    """

    def __init__(self, arena: Arena, kept: int = _KEPT, often: float = _OFTEN):
        self._arena, self._kept, self._often = arena, max(kept, 4), often
        self._began = time.monotonic()
        self.due = 0.0  # when the last sample is old enough for another one
        self._samples: list[Sample] = []

    @property
    def samples(self) -> Sequence[Sample]:
        """The records, the oldest first."""
        return tuple(self._samples)

    def sample(self, cell: int, executor: int, workers: Sequence[int], now: bool = False) -> None:
        """A cell ended: take a sample if the last one is old enough, or `now`.

        `executor` and `workers` are process ids; 0 is none.
        """
        at = time.monotonic()
        if at < self.due and not now:
            return
        self.due = at + self._often
        sample = Sample(
            cell, at - self._began, self._arena.resident(), own_bytes(os.getpid()),
            own_bytes(executor), sum(map(own_bytes, workers)),
        )  # fmt: skip
        if self._samples and self._samples[-1].cell == cell:
            self._samples.pop()  # somebody looks at the same cell again
        self._samples.append(sample)
        if len(self._samples) > self._kept:
            self._thin()

    def _thin(self) -> None:
        """Keep the larger of each two, and the first and the last."""
        first, *rest, last = self._samples
        pairs = [rest[i : i + 2] for i in range(0, len(rest), 2)]
        self._samples = [first, *(max(p, key=lambda s: s.total) for p in pairs), last]
        self._often *= 2


class Pages(NamedTuple):
    """Bytes of one process: `own` that are no file's, and its share of the `files` it maps."""

    own: int
    files: int


def pages(pid: int) -> Pages:
    """The memory of a process, the slab left out; zeros where that cannot be read.

    A page of a file that n processes map counts for one n-th in each.
    """
    totals = procfs.memory_totals(pid)
    return Pages(totals.get("Anonymous", 0), totals.get("Pss_File", 0))


def memory(engine: Engine, program: Program, undo: int) -> dict[str, Any]:
    """The whole account, in bytes; `undo` of them are old data that an undo brings back.

    `zones` is `Arena.usage()`; `regions` what of each region of the slab occupies memory now and
    `slab` their sum; `kernel`, `executor` and `workers` (`own`) are the processes' own memory
    without the slab; `files` the pages of programs and libraries that they map, each counted once.
    `total` is exactly slab + kernel + executor + workers + files: what a container has to hold,
    though the system drops pages of files when it needs room.  `object_cache` is on disk and in
    no sum: see `CacheMemory`; None: off.
    """
    regions = engine.arena.resident_regions()
    kernel = pages(os.getpid())
    executor = pages(engine.executor.process)
    workers: list[dict[str, Any]] = []
    files = kernel.files + executor.files
    for pid, role, compiles in engine.pool.processes():
        held = pages(pid)
        files += held.files
        workers.append({"pid": pid, "role": role, "own": held.own, "compiles": compiles})
    slab = sum(regions.values())
    return {
        "zones": engine.arena.usage(),
        "regions": regions,
        "slab": slab,
        "kernel": kernel.own,
        "executor": executor.own,
        "workers": workers,
        "files": files,
        "thunks": sum(image.sizes()["text"] for image in engine.thunks.images),
        "cells": len(program.cells),
        "symbols": len(program.linker.symbols),
        "object_cache": engine.pool.cache.memory()._asdict() if engine.pool.cache else None,
        "undo": undo,
        "total": slab + kernel.own + executor.own + sum(w["own"] for w in workers) + files,
    }


#: What an occupant can be, in the order displays list them, and what that means.
STATES = {
    "live": "code and data of live cells",
    "superseded": "of cells all of whose definitions have been redefined",
    "hibernated": "of cells whose code is on disk: data, and stubs that bring it back",
    "entry": "canonical entries, stubs, GOT slots, shared unwind records",
    "thunk": "thunks, through which functions are called",
    "undo": "kept so that undo can bring it back",
    "retained": "freed, but threads that run may still use it",
    "free": "holes: what was there is gone, poison fills them",
}


class Occupant(NamedTuple):
    """Bytes `[start, start + size)` of a zone and whose they are.

    `padding` of them, at the end, only round it up to the zone's granule.  `cell` is 0 where no
    cell has them; `name` says what they are where that is more than "a part of the cell".
    """

    zone: str
    start: int
    size: int
    padding: int
    state: str
    cell: int
    name: str

    @property
    def stop(self) -> int:
        """One past the last byte."""
        return self.start + self.size


def occupancy(engine: Engine, program: Program) -> dict[str, list[Occupant]]:
    """By zone, in address order: what lies below the high-water mark, free ranges included.

    The sizes of a zone's occupants add up to its high-water mark; those that are not free, without
    their padding, to what `Arena.usage` calls used.
    """
    owners = _owners(engine, program)
    found: dict[str, list[Occupant]] = {}
    for name, zone in engine.arena.zones.items():
        books = zone.list
        unknown = ("undo", 0, "") if name != "unwind" else ("entry", 0, "records that cells share")
        rows = []
        for start, size in books.live.items():
            taken = books.room(size)
            state, cell, what = owners.get(start, unknown)
            rows.append(Occupant(name, start, taken, taken - size, state, cell, what))
        for start, stop in books.holes():
            if start < zone.high:
                rows.append(Occupant(name, start, min(stop, zone.high) - start, 0, "free", 0, ""))
        rows.sort(key=lambda occupant: occupant.start)
        found[name] = rows
    return found


def _owners(engine: Engine, program: Program) -> dict[int, tuple[str, int, str]]:
    """By the address where an extent starts: state, cell and name of its occupant."""
    found: dict[int, tuple[str, int, str]] = {}
    for symbol in program.every_symbol():
        name = program.called(symbol.name)
        if symbol.stub:
            found[symbol.stub] = ("entry", 0, f"entry of {name}")
        for slot in (symbol.slot, symbol.far_slot):
            if slot:
                found[slot] = ("entry", 0, f"GOT slot of {name}")
    for extent in engine.arena.deferred:
        found[extent.start] = ("retained", 0, "")
    for image in engine.thunks.images:
        for start in _starts(image):
            found[start] = ("thunk", 0, "")
    for cell in program.cells.values():
        state = _state(cell)
        for start in _starts(cell.image):
            found[start] = (state, cell.number, "")
        for block in cell.strings:
            found[block.extent.start] = (state, cell.number, "what its statements made")
    return found


def _state(cell: Cell) -> str:
    if cell.image is not None and cell.image.superseded:
        return "superseded"
    return cell.state.value if cell.state.value in STATES else "live"


def _starts(image: Image | None) -> Iterator[int]:
    """The addresses at which the extents of an image begin."""
    if image is None:
        return
    if image.text is not None:
        yield image.text.start
    if image.unwind is not None:
        yield image.unwind.start
    for extent in image.extra:
        yield extent.start
    for block in image.blocks:
        yield block.extent.start


def explain_full(program: Program, history: UndoHistory, error: ArenaFull) -> ArenaFull:
    """The same error with what holds the zone's space and which commands free it."""
    zone = error.zone
    held: list[tuple[int, str]] = []
    for cell in program.cells.values():
        image = cell.image
        size = image.sizes().get(zone, 0) if image is not None else 0
        if zone == "data":
            blocks = (*cell.strings, *(image.adopted if image is not None else ()))
            size += sum(b.extent.size for b in blocks)
        if size:
            first = program.listed(cell.names)
            held.append(
                (
                    size,
                    f"cell {cell.number}{f' ({first})' if first else ''}: {counted(size, 'byte')}",
                )
            )
    held.sort(reverse=True)
    lines = [f"{error}.", *(f"  {words}" for _, words in held[:5])]
    if len(held) > 5:
        lines.append(f"  and {len(held) - 5} cells more: {sum(s for s, _ in held[5:])} bytes")
    undo = history.held(zone)
    if undo:
        lines.append(f"  kept so that undo can bring it back: {undo} bytes")
    kept = sum(extent.size for extent in program.linker.arena.deferred if extent.zone == zone)
    if kept:
        lines.append(f"  kept until the threads that the program has started end: {kept} bytes")
    lines.append(
        "Nothing was placed. %evict CELL takes cells out"
        + (" (undo keeps their data for a while; %reset forgets it)" if zone == "data" else "")
        + ", %gc frees what nobody can reach, %reset everything; --Arena.capacity at the start "
        "gives more."
    )
    return ArenaFull("\n".join(lines), zone, error.size, error.free, error.largest)
