"""Which cells somebody means: by number, by range, by symbol.  Start from `find`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.printable import written
from jitkernel.session.cell import Cell

if TYPE_CHECKING:
    from jitkernel.session.program import Program

__all__ = ["find", "find_all"]


def find(program: Program, which: int | str | Cell, last: int) -> list[Cell]:
    """See `Session.find`; `last` is the number of the latest cell."""
    if isinstance(which, Cell):
        which = which.number
    if isinstance(which, int) or which.isdigit():
        number = int(which)
        if number not in program.cells:
            what = "was superseded, evicted, or had no code" if 0 < number <= last else "never ran"
            raise UsageError(f"there is no cell {number} in memory: it {what}")
        return [program.cells[number]]
    low, dash, high = which.partition("-")
    if dash and low.isdigit() and high.isdigit():
        found = [c for n, c in sorted(program.cells.items()) if int(low) <= n <= int(high)]
        if not found:
            raise UsageError(f"there are no cells {which} in memory")
        return found
    symbol = program.symbol(which.removeprefix("@"))
    cell = program.cell_of(symbol) if symbol is not None else None
    if cell is None:
        raise UsageError(f"no cell defines {written(which.removeprefix('@'))}")
    return [cell]


def find_all(program: Program, which: Iterable[int | str | Cell], last: int) -> list[Cell]:
    """The cells that any of `which` means, each once."""
    found: list[Cell] = []
    for one in which:
        found += [c for c in find(program, one, last) if c not in found]
    return found
