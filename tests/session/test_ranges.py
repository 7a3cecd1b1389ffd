"""Names for addresses: the sorted ranges say what looking at all of them says."""

from __future__ import annotations

import random

import pytest

from jitkernel.session.report.places import Ranges


@pytest.mark.parametrize("seed", range(5))
def test_sorted_or_not_the_answers_are_the_same(seed):
    rnd = random.Random(seed)
    rows: list[tuple[int, int, int]] = []
    at = 0
    for index in range(200):  # apart, touching, and small ones within larger ones
        at += rnd.choice([0, 1, 16, 100])
        size = rnd.choice([1, 15, 16, 64])
        rows.append((at, at + size, index))
        if size > 30 and rnd.random() < 0.3:
            rows.append((at + 8, at + 12, 1000 + index))
        at += size
    rnd.shuffle(rows)
    version, read = [0], [0]

    def every():
        read[0] += 1
        return iter(rows)

    ranges = Ranges(every, lambda: version[0])
    for _ in range(500):
        address = rnd.randrange(at + 50)
        assert ranges.find(address) == [w for a, b, w in rows if a <= address <= b]
    assert read[0] <= 4
    rows.append((5, 5, 4711))
    version[0] = 1
    assert 4711 in ranges.find(5) and read[0] <= 5


def test_a_session_follows_what_moves(s):
    """Each name is asked for so often that the ranges are sorted, then moved."""
    places = s.inspect.places
    s.run("@a = global [4 x i64] zeroinitializer\ndefine i32 @f() {\n  ret i32 1\n}")
    s.run("@b = global i64 1")
    for _ in range(8):
        assert places.data(s["a"].address + 8) == "@a+8"
        assert places.data(s["b"].address) == "@b"
        assert places.data(s["b"].address + 8) == ""
        assert places.code(s.symbols["f"].address) == f"@f, cell {s.symbols['f'].cell}"
    old, first = s.symbols["f"].address, s.symbols["f"].cell
    s.run("define i32 @pad() {\n  ret i32 7\n}\ndefine i32 @f() {\n  ret i32 2\n}")
    for _ in range(8):
        now = s.symbols["f"].address
        assert places.code(now) == f"@f, cell {s.number}"
        assert places.code(old) == f"@f, cell {first}", "which keeps @a"
    gone = s["b"].address
    s.evict("b")
    for _ in range(8):
        assert places.data(gone) == ""
    s.undo()
    for _ in range(8):
        assert places.data(gone) == "@b"
    s.run("@pointer = global ptr @f")
    entry = s.symbols["f"].entry
    assert places.stub(entry).name == "f" and places.stub(entry + 16) is None
    assert places.name(entry) == "the entry of @f"


def test_and_what_hibernates(s):
    cell = s.run("define i32 @f() {\n  ret i32 1\n}\n@keep = global i32 1").cell
    name = f"@f, cell {cell.number}"
    for _ in range(3):
        was = s.symbols["f"].address
        for _ in range(8):
            assert s.inspect.places.code(was) == name
        s.hibernate("f")
        stub = s.symbols["f"].address
        for _ in range(8):
            assert s.inspect.places.code(stub) == name
            assert stub == was or s.inspect.places.owner(was) is None
        assert s.call("f") == 1
