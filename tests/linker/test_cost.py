"""What a linked object costs in memory, and that cost grows with the object, not with the session.

Times are the processor's, and are compared with each other in blocks that alternate, so that a busy
machine slows both.
"""

from __future__ import annotations

import gc
import itertools
import random
import statistics
import struct
import time
import tracemalloc

import pytest
from toolchain import compile_ir

from jitkernel.arena import Arena
from jitkernel.errors import LinkError
from jitkernel.linker import Linker
from tests.busy import within

_OBJECT = compile_ir("define i32 @name000000(i32 %x) { %a = mul i32 %x, %x  ret i32 %a }")
_CALLER = compile_ir("""
    declare i32 @name000000(i32)
    define i32 @call000000(i32 %x) {
      %a = call i32 @name000000(i32 %x)
      %b = add i32 %a, 1
      ret i32 %b
    }
""")


def _object(number: int) -> bytes:
    return _OBJECT.replace(b"name000000", b"name%06d" % number)


def _linker() -> Linker:
    arena = Arena()
    return Linker(arena, lambda names: [0] * len(names), {"jk_raise": arena.base + 0x100})


def test_bytes_per_live_image():
    linker = _linker()
    objects = [_object(n) for n in range(2200)]
    images = [linker.place(o, 1) for o in objects[:200]]
    gc.collect()
    tracemalloc.start()
    images += [linker.place(o, 1) for o in objects[200:]]
    gc.collect()
    held = tracemalloc.get_traced_memory()[0] / 2000
    tracemalloc.stop()
    assert held <= 1000  # image, symbol, extents, books
    used = {name: zone["used"] / 2200 for name, zone in linker.arena.usage().items()}
    assert used["text"] <= 16 and used["unwind"] <= 26
    padding = sum(zone["padding"] for zone in linker.arena.usage().values()) / 2200
    assert padding <= 16
    for image in images:
        linker.unlink(image)
    linker.arena.close()


def test_nothing_stays_of_what_is_taken_out():
    linker = _linker()
    keep = [linker.place(_object(n), 1) for n in range(50)]
    tracemalloc.start()
    sizes = []
    for block in range(6):
        for n in range(300):
            linker.unlink(linker.place(_object(1000 + 300 * block + n), 1))
        gc.collect()
        sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert sizes[-1] - sizes[1] <= 1200  # bytes in 1,200 cycles
    assert len(linker.symbols) == len(keep)
    linker.check()
    linker.arena.close()


def test_redefinition_with_a_thousand_callers():
    linker = _linker()
    linker.place(_object(0), 1)
    for n in range(1000):
        caller = _CALLER.replace(b"call000000", b"call%06d" % n)
        linker.place(caller, 2 + n, kinds={"name000000": "function"})
    page, write = bytearray(1 << 15), struct.Struct("<i").pack_into

    def against_writing() -> float:
        """Of a thousand displacements as such, which is the least that could be done."""
        ratios = []
        for n in range(9):
            start = time.thread_time()
            linker.place(_object(0), 2000 + n, weak=frozenset())
            took = time.thread_time() - start
            start = time.thread_time()
            for at in range(0, 16_000, 16):
                write(page, at, 977 - (at + 4))
            ratios.append(took / (time.thread_time() - start))
        return statistics.median(ratios)

    within(against_writing, 5)  # 1.6
    linker.check()
    linker.arena.close()


@pytest.mark.parametrize("live", [10_000])
def test_placing_does_not_slow_down_with_what_is_live(live):
    """Churn at random: places anew, takes any other out, in a small session and in a large one."""
    rng = random.Random(5)
    sessions = []
    for count in (200, live):
        linker = _linker()
        sessions.append((linker, [linker.place(_object(n), n + 1) for n in range(count)]))
    fresh = itertools.count(100_000)

    def large_against_small() -> float:
        ratios = []
        for _ in range(40):
            took = []
            for linker, images in sessions:
                total = 0.0
                for _ in range(50):
                    data = _object(next(fresh))
                    start = time.thread_time()
                    image = linker.place(data, 7)
                    total += time.thread_time() - start
                    at = rng.randrange(len(images))
                    images[at], old = image, images[at]
                    linker.unlink(old)
                took.append(total)
            ratios.append(took[1] / took[0])
        return statistics.median(ratios)

    gc.collect()
    gc.freeze()
    try:
        within(large_against_small, 1.2)
    finally:
        gc.unfreeze()
        gc.collect()
        gc.freeze()  # as `conftest` has it: else each later collection takes 0.1 s
    for linker, images in sessions:
        linker.check()
        usage = linker.arena.usage()["text"]
        assert usage["high"] <= 1.1 * 16 * len(images) + 1024
        linker.arena.close()


def test_failing_does_not_slow_down_with_what_is_live(monkeypatch):
    """An object that cannot be linked is taken back at a cost of its own size."""
    linkers = []
    for count in (100, 10_000):
        linker = _linker()
        for n in range(count):
            linker.place(_object(n), n + 1)
        linkers.append(linker)
    bad = compile_ir("@nobody = external global i32\ndefine ptr @asks() { ret ptr @nobody }")

    def large_against_small() -> float:
        ratios = []
        for _ in range(40):
            took = []
            for linker in linkers:
                start = time.thread_time()
                for _ in range(20):
                    with pytest.raises(LinkError, match="nobody defines"):
                        linker.place(bad, 5)
                took.append(time.thread_time() - start)
            ratios.append(took[1] / took[0])
        return statistics.median(ratios)

    within(large_against_small, 1.5)
    for linker in linkers:
        linker.arena.close()
