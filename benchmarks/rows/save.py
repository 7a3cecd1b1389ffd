"""Sessions in files: to write, to bring back, and to keep up to date cell by cell.

Start from `save_and_restore`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.harness import Figure, Scale, compare
from benchmarks.programs import caller, tiny
from jitkernel import Session

__all__ = ["autosave", "save_and_restore"]


def save_and_restore(scale: Scale) -> Iterator[Figure]:
    """Cells that each define a function and call the one before, with a global for every tenth."""
    count = scale.pick(1_000, 10_000)
    with TemporaryDirectory() as folder:
        path = str(Path(folder, "work.jks"))
        with Session(spare=False) as s:
            s.run(tiny("f0"))
            start = time.perf_counter()
            for first in range(1, count, 500):
                s.run_many([_cell(i) for i in range(first, min(first + 500, count))])
            made = time.perf_counter() - start
            writes = [_timed(lambda: s.save(path)) for _ in range(scale.pick(1, 3))]
            expected = s.call(f"f{count // 2}", 3)
        size = os.path.getsize(path)
        restores: list[float] = []
        for _ in range(scale.pick(1, 5)):
            start = time.perf_counter()
            with Session.restore(path, spare=False) as s:
                restores.append(time.perf_counter() - start)
                assert s.call(f"f{count // 2}", 3) == expected
                assert len(s.cells) == count
        empty: list[float] = []
        for _ in range(scale.pick(1, 3)):
            start = time.perf_counter()
            with Session(spare=False) as s:
                s.frontend.core.engine.ready()
                empty.append(time.perf_counter() - start)
    took = median(restores)
    yield Figure(f"compile and link {count:,} cells", made, "s")
    yield Figure("save them", median(writes), "s")
    yield Figure("restore them", took, "s", 1.0, note="from the call to a session that is ready")
    yield Figure("  an empty session, to compare", median(empty), "s")
    # A session takes as long to begin as 1,000 tiny cells to compile.
    yield Figure("restore / compile", took / made, "x", 1 / 20 if count >= 10_000 else None)
    yield Figure("the file, per cell", size / count, "bytes")


def _cell(i: int) -> str:
    variable = f"@g{i} = global i64 {i}\n" if i % 10 == 0 else ""
    return variable + caller(f"f{i}", f"f{i - 1}" if i % 50 else "f0")


def autosave(scale: Scale) -> Iterator[Figure]:
    """What saving after each cell adds to a cell, with few cells live and with many."""
    many = scale.pick(1_000, 10_000)
    with TemporaryDirectory() as folder:
        path = str(Path(folder, "work.jks"))
        with (
            Session(spare=False) as plain,
            Session(spare=False, store_path=path, autosave=True) as kept,
        ):
            sides = {
                name: lambda i, s=s: s.run(tiny(f"f{i % 20}", i), cell_id=f"c{i % 20}")
                for name, s in (("plain", plain), ("kept", kept))
            }
            few = compare(sides, scale.blocks, scale.block)
            for s in (plain, kept):
                s.run_many([tiny(f"g{i}", i) for i in range(many)])
            after = compare(sides, scale.blocks, scale.block)
            s = kept
            s.run("@block = global [4096 x i64] zeroinitializer")
            s.run("define void @touch(i64 %i) {\n  %p = getelementptr i64, ptr @block, i64 %i\n"
                  "  store i64 %i, ptr %p\n  ret void\n}")  # fmt: skip
            before = _written()
            for i in range(20):
                s.run(f"@touch(i64 {i + 1})")
            grown = (_written() - before) / 20
        size = os.path.getsize(path)
    plain_us, kept_us = (few.median(side) / 1e3 for side in ("plain", "kept"))
    more = (after.median("kept") - after.median("plain")) / 1e3
    yield Figure("a cell that is run again", plain_us, "us", note="without saving")
    yield Figure("  with saving after each cell", kept_us, "us")
    yield Figure("  it adds", kept_us - plain_us, "us", note=few.spread("kept", "plain"))
    yield Figure(f"  it adds with {many:,} more cells live", more, "us")
    yield Figure("written by a cell that changes one word", grown, "bytes")
    yield Figure(f"the file of {many:,} cells, each", size / many, "bytes")


def _timed(do: object) -> float:
    start = time.perf_counter()
    do()  # type: ignore[operator]
    return time.perf_counter() - start


def _written() -> int:
    """Bytes that this process has had written to files."""
    with open("/proc/self/io", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("write_bytes"))
