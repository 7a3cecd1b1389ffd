"""Variables of Kaleidoscope by its own names, with the values that a run by hand gives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jitkernel import Session
from jitkernel.errors import UsageError
from jitkernel.session.debugging.records import Breakpoint, Event

pytestmark = pytest.mark.process

LOOP = """def binary: 1 (x y) y
def loop(n)
  var s = 0, twice = n + n in
  (for i = 1, i < n, 1.0 in
    s = s + i) : s + twice;
"""
HIDES = """def hides(n)
  var n = n + 1 in
    n * 2;
"""
BRANCH = """def branch(n)
  if n < 3 then
    (var a = n + 1 in
      a * 2)
  else
    n * n
"""


@pytest.fixture
def s() -> Iterator[Session]:
    with Session(capacity=64 << 20, spare=False) as session:
        session.debugger.start()
        yield session
        session.debugger.close()
        session.check()


def walk(s: Session, call: str, function: str, *texts: str) -> list[tuple[int, dict[str, str]]]:
    """Line and variables at each step through a function, and the values of expressions."""
    found: list[tuple[int, dict[str, str]]] = []

    def hear(event: Event) -> None:
        if event.kind != "stopped":
            return
        debugger = s.debugger
        frame = debugger.frames()[0]
        if frame.name != function:
            debugger.go()
            return
        [scope] = [x for x in debugger.scopes(0) if x.name == "Locals"]
        known = {v.name: v.value for v in debugger.variables(scope.reference)}
        found.append((frame.line, known | {text: debugger.evaluate(text).value for text in texts}))
        debugger.go("next")

    s.debugger.listener = hear
    s.debugger.add(Breakpoint(function=function))
    s.run(call, "kaleidoscope")
    return found


def test_each_turn_of_a_loop(s: Session) -> None:
    s.run(LOOP, "kaleidoscope")
    found = walk(s, "loop(3)", "loop", "n + 1")
    at_body = [known for line, known in found if line == 5]
    assert [(k["s"], k["i"], k["n"], k["twice"]) for k in at_body[:3]] == [
        ("0.0", "1.0", "3.0", "6.0"), ("1.0", "2.0", "3.0", "6.0"), ("3.0", "3.0", "3.0", "6.0"),
    ]  # fmt: skip
    assert all(known["n + 1"] == "4.0" for _, known in found)
    assert set(found[0][1]) == {"n", "s", "twice", "i", "n + 1"}
    assert all(k["i"] in ("<not yet>", "0.0") for line, k in found if line == 3)


def test_variables_that_hide_others_have_numbers(s: Session) -> None:
    s.run(HIDES, "kaleidoscope")
    found = walk(s, "hides(4)", "hides")
    last = found[-1][1]
    assert sorted(last.values()) == ["4.0", "5.0"] and all(k.startswith("n.") for k in last)


def test_within_a_branch_and_before(s: Session) -> None:
    s.run(BRANCH, "kaleidoscope")
    found = walk(s, "branch(2)", "branch")
    assert found[-1][1]["n"] == "2.0"
    assert [known["a"] for line, known in found if line == 4] == ["3.0"]
    assert all(known["a"] in ("<not yet>", "0.0") for line, known in found if line < 3)


def test_they_are_set_and_asked_in_conditions(s: Session) -> None:
    s.run(HIDES.replace("var n", "var m").replace("n * 2", "m * 2"), "kaleidoscope")
    stops: list[str] = []

    def hear(event: Event) -> None:
        if event.kind == "stopped":
            stops.append(s.debugger.evaluate("n").value)
            s.debugger.evaluate("n = 10")
            with pytest.raises(UsageError, match="nothing here is called k"):
                s.debugger.evaluate("k")
            s.debugger.go()

    s.debugger.listener = hear
    s.debugger.add(Breakpoint(function="hides", condition="n == 4"))
    assert s.run("hides(3)", "kaleidoscope").value == 8.0
    assert s.run("hides(4)", "kaleidoscope").value == 22.0
    assert stops == ["4.0"]


def test_what_is_computed_in_another_order_than_it_is_written_is_not_shown_early(
    s: Session,
) -> None:
    """The condition of the loop is above its body, and computed behind it."""
    s.run(LOOP, "kaleidoscope")
    early: list[str] = []

    def hear(event: Event) -> None:
        if event.kind == "stopped":
            frame = s.debugger.frames()[0]
            if frame.name == "@loop" and frame.line == 5 and not early:
                view = s.debugger._standing
                place = view.frame(0).place
                assert place is not None
                known = view._code.locals(place, view.frame(0).at)
                early.extend(n for n, v in known.items() if n.startswith("%.") and v.defined)
            s.debugger.go("next" if frame.name == "@loop" else "continue")

    s.debugger.listener = hear
    s.debugger.add(Breakpoint(function="loop"))
    s.run("loop(3)", "kaleidoscope")
    assert len(early) <= 1  # `n + n`, in front of the loop
