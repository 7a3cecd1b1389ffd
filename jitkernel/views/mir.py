"""A cell's machine IR after instruction selection, after register allocation and final, with its
spills.  Start from `mir`.

The cell is compiled again, watched, from the same text with the same options; the object that
comes out is compared with the cell's, and the view says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from jitkernel.compiler.machine_ir import LEFT_OUT, STAGES, Stage
from jitkernel.errors import UsageError
from jitkernel.views.here import Here
from jitkernel.views.room import Room, size_of
from jitkernel.views.view import View, fold, folding, join, paragraph, preformatted, table
from jitkernel.views.watched import Watched, shown_in_part, watched

if TYPE_CHECKING:
    from jitkernel.compiler.machine_ir import MachineTrace
    from jitkernel.session import Session

_STAGE_LINES = 250  # of a stage, where all are shown
# Dark on amber: it catches the eye on a white page and does not glare on a black one.
_MARK = "color:#1a1a1a;background:#d9a94a"


def mir(
    session: Session,
    target: int | str | None = None,
    stage: str = "",
    tick: Callable[[str], None] | None = None,
    room: Room | None = None,
) -> View:
    """The machine IR of a function, or of every function of a cell.

    `stage` is `isel`, `regalloc` or `final`; without it all three.  Stores to and loads from stack
    slots that register allocation made are marked.  `tick` is told twice a second how far LLVM
    is.  While the program stands: of the code that runs, `=>` marking where the frame that is
    looked at goes on, `->` where others do.  Raises UsageError; an interruption has a `view` of the
    functions until then, if there were any.
    """
    if stage and stage not in STAGES:
        raise UsageError(f"there is no stage {stage!r}; there are {', '.join(STAGES)}")
    made, room = watched(session, target, tick, standing=True), room or Room()

    def until_then(part: MachineTrace) -> View:
        vars(made)["emitted"] = part
        return _functions(made, stage, f"Stopped at {part.stopped}.", room)

    with shown_in_part(session, until_then):
        found = made.machine
    if not found:
        what = f"{made.called} has no machine IR"
        raise UsageError(f"{what}: no function of it reached code generation")
    return _functions(made, stage, made.note, room)


def _functions(made: Watched, stage: str, note: str, room: Room) -> View:
    views = []
    for at, (name, found) in enumerate(made.machine.items()):
        if room.full and at:
            views.append(paragraph(*room.said(len(made.machine) - at, "function")))
            break
        views.append(_function(made, name, found, stage, room))
    return join([*views, paragraph(f"{LEFT_OUT} {note}")], room)


def _function(made: Watched, name: str, found: Sequence[Stage], only: str, room: Room) -> View:
    called = made.session.inspect.program.called(name, made.cell)
    here = Here.of(made.session, name, made.cell)
    rows = [
        (s.name, s.step, s.instructions, s.virtual or "", s.spills or "", s.reloads or "",
         s.frame or "")
        for s in found
    ]  # fmt: skip
    columns = (
        "stage", "last pass", "#instructions", "#virtual registers", "#spills", "#reloads",
        "#stack bytes",
    )  # fmt: skip
    head = f"Machine IR of {called}, cell {made.cell}" + ", as it is debugged" * made.debugged
    views = [table(head, columns, rows, spill_note(found))]
    room.take([size_of(views[0].html)])
    for stage in found:
        if only in ("", stage.name):
            title = f"{called}, {STAGES[stage.name]} ({stage.step})"
            is_open = bool(only) or stage.name == ("regalloc" if here is None else "final")
            places = here.marked(stage) if here is not None else {}
            part = Room(f"%mir {called} --{stage.name}", room.endless, lines=_STAGE_LINES)
            shown = marked(stage, room if only else part, places)
            views.append(folding(title, shown, is_open))
            if not only:
                room.take([size_of(views[-1].html)])
    return join(views, room)


def spill_note(found: Sequence[Stage]) -> str:
    """The values that register allocation had to put on the stack, in words."""
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


def marked(stage: Stage, room: Room, places: Mapping[int, str] | None = None) -> View:
    """The lines with a column that names spills and reloads, and one with the marks of `places`,
    which are numbers of lines, where there are any; as far as there is room."""
    lines, marks = stage.lines, list(stage.marks)
    if places:
        width = max(map(len, marks), default=0) + 1
        marks = [f"{places.get(n, ''):<3}{mark:<{width}}".rstrip() for n, mark in enumerate(marks)]
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
    count = room.take(map(size_of, shown))
    cut = room.said(len(shown) - count)
    plain, shown = [[*texts[:count], *cut] for texts in (plain, shown)]
    return View("\n".join(plain), preformatted("\n".join(shown)))
