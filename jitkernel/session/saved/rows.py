"""What the rows of a session's file say, and how they are read again.  Start from `cell_row`.

Bodies are JSON lists, in the order of the fields of the records that they become; bytes stand
beside them.  Symbols refer to images by the number of their cell; cells name the symbols that they
define and number those that they use, which may be stale versions; both refer to blocks by address.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from sys import intern
from typing import TYPE_CHECKING, Any

from jitkernel.arena import Extent
from jitkernel.forms import Maybe, check
from jitkernel.ir.types import function_type, parse_type
from jitkernel.languages.llvm.plan import Below, LanguageNote, NoteKey
from jitkernel.linker import (
    Block,
    Image,
    Linker,
    Symbol,
    SymbolKind,
    SymbolState,
    new_image,
    new_symbol,
)
from jitkernel.linker.editing import restore_image, restore_uses
from jitkernel.linker.records import SITE
from jitkernel.record import NamedTuple
from jitkernel.session.program.cell import Cell, CellState
from jitkernel.session.program.signatures import (
    Signature,
    Variable,
    shared_signature,
    shared_variable,
)

if TYPE_CHECKING:
    from jitkernel.session.program.program import Program
    from jitkernel.session.program.state import Kind

dump = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_BESIDE = 16  # bytes of an instruction around a site
_KINDS, _STATES = tuple(SymbolKind), tuple(SymbolState)

Info = Signature | Variable | None


def numbering(known: Mapping[Symbol, int]) -> defaultdict[Symbol, int]:
    """The number that each symbol has in the file, a new one for who is not `known`; stale versions
    share their names with others."""
    return defaultdict(count(max(known.values(), default=0) + 1).__next__, known)


class Index:
    """The things that rows refer to: symbols by number, and blocks by address, each once however
    many hold it.

    `extents` is all that is in the arena.
    """

    def __init__(self, linker: Linker) -> None:
        self.linker, self.arena = linker, linker.arena
        self.symbols: dict[int, Symbol] = {}
        self.extents: list[Extent] = []
        self._blocks: dict[int, Block] = {}

    def extent(self, row: Iterable[Any]) -> Extent:
        """An extent, which lies in its zone.  Raises ValueError, KeyError."""
        extent = Extent(*row)
        zone = self.arena.zones[extent.zone]
        if not (extent.size and zone.start <= extent.start <= zone.stop - extent.size):
            raise ValueError(f"{extent.size} bytes at {extent.start:#x} are not in the {zone.name}")
        return extent

    def sites(self, packed: bytes, length: int) -> bytes:
        """Places of an image in the arena.  Raises ValueError."""
        if len(packed) != length or length % SITE.size:
            raise ValueError(f"{length} bytes are no sites")
        high = self.arena.capacity - _BESIDE
        if any(not _BESIDE <= offset <= high for offset, *_ in SITE.iter_unpack(packed)):
            raise ValueError("a site is not in the arena")
        return packed

    def hold(self, row: tuple[str, int, int]) -> Block:
        """The block at an address, with one holder more."""
        block = self._blocks.get(row[1])
        if block is None:
            extent = self.extent(row)
            self.extents.append(extent)
            block = self._blocks[row[1]] = Block(extent)
        else:
            self.linker.retain_block(block)
        return block

    def at(self, row: tuple[str, int, int]) -> Block:
        """The block at an address that somebody holds already."""
        return self._blocks.get(row[1]) or self.hold(row)


# -- symbols -------------------------------------------------------------------------------------


def info_row(info: Info) -> list[Any] | None:
    """A type as a list."""
    return None if info is None else ["fv"[isinstance(info, Variable)], *info]


def info_of(row: list[Any] | None) -> Info:
    """The inverse of `info_row`.  Raises ValueError for what is no type."""
    if row is None:
        return None
    function = row[0] == "f"
    check(row, (str,) * 6 if function else (str, str, int, str))
    (function_type if function else parse_type)(row[-1])
    return shared_signature(*row[1:]) if function else shared_variable(row[1], bool(row[2]), row[3])


def symbol_body(symbol: Symbol, stale: bool) -> str:
    """All of a symbol but its users, which are in the rows of their cells."""
    image = symbol.image
    return dump(
        [
            symbol.name, int(symbol.kind), int(symbol.state), symbol.address, symbol.size,
            image.cell if image is not None else 0, symbol.stub, symbol.slot, symbol.far_slot,
            symbol.why, info_row(symbol.info), int(stale),
        ]
    )  # fmt: skip


_SYMBOL = (str, *(int,) * 8, str, Maybe(list), int)


def read_symbol(row: list[Any], extents: list[Extent]) -> tuple[Symbol, int, bool]:
    """A symbol, the number of the cell that defines it, and whether it is a stale version."""
    check(row, _SYMBOL)
    name, kind, state, address, size, cell, stub, slot, far_slot, why, info, stale = row
    symbol = new_symbol(
        name, _KINDS[kind], _STATES[state], address, size, None, stub, slot, far_slot,
        info=info_of(info), why=why,
    )  # fmt: skip
    extents += symbol.extents
    return symbol, cell, bool(stale)


# -- cells ---------------------------------------------------------------------------------------


def cell_row(program: Program, cell: Cell, numbers: Mapping[Symbol, int]) -> tuple[int, str, bytes]:
    """A live cell: number, body, and the bytes of its code, unwind records, and sites."""
    image = cell.image
    pieces: list[bytes] = []
    # Whether its notebook cell is this one: the code of an earlier one may be there too.
    named = cell.cell_id is not None and program.state.ids.get(cell.cell_id) == cell.number
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
            int(named),
            int(cell.cached),
            program.position(cell),
        ],
        program.handles.get(cell.number, ()),
        None if image is None else _image(program.linker, image, numbers, pieces),
        cell.types,
        cell.defines,
    ]
    return cell.number, dump(body), b"".join(pieces)


def _image(
    linker: Linker, image: Image, numbers: Mapping[Symbol, int], pieces: list[bytes]
) -> list[Any]:
    bounds = [e for e in (image.text, image.unwind, *image.extra) if e is not None]
    original = linker.breakpoints.original  # threads may run, that meet some
    pieces += [original(e.start, linker.arena.read(e.start, e.size)) for e in bounds]
    refs: list[tuple[int, int]] = []
    for symbol in image.refs:
        packed = symbol.users.get(image, b"") if symbol.users else b""
        refs.append((numbers[symbol], len(packed)))
        pieces.append(packed)
    return [
        image.text, image.unwind, image.extra,
        image.rodata and image.rodata.extent, image.data and image.data.extent,
        [block.extent for block in image.adopted],
        [(symbol.name, address, size) for symbol, address, size in image.exports],
        refs, image.init, image.fini, image.dso, image.pins,
        [(name, int(linker.groups.get(name) is image)) for name in image.groups],
        image.copies,
    ]  # fmt: skip


_EXTENT = (str, int, int)
_CELL = (
    Maybe(str), str, str, [_EXTENT], [(str, int, int, _EXTENT)], [(str, Maybe(list))],
    (list, *(int,) * 6), [int], Maybe(list), [str], [str],
)  # fmt: skip
_IMAGE = (
    Maybe(_EXTENT), Maybe(_EXTENT), [_EXTENT], Maybe(_EXTENT), Maybe(_EXTENT), [_EXTENT],
    [(str, int, int)], [(int, int)], [int], [int], int, [(str, int)], [(str, int)], [str],
)  # fmt: skip


def read_cell(program: Program, number: int, row: list[Any], content: bytes, index: Index) -> None:
    """File a cell with the program as it was; its code is written to where it was.

    Raises ValueError, KeyError or TypeError for what no cell is.
    """
    check(row, _CELL)
    cell_id, options, state, strings, extras, libraries, *rest = row
    figures, handles, image, types, defines = rest
    times, ran, used, kept, named, cached, position = figures
    cell = Cell(number, cell_id, options)
    cell.state = CellState(state)
    cell.times = (*(0,) * (6 - len(times)), *times) if times else ()  # `read` came last
    cell.ran, cell.used = ran, used
    cell.kept, cell.cached = bool(kept), bool(cached)
    if image is not None:
        cell.image = _read_image(number, image, content, index)
    if strings:
        cell.strings = tuple([index.hold(extent) for extent in strings])
    if extras:
        cell.extras = tuple([(n, at, size, index.at(extent)) for n, at, size, extent in extras])
    if libraries:
        found = [(name, info_of(info)) for name, info in libraries]
        cell.libraries = tuple([(n, s) for n, s in found if isinstance(s, Signature)])
    cell.types = tuple(map(intern, types))
    cell.defines = tuple(map(intern, defines))
    program.uses.add(cell)
    for name in cell.defines:
        program.state.owners[name] = number
    if handles:
        program.handles[number] = tuple(handles)
    if named:
        program.state.ids[cell_id] = number
        program.positions[cell_id] = position
    program.cells[number] = cell


def _read_image(number: int, row: list[Any], content: bytes, index: Index) -> Image:
    check(row, _IMAGE)
    text, unwind, extra, rodata, data, adopted, exports, *rest = row
    refs, init, fini, dso, pins, groups, copies = rest
    hold = index.hold
    at = _copy_code((text, unwind, *extra), content, index)
    # Of what it defined once, and nobody knows any more, it has the name alone.
    known = index.linker.symbols
    found = new_image(
        number, None,
        hold(rodata) if rodata is not None else None,
        hold(data) if data is not None else None,
        Extent(*unwind) if unwind is not None else None,
        tuple([hold(extent) for extent in adopted]),
        tuple([Extent(*bounds) for bounds in extra]),
        tuple([(known.get(name) or new_symbol(name), at, size) for name, at, size in exports]),
        (), tuple(init), tuple(fini), dso, tuple([(name, address) for name, address in pins]),
        tuple([name for name, _ in groups]), tuple(copies),
    )  # fmt: skip
    place = Extent(*text) if text is not None else None
    restore_image(index.linker, found, place, [name for name, provides in groups if provides])
    uses: list[tuple[Symbol, bytes]] = []
    for n, length in refs:
        uses.append((index.symbols[n], index.sites(content[at : at + length], length)))
        at += length
    if uses:
        restore_uses(found, uses)
    return found


def _copy_code(spans: Iterable[list[Any] | None], content: bytes, index: Index) -> int:
    """Put an image's code where it was, and note its extents; how much of `content` that was."""
    at, base, view = 0, index.arena.base, index.arena.view
    for bounds in spans:
        if bounds is not None:
            extent = index.extent(bounds)
            _, start, size = extent
            if at + size > len(content):
                raise ValueError(f"{size} bytes of code are not there")
            view[start - base : start - base + size] = content[at : at + size]
            at += size
            index.extents.append(extent)
    return at


