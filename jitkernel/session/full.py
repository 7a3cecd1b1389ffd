"""What to say when a zone of the arena has no room: who holds it, and how to get some back.
Start from `explain_full`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitkernel.errors import ArenaFull
from jitkernel.languages.llvm.quoting import quote_name

if TYPE_CHECKING:
    from jitkernel.session.core import Core

__all__ = ["explain_full"]


def explain_full(session: Core, error: ArenaFull) -> ArenaFull:
    """The same error with what holds the zone's space and which commands free it."""
    zone = error.zone
    held: list[tuple[int, str]] = []
    for cell in session.program.cells.values():
        image = cell.image
        size = image.sizes().get(zone, 0) if image is not None else 0
        if zone == "data":
            blocks = (*cell.strings, *(image.adopted if image is not None else ()))
            size += sum(b.extent.size for b in blocks)
        if size:
            names = ["@" + quote_name(n) for n in cell.names]
            shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
            held.append((size, f"cell {cell.number}{f' ({shown})' if shown else ''}: {size} bytes"))
    held.sort(reverse=True)
    lines = [f"{error}.", *(f"  {words}" for _, words in held[:5])]
    if len(held) > 5:
        lines.append(f"  and {len(held) - 5} cells more: {sum(s for s, _ in held[5:])} bytes")
    undo = session.history.held(zone)
    if undo:
        lines.append(f"  kept so that undo can bring it back: {undo} bytes")
    kept = sum(extent.size for extent in session.arena.retained if extent.zone == zone)
    if kept:
        lines.append(f"  kept until the threads that the program has started end: {kept} bytes")
    lines.append(
        "Nothing was placed. %evict CELL takes cells out"
        + (" (undo keeps their data for a while; %reset forgets it)" if zone == "data" else "")
        + ", %gc frees what nobody can reach, %reset everything; --Arena.capacity at the start "
        "gives more."
    )
    return ArenaFull("\n".join(lines), zone, error.size, error.free, error.largest)
