"""A session that was saved comes back as it was."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pictures import picture
from programs import CUBE, SQ
from scenarios import ROUNDS

from jitkernel import Session, languages
from jitkernel.errors import UndefinedSymbol, UsageError
from jitkernel.languages import Language, plan, registry
from jitkernel.session.program.cell import CellState
from tests.seeds import sampled

SIZE = 16 << 20


def killed(path: Path) -> Path:
    """The file as a kill at this moment would leave it, under another name."""
    copy = path.with_name("killed.jks")
    for suffix in ("", "-wal"):
        if (found := Path(f"{path}{suffix}")).exists():
            shutil.copy(found, f"{copy}{suffix}")
        else:
            Path(f"{copy}{suffix}").unlink(missing_ok=True)
    return copy


@pytest.mark.parametrize("name", sampled(reversed(ROUNDS), 2))
def test_restored_equals(name: str, tmp_path: Path) -> None:
    path = tmp_path / "s.jks"
    with Session(capacity=SIZE, spare=False) as s:
        for step in ROUNDS[name]:
            step(s)
        s.save(str(path))
        before = picture(s)
    with Session.restore(str(path), spare=False) as s:
        after = picture(s)
        for part in before:
            assert after[part] == before[part], part
        s.check()
        if name == "hibernated":
            assert any(c.state is CellState.HIBERNATED for c in s.cells)
            assert (s.call("c"), s.call("sq", 4), s["p"].value) == (7, 16, s["p"].value)
        for cell in s.cells:
            if cell.number in s.inspect.program.cells:
                s.evict(cell, cascade=True)
        s.check()


@pytest.mark.parametrize("name", sampled(ROUNDS, 4))
def test_each_cell_is_saved(name: str, tmp_path: Path) -> None:
    path = tmp_path / "s.jks"
    with Session(capacity=SIZE, spare=False, store_path=str(path), autosave=True) as s:
        for step in ROUNDS[name]:
            step(s)
        before = picture(s)
        with Session.restore(str(killed(path)), spare=False) as copy:
            after = picture(copy)
            for part in before:
                assert after[part] == before[part], part
            copy.check()


def test_what_runs_in_a_restored_session_can_be_undone(tmp_path: Path) -> None:
    path = str(tmp_path / "s.jks")
    with Session(capacity=SIZE, spare=False) as s:
        s.run("@g = global i32 1\n" + SQ)
        s.run("@sq(3)", cell_id="x")
        s.save(path)
    with Session.restore(path, spare=False) as s:
        with pytest.raises(UsageError, match="nothing to undo"):
            s.undo()
        before = picture(s)
        s.run("@g = 7")
        s.run(CUBE)
        assert (s["g"].value, s.call("sq", 3)) == (7, 27)
        s.undo(2)
        assert (s["g"].value, s.call("sq", 3)) == (1, 9)
        after = picture(s)
        for part in ("cells", "symbols", "ids", "types"):
            assert after[part] == before[part], part
        assert s.run("_").value == 9
        s.check()


def test_what_is_written_after_a_cell_follows_what_it_changed(tmp_path: Path) -> None:
    path = tmp_path / "s.jks"
    with Session(capacity=64 << 20, spare=False, store_path=str(path), autosave=True) as s:
        s.run_many([f"define i32 @f{i}() {{\n  ret i32 {i}\n}}" for i in range(300)])
        s.run("@big = global [8000000 x i8] zeroinitializer\n@g = global i32 0")
        s.run("call ptr @memset(ptr @big, i32 1, i64 8000000)")
        db = s.inspect.store.tables.db

        def rows(cell: str) -> int:
            before = db.total_changes
            s.run(cell)
            return db.total_changes - before

        rows("@g = 1")
        assert rows("@g = 2") <= 4, "a page, two facts, the text"
        assert rows("store i8 2, ptr @big") <= 7
        assert rows("define i32 @new() {\n  ret i32 1\n}") <= 9
        assert rows("call ptr @memset(ptr @big, i32 3, i64 20000)") <= 13


def test_names_that_nobody_defines_are_said_as_before(tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    path = str(tmp_path / "c.jks")
    with Session(spare=False) as s:
        s.run("int later(int); int use(int x) { return later(x); }", "c")
        with pytest.raises(UndefinedSymbol) as before:
            s["use"](1)
        s.save(path)
    with Session.restore(path) as s:
        with pytest.raises(UndefinedSymbol) as after:
            s["use"](1)
        assert str(after.value) == str(before.value)
        assert str(after.value).startswith("call of later, which nobody defines")
        s.run("define i32 @last() {\n  ret i32 1\n}")
        s.save(path)
    with Session.restore(path) as s:
        with pytest.raises(UndefinedSymbol, match=r"^call of @later"):
            s["use"](1)
        assert s.run("1 + 2", "c").value == 3  # which leaves no declaration
        s.save(path)
    with Session.restore(path) as s, pytest.raises(UndefinedSymbol, match=r"^call of later"):
        s["use"](1)


def test_a_language_that_is_known_no_more_is_not_needed(tmp_path: Path) -> None:
    path = str(tmp_path / "gone.jks")
    gone = Language("gone", lambda source, known: plan(source))
    languages.add(gone)
    with Session(spare=False) as s:
        s.run(
            "declare i32 @later()\ndefine i32 @use() {\n  %r = call i32 @later()\n  ret i32 %r\n}"
        )
        s.run("anything", "gone")
        s.save(path)
    registry._loaded.pop("gone")
    with Session.restore(path) as s, pytest.raises(UndefinedSymbol, match=r"^call of @later"):
        s.call("use")
