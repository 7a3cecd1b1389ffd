"""What a pass or an analysis written in Python came to, as a display: `effect_view`,
`analysis_view`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitkernel.ir.printed import counts_of, matching, parts
from jitkernel.views.room import Room
from jitkernel.views.sides import Piece, sides
from jitkernel.views.view import View, folding, join, listing, paragraph, table, time_text
from jitkernel.views.watched import STEP_COLUMNS, changed_steps

if TYPE_CHECKING:
    from jitkernel.compiler.pass_trace import PassTrace
    from jitkernel.transform import Analysis, Effect

_LINES = 400
_ROWS = 1000


def effect_view(effect: Effect) -> View:
    """One pass, as `transform.apply_pass` tells of it."""
    made = effect.made
    pieces = changed_parts(made.before, made.after)
    gone, new = (sum(piece.counts[k] for piece in pieces) for k in (0, 1))
    where = "after LLVM's passes" if effect.last else "before LLVM's passes"
    head = (
        f"pass {effect.name} on cell {effect.cell}, {where}: -{gone} +{new} lines, "
        f"{time_text(made.nanoseconds)}"
    )
    where = f" in {pieces[0].name}" if len(pieces) == 1 and pieces[0].name else ""
    shown = sides(pieces, Room(lines=_LINES)) if pieces else paragraph("It changed nothing.")
    views = [paragraph(head), folding(f"What it changed{where}", shown, is_open=True)]
    if made.output:
        views.append(listing("It printed:", made.output.rstrip("\n")))
    verdict = "verified, the module is well formed."
    if effect.complaint:
        verdict = f"LLVM refuses the module. {effect.complaint.splitlines()[0]}"
    views.append(paragraph(f"Verdict: {verdict}"))
    if effect.figures:
        rows = [
            (
                f.what,
                _shown(f.before, f.unit),
                _shown(f.after, f.unit),
                "a call" if f.unit == "ns" else f.unit,
            )
            for f in effect.figures
        ]
        views.append(table("Before and after", ("what", "#before", "#after", "in"), rows))
    if effect.trace is not None:
        views.append(_pipeline(effect, effect.trace, (gone, new)))
    if effect.kept:
        views.append(
            paragraph(f"The new code is cell {effect.kept} now; %undo brings the old back.")
        )
    return join(views)


def analysis_view(analysis: Analysis) -> View:
    """One analysis, as `transform.analyse` tells of it."""
    found = analysis.found
    where = "after LLVM's passes" if analysis.last else "before LLVM's passes"
    head = (
        f"analysis {analysis.name} of cell {analysis.cell}, {where}: {time_text(found.nanoseconds)}"
    )
    views = [paragraph(head)]
    if found.rows:
        names = list(dict.fromkeys(name for row in found.rows for name in row))
        rows = [[row.get(name) for name in names] for row in found.rows[:_ROWS]]
        numbers = [all(isinstance(row[n], (int, float)) for row in rows) for n in range(len(names))]
        columns = [f"{'#' * number}{name}" for name, number in zip(names, numbers, strict=True)]
        more = len(found.rows) - _ROWS
        views.append(table("", columns, rows, f"… {more} more rows" if more > 0 else ""))
    if found.text:
        views.append(listing("", found.text, Room(lines=_ROWS)))
    if found.html:
        views.append(View("(what it gave is shown as HTML)", found.html))
    if found.output:
        views.append(listing("It printed:", found.output.rstrip("\n")))
    if len(views) == 1:
        views.append(paragraph("It gave nothing: an analysis returns or yields text, or rows."))
    return join(views)


def changed_parts(before: str, after: str) -> list[Piece]:
    """The functions and the rest of a module that differ, to the letter."""
    old, new = parts(before, typed=True), parts(after, typed=True)
    texts = ((n, old.get(n, "").splitlines(), new.get(n, "").splitlines()) for n in old | new)
    return [Piece(name, a, b, matching(a, b)) for name, a, b in texts if a != b]


def _shown(value: float | str, unit: str) -> str:
    if isinstance(value, str):
        return value
    return time_text(value) if unit == "ns" else str(value)


def _pipeline(effect: Effect, trace: PassTrace, changed: tuple[int, int]) -> View:
    """The pass among LLVM's own that changed something."""
    text = effect.made.after
    own = (
        effect.name, "module", *changed, *counts_of(text), time_text(effect.made.nanoseconds)
    )  # fmt: skip
    rows = [step.row[1:] for step in changed_steps(trace)]
    rows = [*rows, own] if effect.last else [own, *rows]
    return table("The pipeline with it", STEP_COLUMNS, [(n, *r) for n, r in enumerate(rows, 1)])
