"""A stored cell compiled again under the eyes of an inspector.  Start from `inspect`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from jitkernel.compiler import Request
from jitkernel.compiler.inspection import Inspection
from jitkernel.errors import UsageError
from jitkernel.session.operation import operation
from jitkernel.session.options import stored_options

if TYPE_CHECKING:
    from jitkernel.session.core import Core

__all__ = ["inspect", "stored_request"]


def stored_request(session: Core, number: int) -> Request:
    """What the compiler was asked for a cell.  Raises UsageError where it has no IR."""
    record = session.store.get(number)
    if record is None or not record.module.strip():
        raise UsageError(f"cell {number} has no IR of its own")
    if record.source.startswith("; %link "):
        raise UsageError(f"cell {number} is an object of another compiler: it has no IR")
    return Request(
        record.module,
        stored_options(record),
        f"cell {number}",
        frozenset(record.nobuiltin),
        record.first_line,
    )


@operation()
def inspect(
    session: Core, number: int, only: str = "", tick: Callable[[], None] | None = None
) -> Inspection:
    """What each pass did to a cell's module; `only` names a function to look at alone.

    `tick` is called twice a second while it lasts.  Raises UsageError where the cell has no IR, and
    what a compile raises.
    """
    request = stored_request(session, number)
    inspector = session.engine.pool.inspector
    return inspector.inspect(request, only, session.settings.timeout, tick)
