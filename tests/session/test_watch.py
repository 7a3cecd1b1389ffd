"""Globals that are looked at while code runs.  The observer tells the program when to go on."""

from __future__ import annotations

import itertools

import pytest

from jitkernel.errors import Fault, Interrupted, JitError, UsageError

#: Counts in @g and waits at each step until @go has come as far; then crashes if it is told to.
STEPS = """
volatile long g, go;
void steps(long n, _Bool crash) {
  go = 0;
  for (long i = 1; i <= n; i++) {
    g = i;
    while (go < i) {}
  }
  g = 100;
  if (crash) *(volatile long *)0 = 1;
}
"""


DATA = """
@pair = global { i32, double } { i32 1, double 0.5 }
@table = global [4 x i32] [i32 4, i32 3, i32 2, i32 1]
@text = constant [3 x i8] c"abc"
"""


class Observer:
    """Remembers what it was shown, and lets the program take its next step."""

    def __init__(self, s, fail_at: int = 0):
        self.s, self.fail_at, self.seen = s, fail_at, []

    def __call__(self, watched) -> None:
        self.seen.append(watched)
        value = watched[0].value
        if self.fail_at and value == self.fail_at:
            raise ZeroDivisionError("the observer's own")
        if watched[0].seconds is not None:
            self.s["go"].value = value

    @property
    def values(self) -> list:
        """What the first global was, each value once: a busy machine shows some of them twice."""
        return [value for value, _ in itertools.groupby(w[0].value for w in self.seen)]


@pytest.fixture
def steps(s):
    s.run(STEPS, "c")
    s.run(DATA)
    yield s
    s.unwatch()


def test_values_are_seen_while_the_cell_runs(steps):
    look = Observer(steps)
    steps.watch("@g", call=look, every=0.0)
    steps.run("@steps(3, false)")
    assert look.values == [1, 2, 3, 100]
    running = [w[0].seconds for w in look.seen]
    assert running[-1] is None and running[:-1] == sorted(running[:-1])
    (last,) = look.seen[-1]
    assert (last.least, last.most, last.type) == (0, 100, "i64")
    assert last.samples[0] == 0 and last.samples[-1] == 100


def test_a_call_from_python_is_a_run_too(steps):
    look = Observer(steps)
    steps.watch("g", call=look, every=0.0)
    steps.call("steps", 2, False)
    assert look.values == [1, 2, 100]


@pytest.mark.process
def test_the_last_value_is_shown_after_a_crash(steps):
    look = Observer(steps)
    steps.watch("g", call=look, every=0.0)
    with pytest.raises(Fault):
        steps.run("@steps(2, true)")
    assert look.values == [1, 2, 100] and look.seen[-1][0].seconds is None


@pytest.mark.process
def test_and_after_the_process_was_lost(steps):
    steps.run("declare i32 @getpid()\ndeclare i32 @kill(i32, i32)")
    look = Observer(steps)
    steps.watch("g", call=look, every=0.0)
    steps.run("@g = i64 5")
    with pytest.raises(Fault):
        steps.run(
            "%p = call i32 @getpid()\nstore i64 7, ptr @g\n%k = call i32 @kill(i32 %p, i32 9)"
        )
    assert look.values == [5, 7]


@pytest.mark.process
def test_what_the_observer_raises_stops_the_cell(steps):
    steps.watch("g", call=Observer(steps, fail_at=2), every=0.0)
    with pytest.raises(ZeroDivisionError):
        steps.run("@steps(1000000, false)")
    steps.unwatch()
    assert steps.run("%x = add i32 40, 2").value == 42


@pytest.mark.process
def test_an_interrupt_ends_a_watched_cell(steps):
    def interrupt(watched) -> None:
        if watched[0].seconds is not None:
            steps.interrupt()

    steps.watch("g", call=interrupt, every=0.0)
    with pytest.raises(Interrupted):
        steps.run("@steps(1000000, false)")


