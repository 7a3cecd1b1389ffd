"""What a step says that the facts were, compared with plain copies of the program.

Start from `compared`: while it lasts, whatever a session does is held against copies of before and
after.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import wraps
from typing import Any
from unittest import mock

from jitkernel import Session
from jitkernel.session.program.cell import Change
from jitkernel.session.residency.garbage import has_only_data

Facts = dict[tuple[str, Any], Any]
_KINDS = ("name", "cell", "id", "type", "owner", "note", "archive")


def facts(s: Session) -> Facts:
    """All that a step may change, apart from data and objects."""
    program, found = s.inspect.program, Facts()
    for name, symbol in program.linker.symbols.items():
        if symbol.image is not None and symbol.image.cell:
            found["name", name] = symbol.image.cell, symbol.info
    for number, cell in program.cells.items():
        if not has_only_data(program, cell):  # those may go by themselves
            found["cell", number] = cell
    for kind in ("id", "type", "owner", "note", "archive"):
        table = program.state.tables[kind]
        found |= {(kind, key): value for key, value in table.items()}
    return found


def _said(change: Change) -> Facts:
    said = Facts()
    for (kind, key), was in change.before.items():
        if kind == "name":
            said[kind, key] = was[:2] if was.cell else None
        elif kind == "cell":
            said[kind, key] = was.cell if was.there else None
        elif kind in _KINDS:
            said[kind, key] = was or None
    return said


def _differ(kind: str, one: Any, other: Any) -> bool:
    if kind == "name":  # its type may be another one where its cell was made anew
        return (one or (0,))[0] != (other or (0,))[0]
    return one != other


def compare(before: Facts, after: Facts, change: Change) -> None:
    """What differs is what the change says, and it was as that says."""
    said = _said(change)
    for fact in {*before, *after, *said}:
        was, now = before.get(fact), after.get(fact)
        if _differ(fact[0], was, now):
            assert fact in said, (change.title, fact, was, now)
        if fact in said and not (fact[0] == "cell" and was is None and now is None):
            assert said[fact] == was, (change.title, fact, said[fact], was)


@contextlib.contextmanager
def compared() -> Iterator[list[str]]:
    """The titles of the steps that were compared."""
    titles: list[str] = []

    def watched(function: Any) -> Any:
        @wraps(function)
        def run(s: Session, *arguments: Any, **named: Any) -> Any:
            if s._core.operating:
                return function(s, *arguments, **named)
            history = s.inspect.history
            before, known = facts(s), set(map(id, history.every()))
            try:
                return function(s, *arguments, **named)
            finally:
                steps = [change for change in history.every() if id(change) not in known]
                if len(steps) == 1:
                    compare(before, facts(s), steps[0])
                    titles.append(steps[0].title)

        return run

    with contextlib.ExitStack() as stack:
        for name in ("run", "evict", "undo", "redo", "gc"):
            stack.enter_context(mock.patch.object(Session, name, watched(getattr(Session, name))))
        yield titles
