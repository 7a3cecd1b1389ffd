"""The machine code of a function or a cell, read back from the arena.  Start from `asm`.

The bytes shown are those that run: relocated, and patched where a callee was redefined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from jitkernel.elf import read_object
from jitkernel.errors import UsageError
from jitkernel.ir.debug_info import Origins
from jitkernel.ir.names import bare
from jitkernel.linker.disassembly import Instruction, decode
from jitkernel.linker.linkmap import MappedSymbol
from jitkernel.linker.x86_64 import STUB_SIZE
from jitkernel.session.program.cell import CellState
from jitkernel.views.relocatable import NamedCode, Stretch
from jitkernel.views.room import Room
from jitkernel.views.view import View, join, listing, paragraph
from jitkernel.wording import counted

if TYPE_CHECKING:
    from jitkernel.linker import Image
    from jitkernel.session import Cell, Session

_ROW = 8  # bytes in a row; the rest of a longer instruction stands in the next
_COMMENT = 72  # the column that comments begin in at most, but behind longer lines
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
    entry: bool = False,
    room: Room | None = None,
) -> View:
    """The functions of a cell, or one function; without a target those of the last cell.

    `lines`: the number of the cell's line stands before each instruction, and those lines below.
    While the program stands: the code that runs, `=>` marking where the frame that is looked at
    goes on, `->` where others do.
    `entry`: where pointers to one function lead, as it is shown of one that no cell defines.
    Lines are shown as far as there is `room`.  Raises UsageError where there is no machine code.
    """
    room = room or Room()
    if isinstance(target, str):
        name = bare(target)
        symbol = session.inspect.program.named(name)
        cells = session.inspect.program.owner(name)
        if entry or (symbol is not None and symbol.stub and not cells):
            return _entry(session, target, syntax)
    elif entry:
        raise UsageError("an entry is one function's: name it")
    cell, functions = code_of(session, target, traps=True)
    only = functions[0].name if len(functions) == 1 else ""
    rows = session.inspect.places.lines.of_cell(cell.number, only) if lines else []
    named = namer(session, cell)
    views, used = [], set[int]()
    debugger = session.inspect.debugger
    marks = debugger.marks() if debugger is not None else {}
    for at, code in enumerate(functions):
        if room.full:
            views.append(paragraph(*room.said(len(functions) - at, "function")))
            break
        form = debugger.form_of(code.name, cell.number) if debugger is not None else None
        if form is not None:  # what runs in its place
            code, rows = replace(code, address=form[0], size=form[1]), form[2] if lines else []
        found = named(code, syntax, rows)
        used.update(i.line for i in found)
        title = _title(session, code) + ", as it is debugged" * (form is not None)
        views.append(listing(title, "\n".join(disassemble(found, marks)), room))
    if any(used):
        views.append(
            source_lines(session.source(cell.number), used, f"Lines of cell {cell.number}", room)
        )
    return join(views, room)


def _entry(session: Session, name: str, syntax: str) -> View:
    """The canonical entry of a function, where pointers to it lead, or the stub that calls of what
    is far, or nowhere, lead to: where it is, and its bytes.

    Raises UsageError where it has none.
    """
    program = session.inspect.program
    symbol, called = program.named(bare(name)), program.called(bare(name))
    if symbol is None or not symbol.stub:
        raise UsageError(
            f"{called} has no entry: nothing has its address, and calls lead to its code"
        )
    what = "the entry of" if symbol.size else "the stub of"
    content = session.inspect.engine.arena.read(symbol.stub, STUB_SIZE).rstrip(_INT3)
    found = decode(content, symbol.stub, describer(session), syntax)
    title = f"{what} {called}, {STUB_SIZE} bytes at {symbol.stub:#x}, traps behind the jump"
    return listing(title, "\n".join(disassemble(found)))


def code_of(
    session: Session, target: int | str | None, traps: bool = False
) -> tuple[Cell, list[Code]]:
    """The cell and the functions that are meant, by address: of a cell, those only it knows too.

    `traps`: also those of which nothing is left, where a trap stands in their place.
    Raises UsageError where there is no machine code.
    """
    cell, names = session.inspect.cell_of(target)
    wake(session, cell)
    defined = [s for s in map(session.symbols.__getitem__, names) if s.kind == "function"]
    found = [Code(s.name, s.type, s.address, s.size, s.cell) for s in defined if s.size]
    if not isinstance(target, str):
        found += [
            Code(s.name, "", s.address, s.size, cell.number)
            for s in _own(session, cell)
            if s.kind == "function" and s.size
        ]
    if traps and cell.image is not None:
        found += [
            Code(s.name, s.type, s.address, size, s.cell, trap=True)
            for s in defined
            if not s.size and (size := _trap(session, cell.image, s.address))
        ]
    if not found:
        raise UsageError(f"{meant(session, target, cell)} has no machine code")
    return cell, sorted(found, key=lambda code: code.address)


def meant(session: Session, target: int | str | None, cell: Cell) -> str:
    """The name of what was asked for: a function's, or its cell's."""
    if isinstance(target, str):
        return session.inspect.program.called(bare(target))
    return f"cell {cell.number}"


def _trap(session: Session, image: Image, address: int) -> int:
    """The number of bytes at an address of an image's text that do nothing but trap."""
    if image.text is None or not image.text.start <= address < image.text.stop:
        return 0
    content = session.inspect.engine.arena.read(
        address, min(image.text.stop - address, _MOST_TRAPS)
    )
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
    """The symbols that only the cell itself knows by name."""
    return [
        s
        for s in session.inspect.own_symbols(cell.number)
        if s.binding == "local" and s.address and s.kind not in ("section", "file")
    ]


