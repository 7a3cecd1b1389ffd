"""A map of the arena: who has which bytes of each zone, and what is free.  Start from `arena`.

A zone with few extents shows each of them; one with many shows equal parts: in letters, and as a
picture where each is filled from the bottom by what is in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from jitkernel.errors import UsageError
from jitkernel.session.report.memory import STATES, Occupant, occupancy
from jitkernel.views.svg import INK, LETTER, SHEET, Fill, image, label, rectangle
from jitkernel.views.view import View, folding, join, table
from jitkernel.wording import counted, cut_list, size_text

if TYPE_CHECKING:
    from jitkernel.session import Session

#: A zone with more extents and holes than this is shown in parts.
SINGLY = 40
PARTS = 64  # at most, a zone
#: By state, for maps made of letters: a capital where all of a part is used.
LETTERS = {
    "live": "L", "superseded": "S", "hibernated": "H", "entry": "E", "thunk": "T", "undo": "U",
    "retained": "R", "free": ".",
}  # fmt: skip

WIDTH, LEFT, RIGHT = 740, 64, 14
STRIP, ROW, TOP, LINE = 34, 74, 10, 18

FILLS = {
    "live": Fill("live", "#56b4e9"),
    "superseded": Fill("superseded", "#e69f00", "M-2,2 L2,-2 M0,8 L8,0 M6,10 L10,6"),
    "hibernated": Fill("hibernated", "#f0e442", "M0,0 L8,8 M0,8 L8,0"),
    "entry": Fill("entry", "#4fc3a1", "M2,2 h1 M6,6 h1"),
    "thunk": Fill("thunk", "#d4d4d4", "M2,0 V8 M6,0 V8"),
    "undo": Fill("undo", "#d98fb8", "M0,2 H8 M0,6 H8"),
    "retained": Fill("retained", "#e8884a", "M-2,6 L2,10 M0,0 L8,8 M6,-2 L10,2"),
    "free": Fill("free", SHEET, "M3,4 h2"),
}


def arena(session: Session, zone: str | None = None, part: int | None = None) -> View:
    """The zones of the session's arena, up to each one's high-water mark.

    With few extents each is drawn and listed; a zone with many is cut into equal parts.  `part` is
    the number of such a part: what lies in it, extent by extent.  Raises UsageError where the zone
    has no such part.
    """
    zones = session.inspect.engine.arena.zones
    every = occupancy(session.inspect.engine, session.inspect.program)
    found = {n: rows for n, rows in every.items() if zone in (None, n)}
    if part is not None:
        if zone is None:
            raise UsageError("a part of which zone? For example: %arena text 3")
        return _one_part(session, zone, found[zone], part)
    strips = {n: parts(rows, zones[n].list.granule) for n, rows in found.items()}
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
    details = "".join(folding(view.text.splitlines()[0], view).html for view in lists.values())
    return View("\n\n".join(text), _picture(found, drawn) + books.html + details)


def _one_part(session: Session, zone: str, rows: list[Occupant], number: int) -> View:
    """The extents that overlap a part of a zone."""
    granule = session.inspect.engine.arena.zones[zone].list.granule
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


def _sums(rows: Iterable[Occupant]) -> Counter[str]:
    """Bytes of each state, and of padding."""
    sums: Counter[str] = Counter()
    for occupant in rows:
        sums[occupant.state] += occupant.size - occupant.padding
        sums["padding"] += occupant.padding
    return sums


def _account(session: Session, found: dict[str, list[Occupant]]) -> View:
    """Bytes by state and zone; every column adds up to the zone's capacity."""
    every = session.inspect.engine.arena.zones
    zones, sums = [every[name] for name in found], [_sums(rows) for rows in found.values()]
    used = [s for s in (*STATES, "padding") if s == "live" or any(held[s] for held in sums)]
    lines = {state: [held[state] for held in sums] for state in used if state != "free"}
    lines["free, poisoned"] = [held["free"] for held in sums]
    lines["= up to high water"] = [zone.high - zone.start for zone in zones]
    lines["never used"] = [zone.stop - zone.high for zone in zones]
    lines["= capacity"] = [zone.stop - zone.start for zone in zones]
    columns = ["", *(f"#{name}" for name in found)]
    if len(found) > 1:
        columns.append("#all")
        lines = {words: [*sizes, sum(sizes)] for words, sizes in lines.items()}
    note = "; ".join(f"{state}: {STATES[state]}" for state in used if state in STATES)
    rows = [(words, *(f"{size:,}" for size in sizes)) for words, sizes in lines.items()]
    return table("Arena (bytes)", columns, rows, note)


