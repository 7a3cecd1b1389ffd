"""What a cell uses, who uses it, and what evicting it would break.  Start from `deps`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitkernel.ir.names import written
from jitkernel.views.diagram import Arrow, Node, diagram
from jitkernel.views.graph import within
from jitkernel.views.view import View, prose, table
from jitkernel.wording import cut_list

if TYPE_CHECKING:
    from jitkernel.session import Session

__all__ = ["deps"]

SHOWN, DRAWN = 200, 60  # rows; cells in the picture


class _Links:
    """Who uses what, read from the session once."""

    def __init__(self, session: Session):
        self.names = {cell.number: cell.names for cell in session.cells}
        self.uses: dict[int, list[tuple[str, int, str]]] = {n: [] for n in self.names}
        self.used: dict[int, set[int]] = {n: set() for n in self.names}
        self.users: dict[int, set[int]] = {n: set() for n in self.names}
        for name, symbol in session.symbols.items():
            for user in symbol.users:
                if user in self.uses:
                    self.uses[user].append((name, symbol.cell, symbol.state))
                    if symbol.cell in self.users:
                        self.used[user].add(symbol.cell)
                        self.users[symbol.cell].add(user)

    def label(self, number: int) -> str:
        return cut_list([written(n) for n in self.names[number]], 3) or "statements"


def deps(session: Session, target: int | str | None = None) -> View:
    """The dependencies of a cell, or of the cell that defines a name; of all cells without one."""
    links = _Links(session)
    note = ""
    if target is None:
        numbers, here, breaks = sorted(links.names), 0, set[int]()
        title = "Dependencies between cells"
    else:
        here = session.inspect.cell_of(target)[0].number
        breaks = within([here], links.users) - {here}
        numbers = sorted(breaks | within([here], links.used))
        title = f"Dependencies of cell {here}"
        shown = ", ".join(map(str, sorted(breaks)))
        note = f"Evicting cell {here} would break " + (
            f"cell{'s' * (len(breaks) > 1)} {shown}." if breaks else "nothing."
        )
    rows = [(n, links.label(n), _used(links, n), _numbers(links.users[n])) for n in numbers[:SHOWN]]
    if len(numbers) > SHOWN:
        note += f" {len(numbers) - SHOWN} more cells are not shown; name one."
    view = table(title, ("#cell", "defines", "uses", "used by cells"), rows, note.strip())
    edges = [Arrow(str(n), str(u)) for n in numbers for u in sorted(links.used[n]) if n != u]
    inside = {str(n) for n in numbers}
    edges = [edge for edge in edges if edge.stop in inside]
    linked = {end for edge in edges for end in (edge.start, edge.stop)}
    if not edges:
        return view
    if len(linked) > DRAWN:
        words = f"For a picture there are too many cells; {DRAWN} can be drawn."
        return View(f"{view.text}\n{words}", f"{view.html}<p>{prose(words)}</p>")
    nodes = [
        Node(
            str(n),
            f"cell {n}{' (here)' if n == here else ''}",
            (links.label(n), *(("would break",) if n in breaks else ())),
            "entry" if n == here else "missing" if n in breaks else "",
        )
        for n in numbers
        if str(n) in linked
    ]
    alt = f"{title}: {len(nodes)} cells, {len(edges)} uses. {note}".strip()
    legend = "An arrow leads from a cell to one that it uses; dashed where cells use each other."
    return View(view.text, f"{view.html}{diagram(nodes, edges, alt)}<p>{legend}</p>")


def _used(links: _Links, number: int) -> str:
    return ", ".join(
        f"{written(name)} ({f'cell {cell}' if cell else state})"
        for name, cell, state in links.uses[number]
    )


def _numbers(found: set[int]) -> str:
    return ", ".join(map(str, sorted(found)))
