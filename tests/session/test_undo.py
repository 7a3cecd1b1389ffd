"""Taking runs and evictions back: the same definitions at the same addresses, the same data."""

from __future__ import annotations

import pytest
from programs import constant

from jitkernel.errors import UsageError


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


def test_words_that_point_into_the_heap_are_counted(s):
    s.run("@p = global ptr null\n@q = global ptr null")
    s.run("@p = @malloc(16)\n@q = @malloc(16)")
    s.run("@p = null\n@q = null")
    said = s.undo()
    assert "2 restored words point into the executor's heap" in said[0]
    assert s["p"].value > 0x10000


def test_undo_can_be_switched_off(either):
    s = either(undo_depth=0)
    s.run("@g = global i32 1")
    s.run("@g = global i32 2")
    with pytest.raises(UsageError, match="nothing to undo"):
        s.undo()
    s.evict("g")
    assert s.memory()["zones"]["data"]["used"] == 0
    s.check()


@pytest.mark.parametrize("way", ["undo", "redo", "trim"])
def test_a_string_of_a_run_that_only_looked_stays_as_it_is(s, way):
    """It is where another one was that nothing remembers, beside data of earlier runs."""
    s.run("@p = global ptr null\n@n = global i32 0")
    first = s.run('@p = "aaaaaaaaaaaa"').cell
    at = s["p"].value
    s.run("@p = ptr null\n@n = 1")
    s.evict(first.number)
    s.configure("undo_depth", 0)  # nothing is remembered
    s.configure("undo_depth", 20)
    s["p"].value = at
    s.run("@n = 5")
    if way == "redo":
        s.undo()
    look = s.run('@p = "bbbbbbbbbbbb"').cell
    assert s["p"].value == at
    if way == "trim":
        s.configure("undo_depth", 1)
    if way == "redo":
        s.redo()
    else:
        s.undo()
    assert s["n"].value == (5 if way == "redo" else 1)
    assert look in s.cells
    assert s.inspect.engine.arena.read(int(at), 13) == b"bbbbbbbbbbbb\0"
    s.configure("undo_depth", 20)