def _places(session: Session, found: dict[str, list[Occupant]]) -> View:
    zones = session.inspect.engine.arena.zones
    rows = []
    for name, held in found.items():
        zone, free = zones[name], [t.size for t in held if t.state == "free"]
        where = f"{zone.start:#x}", f"{zone.high:#x}"
        largest = f"{max(free, default=0):,}"
        rows.append((name, *where, len(zone.list.live), len(free), largest))
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
        (f"{t.start:#x}", f"{t.size - t.padding:,}", t.padding or "", t.state, t.cell or "",
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
            *(f"{part.states[s]:,}" for s in states),
            len(part.cells) or "",
            f"{min(part.cells)} to {max(part.cells)}" if part.cells else "",
        )
        for number, part in enumerate(row, 1)
    ]
    title = f"{name}: {len(row)} parts of {row[0].size:,} bytes, padding included"
    return table(title, ("#part", "address", *(f"#{s}" for s in states), "#cells", "cells"), listed)


def _names(session: Session, number: int) -> str:
    cell = session.inspect.program.cells.get(number)
    if cell is None:
        return ""
    return cut_list([session.inspect.program.called(n) for n in cell.names], 4, " ")


def _content(rows: Sequence[Occupant]) -> str:
    holes = sum(t.state == "free" for t in rows)
    return f"{counted(len(rows) - holes, 'extent')}, {counted(holes, 'hole')}"


class Part(NamedTuple):
    """Bytes `[start, start + size)`: how many are of each state, and the cells that have some."""

    start: int
    size: int
    states: Counter[str]
    cells: set[int]


