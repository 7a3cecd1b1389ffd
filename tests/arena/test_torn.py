"""What is taken and given back is whole at any line that an exception ends it at."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from itertools import count
from types import FrameType

import pytest

from jitkernel.arena import Arena, Extent, FreeList
from tests.interruption import Torn, each_line


def torn(do: Callable[[], object], line: int) -> bool:
    """Run `do`, ended at the `line`-th line of `jitkernel` that it comes to; whether it was."""
    passed = 0

    def seen(frame: FrameType) -> None:
        nonlocal passed
        passed += 1
        if passed == line:
            sys.settrace(None)
            raise Torn

    with each_line(seen):
        do()
    return passed >= line


def books(arena: Arena) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, zone in arena.zones.items():
        live = {at: arena.read(at, size) for at, size in zone.list.live.items()}
        found[name] = live, list(zone.list.holes()), zone.list.used, zone.list.padding
    return found


#: A zone with a hole of 64 bytes between two extents, the second of 40; and a lot behind.
OPERATIONS: dict[str, Callable[[Arena, Extent, Extent], object]] = {
    "best fit": lambda a, hole, last: a.reserve("text", 40),
    "the whole hole": lambda a, hole, last: a.reserve("text", 64),
    "aligned": lambda a, hole, last: a.reserve("text", 33, 256),
    "at a place": lambda a, hole, last: a.reserve_at("text", hole.start + 16, 20),
    "at a place far up": lambda a, hole, last: a.reserve_at("text", last.start + 4096, 20),
    "many": lambda a, hole, last: a.reserve_all(
        [Extent("text", hole.start, 16), Extent("text", last.start + 96, 33)]
    ),
    "free": lambda a, hole, last: a.free(last),
    "free and take": lambda a, hole, last: (a.free(last), a.reserve("text", 100)),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_exception_at_any_line(name: str) -> None:
    do = OPERATIONS[name]
    for line in count(1):
        arena = Arena(4 << 20)
        try:
            _, hole, last = (arena.reserve("text", size) for size in (48, 64, 40))
            arena.write(last.start, b"x" * 40)
            arena.free(hole)
            before = books(arena)
            try:
                with arena.rollback.atomic():
                    ended = torn(partial(do, arena, hole, last), line)
            except Torn:
                assert books(arena) == before, f"line {line}"
                arena.check()
                again = arena.reserve("text", 64)
                assert again.start == hole.start, "the hole is found again"
            else:
                assert not ended and line > 10
                assert books(arena) != before
                arena.check()
                return
        finally:
            arena.close()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda f: f.live.pop(32), "used is 32, and live ranges leave 16"),
        (lambda f: f.live.update({0: 17}), "used is 32, and live ranges leave 33"),
        (
            lambda f: setattr(f, "stop", 272),
            "_stop_of is .*48: 256.* leave .*48: 272",
        ),
        (lambda f: setattr(f, "used", 31), "used is 31, and live ranges leave 32"),
        (lambda f: setattr(f, "padding", 16), "padding is 16, and live ranges leave 0"),
    ],
)
def test_damaged_books_are_told(damage: Callable[[FreeList], object], said: str) -> None:
    """Two live granules, at 0 and at 0x20, of 16: 256 bytes, 32 used, 224 free."""
    books = FreeList(0, 256, 16)
    at = [books.take(16) for _ in range(3)]
    books.free(at[1] or 0)
    books.check()
    damage(books)
    with pytest.raises(AssertionError, match=said):
        books.check()
