"""The program's threads: where each is, and in which version of a function.

Each is held for some 100 microseconds, one after the other, and goes on.  Start from `threads`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.session.report.faults import running
from jitkernel.views.view import View, table
from jitkernel.wording import counted

if TYPE_CHECKING:
    from jitkernel.session import Session
    from jitkernel.session.report.places import Places

_CALLERS = 3  # that are named


def threads(session: Session) -> View:
    """The threads that the program has started: in which function each is, of which cell, and who
    has called it.

    A thread stays in a former version of a function until it calls the function again.  Raises
    UsageError where code runs in this process.
    """
    executor, places = session.inspect.engine.executor, session.inspect.places
    rows: list[tuple[object, ...]] = []
    for number in sorted(executor.program_threads()):
        try:
            record = executor.peek(number)
        except UsageError:
            continue  # it has just ended
        frames = running(record, 0.0, executor.pid, places).frames
        callers = [frame.words for frame in frames[1 : 1 + _CALLERS]]
        if len(frames) > 1 + _CALLERS:
            callers.append("...")
        where = frames[0].words if frames else ""
        rows.append((number, where, _version(places, record.pc), ", ".join(callers)))
    note = f"{counted(len(rows), 'thread')} beside the one that runs cells."
    return table("Threads of the program", ("thread", "where", "version", "called by"), rows, note)


def _version(places: Places, pc: int) -> str:
    """The cell that calls of the function at `pc` go to by now, where that is another one."""
    owner = places.owner(pc)
    symbol = owner[1] if owner is not None else None
    if owner is None or symbol is None or symbol.image is None or symbol.cell == owner[0]:
        return ""
    return f"former; now cell {symbol.cell}"
