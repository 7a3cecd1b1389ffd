"""How the time of what a session does grows with what it holds.  Start from `growth`.

Time is that of the processors in all of the session's processes, so that a busy machine does not
count.  A step's exponent is the slope of its logarithm over that of the size: 1 is linear.
"""

from __future__ import annotations

import gc
import math
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from benchmarks.harness import Figure, Scale, slope
from benchmarks.processes import pids
from benchmarks.programs import tiny
from jitkernel import Session
from jitkernel.errors import JitError
from jitkernel.session.settings import CellOptions

__all__ = ["KINDS", "Steps", "growth", "measured", "spent"]

Steps = Iterator[tuple[str, Callable[[], object]]]
_BAR = 1.1
_LEAST = 5e6  # nanoseconds: below this at the largest size a step's exponent says nothing


def growth(scale: Scale) -> Iterator[Figure]:
    """For each kind of thing the steps of a session that has n of them, at growing n.

    The least of three times counts.
    """
    yield from measured(KINDS, scale.pick(400, 1_000, 2_000), scale)


def measured(
    kinds: Mapping[str, Callable[[Session, int], Steps]], least: int, scale: Scale
) -> Iterator[Figure]:
    """The exponents of the steps of each kind, from the least size to four times as many."""
    sizes = [20, 24] if scale.name == "tiny" else [least * k for k in (1, 2, 4)]
    for kind, steps in kinds.items():
        found: dict[str, list[float]] = {}
        for n in sizes:
            rounds = [_measure(steps, n) for _ in range(scale.pick(1, 3))]
            for step in rounds[0]:
                found.setdefault(step, []).append(min(r[step] for r in rounds))
        for step, times in found.items():
            yield _figure(kind, step, sizes, times)


def _figure(kind: str, step: str, sizes: list[int], times: list[float]) -> Figure:
    what = f"{kind}: {step}"
    shown = ", ".join(f"{t / 1e6:.1f}" for t in times)
    note = f"{shown} ms for {', '.join(f'{n:,}' for n in sizes)}"
    if times[-1] < _LEAST:
        return Figure(what, None, "1", note=f"too short to tell: {note}")
    logs = [math.log(max(t, _LEAST / 100)) for t in times]
    return Figure(what, slope([math.log(n) for n in sizes], logs), "1", _BAR, note=note)


def _measure(steps: Callable[[Session, int], Steps], n: int) -> dict[str, float]:
    """Nanoseconds of processor time that each step takes.

    Each begins with no garbage: when the collector next goes through all that lives depends on the
    steps before, and a short step must not pay for theirs.  What a step itself leaves counts.
    """
    found = {}
    with Session(spare=False, opt_level=0) as s:
        s.run("define void @warm() {\n  ret void\n}\n@warm()")
        for name, run in steps(s, n):
            gc.collect()
            before = spent(s)
            run()
            found[name] = spent(s) - before
            s.frontend.idle()
    return found


