"""Variables that a cell's statements make: they are the cell's own, as those it defines."""

from __future__ import annotations

import pytest
from programs import SQ, constant

from jitkernel.errors import EvictError


def test_a_cell_with_new_variables_is_one_cell_and_one_step_back(s):
    number = s.run(SQ + '\n@n = i64 5\n@m = @sq(7)\n@p = ptr "text"\n@sq(2)').cell.number
    assert [c.number for c in s.cells] == [number] and s.number == number
    assert sorted(s.cells[0].names) == ["m", "n", "p", "sq"]
    assert (s["n"].value, s["m"].value) == (5, 49)
    assert s.run("@strlen(load @p)").value == 4
    s.undo()
    assert s.cells == [] and not any(y.defined for y in s.symbols.values())
    s.inspect.history.forget_undone()
    assert s.memory()["zones"]["data"]["used"] == 0
    s.check()


def test_only_assignments(s):
    number = s.run("@a = i64 5\n@b = i64 6\n@c = { i8, i64 } { i8 1, i64 2 }\n@b").cell.number
    assert [c.number for c in s.cells] == [number] and s.cells[0].names == ["a", "b", "c"]
    assert s["c"].value == (1, 2)
    s.run("define i64 @get() {\n  %v = load i64, ptr @b\n  ret i64 %v\n}")
    assert s.call("get") == 6
    with pytest.raises(EvictError, match="uses @b"):
        s.evict(number)


def test_taken_over_by_another_cell_and_back(s):
    first = s.run("@a = i64 5\n@b = i64 6").cell.number
    s.run("define i64 @get() {\n  %v = load i64, ptr @b\n  ret i64 %v\n}")
    address = s.symbols["b"].address
    r = s.run("@b = global i64 7")
    assert any(f"@b moved from cell {first}" in n for n in r.notes)
    assert s.call("get") == 7 and s.symbols["b"].address == address
    s.run("@a = global i64 8")
    assert first not in [c.number for c in s.cells]
    s.check()
    s.undo(2)
    assert (s["a"].value, s["b"].value, s.call("get"), s.symbols["b"].cell) == (5, 6, 6, first)
    s.check()
    s.evict("a", cascade=True)
    s.undo()
    assert (s["a"].value, s.call("get")) == (5, 6)
    s.check()


def test_a_notebook_cell_run_again(s):
    s.run("@a = i64 5\n@b = i64 6\n" + constant("f", 1), cell_id="x")
    second = s.run("@a = i64 7\n@c = i64 8\n" + constant("f", 2), cell_id="x").cell.number
    assert [c.number for c in s.cells] == [second]
    assert (s["a"].value, s["c"].value, "b" in s) == (7, 8, False)
    s.undo()
    assert (s["a"].value, s["b"].value, "c" in s, s.call("f")) == (5, 6, False, 1)
    s.check()
