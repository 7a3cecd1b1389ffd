"""Page tables that tell who wrote what, beside bytes."""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import subprocess
import sys
from collections.abc import Iterator

import pytest

from jitkernel.arena import Arena, mirror, writes
from jitkernel.arena.mirror import ChangedPage, Mirror
from jitkernel.arena.slab import PAGE
from jitkernel.arena.writes import PageTable, protectable

SIZE = 8 << 20


class Twice:
    """A slab that this process has mapped a second time: that mapping stands for the executor's."""

    def __init__(self) -> None:
        self.arena = Arena(32 << 20)
        arena = self.arena
        self.map = mmap.mmap(arena.fd, arena.capacity)
        at = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        try:
            self.keeper = protectable(at, arena.capacity)
        except OSError as error:
            pytest.skip(f"pages cannot be protected here: {error}")
        self.table = PageTable(os.open("/proc/self/pagemap", os.O_RDONLY), at - arena.base)
        arena.writes.runner = lambda: self.table
        self.extent = arena.reserve("data", SIZE)
        arena.zero(self.extent.start, SIZE)
        for page in range(0, SIZE, PAGE):
            arena.write(self.extent.start + page, b"\1")

    def store(self, at: int, data: bytes) -> None:
        """The executor writes."""
        offset = self.extent.start + at - self.arena.base
        self.map[offset : offset + len(data)] = data

    def close(self) -> None:
        self.table.close()
        os.close(self.keeper)
        self.map.close()
        self.arena.close()


@pytest.fixture
def twice() -> Iterator[Twice]:
    made = Twice()
    yield made
    made.close()


def settle(mirror: Mirror) -> None:
    """Look until nothing is compared any more."""
    for _ in range(3):
        mirror.look()


