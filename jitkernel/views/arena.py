"""A map of the arena: who has which bytes of each zone, and what is free.  Start from `arena`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.ir.names import written
from jitkernel.session.report.memory import STATES, Occupant
from jitkernel.views.arena_map import LETTERS, Part, draw, letter, level, parts
from jitkernel.views.view import View, join, prose, table
from jitkernel.wording import counted, cut_list

if TYPE_CHECKING:
    from jitkernel.session import Session

__all__ = ["arena"]

#: A zone with more extents and holes than this is shown in parts.
SINGLY = 40


def arena(session: Session, zone: str | None = None, part: int | None = None) -> View:
    """The zones of the session's arena, up to each one's high-water mark.

    With few extents each is drawn and listed; a zone with many is cut into equal parts.  `part` is
    the number of such a part: what lies in it, extent by extent.  Raises UsageError where the zone
    has no such part.
    """
    zones = session.inspect.zones()
    every = session.inspect.occupancy()
    found = {n: rows for n, rows in every.items() if zone in (None, n)}
    if part is not None:
        if zone is None:
            raise UsageError("a part of which zone? For example: %arena text 3")
        return _one_part(session, zone, found[zone], part)
    strips = {n: parts(rows, zones[n].granule) for n, rows in found.items()}
    many = [n for n, rows in found.items() if len(rows) > SINGLY]
    lists = {
        n: _parts(n, strips[n]) if n in many else _extents(session, n, rows)
        for n, rows in found.items()
        if rows
    }
    books = join([_account(session, found), _places(session, found)])
    text = [books.text, _strips(found, strips)]
    text += [view.text for n, view in lists.items() if zone or n not in many]
    if zone is None:
        text += [f"%arena {n} lists the parts of its {_content(found[n])}." for n in many]
    elif many:
        text.append(f"%arena {zone} NUMBER lists the extents of a part.")
    drawn = {n: strips[n] if n in many else rows for n, rows in found.items()}
    details = "".join(
        f"<details><summary>{prose(view.text.splitlines()[0])}</summary>{view.html}</details>"
        for view in lists.values()
    )
    return View("\n\n".join(text), _picture(found, drawn) + books.html + details)


def _one_part(session: Session, zone: str, rows: list[Occupant], number: int) -> View:
    """What overlaps a part of a zone."""
    granule = session.inspect.zones()[zone].granule
    strip = parts(rows, granule)
    if not 0 < number <= len(strip):
        have = f"it has {len(strip)}" if strip else "nothing was ever placed there"
        raise UsageError(f"the {zone} zone has no part {number}: {have}")
    low, size = strip[number - 1][:2]
    inside = [t for t in rows if t.start < low + size and t.stop > low]
    listed = _extents(session, f"{zone}, part {number} of {len(strip)}", inside)
    drawn = parts(inside, granule) if len(inside) > SINGLY else inside
    picture = _picture({zone: inside}, {zone: drawn})
    strips = _strips({zone: inside}, {zone: parts(inside, granule)})
    return View(f"{strips}\n\n{listed.text}", picture + listed.html)


def _picture(
    found: dict[str, list[Occupant]], drawn: dict[str, list[Occupant] | list[Part]]
) -> str:
    every = [occupant for rows in found.values() for occupant in rows]
    sums = {s: sum(t.size - t.padding for t in every if t.state == s) for s in STATES}
    sums["padding"] = sum(t.padding for t in every)
    return draw(drawn, sums, _sentence(found, sums))


def _account(session: Session, found: dict[str, list[Occupant]]) -> View:
    """Bytes by state and zone; every column adds up to the zone's capacity."""
    zones = session.inspect.zones()
    columns = {name: dict.fromkeys((*STATES, "padding"), 0) for name in found}
    for name, rows in found.items():
        held = columns[name]
        for occupant in rows:
            held[occupant.state] += occupant.size - occupant.padding
            held["padding"] += occupant.padding
    lines: list[tuple[str, list[int]]] = []
    for state in (*STATES, "padding"):
        if state == "free":
            continue
        sizes = [columns[name][state] for name in found]
        if any(sizes) or state == "live":
            lines.append((state, sizes))
    lines.append(("free, poisoned", [columns[name]["free"] for name in found]))
    high = [zones[name].high - zones[name].start for name in found]
    never = [zones[name].capacity - mark for name, mark in zip(found, high, strict=True)]
    lines.append(("= up to high water", high))
    lines.append(("never used", never))
    lines.append(("= capacity", [zones[name].capacity for name in found]))
    whole = len(found) > 1
    rows_ = [(words, *map(_digits, s), *([_digits(sum(s))] if whole else [])) for words, s in lines]
    names = [f"#{name}" for name in found]
    meaning = [f"{s}: {w}" for s, w in STATES.items() if any(columns[n][s] for n in found)]
    note = "; ".join(meaning)
    return table("Arena (bytes)", ("", *names, *(["#all"] if whole else [])), rows_, note)


