"""Hibernate, wake, keep, save and restore at random among everything else, beside a model.

The short walk is hypothesis'; the long one has a fixed seed.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from away import AwayWalk, names, some
from history import FUNCTIONS, TYPED
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule
from test_history import PLACES, Machine, take_step

from jitkernel import Session

BUDGETS = [0, 0, 64, 400, 1000, 3000]
STEPS = 8_000


class AwayMachine(Machine):
    """The walk of `test_history`, with hibernation and restores among its steps."""

    folder: Path

    @initialize()
    def empty(self) -> None:
        cls = type(self)
        cls.session.budget = 0
        cls.session.reset()
        self.walk = AwayWalk(cls.session, self.folder)
        self.walk.made = self.made

    @rule(at=PLACES)
    def hibernate(self, at) -> None:
        if cell := self.cell(at):
            self.walk.hibernate(cell)

    @rule()
    def hibernate_all(self) -> None:
        for number in sorted(self.walk.now.cells):
            self.walk.hibernate(number)

    @rule(at=PLACES)
    def wake(self, at) -> None:
        if cell := self.cell(at):
            self.walk.wake(cell)

    @rule(at=PLACES, on=st.booleans())
    def keep(self, at, on) -> None:
        if cell := self.cell(at):
            self.walk.keep(cell, on)

    @rule(size=st.sampled_from(BUDGETS))
    def budget(self, size) -> None:
        self.walk.budget(size)

    @rule(name=st.sampled_from([*FUNCTIONS, *TYPED]))
    def call(self, name) -> None:
        self.walk.call(name)

    @rule(name=st.sampled_from(FUNCTIONS))
    def point(self, name) -> None:
        self.walk.point(name)

    @rule(name=st.sampled_from(FUNCTIONS))
    def through(self, name) -> None:
        self.walk.through(name)

    @rule(from_kill=st.booleans())
    def restore(self, from_kill) -> None:
        self.walk.restore(from_kill)
        type(self).session = self.walk.s

    @invariant()
    def agrees(self) -> None:
        if hasattr(self, "walk"):
            self.walk.check([])  # to call a function would bring its code back
            self.walk.saved()
            self.walk.s.check()

    def teardown(self) -> None:
        self.walk.check()
        self.walk.s.check()


def short_walk(folder: Path, examples: int, steps: int) -> None:
    home = str(folder / "home.jks")
    AwayMachine.session = Session(capacity=64 << 20, spare=False, store_path=home, autosave=True)
    AwayMachine.made, AwayMachine.folder = {}, folder
    test = AwayMachine.TestCase
    test.settings = settings(
        max_examples=examples, stateful_step_count=steps, derandomize=True,
        database=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    try:
        test().runTest()
    finally:
        AwayMachine.session.close()


def test_a_random_walk_with_code_that_is_away(tmp_path: Path) -> None:
    short_walk(tmp_path, 6, 15)


def away_step(walk: AwayWalk, rng: random.Random) -> None:
    """One step of the long walk."""
    roll, cell = rng.random(), some(rng, walk)
    if roll < 0.55:
        take_step(walk, rng)
    elif roll < 0.65:
        if cell:
            walk.hibernate(cell)
    elif roll < 0.67:
        for number in sorted(walk.now.cells):
            walk.hibernate(number)
    elif roll < 0.80:
        walk.call(names(rng))
    elif roll < 0.84:
        walk.point(rng.choice(FUNCTIONS))
    elif roll < 0.90:
        walk.through(rng.choice(FUNCTIONS))
    elif roll < 0.92:
        if cell:
            walk.wake(cell)
    elif roll < 0.95:
        if cell:
            walk.keep(cell, rng.random() < 0.4)
    elif roll < 0.985:
        walk.budget(rng.choice(BUDGETS))
    elif roll < 0.995:
        return
    else:
        walk.restore(walk.s.inspect.store.durable and rng.random() < 0.5)


def long_walk(folder: Path, seed: int, steps: int, checked: int) -> AwayWalk:
    rng = random.Random(seed)
    home = folder / "home.jks"
    s = Session(capacity=64 << 20, spare=False, store_path=str(home), autosave=True)
    walk = AwayWalk(s, folder)
    try:
        for step in range(1, steps + 1):
            away_step(walk, rng)
            walk.check([])
            if step % checked == 0:
                walk.s.check()
        walk.check()
        walk.s.check()
    finally:
        walk.s.close()
    return walk


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(4))
def test_a_long_random_walk_with_code_that_is_away(tmp_path: Path, seed: int) -> None:
    assert long_walk(tmp_path, seed, STEPS, 20).restored > 5
