"""How often a call takes each edge: figures that can be done by hand, and a session that is as it
was, whatever becomes of the call."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from programs import interrupting_once

from jitkernel import Session
from jitkernel.errors import Fault, Interrupted, UsageError
from jitkernel.ir.counted import taken
from jitkernel.ir.model.module import function_of
from jitkernel.ir.module import functions
from jitkernel.session.debugging.records import Breakpoint

pytestmark = pytest.mark.process

# Two edges of a switch lead to one block; a loop of x rounds calls through a pointer and recurs.
IR = """
@calls = internal global i32 0
@table = global [2 x ptr] [ptr @pick, ptr @same]
define internal i32 @same(i32 %x) noinline {
  %c = load i32, ptr @calls
  %d = add i32 %c, 1
  store i32 %d, ptr @calls
  ret i32 %x
}
define i32 @pick(i32 %x) noinline {
entry:
  switch i32 %x, label %other [ i32 1, label %few  i32 2, label %few  i32 7, label %other ]
few:
  %f = phi i32 [ 10, %entry ], [ 10, %entry ]
  ret i32 %f
other:
  %o = call i32 @same(i32 %x)
  ret i32 %o
}
define i32 @all(i32 %n) noinline {
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %j, %loop ]
  %p = load volatile ptr, ptr @table
  %v = call i32 %p(i32 %i)
  %j = add i32 %i, 1
  %more = icmp slt i32 %j, %n
  br i1 %more, label %loop, label %end
end:
  %called = load i32, ptr @calls
  ret i32 %called
}
define i32 @down(i32 %n) {
  %z = icmp eq i32 %n, 0
  br i1 %z, label %end, label %on
on:
  %m = sub i32 %n, 1
  %r = call i32 @down(i32 %m)
  ret i32 %r
end:
  ret i32 0
}
define void @get(ptr %p) {
  store volatile i32 1, ptr @calls
  %v = load volatile i32, ptr %p
  ret void
}
define void @spin() {
  br label %on
on:
  store volatile i32 1, ptr @calls
  br label %on
}
"""


@pytest.fixture(scope="module")
def s() -> Iterator[Session]:
    with Session(capacity=64 << 20, spare=False) as s:
        s.run(IR)
        s.run(
            "define i32 @through(i32 %n) {\n  %r = tail call i32 @all(i32 %n)\n  ret i32 %r\n}\ndeclare i32 @all(i32)"
        )
        yield s


def _counts(s: Session, name: str, code: str, optimised: bool = True) -> dict[str, int]:
    """`from>to` to how often, by labels; the entry's edge by its own."""
    request = s.inspect.request(1)
    text = s.inspect.printed(request, optimised)
    found = s.frontend.count_edges(1, request._replace(source=text), [name], code, "llvm")
    function = next(function_of(f) for f in functions(text, "define") if f.name == name)
    edges = taken(function, found[name])
    return {f"{a.name if a else ''}>{b.name}": count for (a, b), count in edges.items()}


def _state(s: Session) -> tuple[object, ...]:
    """The bytes of all code, the cells, what can be undone, and the room that all of it takes."""
    images = [image for cell in s.cells if (image := cell.image) is not None]
    code = [s.read(i.text.start, i.text.size) for i in images if i.text]
    zones = s.memory()["zones"].items()
    used = {name: (zone["used"], zone["extents"]) for name, zone in zones}
    return code, s.number, [str(cell) for cell in s.cells], s.memory()["undo"], used


def test_edges_are_counted_wherever_calls_come_from(s: Session) -> None:
    for optimised, few in ((True, "common.ret"), (False, "few")):
        before = s["all"](1)
        found = _counts(s, "pick", "@pick(2)", optimised)
        assert (found[">entry"], found[f"entry>{few}"], found["entry>other"]) == (1, 1, 0)
        # 0 to 9 by way of a pointer, from a function of another cell: 1 and 2 are few.
        found = _counts(s, "pick", "@through(10)", optimised)
        assert (found[">entry"], found[f"entry>{few}"], found["entry>other"]) == (10, 2, 8)
        assert _counts(s, "all", "@through(10)", optimised)["loop>loop"] == 9
        # A variable that nobody else sees is the cell's own: 2 * 8 calls of @same, and 0's of now.
        assert s["all"](1) == before + 17
    assert _counts(s, "down", "@down(5)", False) == {">0": 6, "0>end": 1, "0>on": 5}


@pytest.mark.parametrize("name", ["pick", "all", "down"])
def test_as_many_leave_a_block_as_come(s: Session, name: str) -> None:
    """But for those that return from it."""
    found = _counts(s, name, "@down(3)" if name == "down" else "@through(20)", False)
    for label in {edge.partition(">")[2] for edge in found}:
        out = [count for edge, count in found.items() if edge.startswith(f"{label}>")]
        if out:
            assert sum(out) == sum(n for edge, n in found.items() if edge.endswith(f">{label}"))


def _fault(s: Session) -> None:
    with pytest.raises(Fault, match=r"@get"):
        _counts(s, "get", "@get(null)")


def _interrupt(s: Session) -> None:
    with interrupting_once(s), pytest.raises(Interrupted):
        _counts(s, "spin", "@spin()")


def _no_function(s: Session) -> None:
    with pytest.raises(UsageError, match="nothing"):
        _counts(s, "pick", "@nothing(1)")


@pytest.mark.parametrize("goes", [_fault, _interrupt, _no_function])
def test_whatever_becomes_of_the_call_the_session_is_as_it_was(
    s: Session, goes: Callable[[Session], None]
) -> None:
    goes(s)  # thunks are made
    before = _state(s)
    goes(s)
    assert _state(s) == before
    s.check()
    assert _counts(s, "down", "@down(2)", False)[">0"] == 3


def test_it_is_no_step_that_could_be_undone() -> None:
    with Session(capacity=64 << 20, spare=False) as s:
        s.run(IR)
        s.run("define i32 @last() {\n  ret i32 1\n}")
        _counts(s, "all", "@all(4)")  # thunks are made
        before = _state(s)
        for _ in range(3):
            _counts(s, "all", "@all(4)")
        assert _state(s) == before
        s.undo()
        assert "last" not in s and "all" in s


def test_breakpoints_go_first(s: Session) -> None:
    s.debugger.start()
    try:
        point = s.debugger.add(Breakpoint(function="@pick"))
        with pytest.raises(UsageError, match="remove the breakpoints first"):
            _counts(s, "pick", "@pick(1)")
        s.debugger.remove(point.number)
        assert _counts(s, "pick", "@pick(1)")[">entry"] == 1
    finally:
        s.debugger.close()


def test_in_this_process_too() -> None:
    with Session(capacity=64 << 20, executor="inline", spare=False) as s:
        s.run(IR)
        assert _counts(s, "all", "@all(5)")["loop>loop"] == 4
