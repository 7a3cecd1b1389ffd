"""Cells that nothing can reach: what a collection finds, frees, tells and leaves."""

from __future__ import annotations

import pytest
from programs import SQ, caller, constant

from jitkernel.errors import UsageError
from jitkernel.views.tables import garbage, undo


def replaced(s):
    """An old version of a notebook cell that its user has kept, and then the user goes."""
    old = s.run(constant("f", 1) + "\n@v = global [64 x i8] zeroinitializer", cell_id="a").cell
    s.run(caller("use", "f"), cell_id="b")
    s.run(constant("g", 1), cell_id="a")
    assert s.gc().cells == ()
    s.run(constant("use", 5), cell_id="b")
    return old.number


def test_an_old_version_goes_when_its_last_user_has(s):
    number = replaced(s)
    told = s.gc(dry_run=True)
    assert told.cells == ((number, ("f", "v")),) and told.dry_run and told.freed["text"] > 0
    assert number in [c.number for c in s.cells], "only told"
    found = s.gc()
    assert found.cells == told.cells and found.freed["text"] == told.freed["text"]
    assert found.undo["data"] == 64, "kept so that it can come back"
    assert "f" not in s and (s.call("g"), s.call("use")) == (1, 5)
    assert s.gc().cells == ()
    s.check()


def test_forgetting_what_could_be_undone(s):
    replaced(s)
    found = s.gc(undo=True)
    assert found.forgotten == 4 and not any(found.undo.values()) and not found.undo_data
    assert s.memory()["zones"]["data"]["used"] == 0
    with pytest.raises(UsageError, match="nothing to undo"):
        s.undo()
    s.check()


def test_garbage_that_refers_to_itself_goes_together(s):
    a = s.run("declare i32 @b()\n" + caller("a", "b"), cell_id="x").cell.number
    b = s.run("declare i32 @a()\n" + caller("b", "a"), cell_id="y").cell.number
    s.run(constant("c", 1), cell_id="x")
    s.run(constant("d", 1), cell_id="y")
    assert {n for n, _ in s.gc().cells} == {a, b}
    s.check()


def test_what_a_variable_points_to_stays(s):
    s.run("@table = global ptr null")
    s.run(
        "define internal i32 @hidden() noinline {\n  ret i32 7\n}\ndefine void @keep() {\n  store ptr @hidden, ptr @table\n  ret void\n}",
        cell_id="a",
    )
    s.run("define void @user() {\n  call void @keep()\n  ret void\n}", cell_id="b")
    s.run(SQ, cell_id="a")
    s.run("@user()")
    s.evict("user")
    assert s.gc().cells == ()
    s.run("@table = null")
    assert len(s.gc().cells) == 1


def test_views(s):
    number = replaced(s)
    shown = undo(s)
    assert "@use" in shown.text and max(map(len, shown.text.splitlines())) <= 100
    assert '<th scope="col"' in shown.html and "</caption>" in shown.html
    text = garbage(s, s.gc(dry_run=True)).text
    assert f"{number}" in text and "@f, @v" in text and "1 cell would be freed" in text
    assert "1 cell freed" in garbage(s, s.gc()).text
    assert "can no longer be undone" in garbage(s, s.gc(undo=True)).text
    assert "There is nothing to undo." in undo(s).text