def parts(occupants: Sequence[Occupant], granule: int) -> list[Part]:
    """At most `PARTS` parts of equal size, a multiple of the granule; the last may be shorter.

    The states of a part add up to its size.
    """
    if not occupants:
        return []
    low, high = occupants[0].start, occupants[-1].stop
    size = -(-(high - low) // PARTS)
    size += -size % granule
    found = [Part(at, min(size, high - at), Counter(), set()) for at in range(low, high, size)]
    for occupant in occupants:
        for part in found[(occupant.start - low) // size : -(-(occupant.stop - low) // size)]:
            inside = min(occupant.stop, part.start + size) - max(occupant.start, part.start)
            part.states[occupant.state] += inside
            if occupant.cell:
                part.cells.add(occupant.cell)
    return found


def letter(part: Part) -> str:
    """The state most of a part is in; a small letter where some of it is free."""
    used = {state: size for state, size in part.states.items() if state != "free"}
    if not used:
        return LETTERS["free"]
    most = LETTERS[max(used, key=lambda state: used[state])]
    return most.lower() if "free" in part.states else most


def level(part: Part) -> str:
    """A block as tall as what is used of a part."""
    return " ▁▂▃▄▅▆▇█"[-(-8 * (part.size - part.states["free"]) // part.size)]


def _picture(
    found: Mapping[str, Sequence[Occupant]],
    drawn: Mapping[str, Sequence[Occupant] | Sequence[Part]],
) -> str:
    """HTML of the map: what was found in each zone, drawn one by one or in parts."""
    every = [occupant for rows in found.values() for occupant in rows]
    sums = _sums(every)
    shown = [state for state in STATES if sums[state]]
    cells = {occupant.cell for occupant in every if occupant.cell}
    held = ", ".join(f"{sums[s]:,} bytes {s}" for s in (*shown, "padding") if sums[s])
    alt = f"Map of the arena: {counted(len(found), 'zone')}, {counted(len(cells), 'cell')}"
    alt += f"; {held}." if held else "."
    height = TOP + ROW * len(drawn) + LINE * (len(shown) + 1) + 8
    out: list[str] = []
    for index, (name, pieces) in enumerate(drawn.items()):
        y = TOP + index * ROW
        out.append(label(8, y + STRIP / 2 + 4, name, weight="bold"))
        if not pieces:
            out.append(label(LEFT, y + STRIP / 2 + 4, "nothing was ever placed here"))
            continue
        low, last = pieces[0].start, pieces[-1]
        high = last.start + last.size
        scale = (WIDTH - LEFT - RIGHT) / (high - low)
        for piece in pieces:
            x, width = LEFT + (piece.start - low) * scale, piece.size * scale
            out.append(
                _extent(piece, x, y, width)
                if isinstance(piece, Occupant)
                else _stack(piece, x, y, width)
            )
        out.append(rectangle(LEFT, y, WIDTH - LEFT - RIGHT, STRIP, "none", line=INK))
        out.append(_scale(low, high, y + STRIP))
    out += _legend(shown, sums, TOP + ROW * len(drawn) + 6)
    return image(out, WIDTH, height, alt, [FILLS[state] for state in shown])


def _extent(occupant: Occupant, x: float, y: float, width: float) -> str:
    """One extent, with its cell's number where there is room."""
    words = f"cell {occupant.cell}" if occupant.cell else occupant.name or occupant.state
    box = rectangle(
        x, y, width, STRIP, FILLS[occupant.state],
        f"{words}, {occupant.state}: {occupant.size} bytes at {occupant.start:#x}", INK,
    )  # fmt: skip
    for text in (words, str(occupant.cell) if occupant.cell else LETTERS[occupant.state]):
        room = len(text) * LETTER + 4
        if room + 2 <= width:
            middle = x + width / 2
            chip = rectangle(
                middle - room / 2, y + STRIP / 2 - 8, room, 15, FILLS[occupant.state].colour
            )
            return box + chip + label(middle, y + STRIP / 2 + 4, text, "middle")
    return box


def _stack(part: Part, x: float, y: float, width: float) -> str:
    """A part, filled from the bottom; what is free stays on top."""
    out, bottom = [], y + STRIP
    for state in STATES:
        if size := part.states[state]:
            tall = STRIP * size / part.size
            bottom -= tall
            out.append(rectangle(x, bottom, width, tall, FILLS[state], f"{state}: {size} bytes"))
    return "".join(out)


def _scale(low: int, high: int, y: float) -> str:
    """Addresses at both ends, and how far it is at the quarters."""
    out = []
    for quarter in range(5):
        x = LEFT + (WIDTH - LEFT - RIGHT) * quarter / 4
        out.append(f'<path d="M{x:.1f},{y} v5" stroke="{INK}"/>')
        anchor = "start" if quarter == 0 else "end" if quarter == 4 else "middle"
        far = (high - low) * quarter // 4
        words = f"{low:#x}" if quarter == 0 else f"+{size_text(far)}"
        out.append(label(x, y + 17, words, anchor))
    out.append(label(WIDTH - RIGHT, y + 29, f"{high:#x}", "end"))
    return "".join(out)


def _legend(shown: Sequence[str], sums: Mapping[str, int], y: float) -> list[str]:
    out = []
    for index, state in enumerate(shown):
        at = y + index * LINE
        words = f"{LETTERS[state]} {state}, {sums[state]:,} bytes: {STATES[state]}"
        out.append(rectangle(8, at, 22, 13, FILLS[state], line=INK))
        out.append(label(36, at + 11, words))
    words = f"{sums['padding']:,} bytes of padding, drawn with what they round up"
    out.append(label(36, y + len(shown) * LINE + 11, words))
    return out
