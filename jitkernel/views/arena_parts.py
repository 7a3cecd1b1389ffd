"""A zone of the arena cut into equal parts, with what each part holds.  Start from `parts`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jitkernel.session.tenants import Tenant

__all__ = ["LETTERS", "PARTS", "Part", "letter", "level", "parts"]

PARTS = 64  # at most, a zone
#: By state, for maps made of letters: a capital where all of a part is used.
LETTERS = {
    "live": "L", "superseded": "S", "hibernated": "H", "entry": "E", "thunk": "T", "undo": "U",
    "retained": "R", "free": ".",
}  # fmt: skip


class Part(NamedTuple):
    """Bytes `[start, start + size)`: how many are of each state, and the cells that have some."""

    start: int
    size: int
    states: dict[str, int]
    cells: tuple[int, ...]


def parts(tenants: Sequence[Tenant], granule: int) -> list[Part]:
    """At most `PARTS` parts of equal size, a multiple of the granule; the last may be shorter.

    The states of a part add up to its size.
    """
    if not tenants:
        return []
    low, high = tenants[0].start, tenants[-1].stop
    size = -(-(high - low) // PARTS)
    size += -size % granule
    count = -(-(high - low) // size)
    states: list[dict[str, int]] = [{} for _ in range(count)]
    cells: list[set[int]] = [set() for _ in range(count)]
    for tenant in tenants:
        at = tenant.start
        while at < tenant.stop:
            index = (at - low) // size
            stop = min(tenant.stop, low + (index + 1) * size)
            held = states[index]
            held[tenant.state] = held.get(tenant.state, 0) + stop - at
            if tenant.cell:
                cells[index].add(tenant.cell)
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
