"""Ranges of addresses, beside sets of addresses; which bytes of a run's are its own."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jitkernel import Session
from jitkernel.errors import EvictError
from jitkernel.session.history.dependence import _apart, _common, _differing, _merge

RANGES = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 9)).map(lambda r: (r[0], r[0] + r[1])), max_size=6
)


def addresses(ranges: Iterable[tuple[int, int]]) -> set[int]:
    return {at for low, high in ranges for at in range(low, high)}


def is_merged(ranges: list[tuple[int, int]]) -> bool:
    inner = [low < high for low, high in ranges]
    return all(inner) and all(a[1] < b[0] for a, b in pairwise(ranges))


@given(RANGES, RANGES)
def test_ranges_are_sets_of_addresses(one, other):
    first, second = _merge(one), _merge(other)
    assert is_merged(first) and addresses(first) == addresses(one)
    apart, common = _apart(first, second), _common(first, second)
    assert is_merged(apart) and addresses(apart) == addresses(one) - addresses(other)
    assert addresses(common) == addresses(one) & addresses(other)


@given(st.integers(0, 64), st.binary(max_size=40), st.data())
def test_what_differs_is_told_by_the_word(word, old, data):
    """A range for each word of 8 bytes: from the first byte that differs to the last."""
    now = data.draw(st.binary(min_size=len(old), max_size=len(old)))
    told = list(_differing(8 * word, old, now))
    wrong = [8 * word + i for i, (a, b) in enumerate(zip(old, now, strict=True)) if a != b]
    by_word: dict[int, list[int]] = {}
    for at in wrong:
        by_word.setdefault(at // 8, []).append(at)
    assert told == [(min(found), max(found) + 1) for found in by_word.values()]


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