def compared(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The pieces that it compares from now on."""
    seen: list[int] = []
    plain = mirror._compare

    def counting(index: int, low: int, high: int, before: int, stop: int) -> object:
        seen.append(index)
        return plain(index, low, high, before, stop)

    monkeypatch.setattr(mirror, "_compare", counting)
    return seen


def untold(twice: Twice, mirror: Mirror) -> list[ChangedPage]:
    """What differs, where all is compared."""
    kept, twice.arena.writes.runner = twice.arena.writes.runner, lambda: None
    found = mirror.look()
    twice.arena.writes.runner = kept
    return found


def test_what_nobody_wrote_is_not_compared(twice: Twice, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Mirror(twice.arena, "data")
    settle(watched)
    seen = compared(watched, monkeypatch)
    assert watched.look() == [] and len(seen) <= 1  # the last piece is not a whole one
    twice.store(5 * PAGE, b"x")
    twice.arena.write(twice.extent.start + SIZE // 2, b"y")
    told = {change.address - twice.extent.start for change in watched.look()}
    assert told == {5 * PAGE, SIZE // 2} and len(seen) <= 8


def test_what_the_program_cannot_write_its_table_is_not_asked_about(
    twice: Twice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Constants are mapped read-only there, and the system protects no such pages."""
    monkeypatch.setattr(mirror, "_LARGE", 1)
    nothing = PageTable(os.open("/dev/null", os.O_RDONLY))
    twice.arena.writes.runner = lambda: nothing
    extent = twice.arena.reserve("rodata", 1 << 20)
    twice.arena.write(extent.start, b"\1" * extent.size)
    watched = Mirror(twice.arena, "rodata")
    settle(watched)
    seen = compared(watched, monkeypatch)
    twice.arena.write(extent.start + 5 * PAGE, b"x")
    assert [change.address - extent.start for change in watched.look()] == [5 * PAGE]
    assert len(seen) <= 2
    nothing.close()


@pytest.mark.parametrize("lost", ["the runner", "a fork", "the keeper"])
def test_where_it_cannot_be_told_all_is_compared(
    twice: Twice, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Mirror(twice.arena, "data")
    settle(watched)
    if lost == "the runner":
        twice.arena.writes.runner = lambda: None
    elif lost == "a fork":
        program = os.fork()
        if not program:
            os._exit(0)
        os.waitpid(program, 0)
    else:
        os.close(twice.keeper)
        twice.keeper = os.open("/dev/null", os.O_RDONLY)
    seen = compared(watched, monkeypatch)
    twice.store(5 * PAGE, b"x")
    assert [change.address - twice.extent.start for change in watched.look()] == [5 * PAGE]
    assert len(seen) >= SIZE // mirror._PIECE


def test_a_system_that_cannot_protect_pages(twice: Twice, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a Linux before 6.7, or a sandbox without userfaultfd(2)."""
    monkeypatch.setattr(writes, "_WP_ASYNC", 1 << 60)
    watched = Mirror(twice.arena, "data")
    settle(watched)
    seen = compared(watched, monkeypatch)
    twice.store(5 * PAGE, b"x")
    assert [change.address - twice.extent.start for change in watched.look()] == [5 * PAGE]
    assert len(seen) >= SIZE // mirror._PIECE


def test_a_child_of_this_process_that_writes(twice: Twice) -> None:
    watched = Mirror(twice.arena, "data")
    settle(watched)
    child = os.fork()
    if not child:
        twice.arena.write(twice.extent.start + 7 * PAGE, b"child")
        os._exit(0)
    os.waitpid(child, 0)
    assert [change.address - twice.extent.start for change in watched.look()] == [7 * PAGE]


def test_another_process_that_writes_to_the_memory_of_this_one(twice: Twice) -> None:
    watched = Mirror(twice.arena, "data")
    settle(watched)
    at = ctypes.addressof(ctypes.c_char.from_buffer(twice.map))
    where = at + twice.extent.start - twice.arena.base + 9 * PAGE
    program = f"f = open('/proc/{os.getpid()}/mem', 'r+b', 0); f.seek({where}); f.write(b'z')"
    if subprocess.run([sys.executable, "-c", program], capture_output=True).returncode:
        pytest.skip("another process's memory cannot be written here")
    assert [change.address - twice.extent.start for change in watched.look()] == [9 * PAGE]


def test_pages_that_are_given_back(twice: Twice) -> None:
    """Protected pages, so that nothing was written: MADV_REMOVE makes them zero."""
    watched = Mirror(twice.arena, "data")
    settle(watched)
    offset = twice.extent.start - twice.arena.base
    for process in (twice.map, twice.arena._map):
        start = (offset + 32 * PAGE) & -PAGE
        process.madvise(mmap.MADV_REMOVE, start, PAGE)
        (change,) = watched.look()
        assert not change.now.strip(b"\0") and change.was
        twice.arena.write(change.address, b"\1")
        settle(watched)


def test_two_mirrors_of_one_zone_hear_of_each_other(twice: Twice) -> None:
    """What one has compared and protected is news to the other all the same."""
    one, other = Mirror(twice.arena, "data"), Mirror(twice.arena, "data")
    settle(one)
    settle(other)
    for number in range(40):
        at = number * 3 * PAGE
        twice.store(at, b"new")
        for _ in range(number % 4):  # one looks, and settles, once, twice or not at all
            one.look()
        told = [change.address - twice.extent.start for change in other.look()]
        assert told == [at]
        one.look()


def test_what_others_wrote_waits_for_the_next_look(
    twice: Twice, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = Mirror(twice.arena, "data")
    settle(mirror)
    seen = compared(mirror, monkeypatch)
    for number in range(20):
        piece = 64 * PAGE + number * 32 * PAGE
        twice.store(piece, b"theirs")
        twice.arena.write(twice.extent.start + piece + 16 * PAGE, b"own")
        told = [[c.now[:3] for c in mirror.look(own)] for own in (True, False)]
        assert told == [[b"own"], [b"the"]]
    assert len(seen) < 200


def test_at_random(twice: Twice) -> None:
    """Beside a mirror that compares all, with writers and readers of every kind."""
    chance = random.Random(7)
    told = [Mirror(twice.arena, "data"), Mirror(twice.arena, "data", SIZE // 2 + PAGE)]
    plain = Mirror(twice.arena, "data")
    plain._known = {}
    table = twice.arena.writes.runner
    behind: list[dict[int, bytes]] = [{}, {}, {}]
    for _ in range(80):
        for _ in range(chance.choice([0, 0, 1, 2, 40])):
            at = chance.randrange(SIZE - 8) & ~(PAGE - 1 if chance.random() < 0.5 else 0)
            data = chance.choice([b"\1", chance.randbytes(8)])
            if chance.random() < 0.5:
                twice.store(at, data)
            else:
                twice.arena.write(twice.extent.start + at, data)
        if chance.random() < 0.05:
            twice.arena.zero(twice.extent.start + chance.randrange(SIZE // 2), SIZE // 4)
        if chance.random() < 0.1:
            twice.arena.writes.runner = chance.choice([table, lambda: None])
        for index, reader in enumerate([*told, plain]):
            if reader is plain or chance.random() < 0.7:
                own = reader is not plain and chance.random() < 0.3
                found = untold(twice, plain) if reader is plain else reader.look(own)
                behind[index] |= {change.address: change.now for change in found}
                if own:  # what the other mapping wrote may be told later
                    continue
                for at, now in behind[index].items():
                    assert twice.arena.read(at, len(now)) == now, (
                        index,
                        hex(at),
                        hex(twice.extent.start),
                        _,
                    )
    for reader in told:
        twice.arena.writes.runner = table
        reader.look()
    whole = twice.arena.read(twice.extent.start, SIZE)
    for reader in told:
        for index, (start, content) in reader._known.items():
            at = start - twice.extent.start
            assert content == whole[at : at + len(content)], hex(index)


def test_what_is_written_again_and_again_is_not_protected_each_time(
    twice: Twice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault costs more than a comparison: at most one in a few looks, fewer and fewer."""
    watched = Mirror(twice.arena, "data")
    settle(watched)
    protected = 0
    plain = twice.table.protect

    def counting(start: int, stop: int) -> None:
        nonlocal protected
        protected += 1
        plain(start, stop)

    monkeypatch.setattr(twice.table, "protect", counting)
    for _ in range(100):
        twice.store(3 * PAGE, b"\1")  # what it was
        assert watched.look() == []
    assert 1 <= protected <= 10


def test_a_slab_that_is_closed_leaves_neither_descriptors_nor_mappings() -> None:
    def held() -> tuple[int, int]:
        with open("/proc/self/maps", encoding="ascii") as file:
            return len(os.listdir("/proc/self/fd")), file.read().count("/memfd:jitkernel (deleted)")

    before = held()
    made = Twice()
    made_mirror = Mirror(made.arena, "data")
    for _ in range(4):  # until pages are protected
        made_mirror.look()
    assert made.arena.writes._window and held() > before
    made.close()
    assert held() == before
