"""Records and tuples beside what the standard library makes of the same classes."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import typing
from functools import cached_property
from typing import Any

import pytest

from jitkernel import record as ours
from jitkernel.later import Later
from jitkernel.record import NamedTuple, record

_ROWS = ((("a",), {}), (("a", 4), {}), (("b", 4, (1, 2)), {}), (("a", 4, (), [5]), {}))
_MORE = (*_ROWS, (("a",), {"more": (3,)}))


def _plain(field: Any) -> type:
    class Plain:
        name: str
        size: int = 3
        more: tuple[int, ...] = ()
        seen: list[int] = field(default_factory=list, compare=False, repr=False)

        @property
        def twice(self) -> int:
            return 2 * self.size

    return Plain


@record
class Kept:
    name: str
    size: int = 3


@record
class Longer(Kept):
    last: bool = False
    size: int = 4


@record(frozen=False)
class Open:
    name: str
    parts: list[int] = ours.field(default_factory=list)

    def __post_init__(self) -> None:
        self.parts.append(len(self.name))


@record(frozen=False, eq=False)
class One:
    name: str = ""


@record(slots=False)
class Cached:
    name: str

    @cached_property
    def twice(self) -> str:
        return 2 * self.name


class Point(NamedTuple):
    x: int
    y: int = 7
    name: str = "p"

    @property
    def sum(self) -> int:
        return self.x + self.y


def _theirs() -> Any:
    class Point(typing.NamedTuple):
        x: int
        y: int = 7
        name: str = "p"

    return Point


def test_records_are_made_compared_and_shown_as_frozen_dataclasses_are() -> None:
    mine = record(_plain(ours.field))
    theirs = dataclasses.dataclass(frozen=True, slots=True)(_plain(dataclasses.field))
    assert mine.__slots__ == theirs.__slots__ and mine.__match_args__ == theirs.__match_args__
    assert str(inspect.signature(mine)).startswith("(name: 'str', size: 'int' = 3, more:")
    for given, named in _ROWS:
        one, other = mine(*given, **named), theirs(*given, **named)
        assert repr(one) == repr(other)
        assert one.twice == other.twice
        for args, kwargs in _MORE:
            assert (one == mine(*args, **kwargs)) is (other == theirs(*args, **kwargs))
            same = hash(one) == hash(mine(*args, **kwargs))
            assert same is (hash(other) == hash(theirs(*args, **kwargs)))
        assert one != other and one != given
        assert ours.replace(one, size=9).size == 9 and one.size == other.size
    assert mine("a").seen is not mine("a").seen
    with pytest.raises(TypeError, match="name"):
        mine()
    with pytest.raises(AttributeError):
        mine("a").other = 1


def test_dataclasses_knows_a_record() -> None:
    mine = record(_plain(ours.field))
    theirs = dataclasses.dataclass(_plain(dataclasses.field))
    told = "name type default default_factory compare repr".split()
    for one, other in zip(dataclasses.fields(mine), dataclasses.fields(theirs), strict=True):
        assert [getattr(one, what) for what in told] == [getattr(other, what) for what in told]
    assert [f.name for f in ours.fields(mine)] == [f.name for f in dataclasses.fields(mine)]
    assert dataclasses.replace(mine("a"), size=9) == mine("a", 9) == mine("a").__replace__(size=9)
    assert dataclasses.asdict(mine("a", 4)) == dataclasses.asdict(theirs("a", 4))


def test_a_record_may_have_its_own_methods_and_a_base() -> None:
    @record
    class Empty:
        pass

    @record(frozen=False)
    class Known:
        name: str

        def __init__(self) -> None:
            self.name = "known"

        def __repr__(self) -> str:
            return f"<{self.name}>"

    @record
    class Same:
        name: str
        __eq__ = object.__eq__
        __hash__ = object.__hash__

    assert Empty() == Empty() and len({Empty(), Empty()}) == 1
    assert repr(Known()) == "<known>"
    one = Same("a")
    assert one == one and len({one, Same("a")}) == 2
    assert Longer.__match_args__ == ("name", "size", "last")
    assert Longer("a") == Longer("a", 4, False) != Kept("a", 4) and vars(Longer)["__slots__"] == (
        "last",
    )
    assert Cached("a").twice == "aa" and Cached("a") == Cached("a")


def test_records_that_change() -> None:
    one = Open("ab")
    assert one.parts == [2] and one == Open("ab")
    one.name = "c"
    assert one != Open("ab")
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
    assert One("a") != One("a") and len({One("a"), One("a")}) == 2


@pytest.mark.parametrize("one", [Kept("a", 5), Longer("b"), Point(3)], ids=repr)
def test_records_and_tuples_are_copied_and_pickled(one: Any) -> None:
    assert copy.deepcopy(one) == one and pickle.loads(pickle.dumps(one)) == one
    assert hash(pickle.loads(pickle.dumps(one))) == hash(one)
    assert type(pickle.loads(pickle.dumps(one))) is type(one)


def test_tuples_are_those_of_the_standard_library() -> None:
    mine: Any = Point
    theirs = _theirs()
    for given, named in (((1,), {}), ((1, 2), {}), ((1, 2, "q"), {}), ((1,), {"name": "r"})):
        one, other = Point(*given, **named), theirs(*given, **named)
        assert one == other == tuple(one) and repr(one) == repr(other) and len(one) == 3
        assert (one.x, one.y, one.name) == tuple(other) and one._asdict() == other._asdict()
        assert one._replace(y=5) == other._replace(y=5) and one.sum == sum(other[:2])
    assert Point._fields == theirs._fields == Point.__match_args__
    assert Point._field_defaults == theirs._field_defaults
    assert inspect.signature(Point).parameters.keys() == inspect.signature(theirs).parameters.keys()
    assert Point._make([4, 5, "s"]) == (4, 5, "s") and not hasattr(Point(1), "__dict__")
    for wrong in (lambda: mine(), lambda: mine(1, 2, "q", 4), lambda: mine._make([1])):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(ValueError, match="z"):
        mine(1)._replace(z=3)
    with pytest.raises(AttributeError):
        mine(1).x = 2

    class Below(Point):
        pass

    assert Below(1).sum == 8 and type(Below(1)._replace(x=2)) is Below


def test_nothing_is_compiled_before_it_is_asked_for() -> None:
    class Tuple(NamedTuple):
        x: int

    made = record(_plain(ours.field))
    assert type(vars(made)["__init__"]) is type(vars(Tuple)["__new__"]) is Later
    made("a"), Tuple(1)
    assert inspect.isfunction(vars(made)["__init__"])
    assert isinstance(vars(Tuple)["__new__"], staticmethod)
