"""Taking runs and evictions back: the same definitions at the same addresses, the same data."""

from __future__ import annotations

import random

import pytest
from programs import CUBE, SQ, caller, constant, state

from jitkernel.errors import CompileError, Fault, UsageError


def places(s):
    """Address and bytes of every variable."""
    return {
        n: (y.address, s.inspect.engine.arena.read(y.address, y.size))
        for n, y in s.symbols.items()
        if y.kind == "variable" and y.defined
    }


def test_a_definition_goes(s):
    s.run(SQ)
    said = s.undo()
    assert said == [f"undone: cell {s.number}: define i32 @sq(i32 %x) {{"]
    assert "sq" not in s and s.cells == []
    with pytest.raises(UsageError, match="nothing to undo"):
        s.undo()


def test_an_earlier_definition_comes_back(s):
    s.run(SQ)
    s.run(caller("use", "one").replace("@one()", "@sq(i32 3)"))
    s.run(CUBE)
    assert s.call("use") == 27
    s.undo()
    assert s.call("use") == s.call("sq", 3) == 9


def test_globals_come_back_byte_for_byte(s):
    s.run("@g = global [1000 x i32] zeroinitializer\n@h = global i64 5")
    s.run(
        "define void @fill(i32 %x) {\nentry:\n  br label %l\nl:\n  %i = phi i64 [ 0, %entry ], [ %j, %l ]\n  %p = getelementptr [1000 x i32], ptr @g, i64 0, i64 %i\n  store i32 %x, ptr %p\n  %j = add i64 %i, 1\n  %m = icmp ult i64 %j, 1000\n  br i1 %m, label %l, label %d\nd:\n  ret void\n}"
    )
    seen = [places(s)]
    for x in range(1, 6):
        s.run(f"@fill({x})\n@h = {x * 100}")
        seen.append(places(s))
    for wanted in reversed(seen[:-1]):
        s.undo()
        assert places(s) == wanted


def test_what_was_written_between_runs_counts_to_the_run_before(s):
    s.run("@g = global i32 1")
    s.run("@g = 2")
    s["g"].value = 3
    s.run("@g = 4")
    s.undo()
    assert s["g"].value == 3
    s.undo()
    assert s["g"].value == 1


def test_undo_of_an_eviction(s):
    s.run("@g = global i32 1\n@p = global ptr @f\n" + constant("f", 5))
    s.run("@g = 77")
    before, call = places(s), s["f"].address
    s.evict("g", force=True)
    assert "g" not in s and "f" not in s
    s.undo()
    assert places(s) == before and s["f"].address == call and s.call("f") == 5
    s.run(constant("f", 6))
    assert s.call("f") == 6


def test_pointers_to_private_functions_and_data_are_right_after_undo(s):
    s.run(
        "define internal i32 @hidden() noinline {\n  ret i32 5\n}\n@table = global [2 x ptr] [ptr @hidden, ptr @priv]\n@priv = internal global i32 9\n"
        "@other = internal constant [2 x ptr] [ptr @hidden, ptr @priv]\n"
        "define i32 @go(i64 %i) {\n  %f = load ptr, ptr @table\n  %r = call i32 %f()\n  %q = getelementptr ptr, ptr @other, i64 %i\n  %p = load ptr, ptr %q\n  %v = load i32, ptr %p\n  %s = add i32 %r, %v\n  ret i32 %s\n}"
    )
    assert s.call("go", 1) == 14
    s.evict("go", force=True)
    for n in range(40):  # other code takes the place that it had
        s.run(constant(f"x{n}", n))
    s.evict(*[f"x{n}" for n in range(40)])
    s.settings.undo_depth = 100
    for _ in range(19):
        s.undo()
    s.check()


