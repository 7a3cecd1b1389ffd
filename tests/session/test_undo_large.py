"""Undo and redo where a run wrote more data than is kept: whole, or refused, or told."""

from __future__ import annotations

import pytest

from jitkernel.arena import Arena
from jitkernel.arena.mirror import Digests
from jitkernel.errors import UsageError

MB = 1 << 20
#: A small variable, a large one behind it, and what writes to both.
PROGRAM = """long small = 1;
char big[4194304];
void write(long at, char v) { big[at] = v; small = v; }
long look(long at) { return big[at]; }"""


@pytest.fixture
def large(either):
    s = either(undo_data=MB)
    s.run("@first = global i8 0")
    s.run(PROGRAM, "c")
    return s


def values(s, at):
    return s["small"].value, s.call("look", at)


def test_beyond_it_nothing_is_undone(large):
    large.run("@write(1000, 5)")
    large.run("@write(3000000, 7)")
    with pytest.raises(UsageError, match=r"before: big \(64\.0 KiB of 4\.0 MiB\)") as caught:
        large.undo()
    assert "undo_data, 1.0 MiB of the data zone" in str(caught.value)
    assert "Nothing was undone. Run the cells again" in str(caught.value)
    assert "cell 4: @write(3000000, 7)" in str(caught.value)
    assert values(large, 3000000) == (7, 7)
    with pytest.raises(UsageError, match="Nothing was undone"):
        large.undo(2)
    assert values(large, 1000) == (7, 5)
    with pytest.raises(UsageError, match="Nothing was undone"):
        large.undo(cell=4)
    assert len(large.inspect.history.steps()) == 4


def test_with_the_limit_that_the_refusal_names_it_comes_back(large, either):
    large.run("@write(3000000, 7)")
    with pytest.raises(UsageError) as caught:
        large.undo()
    enough = int(str(caught.value).rpartition("Session(undo_data=")[2].rstrip(")"))
    assert enough == 4 * MB
    s = either(undo_data=enough)
    s.run(PROGRAM, "c")
    s.run("@write(3000000, 7)")
    assert s.undo() == ["undone: cell 2: @write(3000000, 7)"]
    assert values(s, 3000000) == (1, 0)


def test_a_refused_undo_leaves_the_later_ones_as_they_were(large):
    """What was written beyond the limit stays in the way; runs after it are undone one by one."""
    large.run("@write(3000000, 7)")
    large.run("@write(1000, 5)")
    assert large.undo() == ["undone: cell 4: @write(1000, 5)"]
    assert values(large, 3000000) == (7, 7)
    with pytest.raises(UsageError, match="Nothing was undone"):
        large.undo()
    assert large.redo() and values(large, 1000) == (5, 5)


def test_data_that_a_run_brought_leaves_with_it(large):
    large.run('@more = global [2000000 x i8] zeroinitializer\n@words = global [3 x i8] c"abc"')
    large.run('@puts("a string beyond the limit")')
    large.run("@n = i64 3\n@m = [3 x i64] [i64 1, i64 2, i64 3]")
    for _ in range(2):
        large.undo()
    assert "more" not in large and values(large, 5) == (1, 0)
    for _ in range(2):
        large.redo()
    assert large["m"].value == (1, 2, 3)


def test_a_variable_that_is_set_again_beyond_the_limit(large):
    large.run("@late = global i64 3")
    large.run("@late = 4")
    with pytest.raises(UsageError, match=r"@late \(8 B of 8 B\)"):
        large.undo()
    assert large["late"].value == 4


def test_old_values_of_all_steps_have_a_limit(either):
    s = either(undo_data=MB)
    s.run("@all = global [900000 x i8] zeroinitializer\ndeclare ptr @memset(ptr, i32, i64)")
    for i in range(8):
        s.run(f"%p = call ptr @memset(ptr @all, i32 {i + 1}, i64 900000)")
    s.inspect.history.steps()
    assert s.inspect.history.bytes <= 4 * MB
    assert s.undo(4) and s["all"].value[:2] == (4, 4)
    with pytest.raises(UsageError, match=r"@all \("):
        s.undo()
    assert s["all"].value[:2] == (4, 4)


def test_what_is_never_touched_takes_no_memory(either):
    s = either(undo_data=MB)
    s.run("@huge = global [20000000 x i8] zeroinitializer")
    before = s.inspect.engine.arena.resident()
    s.run(
        "define void @poke() {\n  %p = getelementptr i8, ptr @huge, i64 15000000\n  store i8 1, ptr %p\n  ret void\n}"
    )
    s.run("@poke()")
    with pytest.raises(UsageError, match="@huge"):
        s.undo()
    assert s.inspect.engine.arena.resident() - before < 256 << 10


def test_marks_tell_what_was_written():
    arena = Arena(64 * MB)
    try:
        marks = Digests(arena, "data", MB)
        one, two = arena.reserve("data", 3 * MB), arena.reserve("data", 300)
        arena.write(one.start, bytes(3 * MB))
        assert marks.look() == [], "new extents"
        assert marks.look() == []
        arena.write(one.start + 5, b"x")
        assert marks.look() == [], "within the first megabyte"
        arena.write(one.start + 2 * MB, b"x")
        arena.write(two.start + 299, b"y")
        first, second = marks.look()
        assert first[0] <= one.start + 2 * MB < first[1] and first[1] - first[0] <= 64 << 10
        assert second == (two.start, two.start + 300)
        arena.write(one.start + 2 * MB, b"\0")
        assert len(marks.look()) == 1
        arena.free(two)
        assert marks.look() == []
        three = arena.reserve("data", 200)
        arena.write(three.start, b"z")
        assert marks.look() == []
        arena.free(one)
        arena.free(three)
        assert marks.look() == [] == marks.look()
    finally:
        arena.close()
