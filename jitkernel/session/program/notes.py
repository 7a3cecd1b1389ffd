"""What cells of a language have left for later cells of it.  Start from `LanguageNotes`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from jitkernel.rollback import Recorded, RecordedDict
from jitkernel.session.program.cell import Cell, Change, LanguageNote

if TYPE_CHECKING:
    from jitkernel.languages.llvm.plan import PlanNote

__all__ = ["LanguageNotes"]


class LanguageNotes(Recorded):
    """Notes by key; the session knows of each which cell left it and which others it needs."""

    def __init__(self) -> None:
        self.found: RecordedDict[str, LanguageNote] = RecordedDict()

    @property
    def texts(self) -> dict[str, str]:
        """The texts by key, as languages read them."""
        return {key: note.text for key, note in self.found.items()}

    def learn(self, cell: Cell, notes: Mapping[str, PlanNote], change: Change) -> None:
        """Take a cell's notes in, in place of those of their keys."""
        for key, (text, needs) in notes.items():
            self._put(key, LanguageNote(cell.number, text, needs), change)

    def forget(self, gone: Iterable[Cell], change: Change) -> None:
        """Drop the notes of cells that left, apart from those that the notes of others need."""
        numbers = {cell.number for cell in gone}
        going = {key for key, note in self.found.items() if note.cell in numbers}
        if not going:
            return
        todo = [note.needs for key, note in self.found.items() if key not in going]
        while todo:
            needed = todo.pop() & going
            going -= needed
            todo += [self.found[key].needs for key in needed]
        for key in going:
            self._put(key, None, change)

    def revert(self, before: Mapping[str, LanguageNote | None], inverse: Change) -> None:
        """Make these notes what they were; `inverse` gets what they are."""
        for key, note in before.items():
            self._put(key, note, inverse)

    def clear(self) -> None:
        """Forget all."""
        self.found.clear()

    def _put(self, key: str, note: LanguageNote | None, change: Change) -> None:
        change.noted.setdefault(key, self.found.get(key))
        if note is None:
            self.found.pop(key, None)
        else:
            self.found[key] = note
