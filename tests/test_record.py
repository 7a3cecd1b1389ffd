"""Records beside what the standard library makes of the same classes."""

import copy
import pickle
from dataclasses import dataclass, field, fields, replace

import pytest

from jitkernel.record import record


class Plain:
    name: str
    size: int = 3
    more: tuple[int, ...] = ()
    seen: list[int] = field(default_factory=list, compare=False, repr=False)

    @property
    def twice(self) -> int:
        return 2 * self.size


class Same:
    name: str

    __eq__ = object.__eq__
    __hash__ = object.__hash__


class Known:
    name: str

    def __repr__(self) -> str:
        return f"<{self.name}>"


@record
class Kept:
    name: str
    size: int = 3


def _both(made):
    """A class as a record, and as a dataclass, of one name."""
    body = {k: v for k, v in vars(made).items() if k not in ("__dict__", "__weakref__")}
    ours, theirs = (type(made.__name__, (), dict(body)) for _ in range(2))
    return record(ours), dataclass(frozen=True, slots=True)(theirs)


def test_records_are_made_compared_and_shown_as_frozen_dataclasses_are():
    ours, theirs = _both(Plain)
    for given in (("a",), ("a", 4), ("b", 4, (1, 2)), ("a", 4, (), [5])):
        one, other = ours(*given), theirs(*given)
        assert repr(one).rpartition(".")[2] == repr(other).rpartition(".")[2]
        assert one.twice == other.twice
        assert replace(one, size=9).size == 9 and one.size == other.size
        for more in (("a",), ("a", 4), ("a", 4, (), [7]), ("b", 4, (1, 2))):
            assert (one == ours(*more)) is (other == theirs(*more))
            assert (hash(one) == hash(ours(*more))) is (hash(other) == hash(theirs(*more)))
        assert one != other and one != given
    assert [f.name for f in fields(ours)] == [f.name for f in fields(theirs)]
    assert ours.__slots__ == theirs.__slots__ and ours.__match_args__ == theirs.__match_args__
    with pytest.raises(TypeError, match="name"):
        ours()
    with pytest.raises(AttributeError):
        ours("a").other = 1


def test_a_record_may_have_no_fields_and_its_own_methods():
    empty = record(type("Empty", (), {}))
    assert empty() == empty() and len({empty(), empty()}) == 1
    same = _both(Same)[0]
    one = same("a")
    assert one == one and one != same("a") and len({one, same("a")}) == 2
    assert repr(_both(Known)[0]("a")) == "<a>"


def test_records_are_copied_and_pickled():
    one = Kept("a", 5)
    assert copy.deepcopy(one) == one and pickle.loads(pickle.dumps(one)) == one
    assert hash(pickle.loads(pickle.dumps(one))) == hash(one)