def test_structures_and_arrays_are_typed(steps):
    pair, table, text = steps.watch("pair", "table", "text")
    assert pair.value == (1, 0.5) and pair.samples == () and pair.least is None
    assert (table.samples, table.least, table.most) == ((4, 3, 2, 1), 1, 4)
    assert text.typed.text() == '[3 x i8] c"abc"'
    assert [w.name for w in steps.watched()] == ["pair", "table", "text"]


def test_short_cells_show_only_what_changed(steps):
    look = Observer(steps)
    steps.watch("g", call=look)
    steps.run("%x = add i32 1, 2")
    assert look.seen == []
    steps.run("@g = i64 9")
    assert look.values == [9]


def test_a_watch_follows_redefinition_and_eviction(steps):
    look = Observer(steps)
    steps.watch("g", call=look)
    steps.run("@g = global i64 77")
    steps.evict("g", "steps", cascade=True)
    steps.run("%x = add i32 1, 2")
    assert look.values == [77, None] and "no cell defines @g" in look.seen[-1][0].why
    steps.run("@g = global double 0.25")
    assert look.values[-1] == 0.25 and look.seen[-1][0].type == "double"


def test_nothing_is_done_while_nothing_is_watched(steps):
    executor = steps.inspect.engine.executor
    assert executor.on_wait is None
    steps.watch("g")
    assert executor.on_wait is not None
    steps.unwatch("@g")
    assert executor.on_wait is None and steps.watched() == []


@pytest.mark.parametrize(
    ("name", "words"),
    [("tabel", "did you mean @table"), ("steps", "steps is a function"), ("@nowhere", "no cell")],
)
def test_what_is_no_variable_is_refused(steps, name, words):
    with pytest.raises(UsageError, match=words):
        steps.watch("g", name)
    assert steps.watched() == []
    with pytest.raises(UsageError, match="is not watched; what is: nothing"):
        steps.unwatch("g")


def test_the_history_is_bounded(steps):
    steps.watch("g")
    for value in range(1000):
        steps["g"].value = value
        steps.inspect.observers.look(1.0)
        steps.inspect.observers.ended(value)
    (last,) = steps.watched()
    assert len(last.samples) <= 120 and (last.least, last.most) == (0, 999)
    assert list(last.samples) == sorted(last.samples) and last.samples[-1] == 999


def test_the_observer_may_ask_the_session_and_not_call_it(steps):
    """It is not kept waiting by the run that it looks at."""
    asked, refused = [], []

    def ask(watched) -> None:
        if watched[0].seconds is None:
            return
        asked.append([w.value for w in steps.watched()])
        try:
            steps.call("steps", 0, False)
        except JitError as error:
            refused.append(str(error))
        steps["go"].value = watched[0].value

    steps.watch("g", call=ask, every=0.0)
    steps.call("steps", 2, False)
    assert [1] in asked and [2] in asked
    assert {why.partition(":")[0] for why in refused} == {"the executor is running another call"}


def test_where_code_cannot_be_stopped_what_the_observer_raises_waits(fresh):
    with fresh(executor="inline") as s:
        s.run(STEPS, "c")
        look = Observer(s)

        def fail(watched) -> None:
            look(watched)
            if watched[0].seconds is not None:
                s["go"].value = 2  # it comes to its end
                raise ZeroDivisionError("the observer's own")

        s.watch("g", call=fail, every=0.0)
        with pytest.raises(ZeroDivisionError):
            s.run("@steps(2, false)")
        assert s["g"].value == 100 and [w[0].seconds is None for w in look.seen] == [False, True]
        s.unwatch()
        assert s.run("%x = add i32 40, 2").value == 42


def test_nobody_sees_where_code_of_this_process_is(fresh):
    with fresh(executor="inline") as s, pytest.raises(UsageError, match="a process of its own"):
        s.frontend.look_after(1.0, print)
