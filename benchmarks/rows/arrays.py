"""Python and arrays: what a call costs with one, and numeric programs beside numba and cffi.

Start from `numeric`.
"""

from __future__ import annotations

import importlib.util
import mmap
import os
import random
import shutil
import statistics
import struct
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Comparison, Figure, Scale, compare, median_ns, ratios
from jitkernel import Session

if TYPE_CHECKING:
    from benchmarks.numeric import Program

__all__ = ["calls", "numeric"]

_Make = Callable[[Session, "Program", Any, str], Callable[[], object]]
_NOTHING = (
    "define i64 @array(ptr %p) {\n  ret i64 1\n}\ndefine i64 @scalar(i64 %p) {\n  ret i64 1\n}"
)


def calls(scale: Scale) -> Iterator[Figure]:
    """A call that touches nothing, with an array and with a number; a large global that is set."""
    import numpy as np

    with Session() as s:
        s.run(_NOTHING)
        large, copied = s.array(100_000_000 // 8), np.zeros(1_000_000 // 8)
        found = compare(
            {
                "array": lambda i: s.call("array", large),
                "scalar": lambda i: s.call("scalar", i),
                "copied": lambda i: s.call("array", copied),
            },
            scale.blocks, scale.block,
        )  # fmt: skip
        yield Figure("a call with a shared array of 100 MB", found.median("array"), "ns")
        yield Figure("the same call with a number", found.median("scalar"), "ns")
        yield Figure(
            "ratio", found.ratio("array", "scalar"), "x", 1.05, note=found.spread("array", "scalar")
        )
        yield Figure("an array of 1 MB that is copied, and back", found.median("copied"), "ns")
        s.run("@table = global [1000000 x double] zeroinitializer")
        numbers = np.random.default_rng(1).random(1_000_000)
        table = s["table"]

        def fill(_: int) -> None:
            table.value = numbers

        fill(0)
        yield Figure("set a [1000000 x double]", median_ns(fill, scale.pick(5, 15)) / 1e6, "ms", 20)
        s.export_python("asked", lambda: None, "void ()")
        s.run(
            "define void @many(i64 %n) {\nentry:\n  br label %l\nl:\n"
            "  %i = phi i64 [ 0, %entry ], [ %j, %l ]\n  call void @asked()\n  %j = add i64 %i, 1\n"
            "  %m = icmp slt i64 %j, %n\n  br i1 %m, label %l, label %e\ne:\n  ret void\n}"
        )
        count = scale.pick(300, 2000)
        took = median_ns(lambda i: s.call("many", count), 3) / count
        yield Figure("a cell calls a function of Python's", took, "ns")


def numeric(scale: Scale) -> Iterator[Figure]:
    """Six programs through C cells, numba and cffi: run time, and the first call with all that it
    takes to get there, of several functions that differ in their name, in turns.

    All compute the same to the bit, which is looked at: multiplications and additions are rounded
    one by one, as numba has them (see `benchmarks.numeric`).  How much quicker or slower a cell is
    that leaves that to C, as cells do unless they are told, stands in a line of its own: a sum
    waits longer for the one operation than for an addition.

    clang alone shows what is its own doing: loops are unrolled as its model of the processor has
    it.  Of a first call, what no cell can do without stands in a line of its own: clang's time for
    the text, LLVM's for the module, and the call's.  Where code and arrays lie decides, too: cells
    of one source at several places, and one cell with several sets of small arrays, show what that
    does to it.
    """
    sides: dict[str, _Make] = {"C cell": _cell}
    for name, needed, make in (
        ("numba", ("numba",), _numba), ("cffi", ("cffi", "setuptools"), _cffi),
    ):  # fmt: skip
        there = all(map(importlib.util.find_spec, needed))
        if there and (name != "cffi" or shutil.which("gcc")):
            sides[name] = make
        else:
            yield Figure(name, None, "x", note="not installed: pip install 'jitkernel[bench]'")
    from benchmarks.numeric import PROGRAMS

    if "numba" in sides:
        import numba

        numba.njit("f8(f8)")(lambda x: x)(1.0)  # LLVM is loaded and ready, as in a session
    runtimes: list[float] = []
    with Session() as s, TemporaryDirectory() as folder:
        s.run("int ready(void) { return 1; }", "c")
        s.call("ready")
        for program in PROGRAMS[: 1 if scale.name == "tiny" else None]:
            runs: dict[str, Callable[[], object]] = {}
            results: dict[str, bytes] = {}
            firsts: dict[str, list[float]] = {name: [] for name in sides}
            alone: list[tuple[float, float, float]] = []
            for number in range(scale.pick(3, 7, 15)):  # of the first the run time is looked at
                for name, make in sides.items():
                    given = _shared(s, program) if name == "C cell" else program.arguments()
                    anew = program.renamed(f"{program.name}_{number}") if number else program
                    start = time.perf_counter()
                    run = make(s, anew, given, folder)
                    result = run()
                    firsts[name].append((time.perf_counter() - start) * 1e3)
                    if not number:
                        runs[name], results[name] = run, _bytes(result, given)
                    if name == "C cell":
                        again = run
                alone.append(_alone(s, anew, again))
            places = _places(s, program)
            native = {"clang": _clang(program, folder)} if shutil.which("gcc") else {}
            contracted = {"contracted": _contracted(s, program)}
            sets = _sets(s, program)
            everything = {**runs, **native, **contracted, **places, **sets}
            found = _in_turn(everything, scale.pick(7, 25, 60))
            best = min((n for n in runs if n != "C cell"), key=found.median, default="C cell")
            runtimes.append(found.ratio("C cell", best))
            note = ", ".join(f"{n} {found.median(n):.2f} ms" for n in (*runs, *native))
            yield Figure(f"{program.name}: C cell / {best}", runtimes[-1], "x", 1.05, note=note)
            others = [n for n, data in results.items() if data != results["C cell"]]
            yield Figure(
                "  sides whose results are others than the cell's", len(others), "1", 0,
                note=", ".join(others),
            )  # fmt: skip
            yield Figure(
                "  with a * b + c as one operation, C's default",
                found.ratio("contracted", "C cell"), "x",
                note=f"of the cell's time: {found.median('contracted'):.2f} ms",
            )  # fmt: skip
            yield from _where_it_lies(found, places, sets)
            if "numba" in firsts:
                yield from _first_calls(program, found, Comparison(firsts), alone)
    yield Figure("geometric mean of run times", statistics.geometric_mean(runtimes), "x")


def _where_it_lies(
    found: Comparison, places: Collection[str], sets: Collection[str]
) -> Iterator[Figure]:
    """What the place of the code, and that of the arrays, does to a cell."""
    slow, quick = max(places, key=found.median), min(places, key=found.median)
    yield Figure(
        f"  the slowest / the quickest of {len(places)} places of the code",
        found.ratio(slow, quick), "x",
        note=f"at {slow}, {quick}: {found.median(quick):.2f} ms",
    )  # fmt: skip
    if sets:
        slow, quick = max(sets, key=found.median), min(sets, key=found.median)
        yield Figure(
            f"  the slowest / the quickest of {len(sets)} sets of small arrays",
            found.ratio(slow, quick), "x", note=f"{found.median(quick):.2f} ms",
        )  # fmt: skip


def _alone(s: Session, program: Program, again: Callable[[], object]) -> tuple[float, float, float]:
    """The milliseconds that clang, LLVM and the call take for a program which is a cell: each is
    asked again for what it has just done."""
    from jitkernel.languages.c.clang import clang_for, nothing

    clang = clang_for(s.inspect.state.setting, None, False, nothing)
    start = time.perf_counter()
    clang.compile(program.c())
    clang_ended = time.perf_counter()
    again()
    called = time.perf_counter()
    request = s.inspect.request(s.symbols[program.name].cell)
    llvm = s.inspect.engine.pool.compile(request, fresh=True).times
    return (clang_ended - start) * 1e3, sum(llvm.values()) / 1e6, (called - clang_ended) * 1e3


def _first_calls(
    program: Program, found: Comparison, firsts: Comparison,
    alone: Sequence[tuple[float, float, float]],
) -> Iterator[Figure]:  # fmt: skip
    """How long each side took to the first result of a function that is new, in milliseconds, and
    how long what it is made of does alone."""
    first = {name: firsts.median(name) for name in firsts.blocks}
    yield Figure(
        f"{program.name}: first call, C cell / numba", firsts.ratio("C cell", "numba"), "x", 0.2,
        note=", ".join(f"{n} {t:.0f} ms" for n, t in first.items())
        + f"; {firsts.spread('C cell', 'numba')}",
    )  # fmt: skip
    more = {n: t - found.median(n) for n, t in first.items()}
    yield Figure(
        "  without a call's own time", more["C cell"] / more["numba"], "x",
        note=", ".join(f"{n} {t:.0f} ms" for n, t in more.items()),
    )  # fmt: skip
    clang, llvm, call = map(statistics.median, zip(*alone, strict=True))
    yield Figure(
        "  clang, LLVM and the call alone / numba",
        statistics.median(ratios([*map(sum, alone)], firsts.blocks["numba"])), "x",
        note=f"clang {clang:.1f} ms, LLVM {llvm:.1f} ms, the call {call:.1f} ms",
    )  # fmt: skip


def _shared(s: Session, program: Program) -> tuple[Any, ...]:
    """New arguments, arrays as the program sees them too."""
    return tuple(a if isinstance(a, (int, float)) else s.share(a) for a in program.arguments())


def _bytes(result: object, given: Any) -> bytes:
    """What a run gave and left, to the bit."""
    number = struct.pack("<d", result) if isinstance(result, float) else b""
    return number + b"".join(a.tobytes() for a in given if not isinstance(a, (int, float)))


def _in_turn(runs: Mapping[str, Callable[[], object]], rounds: int) -> Comparison:
    """Milliseconds of each side, in every round one run of each."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    order = random.Random(1)
    for _ in range(rounds):
        for name in order.sample(list(runs), len(runs)):
            start = time.perf_counter()
            runs[name]()
            found[name].append((time.perf_counter() - start) * 1e3)
    return Comparison(found)


def _cell(s: Session, program: Program, given: Any, folder: str) -> Callable[[], object]:
    s.run(program.c(), "c")
    return partial(s[program.name], *given)


def _contracted(s: Session, program: Program) -> Callable[[], object]:
    """A cell that leaves it to C how `a * b + c` is rounded."""
    name = f"{program.name}_contracted"
    s.run(program.c(contracted=True, name=name), "c")
    return partial(s[name], *_shared(s, program))


def _places(s: Session, program: Program) -> dict[str, Callable[[], object]]:
    """Cells of the same source behind code of several lengths, by where in memory they begin."""
    found: dict[str, Callable[[], object]] = {}
    given = _shared(s, program)
    for number in range(12):
        name = f"{program.name}_{number}"
        for before in range((5 * number + 3) % 4 + 1):  # 16 bytes each
            s.run(f"int before_{name}_{before}(void) {{ return {number}; }}", "c")
        s.run(program.c(name=name), "c")
        found[f"{s.symbols[name].address:#x}"] = partial(s[name], *given)
    return found


def _sets(s: Session, program: Program) -> dict[str, Callable[[], object]]:
    """The cell with new arrays each time, of those that are smaller than a page; none where no
    array is."""
    first = _shared(s, program)
    if all(isinstance(a, (int, float)) or a.nbytes >= mmap.PAGESIZE for a in first):
        return {}
    found: dict[str, Callable[[], object]] = {}
    for number in range(16):
        small = (a if isinstance(a, (int, float)) or a.nbytes < mmap.PAGESIZE else None
                 for a in _shared(s, program))  # fmt: skip
        given = [b if a is None else a for a, b in zip(small, first, strict=True)]
        found[f"arrays {number}"] = partial(s[program.name], *given)
    return found


def _numba(s: Session, program: Program, given: Any, folder: str) -> Callable[[], object]:
    import math

    import numba

    names: dict[str, Any] = {"math": math}
    exec(program.python, names)
    return partial(numba.njit(names[program.name]), *given)


def _cffi(s: Session, program: Program, given: Any, folder: str) -> Callable[[], object]:
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(f"{program.declared};".replace("restrict", ""))
    ffi.set_source(
        f"_bench_{program.name}", program.c(),
        extra_compile_args=["-O2", "-march=native", "-ffp-contract=off", "-Wno-unknown-pragmas"],
    )  # fmt: skip
    path = ffi.compile(tmpdir=folder)
    spec = importlib.util.spec_from_file_location(f"_bench_{program.name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module.lib, program.name)
    kinds = [part.partition("*")[0] + "*" for part in program.declared.split("(")[1].split(",")]
    arguments = [
        a if isinstance(a, (int, float)) else module.ffi.cast(kind, a.ctypes.data)
        for a, kind in zip(given, kinds, strict=True)
    ]
    return lambda: (given, function(*arguments))[1]


def _clang(program: Program, folder: str) -> Callable[[], object]:
    """What clang makes of the program alone, for this processor."""
    import ctypes

    from llvmlite import binding

    from jitkernel.languages.c.clang import find_clang

    path = os.path.join(folder, program.name)
    with open(f"{path}.c", "w") as file:
        file.write(program.c())
    subprocess.run(
        [
            *find_clang().program, "-triple", "x86_64-unknown-linux-gnu", "-O2", "-vectorize-loops",
            "-vectorize-slp", "-mrelocation-model", "pic", "-pic-level", "2", "-fmath-errno",
            "-ffp-contract=on", "-mframe-pointer=none", "-target-cpu", binding.get_host_cpu_name(),
            "-emit-obj", "-x", "c", "-o", f"{path}.o", f"{path}.c",
        ],
        check=True,
    )  # fmt: skip
    subprocess.run(["gcc", "-shared", "-o", f"{path}.clang.so", f"{path}.o", "-lm"], check=True)
    function = getattr(ctypes.CDLL(f"{path}.clang.so"), program.name)
    if program.declared.startswith("double"):
        function.restype = ctypes.c_double
    given = program.arguments()
    function.argtypes = [
        ctypes.c_void_p if "*" in kind else ctypes.c_double if "double" in kind
        else ctypes.c_int if "int " in kind else ctypes.c_long
        for kind in program.declared.partition("(")[2].split(",")
    ]  # fmt: skip
    arguments = [a if isinstance(a, (int, float)) else a.ctypes.data for a in given]
    return lambda: (given, function(*arguments))[1]
