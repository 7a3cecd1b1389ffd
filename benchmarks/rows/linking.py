"""Linking alone: objects are made beforehand.  Start from `link_only`."""

from __future__ import annotations

import gc
from collections.abc import Iterator

from benchmarks.cells import Stamp
from benchmarks.harness import Comparison, Figure, Scale, compare
from benchmarks.processes import account
from benchmarks.programs import tiny
from benchmarks.rivals import LLJIT
from jitkernel import Session

__all__ = ["link_among_many", "link_only"]

_BASE = 10_000_000  # numbers from here on are of no cell that lives


def link_only(scale: Scale) -> Iterator[Figure]:
    """The linker in a loop, with few and with many live cells; the whole of `Session.place`."""
    few, many = scale.pick(20, 200), scale.cells
    with Session(spare=False) as a, Session(spare=False) as b:
        small, large = Stamp(a), Stamp(b)
        small.place(range(few))
        large.place(range(many))
        took = _alternately(a, b, small, scale)
        copies = {i: small.copy(i) for i in range(2 * _BASE, 2 * _BASE + _count(scale, 3))}
        rivals = {"rtdyld": LLJIT(2), "jitlink": LLJIT(2, "jitlink")}
        # LLJIT's memory is anywhere: it needs objects made for the large address space.
        front = rivals["rtdyld"].front
        plain = front.machine.emit_object(front.module(tiny("f00000000")))
        raw = [plain.replace(b"f00000000", f"f{i:08d}".encode()) for i in range(_count(scale, 3))]

        def theirs(name: str, i: int) -> None:
            rivals[name].link(raw[i], f"f{i:08d}")

        other = compare(
            {
                "place": lambda i: a.place(copies[2 * _BASE + i]),
                "rtdyld": lambda i: theirs("rtdyld", i),
                "jitlink": lambda i: theirs("jitlink", i),
            },
            scale.blocks, scale.block // 2,
        )  # fmt: skip
    yield Figure(
        "link one tiny object (site, unwind entry, books)", took.median("few") / 1e3, "us", 40,
        note=f"{few:,} live cells and those of the loop",
    )  # fmt: skip
    yield Figure(f"the same with {many:,} live cells", took.median("many") / 1e3, "us", 40)
    yield Figure(
        f"{many:,} live / {few:,} live, alternately",
        took.ratio("many", "few"),
        "x",
        1.2,
        note=took.spread("many", "few"),
    )
    yield Figure("Session.place: types, undo and store too", other.median("place") / 1e3, "us")
    yield Figure(
        "link: jitkernel / LLJIT, RuntimeDyld", took.median("few") / other.median("rtdyld"), "x"
    )
    yield Figure(
        "link: jitkernel / LLJIT, JITLink", took.median("few") / other.median("jitlink"), "x"
    )


def link_among_many(scale: Scale) -> Iterator[Figure]:
    """The same with 100,000 live cells, and what those occupy."""
    few, many = scale.pick(100, 1_000), scale.pick(2_000, 100_000)
    with Session(spare=False) as b:
        large = Stamp(b)
        large.place(range(1))
        b.frontend.idle()
        gc.collect()
        before = account(b)
        large.place(range(1, many))
        b.frontend.idle()
        gc.collect()
        after = account(b)
        yield Figure(
            f"{many:,} live cells, all processes, above the empty session",
            after.total - before.total, "bytes", 250e6 * many / 100_000,
            note=f"kernel process {(after.kernel - before.kernel) / 1e6:.0f} MB, slab "
            f"{(after.slab - before.slab) / 1e6:.0f} MB; placed through the session",
        )  # fmt: skip
        with Session(spare=False) as a:
            small = Stamp(a)
            small.place(range(few))
            took = _alternately(a, b, small, scale)
    yield Figure(
        f"link, {many:,} live / {few:,} live, alternately", took.ratio("many", "few"), "x", 1.3,
        note=took.spread("many", "few"),
    )  # fmt: skip


def _alternately(few: Session, many: Session, stamp: Stamp, scale: Scale) -> Comparison:
    """Links of fresh objects in two sessions by turns."""
    objects = {i: stamp.object(_BASE + i) for i in range(_count(scale))}

    def link(s: Session, i: int) -> None:
        s._core.program.linker.place(objects[i], 9, weak=frozenset(), kinds={})

    sides = {"few": lambda i: link(few, i), "many": lambda i: link(many, i)}
    return compare(sides, scale.blocks * 2, scale.block)


def _count(scale: Scale, sides: int = 4) -> int:
    """Repetitions that a comparison makes, with room."""
    return 20 * 4 + scale.block * scale.blocks * sides + 10
