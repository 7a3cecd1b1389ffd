"""The notes that cells leave for later ones, as a language sees them while it reads a cell."""

from __future__ import annotations

import random

import pytest

from jitkernel.languages.llvm.plan import LanguageNote
from jitkernel.rollback import Rollback
from jitkernel.session.program.names import LanguageNotes
from tests.seeds import seeds


@pytest.mark.parametrize("seed", seeds(2, 40))
def test_a_snapshot_is_what_there_is_whatever_was_taken_back(seed: int) -> None:
    chance, notes, rollback = random.Random(seed), LanguageNotes(), Rollback()

    def change() -> None:
        key = f"c:i:{chance.randrange(6)}"
        if chance.random() < 0.1:
            notes.clear()
        elif chance.random() < 0.3:
            notes.set(key, None)
        else:
            notes.set(key, LanguageNote(str(chance.random()), cell=chance.randrange(1, 4)))

    def look() -> None:
        before, now = notes.snapshot(), notes.snapshot()
        assert before is now and now == notes.kept
        others = {k for k in now.keys() | seen.keys() if now.get(k) != seen.get(k)}
        assert others <= now.changed.keys()
        seen.clear()
        seen.update(now)

    seen = dict[str, object]()
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
