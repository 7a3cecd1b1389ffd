"""Runs that only looked: an undo passes over them."""

from __future__ import annotations

import pytest

from jitkernel import Session
from jitkernel.errors import UsageError

LOOKS = {
    "a call": ("f(3)", "c"),
    "a variable": ("data", "c"),
    "a struct": ("q", "c"),
    "text": ('"some text"', "c"),
    "an array": ("(int[]){f(1), f(2), f(3), f(4), f(5), f(6), f(7), f(8), f(9)}", "c"),
    "statements": ("for (int i = 0; i < 3; i++) f(i);", "c"),
    "what is stored again": ("data = 7;", "c"),
    "a call line": ("@f(3)", "llvm"),
    "a call with text": ('@puts("x")', "llvm"),
    "instructions": ("call i32 @f(i32 3)", "llvm"),
}


@pytest.fixture
def s():
    with Session(spare=False) as session:
        session.run("int f(int a) { return a; }\nint data = 7; struct p { int x; } q;", "c")
        yield session


@pytest.mark.parametrize("undone", [1, 2])
def test_runs_that_only_looked_are_passed_over(s: Session, undone: int) -> None:
    s.configure("undo_depth", 100)
    s.run("int f(int a) { return a * 2; }", "c")
    numbers = []
    for source, language in LOOKS.values():
        for _ in range(undone):  # again, in the notebook's same cell
            numbers.append(s.run(source, language, cell_id=f"look at {source}").cell.number)
    named = ", ".join(map(str, numbers[:8])) + f" and {len(numbers) - 8} more" * (len(numbers) > 8)
    assert s.undo() == [
        f"undone: cell 2: int f(int a) {{ return a * 2; }}; cells {named} changed nothing"
    ]
    assert s.call("f", 3) == 3
    s.check()
    assert s.redo() == ["redone: cell 2: int f(int a) { return a * 2; }"]
    assert s.call("f", 3) == 6
    s.undo(2)
    with pytest.raises(UsageError, match="there is nothing to undo"):
        s.undo()
    s.check()


def test_looks_do_not_take_the_place_of_what_can_be_undone(s: Session) -> None:
    s.configure("undo_depth", 3)
    for value in (1, 2, 3):
        s.run(f"data = {value};", "c")
    for _ in range(5):
        s.run("data", "c")
    s.undo(3)
    assert s["data"].value == 7
    with pytest.raises(UsageError, match="there is nothing to undo"):
        s.undo()
    s.check()


@pytest.mark.parametrize("look", LOOKS)
def test_what_is_undone_may_be_looked_at_before_it_is_redone(s: Session, look: str) -> None:
    s.run("int f(int a) { return a * 2; }\ndata = 7;", "c")
    s.undo()
    s.run(*LOOKS[look])
    s.redo()
    assert s.call("f", 3) == 6
    s.undo()
    s.run("data = 5;", "c")
    with pytest.raises(UsageError, match="there is nothing to redo"):
        s.redo()
    s.check()


@pytest.mark.parametrize(
    ("source", "before"), [("data = 9;", 7), ("int data = 12;", 7), ("int *p = &data; *p = 8;", 7)]
)
def test_what_changed_something_is_taken_back(s: Session, source: str, before: int) -> None:
    s.run(source, "c")
    assert s["data"].value != before
    s.run("data", "c")
    words = s.undo()[0]
    assert words.startswith("undone: cell 2: ") and words.endswith("; cell 3 changed nothing")
    assert s["data"].value == before


def test_a_look_that_is_evicted_can_be_taken_back(s: Session) -> None:
    number = s.run("f(3)", "c").cell.number
    s.evict(number)
    assert s.undo() == [f"undone: evict {number}"]
    assert number in [c.number for c in s.cells]
    s.undo(1)
    assert "f" not in s
