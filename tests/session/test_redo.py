"""Doing again what was taken back; taking back one run of several; what undo leaves as it is."""

from __future__ import annotations

import pytest
from programs import CUBE, SQ, caller, constant, state

from jitkernel.errors import (
    EvictError,
    TypeMismatch,
    UndefinedSymbol,
    UsageError,
)
from jitkernel.session import CellOptions

RETYPE = CellOptions(retype=True)


def known(s):
    """What undo and redo must bring back: cells, symbols, types, results, every variable's bytes.

    Symbols that are only held for undo or redo are nobody's business.
    """
    whole = state(s)
    live = [b.extent for c in s.cells for b in (*c.strings, *(c.image.blocks if c.image else ()))]
    return {
        "cells": whole["cells"],
        "ids": whole["ids"],
        "types": whole["types"],
        "results": whole["results"],
        "last": whole["last"],
        "symbols": {
            n: (y.state, y.address if y.kind == "variable" else 0, y.type, y.cell)
            for n, y in s.symbols.items()
            if y.cell or y.users
        },
        "data": {
            e.start: s.inspect.engine.arena.read(e.start, e.size) for e in live if e.zone == "data"
        },
    }


# -- redo --------------------------------------------------------------------------------------------

STEPS = {
    "define": lambda s: s.run(constant("new", 1) + "\n@fresh = global i64 5"),
    "redefine": lambda s: s.run(CUBE + "\n@g = global i32 6"),
    "the same notebook cell": lambda s: s.run(CUBE, cell_id="a"),
    "a notebook cell that defines nothing": lambda s: s.run("@sq(2)", cell_id="c"),
    "retype": lambda s: s.run("define i64 @one(i64 %x) {\n  ret i64 %x\n}\n", options=RETYPE),
    "retype a variable": lambda s: s.run("@g = global i64 7", options=RETYPE),
    "assign": lambda s: s.run("@g = 77"),
    "string": lambda s: s.run('@p = "a string"'),
    "new variables": lambda s: s.run("@h = i64 4\n@k = [3 x i8] [i8 1, i8 2, i8 3]"),
    "evict with --cascade": lambda s: s.evict("one", cascade=True),
    "evict with --force": lambda s: s.evict("one", force=True),
    "moved": lambda s: s.run(constant("one", 11)),
    "a type": lambda s: s.run("%pt = type { i64 }\n@b = global %pt zeroinitializer"),
    "results": lambda s: s.run("@g = 3\n@sq(12)"),
}


@pytest.fixture
def some(s):
    """A session with something of everything."""
    s.run("%pt = type { i32, i32 }\n@a = global %pt zeroinitializer")
    s.run(SQ + "\n@g = global i32 5\n@p = global ptr @sq", cell_id="a")
    s.run(constant("one", 1), cell_id="b")
    s.run(caller("use", "one", 4) + "\n@t = global ptr @one", cell_id="c")
    s.run("define i32 @reads() {\n  %v = load i32, ptr @g\n  ret i32 %v\n}")
    s.run("@sq(3)")
    return s


@pytest.mark.parametrize("name", STEPS)
def test_undo_and_redo_bring_back_everything(some, name):
    s = some
    before = known(s)
    STEPS[name](s)
    after = known(s)
    for _ in range(2):
        assert s.undo()[0].startswith("undone: ")
        assert known(s) == before
        s.check()
        assert s.redo()[0].startswith("redone: ")
        assert known(s) == after
        s.check()
    s.undo()
    assert known(s) == before
    assert s.call("use") == 5 and s.call("reads") == 5 and s.call("sq", 4) == 16


def test_nothing_to_redo(s):
    with pytest.raises(UsageError, match="nothing to redo"):
        s.redo()
    s.run("@g = global i32 1")
    s.run("@g = 2")
    s.undo()
    s.run("@g = 3")
    with pytest.raises(UsageError, match="nothing to redo"):
        s.redo()
    assert s["g"].value == 3
    s.undo()
    with pytest.raises(UsageError, match="only 1"):
        s.redo(2)
    s["g"].value = 9
    with pytest.raises(UsageError, match="globals were changed since"):
        s.redo()
    assert s["g"].value == 9


