"""Cells leave: alone, with all that depends on them, or leaving stubs that raise.

Start from `evict`; `find` says which cells are meant, by number, by range or by symbol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from jitkernel.errors import EvictError, UsageError
from jitkernel.ir.names import CONTROL
from jitkernel.linker import Image, Symbol
from jitkernel.linker.layout import group_members
from jitkernel.reach import postorder
from jitkernel.session.program.cell import Cell, CellState, Change
from jitkernel.session.program.relinking import relink
from jitkernel.session.program.signatures import Variable
from jitkernel.wording import listed

if TYPE_CHECKING:
    from jitkernel.session.program.program import Program


def _closure(program: Program, cells: Sequence[Cell]) -> tuple[list[Cell], list[str]]:
    """`cells` with everything that depends on them, dependents first; and who those are."""
    leaving = {c.number for c in cells}
    while True:
        order, words = _users_first(program, cells, leaving)
        more = {c.number for c in order}
        if more <= leaving:
            return order, words
        leaving |= more  # who leaves inherits nothing


def _users_first(
    program: Program, cells: Sequence[Cell], leaving: set[int]
) -> tuple[list[Cell], list[str]]:
    words: dict[str, None] = {}
    named = {c.number for c in cells}
    who = cache(partial(_who, program))

    def users(cell: Cell) -> Iterator[Cell]:
        found = program.linker.dependents(cell.image) if cell.image is not None else {}
        inherited = _inherited(program, cell, leaving) if found else frozenset()
        for symbol, images in found.items():
            if symbol.name in inherited:
                continue
            for image in images:
                user = program.cells.get(image.cell)
                if user is None:
                    continue
                if user.number not in named:
                    words[f"{who(user)} uses {program.called(symbol.name)}"] = None
                yield user

    return postorder(cells, users), list(words)


def _who(program: Program, cell: Cell) -> str:
    """`cell 5 (f, g)`, with the first few of its names."""
    return f"cell {cell.number} ({program.listed(cell.names) or 'its statements'})"


def _inherited(program: Program, cell: Cell, leaving: set[int]) -> frozenset[str]:
    """Names that another cell has a copy of, in a COMDAT group, and will provide."""
    copies = program.linker.copies
    groups = {
        group
        for group in (cell.image.groups if cell.image is not None else ())
        if any(i.cell in program.cells and i.cell not in leaving for i in copies.get(group, ()))
    }
    record = program.store.get(cell.number) if groups else None
    return group_members(record.object, groups) if record is not None else frozenset()


def evict(
    program: Program,
    cells: Sequence[Cell],
    change: Change,
    *,
    cascade: bool = False,
    force: bool = False,
    finish: Callable[[Image], None] | None = None,
) -> list[Cell]:
    """Take cells out; the cells that went.  Raises EvictError, with nothing changed."""
    everything, words = _closure(program, cells)
    if words and not (cascade or force):
        what = ", ".join(f"cell {c.number}" for c in cells)
        raise EvictError(
            f"{what} cannot be evicted, others use it:\n{listed(words)}\n"
            "Take them along with --cascade, or leave stubs that raise with --force",
            words,
        )
    going = list(cells) if force and not cascade else everything
    leaving = {c.number for c in going}
    for cell in going:
        if finish is not None and cell.image is not None:
            finish(cell.image)
    with program.world_stopped:
        for cell in going:
            _hand_over(program, cell, leaving)
        for cell in going:
            why = f"cell {cell.number}, which defined it, was evicted"
            program.remove(cell, CellState.EVICTED, change, why)
    program.forget_types(going, change)
    return going


def refuse_to_take_variables(
    program: Program, which: Iterable[int | str | Cell], last: int
) -> None:
    """Raise EvictError where a name takes along variables of its cell that were not named: what
    they hold goes with them.  A cell that is named by its number goes whole."""
    named: dict[Symbol, Cell] = {}
    whole: set[int] = set()
    for one in which:
        cells = find(program, one, last)
        symbol = program.named(one.removeprefix("@")) if isinstance(one, str) else None
        if symbol is not None and symbol in cells[0].exports:
            named[symbol] = cells[0]
        else:
            whole.update(c.number for c in cells)
    for symbol, cell in named.items():
        kept = [
            program.called(s.name)
            for s in cell.exports
            if isinstance(s.info, Variable) and not s.info.constant and s not in named
            and "." not in s.name.removeprefix(CONTROL)  # a function's own, as C's static locals
        ]  # fmt: skip
        if kept and cell.number not in whole:
            name, one_only = program.called(symbol.name), len(kept) == 1
            raise EvictError(
                f"{name} shares cell {cell.number} with the variable{'' if one_only else 's'} "
                f"{', '.join(kept)}, which would go along with what "
                f"{'it holds' if one_only else 'they hold'}. Nothing was evicted: run the cell "
                f"again without {name}, or evict all of cell {cell.number} with --force",
                [],
            )


def refuse_to_pull_data(program: Program, cells: Sequence[Cell]) -> None:
    """Raise UsageError where others have variables of the cells: code that reads what is gone is
    stopped by a fault, where that is not the end of everything."""
    leaving = {c.number for c in cells}
    for cell in cells:
        for symbol in cell.exports:
            users = {image.cell for image in symbol.users or () if image.cell} - leaving
            if users and not symbol.is_function:
                raise UsageError(
                    f"cell {min(users)} uses {program.called(symbol.name)}, and would end this "
                    "process when it reads what is gone: evict it along (cascade), or use "
                    'Session(executor="process")'
                )


def _hand_over(program: Program, cell: Cell, leaving: set[int]) -> None:
    """COMDAT groups that a leaving cell provides pass to a cell that has a copy of them."""
    for group in cell.image.groups if cell.image is not None else ():
        for image in program.linker.copies.get(group, ()):
            heir = program.cells.get(image.cell)
            if heir is not None and heir.number not in leaving:
                relink(program, heir, frozenset((group,)))
                break


def find(program: Program, which: int | str | Cell, last: int) -> list[Cell]:
    """See `Session.find`; `last` is the number of the latest cell."""
    if isinstance(which, Cell):
        which = which.number
    if not isinstance(which, int | str):
        raise UsageError(f"cells are named by number, range (3-5) or symbol ('sq'), not {which!r}")
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
    name = which.removeprefix("@")
    cell = program.cells.get(program.owner(name))
    if cell is None:
        raise UsageError(f"no cell defines {program.called(name)}")
    return [cell]


def find_all(program: Program, which: Iterable[int | str | Cell], last: int) -> list[Cell]:
    """The cells that any of `which` means, each once."""
    found: list[Cell] = []
    for one in which:
        found += [c for c in find(program, one, last) if c not in found]
    return found
