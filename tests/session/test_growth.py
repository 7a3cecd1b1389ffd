"""What a session does takes time in proportion to what it has.  Nothing here looks at a clock.

Work is counted in lines of Python that run in this process; `benchmarks.rows.growth` has the times.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from benchmarks.rows.growth import KINDS
from jitkernel import Session
from jitkernel.compiler import wire
from jitkernel.errors import CompileError, EvictError
from jitkernel.session.saved import store
from tests.seeds import sampled

#: Kinds whose steps compile each of n modules, which is no matter of growth here.
SMALL = {"cells", "users"}


def lines(run: Callable[[], object]) -> int:
    """How many lines of Python this thread runs meanwhile; a turn of a loop is one at least."""
    count = 0

    def local(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return local

    before = sys.gettrace()
    sys.settrace(lambda frame, event, argument: local)
    try:
        run()
    finally:
        sys.settrace(before)
    return count


def work(kind: str, n: int) -> dict[str, int]:
    with Session(spare=False, opt_level=0) as s:
        found = {step: lines(run) for step, run in KINDS[kind](s, n)}
        s.check()
    return found


@pytest.fixture(autouse=True)
def even(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for a worker's answer sleeps: how often it would ask instead is a matter of time.
    Records are read from the file, however few there are."""
    monkeypatch.setattr(wire, "SPIN_ALLOWED", False)
    monkeypatch.setattr(store, "_BATCH", 1)


@pytest.mark.parametrize("kind", sampled(KINDS, 3))
def test_work_grows_in_proportion(kind: str) -> None:
    n = 60 if kind in SMALL else 150
    few, many = work(kind, n), work(kind, 4 * n)
    assert few.keys() == many.keys() and few
    grew = {step: round(many[step] / few[step], 2) for step in few if many[step] > 20 * n}
    assert {step: times for step, times in grew.items() if times > 4.8} == {}


def test_a_long_chain_of_cells_leaves_and_comes_back() -> None:
    n = 1_050  # more than Python calls deep
    assert n > sys.getrecursionlimit()
    first = "define i32 @f0() {\n  ret i32 7\n}\n"
    rest = [
        f"declare i32 @f{i - 1}()\ndefine i32 @f{i}() {{\n"
        f"  %r = call i32 @f{i - 1}()\n  ret i32 %r\n}}\n"
        for i in range(1, n)
    ]
    with Session(spare=False, opt_level=0) as s:
        s.run_many([first, *rest])
        with pytest.raises(EvictError) as refused:
            s.evict("f0")
        assert len(refused.value.dependents) == n - 1
        assert f"and {n - 11} more" in str(refused.value)
        assert [c.number for c in s.evict("f0", cascade=True)] == list(range(n, 0, -1))
        s.undo()
        assert s.call(f"f{n - 1}") == 7
        s.check()


def test_a_cell_of_many_names_is_named_by_a_few(s: Session) -> None:
    s.run("@g = global i32 1")
    loads = "".join(
        f"define i32 @f{i}() {{\n  %v = load i32, ptr @g\n  ret i32 %v\n}}\n" for i in range(9)
    )
    s.run(loads)
    with pytest.raises(EvictError, match=r"cell 2 \(@f0, @f1, @f2, @f3 and 5 more\) uses @g"):
        s.evict("g")


def test_an_error_below_many_declarations_is_on_its_own_line(s: Session) -> None:
    n = 600
    s.run("".join(f"define void @f{i}() {{\n  ret void\n}}\n" for i in range(n)))
    table = f"@t = global [{n} x ptr] [{', '.join(f'ptr @f{i}' for i in range(n))}]\n"
    s.run(table + "call void @f599()\n%x = add i32 40, 2")
    with pytest.raises(CompileError, match="line 4") as refused:
        s.run(table + "define i32 @r() {\n  %x = add i32 1, 2\n  ret i64 %x\n}")
    assert "ret i64 %x" in str(refused.value)
    s.run(table + "define i32 @r() {\n  %p = load ptr, ptr @t\n  call void %p()\n  ret i32 1\n}")
    assert s.call("r") == 1
