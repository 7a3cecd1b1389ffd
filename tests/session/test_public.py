"""What a user sees of a session: its names, and no machinery."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from jitkernel import Session, views
from jitkernel.errors import CompileError, JitError, UnknownName
from jitkernel.session import FrontendSide

OPERATIONS = """
    array budget call cells chdir check close closed compile configure contexts debugger describe
    evict export export_python find frontend gc hibernate inspect interrupt keep later link load memory
    number on_hot place portable read redo reproduce reset respawn restore restored run run_many save serve
    setenv share sink source stack_maps symbols time types undo unwatch value wake watch watched write
""".split()
FRONTEND = """
    aside begin_cell core count_edges drain end_cell idle look_after output_fds time_beside
""".split()


def public(names: list[str]) -> list[str]:
    return [name for name in names if not name.startswith("_")]


def test_a_session_shows_what_its_users_want(s: Session) -> None:
    assert public(dir(Session)) == public(dir(s)) == sorted([*OPERATIONS, "results", "settings"])


def test_what_frontends_need_is_apart(s: Session) -> None:
    assert public(dir(s.frontend)) == FRONTEND
    assert not set(FRONTEND) & set(dir(s))


@pytest.mark.parametrize("of", [Session, FrontendSide])
def test_each_says_what_it_is_and_what_it_gives(of: type) -> None:
    for name in public(dir(of)):
        member = inspect.getattr_static(of, name)
        member = getattr(member, "__func__", member)
        function = member.fget if isinstance(member, property) else member
        assert inspect.getdoc(function), name
        if inspect.ismemberdescriptor(function):  # what it has from its beginning
            continue
        assert "return" in inspect.unwrap(function).__annotations__, name


def test_a_session_says_whether_it_has_ended() -> None:
    with Session(capacity=64 << 20, spare=False) as session:
        assert not session.closed
    assert session.closed


# -- names, paths and arguments ------------------------------------------------------------------


def test_a_name_is_looked_up_as_in_a_mapping(s: Session) -> None:
    s.run("define i32 @sq(i32 %x) {\n  ret i32 %x\n}\n@size = global i32 5")
    for table in (s, s.symbols):
        with pytest.raises(UnknownName, match=r"^@siz is not defined .*; did you mean @size\?$"):
            table["siz"]
        with pytest.raises(KeyError):
            table["@nothing_like_it"]
    assert "sq" in s.symbols and "@sq" in s.symbols and "siz" not in s.symbols
    assert 3 not in s.symbols and s.symbols.get("siz") is None and s.symbols.get("siz", 7) == 7
    with pytest.raises(UnknownName, match="3 is none"):
        s[3]  # type: ignore[index]
    s.run("declare i32 @later()\ndefine i32 @use() {\n  %r = call i32 @later()\n  ret i32 %r\n}")
    with pytest.raises(UnknownName, match=r"^@later is not defined in this session$"):
        s["later"]  # which is known by that name, and is not defined


def test_what_a_cell_has_for_itself_is_told(s: Session) -> None:
    s.run("define internal i32 @own() {\n  ret i32 1\n}\n@its_text = private global i32 1")
    for asked in ("@own()", "@own", "@its_text"):
        with pytest.raises(CompileError, match=r"it is private to cell \d"):
            s.run(asked)


def test_paths_may_be_objects(tmp_path: Path) -> None:
    with Session(capacity=64 << 20, store_path=tmp_path / "own.jks") as s:
        s.run("define i32 @sq(i32 %x) {\n  ret i32 %x\n}")
        s.save(tmp_path / "saved.jks")
        s.export("sq", tmp_path / "sq.o")
        s.export("sq", tmp_path / "libsq.so")
        s.chdir(tmp_path)
        s.evict("sq")
        s.link(tmp_path / "sq.o")
        s.load(tmp_path / "libsq.so")
    with Session.restore(
        tmp_path / "saved.jks", capacity=64 << 20, store_path=tmp_path / "copy.jks"
    ) as s:
        assert s.call("sq", 3) == 3
    assert {p.name for p in tmp_path.iterdir()} >= {"own.jks", "copy.jks"}


@pytest.mark.parametrize("kind", ["process", "inline"])
def test_what_a_session_that_has_ended_cannot_do_it_says_so(kind: str) -> None:
    session = Session(capacity=64 << 20, spare=False, executor=kind)
    session.run("define i32 @f() {\n  ret i32 3\n}\n@n = global i32 3")
    f, n = session["f"], session["n"]
    before = n.array
    session.close()
    asked: list[Callable[[], object]] = [
        session.memory, f, lambda: f.address, lambda: n.value, lambda: n.typed, lambda: n.array,
        lambda: n.address, lambda: setattr(n, "value", 4), lambda: views.draw(session, "n"),
    ]  # fmt: skip
    for ask in asked:
        with pytest.raises(JitError, match="closed"):
            ask()
    # What is written down stays.
    assert (repr(session), repr(f), repr(n)) == ("<Session, closed>", "<@f i32 ()>", "<@n gone>")
    assert set(session.symbols) == {"f", "n"} and session.cells[0].number == 1
    assert before.item() == 3
