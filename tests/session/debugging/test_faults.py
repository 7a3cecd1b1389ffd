"""Faults of cells without breakpoints: variables are shown, and nothing else notices."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jitkernel import Session, grading
from jitkernel.errors import ArenaFull, Fault
from jitkernel.session.debugging.forms import Forms
from jitkernel.session.debugging.reached import reached
from jitkernel.session.debugging.records import Event
from tests.session.debugging.test_debugger import text

pytestmark = pytest.mark.process

INDEX = "int index_of(int *p, int i) {\n  int w = i * 2;\n  return p[w];\n}\n"
LOAD = """define i32 @load(ptr %p, i32 %k) {
  %q = getelementptr i32, ptr %p, i32 %k
  %v = load i32, ptr %q
  ret i32 %v
}
"""
BOTH = """int load(int *, int);
int both(int a) {
  int z = a + 1;
  return load((int *)16L, z) + index_of(0, a);
}
"""
#: A function that notes where its code is.
LOOK = """unsigned long seen;
int look(int x) {
  __asm__ volatile("lea 0(%%rip), %0" : "=r"(seen));
  return x;
}
"""


class Told:
    """A listener that notes the frames of each stop with their variables."""

    def __init__(self, s: Session):
        self.debugger, self.stops = s.debugger, []  # type: ignore[var-annotated]
        self.debugger.listener = self.hear

    def hear(self, event: Event) -> None:
        if event.kind != "stopped":
            return
        debugger, frames = self.debugger, []
        for frame in debugger.frames():
            scopes = [s for s in debugger.scopes(frame.index) if s.name == "Locals"]
            found = [v for s in scopes for v in debugger.variables(s.reference)]
            frames.append((frame.name, frame.line, {v.name: v.value for v in found}))
        self.stops.append(frames)
        debugger.go()


@pytest.fixture
def s() -> Iterator[Session]:
    with Session(capacity=64 << 20, spare=False) as session:
        session.debugger.start()
        session.debugger.faults = True
        yield session
        session.check()


def test_variables_of_every_frame_are_shown(s: Session) -> None:
    s.run(INDEX, "c")
    s.run(LOAD)
    s.run(BOTH, "c")
    told = Told(s)
    with pytest.raises(Fault, match=r"at @load.*line 3"):
        s.run("int t = 5;\nboth(t)", "c")
    [frames] = told.stops
    assert frames[0][:2] == ("@load", 3)
    assert frames[0][2]["%k"] == "6" and frames[0][2]["%v"] == "<not yet>"
    assert frames[1] == ("both", 4, {"a": "5", "z": "6"})
    assert frames[-1][1] == 2


def test_a_call_line_of_ir_and_statements_that_run_once(s: Session) -> None:
    s.run(LOAD)
    told = Told(s)
    with pytest.raises(Fault):
        s.run("@load(ptr null, i32 3)")
    with pytest.raises(Fault, match="line 4"):
        s.run("{\n  int q = 7;\n  int *p = 0;\n  *p = q;\n}", "c")
    with pytest.raises(Fault):
        s.call("load", None, 2)
    by_line, once, by_call = told.stops
    assert by_line[0][2]["%k"] == "3" and by_call[0][2]["%k"] == "2"
    assert once[0][1:] == (4, {"q": "7", "p": "NULL"})


def test_nothing_of_it_is_left(s: Session) -> None:
    s.run(INDEX, "c")
    s.run(BOTH.replace("load((int *)16L, z)", "z"), "c")
    before = text(s)
    Told(s)
    with pytest.raises(Fault):
        s.call("both", 4)
    after = text(s)
    assert {at: code for at, code in after.items() if at in before} == before
    s.run("int more(int x) { return x; }", "c")
    s.undo()
    assert text(s).items() >= before.items()


def test_what_is_timed_or_checked_runs_as_it_is(s: Session) -> None:
    s.run(LOOK, "c")
    own = s.symbols["look"]

    def ordinary() -> bool:
        return 0 <= s["seen"].value - own.address < own.size

    s.call("look", 3)
    assert not ordinary()
    s.time("look(3)", language="c", number=1, repeat=1)
    assert ordinary()
    s.run("look(3)", "c")
    assert not ordinary()
    reference = "; task: the same\ndefine i32 @look(i32 %x) {\n  ret i32 %x\n}\n"
    grading.check(s, grading.make_exercise(s, "look", reference))
    assert ordinary()
    s.debugger.faults = False
    s.call("look", 3)
    assert ordinary()


def test_of_many_cells_the_nearest(s: Session) -> None:
    s.run("int f0(int a) { return *(int *)(long)a; }", "c")
    for n in range(1, 12):
        s.run(f"int f{n}(int a) {{ int z = a; return f{n - 1}(z) + 1; }}", "c")
    core = s.inspect.engine._core  # type: ignore[attr-defined]
    found = reached(core, s.debugger.address_of("f11"))
    assert max(found) == 12 and 1 < len(found) < 12
    told = Told(s)
    with pytest.raises(Fault):
        s.call("f11", 8)
    [frames] = told.stops
    assert [f[2] for f in frames if f[0] == "f11"] == [{"a": "8", "z": "8"}]


def test_a_full_arena_only_costs_the_variables(s: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    s.run(LOAD)
    install = Forms.install

    def full(self: Forms, taken: object = ()) -> None:
        if self.waiting:
            raise ArenaFull("the text zone is full", "text")
        install(self)

    monkeypatch.setattr(Forms, "install", full)
    told = Told(s)
    with pytest.raises(Fault):
        s.call("load", None, 2)
    assert told.stops[0][0][2] == {}