def spent(s: Session) -> float:
    """Nanoseconds that the session's processes have run (proc(5), /proc/PID/schedstat)."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)  # clang's, each ended and waited for
    total = float(time.process_time_ns()) + (children.ru_utime + children.ru_stime) * 1e9
    for _, pid in pids(s):
        if pid != os.getpid():
            with suppress(OSError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    total += int((task / "schedstat").read_text().split()[0])
    return total


# -- what is done ------------------------------------------------------------------------------


def _cells(s: Session, n: int) -> Steps:
    """n cells of one function, each calling the one before."""
    first = [tiny("f0")]
    rest = [
        f"declare i32 @f{i - 1}(i32)\ndefine i32 @f{i}(i32 %x) {{\n"
        f"  %r = call i32 @f{i - 1}(i32 %x)\n  ret i32 %r\n}}\n"
        for i in range(1, n)
    ]
    yield "run", lambda: s.run_many(first + rest)
    yield "list", lambda: [(repr(c), c.sizes) for c in s.cells]
    yield "redefine the first", lambda: s.run(tiny("f0", 1))
    yield "undo", lambda: s.undo()
    yield "redo", lambda: s.redo()
    yield "find garbage", lambda: s.gc(dry_run=True)
    yield "save", lambda: _save(s)
    yield "evict all", lambda: s.evict("f0", cascade=True)
    yield "undo the eviction", lambda: s.undo()
    yield "evict again", lambda: s.redo()


def _symbols(s: Session, n: int) -> Steps:
    """A cell of n functions, and one that names them all."""
    cell = "".join(tiny(f"f{i}") for i in range(n))
    other = "".join(tiny(f"f{i}", 1) for i in range(n))
    table = ", ".join(f"ptr @f{i}" for i in range(n))
    uses = "".join(f"  call i32 @f{i}(i32 1)\n" for i in range(n))
    user = f"@t = global [{n} x ptr] [{table}]\ndefine void @u() {{\n{uses}  ret void\n}}\n"
    yield "define", lambda: s.run(cell, cell_id="a")
    yield "use", lambda: s.run(user, cell_id="b")
    yield "redefine", lambda: s.run(other, cell_id="a")
    yield "undo", lambda: s.undo()
    yield "redo", lambda: s.redo()
    yield "use again", lambda: s.run(user, cell_id="b")
    yield "undo one of many", lambda: s.undo(name="t")
    most = other.partition("\n}\n")[2]  # all but the first
    yield "define elsewhere", lambda: s.run(most, cell_id="c")
    yield "undo that", lambda: s.undo()
    yield "list", lambda: [(x.name, x.type, x.users) for x in s.symbols.values()]
    yield "save", lambda: _save(s)
    retyped = "".join(f"define i64 @f{i}(i64 %x) {{\n  ret i64 %x\n}}\n" for i in range(n))
    yield "refuse", lambda: _refused(lambda: s.run(retyped, cell_id="a"))
    yield "retype", lambda: s.run(retyped, cell_id="a", options=CellOptions(retype=True))
    yield "undo the retyping", lambda: s.undo()
    yield "no longer define", lambda: s.run(tiny("f0", 2), cell_id="a")
    yield "take it back", lambda: s.undo()
    yield "refuse to evict", lambda: _refused(lambda: s.evict("f1"))
    yield "evict by force", lambda: s.evict("f1", force=True)
    yield "undo the eviction", lambda: s.undo()
    yield "evict all", lambda: s.evict("f1", cascade=True)
    yield "undo that too", lambda: s.undo()


def _globals(s: Session, n: int) -> Steps:
    """A cell of n variables, and one that uses them all."""
    cell = "".join(f"@g{i} = global i32 {i}\n" for i in range(n))
    loads = "".join(
        f"  %v{i} = load i32, ptr @g{i}\n  store i32 %v{i}, ptr @sink\n" for i in range(n)
    )
    user = f"@sink = global i32 0\ndefine void @u() {{\n{loads}  ret void\n}}\n"
    yield "define", lambda: s.run(cell, cell_id="a")
    yield "use", lambda: s.run(user, cell_id="b")
    yield "initialise again", lambda: s.run(cell.replace("i32 ", "i32 1"), cell_id="a")
    yield "undo", lambda: s.undo()
    yield "redo", lambda: s.redo()
    yield "in another cell", lambda: s.run(cell, cell_id="c")
    yield "undo from the middle", lambda: s.undo(name="u", cascade=True)
    yield "define again", lambda: s.redo()
    yield "assign", lambda: s.run("".join(f"@g{i} = {i}\n" for i in range(n)))
    yield "make by assignment", lambda: s.run("".join(f"@h{i} = i32 {i}\n" for i in range(n)))
    yield "watch", lambda: s.watch(*(f"g{i}" for i in range(n)))
    yield "unwatch", lambda: s.unwatch()
    yield "save", lambda: _save(s)


def _users(s: Session, n: int) -> Steps:
    """One function that n cells call and one variable that they use."""
    start = tiny("f") + "@g = global i32 1\n"
    callers = [
        f"declare i32 @f(i32)\n@g = external global i32\ndefine i32 @c{i}(i32 %x) {{\n"
        "  %v = load i32, ptr @g\n  %r = call i32 @f(i32 %v)\n  ret i32 %r\n}\n"
        for i in range(n)
    ]
    retyped = "define i64 @f(i64 %x) {\n  ret i64 %x\n}\n@g = global i64 1\n"
    yield "first", lambda: s.run(start, cell_id="a")
    yield "run", lambda: s.run_many(callers)
    yield "redefine", lambda: s.run(tiny("f", 1), cell_id="a")
    yield "undo", lambda: s.undo()
    yield "refuse", lambda: _refused(lambda: s.run(retyped, cell_id="a"))
    yield "retype", lambda: s.run(retyped, cell_id="a", options=CellOptions(retype=True))
    yield "undo the retyping", lambda: s.undo()
    yield "refuse to evict", lambda: _refused(lambda: s.evict("f"))
    yield "evict by force", lambda: s.evict("f", force=True)
    yield "undo the eviction", lambda: s.undo()
    yield "evict all", lambda: s.evict("f", cascade=True)
    yield "undo that too", lambda: s.undo()


def _types(s: Session, n: int) -> Steps:
    """n named types, and variables of them."""
    cell = "".join(f"%t{i} = type {{ i32, [{i % 7} x i8] }}\n" for i in range(n))
    cell += "".join(f"@g{i} = global %t{i} zeroinitializer\n" for i in range(n))
    other = cell.replace("i32", "i64")
    uses = "".join(f"  %p{i} = getelementptr %t{i}, ptr %p, i32 0, i32 1\n" for i in range(n))
    user = f"define void @u(ptr %p) {{\n{uses}  ret void\n}}\n"
    yield "define", lambda: s.run(cell, cell_id="a")
    yield "use", lambda: s.run(user)
    yield "define again", lambda: s.run(cell, cell_id="a")
    yield "change", lambda: s.run(other, cell_id="a")
    yield "undo", lambda: s.undo()
    yield "redo", lambda: s.redo()
    yield "save", lambda: _save(s)
    yield "evict", lambda: s.evict("g0", cascade=True)


def _names(s: Session, n: int) -> Steps:
    """n names that are declared and nothing else; one that is long."""
    cell = "".join(f"declare i32 @d{i}(i32)\n" for i in range(n))
    uses = "".join(f"  call i32 @d{i}(i32 1)\n" for i in range(n))
    long = "n" * n * 16
    yield "declare", lambda: s.run(cell)
    yield "use", lambda: s.run(f"define void @u() {{\n{uses}  ret void\n}}\n", cell_id="a")
    yield "define", lambda: s.run("".join(tiny(f"d{i}") for i in range(n)), cell_id="b")
    yield "undo", lambda: s.undo()
    yield "misspell", lambda: _refused(lambda: s.run("@dd(7)"))
    yield "long name", lambda: s.run(tiny(long))
    yield "call it", lambda: s.run(f"@{long}(3)")


KINDS: Mapping[str, Callable[[Session, int], Steps]] = {
    "cells": _cells,
    "symbols": _symbols,
    "globals": _globals,
    "users": _users,
    "types": _types,
    "names": _names,
}


def _save(s: Session) -> None:
    with tempfile.TemporaryDirectory() as folder:
        s.save(f"{folder}/session.jks")


def _refused(run: Callable[[], object]) -> None:
    """Something that the session says no to."""
    try:
        run()
    except JitError:
        return
    raise RuntimeError("this was to be refused")
