"""Code that is moved so that other code fits: what fits then, what stays, and that nobody notices."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable

import pytest
from away import AwayWalk
from history import FUNCTIONS, Walk
from programs import CUBE, SQ
from shaking import shake
from test_away import away_step
from test_hibernation import PADDED, _has_cxx
from test_history import take_step

from jitkernel import Session
from jitkernel.errors import ArenaFull
from jitkernel.session.runner import Runner
from jitkernel.views.arena import arena

SIZE = 20_000


def sized(i: int, size: int) -> str:
    return PADDED.format(i, size)


def fragmented(s: Session) -> list[int]:
    """A text zone that is full of cells of 20,000 bytes, every second of which is gone; those that
    are left."""
    count = 0
    while s.arena.usage()["text"]["largest"] > SIZE + 1000:
        s.run(sized(count, SIZE))
        count += 1
    for i in range(0, count, 2):
        s.evict(f"p{i}")
    assert s.arena.usage()["text"]["largest"] < 2 * SIZE
    return list(range(1, count, 2))


def test_what_fits_only_after_a_move(fresh: Callable[..., Session]) -> None:
    s = fresh(capacity=2 << 20)
    left = fragmented(s)
    high = s.arena.zones["text"].high
    s.run(sized(100, 4 * SIZE))
    s.check()
    assert s.call("p100", 1) == 101 and [s.call(f"p{i}", 1) for i in left] == [i + 1 for i in left]
    assert s.arena.zones["text"].high <= high + SIZE
    assert s.compaction.times == 1 and 1 <= s.compaction.moved <= 4
    words = rf"code was moved together 1 time: {s.compaction.moved} cells?, \d[\d,]* bytes"
    assert re.search(words, arena(s).text) and re.search(words, arena(s, "text").text)
    assert not re.search(words, arena(s, "data").text)


def test_the_high_water_mark_stays(s: Session) -> None:
    for i in range(6):
        s.run(sized(i, 4000))
    s.evict("p1")
    s.evict("p3")
    mark = s.arena.zones["text"].high
    s.run(sized(50, 7900))
    assert s.arena.zones["text"].high == mark
    s.run(sized(51, 4000))
    assert s.arena.zones["text"].high > mark  # that much was not free
    assert [s.call(f"p{i}", 0) for i in (0, 2, 4, 5, 50, 51)] == [0, 2, 4, 5, 50, 51]


def test_undo_makes_room_too(fresh: Callable[..., Session]) -> None:
    s = fresh(capacity=2 << 20, undo_depth=100)
    s.run(sized(100, 4 * SIZE))
    s.evict("p100")
    left = fragmented(s)
    s.evict(f"p{left[-1]}")
    assert s.undo()
    while "p100" not in s:  # the evictions and definitions before
        s.undo()
        s.check()
        assert all(s.call(name, 1) for name in s.symbols if name.startswith("p"))
    s.redo(2)
    s.check()


def test_a_cell_that_has_to_stay_is_not_moved(fresh: Callable[..., Session]) -> None:
    s = fresh(capacity=2 << 20)
    left = fragmented(s)
    s.keep(*(f"p{i}" for i in left))
    where = {i: s.symbols[f"p{i}"].address for i in left}
    with pytest.raises(ArenaFull, match=r"(?s)no room.*Nothing was placed"):
        s.run(sized(100, 4 * SIZE))
    s.check()
    assert {i: s.symbols[f"p{i}"].address for i in left} == where and not s.compaction.moved
    assert [s.call(f"p{i}", 1) for i in left] == [i + 1 for i in left]
    s.keep(*(f"p{i}" for i in left[1:]), on=False)
    s.run(sized(100, 4 * SIZE))
    assert s.symbols[f"p{left[0]}"].address == where[left[0]] and s.call("p100", 1) == 101
    s.check()


def test_nor_one_that_variables_point_into(fresh: Callable[..., Session]) -> None:
    s = fresh(capacity=2 << 20)
    left = fragmented(s)
    s.run("@v = global [64 x i64] zeroinitializer")
    where = {i: s.symbols[f"p{i}"].address for i in left}
    for at, address in enumerate(where.values()):
        s.arena.write(s.symbols["v"].address + 8 * at, (address + 5).to_bytes(8, "little"))
    with pytest.raises(ArenaFull):
        s.run(sized(100, 4 * SIZE))
    s.check()
    assert {i: s.symbols[f"p{i}"].address for i in left} == where


def test_nor_while_threads_of_the_program_live(fresh: Callable[..., Session]) -> None:
    s = fresh(capacity=2 << 20)
    s.run(
        "@go = global i32 1\ndeclare i32 @pthread_create(ptr, ptr, ptr, ptr)\n"
        "declare i32 @pthread_detach(i64)\ndeclare i32 @usleep(i32)\n"
        "define ptr @wait(ptr %p) {\nentry:\n  br label %l\nl:\n  %n = call i32 @usleep(i32 1000)\n"
        "  %v = load volatile i32, ptr @go\n  %c = icmp ne i32 %v, 0\n"
        "  br i1 %c, label %l, label %e\ne:\n  ret ptr null\n}\n"
        "define void @start() {\n  %i = alloca i64\n"
        "  %r = call i32 @pthread_create(ptr %i, ptr null, ptr @wait, ptr null)\n"
        "  %n = load i64, ptr %i\n  %d = call i32 @pthread_detach(i64 %n)\n  ret void\n}"
    )
    fragmented(s)
    s.run("@start()")
    with pytest.raises(ArenaFull):
        s.run(sized(100, 4 * SIZE))
    s.check()
    s.run("@go = 0")
    deadline = time.monotonic() + 20
    while s.engine.executor.threads and time.monotonic() < deadline:
        time.sleep(0.01)
    s.run(sized(100, 4 * SIZE))
    assert s.compaction.moved and s.call("p100", 2) == 102
    s.check()


def test_nor_while_a_child_of_the_program_lives(fresh: Callable[..., Session]) -> None:
    s = fresh(capacity=2 << 20)
    s.run(
        "declare i32 @fork()\ndeclare i32 @usleep(i32)\ndeclare i32 @kill(i32, i32)\n"
        "declare i32 @waitpid(i32, ptr, i32)\n"
        "define i32 @start() {\n  %p = call i32 @fork()\n  %c = icmp eq i32 %p, 0\n"
        "  br i1 %c, label %child, label %own\n"
        "child:\n  %n = call i32 @usleep(i32 10000)\n  br label %child\nown:\n  ret i32 %p\n}\n"
        "define i32 @end(i32 %p) {\n  %k = call i32 @kill(i32 %p, i32 9)\n"
        "  %w = call i32 @waitpid(i32 %p, ptr null, i32 0)\n  ret i32 %w\n}"
    )
    fragmented(s)
    child = s.call("start")
    try:
        with pytest.raises(ArenaFull):
            s.run(sized(100, 4 * SIZE))
        assert not s.compaction.moved
    finally:
        assert s.call("end", child) == child
    s.run(sized(100, 4 * SIZE))
    assert s.compaction.moved and s.call("p100", 2) == 102
    s.check()


def test_nor_where_the_program_has_stacks_of_its_own(fresh: Callable[..., Session]) -> None:
    s = fresh(capacity=2 << 20)
    s.run("declare i32 @getcontext(ptr)\ndefine i32 @f(ptr %p) {\n"
          "  %r = call i32 @getcontext(ptr %p)\n  ret i32 %r\n}")  # fmt: skip
    fragmented(s)
    with pytest.raises(ArenaFull):
        s.run(sized(100, 4 * SIZE))
    assert not s.compaction.moved


# -- everything that leads to code that was moved ---------------------------------------------------


def moved(s: Session, *names: str) -> None:
    """Move those cells, to another place each."""
    rng = random.Random(1)
    for name in names:
        was = s.symbols[name].address
        while s.symbols[name].address == was:
            assert s.compaction.align(s.find(name)[0])
            shake(s, rng, 100)
        s.check()


def test_callers_pointers_and_views_follow(s: Session) -> None:
    s.run(SQ)
    s.run("@p = global ptr @sq\n@table = constant [2 x ptr] [ptr @sq, ptr null]")
    s.run(
        "define i32 @through(i32 %x) {\n  %f = load ptr, ptr @p\n  %r = call i32 %f(i32 %x)\n"
        "  %s = call i32 @sq(i32 %x)\n  %t = add i32 %r, %s\n  ret i32 %t\n}\n"
        "define ptr @which() {\n  ret ptr @sq\n}"
    )
    pointer = s.call("which")
    for _ in range(5):
        moved(s, "sq", "through")
        assert s.call("through", 3) == 18 and s["p"].value == pointer == s.call("which")
        assert s.describe(s.symbols["sq"].address).startswith("@sq")
        assert s.places.code(s.symbols["through"].address + 1).startswith("@through+1")
    s.run(CUBE)
    moved(s, "through")
    assert s.call("through", 3) == 54
    s.undo()
    assert s.call("through", 3) == 18
    s.hibernate("sq")
    moved(s, "through")
    assert s.call("through", 3) == 18


def test_instructions_run_where_their_cell_was_moved_to_meanwhile(s: Session) -> None:
    """They are part of its code; before their turn comes another cell may be placed."""
    runner = Runner(s)
    call = runner._call_block

    def moving(*arguments):
        cell = next(iter(s.cells))
        was = cell.image.text.start
        while cell.image.text.start == was:
            shake(s, random.Random(2), 100)
        s.check()
        assert arguments[1] - was == runner.entry - cell.image.text.start
        return call(arguments[0], runner.entry, arguments[2])

    runner._call_block = moving
    with s.turn():
        result = runner.run(
            "define internal i32 @own(i32 %x) noinline {\n  %y = add i32 %x, 4\n  ret i32 %y\n}\n"
            "%v = call i32 @own(i32 1)"
        )
    assert result.value == 5


def test_a_fault_in_code_that_was_moved_names_its_line(s: Session) -> None:
    s.run("define i32 @get(ptr %p) {\n  %v = load volatile i32, ptr %p\n  ret i32 %v\n}")
    moved(s, "get")
    with pytest.raises(Exception, match=r"(?s)null pointer.*@get.*line 2"):
        s.call("get", 0)


def test_jump_tables_and_constants_of_code_that_was_moved(s: Session) -> None:
    cases = "\n".join(f"    i32 {i}, label %l{i}" for i in range(8))
    blocks = "\n".join(f"l{i}:\n  store i32 {i * 7}, ptr @last\n  br label %end" for i in range(8))
    s.run(
        f"@last = global i32 0\n@squares = constant [4 x i32] [i32 0, i32 1, i32 4, i32 9]\n"
        f"define i32 @jump(i32 %x) {{\n  switch i32 %x, label %end [\n{cases}\n  ]\n{blocks}\n"
        "end:\n  %i = and i32 %x, 3\n  %p = getelementptr i32, ptr @squares, i32 %i\n"
        "  %v = load i32, ptr %p\n  ret i32 %v\n}"
    )
    for i in range(8):
        moved(s, "jump")
        assert s.call("jump", i) == (i & 3) ** 2 and s["last"].value == i * 7


def test_exceptions_cross_code_that_was_moved(s: Session) -> None:
    if not _has_cxx(s):
        pytest.skip("libstdc++ cannot be loaded")
    s.run(
        "@_ZTIi = external constant ptr\ndeclare ptr @__cxa_allocate_exception(i64)\n"
        "declare void @__cxa_throw(ptr, ptr, ptr)\n"
        "define void @thrower() {\n  %e = call ptr @__cxa_allocate_exception(i64 4)\n"
        "  store i32 77, ptr %e\n  call void @__cxa_throw(ptr %e, ptr @_ZTIi, ptr null)\n"
        "  unreachable\n}"
    )
    s.run(
        "declare i32 @__gxx_personality_v0(...)\ndeclare ptr @__cxa_begin_catch(ptr)\n"
        "declare void @__cxa_end_catch()\ndeclare void @thrower()\n"
        "define i32 @catcher() personality ptr @__gxx_personality_v0 {\n"
        "  invoke void @thrower() to label %fine unwind label %bad\nfine:\n  ret i32 0\n"
        "bad:\n  %l = landingpad { ptr, i32 } catch ptr null\n"
        "  %x = extractvalue { ptr, i32 } %l, 0\n  %p = call ptr @__cxa_begin_catch(ptr %x)\n"
        "  %v = load i32, ptr %p\n  call void @__cxa_end_catch()\n  ret i32 %v\n}"
    )
    for which in (("thrower",), ("catcher",), ("catcher", "thrower")):
        moved(s, *which)
        assert s.call("catcher") == 77


def test_a_saved_session_has_code_where_it_was_moved(
    fresh: Callable[..., Session], tmp_path
) -> None:
    path = str(tmp_path / "s.jit")
    with Session(capacity=64 << 20, store_path=path) as s:
        s.run(SQ)
        s.run("define i32 @two(i32 %x) {\n  %r = call i32 @sq(i32 %x)\n  ret i32 %r\n}")
        moved(s, "sq", "two")
        where = s.symbols["sq"].address
    s = fresh(store_path=path)
    assert s.symbols["sq"].address == where and s.call("two", 5) == 25
    s.check()
    moved(s, "two", "sq")
    assert s.call("two", 5) == 25


@pytest.mark.parametrize("seed", range(3))
def test_a_walk_whose_code_is_moved_after_each_step(seed: int) -> None:
    rng, count = random.Random(seed), 0
    with Session(capacity=64 << 20, spare=False) as s:
        walk = Walk(s)
        for _ in range(250):
            take_step(walk, rng)
            count += shake(s, rng)
            walk.check(rng.sample(FUNCTIONS, 3))
            s.check()
        walk.check()
    assert count > 200


@pytest.mark.parametrize("seed", range(2))
def test_a_walk_with_code_that_is_away_and_sessions_that_are_saved(tmp_path, seed: int) -> None:
    rng, count = random.Random(seed), 0
    home = str(tmp_path / "home.jks")
    walk = AwayWalk(
        Session(capacity=64 << 20, spare=False, store_path=home, autosave=True), tmp_path
    )
    try:
        for _ in range(400):
            away_step(walk, rng)
            with walk.s.turn():
                count += shake(walk.s, rng)
            walk.check([])
            walk.s.check()
        walk.check()
    finally:
        walk.s.close()
    assert count > 100
