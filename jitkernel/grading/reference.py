"""The reference of an exercise, linked for the time of one check.  Start from `linked`.

It is compiled and placed as thunks are: no cell, no name in the symbol table, nothing to undo, so
the student's own functions can have any name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jitkernel.compiler import Options, Request
from jitkernel.errors import UsageError
from jitkernel.grading.exercise import REFERENCE, Exercise
from jitkernel.ir.module import functions
from jitkernel.linker import Image
from jitkernel.rollback import note

if TYPE_CHECKING:
    from jitkernel.session import Session

__all__ = ["linked"]


@contextlib.contextmanager
def linked(session: Session, exercise: Exercise) -> Iterator[int]:
    """The address of the reference while it lasts."""
    engine = session.core.engine
    text = engine.pool.unsealed(exercise.reference)
    request = Request(text, Options(opt_level=1, internal=True), label="a reference")
    compiled = engine.pool.compile(request)
    kinds = {found.name: "function" for found in functions(text, "declare")}
    linker = engine.linker
    if REFERENCE in linker.symbols:
        raise UsageError(f"@{REFERENCE} is defined in this session; a check needs that name")
    placed: list[Image] = []

    def drop() -> None:
        with engine.writing(), engine.arena.rollback.atomic():
            for image in placed:
                linker.unlink(image)
            placed.clear()

    session.core.cleanups.add(drop)
    try:
        with engine.writing(), engine.arena.rollback.atomic():
            image = linker.place(compiled.object, 0, weak=frozenset(), kinds=kinds)
            address = next(at for symbol, at, _ in image.exports if symbol.name == REFERENCE)
            linker.symbols.pop(REFERENCE, None)
            image.exports = ()
            note(placed.clear)
            placed.append(image)
        yield address
    finally:
        session.core.cleanups.done(drop)
