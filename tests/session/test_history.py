"""Define, redefine, fail, crash, evict, undo and redo at random, beside the model in `history`.

The short walk is hypothesis'; the long one has a fixed seed, and bounds on what it may occupy.
"""

from __future__ import annotations

import gc
import os
import random

import pytest
from facts import compared
from history import FUNCTIONS, IDS, NUMBERS, VARIABLES, Walk, random_spec
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from jitkernel import Session
from jitkernel.session.report.memory import pages
from tests.session.test_occupancy import prove

STEPS = 100_000
CHECKED = 1_000  # every so many steps everything is compared and the books are proved
WARM = 20_000  # processes may not grow after so many steps
GROWTH = 3 << 20
HIGH_WATER = 1.25

SPECS = [random_spec(random.Random(seed)) for seed in range(300)]
C_SPECS = [random_spec(random.Random(seed), "c") for seed in range(100)]
CRASHES = ["null", "division", "exit", "abort", "undefined", "interrupted", "killed"]


#: Where in what there is at the moment, modulo its length: what is drawn depends on no state.
PLACES = st.integers(0, 839)


class Machine(RuleBasedStateMachine):
    session: Session
    made: dict

    def cell(self, at: int) -> int:
        """One of the cells; 0 where there is none."""
        cells = sorted(self.walk.now.cells)
        return cells[at % len(cells)] if cells else 0

    @initialize()
    def empty(self) -> None:
        self.session.reset()
        self.walk = Walk(self.session)
        self.walk.made = self.made

    @rule(
        spec=st.sampled_from(SPECS), cell_id=st.sampled_from([None, None, *IDS]), run=st.booleans()
    )
    def define(self, spec, cell_id, run) -> None:
        self.walk.define(spec, cell_id, run)

    @rule(spec=st.sampled_from(C_SPECS), cell_id=st.sampled_from([None, None, *IDS]))
    def define_in_c(self, spec, cell_id) -> None:
        self.walk.define(spec, cell_id)

    @rule(
        name=st.sampled_from(FUNCTIONS),
        values=st.dictionaries(st.sampled_from(NUMBERS), st.integers(0, 999), min_size=1),
    )
    def assign(self, name, values) -> None:
        self.walk.assign(name, values)

    @rule(
        how=st.sampled_from(["syntax", "link", "constructor", "gc"]),
        name=st.sampled_from(FUNCTIONS),
    )
    def fail(self, how, name) -> None:
        self.walk.fail(how, name)

    @rule(how=st.sampled_from(CRASHES))
    def crash(self, how) -> None:
        self.walk.crash(how)

    @rule(name=st.sampled_from(NUMBERS), value=st.integers(0, 999), fault=st.booleans())
    def store(self, name, value, fault) -> None:
        self.walk.store(name, value, fault)

    @rule(size=st.integers(1, 60))
    def text(self, size) -> None:
        self.walk.text("x" * size)

    @rule(
        name=st.sampled_from(VARIABLES),
        at=st.integers(0, 3000),
        data=st.binary(min_size=4, max_size=40),
    )
    def poke(self, name, at, data) -> None:
        self.walk.poke(name, at, data)

    @rule(at=PLACES, how=st.sampled_from(["", "cascade", "force"]))
    def evict(self, at, how) -> None:
        if cell := self.cell(at):
            self.walk.evict(cell, how)

    @rule(count=st.integers(1, 3))
    def undo(self, count) -> None:
        self.walk.undo(count)

    @rule(count=st.integers(1, 2))
    def redo(self, count) -> None:
        self.walk.redo(count)

    @rule(at=PLACES, cascade=st.booleans())
    def undo_one(self, at, cascade) -> None:
        if self.walk.done:
            self.walk.undo_one(at % len(self.walk.done), cascade)

    @rule(undo=st.booleans())
    def gc(self, undo) -> None:
        self.walk.gc(undo)

    @invariant()
    def agrees(self) -> None:
        if hasattr(self, "walk"):
            self.walk.check()
            self.session.check()
            prove(self.session)


