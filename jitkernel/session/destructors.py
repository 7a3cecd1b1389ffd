"""What an image runs when it goes: its destructors.  Start from `finish`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitkernel.executor import Outcome
from jitkernel.linker import Image, SymbolKind, SymbolState
from jitkernel.session.signatures import Signature

if TYPE_CHECKING:
    from jitkernel.session.core import Core

__all__ = ["finish"]

_FINALIZE = Signature(
    "void (ptr)", "", "", "", "void (ptr)"
)  # of __cxa_finalize, Itanium ABI 3.3.6


def finish(session: Core, image: Image) -> None:
    """Run an image's destructors; what goes wrong in them must not keep it in memory."""
    engine, program, linker = session.engine, session.program, session.program.linker
    session.graves.bury(image)
    handles = (*program.handles.pop(image.cell, ()), *([image.dso] if image.dso else ()))
    outcomes = [engine.call_many(list(image.fini))] if image.fini else []
    finalize = linker.known("__cxa_finalize", SymbolKind.FUNCTION) if handles else None
    if finalize is not None and finalize.state == SymbolState.FAR:
        target = engine.target(_FINALIZE, ("ptr",))
        entry = linker.entry(finalize)
        for handle in handles:
            outcomes.append(engine.call(target.address, entry, handle.to_bytes(8, "little"), 0))
    for outcome in outcomes:
        _ended(session, image.cell, outcome)
    # What is going on besides was to be stopped as well.
    engine.stopping |= engine.running and any(o.kind == "interrupted" for o in outcomes)


def _ended(session: Core, cell: int, outcome: Outcome) -> None:
    """Say what stopped a destructor."""
    if outcome.kind != "ok":
        # Only where a destructor was stopped.
        from jitkernel.session.faults import error_of
        from jitkernel.session.source_lines import line_finder

        find = line_finder(session)
        error = error_of(outcome, session.places, session.program.linker, find, "")
        words = str(error).replace("\n", "; ")
        session.sink.note(f"a destructor of cell {cell} was stopped: {words}")
