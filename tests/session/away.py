"""The walk of `history` with code that leaves memory and comes back, and sessions that are saved and
restored on the way.  Start from `AwayWalk`.

Where code is does not matter to the model: what functions answer, where variables are and what they
hold is the same whether a cell's code is there or not.  What does matter is checked here: `%keep`
holds, the budget holds, what was called is in memory, stored pointers are as good as ever, and
what is saved bit by bit is what would be saved at once.
"""

from __future__ import annotations

import itertools
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from history import CHANGING, FUNCTIONS, TYPED, Spec, State, Walk
from pictures import picture
from test_saved import killed

from jitkernel import Session
from jitkernel.errors import Fault, LinkError, TypeMismatch, UndefinedSymbol
from jitkernel.linker.hibernation import reclaimable
from jitkernel.session.program.cell import CellState
from jitkernel.session.saved.tables import Tables, create
from jitkernel.session.saved.writing import Writer

_HOMES = itertools.count(1)


class AwayWalk(Walk):
    """`folder` is where sessions are saved; `home` the file of this one, where it saves by itself."""

    s: Session

    def __init__(self, session: Session, folder: Path, depth: int = 20):
        super().__init__(session, depth)
        self.folder = folder
        self.kept: set[int] = set()
        self.pointers: dict[str, int] = {}  # where a program would call a function to
        self.restored = 0

    # -- steps -----------------------------------------------------------------------------------

    def define(self, spec: Spec, cell_id: str | None = None, run: bool = False) -> None:
        now = self.now
        for piece in spec:
            name = piece.name
            if name in (*TYPED, CHANGING) and name not in now.owner and name in now.types:
                return  # another type for what is missing
        super().define(spec, cell_id, run)

    def hibernate(self, number: int) -> None:
        """A cell's code leaves, where it can."""
        cell = self.s.inspect.program.cells[number]
        image = cell.image
        asleep = cell.state is CellState.HIBERNATED
        if not asleep and (image is None or image.text is None or number in self.kept):
            with pytest.raises(LinkError, match="stays in memory"):
                self.s.hibernate(number)
            return
        self.s.hibernate(number)
        assert cell.state is CellState.HIBERNATED

    def keep(self, number: int, on: bool) -> None:
        """A cell's code stays, or no longer has to."""
        self.s.keep(number, on=on)
        (self.kept.add if on else self.kept.discard)(number)
        assert not on or self.s.inspect.program.cells[number].state is CellState.LIVE

    def wake(self, number: int) -> None:
        self.s.wake(number)
        if not self.s.budget:
            assert self.s.inspect.program.cells[number].state is CellState.LIVE

    def budget(self, size: int) -> None:
        self.s.budget = size

    def point(self, name: str) -> None:
        """The program takes a function's address."""
        if name not in self.now.owner or name in TYPED:
            return
        address = self.s.run(f"%a = ptrtoint ptr @{name} to i64").value
        self._looked()
        assert self.pointers.setdefault(name, address) == address == self.s[name].address

    def through(self, name: str) -> None:
        """A call of the address that was taken once."""
        if name not in self.pointers or name not in self.now.owner:
            return
        source = f"%f = inttoptr i64 {self.pointers[name]} to ptr\n%r = call i32 %f()"
        wanted = self.now.answer(name)
        if isinstance(wanted, int):
            assert self.s.run(source).value == wanted
            self._awake(name)
        else:
            with pytest.raises((UndefinedSymbol, TypeMismatch, Fault)):
                self.s.run(source)
        self._looked()

    def call(self, name: str) -> None:
        """A call by name; who is called is in memory then."""
        self.check([name])
        if name in self.now.owner and isinstance(self.now.answer(name), int):
            self._awake(name)

    def restore(self, from_kill: bool = False, **settings: Any) -> None:
        """The session ends and another one goes on with what it had saved."""
        self.restored += 1
        s, path = self.s, self.folder / f"saved{self.restored % 2}.jks"
        if from_kill:
            s.keep()  # as any run does, it saves what was written meanwhile
            path = killed(Path(s.inspect.store.path))
        else:
            s.save(str(path))
        before, budget, said = picture(s), s.budget, texts(s)
        if s.inspect.store.durable:
            home = self.folder / f"home{next(_HOMES)}.jks"
            settings |= {"store_path": str(home), "autosave": True}
        fresh = Session.restore(str(path), spare=False, **settings)
        try:
            # The old one is asked no more.
            after = picture(fresh)
            for part in before:
                assert after[part] == before[part], (part, unlike(before[part], after[part]))
            assert fresh.budget == budget and texts(fresh) == said
        except BaseException:
            fresh.close()
            raise
        s.close()
        self.s = fresh
        fresh.configure("undo_depth", self.depth)
        self.done.clear()
        self.undone.clear()
        self.handles.clear()
        self.kept &= self.now.cells.keys()

    # -- comparing -------------------------------------------------------------------------------

    def check(self, functions: list[str] | None = None) -> None:
        super().check(functions)
        self.stands()

    def saved(self) -> None:
        """What was written bit by bit is what would be written at once."""
        core = self.s._core
        if core.engine.running or not core.store.file.saved:
            return
        core.store.flush()
        core.keeper.keep()
        whole = sqlite3.connect(":memory:", isolation_level=None)
        create(whole)
        Writer(core, Tables(whole)).everything()
        kept, wanted = contents(core.store.tables.db), contents(whole)
        whole.close()
        pages = {at: kept["pages"].get(at) for at in wanted["pages"]}  # a restored file has more
        for part, rows in wanted.items():
            assert (pages if part == "pages" else kept[part]) == rows, part

    def stands(self) -> None:
        """What holds between any two runs."""
        s, now = self.s, self.now
        cells = {c.number: c for c in s.cells}
        for number in self.kept & cells.keys():
            assert cells[number].kept and cells[number].state is CellState.LIVE, number
        code = sum(
            c.image.text.size for c in cells.values() if c.image is not None and c.image.text
        )
        assert s.inspect.residency.code == code
        if s.budget and code > s.budget:
            could = [
                c for c in cells.values()
                if c.image is not None and reclaimable(c.image) > 0 and not s.inspect.residency.why_not(c)
            ]  # fmt: skip
            assert not could, (s.budget, code, could)
        for name, address in list(self.pointers.items()):
            if name in now.owner:
                assert s[name].address == address, name
            elif not any(name in state.owner for state in self._states()):
                del self.pointers[name]  # nobody can bring it back

    def _states(self) -> list[State]:
        return [step.before for step in self.done] + [state for _, state in self.undone]

    def _awake(self, name: str) -> None:
        if not self.s.budget:
            cell = self.s.inspect.program.cells[self.now.owner[name]]
            assert cell.state is CellState.LIVE, name


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
        "facts": facts | {"session": head},
    }


def texts(session: Session) -> list[tuple[str, str, str]]:
    """The present text of the cells, in order."""
    return [(text.kind, text.cell, text.source) for text in session._core.texts.every()]


def unlike(one: Any, other: Any) -> Any:
    """Where two parts of a picture differ."""
    if isinstance(one, dict):
        return {
            k: (one.get(k), other.get(k)) for k in {**one, **other} if one.get(k) != other.get(k)
        }
    return one, other


def some(rng: Any, walk: Walk) -> int:
    """One of the cells that are there, 0 where none is."""
    return rng.choice(sorted(walk.now.cells)) if walk.now.cells else 0


def names(rng: Any) -> str:
    return str(rng.choice([*FUNCTIONS, *TYPED]))
