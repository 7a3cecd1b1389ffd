"""Mesa's load: many programs of about 10 KB, all live; one large module.  Start from `mesa`."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator

from benchmarks.harness import Figure, Scale
from benchmarks.processes import account, peak, pids, reset_peak, uss
from benchmarks.programs import large, shader
from benchmarks.rivals import LLJIT, MCJITEach, MCJITOne
from jitkernel import Session

__all__ = ["large_module", "mesa"]


def mesa(scale: Scale) -> Iterator[Figure]:
    """1,000 programs through the session; the rivals with as many as they can be given time for."""
    count = scale.pick(60, 1_000)
    with Session(spare=False) as s:
        for i in range(10):
            s.run(shader(f"s{i}", i))
        s.frontend.idle()
        gc.collect()
        before, start = account(s), time.perf_counter()
        for i in range(10, count + 10):
            s.run(shader(f"s{i}", i))
        took = time.perf_counter() - start
        s.frontend.idle()
        gc.collect()
        after = account(s)
        code = s.cells[-1].sizes["text"]
    ours = took / count
    yield Figure(f"{count:,} programs: jitkernel, per program", ours * 1e3, "ms")
    yield Figure(
        "memory per program, all processes", (after.total - before.total) / count, "bytes",
        note=f"{code:,} bytes of it code; the compiler's own memory, which does not add up, included",
    )  # fmt: skip
    for part, size in after.per(before, count).items():
        yield Figure(f"  of it: {part}", size, "bytes")
    few = scale.pick(20, 200)
    for title, rival in (
        ("LLJIT, RuntimeDyld", LLJIT(2)),
        ("LLJIT, JITLink", LLJIT(2, "jitlink")),
        ("MCJIT, one engine", MCJITOne(2)),
        ("MCJIT, engine per module", MCJITEach(2)),
    ):
        for i in range(5):
            rival.define(shader(f"s{i}", i), f"s{i}")
        gc.collect()
        memory, start = uss(), time.perf_counter()
        for i in range(5, few + 5):
            rival.define(shader(f"s{i}", i), f"s{i}")
        each = (time.perf_counter() - start) / few
        gc.collect()
        yield Figure(
            f"memory per program: {title}", (uss() - memory) / few, "bytes", note=f"{few} programs"
        )
        yield Figure(f"time per program: jitkernel / {title}", ours / each, "x")


def large_module(scale: Scale) -> Iterator[Figure]:
    """Peak resident memory while one module of many functions is compiled and linked."""
    functions = scale.pick(100, 2_000)
    source = large(functions)
    with Session(opt_level=0, spare=False) as s:
        s.run("@answer = global i32 42")
        before = {name: _resident(pid) for name, pid in pids(s)}
        for _, pid in pids(s):
            reset_peak(pid)
        start = time.perf_counter()
        s.run(source)
        took = time.perf_counter() - start
        most = {name: peak(pid) - before[name] for name, pid in pids(s) if name in before}
    size = f"{len(source) / 1e6:.1f} MB of IR, {functions:,} functions"
    yield Figure("one large module, -O0: jitkernel", took, "s", note=size)
    for name, more in most.items():
        yield Figure(f"  peak, {name} process", more, "bytes")
    yield Figure("  peak, all processes", sum(most.values()), "bytes")
    gc.collect()
    rest = _resident("self")
    rival = LLJIT(0)
    reset_peak()
    start = time.perf_counter()
    rival.define(source, "big0")
    theirs = time.perf_counter() - start
    more = peak() - rest
    yield Figure("  peak, LLJIT, RuntimeDyld", more, "bytes")
    yield Figure("  peak: jitkernel / LLJIT", sum(most.values()) / more, "x")
    yield Figure("  time: jitkernel / LLJIT", took / theirs, "x")


def _resident(pid: int | str) -> int:
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096
