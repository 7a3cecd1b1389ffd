"""How much old data is kept, and what is said of data of which none is."""

from __future__ import annotations

import struct

import pytest

from jitkernel import Session
from jitkernel.rollback import RecordedDict, RecordedList
from jitkernel.session.history.snapshot import (
    CHUNK,
    beyond,
    count_far_words,
    grown,
    lost_words,
    without,
)
from jitkernel.session.program.cell import Change

HEAP, HIGH = 0x5000_0000_0000, 0x8000_0000_0000


@pytest.mark.parametrize(
    ("address", "data", "count"),
    [
        (0, struct.pack("<4Q", HEAP, HEAP - 1, HIGH - 1, HIGH), 2),
        (0, struct.pack("<2Q", HEAP, 5)[:15], 1),  # the second is not a whole word
        (0, struct.pack("<Q", HEAP)[:7], 0),
        (4, b"\0" * 4 + struct.pack("<Q", HEAP), 1),  # the first whole word is at 8
        (4, b"\0" * 4 + struct.pack("<Q", HEAP)[:7], 0),
        (7, b"\0" + struct.pack("<2Q", HEAP, HEAP) + b"\0" * 6, 2),
        (1, struct.pack("<Q", HEAP), 0),  # a pointer that is not aligned is none
        (3, b"", 0),
    ],
)
def test_words_that_look_like_pointers_beyond_the_arena(address, data, count):
    assert count_far_words(address, data, lambda: [(HEAP, HIGH)]) == count


def test_words_into_low_memory_count_where_the_process_has_some():
    data = struct.pack("<5Q", 0xA0_0000, 0xA0_1000, 0xA0_1FFF, 0xA0_2000, HEAP)
    assert count_far_words(0, data, lambda: [(0xA0_1000, 0xA0_2000), (HEAP, HIGH)]) == 3
    assert count_far_words(0, data, lambda: [(HEAP, HIGH)]) == 1
    assert count_far_words(0, data, tuple) == 0


def test_memory_that_has_grown_is_where_it_was_and_beside():
    mb = 1 << 20
    assert grown([(0x1000, 0x2000), (HEAP + 200 * mb, HEAP + 201 * mb)]) == [
        (0x1000, 0x2000),  # among numbers: only where it was
        (HEAP + 136 * mb, HEAP + 265 * mb),
    ]
    assert grown([(HEAP, HEAP + mb), (HEAP + 100 * mb, HEAP + 101 * mb)]) == [
        (HEAP, HEAP + 165 * mb)
    ]


def change(name: str, pages: int) -> Change:
    return Change(name, pages=RecordedDict({CHUNK * n: bytes(CHUNK) for n in range(pages)}))


@pytest.mark.parametrize(
    ("pages", "limit", "lost"),
    [
        ([2, 2, 2, 2], 4, ["b", "a"]),  # from the last one on: 2, 4, 6 and 8 pages
        ([2, 2, 2, 2], 3, ["c", "b", "a"]),
        ([2, 2, 2, 2], 8, []),
        ([2, 0, 2, 2], 4, ["a"]),  # what kept nothing loses nothing
        ([9], 4, []),  # the last is kept, however large
        ([1, 9], 4, ["a"]),
    ],
)
def test_the_earliest_lose_their_pages(pages, limit, lost):
    changes = [change(name, count) for name, count in zip("abcd", pages, strict=False)]
    assert [c.title for c in beyond(changes, limit * CHUNK)] == lost


@pytest.mark.parametrize(
    ("ranges", "left"),
    [
        ([], b"abcdef"),
        ([(90, 102)], b"\0\0cdef"),
        ([(100, 101), (104, 200)], b"\0bcd\0\0"),
        ([(94, 100), (106, 107)], b"abcdef"),
    ],
)
def test_what_is_in_a_range_counts_as_zero(ranges, left):
    assert without(ranges, 100, b"abcdef") == left


def test_what_would_be_lost_is_told_to_the_byte(s: Session) -> None:
    """Ranges of variables, ranges that are told twice, and what lies between variables."""
    s.run(
        "@g = global [10 x i8] zeroinitializer\n@h = global [3000 x i8] zeroinitializer, align 16"
    )
    g, h = s["g"].address, s["h"].address

    def said(*ranges: tuple[int, int]) -> str:
        return lost_words(
            s.inspect.program, [Change("some", lost=RecordedList(ranges)), Change("other")]
        )

    assert said() == ""
    assert said((g + 2, g + 5)) == "@g (3 B of 10 B)"
    assert said((g, g + 3), (g + 7, g + 10), (g, g + 3)) == "@g (6 B of 10 B)"
    assert said((h, h + 1536)) == "@h (1.5 KiB of 2.9 KiB)"
    assert said((g, g + 2), (h + 10, h + 30)) == "@h (20 B of 2.9 KiB), @g (2 B of 10 B)"
    assert said((g + 8, g + 12)) == "@g (2 B of 10 B), 2 B without a name"
    assert said((g + 10, g + 12)) == "2 B without a name"
    assert said((g + 9, g + 11)) == "@g (1 B of 10 B), 1 B without a name"
