"""A map of the arena: who has which bytes of each zone, and what is free.  Start from `arena`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jitkernel.session.tenants import STATES, Tenant, tenants
from jitkernel.views.arena_parts import LETTERS, Part, letter, level, parts
from jitkernel.views.arena_picture import draw
from jitkernel.views.names import written
from jitkernel.views.view import View, escape, join, table

if TYPE_CHECKING:
    from jitkernel.session import Session

__all__ = ["arena"]

#: A zone with more extents and holes than this is shown in parts.
SINGLY = 40


def arena(session: Session, zone: str | None = None) -> View:
    """The zones of the session's arena, up to each one's high-water mark.

    With few extents each is drawn and listed; a zone with many is cut into equal parts.
    """
    slab = session.arena
    everything = tenants(session)
    found = {n: everything[n] for n in slab.zones if zone is None or n == zone}
    strips = {n: parts(found[n], slab.zones[n].list.granule) for n in found}
    every = [tenant for rows in found.values() for tenant in rows]
    sums = {s: sum(t.size - t.padding for t in every if t.state == s) for s in STATES}
    sums["padding"] = sum(t.padding for t in every)
    books = join([_account(session, found), _places(session, found)])
    drawn = {n: found[n] if len(found[n]) <= SINGLY else strips[n] for n in found}
    lists = [
        _parts(name, strips[name]) if drawn[name] is strips[name] else _extents(session, name, rows)
        for name, rows in found.items()
        if rows
    ]
    many = [name for name in found if drawn[name] is strips[name] and strips[name]]
    short = [
        v
        for name, v in zip([n for n in found if found[n]], lists, strict=True)
        if zone or name not in many
    ]
    text = [books.text, _strips(found, strips)]
    text += [view.text for view in short]
    if many and not zone:
        text.append(
            "\n".join(
                f"%arena {name} lists the parts of its {len(found[name])} extents and holes."
                for name in many
            )
        )
    details = "".join(
        f"<details><summary>{escape(view.text.splitlines()[0])}</summary>{view.html}</details>"
        for view in lists
    )
    return View(
        "\n\n".join(text), draw(drawn, sums, _sentence(session, found, sums)) + books.html + details
    )


def _account(session: Session, found: dict[str, list[Tenant]]) -> View:
    """Bytes by state and zone; every column adds up to the zone's capacity."""
    usage = session.arena.usage()
    columns = {name: dict.fromkeys((*STATES, "padding"), 0) for name in found}
    for name, rows in found.items():
        held = columns[name]
        for tenant in rows:
            held[tenant.state] += tenant.size - tenant.padding
            held["padding"] += tenant.padding
    lines: list[tuple[str, list[int]]] = []
    for state in (*STATES, "padding"):
        if state == "free":
            continue
        sizes = [columns[name][state] for name in found]
        if any(sizes) or state == "live":
            lines.append((state, sizes))
    lines.append(("free, poisoned", [columns[name]["free"] for name in found]))
    high = [usage[name]["high"] for name in found]
    never = [usage[name]["capacity"] - mark for name, mark in zip(found, high, strict=True)]
    lines.append(("= up to high water", high))
    lines.append(("never used", never))
    lines.append(("= capacity", [usage[name]["capacity"] for name in found]))
    whole = len(found) > 1
    rows_ = [(words, *map(_digits, s), *([_digits(sum(s))] if whole else [])) for words, s in lines]
    names = [f"#{name}" for name in found]
    meaning = [f"{s}: {w}" for s, w in STATES.items() if any(columns[n][s] for n in found)]
    note = "; ".join(meaning)
    return table("Arena (bytes)", ("", *names, *(["#all"] if whole else [])), rows_, note)


def _places(session: Session, found: dict[str, list[Tenant]]) -> View:
    usage = session.arena.usage()
    zones = session.arena.zones
    rows = [
        (
            name,
            f"{zones[name].start:#x}",
            f"{zones[name].high:#x}",
            usage[name]["extents"],
            sum(t.state == "free" for t in held),
            _digits(max((t.size for t in held if t.state == "free"), default=0)),
        )
        for name, held in found.items()
    ]
    columns = ("zone", "starts at", "high water at", "#extents", "#holes", "#largest hole")
    return table("", columns, rows)


def _strips(found: dict[str, list[Tenant]], strips: dict[str, list[Part]]) -> str:
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


def _extents(session: Session, name: str, rows: Sequence[Tenant]) -> View:
    listed = [
        (f"{t.start:#x}", _digits(t.size - t.padding), t.padding or "", t.state, t.cell or "",
         t.name or _names(session, t.cell))
        for t in rows
    ]  # fmt: skip
    columns = ("address", "#bytes", "#padding", "state", "#cell", "what")
    return table(
        f"{name}: {_count(len(rows), 'extent or hole', 'extents and holes')}", columns, listed
    )


def _parts(name: str, row: Sequence[Part]) -> View:
    states = [s for s in STATES if any(s in part.states for part in row)]
    listed = [
        (
            f"{part.start:#x}",
            *(_digits(part.states.get(s, 0)) for s in states),
            len(part.cells) or "",
            f"{part.cells[0]} to {part.cells[-1]}" if part.cells else "",
        )
        for part in row
    ]
    title = f"{name}: {len(row)} parts of {row[0].size:,} bytes, padding included"
    return table(title, ("address", *(f"#{s}" for s in states), "#cells", "numbers"), listed)


def _names(session: Session, number: int) -> str:
    cell = session.program.cells.get(number)
    if cell is None:
        return ""
    names = [written(n) for n in cell.names]
    return " ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _sentence(session: Session, found: dict[str, list[Tenant]], sums: dict[str, int]) -> str:
    cells = {t.cell for rows in found.values() for t in rows if t.cell}
    held = ", ".join(f"{_digits(size)} bytes {state}" for state, size in sums.items() if size)
    return (
        f"Map of the arena: {_count(len(found), 'zone', 'zones')}, "
        f"{_count(len(cells), 'cell', 'cells')}" + (f"; {held}." if held else ".")
    )


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _digits(count: int) -> str:
    return f"{count:,}"
