"""How long each step of a cell took, from its text to its last statement: `timeline`.

Measured while the cell was made, not again; of an object that comes from the object cache, while
that was made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.views.svg import INK, Fill, image, label, rectangle
from jitkernel.views.view import View, table, time_text

if TYPE_CHECKING:
    from jitkernel.session import Session

__all__ = ["STEPS", "timeline"]

#: The steps in order, each with what happens in it.
STEPS = {
    "parse": "LLVM reads the text",
    "verify": "LLVM checks the module",
    "optimise": "the passes run",
    "emit": "instructions are selected and become an object",
    "link": "the object is placed and its symbols are resolved",
    "run": "the cell's statements",
}
_BARS = (Fill("made", "#0072b2"), Fill("run", "#d55e00", "M-2,2 L2,-2 M0,8 L8,0 M6,10 L10,6"))


def timeline(session: Session, target: int | str | None = None, picture: bool = True) -> View:
    """The time of each step of a cell, as a table and as a picture in which they follow each
    other.  Raises UsageError where nothing was measured.

    `picture` false leaves the picture out, where displays must not depend on times.
    """
    cell, _ = session.inspect.cell_of(target)
    times = [*cell.times, cell.ran] if cell.times else []
    if not any(times):
        raise UsageError(f"no times are known of cell {cell.number}: it was not compiled here")
    rows, begin = [], 0
    for (step, what), spent in zip(STEPS.items(), times, strict=True):
        rows.append((step, time_text(begin), time_text(spent), what))
        begin += spent
    rows.append(("total", "", time_text(begin), ""))
    notes = []
    if cell.cached:
        notes.append(
            "Parse, verify, optimise and emit took place earlier, and so long; this time the "
            "object came from the object cache. %%llvm --fresh compiles it anew."
        )
    elif not any(times[:4]):
        notes.append("Its object was brought along (%link): it was not compiled here.")
    if not cell.ran:
        notes.append("It has no statements: nothing ran.")
    title = f"Timeline of cell {cell.number}"
    view = table(title, ("step", "#begins at", "#takes", "what"), rows, " ".join(notes))
    if not picture:
        return view
    longest = max(range(len(times)), key=times.__getitem__)
    alt = (
        f"{title}: {time_text(begin)} in all, the longest step is {list(STEPS)[longest]} "
        f"with {time_text(times[longest])}."
    )
    return View(f"{view.text}\n\n{_strip(times)}", _picture(times, alt) + view.html)


def _strip(times: Sequence[int], width: int = 60) -> str:
    """The bars in letters, one line a step."""
    total, begin = max(sum(times), 1), 0
    lines = []
    for step, spent in zip(STEPS, times, strict=True):
        left = begin * width // total
        length = max(round(spent * width / total), 1) if spent else 0
        lines.append(
            f"{step:<8} |{' ' * min(left, width - 1)}{'#' * length}".ljust(width + 10) + "|"
        )
        begin += spent
    return "\n".join(lines)


def _picture(times: Sequence[int], alt: str) -> str:
    """Bars that follow each other."""
    left, wide, room, high = 70, 440, 80, 24
    out = []
    total, begin = max(sum(times), 1), 0
    for line, (step, spent) in enumerate(zip(STEPS, times, strict=True)):
        x, y = left + begin * wide / total, line * high
        width = max(spent * wide / total, 1.5 if spent else 0)
        out.append(label(4, y + 13, step))
        out.append(rectangle(x, y, width, 16, _BARS[step == "run"], line=INK))
        out.append(label(x + width + 6, y + 13, time_text(spent)))
        begin += spent
    return image(out, left + wide + room, high * len(times) - 8, alt, _BARS)
