"""The arena's map: zones cut into equal parts, in letters and as a picture with a legend.

A zone with few extents shows each of them; one with many shows equal parts, each filled from the
bottom by what is in it.  Start from `parts` and `draw`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from jitkernel.session.report.memory import STATES, Occupant
from jitkernel.views.svg import INK, LETTER, SHEET, Fill, image, label, rectangle
from jitkernel.views.view import size_text

__all__ = ["FILLS", "LETTERS", "PARTS", "Part", "draw", "letter", "level", "parts"]

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


class Part(NamedTuple):
    """Bytes `[start, start + size)`: how many are of each state, and the cells that have some."""

    start: int
    size: int
    states: dict[str, int]
    cells: tuple[int, ...]


def parts(occupants: Sequence[Occupant], granule: int) -> list[Part]:
    """At most `PARTS` parts of equal size, a multiple of the granule; the last may be shorter.

    The states of a part add up to its size.
    """
    if not occupants:
        return []
    low, high = occupants[0].start, occupants[-1].stop
    size = -(-(high - low) // PARTS)
    size += -size % granule
    count = -(-(high - low) // size)
    states: list[dict[str, int]] = [{} for _ in range(count)]
    cells: list[set[int]] = [set() for _ in range(count)]
    for occupant in occupants:
        at = occupant.start
        while at < occupant.stop:
            index = (at - low) // size
            stop = min(occupant.stop, low + (index + 1) * size)
            held = states[index]
            held[occupant.state] = held.get(occupant.state, 0) + stop - at
            if occupant.cell:
                cells[index].add(occupant.cell)
            at = stop
    return [
        Part(low + i * size, min(size, high - low - i * size), states[i], tuple(sorted(cells[i])))
        for i in range(count)
    ]


def letter(part: Part) -> str:
    """The state most of a part is in; a small letter where some of it is free."""
    used = {state: size for state, size in part.states.items() if state != "free"}
    if not used:
        return LETTERS["free"]
    most = LETTERS[max(used, key=lambda state: used[state])]
    return most.lower() if "free" in part.states else most


def level(part: Part) -> str:
    """A block as tall as what is used of a part."""
    free = part.states.get("free", 0)
    return " ▁▂▃▄▅▆▇█"[-(-8 * (part.size - free) // part.size)]


def draw(
    zones: Mapping[str, Sequence[Occupant] | Sequence[Part]], sums: Mapping[str, int], alt: str
) -> str:
    """HTML of the map.  `sums` are the bytes of each state and of padding."""
    shown = [state for state in STATES if sums.get(state)]
    height = TOP + ROW * len(zones) + LINE * (len(shown) + 1) + 8
    out: list[str] = []
    for index, (name, pieces) in enumerate(zones.items()):
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
    out += _legend(shown, sums, TOP + ROW * len(zones) + 6)
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
        size = part.states.get(state, 0)
        if size:
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
