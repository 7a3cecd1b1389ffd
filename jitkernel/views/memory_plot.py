"""Memory over time as a picture, a table and lines of blocks.  Start from `plot`."""

from __future__ import annotations

from collections.abc import Sequence

from jitkernel.session.report.memory import Sample
from jitkernel.views.svg import FAINT, INK, Fill, image, label, rectangle
from jitkernel.views.view import View, size_text, sparkline, table
from jitkernel.wording import counted

__all__ = ["plot"]

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 740, 84, 150, 8, 26
TALL, GAP, LOW = 150, 24, 60  # the processes, and beneath them the slab
HEIGHT = TOP + TALL + GAP + LOW + BOTTOM

#: From the bottom to the top of the picture.
FILLS = {
    "slab": Fill("slab", "#56b4e9", "M-2,2 L2,-2 M0,8 L8,0 M6,10 L10,6"),
    "kernel": Fill("kernel", "#f0e442"),
    "executor": Fill("executor", "#d98fb8", "M0,2 H8 M0,6 H8"),
    "workers": Fill("workers", "#d4d4d4", "M2,2 h1 M6,6 h1"),
}


def plot(samples: Sequence[Sample], short: bool = False) -> View:
    """What the session held when its cells ended; `short` leaves all but the sum out of the text.

    The pages of files are not in it.
    """
    if not samples:
        return View("Memory over time: nothing has run yet.")
    total = [s.total for s in samples]
    most = max(samples, key=lambda s: s.total)
    rows = []
    for name in (*FILLS, "total"):
        values = [getattr(s, name) for s in samples]
        shown = (*map(size_text, (values[0], min(values), max(values))), f"{values[-1]:,}")
        rows.append((name, sparkline(values, 32), *shown))
    first, last = samples[0], samples[-1]
    taken = counted(len(samples), "sample")
    span = f"cell {first.cell} to {last.cell}" if last.cell > first.cell else f"cell {last.cell}"
    note = f"{taken}, {span}; most with cell {most.cell}; without the pages of files"
    columns = ("memory over time", "", "#at first", "#least", "#most", "#bytes now")
    lines = table("", columns, rows[-1:] if short else rows, note).text
    numbers = table(
        "", columns[:1] + columns[2:], [(name, *shown) for name, _, *shown in rows], note
    ).html
    every = table(
        f"Memory over time (bytes): {taken}",
        ("#cell", "#after", *(f"#{name}" for name in FILLS), "#total"),
        [
            (s.cell, f"{s.seconds:.1f} s", *(f"{getattr(s, n):,}" for n in FILLS), f"{s.total:,}")
            for s in samples
        ],
    )
    alt = (
        f"Memory over time, {span}: {size_text(total[0])} at first, {size_text(total[-1])} now, "
        f"at most {size_text(most.total)} with cell {most.cell}."
    )
    details = f"<details><summary>{taken}</summary>{every.html}</details>"
    return View(lines, _picture(samples, alt) + numbers + details)


def _picture(samples: Sequence[Sample], alt: str) -> str:
    """Areas one on the other, sample by sample from left to right: the processes', and beneath
    them the slab's, which would be a line on their scale."""
    if len(samples) == 1:
        samples = [*samples, *samples]
    out = [
        *_areas(samples, [name for name in FILLS if name != "slab"], TOP, TALL),
        *_areas(samples, ["slab"], TOP + TALL + GAP, LOW),
    ]
    seen: set[float] = set()
    for index in sorted({0, len(samples) // 4, len(samples) // 2, 3 * len(samples) // 4,
                         len(samples) - 1}):  # fmt: skip
        place = round(_x(index, samples), 0)
        if all(abs(place - other) > 60 for other in seen):
            seen.add(place)
            out.append(f'<path d="M{place:.0f},{HEIGHT - BOTTOM} v5" stroke="{INK}"/>')
            out.append(label(place, HEIGHT - BOTTOM + 17, f"cell {samples[index].cell}", "middle"))
    return image(out, WIDTH, HEIGHT, alt, FILLS.values())


def _x(index: int, samples: Sequence[Sample]) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * index / (len(samples) - 1)


def _areas(samples: Sequence[Sample], names: Sequence[str], high: float, tall: float) -> list[str]:
    """Areas on a scale of their own, from `high` downwards, with the names on the right."""
    top = _round(max(sum(getattr(s, name) for name in names) for s in samples))

    def y(size: int) -> float:
        return high + tall * (1 - size / top)

    out = []
    steps = 4 if tall >= 4 * 18 else 2
    for step in range(steps + 1):
        size = top * step // steps
        out.append(f'<path d="M{LEFT - 4},{y(size):.1f} H{WIDTH - RIGHT}" stroke="{FAINT}"/>')
        out.append(label(LEFT - 8, y(size) + 4, size_text(size), "end"))
    below = [0] * len(samples)
    for index, name in enumerate(names):
        fill = FILLS[name]
        above = [b + getattr(s, name) for b, s in zip(below, samples, strict=True)]
        edge = [f"{_x(i, samples):.1f},{y(v):.1f}" for i, v in enumerate(above)]
        back = [f"{_x(i, samples):.1f},{y(v):.1f}" for i, v in reversed(list(enumerate(below)))]
        out.append(
            f'<polygon points="{" ".join([*edge, *back])}" fill="{fill.paint}" stroke="{INK}"'
            ' stroke-width="0.7"/>'
        )
        at = high + (len(names) - 1 - index) * 32
        out.append(rectangle(WIDTH - RIGHT + 14, at, 22, 13, fill, line=INK))
        out.append(label(WIDTH - RIGHT + 42, at + 11, name))
        out.append(label(WIDTH - RIGHT + 42, at + 24, size_text(getattr(samples[-1], name))))
        below = above
    return out


def _round(size: int) -> int:
    """The next round number of bytes, for the top of a scale."""
    unit = 1
    while unit * 10 <= size:
        unit *= 2
    return -(-size // unit) * unit or 4
