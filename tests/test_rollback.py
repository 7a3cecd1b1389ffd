"""The undo log by itself: what is written in a block that fails is as it was."""

from __future__ import annotations

import pytest

from jitkernel.rollback import (
    Recorded,
    RecordedDict,
    RecordedList,
    Rollback,
    later,
    log_undo,
    recording,
    written,
)


class Point(Recorded):
    __slots__ = ("x", "y")

    def __init__(self) -> None:
        self.x, self.y = 1, 2


class Failed(Exception):
    pass


def test_attributes_items_and_ends_of_lists_return() -> None:
    rollback, point = Rollback(), Point()
    table, row = RecordedDict({1: "one", 2: "two"}), RecordedList([1, 2, 3])
    with pytest.raises(Failed), rollback.atomic():
        point.x = point.y = 7
        table[1], table[3] = "uno", "three"
        del table[2]
        table.setdefault(4, "four")
        table |= {5: "five"}
        row.append(4)
        row += [5, 6]
        assert row.pop() == 6 and row.pop(0) == 1
        row[0] = 9
        raise Failed
    assert (point.x, point.y) == (1, 2)
    assert table == {1: "one", 2: "two"} and row == [1, 2, 3]


@pytest.mark.parametrize(
    "write",
    [
        lambda t, r: t.clear(), lambda t, r: t.popitem(), lambda t, r: t.pop(1),
        lambda t, r: t.update({1: 0, 9: 9}), lambda t, r: r.clear(), lambda t, r: r.insert(0, 5),
        lambda t, r: r.remove(2), lambda t, r: r.extend([7, 8]), lambda t, r: r.__delitem__(0),
    ],
)  # fmt: skip
def test_every_way_to_write(write) -> None:
    rollback = Rollback()
    table, row = RecordedDict({1: "one", 2: "two"}), RecordedList([1, 2, 3])
    with rollback.atomic():
        write(table, row)
    after = dict(table), list(row)
    assert after != ({1: "one", 2: "two"}, [1, 2, 3])  # it stands
    table, row = RecordedDict({1: "one", 2: "two"}), RecordedList([1, 2, 3])
    with pytest.raises(Failed), rollback.atomic():
        write(table, row)
        raise Failed
    assert (table, row) == ({1: "one", 2: "two"}, [1, 2, 3])


def test_an_inner_block_fails_alone() -> None:
    rollback, point = Rollback(), Point()
    with rollback.atomic():
        point.x = 5
        with pytest.raises(Failed), rollback.atomic():
            point.x, point.y = 6, 6
            raise Failed
        assert (point.x, point.y) == (5, 2)
    assert (point.x, point.y) == (5, 2) and not rollback.open


def test_an_outer_block_takes_inner_ones_back() -> None:
    rollback, point = Rollback(), Point()
    with pytest.raises(Failed), rollback.atomic():
        with rollback.atomic():
            point.x = 5
        raise Failed
    assert point.x == 1


def test_steps_of_other_kinds() -> None:
    rollback, done = Rollback(), []
    with rollback.atomic():
        assert recording()
        later(done.append, "in the end")
        log_undo(done.append, "back")
        assert not done
    assert done == ["in the end"] and not recording()
    with pytest.raises(Failed), rollback.atomic():
        later(done.append, "never")
        log_undo(done.append, "back")
        raise Failed
    assert done == ["in the end", "back"]
    later(done.append, "at once")
    assert done[-1] == "at once"


def test_repairs_are_told_what_was_put_back() -> None:
    rollback, point, seen = Rollback(), Point(), []
    rollback.repairs.append(seen.extend)
    with pytest.raises(Failed), rollback.atomic():
        point.x, point.y = 3, 4
        raise Failed
    assert seen == [point]


def test_what_a_block_has_written_is_told_once_it_stands() -> None:
    """Records with their attributes, tables with their keys, and what was there, latest first."""
    rollback, point, told = Rollback(), Point(), []
    table: RecordedDict[str, int] = RecordedDict(a=1)
    rollback.kept = lambda log: told.extend(written(log))
    with pytest.raises(Failed), rollback.atomic():
        point.x = 3
        raise Failed
    assert not told
    was = point.x
    with rollback.atomic():
        point.x = 4
        with rollback.atomic():
            table["a"] = 2
            log_undo(told.append, "nothing of it")
        table.clear()
        assert not told
    assert [(owner, name) for owner, name, _ in told] == [(table, "a"), (table, "a"), (point, "x")]
    assert [value for *_, value in told[1:]] == [1, was]


def test_a_step_back_that_fails_is_made_again() -> None:
    """Whatever tears the way back, `recover` goes the rest of it."""
    rollback, point, trouble = Rollback(), Point(), [Failed()]

    def back() -> None:
        if trouble:
            raise trouble.pop()

    with pytest.raises(Failed), rollback.atomic():
        point.x = 5
        log_undo(back)
        raise KeyError
    assert rollback.open and point.x == 5
    rollback.recover()
    assert point.x == 1 and not rollback.open and not recording()


def test_two_sessions_on_one_thread() -> None:
    """A callback of one may use another: each takes back its own."""
    one, other, a, b = Rollback(), Rollback(), Point(), Point()
    with one.atomic():
        a.x = 5
        with pytest.raises(Failed), other.atomic():
            b.x = 6
            raise Failed
        assert b.x == 1
        a.y = 7
    assert (a.x, a.y) == (5, 7)
    with pytest.raises(Failed), one.atomic():
        with other.atomic():
            b.x = 8
        a.x = 9
        raise Failed
    assert (a.x, b.x) == (5, 8)


def test_a_block_that_ends_late_is_not_another_ones_end() -> None:
    """Its `with` was torn out of its end, and what was left of it goes when another one is open."""
    rollback, point = Rollback(), Point()
    late, inner = rollback.atomic(), rollback.atomic()
    late.__enter__()
    inner.__enter__()
    point.x = 7
    rollback.recover()
    assert point.x == 1
    with rollback.atomic():
        point.x, point.y = 8, 9
        late.__exit__(Failed, Failed(), None)
        inner.__exit__(None, None, None)
        assert recording()
    assert (point.x, point.y) == (8, 9) and not rollback.open


def test_an_inner_block_without_an_end_is_taken_back_with_the_outer_ones() -> None:
    rollback, point = Rollback(), Point()
    with rollback.atomic():
        point.y = 5
        rollback.atomic().__enter__()
        point.x = 7
    assert (point.x, point.y) == (1, 5) and not rollback.open and not recording()
