"""Whole archives of the system, linked into a session and by GNU ld.  Start from `whole_archives`."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.harness import Figure, Scale
from jitkernel import Session
from jitkernel.elf import constants as c
from jitkernel.elf.archive import read_archive
from jitkernel.files import read_bytes

__all__ = ["whole_archives"]

_FOLDER = Path("/usr/lib/x86_64-linux-gnu")
_NAMES = ("z", "bz2", "lzma", "zstd", "sqlite3", "lua5.4")
_BAR = 3  # us for a relocation
_RATIO = 2.5  # to GNU ld, in sum


def whole_archives(scale: Scale) -> Iterator[Figure]:
    """`%link libNAME.a --whole` in a session whose process runs: everything, from the file's bytes
    to the end of the command, by relocations of loaded sections.

    GNU ld links the same members into a shared library, or, where their code is for programs only,
    into a position-independent program; its time has the start of a process in it.
    """
    found = [p for name in _NAMES if (p := _FOLDER / f"lib{name}.a").exists()]
    if not found:
        yield Figure("whole archives", None, "us", note="no static library is installed")
        return
    each: list[float] = []
    sums = [0.0, 0.0]  # of those that GNU ld links as well
    for path in found:
        count = _relocations(str(path))
        rounds = scale.pick(3, 7)
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(_ours(path))
            theirs.append(_theirs(path))
        each.append(statistics.median(ours) / 1e3 / count)
        known = [t for t in theirs if t is not None]
        if known:
            sums[0] += statistics.median(ours)
            sums[1] += statistics.median(known)
        ld = f"{statistics.median(known) / 1e3 / count:.2f} us" if known else "not there"
        yield Figure(
            f"%link {path.name} --whole, a relocation", each[-1], "us",
            note=f"{count:,} relocations, {statistics.median(ours) / 1e6:.1f} ms; GNU ld {ld}",
        )  # fmt: skip
    yield Figure(f"median of {len(each)} archives", statistics.median(each), "us", _BAR)
    if sums[1]:
        yield Figure("all of them, and GNU ld", sums[0] / sums[1], "x", _RATIO)


def _relocations(path: str) -> int:
    """The relocations that loading all members applies."""
    data = read_bytes(path)
    archive = read_archive(data, path, read_bytes)
    members = [archive.object(data, n, read_bytes) for n in range(len(archive.members))]
    return sum(
        len(entries)
        for obj in members
        for index, entries in obj.relocations.items()
        if obj.sections[index][2] & c.SHF_ALLOC
    )


def _ours(path: Path) -> float:
    with Session(spare=False) as s:
        s.run("define i32 @one() { ret i32 1 }")
        s.call("one")  # the program's process is there now
        return _took(lambda: s.link(str(path), whole=True))


def _theirs(path: Path) -> float | None:
    """None where there is no ld, or it refuses the archive."""
    if shutil.which("ld") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        for kind in (["-shared"], ["-pie", "-e", "0", "--unresolved-symbols=ignore-all"]):
            command = ["ld", *kind, "-o", f"{folder}/out", "--whole-archive", str(path)]
            done: list[int] = []
            took = _took(
                lambda command=command, done=done: done.append(  # type: ignore[misc]
                    subprocess.run(command, capture_output=True, check=False).returncode
                )
            )
            if done == [0]:
                return took
    return None


def _took(do: Callable[[], object]) -> float:
    """Nanoseconds."""
    began = time.perf_counter_ns()
    do()
    return time.perf_counter_ns() - began
