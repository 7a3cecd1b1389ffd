"""Machine IR of a function: after instruction selection, after register allocation, final: `mir`.

The cell is compiled again, watched; see `views.passes`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from jitkernel.compiler.machine_ir import LEFT_OUT, STAGES, Stage, stages
from jitkernel.compiler.pass_trace import PassTrace
from jitkernel.errors import UsageError
from jitkernel.ir.names import written
from jitkernel.views.passes import object_note, trace_of
from jitkernel.views.view import (
    View,
    escape,
    fold,
    folding,
    join,
    paragraph,
    preformatted,
    table,
)

if TYPE_CHECKING:
    from jitkernel.session import Session

__all__ = ["functions_of", "marked", "mir", "spill_note"]

# Dark on amber: it catches the eye on a white page and does not glare on a black one.
_MARK = "color:#1a1a1a;background:#d9a94a"
_LINES = 400  # of a stage, where all are shown


def mir(
    session: Session,
    target: int | str | None = None,
    stage: str = "",
    tick: Callable[[], None] | None = None,
) -> View:
    """The machine IR of a function, or of every function of a cell.

    `stage` is `isel`, `regalloc` or `final`; without it all three.  Stores to and loads from stack
    slots that register allocation made are marked.  `tick` is called twice a second while LLVM
    works.  Raises UsageError.
    """
    if stage and stage not in STAGES:
        raise UsageError(f"there is no stage {stage!r}; there are {', '.join(STAGES)}")
    number, symbol, trace = trace_of(session, target, tick)
    functions = functions_of(trace, symbol)
    if not functions:
        what = written(symbol) if symbol else f"cell {number}"
        raise UsageError(f"{what} has no machine IR: no function of it reached code generation")
    note = f"{LEFT_OUT} {object_note(session, number, trace)}"
    views = [_function(name, number, found, stage) for name, found in functions.items()]
    return join([*views, paragraph(note)])


def functions_of(trace: PassTrace, symbol: str = "") -> dict[str, list[Stage]]:
    """The stages of each function that reached code generation, or of one."""
    names = dict.fromkeys(step.unit for step in trace.machine)
    return {
        name: stages([s for s in trace.machine if s.unit == name])
        for name in names
        if not symbol or name == symbol
    }


def _function(name: str, number: int, found: Sequence[Stage], only: str) -> View:
    rows = [
        (s.name, s.step, s.instructions, s.virtual or "", s.spills or "", s.reloads or "",
         s.frame or "")
        for s in found
    ]  # fmt: skip
    columns = (
        "stage", "last pass", "#instructions", "#virtual registers", "#spills", "#reloads",
        "#stack bytes",
    )  # fmt: skip
    head = f"Machine IR of {written(name)}, cell {number}"
    views = [table(head, columns, rows, spill_note(found))]
    for stage in found:
        if only in ("", stage.name):
            title = f"{written(name)}, {STAGES[stage.name]} ({stage.step})"
            is_open = bool(only) or stage.name == "regalloc"
            views.append(folding(title, marked(stage, 0 if only else _LINES), is_open))
    return join(views)


def spill_note(found: Sequence[Stage]) -> str:
    """What register allocation had to put on the stack, in words."""
    after = next((s for s in found if s.name == "regalloc"), None)
    if after is None:
        return ""
    if not after.slots:
        return "No spills: every value has a register for as long as it is needed."
    size = sum(after.slots.values())
    return (
        f"{after.spills} spills (stores) and {after.reloads} reloads through {len(after.slots)} "
        f"stack slots of {size} bytes: more values are needed at once than there are registers, "
        "or one must outlive a call."
    )


def marked(stage: Stage, limit: int = 0) -> View:
    """The lines with a column that names spills and reloads."""
    lines, marks = stage.lines, stage.marks
    left = len(lines) - limit if limit else 0
    if left > 0:
        lines, marks = lines[:limit], marks[:limit]
    wide = max(map(len, marks), default=0)
    pad = f"{{:<{wide}}} " if wide else ""
    plain = [
        fold([f"{pad.format(m) if wide else ''}{line}".rstrip()], wide + 8)
        for m, line in zip(marks, lines, strict=True)
    ]
    shown = [
        f'<mark style="{_MARK}">{escape(line)}</mark>' if m else escape(line)
        for m, line in zip(marks, plain, strict=True)
    ]
    if left > 0:
        more = f"… {left} more lines; %mir --{stage.name} shows all"
        plain.append(more)
        shown.append(more)
    return View("\n".join(plain), preformatted("\n".join(shown)))
