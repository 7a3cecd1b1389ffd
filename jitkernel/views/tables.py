"""Tables of what a session holds: `cells`, `symbols` and watched globals, `watch`; of what can be
taken back, `undo`; of what a collection found, `garbage`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from jitkernel.ir.names import bare, quote_name
from jitkernel.session.history.snapshot import lasting
from jitkernel.views.memory import last_use
from jitkernel.views.view import View, paragraph, sparkline, table, time_text
from jitkernel.wording import counted, cut_list, size_text

if TYPE_CHECKING:
    from jitkernel.session import Session
    from jitkernel.session.handles import Symbol
    from jitkernel.session.program.cell import Cell
    from jitkernel.session.report.watch import Watched
    from jitkernel.session.residency.garbage import Garbage

ROWS, NAMES = 200, 20  # listed, and of one cell; more are counted
_HISTORY = 24
_ZONES = ("text", "rodata", "unwind", "data")


def cells(session: Session) -> View:
    """The cells in memory: what each defines and how many bytes it takes in each zone."""
    every = list(session.cells)
    rows = []
    for cell in every[-ROWS:]:
        sizes = cell.sizes
        rows.append(
            (
                cell.number,
                cell.state.value,
                _defines(session, cell),
                *(sizes.get(zone, 0) or "" for zone in _ZONES),
                (time_text(sum(cell.times)) + ", cached" * cell.cached) if cell.times else "",
                last_use(session, cell),
            )
        )
    note = _count(len(every), "cell", "last") if every else "No cells yet."
    zones = (f"#{zone}" for zone in _ZONES)
    columns = ("#cell", "state", "defines", *zones, "#made in", "#used")
    return table("Cells (bytes per zone)", columns, rows, note)


def _defines(session: Session, cell: Cell) -> str:
    """The symbols that a cell defines, or the types and names of its language that it has alone."""
    program = session.inspect.program
    if cell.image is None and cell.types:
        return cut_list(["%" + quote_name(n) for n in cell.types], NAMES, " ")
    names = [program.called(n) if at < NAMES else n for at, n in enumerate(cell.names)]
    if not names:
        noted = (key.rpartition(":")[2] for key in program.state.notes.kept_of(cell.number))
        names = [name for name in dict.fromkeys(noted) if not name[:1].isdigit()]
    return cut_list(names, NAMES, " ") or "(statements)"


def symbols(session: Session, pattern: str | None = None, everything: bool = False) -> View:
    """The session's functions and globals."""
    chosen, inspect = _chosen(session, pattern, everything), session.inspect
    rows = [
        (
            inspect.program.called(symbol.name),
            "constant" if symbol.constant else symbol.kind,
            inspect.type_of(symbol),
            symbol.size or "",
            symbol.cell or symbol.state,
            ", ".join(map(str, symbol.users)),
            f"{symbol.address:#x}" if symbol.address else "",
        )
        for symbol in chosen[:ROWS]
    ]
    note = _count(len(chosen), "symbol", "first") if chosen else nothing(pattern) + "."
    columns = ("name", "kind", "type", "#bytes", "#cell", "used by cells", "address")
    return table("Symbols", columns, rows, note)


def nothing(pattern: str | None) -> str:
    """The sentence for a table where no symbol was found."""
    return f"No symbol matches {pattern}" if pattern else "Nothing is defined yet"


def symbol_names(session: Session, pattern: str | None = None) -> list[str]:
    """The names alone, as they are written."""
    return [session.inspect.program.called(s.name) for s in _chosen(session, pattern, False)]


def _chosen(session: Session, pattern: str | None, everything: bool) -> list[Symbol]:
    wanted = bare(pattern) if pattern else "*"
    return [
        symbol
        for symbol in session.symbols.values()
        if fnmatchcase(symbol.name, wanted)
        and (everything or symbol.cell or (symbol.state == "missing" and symbol.users))
    ]


