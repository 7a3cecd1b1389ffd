"""What can be taken back, and what a collection found.  Start from `undo` and `garbage`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitkernel.ir.names import written
from jitkernel.views.view import View, paragraph, size_text, table
from jitkernel.wording import counted, cut_list

if TYPE_CHECKING:
    from jitkernel.session import Session
    from jitkernel.session.residency.garbage import Garbage

__all__ = ["garbage", "undo"]


def undo(session: Session) -> View:
    """The runs and evictions that `%undo` takes back, the latest first."""
    rows = [
        (
            number,
            step.cell or "",
            step.title.removeprefix(f"cell {step.cell}: "),
            cut_list([written(n) for n in step.names], 4),
            step.old_data or "",
            step.lasting,
        )
        for number, step in enumerate(session.inspect.undo_steps(), 1)
    ]
    notes = []
    if not rows:
        notes.append("There is nothing to undo.")
    held = session.inspect.kept_for_undo
    if any(held.values()):
        values = size_text(held.pop("old values"))
        notes.append(
            f"Kept for undo and redo: {_zones(held)} of what is gone, {values} of old values. "
            "%gc --undo forgets it."
        )
    if undone := session.inspect.redo_steps:
        notes.append("%redo brings back, in this order: " + "; ".join(undone))
    columns = ("#%undo", "#cell", "what ran", "names", "#old data", "what stays")
    return table("What can be undone", columns, rows, "\n".join(notes))


def garbage(found: Garbage) -> View:
    """What `%gc` freed, or would."""
    rows = [(n, ", ".join(map(written, names)) or "(statements)") for n, names in found.cells]
    notes = []
    verb = "would be freed" if found.dry_run else "freed"
    count = len(rows)
    freed = {z: n for z, n in found.freed.items() if n}
    if count:
        notes.append(f"{counted(count, 'cell')} {verb}.")
    else:
        notes.append("No cell is garbage: each is used, or is what its notebook cell now defines.")
    notes.append(f"In the arena {verb}: {_zones(freed) if freed else 'nothing'}.")
    processes = {p: n for p, n in found.processes.items() if n >= 4096}
    if processes:
        given = ", ".join(f"{name} {size_text(n)}" for name, n in processes.items())
        notes.append(f"Given back to the system: {given}.")
    elif not found.dry_run:
        notes.append("Given back to the system: nothing, no whole page became free.")
    if found.forgotten:
        many = counted(found.forgotten, "run")
        can = "could no longer" if found.dry_run else "can no longer"
        notes.append(f"{many} {can} be undone or done again.")
    elif any(found.undo.values()) or found.undo_data:
        notes.append(
            f"Kept for undo: {_zones(found.undo)} of what is gone, {size_text(found.undo_data)} of "
            "old values. %gc --undo forgets it."
        )
    if not rows:
        return View("\n".join(notes), "".join(paragraph(note).html for note in notes))
    title = "Garbage that would be collected" if found.dry_run else "Garbage that was collected"
    return table(title, ("#cell", "defined"), rows, "\n".join(notes))


def _zones(sizes: dict[str, int]) -> str:
    return ", ".join(f"{zone} {size_text(n)}" for zone, n in sizes.items())
