"""Objects and archives with bytes changed: an error, or a link; never a write outside.

Each file is damaged with a fixed seed: single bytes, words, pieces moved, cut off, doubled. What
comes of it is judged by the books of arena and linker, and by the bytes of what was there before.
"""

from __future__ import annotations

import random
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jitkernel.arena import Arena
from jitkernel.elf import ElfObject, read_object
from jitkernel.elf.archive import read_archive
from jitkernel.elf.constants import SHT_RELA
from jitkernel.errors import ArenaFull, LinkError
from jitkernel.linker import Linker
from jitkernel.linker.archives import LinkedArchive, combine, select
from jitkernel.linker.prepare import prepared

sys.path.insert(0, str(Path(__file__).parents[1] / "linker"))
from native import lookup
from toolchain import compile_c, needs, tool

pytestmark = needs("gcc", "ar")

_SOURCES = {
    "a.o": "#include <stdio.h>\nextern int b(int); int shared;\nstatic int (*table[])(int) = {b};"
    'int a(int x) { fprintf(stderr, "%d", x); return table[0](x) + shared; }',
    "b.o": "static __thread int n; static __thread int m = 3; int b(int x) {"
    " switch (x) { case 0: return 5; case 1: return n++; case 2: return 9; case 3: return m++;"
    " case 4: return 77; case 5: return 1; } return x; }",
    "c.o": "static int one(int x) { return x; } static void *r(void) { return one; }"
    "int c(int) __attribute__((ifunc(\"r\"))); int d(int x) { return c(x); }"
    "__attribute__((constructor)) static void s(void) { c(1); }",
}  # fmt: skip
_CALLS = "int a(int), d(int); int user(void) { return a(1) + d(2); }"


def _damaged(data: bytes, seed: int) -> bytes:
    rng = random.Random(seed)
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5, 20))):
        at = rng.randrange(len(out))
        what = rng.randrange(8)
        if what < 3:
            out[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif what < 5:
            at &= ~7
            word = rng.choice(
                (0, 1, 1 << 31, (1 << 32) - 1, 1 << 63, rng.getrandbits(64), len(out))
            )
            out[at : at + 8] = struct.pack("<Q", word)[: len(out) - at]
        elif what == 5:
            size = rng.randrange(1, 64)
            to = rng.randrange(len(out))
            out[to : to + size] = out[at : at + size]
        elif what == 6 and len(out) > 200:
            del out[at : at + rng.randrange(1, 100)]
        else:
            out[at:at] = rng.randbytes(rng.randrange(1, 40))
        if not out:
            break
    return bytes(out)


class _World:
    """A linker with a neighbour in every zone, whose bytes nothing may change."""

    def __init__(self) -> None:
        self.arena = Arena(capacity=16 << 20)
        runtime = {"jk_raise": self.arena.base + 0x100}
        self.linker = Linker(self.arena, lookup, fixed=runtime)
        source = "int near = 4; const int fixed[9] = {1}; int neighbour(void) { return near; }"
        self.neighbour = self.linker.place(compile_c(source), 1)
        extents = [self.neighbour.text] + [b.extent for b in self.neighbour.blocks]
        self._guarded = [(e.start, e.size) for e in extents]
        self._before = self._bytes()
        self.outcomes = {"linked": 0, "refused": 0}

    def _bytes(self) -> list[bytes]:
        return [self.arena.read(start, size) for start, size in self._guarded]

    def judge(self, make) -> None:
        symbols = set(self.linker.symbols)
        try:
            with self.arena.rollback.atomic():
                image = self.linker.place(make(), 2)
        except (LinkError, ArenaFull) as error:
            assert str(error)
            self.outcomes["refused"] += 1
            assert set(self.linker.symbols) == symbols
        else:
            self.outcomes["linked"] += 1
            self.linker.check()
            with self.arena.rollback.atomic():
                self.linker.unlink(image)
        self.linker.check()
        assert self._bytes() == self._before


@pytest.fixture
def world() -> Iterator[_World]:
    made = _World()
    yield made
    made.arena.close()


def _objects() -> list[bytes]:
    flags = ("-O1", "-O2 -fPIC", "-O0 -fPIC -g", "-O2 -fno-pic")
    return [
        compile_c(source, *f.split())
        for source in _SOURCES.values()
        for f in flags
        if "__thread" not in source or "-fPIC" in f
    ]


def _objects_in(world: _World, seeds: range) -> None:
    objects = _objects()
    for seed in seeds:
        data = _damaged(objects[seed % len(objects)], seed)
        world.judge(lambda data=data: prepared(read_object(data), "x.o", world.linker.resolver))


def _archives_in(world: _World, seeds: range, folder: Path) -> None:
    for name, source in _SOURCES.items():
        (folder / name).write_bytes(compile_c(source, "-O1", "-fPIC"))
    for flags in ("rcs", "rcS"):
        tool("ar", flags, str(folder / f"{flags}.a"), *(str(folder / n) for n in _SOURCES))
    originals = [(folder / f"{flags}.a").read_bytes() for flags in ("rcs", "rcS")]

    def read(path: str) -> bytes:
        raise LinkError(f"{path} is not there")

    for seed in seeds:
        data = _damaged(originals[seed & 1], seed)

        def make(data: bytes = data) -> ElfObject:
            archive = read_archive(data, "x.a", lambda path: data if path == "x.a" else read(path))
            linked = LinkedArchive(archive, lambda path: data if path == "x.a" else read(path))
            has = world.linker.symbols.__contains__
            taken = select([linked], ["a", "d"], has)
            if not taken:
                raise LinkError("no member defines a or d")
            return combine(taken, world.linker.resolver)

        world.judge(make)


def test_damaged_objects(world):
    _objects_in(world, range(300))
    assert min(world.outcomes.values()) > 30


def test_damaged_archives(world, tmp_path):
    _archives_in(world, range(300), tmp_path)
    assert min(world.outcomes.values()) > 30


@pytest.mark.parametrize("value", [(1 << 63) - 1, -1 << 63, 1 << 31])
@pytest.mark.parametrize("field", ["offset", "addend"])
def test_each_relocation_at_the_end_of_its_range(world, field, value):
    for data in _objects():
        start, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
        for header in range(start, start + 64 * count, 64):
            kind, at, size = struct.unpack_from("<4xI16xQQ", data, header)
            for entry in range(at, at + size, 24) if kind == SHT_RELA else ():
                changed = bytearray(data)
                struct.pack_into("<q", changed, entry + 16 * (field == "addend"), value)
                world.judge(
                    lambda data=bytes(changed): prepared(
                        read_object(data), "x.o", world.linker.resolver
                    )
                )
    assert world.outcomes["refused"]


@pytest.mark.soak
def test_many(world, tmp_path):
    _objects_in(world, range(1_000, 11_000))
    _archives_in(world, range(1_000, 11_000), tmp_path)
    print(world.outcomes)
