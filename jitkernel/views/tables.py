"""Tables of what a session holds: `cells`, `symbols` and watched globals, `watch`."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from jitkernel.ir.names import bare, quote_name, written
from jitkernel.views.memory import last_use
from jitkernel.views.view import View, paragraph, sparkline, table, time_text
from jitkernel.wording import counted, cut_list

if TYPE_CHECKING:
    from jitkernel.session import Session
    from jitkernel.session.handles import Symbol
    from jitkernel.session.program.cell import Cell
    from jitkernel.session.report.watch import Watched

__all__ = ["cells", "symbol_names", "symbols", "watch", "watched_view"]

ROWS, NAMES = 200, 20  # listed, and of one cell; more are counted
_HISTORY = 24


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
                _defines(cell),
                sizes.get("text", 0) or "",
                (sizes.get("rodata", 0) + sizes.get("unwind", 0)) or "",
                sizes.get("data", 0) or "",
                (time_text(sum(cell.times)) + ", cached" * cell.cached) if cell.times else "",
                last_use(session, cell),
            )
        )
    note = _count(len(every), "cell", "last") if every else "No cells yet."
    columns = ("#cell", "state", "defines", "#text", "#rodata", "#data", "#made in", "#used")
    return table("Cells (bytes per zone)", columns, rows, note)


def _defines(cell: Cell) -> str:
    """What a cell defines: its symbols, or the types that it has alone."""
    if cell.image is None and cell.types:
        return cut_list(["%" + quote_name(n) for n in cell.types], NAMES, " ")
    return cut_list([written(n) for n in cell.names], NAMES, " ") or "(statements)"


def symbols(session: Session, pattern: str | None = None, everything: bool = False) -> View:
    """The session's functions and globals."""
    chosen = _chosen(session, pattern, everything)
    rows = [
        (
            written(symbol.name),
            "constant" if symbol.constant else symbol.kind,
            symbol.type,
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
    """What there is to say where no symbol was found."""
    return f"No symbol matches {pattern}" if pattern else "Nothing is defined yet"


def symbol_names(session: Session, pattern: str | None = None) -> list[str]:
    """The names alone, as they are written."""
    return [written(s.name) for s in _chosen(session, pattern, False)]


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
    """What `Session.watch` watches, as it is now."""
    return watched_view(session, session.watched())


def watched_view(session: Session, watched: Sequence[Watched]) -> View:
    """A table of `watched`: while code runs, or after it."""
    if not watched:
        words = "Nothing is watched. %watch @g watches a global while cells run."
        return paragraph(words)
    rows = [
        (
            written(w.name),
            w.typed.text(session.describe) if w.typed is not None else w.why,
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
