"""Arrays that are views of variables, and outlive them."""

from __future__ import annotations

import gc
import random
from typing import Any

import pytest

from jitkernel import Session

pytestmark = pytest.mark.process

np = pytest.importorskip("numpy")


def test_what_is_written_to_a_view_of_a_variable_that_is_gone_is_seen_by_nobody() -> None:
    with Session(undo_depth=0) as s:
        s.run("@a = global [100 x i32] zeroinitializer")
        view, place = s["a"].array, s["a"].address
        s.evict("a")
        s.run("@b = global [100 x i32] zeroinitializer")
        view[:] = 7
        assert not s["b"].array.any()
        s.check()
        del view
        gc.collect()
        s.check()
        s.run("@c = global [100 x i32] zeroinitializer")
        assert s["c"].address == place


def test_memory_comes_back_when_the_views_have_gone() -> None:
    with Session(undo_depth=0) as s:
        arena = s.inspect.engine.arena
        s.run("@x = global i32 0")
        before = arena.usage()["data"]["used"]
        views = []
        for number in range(20):
            s.run(f"@a{number} = global [1000 x i32] zeroinitializer\n@s{number} = global i8 1")
            views += [s[f"a{number}"].array, s[f"a{number}"].array[3:7], s[f"s{number}"].array]
            s.evict(f"a{number}", force=True)
        assert arena.usage()["data"]["used"] > before + 80_000
        del views[::2]
        gc.collect()
        s.check()
        views.clear()
        gc.collect()
        s.check()
        assert arena.usage()["data"]["used"] == before


def test_an_undo_brings_a_variable_back_where_its_view_is(s: Session) -> None:
    s.run("@a = global [4 x i32] zeroinitializer")
    view = s["a"].array
    view[1] = 5
    s.evict("a")
    view[2] = 6
    s.undo()
    assert s["a"].value[1] == 5
    view[3] = 9
    assert s["a"].value[3] == 9
    s.check()


def scene(seed: int, steps: int) -> None:
    """Variables come and go at random, and whatever is written to their views is seen by no other:
    every value is what this model has."""
    chance = random.Random(seed)
    with Session(undo_depth=chance.choice([0, 2, 20])) as s:
        values: dict[str, Any] = {}
        views: list[tuple[str, int, Any]] = []
        born: dict[str, int] = {}
        for step in range(1, steps + 1):
            name = f"v{chance.randrange(5)}"
            match chance.choice(["define", "define", "evict", "view", "view", "write", "drop"]):
                case "define":
                    count = chance.choice([4, 4, 40, 400])
                    s.run(f"@{name} = global [{count} x i32] zeroinitializer")
                    kept = name in values and len(values[name]) == count
                    values[name] = np.zeros(count, "i4")
                    born[name] = born[name] if kept else step
                case "evict" if name in values:
                    s.evict(name)
                    del values[name], born[name]
                case "view" if name in values:
                    views.append((name, born[name], s[name].array))
                case "write" if views:
                    of, since, view = chance.choice(views)
                    at = chance.randrange(len(view))
                    view[at] = step
                    if born.get(of) == since:
                        values[of][at] = step
                case "drop" if views:
                    views.pop(chance.randrange(len(views)))
            for each, value in values.items():
                assert s[each].value == tuple(value.tolist()), (seed, step, each)
        s.check()


@pytest.mark.parametrize("seed", range(4))
def test_views_of_variables_that_come_and_go(seed: int) -> None:
    scene(seed, 60)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_views_of_variables_that_come_and_go(seed: int) -> None:
    scene(seed, 400)
