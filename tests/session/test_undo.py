"""Taking runs and evictions back: the same definitions at the same addresses, the same data."""

from __future__ import annotations

import pytest
from programs import CUBE, SQ, caller, constant, state

from jitkernel.errors import UsageError


def test_a_definition_goes(s):
    s.run(SQ)
    said = s.undo()
    assert said == [f"undone: cell {s.number}: define i32 @sq(i32 %x) {{"]
    assert "sq" not in s and s.cells == []
    with pytest.raises(UsageError, match="nothing to undo"):
        s.undo()


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
