"""The machine code of a function or a cell, read back from the arena.  Start from `asm`.

The bytes shown are those that run: relocated, and patched where a callee was redefined.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.ir.debug_info import Origins
from jitkernel.ir.names import bare, written
from jitkernel.linker.linkmap import MappedSymbol
from jitkernel.session.program.cell import CellState
from jitkernel.views.disassembly import disassemble
from jitkernel.views.view import View, join, listing

if TYPE_CHECKING:
    from jitkernel.linker import Image
    from jitkernel.session import Cell, Session

__all__ = ["Code", "asm", "code_of", "describer", "source_lines", "wake"]

_INT3 = b"\xcc"  # the one-byte trap (Intel SDM, volume 2, INT3)
_MOST_TRAPS = 16  # bytes: the rest of a granule


@dataclass(frozen=True, slots=True)
class Code:
    """A function in the arena; `type` is empty where only its own cell knows it.

    `trap`: it has no code, and these are the bytes that its callers meet.
    """

    name: str
    type: str
    address: int
    size: int
    cell: int
    trap: bool = False


def asm(
    session: Session,
    target: int | str | None = None,
    syntax: str = "intel",
    lines: bool = True,
) -> View:
    """The functions of a cell, or one function; without a target those of the last cell.

    `lines`: the number of the cell's line stands before each instruction, and those lines below.
    Raises UsageError where there is no machine code.
    """
    cell, functions = code_of(session, target, traps=True)
    rows = session.inspect.lines(cell.number) if lines else []
    describe = describer(session, cell)
    views = [_function(session, code, syntax, rows, describe) for code in functions]
    if any(line for _, line in rows):
        used = {
            line
            for at, line in rows
            if line and any(s.address <= at < s.address + s.size for s in functions)
        }
        views.append(
            source_lines(session.source(cell.number), used, f"Lines of cell {cell.number}")
        )
    return join(views)


def code_of(
    session: Session, target: int | str | None, traps: bool = False
) -> tuple[Cell, list[Code]]:
    """The cell and the functions that are meant, by address: of a cell, those only it knows too.

    `traps`: also those of which nothing is left, where a trap stands in their place.
    Raises UsageError where there is no machine code.
    """
    cell, names = session.inspect.cell_of(target)
    wake(session, cell)
    found = [
        Code(s.name, s.type, s.address, s.size, s.cell)
        for s in map(session.symbols.__getitem__, names)
        if s.kind == "function" and s.size
    ]
    if not isinstance(target, str):
        found += [
            Code(s.name, "", s.address, s.size, cell.number)
            for s in _own(session, cell)
            if s.kind == "function" and s.size
        ]
    if traps and cell.image is not None:
        found += [
            Code(s.name, s.type, s.address, size, s.cell, trap=True)
            for s in map(session.symbols.__getitem__, names)
            if s.kind == "function" and not s.size
            if (size := _trap(session, cell.image, s.address))
        ]
    if not found:
        what = written(bare(target)) if isinstance(target, str) else f"cell {cell.number}"
        raise UsageError(f"{what} has no machine code")
    return cell, sorted(found, key=lambda code: code.address)


def _trap(session: Session, image: Image, address: int) -> int:
    """How many bytes at an address of an image's text do nothing but trap."""
    if image.text is None or not image.text.start <= address < image.text.stop:
        return 0
    content = session.inspect.read(address, min(image.text.stop - address, _MOST_TRAPS))
    return len(content) - len(content.lstrip(_INT3))


def wake(session: Session, cell: Cell) -> None:
    """Bring a cell's code back to be looked at.  Raises UsageError where it cannot stay."""
    session.wake(cell)
    if cell.state is CellState.HIBERNATED:
        raise UsageError(
            f"cell {cell.number} is hibernated, and the budget has no room for its code: "
            "%budget says how much there is"
        )


def _own(session: Session, cell: Cell) -> list[MappedSymbol]:
    """What only the cell itself knows by name."""
    made = session.inspect.link_map(cell.number)
    return [
        s
        for s in (made.symbols if made is not None else ())
        if s.binding == "local" and s.address and s.kind not in ("section", "file")
    ]


def source_lines(source: str, used: set[int], title: str) -> View:
    """The lines of a source that are wanted, each after its number, which is its marker, and with
    the C line that it says it comes from."""
    last = source.count("\n") + 1
    shown = [n for n in sorted(used) if 0 < n <= last]
    width = max((len(str(n)) for n in shown), default=1)
    origins = Origins(source)
    return listing(title, "\n".join(f"{n:>{width}}  {origins.line(n)}" for n in shown))


def _function(
    session: Session,
    code: Code,
    syntax: str,
    rows: list[tuple[int, int]],
    describe: Callable[[int], str],
) -> View:
    start, stop = code.address, code.address + code.size
    before = [row for row in rows if row[0] <= start][-1:]
    mine = [*before, *(row for row in rows if start < row[0] < stop)]
    markers = [(at, str(line) if line else "") for at, line in mine]
    shown = markers if any(text for _, text in markers) else None
    content = session.inspect.read(start, code.size)
    size = "0 bytes, and a trap in their place," if code.trap else f"{code.size} bytes"
    title = f"{written(code.name)}: {code.type or 'known to its cell only'}, {size}"
    title += f" at {start:#x}" + (f", cell {code.cell}" if code.cell else "")
    return listing(title, "\n".join(disassemble(content, start, describe, syntax, shown)))


def describer(session: Session, cell: Cell | None = None) -> Callable[[int], str]:
    """Names for addresses in the arena, those that only `cell` knows too; others get none."""
    look = session.inspect
    known: dict[int, str] = {}
    for symbol in look.linked.values():
        if symbol.slot:
            known[symbol.slot] = f"{written(symbol.name)} in its GOT slot"
        if symbol.far_slot:
            known[symbol.far_slot] = f"{written(symbol.name)} in its slot"
    own = _own(session, cell) if cell is not None else []

    def describe(address: int) -> str:
        if not look.in_arena(address):
            return ""
        if address in known:
            return known[address]
        for symbol in own:
            if symbol.address <= address < symbol.address + max(symbol.size, 1):
                offset = address - symbol.address
                return written(symbol.name) + (f"+{offset}" if offset else "")
        return look.name_of(address)

    return describe