def _count(number: int, what: str, which: str) -> str:
    listed = f"; the {which} {ROWS} are listed" if number > ROWS else ""
    return counted(number, what, ",") + listed


def watch(session: Session) -> View:
    """The view of what `Session.watch` watches, as it is now."""
    return watched_view(session, session.watched())


def watched_view(session: Session, watched: Sequence[Watched]) -> View:
    """A table of `watched`: while code runs, or after it."""
    if not watched:
        words = "Nothing is watched. %watch NAME watches a global while cells run."
        return paragraph(words)
    rows = [
        (
            session.inspect.program.called(w.name),
            session.inspect.text_of(w.name, w.typed) if w.typed is not None else w.why,
            _number(w.least),
            _number(w.most),
            sparkline(w.samples, _HISTORY),
        )
        for w in watched
    ]
    seconds = watched[0].seconds
    when = f", {time_text(seconds * 1e9)} into the run" if seconds is not None else ""
    return table(f"Watched{when}", ("global", "value", "#least", "#most", "history"), rows)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(int(value))


def undo(session: Session) -> View:
    """The runs and evictions that `%undo` takes back, the latest first."""
    history, program = session.inspect.history, session.inspect.program
    rows = [
        (
            number,
            step.cell or "",
            step.title.removeprefix(f"cell {step.cell}: "),
            program.listed(list(step.facts("name"))),
            sum(map(len, step.pages.values())) or "",
            lasting(program, step),
        )
        for number, step in enumerate(history.steps(), 1)
    ]
    notes = []
    if not rows:
        notes.append("There is nothing to undo.")
    held = {zone: history.held(zone) for zone in ("rodata", "data")}
    if history.bytes or any(held.values()):
        values = size_text(history.bytes)
        notes.append(
            f"Kept for undo and redo: {_zones(held)} of what is gone, {values} of old values. "
            "%gc --undo forgets it."
        )
    if undone := history.undone:
        notes.append("%redo brings back, in this order: " + "; ".join(undone))
    columns = ("#%undo", "#cell", "what ran", "names", "#old data", "what stays")
    return table("What can be undone", columns, rows, "\n".join(notes))


def garbage(session: Session, found: Garbage) -> View:
    """The view of what `%gc` freed, or would."""
    rows = [
        (n, ", ".join(map(session.inspect.program.called, names)) or "(statements)")
        for n, names in found.cells
    ]
    notes = []
    verb = "would be freed" if found.dry_run else "freed"
    count = len(rows)
    freed = {z: n for z, n in found.freed.items() if n}
    if count:
        notes.append(f"{counted(count, 'cell')} {verb}.")
    else:
        notes.append("No cell is garbage: each is used, or is what its notebook cell now defines.")
    notes.append(f"In the arena {verb}: {_zones(freed) if freed else 'nothing'}.")
    processes = {p: n for p, n in found.processes.items() if n >= 4096}
    if processes:
        given = ", ".join(f"{name} {size_text(n)}" for name, n in processes.items())
        notes.append(f"Given back to the system: {given}.")
    elif not found.dry_run:
        notes.append("Given back to the system: nothing, no whole page became free.")
    if found.forgotten:
        many = counted(found.forgotten, "run")
        can = "could no longer" if found.dry_run else "can no longer"
        notes.append(f"{many} {can} be undone or done again.")
    elif any(found.undo.values()) or found.undo_data:
        notes.append(
            f"Kept for undo: {_zones(found.undo)} of what is gone, {size_text(found.undo_data)} of "
            "old values. %gc --undo forgets it."
        )
    if not rows:
        return View("\n".join(notes), "".join(paragraph(note).html for note in notes))
    title = "Garbage that would be collected" if found.dry_run else "Garbage that was collected"
    return table(title, ("#cell", "defined"), rows, "\n".join(notes))


def _zones(sizes: dict[str, int]) -> str:
    return ", ".join(f"{zone} {size_text(n)}" for zone, n in sizes.items())