# -- facts ---------------------------------------------------------------------------------------


class FactRow(NamedTuple):
    """The form of the rows of a kind of facts (`program.state`): what a row says of a key and its
    value (None: nothing), the form of that, and the value that it says; the key as it is written,
    and the form of that."""

    row: Callable[[Program, Any, Any], Any]
    form: Any
    value: Callable[[Program, Any, Any], Any]
    key: Callable[[Any], Any] = str
    key_form: Any = str


def _id_row(program: Program, key: str, cell: int) -> list[int] | None:
    """Of a notebook cell whose code is gone, and whose declarations are not."""
    return None if cell in program.cells else [cell, program.positions[key]]


def _read_id(program: Program, key: str, row: list[int]) -> int:
    cell, program.positions[key] = row
    return cell


def _note_row(program: Program, key: NoteKey, note: LanguageNote) -> list[Any]:
    kept = note.kept if isinstance(note.kept, str) else note.kept.encode()
    return [kept, sorted(note.needs), note.cell, note.group]


def _read_note(program: Program, key: NoteKey, row: list[Any]) -> LanguageNote:
    return LanguageNote(row[0], frozenset(row[1]), *row[2:])


_NOTE = _note_row, (str, [str], int, str), _read_note


FACTS: Mapping[Kind, FactRow] = {
    "id": FactRow(_id_row, (int, int), _read_id),
    "type": FactRow(lambda program, key, body: body, str, lambda program, key, body: body),
    "note": FactRow(*_NOTE),
    "below": FactRow(*_NOTE, lambda key: Below(*key), (str, int)),
    "declared": FactRow(
        lambda program, key, info: info_row(info), list, lambda program, key, row: info_of(row)
    ),
}  # fmt: skip
