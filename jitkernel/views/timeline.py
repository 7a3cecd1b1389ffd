"""How long each step of a cell took, from its text to its last statement: `timeline`.

Measured while the cell was made, not again; of an object that comes from the object cache, while
that was made.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.views.target import find
from jitkernel.views.view import View, escape, table

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
_INK, _PAPER = "#1a1a1a", "#ffffff"
_BARS = ("#0072b2", "#d55e00")  # Okabe-Ito; what is compiled, and what runs


def timeline(session: Session, target: int | str | None = None, picture: bool = True) -> View:
    """Microseconds of each step of a cell, as a table and as a picture in which they follow each
    other.  Raises UsageError where nothing was measured.

    `picture` false leaves the picture out, where displays must not depend on times.
    """
    cell, _ = find(session, target)
    times = [*cell.times, cell.ran] if cell.times else []
    if not any(times):
        raise UsageError(f"no times are known of cell {cell.number}: it was not compiled here")
    rows, begin = [], 0
    for (step, what), spent in zip(STEPS.items(), times, strict=True):
        rows.append((step, _micro(begin), _micro(spent), what))
        begin += spent
    rows.append(("total", "", _micro(begin), ""))
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
        f"{title}: {_micro(begin)} in all, the longest step is {list(STEPS)[longest]} "
        f"with {_micro(times[longest])}."
    )
    return View(f"{view.text}\n\n{_strip(times)}", _picture(times, alt) + view.html)


def _micro(nanoseconds: int) -> str:
    return f"{nanoseconds / 1000:.1f} us"


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
    """Bars that follow each other; an opaque card, readable on any page."""
    left, wide, label, high = 78, 440, 110, 24
    full = left + wide + label
    height = high * len(times) + 12
    words = f'font-family="monospace" font-size="12" fill="{_INK}"'
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{full}" height="{height}"'
        f' viewBox="0 0 {full} {height}"><rect width="{full}" height="{height}" fill="{_PAPER}"/>'
    ]
    total, begin = max(sum(times), 1), 0
    for line, (step, spent) in enumerate(zip(STEPS, times, strict=True)):
        x, y = left + begin * wide / total, 8 + line * high
        width = max(spent * wide / total, 1.5 if spent else 0)
        fill = _BARS[step == "run"]
        out.append(
            f'<text x="8" y="{y + 13}" {words}>{step}</text>'
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="16" fill="{fill}"/>'
            f'<text x="{x + width + 5:.1f}" y="{y + 13}" {words}>{_micro(spent)}</text>'
        )
        begin += spent
    out.append("</svg>")
    data = base64.b64encode("".join(out).encode()).decode()
    return f'<p><img src="data:image/svg+xml;base64,{data}" alt="{escape(alt)}"></p>'
