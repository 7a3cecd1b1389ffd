"""What a linked object costs in memory, and that cost grows with the object, not with the session.

Times are compared with each other in blocks that alternate, so that a busy machine slows both.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
import tracemalloc

import pytest
from toolchain import compile_ir

from jitkernel.arena import Arena
from jitkernel.linker import Linker

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
        for n in range(500):
            linker.unlink(linker.place(_object(1000 + 500 * block + n), 1))
        gc.collect()
        sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert sizes[-1] - sizes[1] <= 2000  # bytes in 2,000 cycles
    assert len(linker.symbols) == len(keep)
    linker.check()
    linker.arena.close()


def test_redefinition_with_a_thousand_callers():
    linker = _linker()
    linker.place(_object(0), 1)
    for n in range(1000):
        caller = _CALLER.replace(b"call000000", b"call%06d" % n)
        linker.place(caller, 2 + n, kinds={"name000000": "function"})
    times = []
    for n in range(7):
        start = time.perf_counter()
        linker.place(_object(0), 2000 + n, weak=frozenset())
        times.append(time.perf_counter() - start)
    linker.check()
    assert min(times) <= 1e-3
    linker.arena.close()


@pytest.mark.parametrize("live", [20_000])
def test_placing_does_not_slow_down_with_what_is_live(live):
    """Churn at random: places anew, takes any other out, in a small session and in a large one."""
    rng = random.Random(5)
    sessions = []
    for count in (200, live):
        linker = _linker()
        sessions.append((linker, [linker.place(_object(n), n + 1) for n in range(count)]))
    gc.collect()
    gc.freeze()
    ratios = []
    fresh = 100_000
    try:
        for _ in range(40):
            took = []
            for linker, images in sessions:
                total = 0.0
                for _ in range(50):
                    data = _object(fresh)
                    fresh += 1
                    start = time.perf_counter()
                    image = linker.place(data, 7)
                    total += time.perf_counter() - start
                    at = rng.randrange(len(images))
                    images[at], old = image, images[at]
                    linker.unlink(old)
                took.append(total)
            ratios.append(took[1] / took[0])
    finally:
        gc.unfreeze()
    assert statistics.median(ratios) <= 1.2
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
    ratios = []
    for _ in range(40):
        took = []
        for linker in linkers:
            start = time.perf_counter()
            for _ in range(20):
                with pytest.raises(Exception, match="nobody defines"):
                    linker.place(bad, 5)
            took.append(time.perf_counter() - start)
        ratios.append(took[1] / took[0])
    assert statistics.median(ratios) <= 1.5
    for linker in linkers:
        linker.arena.close()
