"""Numbers over time as one line of blocks: `▁▃▇█`.  Start from `sparkline`."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["sparkline"]

_BLOCKS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int = 40, floor: float | None = None) -> str:
    """At most `width` blocks, the lowest for `floor` (by default the least value), the full one
    for the greatest.  Where there are more values than blocks, a block shows the greatest of its
    values; what is no number (NaN, infinite) shows as a space."""
    finite = [v for v in values if v - v == 0]
    if not finite:
        return " " * min(len(values), width)
    low = min(finite) if floor is None else floor
    span = max(finite) - low
    count = min(len(values), width)
    line = []
    for index in range(count):
        piece = values[index * len(values) // count : (index + 1) * len(values) // count]
        known = [v for v in piece if v - v == 0]
        if not known:
            line.append(" ")
        elif span <= 0:
            line.append(_BLOCKS[0])
        else:
            line.append(_BLOCKS[min(7, int(8 * ((max(known) - low) / span)))])
    return "".join(line)
