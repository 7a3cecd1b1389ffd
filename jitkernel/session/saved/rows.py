"""What the rows of a session's file say, and how they are read again.  Start from `cell_row`.

Bodies are JSON lists, in the order of the fields of the records that they become; bytes stand
beside them.  Symbols refer to images by the number of their cell; cells name the symbols that they
define and number those that they use, which may be stale versions; both refer to blocks by address.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from sys import intern
from typing import TYPE_CHECKING, Any

from jitkernel.arena import Arena, Extent
from jitkernel.linker import Block, Image, Linker, Symbol, SymbolKind, SymbolState
from jitkernel.linker.restoring import restore_image, restore_symbol, restore_uses
from jitkernel.session.program.cell import Cell, CellState
from jitkernel.session.program.signatures import (
    Signature,
    Variable,
    shared_signature,
    shared_variable,
)

if TYPE_CHECKING:
    from jitkernel.session.program.program import Program

__all__ = [
    "Blocks",
    "Info",
    "SymbolNumbers",
    "cell_row",
    "info_of",
    "info_row",
    "read_cell",
    "read_symbol",
    "symbol_body",
]

_dump = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_KINDS, _STATES = tuple(SymbolKind), tuple(SymbolState)

Info = Signature | Variable | None


class SymbolNumbers:
    """The number that each symbol has in the file; stale versions share their names with others."""

    def __init__(self) -> None:
        self._numbers: dict[Symbol, int] = {}
        self._next = 1

    def of(self, symbol: Symbol) -> int:
        """Its number, a new one where it has none."""
        number = self._numbers.get(symbol)
        if number is None:
            number = self._numbers[symbol] = self._next
            self._next += 1
        return number

    def give(self, symbol: Symbol, number: int) -> None:
        """It has this number."""
        self._numbers[symbol] = number
        self._next = max(self._next, number + 1)

    def pop(self, symbol: Symbol) -> int | None:
        """The number of a symbol that is gone, None where it had none."""
        return self._numbers.pop(symbol, None)


class Blocks:
    """Blocks by address, each once however many hold it; `extents` is all that is in the arena."""

    def __init__(self, linker: Linker) -> None:
        self._linker = linker
        self.extents: list[Extent] = []
        self._found: dict[int, Block] = {}

    def hold(self, row: tuple[str, int, int]) -> Block:
        """The block at an address, with one holder more."""
        block = self._found.get(row[1])
        if block is None:
            extent = Extent(*row)
            self.extents.append(extent)
            block = self._found[row[1]] = Block(extent)
        else:
            self._linker.hold_block(block)
        return block

    def at(self, row: tuple[str, int, int]) -> Block:
        """The block at an address that somebody holds already."""
        return self._found.get(row[1]) or self.hold(row)


# -- symbols -------------------------------------------------------------------------------------


def info_row(info: Info) -> list[Any] | None:
    """A type as a list."""
    return None if info is None else ["fv"[isinstance(info, Variable)], *info]


def info_of(row: list[Any] | None) -> Info:
    """The inverse of `info_row`."""
    if row is None:
        return None
    return shared_signature(*row[1:]) if row[0] == "f" else shared_variable(*row[1:])


def symbol_body(symbol: Symbol, stale: bool) -> str:
    """All of a symbol but its users, which are in the rows of their cells."""
    image = symbol.image
    return _dump(
        [
            symbol.name, int(symbol.kind), int(symbol.state), symbol.address, symbol.size,
            image.cell if image is not None else 0, symbol.stub, symbol.slot, symbol.far_slot,
            symbol.why, info_row(symbol.info), int(stale),
        ]
    )  # fmt: skip


def read_symbol(row: list[Any], extents: list[Extent]) -> tuple[Symbol, int, bool]:
    """A symbol, the number of the cell that defines it, and whether it is a stale version."""
    name, kind, state, address, size, cell, stub, slot, far_slot, why, info, stale = row
    symbol, own = restore_symbol(
        name, _KINDS[kind], _STATES[state], address, size, (stub, slot, far_slot), why,
        info_of(info),
    )  # fmt: skip
    extents += own
    return symbol, cell, bool(stale)


# -- cells ---------------------------------------------------------------------------------------


def cell_row(
    program: Program, cell: Cell, arena: Arena, numbers: SymbolNumbers
) -> tuple[int, str, bytes]:
    """A live cell: number, body, and the bytes of its code, unwind records, and sites."""
    image = cell.image
    pieces: list[bytes] = []
    body = [
        cell.cell_id,
        cell.options,
        cell.state.value,
        [block.extent for block in cell.strings],
        [(name, address, size, block.extent) for name, address, size, block in cell.extras],
        [(name, info_row(signature)) for name, signature in cell.libraries],
        [
            cell.times,
            cell.ran,
            cell.used,
            int(cell.kept),
            int(_is_named(program, cell)),
            int(cell.cached),
        ],
        program.handles.get(cell.number, ()),
        None if image is None else _image(program, image, arena, numbers, pieces),
        cell.types,
        cell.defines,
    ]
    return cell.number, _dump(body), b"".join(pieces)


def _is_named(program: Program, cell: Cell) -> bool:
    """Whether its notebook cell is this one: the code of an earlier one may be there too."""
    return cell.cell_id is not None and program.by_id.get(cell.cell_id) == cell.number


def _image(
    program: Program, image: Image, arena: Arena, numbers: SymbolNumbers, pieces: list[bytes]
) -> list[Any]:
    bounds = [e for e in (image.text, image.unwind, *image.extra) if e is not None]
    pieces += [arena.read(e.start, e.size) for e in bounds]
    refs: list[tuple[int, int]] = []
    for symbol in image.refs:
        packed = symbol.users.get(image, b"") if symbol.users else b""
        refs.append((numbers.of(symbol), len(packed)))
        pieces.append(packed)
    groups = program.linker.groups
    return [
        image.text, image.unwind, image.extra,
        image.rodata and image.rodata.extent, image.data and image.data.extent,
        [block.extent for block in image.adopted],
        [(symbol.name, address, size) for symbol, address, size in image.exports],
        refs, image.init, image.fini, image.dso, image.pins,
        [(name, int(groups.get(name) is image)) for name in image.groups],
        image.copies,
    ]  # fmt: skip


def read_cell(
    program: Program,
    arena: Arena,
    number: int,
    row: list[Any],
    content: bytes,
    symbols: dict[int, Symbol],
    blocks: Blocks,
) -> Cell:
    """A cell as it was, filed with the program; its code is written to where it was."""
    # Files of before have no types.
    cell_id, options, state, strings, extras, libraries, times, handles, image, *types = row
    cell = Cell(number, cell_id, options)
    cell.state = CellState(state)
    cell.times, cell.ran, cell.used, cell.kept = tuple(times[0]), times[1], times[2], bool(times[3])
    cell.cached = bool(times[5:] and times[5])  # files of before do not say
    hold = blocks.hold
    if image is not None:
        cell.image = _read_image(program, arena, number, image, content, symbols, blocks)
    if strings:
        cell.strings = tuple([hold(extent) for extent in strings])
    if extras:
        cell.extras = tuple([(n, at, size, blocks.at(extent)) for n, at, size, extent in extras])
    if libraries:
        found = [(name, info_of(info)) for name, info in libraries]
        cell.libraries = tuple([(n, s) for n, s in found if isinstance(s, Signature)])
        program.libraries.add(cell)
    mentioned, *own = types or [()]
    cell.types = tuple(map(intern, mentioned))
    cell.defines = tuple(map(intern, *own)) if own else cell.types  # nor do they say who defines
    program.type_uses.add(cell)
    for name in cell.defines:
        program.type_uses.owners[name] = number
    if handles:
        program.handles[number] = tuple(handles)
    if cell_id is not None and all(times[4:5]):  # where it is not said, the last one of several
        program.by_id[cell_id] = number
    program.cells[number] = cell
    return cell


def _read_image(
    program: Program,
    arena: Arena,
    number: int,
    row: list[Any],
    content: bytes,
    symbols: dict[int, Symbol],
    blocks: Blocks,
) -> Image:
    (
        text,
        unwind,
        extra,
        rodata,
        data,
        adopted,
        exports,
        refs,
        init,
        fini,
        dso,
        pins,
        groups,
        copies,
    ) = row
    hold = blocks.hold
    at = _copy_code((text, unwind, *extra), content, arena, blocks.extents)
    found = restore_image(
        program.linker, number,
        Extent(*text) if text is not None else None,
        Extent(*unwind) if unwind is not None else None,
        tuple([Extent(*bounds) for bounds in extra]),
        hold(rodata) if rodata is not None else None,
        hold(data) if data is not None else None,
        tuple([hold(extent) for extent in adopted]),
        exports, (init, fini, dso), pins, groups, copies,
    )  # fmt: skip
    if refs:
        restore_uses(found, _read_uses(refs, content, at, symbols))
    return found


def _copy_code(
    spans: Iterable[list[Any] | None], content: bytes, arena: Arena, extents: list[Extent]
) -> int:
    """Put an image's code where it was, and note its extents; how much of `content` that was."""
    at, base, view = 0, arena.base, arena.view
    for bounds in spans:
        if bounds is not None:
            extent = Extent(*bounds)
            _, start, size = extent
            view[start - base : start - base + size] = content[at : at + size]
            at += size
            extents.append(extent)
    return at


def _read_uses(
    refs: list[Any], content: bytes, at: int, symbols: dict[int, Symbol]
) -> list[tuple[Symbol, bytes]]:
    """The symbols that an image refers to; their sites are in `content` from `at` on."""
    used: list[tuple[Symbol, bytes]] = []
    for n, length in refs:
        used.append((symbols[n], content[at : at + length]))
        at += length
    return used