def test_code_that_cannot_go_back_to_its_place(s):
    s.run(
        "define internal i32 @hidden() noinline {\n  ret i32 5\n}\n@table = global ptr @hidden\ndefine i32 @go() {\n  %f = load ptr, ptr @table\n  %r = call i32 %f()\n  %s = add i32 %r, 1\n  ret i32 %s\n}"
    )
    was = s.symbols["go"].address
    s.evict("go", force=True)
    # A thunk is linked into the gap and stays.
    for bits in (51, 52, 53, 54):
        s.call("abs", 1)
        s.run(f"define i{bits} @w{bits}(i{bits} %x) {{\n  ret i{bits} %x\n}}\n@w{bits}(1)")
    s.undo(5)
    assert s.call("go") == 6, f"at {s.symbols['go'].address:#x}, before at {was:#x}"
    s.check()


def test_twenty_deep_and_no_deeper(s):
    s.run(constant("f", 0) + "\n@g = global i32 0")
    for n in range(1, 26):
        s.run(f"{constant('f', n)}\n@g = {n}")
    for n in range(24, 4, -1):
        s.undo()
        assert (s.call("f"), s["g"].value) == (n, n)
        s.check()
    with pytest.raises(UsageError, match="nothing to undo"):
        s.undo()
    assert s.call("f") == 5


def test_many_at_once(s):
    for n in range(6):
        s.run(constant("f", n))
    said = s.undo(4)
    assert len(said) == 4 and s.call("f") == 1


def test_runs_without_effect_are_passed_over(s):
    s.run(SQ)
    s.run("@sq(3)")
    s.run("@sq(4)")
    s.undo()
    assert "sq" not in s


def test_partly_superseded_cells(s):
    s.run("\n".join([constant("a", 1), constant("b", 1), constant("c", 1), "@v = global i32 1"]))
    s.run(caller("use", "a"))
    s.run(constant("b", 2))
    s.run(constant("c", 3) + "\n@v = global i32 3")
    s.run(constant("a", 4))

    def answers():
        return [s.call(n) for n in "abc"], s["v"].value, s.call("use")

    assert answers() == ([4, 2, 3], 3, 4)
    s.check()
    for wanted in (([1, 2, 3], 3, 1), ([1, 2, 1], 1, 1), ([1, 1, 1], 1, 1)):
        s.undo()
        assert answers() == wanted
        s.check()
    s.undo(2)
    assert s.cells == []
    s.check()


def test_cells_with_strings(s):
    s.run("@p = global ptr null\n@q = global ptr null")
    s.run('@p = "first"')
    s.run('@q = "second"')
    s.run("define i64 @len(ptr %p) {\n  %r = call i64 @strlen(ptr %p)\n  ret i64 %r\n}")
    used = s.memory()["zones"]["data"]["used"]
    s.run('@p = "third one"')
    assert s.run("@len(load @p)").value == 9
    s.undo()
    assert s.run("@len(load @p)").value == 5
    s.undo()
    s.undo()
    assert s["q"].value == 0 and s.run("@strlen(load @p)").value == 5
    s.check()
    s.run("@other = global i8 0")  # nothing is redone now
    assert s.memory()["zones"]["data"]["used"] <= used


def test_a_cell_with_strings_is_evicted_and_comes_back(s):
    s.run("@p = global ptr null")
    number = s.run('@p = "hello"').cell.number
    s.evict(number)
    s.undo()
    assert s.run("@strlen(load @p)").value == 5
    s.gc()
    s.check()
    assert s.run("@strlen(load @p)").value == 5


@pytest.mark.process
def test_undo_of_a_cell_that_faulted(s):
    s.run("@g = global i32 1")
    with pytest.raises(Fault):
        s.run("@g = 2\n@strlen(null)")
    assert s["g"].value == 2
    s.undo()
    assert s["g"].value == 1


def test_undo_after_failed_cells(s):
    s.run("@g = global i32 1")
    s.run("@g = 2")
    for _ in range(3):
        with pytest.raises(CompileError):
            s.run("define i32 @g( {")
    s.undo()
    assert s["g"].value == 1


def test_words_that_point_into_the_heap_are_counted(s):
    s.run("@p = global ptr null\n@q = global ptr null")
    s.run("@p = @malloc(16)\n@q = @malloc(16)")
    s.run("@p = null\n@q = null")
    said = s.undo()
    assert "2 restored words point into the executor's heap" in said[0]
    assert s["p"].value > 0x10000


