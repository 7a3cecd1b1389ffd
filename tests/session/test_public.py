"""What a user sees of a session: its names, and no machinery."""

from __future__ import annotations

import inspect

import pytest

from jitkernel import Session
from jitkernel.session import FrontendSide

OPERATIONS = """
    array budget call cells chdir check close closed compile configure contexts describe evict
    export export_python find frontend gc hibernate inspect interrupt keep link load memory number
    place portable read redo reset respawn restore restored run run_many save setenv share sink
    source symbols time types undo unwatch value wake watch watched write
""".split()
FRONTEND = """
    aside begin begun cell_options drain idle look_after operating output_fds put_off scratch start
    stoppable time_beside withheld
""".split()


def public(names: list[str]) -> list[str]:
    return [name for name in names if not name.startswith("_")]


def test_a_session_shows_what_its_users_want(s: Session) -> None:
    assert public(dir(Session)) == OPERATIONS
    assert set(public(dir(s))) == {*OPERATIONS, "results", "settings"}


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
        assert "return" in inspect.unwrap(function).__annotations__, name


def test_a_session_says_whether_it_has_ended() -> None:
    with Session(capacity=64 << 20, spare=False) as session:
        assert not session.closed
    assert session.closed