# -- one run of several --------------------------------------------------------------------------------


WAYS = {
    "uses": (constant("f", 1), caller("use", "f"), "uses @f"),
    "defines again": (constant("f", 1), constant("f", 2), "defines @f again"),
    "writes": ("@g = 2", "@g = 3", "writes @g too"),
    "writes what it made": ("@new = global i32 1", "@new = 3", "writes @new too"),
    "the same type": ("%pt = type { i8 }\n@a = global %pt zeroinitializer",
                      "%pt = type { i16 }\n@b = global %pt zeroinitializer", "defines %pt again"),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_a_run_that_others_build_on(s, way):
    first, second, why = WAYS[way]
    s.run("@g = global i32 1")
    s.run(first)
    number = s.number
    s.run(constant("alone", 1))
    s.run(second)
    later = s.number
    before = known(s)
    with pytest.raises(EvictError, match="build on it") as caught:
        s.undo(cell=number)
    assert known(s) == before
    assert len(caught.value.dependents) == 1
    assert f"cell {later}: " in caught.value.dependents[0] and why in caught.value.dependents[0]
    said = s.undo(cell=number, cascade=True)
    assert [w.split(":")[1].strip() for w in said] == [f"cell {later}", f"cell {number}"]
    assert s.call("alone") == 1 and s["g"].value == 1 and len(s.cells) == 2
    s.check()
    s.redo(2)
    assert known(s) == before


def test_by_name(s):
    s.run(constant("f", 1))
    s.run(constant("f", 2))
    s.run(constant("g", 3))
    s.undo(name="f")
    assert s.call("f") == 1 and s.call("g") == 3
    with pytest.raises(UsageError, match="defined @nothing"):
        s.undo(name="@nothing")


def test_a_run_that_is_not_there(s):
    s.run("@g = global i32 1")
    s.run("@g")
    with pytest.raises(UsageError, match="changed nothing"):
        s.undo(cell=s.number)
    with pytest.raises(UsageError, match="not among the last"):
        s.undo(cell=s.number + 5)


# -- what stays ------------------------------------------------------------------------------------------


@pytest.mark.process
def test_what_was_printed_is_said(s):
    s.run('@g = global i32 1\n@puts("hello")')
    assert "not undone: 6 bytes that it printed" in s.undo()[0]


def test_memory_and_files_of_the_program_are_said(s):
    s.run("@p = global ptr null")
    s.run("define ptr @make() {\n  %p = call ptr @malloc(i64 4)\n  ret ptr %p\n}")
    s.run("@p = @make()")
    assert "the heap (@malloc)" in s.undo()[0]
    s.run('@p = @fopen("/dev/null", "r")')
    assert "files (@fopen)" in s.undo()[0]
    s.run("@p = null")
    assert "not undone" not in s.undo()[0]


def test_constructors_and_destructors_are_said(s):
    s.run(
        "@n = global i32 0\n@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 65535, ptr @up, ptr null }]\n"
        "@llvm.global_dtors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 65535, ptr @down, ptr null }]\n"
        "define void @up() {\n  store i32 5, ptr @n\n  ret void\n}\ndefine void @down() {\n  store i32 9, ptr @n\n  ret void\n}"
    )
    number = s.number
    said = s.undo()
    assert f"the constructors of cell {number}" in said[0]
    assert f"the destructors of cell {number} ran" in said[0]
    s.redo()
    assert s["n"].value == 5, "the destructor's store is taken back"


# -- defects that stay away ----------------------------------------------------------------------------


def test_a_variable_that_moved_outlives_the_history(s):
    """The cell that has it comes back while nobody has it, and holds its bytes from then on."""
    s.run("@g = global i32 1\n" + constant("f", 1))
    first = s.number
    s.run("@g = global i32 2\n" + constant("h", 1))
    number = s.number
    s.evict(first)
    s.evict(number)
    s.undo()
    s.inspect.history.clear()
    s.check()
    assert s["g"].value == 2
    for n in range(20):
        s.run(f"@x{n} = global i32 {n}")
    assert s["g"].value == 2


def test_an_older_notebook_cell_that_is_evicted_and_comes_back_is_not_the_present_one(s):
    s.run(constant("f", 1), cell_id="a")
    s.run(caller("use", "f"), cell_id="b")
    s.run(constant("g", 1), cell_id="a")  # the first stays for its user
    number = s.number
    s.evict(1 + number - 3, cascade=True)
    s.undo()
    assert s.inspect.program.state.ids["a"] == number
    s.run(constant("g", 2), cell_id="a")
    assert s.call("use") == 1 and s.call("g") == 2


def test_an_eviction_by_force_says_again_why(s):
    s.run(constant("f", 1))
    s.run(caller("use", "f"))
    s.evict("f", force=True)
    s.run(constant("f", 2))
    s.undo()
    with pytest.raises(UndefinedSymbol, match="was evicted"):
        s.call("use")
    s.undo()
    s.redo()
    with pytest.raises(UndefinedSymbol, match="was evicted"):
        s.call("use")


def test_a_user_that_comes_back_still_knows_the_type_of_what_is_gone(s):
    s.run(constant("f", 1))
    s.run(caller("use", "f"))
    user = s.number
    s.evict("f", force=True)
    s.evict(user)
    s.configure("undo_depth", 1)  # nothing remembers @f any more
    s.configure("undo_depth", 20)
    s.undo()
    with pytest.raises(TypeMismatch):
        s.run("define i64 @f(i64 %x) {\n  ret i64 1\n}")


def test_what_would_come_back_has_to_fit_what_a_missing_name_is_by_now(s):
    use = "declare i64 @t()\ndefine i64 @f() {\n  %r = call i64 @t()\n  ret i64 %r\n}"
    s.run(use, cell_id="x")
    number = s.run("define i32 @other() {\n  ret i32 1\n}", cell_id="x").cell.number
    s.run("define i32 @t() {\n  ret i32 5\n}")
    with pytest.raises(
        EvictError, match=r"defines @t as i32 \(\); cell \d+, which would come back"
    ):
        s.undo(cell=number)
    s.undo(cell=number, cascade=True)
    with pytest.raises(TypeMismatch, match=r"is i64 \(\) and would become i32 \(\), but cell"):
        s.run("define i32 @t() {\n  ret i32 5\n}")


def test_what_would_come_back_has_to_fit_what_others_take_a_name_for(s):
    call = "declare {0} @t()\ndefine {0} @{1}() {{\n  %r = call {0} @t()\n  ret {0} %r\n}}"
    s.run(call.format("i64", "f"), cell_id="x")
    number = s.run("define i32 @other() {\n  ret i32 1\n}", cell_id="x").cell.number
    s.run(call.format("i32", "g"))
    with pytest.raises(EvictError, match=r"uses @t as i32 \(\); that would be i64 \(\) again"):
        s.undo(cell=number)


def test_a_cell_with_a_stand_in_comes_back_with_it_alone(s):
    call = "declare {0} @t()\ndefine {0} @{1}() {{\n  %r = call {0} @t()\n  ret {0} %r\n}}"
    s.run("define i64 @t() {\n  ret i64 5\n}")
    s.run(call.format("i64", "f"))
    s.run("define i32 @t() {\n  ret i32 5\n}", options=RETYPE)
    s.evict("t", force=True)
    s.run(call.format("i32", "g"))
    s.evict("f")
    s.undo(1)
    s.check()
    s.run("define i32 @t() {\n  ret i32 7\n}")
    assert s.call("g") == 7
    with pytest.raises(TypeMismatch, match=r"run cell \d+ again"):
        s.call("f")


def test_a_cell_that_took_another_ones_place_is_done_again_with_its_own_types(s):
    call = "declare {0} @t()\ndefine {0} @{1}() {{\n  %r = call {0} @t()\n  ret {0} %r\n}}"
    for kind in "i32", "i64":
        s.run(call.format(kind, "f"), cell_id="x")
    for _ in range(2):
        s.undo()
        with pytest.raises(TypeMismatch, match=r"is i32 \(\) and would become i64 \(\)"):
            s.run("define i64 @t() {\n  ret i64 5\n}")
        s.redo()
        with pytest.raises(TypeMismatch, match=r"is i64 \(\) and would become i32 \(\)"):
            s.run("define i32 @t() {\n  ret i32 5\n}")