def test_a_result_is_taken_back(s):
    s.run(SQ + "\n@sq(3)")
    s.run("@v = global i32 0\n@sq(4)")
    s.undo()
    assert s.run("@sq(_)").value == 81


def test_types_are_taken_back(s):
    s.run("%pt = type { i32, i32 }\n@a = global %pt zeroinitializer")
    s.run("%pt = type { i64 }\n@b = global %pt zeroinitializer")
    assert s.types["pt"] == "{ i64 }"
    s.undo()
    assert s.types["pt"] == "{ i32, i32 }"
    assert s["a"].value == (0, 0)
    s.undo()
    assert "pt" not in s.types


@pytest.mark.process
def test_a_respawn_in_between(s):
    s.run("@g = global i32 1\n" + SQ)
    s.run("@g = 2\n" + CUBE)
    s.respawn()
    s.undo()
    assert s["g"].value == 1 and s.call("sq", 3) == 9


def test_memory_is_given_back_when_undo_forgets(s):
    s.run("@big = global [100000 x i8] zeroinitializer")
    used = s.memory()["zones"]["data"]["used"]
    s.evict("big")
    assert s.memory()["zones"]["data"]["used"] == used, "kept for undo"
    for n in range(25):
        s.run(f"@g = global i32 {n}")
    assert s.memory()["zones"]["data"]["used"] < used / 2
    s.check()


def test_undo_can_be_switched_off(either):
    s = either(undo_depth=0)
    s.run("@g = global i32 1")
    s.run("@g = global i32 2")
    with pytest.raises(UsageError, match="nothing to undo"):
        s.undo()
    s.evict("g")
    assert s.memory()["zones"]["data"]["used"] == 0
    s.check()


def test_the_whole_state_comes_back(s):
    """Everything that a failed cell must leave alone, undo must give back, text addresses too."""
    s.run(SQ + "\n@g = global i32 5\n@p = global ptr @sq", cell_id="a")
    s.run(caller("use", "one").replace("@one()", "@sq(i32 3)"), cell_id="b")
    s.call("use")
    s.call("sq", 1)
    before = state(s)
    for source, cell_id in [
        (CUBE, None),
        (CUBE + "\n@g = global i32 6", "a"),
        (constant("new", 1), "b"),
        ("@g = 9\n@h = i64 4", None),
        ('@q = ptr "text"', "c"),
    ]:
        s.run(source, cell_id=cell_id)
        s.undo()
        s.inspect.history.forget_undone()  # what is kept for redo
        after = state(s)
        for part in ("bytes", "symbols", "cells", "ids", "types", "extents"):
            assert after[part] == before[part], (part, source)
        s.check()


@pytest.mark.parametrize("seed", range(3))
def test_random_walks_lead_back(s, seed):
    rng = random.Random(seed)
    names = ["a", "b", "c", "d"]

    def everything():
        return (
            {n: s.call(n) for n in names if n in s},
            {n: s[n.upper()].value for n in names if n.upper() in s},
            {n: s.symbols[n.upper()].address for n in names if n.upper() in s},
        )

    history = [everything()]
    for step in range(18):
        pieces = []
        for n in rng.sample(names, rng.randint(1, 3)):
            pieces.append(
                constant(n, step) if rng.random() < 0.6 else f"@{n.upper()} = global i32 {step}"
            )
        if rng.random() < 0.25 and s.cells:
            s.evict(rng.choice(s.cells), cascade=True)
        else:
            s.run("\n".join(pieces), cell_id=rng.choice([None, None, "x", "y"]))
        history.append(everything())
        s.check()
    history.pop()
    while history:
        s.undo()
        assert everything() == history.pop()
        s.check()


@pytest.mark.process
def test_a_user_of_a_variable_that_is_gone_comes_back_and_then_the_variable(s):
    s.run("@late = global i32 41")
    s.run("define i32 @reads() {\n  %v = load i32, ptr @late\n  ret i32 %v\n}")
    s.evict("late", force=True)
    s.evict("reads")
    s.undo()  # the function: nobody defines what it reads
    s.check()
    with pytest.raises(Fault, match="@late"):
        s.call("reads")
    s.undo()  # the variable
    s.check()
    assert s.call("reads") == 41
