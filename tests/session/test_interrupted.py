"""An interrupt that was asked for while a call ran ends the cell, whatever the call itself did."""

from __future__ import annotations

import threading

import pytest
from programs import interrupting

from jitkernel import Session
from jitkernel.errors import Interrupted

NAP = """@n = global i32 0
declare i32 @sleep(i32)
define void @nap() {
  %r = tail call i32 @sleep(i32 1000)
  ret void
}
define i32 @doze() {
  %r = tail call i32 @sleep(i32 1000)
  ret i32 %r
}"""
LEAVING = """@llvm.global_dtors = appending global [1 x { i32, ptr, ptr }] [
  { i32, ptr, ptr } { i32 1, ptr @leave, ptr null }]
define internal void @leave() {
  tail call void @nap()
  ret void
}
declare void @nap()
"""


@pytest.mark.parametrize("call", ["@nap()", "@doze()", "@sleep(1000)", "call void @nap()"])
def test_what_comes_after_it_does_not_run(s: Session, call: str) -> None:
    s.run(NAP)
    with interrupting(s), pytest.raises(Interrupted) as caught:
        s.run(f"@n = i32 1\n{call}\n@n = i32 99")
    assert "did not run" in str(caught.value)
    assert s["n"].value == 1
    s.check()


def test_a_call_from_python(s: Session) -> None:
    s.run(NAP)
    with interrupting(s), pytest.raises(Interrupted):
        s.call("nap")
    with interrupting(s), pytest.raises(Interrupted):
        s["doze"]()
    assert s.run("@n").value == 0


def test_a_destructor_that_runs_for_a_cell(s: Session) -> None:
    s.run(NAP)
    s.run(LEAVING + "define i32 @f() {\n  ret i32 1\n}", cell_id="a")
    with interrupting(s), pytest.raises(Interrupted):
        s.run("define i32 @f() {\n  ret i32 2\n}\n@n = i32 99", cell_id="a")
    assert s["n"].value == 0 and s.call("f") == 2
    s.check()


def test_a_statement_that_just_ended(s: Session) -> None:
    """Between two statements nothing runs that could be stopped."""
    s.run(NAP)

    class Sink(type(s.core.sink)):  # type: ignore[misc]
        def shown(self, label: str, text: str, html: str = "") -> None:
            super().shown(label, text, html)
            thread = threading.Thread(target=s.interrupt)
            thread.start()
            thread.join()

    sink = Sink()
    with pytest.raises(Interrupted) as caught:
        s.run("@n = i32 1\n@n\n@n\n@n = i32 99\n@n = i32 100", sink=sink)
    assert s["n"].value == 1, str(caught.value)
    assert s.run("@n = i32 5\n@n").value == 5  # and the next is not