def source_lines(source: str, used: set[int], title: str, room: Room | None = None) -> View:
    """The lines of a source that are wanted, each after its number, which is its marker, and with
    the C line that it says it comes from."""
    last = source.count("\n") + 1
    shown = [n for n in sorted(used) if 0 < n <= last]
    width = max((len(str(n)) for n in shown), default=1)
    origins = Origins(source)
    return listing(title, "\n".join(f"{n:>{width}}  {origins.line(n)}" for n in shown), room)


def _title(session: Session, code: Code) -> str:
    size = "0 bytes, and a trap in their place," if code.trap else counted(code.size, "byte")
    said = session.inspect.spelled(code.name) if code.type else ""
    called = session.inspect.program.called(code.name, code.cell or None)
    title = said or f"{called}: {code.type or 'known to its cell only'}"
    cell = f", cell {code.cell}" if code.cell else ""
    return f"{title}, {size} at {code.address:#x}{cell}"


def describer(session: Session, cell: Cell | None = None) -> Callable[[int], str]:
    """Names for addresses in the arena, those that only `cell` knows too; others get none."""
    look = session.inspect
    known: dict[int, str] = {}
    for symbol in look.program.linker.symbols.values():
        if symbol.slot:
            known[symbol.slot] = f"{look.program.called(symbol.name)} in its GOT slot"
        if symbol.far_slot:
            known[symbol.far_slot] = f"{look.program.called(symbol.name)} in its slot"
    own = _own(session, cell) if cell is not None else []
    of = cell.number if cell is not None else 0

    def describe(address: int) -> str:
        if address not in look.engine.arena:
            return ""
        if address in known:
            return known[address]
        for symbol in own:
            if symbol.address <= address < symbol.address + max(symbol.size, 1):
                offset = address - symbol.address
                return look.program.called(symbol.name, of) + (f"+{offset}" if offset else "")
        return look.places.data(address) or look.places.there(address)

    return describe


def namer(
    session: Session, cell: Cell, meant: Callable[[str], Stretch | None] | None = None
) -> Callable[[Code, str, Sequence[tuple[int, int]]], list[Instruction]]:
    """A function that decodes code of a cell in memory, in a syntax, with the lines of addresses;
    operands have the names of what they lead to.  `meant` as for `NamedCode`."""
    describe, look = describer(session, cell), session.inspect
    made = look.own_symbols(cell.number)
    obj = read_object(look.object(cell.number)) if made else None
    called = partial(look.program.called, cell=cell.number)
    names = NamedCode(obj, called, meant) if obj is not None else None
    places = {
        s.address: (entry[3], entry[4])
        for s, entry in zip(made, obj.symbols[1:] if obj is not None else (), strict=True)
        if s.kind == "function" and s.address
    }

    def named(code: Code, syntax: str, lines: Sequence[tuple[int, int]]) -> list[Instruction]:
        content = look.engine.arena.read(code.address, code.size)
        found = decode(content, code.address, describe, syntax, lines)
        if names is None or code.address not in places:
            return found
        return names.refer(found, *places[code.address])

    return named


def disassemble(
    found: Sequence[Instruction], marks: Mapping[int, str] | None = None
) -> Iterator[str]:
    """Lines of text: the cell's line, label, offset, bytes, instruction, what it refers to; with
    the `marks` of addresses in front, where there are any."""
    wide = max((min(len(i.code), _ROW) for i in found), default=1)
    mark = max((len(i.label) for i in found), default=0)
    first = max((len(str(i.line)) for i in found if i.line), default=0)
    rows: list[tuple[Instruction, str, int]] = []
    for instruction in found:
        lead = f"{instruction.line or '':>{first}}  " if first else ""
        if marks:
            lead = f"{marks.get(instruction.address, ''):<3}{lead}"
        offset = instruction.address - found[0].address
        head = f"{lead}{instruction.label:<{mark}} +{offset:<4d}  "
        line = (
            f"{head}{instruction.code[:_ROW].hex(' '):<{3 * wide}} "
            f"{instruction.mnemonic:<7} {instruction.operands}"
        )
        rows.append((instruction, line, len(head)))
    column = min(max((len(line) for i, line, _ in rows if i.refers), default=0), _COMMENT)
    for instruction, line, indent in rows:
        comment = instruction.refers
        yield (f"{line:<{column}} ; {comment}" if comment else line).rstrip()
        if instruction.code[_ROW:]:
            yield f"{'':<{indent}}{instruction.code[_ROW:].hex(' ')}"
