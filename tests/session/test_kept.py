"""What a session keeps of cells that are over: results, undo steps, and nothing else."""

from __future__ import annotations

import gc
from collections import Counter

import pytest

from jitkernel.errors import CompileError
from jitkernel.ir.types import parse_type
from jitkernel.session.program.cell import LARGE
from jitkernel.session.run.results import LIMIT
from jitkernel.session.run.runner import Runner

SPAM = """#include <unistd.h>
char line[1000];
int spam(int n) { for (int i = 0; i < n; i++) write(1, line, 1000); return n; }"""


def alive() -> Counter[str]:
    gc.collect()
    return Counter(type(o).__name__ for o in gc.get_objects())


def machinery() -> list[Runner]:
    gc.collect()
    return [o for o in gc.get_objects() if isinstance(o, Runner)]


def test_a_cell_with_a_value_leaves_its_value(s):
    s.run("define i32 @f(i32 %n) {\n  ret i32 %n\n}")
    for i in range(130):
        s.run(f"@f({i})")
    for _ in range(3):  # another thread of the tests may import something meanwhile, once
        before = alive()
        for i in range(100):
            s.run(f"@f({i})")
        assert not machinery()
        grown = {k: n - before[k] for k, n in alive().items() if n - before[k] >= 50}
        if not grown:
            break
    assert not grown


@pytest.mark.process
def test_what_cells_print_goes_with_their_result(s):
    s.run(SPAM, "c")
    assert {len(s.run("@spam(20)").stdout) for _ in range(5)} == {20_000}
    assert not machinery()


def test_no_value_knows_its_run(s):
    """Of each way in which a value comes about."""
    s.run("@g = global { i8, i32 } { i8 1, i32 2 }\n@p = global ptr null")
    s.run("define { i8, i32 } @f() {\n  ret { i8, i32 } { i8 1, i32 2 }\n}")
    made = [s.run("@f()").typed, s.run("@g").typed, s.value("@f()")]
    made += [s.run("@copy = _\n@copy").typed, s.run("@one = load @g\n@one").typed]
    made += [s.run("%x = load { i8, i32 }, ptr @g").typed]
    assert [v.text() for v in made] == ["{ i8, i32 } { i8 1, i32 2 }"] * len(made)
    assert not machinery()


def test_large_results_share_a_limit(s):
    size = 10_000_000
    s.run(f"@g = global [{size} x i8] zeroinitializer")
    kept = [s.run("@g") for _ in range(LIMIT // size + 3)]
    held = [n for n, v in s.results.items() if len(v.data) > LARGE]
    assert len(held) == LIMIT // size
    assert held[-1] == kept[-1].cell.number
    with pytest.raises(CompileError, match="no longer kept"):
        s.run(f"_{kept[0].cell.number}")
    assert len(kept[0].value) == size  # whoever holds the result has it all
    last = s.run("@g").typed
    assert s.results.last is last


def test_one_result_over_the_limit_is_kept_alone(either):
    s, size = either(capacity=1 << 30), LIMIT + 1
    s.run(f"@g = global [{size} x i8] zeroinitializer")
    for _ in range(2):
        s.run("@g")
    assert [n for n, v in s.results.items() if len(v.data) > LARGE] == [s.number]


def test_undo_steps_hold_no_large_value(s):
    s.run("@g = global [1000000 x i8] zeroinitializer")
    s.run("@g")
    s.run("@a = i32 1")
    s.results.clear()
    s.results.last = None
    assert all(c.results is None or c.results() is None for c in s.inspect.history)


def test_a_value_outlives_its_session(either):
    with either() as s:
        s.run("@g = global { i8, i32 } { i8 1, i32 2 }")
        result = s.run("@g")
    assert result.value == (1, 2)
    assert result.typed.text() == "{ i8, i32 } { i8 1, i32 2 }"
    assert result.typed.layouts(parse_type("{ i8, i32, i128 }"))
