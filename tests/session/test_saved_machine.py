"""The random walk of test_machine, in a session that saves after each cell: what is written bit by
bit is what would be written at once, and at the end of each walk a killed session comes back."""

from __future__ import annotations

import itertools
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import invariant
from pictures import picture
from test_saved import killed

from jitkernel import Session
from jitkernel.session.saved.tables import Tables, create
from jitkernel.session.saved.writing import Writer
from tests.session.test_machine import Machine


def contents(db: sqlite3.Connection) -> dict[str, Any]:
    """The rows of a session, symbols named by what they are instead of by their numbers."""
    symbols = dict(db.execute("select id, body from symbols"))
    cells = {}
    for number, body, data in db.execute("select id, body, bytes from cells"):
        row = json.loads(body)
        row[6][1:3] = []  # how long statements took, when it was last used: not worth a write
        image = row[8]
        if image is not None:
            refs = image[7]
            end = len(data)
            sites = []
            for n, length in reversed(refs):
                sites.append((symbols[n], data[end - length : end]))
                end -= length
            image[7] = sorted(sites)
            # Of the code only the size: where others have moved since, it is written when it is
            # read, and an image's row is as old as the image.
            data = b"" if image[0] is None else bytes(image[0][2])
        cells[number] = (row, data)
    facts = dict(db.execute("select id, body from facts where id != 'saved'"))
    head = json.loads(facts["session"])
    del head["memory"]  # a process has more of it at any moment
    return {
        "symbols": sorted(symbols.values()),
        "cells": cells,
        "pages": dict(db.execute("select id, bytes from pages")),
        "results": sorted(db.execute("select id, body, bytes from results")),
        # A text is written when its cell ends: see `texts`.
        "facts": {k: v for k, v in facts.items() if not k.startswith("text ")} | {"session": head},
    }


def texts(session: Session) -> list[tuple[str, str, str]]:
    """The present text of the cells, in order."""
    return [(text.kind, text.cell, text.source) for text in session._core.texts.every()]


class SavedMachine(Machine):
    path: Path
    walks = itertools.count()

    @invariant()
    def what_is_written_is_all(self) -> None:
        s = self.session
        if s._core.engine.running or not s._core.store.saved:
            return
        s._core.store.flush()
        s._core.keeper.keep()
        whole = sqlite3.connect(":memory:", isolation_level=None)
        create(whole)
        Writer(s._core, Tables(whole)).everything()
        kept, wanted = contents(s._core.store.tables.db), contents(whole)
        whole.close()
        for part, rows in wanted.items():
            assert kept[part] == rows, part

    def teardown(self) -> None:
        if next(self.walks) % 5 == 0:
            before, said = picture(self.session), texts(self.session)
            with Session.restore(str(killed(self.path)), spare=False) as copy:
                after = picture(copy)
                for part in before:
                    assert after[part] == before[part], part
                assert texts(copy) == said
                copy.check()
        super().teardown()


def walk(path: Path, examples: int, steps: int) -> None:
    with Session(capacity=64 << 20, store_path=str(path), autosave=True) as session:
        SavedMachine.session, SavedMachine.path = session, path
        test = SavedMachine.TestCase
        test.settings = settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, derandomize=True,
            database=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        test().runTest()


def test_a_random_walk_is_saved_as_it_is(tmp_path: Path) -> None:
    walk(tmp_path / "walk.jks", 10, 30)


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_long_random_walk_is_saved_as_it_is(tmp_path: Path) -> None:
    walk(tmp_path / "walk.jks", 200, 50)
