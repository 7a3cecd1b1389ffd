"""What a view is asked for, a name or a cell number, as a cell and its names: `find`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.ir.names import bare, written
from jitkernel.wording import did_you_mean

if TYPE_CHECKING:
    from jitkernel.session import Cell, Session

__all__ = ["find"]


def find(session: Session, target: int | str | None) -> tuple[Cell, list[str]]:
    """The cell and the names in it that are meant.  Raises UsageError."""
    cells = {cell.number: cell for cell in session.cells}
    if target is None:
        defining = [cell for cell in cells.values() if cell.names]
        if not defining:
            raise UsageError("no cell defines anything yet")
        return defining[-1], defining[-1].names
    if isinstance(target, int):
        if target not in cells:
            known = 0 < target <= session.number
            what = "was replaced, evicted, failed or had no code" if known else "never ran"
            raise UsageError(
                f"there is no cell {target} in memory: it {what}; %cells lists those there are"
            )
        return cells[target], cells[target].names
    name = bare(target)
    symbol = session.symbols.get(name)
    cell = symbol.cell if symbol is not None else 0
    if cell not in cells:
        words = did_you_mean(name, session.symbols, written, "; %symbols lists what there is")
        raise UsageError(f"nothing of the session is called {written(name)}{words}")
    return cells[cell], [name]