@pytest.mark.parametrize("executor", ["process", "inline"])
def test_a_random_walk_agrees_with_the_model(executor):
    with Session(capacity=64 << 20, spare=False, executor=executor) as session, compared():
        Machine.session, Machine.made = session, {}
        test = Machine.TestCase
        test.settings = settings(
            max_examples=4, stateful_step_count=30, derandomize=True,
            database=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        test().runTest()


def take_step(walk: Walk, rng: random.Random) -> None:
    """One of the things that a person does, as often as people do them."""
    roll = rng.random()
    if roll < 0.40:
        walk.define(rng.choice(SPECS), rng.choice([None, None, None, *IDS]))
    elif roll < 0.46:
        walk.store(rng.choice(NUMBERS), rng.randrange(1000), rng.random() < 0.1)
    elif roll < 0.50:
        walk.text("x" * rng.randrange(1, 60))
    elif roll < 0.54:
        walk.poke(rng.choice(VARIABLES), rng.randrange(3000), rng.randbytes(rng.choice([4, 4, 40])))
    elif roll < 0.70:
        if walk.now.cells:
            cell = rng.choice(sorted(walk.now.cells))
            walk.evict(cell, rng.choice(["", "", "cascade", "force"]))
    elif roll < 0.83:
        walk.undo(rng.choice([1, 1, 1, 2, 3]))
    elif roll < 0.92:
        walk.redo(rng.choice([1, 1, 2]))
    elif roll < 0.99:
        if walk.done:
            walk.undo_one(rng.randrange(len(walk.done)), rng.random() < 0.4)
    else:
        walk.gc(rng.random() < 0.05)


def note_sizes(s: Session) -> dict[str, int]:
    """By zone: the most bytes that were live or kept for undo at once, kept up to date."""
    most = dict.fromkeys(s.inspect.engine.arena.zones, 0)
    for name in ("reserve", "reserve_at"):
        reserve = getattr(s.inspect.engine.arena, name)

        def noting(zone, *arguments, reserve=reserve):
            extent = reserve(zone, *arguments)
            books = s.inspect.engine.arena.zones[zone].list
            most[zone] = max(most[zone], books.used + books.padding)
            return extent

        setattr(s.inspect.engine.arena, name, noting)
    return most


def processes(s: Session) -> dict[str, int]:
    """Bytes of each process's own."""
    gc.collect()
    found = {"kernel": pages(os.getpid()).own, "executor": pages(s.inspect.engine.executor.pid).own}
    for pid, role, _ in s.inspect.engine.pool.processes():
        found[role] = pages(pid).own
    return found


def growth(s: Session, warm: dict[str, int]) -> dict[str, int]:
    """Bytes that each process is larger than it was; a spare is compared with the worker, whose
    place it may have taken."""
    was = warm | {"spare": warm["worker"]}
    return {name: size - was[name] for name, size in processes(s).items()}


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_long_random_walk_agrees_with_the_model_and_does_not_grow(capsys):
    rng = random.Random(20260715)
    with Session(capacity=64 << 20) as s:
        walk = Walk(s)
        warm: dict[str, int] = {}
        most = note_sizes(s)
        for step in range(1, STEPS + 1):
            take_step(walk, rng)
            walk.check(rng.sample(FUNCTIONS, 2))
            if step % CHECKED == 0:
                walk.check()
                s.check()
                walk.forget_specs()
            if step == WARM:
                warm = processes(s)
        grown, restarts = growth(s, warm), s.inspect.engine.pool.workers.restarts
        high = {name: z.high - z.start for name, z in s.inspect.engine.arena.zones.items()}
        number = s.number
    ratio = sum(high.values()) / sum(most.values())
    with capsys.disabled():
        print(
            f"\n{STEPS} steps, {number} cells: high water {ratio:.2f} x the largest size of what was "
            f"live or kept for undo ("
            + ", ".join(f"{z} {high[z]} of {most[z]}" for z in most)
            + f"); after the first {WARM}: "
            + ", ".join(f"{n} {(g + 1023) >> 10:+} KiB" for n, g in grown.items())
            + f" ({restarts} workers replaced); {walk.extra} runs more than the model's were named as in the way"
        )
    assert ratio <= HIGH_WATER
    assert max(grown.values()) <= GROWTH, grown
