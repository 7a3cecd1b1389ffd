"""The notes that cells leave for later ones, as a language sees them while it reads a cell."""

from __future__ import annotations

import random

import pytest

from jitkernel.languages.llvm.plan import Below, LanguageNote, NoteKey
from jitkernel.rollback import Rollback
from jitkernel.session.program.names import LanguageNotes
from tests.seeds import seeds


@pytest.mark.parametrize("seed", seeds(2, 40))
def test_languages_see_what_there_is_whatever_was_taken_back(seed: int) -> None:
    chance, notes, rollback = random.Random(seed), LanguageNotes(), Rollback()

    def change() -> None:
        key: NoteKey = f"c:i:{chance.randrange(6)}"
        if chance.random() < 0.1:
            notes.clear()
        elif chance.random() < 0.3:
            notes.set(key, None)
        else:
            cell, group = chance.randrange(1, 4), chance.choice(("", "left"))
            key = Below(key, cell) if chance.random() < 0.4 else key
            notes.set(key, LanguageNote(str(chance.random()), cell=cell, group=group))

    def look() -> None:
        notes.check()
        assert notes.kept == {key: note.kept for key, note in notes.found.items()}

    for _ in range(300):
        try:
            with rollback.atomic():
                for _ in range(chance.randrange(4)):
                    change()
                    if chance.random() < 0.3:
                        look()
                if chance.random() < 0.4:
                    raise ValueError
        except ValueError:
            pass
        if chance.random() < 0.5:
            look()
    look()
