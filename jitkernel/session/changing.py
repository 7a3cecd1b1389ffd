"""Undo, redo and eviction of a whole session: program, history, results, and what is said.

Start from `undo`, `redo` and `take_out`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jitkernel.errors import EvictError, UsageError
from jitkernel.session.history.reverting import forget
from jitkernel.session.history.snapshot import lasting, lost_words, refuse_losses
from jitkernel.session.program.cell import Cell, Change, cells_words
from jitkernel.session.program.eviction import closure, evict, find_all, listed

if TYPE_CHECKING:
    from jitkernel.session.core import Core

__all__ = ["redo", "take_out", "take_out_all", "undo", "undo_one"]


def undo(session: Core, count: int, partial: bool = False) -> list[str]:
    """Take the last `count` changes back; a sentence for each.

    Raises UsageError where there are none, or fewer, or where data could not be taken back too,
    unless `partial`: nothing is taken back then.
    """
    history = session.history
    _enough(count, history.count(), "undo")
    if not partial:
        refuse_losses(session, [c for c in history if not c.is_empty][:count], "undo")
    return [_taken(session, history.latest()) for _ in range(count)]


def undo_one(
    session: Core, cell: int | None, name: str, cascade: bool, partial: bool = False
) -> list[str]:
    """Take one change back, with those that build on it where `cascade` says so."""
    history = session.history
    change = history.find(cell) if cell is not None else history.find_name(name)
    later = history.obstacles(change)
    if later and not cascade:
        words = [f"{o.change.title} ({o.why})" for o in later]
        raise EvictError(
            f"{change.title} cannot be undone by itself, later runs build on it:\n{listed(words)}\n"
            "Nothing was undone. --cascade takes those back too",
            words,
        )
    changes = [*(o.change for o in reversed(later)), change]
    if not partial:
        refuse_losses(session, changes, "undo")
    return [_taken(session, c) for c in changes]


def redo(session: Core, count: int, partial: bool = False) -> list[str]:
    """Do the last `count` undone changes again; a sentence for each."""
    history = session.history
    _enough(count, len(history.undone), "redo")
    if not partial:
        refuse_losses(session, history.undone_last(count), "redo")
    said: list[str] = []
    for _ in range(count):
        change, inverse, heap = history.redo()
        _results(session, change, inverse)
        words = f"redone: {change.title}"
        if change.effects.printed or change.effects.names or change.effects.constructed:
            words += "; definitions and globals are as after it, its code was not run again"
        said.append(words + _into_heap(heap) + _destroyed(inverse))
    return said


def _taken(session: Core, change: Change) -> str:
    left = lasting(session.program, change)
    lost = lost_words(session, [change])
    change, inverse, heap = session.history.undo_one(change)
    _results(session, change, inverse)
    words = f"undone: {change.title}" + _into_heap(heap)
    if lost:
        words += f"; left as it is now: {lost}"
    if left:
        words += f"; not undone: {left}"
    return words + _destroyed(inverse)


def _destroyed(inverse: Change) -> str:
    cells = inverse.effects.destroyed
    return f"; the destructors of {cells_words(cells)} ran" if cells else ""


def _into_heap(words: int) -> str:
    if not words:
        return ""
    return (
        f"; {words} restored word{'s' * (words != 1)} point{'s' * (words == 1)} into the "
        "executor's heap, which was not undone"
    )


def _enough(count: int, there: int, what: str) -> None:
    if count < 1:
        raise UsageError(f"%{what} takes a number from 1")
    if not there:
        more = ": %redo follows %undo, before anything else is run" if what == "redo" else ""
        raise UsageError(f"there is nothing to {what}{more}")
    if count > there:
        raise UsageError(
            f"%{what} {count}: there {'are' if there > 1 else 'is'} only {there} to {what}"
        )


def _results(session: Core, change: Change, inverse: Change) -> None:
    """The results of what leaves go with it, those of what returns come back."""
    results = session.results
    for number in {change.cell, *(c.number for c in change.arrived)}:
        if number in results:
            inverse.values.wait(number, results.pop(number))
    if change.results is not None:
        inverse.results = results.recall()
        results.last = change.results()
    results.update(change.values)


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
