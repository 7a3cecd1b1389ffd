"""Who holds each byte of the arena: cells by state, entries and slots, thunks, undo, nobody.

Read from the books of arena, linker and session when it is asked for; nothing is kept up to date
for it.  Start from `tenants`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from jitkernel.languages.llvm.quoting import quote_name
from jitkernel.printable import written

if TYPE_CHECKING:
    from jitkernel.linker import Image, Symbol
    from jitkernel.session.cell import Cell
    from jitkernel.session.core import Core

__all__ = ["STATES", "Tenant", "tenants"]

#: What a tenant can be, in the order displays list them, and what that means.
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


class Tenant(NamedTuple):
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


def tenants(session: Core) -> dict[str, list[Tenant]]:
    """By zone, in address order: what lies below the high-water mark, free ranges included.

    The sizes of a zone's tenants add up to its high-water mark; those that are not free, without
    their padding, to what `Arena.usage` calls used.
    """
    holders = _holders(session)
    found: dict[str, list[Tenant]] = {}
    for name, zone in session.arena.zones.items():
        books, granule = zone.list, zone.list.granule
        unknown = ("undo", 0, "") if name != "unwind" else ("entry", 0, "records that cells share")
        rows = []
        for start, size in books.live.items():
            taken = (size + granule - 1) & -granule or granule
            state, cell, what = holders.get(start, unknown)
            rows.append(Tenant(name, start, taken, taken - size, state, cell, what))
        for start, stop in books.holes():
            if start < zone.high:
                rows.append(Tenant(name, start, min(stop, zone.high) - start, 0, "free", 0, ""))
        rows.sort(key=lambda tenant: tenant.start)
        found[name] = rows
    return found


def _holders(session: Core) -> dict[int, tuple[str, int, str]]:
    """By the address where an extent starts: state, cell and name of its tenant."""
    program = session.program
    found: dict[int, tuple[str, int, str]] = {}
    for symbol in _symbols(session):
        name = quote_name(symbol.name)
        if symbol.stub:
            found[symbol.stub] = ("entry", 0, f"entry of {written(name)}")
        for slot in (symbol.slot, symbol.far_slot):
            if slot:
                found[slot] = ("entry", 0, f"GOT slot of {written(name)}")
    for extent in session.arena.retained:
        found[extent.start] = ("retained", 0, "")
    for image in session.engine.thunk_images():
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
    """Where the extents of an image begin."""
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


def _symbols(session: Core) -> Iterator[Symbol]:
    """All of them, those that only the cells know that were compiled for an older type too."""
    known = session.program.linker.symbols
    yield from known.values()
    for cell in session.program.cells.values():
        for symbol in cell.image.refs if cell.image is not None else ():
            if known.get(symbol.name) is not symbol:
                yield symbol
