"""Eviction from a whole session: history, results, and contexts.  Start from `take_out`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jitkernel.errors import EvictError, UsageError
from jitkernel.session.cell import Cell
from jitkernel.session.change import Change
from jitkernel.session.eviction import closure, evict
from jitkernel.session.finding import find_all
from jitkernel.session.reverting import forget

if TYPE_CHECKING:
    from jitkernel.session.core import Core

__all__ = ["take_out", "take_out_all"]


def take_out(
    session: Core, which: Sequence[int | str | Cell], cascade: bool, force: bool
) -> list[Cell]:
    """Evict cells, so that it can be undone; see `Session.evict`."""
    if not which:
        raise UsageError("evict what? A cell's number, a range (3-5), or a symbol (@sq)")
    program, history = session.program, session.history
    cells = find_all(program, which, session.number)
    if not (cascade or force):
        words = closure(program, cells)[1]
        if words:
            evict(program, cells, Change(""))  # raises, naming them
            raise EvictError("others use it", words)
    change = history.begin(f"evict {', '.join(str(w) for w in which)}")
    gone = evict(program, cells, change, cascade=cascade, force=force, finish=session.finish)
    history.keep(change)
    for cell in gone:
        if cell.number in session.results:
            change.values.wait(cell.number, session.results.pop(cell.number))
    session.release_contexts()
    return gone


def take_out_all(session: Core) -> None:
    """Evict every cell for good; see `Session.reset`."""
    program, change = session.program, session.history.begin("reset")
    cells = sorted(program.cells.values(), key=lambda c: c.number)
    evict(program, cells, change, cascade=True, finish=session.finish)
    forget(program, change)
    session.onlookers.stopped = None
    session.history.clear()
    session.results.forget()
    program.types.clear()
    program.type_uses.owners.clear()
    program.declared.clear()
