"""Ranges of addresses that overlap; which bytes of a run's are its own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jitkernel import Session
from jitkernel.arena.ranges import overlapping
from jitkernel.errors import EvictError

RANGES = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 9)).map(lambda r: (r[0], r[0] + r[1])), max_size=6
)


@given(RANGES, st.integers(0, 40), st.integers(1, 9))
def test_the_ranges_that_overlap_another(ranges, start, size):
    """Of ordered ranges that do not overlap each other, as extents and values are."""
    apart: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if not apart or low >= apart[-1][1]:
            apart.append((low, high))
    wanted = [r for r in apart if r[0] < start + size and start < r[1]]
    assert list(overlapping(apart, start, start + size)) == wanted


@pytest.mark.parametrize(("second", "in_the_way"), [(8, False), (7, True), (0, True), (15, False)])
def test_a_large_variable_is_told_apart_by_the_word(
    s: Session, second: int, in_the_way: bool
) -> None:
    """One run writes byte 7 of a table, the last of its first word, and a later one another byte."""
    s.run(
        "@table = global [64 x i8] zeroinitializer, align 8\n"
        "define void @put(i64 %i, i8 %x) {\n"
        "  %p = getelementptr i8, ptr @table, i64 %i\n  store i8 %x, ptr %p\n  ret void\n}"
    )
    s.run("@put(7, 1)")
    number = s.number
    s.run(f"@put({second}, 2)")
    if in_the_way:
        with pytest.raises(EvictError, match="writes @table too"):
            s.undo(cell=number)
        return
    s.undo(cell=number)
    wanted = [0] * 64
    wanted[second] = 2
    assert list(s["table"].value) == wanted
    s.check()
