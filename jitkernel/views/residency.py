"""Which cells' code is in memory, and why some of it has to be.  Start from `residency`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitkernel.session.program.cell import CellState, cells_words
from jitkernel.views.names import written
from jitkernel.views.view import View, join, size_text, table

if TYPE_CHECKING:
    from jitkernel.session import Session
    from jitkernel.session.program.cell import Cell

__all__ = ["last_use", "residency", "threads"]

_LISTED = 50


def residency(session: Session) -> View:
    """The budget, what is in memory and what is not, and the cells whose code cannot leave."""
    state = session.residency
    cells = [c for c in session.cells if c.image is not None]
    asleep = [c for c in cells if c.state is CellState.HIBERNATED]
    awake = [c for c in cells if c.state is not CellState.HIBERNATED]
    budget = session.budget
    rows = [
        ("budget", f"{budget:,}" if budget else "none", size_text(budget) if budget else ""),
        ("code in memory", f"{state.code:,}", cells_words([c.number for c in awake])),
        ("hibernated cells", len(asleep), cells_words([c.number for c in asleep])),
        ("calls that brought code back", state.woken, ""),
    ]
    view = table("Code in memory (bytes)", ("what", "#how much", "which"), rows, threads(session))
    staying = [(c, why) for c in awake if (why := state.why_not(c)) and c.sizes.get("text")]
    if not staying:
        return view
    listed = [
        (c.number, " ".join(map(written, c.names)), c.sizes["text"], why)
        for c, why in staying[:_LISTED]
    ]
    more = f"{len(staying) - _LISTED} more" if len(staying) > _LISTED else ""
    columns = ("#cell", "defines", "#bytes", "because")
    return join([view, table("Cells whose code stays in memory", columns, listed, more)])


def threads(session: Session) -> str:
    """That threads of the program hold code in memory, where there are any."""
    count = session.engine.executor.threads
    if not count:
        return ""
    running, ended = ("s are", "they have") if count > 1 else (" is", "it has")
    return (
        f"{count} thread{running} running of the program's own: no code leaves memory before "
        f"{ended} ended"
    )


def last_use(session: Session, cell: Cell) -> str:
    """`now`, `3 runs ago`; empty where it was never called."""
    if not cell.used:
        return ""
    ago = session.residency.clock - cell.used
    return "now" if ago <= 0 else f"{ago} run{'s' * (ago != 1)} ago"
