"""Define and call a tiny function; call lines.  Start from `define_and_call`."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.harness import Figure, Scale, compare
from benchmarks.programs import tiny
from benchmarks.rivals import LLJIT, MCJITEach, MCJITOne
from jitkernel import Session

__all__ = ["call_line", "define_and_call"]


def define_and_call(scale: Scale) -> Iterator[Figure]:
    """Ratios to every rival at -O2 and -O0."""
    for level, bar in ((2, 1.10), (0, 1.20)):
        yield from _at_level(scale, level, bar)


def _at_level(scale: Scale, level: int, bar: float) -> Iterator[Figure]:
    dyld, jitlink = LLJIT(level), LLJIT(level, "jitlink")
    objects, each, one = LLJIT(level, objects=True), MCJITEach(level), MCJITOne(level)
    with Session(opt_level=level) as s:

        def ours(i: int) -> None:
            s.run(tiny(f"f{i}", i))
            assert s.call(f"f{i}", 3) == 9 + i

        def one_cell(i: int) -> None:
            assert s.run(tiny(f"f{i}", i) + f"@f{i}(3)").value == 9 + i

        def theirs(rival: LLJIT | MCJITEach | MCJITOne, i: int) -> None:
            assert rival.define_and_call(tiny(f"f{i}", i), f"f{i}", 3) == 9 + i

        sides = {
            "jitkernel": ours,
            "LLJIT, RuntimeDyld": lambda i: theirs(dyld, i),
            "LLJIT, JITLink": lambda i: theirs(jitlink, i),
        }
        took = compare(sides, scale.blocks, scale.block)
        more = {
            "jitkernel": ours,
            "one cell": one_cell,
            "LLJIT given objects": lambda i: theirs(objects, i),
        }
        other = compare(more, scale.blocks, max(scale.block // 4, 3), seed=3)
        # The engines grow by a megabyte a cell: measured apart, so that they disturb nobody.
        few = compare(
            {
                "jitkernel": ours,
                "MCJIT, engine per module": lambda i: theirs(each, i),
                "MCJIT, one engine": lambda i: theirs(one, i),
            },
            scale.blocks, max(scale.block // 5, 3), warm_up=3, seed=2,
        )  # fmt: skip
    what = f"define + call, -O{level}"
    yield Figure(f"{what}: jitkernel", took.median("jitkernel") / 1e3, "us")
    for rival in ("LLJIT, RuntimeDyld", "LLJIT, JITLink"):
        yield Figure(f"{what}: {rival}", took.median(rival) / 1e3, "us")
        yield Figure(
            f"{what}: jitkernel / {rival}", took.ratio("jitkernel", rival), "x", bar,
            note=took.spread("jitkernel", rival),
        )  # fmt: skip
    yield Figure(
        f"{what}: jitkernel / LLJIT given objects", other.ratio("jitkernel", "LLJIT given objects"), "x",
        note="llvmlite emits, LLJIT only links: no second parse of the IR",
    )  # fmt: skip
    yield Figure(
        f"{what}: as one cell with a call line / with s.call",
        other.ratio("one cell", "jitkernel"), "x",
    )  # fmt: skip
    for rival in ("MCJIT, engine per module", "MCJIT, one engine"):
        yield Figure(f"{what}: jitkernel / {rival}", few.ratio("jitkernel", rival), "x")


def call_line(scale: Scale) -> Iterator[Figure]:
    """A line `@f(3)` in a cell of its own."""
    rival = LLJIT(2)
    with Session() as s:
        s.run(tiny("f"))

        def line(i: int) -> None:
            assert s.run("@f(3)").value == 9

        def library(i: int) -> None:
            assert s.call("f", 3) == 9

        def instruction(i: int) -> None:
            assert s.run(f"%r = add i32 {i}, 2").value == i + 2

        sides = {
            "line": line,
            "call": library,
            "block": instruction,
            "LLJIT": lambda i: rival.define_and_call(tiny(f"f{i}", i), f"f{i}", 3),
        }
        took = compare(sides, scale.blocks, scale.block)
    yield Figure("call line `@f(3)`", took.median("line") / 1e3, "us")
    yield Figure(
        "call line / LLJIT define + call", took.ratio("line", "LLJIT"), "x", 0.2,
        note="LLJIT has no lines: a call is compiled as a module",
    )  # fmt: skip
    yield Figure('s.call("f", 3) from Python', took.median("call") / 1e3, "us", 40)
    yield Figure(
        "bare instruction `%r = add i32 40, 2` / LLJIT define + call", took.ratio("block", "LLJIT"), "x",
        note="compiled at -O0, run once",
    )  # fmt: skip
