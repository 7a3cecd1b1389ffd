"""The sentences that tell what a cell has defined and replaced.  Start from `status_lines`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from jitkernel.elf.constants import TABLE_LABELS
from jitkernel.ir.names import CONTROL, quote_name, shown, written
from jitkernel.linker import Image
from jitkernel.linker.records import SITE, holds
from jitkernel.printable import shortened
from jitkernel.record import NamedTuple
from jitkernel.session.program.cell import Cell, Change
from jitkernel.session.program.signatures import Signature
from jitkernel.wording import counted, cut_list

if TYPE_CHECKING:
    from jitkernel.session.program.program import Program

_MANY = 3  # symbols from one cell in one line


def status_lines(
    program: Program, cell: Cell, image: Image, change: Change, spelled: Mapping[str, str]
) -> Iterator[str]:
    """`cell 2: @sq i32 (i32), 6 bytes, compiled in 1.4 ms, ...`, then what moved.

    `spelled` says what the cell's language has for symbols.
    """
    words = []
    for symbol, _, size in image.exports:
        if symbol.name in spelled:
            words.append(f"{spelled[symbol.name]}, {counted(size, 'byte')}")
            continue
        if symbol.info is None:
            continue
        type = symbol.info.shown if isinstance(symbol.info, Signature) else str(symbol.info)
        if symbol.name.startswith(CONTROL):
            words.append(f"{shown(symbol.name)} thread_local {type}, each thread its own")
        else:
            words.append(f"{written(symbol.name)} {type}, {counted(size, 'byte')}")
    if words:
        spent = sum(cell.times[:-1])
        compiled = f"compiled in {_duration(spent, 1)}" if spent else "compiled before"
        if cell.cached:
            spent = sum(cell.times[1:-1])
            compiled = f"compiled earlier in {_duration(spent, 1)} and kept (object cache)"
        yield (
            f"cell {cell.number}: {cut_list(words, 4, '; ')}, {compiled}, "
            f"linked in {_duration(cell.times[-1], 2)}"
        )
    yield from _moves(program, cell, image, change, spelled)


class _Moved(NamedTuple):
    """A symbol that came from one cell to another, and the images (by identity) that use it."""

    name: str
    function: bool
    users: set[int]
    uses: int
    holders: int


def _sentence(moved: Sequence[_Moved], moves: str) -> str:
    """`@f moved from cell 1 to cell 2; 1 caller (2 calls) now uses it`, for one or several."""
    names, many = [m.name for m in moved], len(moved) > 1
    functions = all(m.function for m in moved)
    what = f"{names[0]} {moves}"
    if many:
        kind = "functions" if functions else "symbols"
        what = f"{len(names)} {kind} {moves}: {cut_list(names, 4 if len(names) == 4 else 3)}"
    if count := len(set().union(*(m.users for m in moved))):
        one, use = ("caller", "call") if functions else ("user", "use")
        uses, holders = sum(m.uses for m in moved), sum(m.holders for m in moved)
        how = [counted(uses, use)] if uses or not holders else []
        how += [f"{holders} inlined" if how else "inlined"] if holders else []
        what += (
            f"; {counted(count, one)} ({', '.join(how)}) "
            f"now use{'s' * (count == 1)} {'them' if many else 'it'}"
        )
    return what


def _moves(
    program: Program, cell: Cell, image: Image, change: Change, spelled: Mapping[str, str]
) -> Iterator[str]:
    """The definitions that other cells had before: a line each, or one for all where they are
    many."""
    found: dict[int, list[_Moved]] = {}
    replaced = change.before.get(("id", cell.cell_id))
    for (kind, name), was in change.before.items():
        if kind != "name" or not was.cell:
            continue
        owner, info, moved = was.cell, was.info, program.linker.symbols.get(name)
        if moved is None or moved.image is not image:
            continue
        users = {i: p for i, p in (moved.users or {}).items() if i is not image and i.cell}
        if name in TABLE_LABELS and not users:
            continue  # each cell has such a table, and nobody reads this one by its label
        holders = sum(map(holds, users.values()))  # each has one site that is no use
        uses = sum(map(len, users.values())) // SITE.size - holders
        called = name.removeprefix(CONTROL) if name in spelled else program.called(name)
        one = _Moved(called, isinstance(info, Signature), set(map(id, users)), uses, holders)
        found.setdefault(owner, []).append(one)
    for owner, each in found.items():
        moves = f"moved from cell {owner} to cell {cell.number}"
        if owner == replaced:
            moves = "replaced"
        other = program.cells.get(owner)
        closed = ""
        if other is not None and other.closed:
            closed = f"; cell {owner} was compiled closed: its own uses of it may not follow"
        if len(each) >= _MANY:
            yield _sentence(each, moves) + closed.replace("of it", "of them")
        else:
            yield from (_sentence([one], moves) + closed for one in each)


def _duration(nanoseconds: int, places: int) -> str:
    """Milliseconds, of one form on every run; seconds where they are thousands."""
    value = nanoseconds / 1e6
    return f"{value:.{places}f} ms" if value < 1000 else f"{value / 1000:.1f} s"


def type_line(program: Program, cell: Cell, change: Change) -> str:
    """The types of a cell that has nothing else: `cell 3: %pt { i32, i32 }`."""
    types = program.state.types
    defined = [
        f"%{quote_name(name)} {shortened(types[name])}"
        for name in change.facts("type") if name in types
    ]  # fmt: skip
    return f"cell {cell.number}: {cut_list(defined, 4, '; ')}"
