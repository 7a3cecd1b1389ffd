"""Macros that are put aside: `#pragma push_macro("X")` in one cell, `pop_macro("X")` in any other.
Start from `pushed`."""

from __future__ import annotations

from collections.abc import Iterable

from jitkernel.languages.c.macros import PUSHED
from jitkernel.languages.c.notes import Note

__all__ = ["pushed"]


def pushed(notes: Iterable[Note], name: str) -> str | None:
    """The directive that defined a macro where it was put aside last, "" where it was none; None
    where nothing is put aside.  Notes of such pragmas have it behind the pragma's line."""
    found: list[str] = []
    for note in sorted(notes, key=lambda note: note.place):
        match = PUSHED.match(note.text) if note.kind == "pragma" else None
        if match is not None and match[2] == name:
            if match[1] == "push":
                found.append(note.text.partition("\n")[2])
            elif found:
                found.pop()
    return found[-1] if found else None