def _places(session: Session, found: dict[str, list[Occupant]]) -> View:
    zones = session.inspect.zones()
    rows = [
        (
            name,
            f"{zones[name].start:#x}",
            f"{zones[name].high:#x}",
            zones[name].extents,
            sum(t.state == "free" for t in held),
            _digits(max((t.size for t in held if t.state == "free"), default=0)),
        )
        for name, held in found.items()
    ]
    columns = ("zone", "starts at", "high water at", "#extents", "#holes", "#largest hole")
    return table("", columns, rows)


def _strips(found: dict[str, list[Occupant]], strips: dict[str, list[Part]]) -> str:
    width = max(map(len, strips))
    lines = []
    for name, row in strips.items():
        scale = f"a letter is {row[0].size:,} bytes" if row else "nothing was ever placed here"
        lines.append(f"{name:<{width}} |{''.join(map(letter, row))}| {scale}")
        if any("free" in part.states for part in row):
            lines.append(f"{'':<{width}} |{''.join(map(level, row))}| how much of each is used")
    states = {s for row in strips.values() for part in row for s in part.states}
    legend = [f"{LETTERS[s]} {s}" for s in STATES if s in states]
    lines.append("; ".join(legend) + ": what a part has most of; small where some of it is free")
    return "\n".join(lines)


def _extents(session: Session, name: str, rows: Sequence[Occupant]) -> View:
    listed = [
        (f"{t.start:#x}", _digits(t.size - t.padding), t.padding or "", t.state, t.cell or "",
         t.name or _names(session, t.cell))
        for t in rows
    ]  # fmt: skip
    columns = ("address", "#bytes", "#padding", "state", "#cell", "what")
    return table(f"{name}: {_content(rows)}", columns, listed)


def _parts(name: str, row: Sequence[Part]) -> View:
    states = [s for s in STATES if any(s in part.states for part in row)]
    listed = [
        (
            number,
            f"{part.start:#x}",
            *(_digits(part.states.get(s, 0)) for s in states),
            len(part.cells) or "",
            f"{part.cells[0]} to {part.cells[-1]}" if part.cells else "",
        )
        for number, part in enumerate(row, 1)
    ]
    title = f"{name}: {len(row)} parts of {row[0].size:,} bytes, padding included"
    return table(title, ("#part", "address", *(f"#{s}" for s in states), "#cells", "cells"), listed)


def _names(session: Session, number: int) -> str:
    cell = session.inspect.cell(number)
    if cell is None:
        return ""
    return cut_list([written(n) for n in cell.names], 4, " ")


def _sentence(found: dict[str, list[Occupant]], sums: dict[str, int]) -> str:
    cells = {t.cell for rows in found.values() for t in rows if t.cell}
    held = ", ".join(f"{_digits(size)} bytes {state}" for state, size in sums.items() if size)
    return f"Map of the arena: {counted(len(found), 'zone')}, {counted(len(cells), 'cell')}" + (
        f"; {held}." if held else "."
    )


def _content(rows: Sequence[Occupant]) -> str:
    holes = sum(t.state == "free" for t in rows)
    return f"{counted(len(rows) - holes, 'extent')}, {counted(holes, 'hole')}"


def _digits(count: int) -> str:
    return f"{count:,}"
