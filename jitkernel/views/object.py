"""A cell's relocatable object, and what the linker made of each part of it.  Start from `object`.

What is shown is read back from the arena: after a redefinition it says where calls lead now.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.linker import Symbol, SymbolState
from jitkernel.linker.linkmap import LinkMap, MappedRelocation, MappedSymbol
from jitkernel.views.asm import describer, wake
from jitkernel.views.room import Room
from jitkernel.views.view import View, join, table

if TYPE_CHECKING:
    from jitkernel.session import Cell, Session

ROWS = 100  # of each table, where not all are asked for; more are counted


def object(session: Session, target: int | str | None = None, everything: bool = False) -> View:
    """Sections, symbols and relocations of a cell's object, with their final addresses and values.

    A name stands for the cell that defines it.  Long tables are cut unless `everything` is asked
    for.  Raises UsageError where a cell has no object.
    """
    cell, _ = session.inspect.cell_of(target)
    wake(session, cell)
    made = session.inspect.link_map(cell.number)
    if made is None:
        raise UsageError(f"cell {cell.number} has no object in memory")
    size = len(session.inspect.object(cell.number))
    most = len(made.sections) + len(made.symbols) + len(made.relocations) if everything else ROWS
    room = Room(f"%object {cell.number} --all", everything)
    parts = [_sections(made, cell, size, most, room), _symbols(session, made, cell, most, room)]
    describe = describer(session, cell)
    for section in (s for s in made.sections if s.zone):
        if mine := [r for r in made.relocations if r.section == section.index]:
            title = f"Relocations of {section.name}"
            if section.address and section.zone != "unwind":
                title += f", at {section.address:#x}"
            parts.append(_relocations(session, mine, title, describe, most, room))
    if entries := _entries(session, made, most, room):
        parts.append(entries)
    return join(parts, room)


def _address(value: int) -> str:
    return f"{value:#x}" if value else ""


def _more(number: int, what: str, most: int) -> str:
    """The note below a table that shows a part."""
    return f"{number:,} {what}; {most} are listed, --all lists all" if number > most else ""


def _sections(made: LinkMap, cell: Cell, size: int, most: int, room: Room) -> View:
    rows = [
        (s.index, s.name, s.kind, s.flags, s.size, s.align, s.zone, _address(s.address), s.why)
        for s in made.sections[:most]
    ]
    more = _more(len(made.sections), "sections", most)
    taken = ", ".join(f"{n} {zone}" for zone, n in cell.sizes.items() if n)
    return table(
        f"Sections of the object of cell {cell.number}, {size} bytes",
        ("#nr", "name", "holds", "flags", "#bytes", "#align", "zone", "address", "remark"),
        rows,
        f"In the arena it takes, in bytes: {taken or 'nothing'}. "
        f"Flags: W writable, A loaded, X code.{f' {more}.' if more else ''}",
        room,
    )


def _symbols(session: Session, made: LinkMap, cell: Cell, most: int, room: Room) -> View:
    shown = [s for s in made.symbols if s.kind not in ("section", "file")]
    rows = [
        (
            session.inspect.program.called(s.name, cell.number if s.symbol is None else None),
            s.binding,
            s.kind,
            s.section or "undefined",
            f"+{s.offset:#x}" if s.section and s.section not in ("absolute", "common") else "",
            s.size or "",
            _address(s.address),
            _now(session, s, cell),
        )
        for s in shown[:most]
    ]
    return table(
        "Symbols",
        ("name", "binding", "kind", "section", "#offset", "#bytes", "address", "now"),
        rows,
        _more(len(shown), "symbols", most),
        room,
    )


def _now(session: Session, made: MappedSymbol, cell: Cell) -> str:
    """The session's present definition of a symbol's name, in words."""
    symbol = made.symbol
    if symbol is None:
        return "known to this cell only" if made.address else "supplied by the linker"
    if made.address and symbol.image is cell.image and symbol.address == made.address:
        return "this definition"
    match symbol.state:
        case SymbolState.DEFINED:
            return f"cell {symbol.cell}'s: {symbol.address:#x}"
        case SymbolState.FAR:
            return f"in the process: {symbol.address:#x}"
        case SymbolState.FIXED:
            return f"the runtime's: {symbol.address:#x}"
        case SymbolState.NULL:
            return "weak, nobody's: 0"
    return "missing" + (f": {symbol.why}" if symbol.why else "")


def _relocations(
    session: Session,
    made: list[MappedRelocation],
    title: str,
    describe: Callable[[int], str],
    most: int,
    room: Room,
) -> View:
    rows = [
        (
            f"+{r.offset:#x}",
            r.type,
            (session.inspect.program.called(r.symbol) if r.target is not None else r.symbol)
            + (f"{r.addend:+#x}" if r.addend else ""),
            f"{r.how} to {r.form}" if r.form else r.how,
            f"{r.value:#x}" if r.at else "",
            f"{r.refers_to:#x}" if r.refers_to or r.how not in ("not loaded", "nothing") else "",
            _name(session, r, describe),
        )
        for r in made[:most]
    ]
    note = _more(len(made), "relocations", most)
    columns = ("#offset", "R_X86_64_", "against", "made of it", "#value", "leads to", "which is")
    return table(title, columns, rows, note, room)


def _name(session: Session, made: MappedRelocation, describe: Callable[[int], str]) -> str:
    """The name of the address that a field leads to: where a stub or a slot goes in the end."""
    if made.how == "raising stub" and made.target is not None:
        return made.target.why or "nobody's"
    if made.how == "GOT":
        return "the table"
    if made.how in ("size", "nothing", "not loaded"):
        return ""
    address = made.final or made.refers_to
    found = describe(address) or session.inspect.name_of(address)
    return found.replace("+0x0,", ",")


def _entries(session: Session, made: LinkMap, most: int, room: Room) -> View | None:
    """The stubs and GOT slots of the symbols that the object defines or refers to."""
    found: dict[str, Symbol] = {}
    for symbol in [*(s.symbol for s in made.symbols), *(r.target for r in made.relocations)]:
        if symbol is not None and (symbol.stub or symbol.slot or symbol.far_slot):
            found[symbol.name] = symbol
    if not found:
        return None

    rows = []
    for name, s in sorted(found.items())[:most]:
        jump = (f"{s.address:#x}" if s.address else "an error") if s.stub else ""
        held = (
            f"{int.from_bytes(session.inspect.engine.arena.read(s.slot, 8), 'little'):#x}"
            if s.slot
            else ""
        )
        slots = _address(s.far_slot), _address(s.slot)
        rows.append((session.inspect.program.called(name), _address(s.stub), jump, *slots, held))
    columns = ("symbol", "stub", "which jumps to", "through slot", "GOT slot", "which holds")
    title = "Stubs and slots of these symbols, shared by all cells"
    return table(title, columns, rows, _more(len(found), "symbols", most), room)
