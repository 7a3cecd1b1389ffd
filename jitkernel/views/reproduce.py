"""What differs between a session and a fresh run of its cells.  Start from `reproduce`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from jitkernel.views.view import View, paragraph, table

if TYPE_CHECKING:
    from jitkernel.session import Session
    from jitkernel.session.report.differences import Difference
    from jitkernel.session.report.reproducing import Reproduced

ROWS = 200  # listed; more are counted


def reproduce(
    session: Session, timeout: float = 60.0, progress: Callable[[str], object] | None = None
) -> View:
    """The view of what `Session.reproduce` finds."""
    return reproduced(session.reproduce(timeout, progress))


def reproduced(found: Reproduced) -> View:
    """The view of what it has found."""
    if not found.differences:
        return paragraph(f"{found.summary}.")
    rows = [(*_row(difference), difference.cell or "") for difference in found.differences[:ROWS]]
    more = len(found.differences) - ROWS
    note = f"{more:,} more are not listed." if more > 0 else ""
    return table(found.summary, ("what", "here", "in a fresh run", "#cell"), rows, note)


def _row(difference: Difference) -> tuple[str, str, str]:
    kind, name, here, there, _ = difference
    match kind:
        case "gone":
            return name, here, f"({there or 'no cell defines it any more'})"
        case "new":
            return name, "(missing)", there
        case "code":
            return f"code of {name}", "differs", ""
    return name, here, there
