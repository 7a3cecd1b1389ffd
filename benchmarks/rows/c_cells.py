"""C cells: the code that they become, and how long one takes.  Start from `generated_code`.

Native programs are built by the clang of C cells and by gcc, where there is one, for this
processor, as a session compiles for it.
"""

from __future__ import annotations

import importlib.util
import os
import random
import re
import select
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

from benchmarks.c_programs import HEADERS, PROGRAMS, TIMED, in_cells, main_renamed, names
from benchmarks.harness import Comparison, Figure, Scale
from jitkernel import Session
from jitkernel.compiler import answers, pool
from jitkernel.compiler.records import Compiled
from jitkernel.elf.constants import SHF_EXECINSTR
from jitkernel.elf.reader import Section, read_object
from jitkernel.languages.c.clang import Clang

__all__ = ["generated_code", "latency"]

_MAIN = """
#include <stdio.h>
int main(void) {
    while (getchar() != EOF) { printf("%f\\n", timed()); fflush(stdout); }
}
"""
_FLAGS = ("-O2", "-march=native", "-w")
_CLANG = "clang -O2"
_ONE, _MANY = "one C cell", "a cell for each function"
_HOW = "int f1(int x) { return x; }"
_BARS = {"define a function": 7.5, "show an expression": 7.0, "do something": 6.0}  # ms
_PRINTF = 'extern "C" int printf(const char *, ...);'
_PRINT = 'printf("(int) %d\\n", {0});'


# -- generated code ------------------------------------------------------------------------------


def generated_code(scale: Scale) -> Iterator[Figure]:
    """Each program as one C cell at -O2, as cells of one function each, and as native programs, one
    run of each in turn."""
    compilers = _compilers()
    if _CLANG not in compilers:
        yield Figure("C cells", None, "x", note="not installed: pip install 'jitkernel[c]'")
        return
    ratios: dict[str, list[float]] = {}
    programs = {**PROGRAMS, **_others()}
    for program in list(programs)[: 1 if scale.name == "tiny" else None]:
        try:
            took = _run_in_turn(programs[program], compilers, scale.pick(7, 31, 75))
        except subprocess.CalledProcessError:
            yield Figure(program, None, "x", note="the native compiler refuses it")
            continue
        for ours in (_ONE, _MANY):
            for name in compilers:
                ratio, what = took.ratio(ours, name), f"{ours} / {name}"
                ratios.setdefault(what, []).append(ratio)
                yield Figure(
                    f"{program}: {what}", ratio, "x", 1.1 if name == _CLANG else None,
                    note=f"{took.median(ours):.1f} ms, {took.median(name):.1f} ms; "
                    f"{took.spread(ours, name)}",
                )  # fmt: skip
    for what, found in ratios.items():
        yield Figure(
            f"geometric mean: {what}", statistics.geometric_mean(found), "x",
            1.02 if what.endswith(_CLANG) else None,
        )  # fmt: skip
    yield from _code_bytes(scale)


def _code_bytes(scale: Scale) -> Iterator[Figure]:
    """What inlining adds to the code, here and in clang's own file, whose functions are all
    exported, too: each has a body of its own beside those that its callers took."""
    found: dict[str, list[int]] = {}
    for program in list(PROGRAMS.values())[: 1 if scale.name == "tiny" else None]:
        source = program + TIMED
        sizes = {
            _MANY: _session_text(in_cells(source)),
            f"{_MANY}, nothing inlined": _session_text(in_cells(source), inlining=False),
            _CLANG: _clang_text(source),
            f"{_CLANG} -fno-inline": _clang_text(source, "-fno-inline"),
        }
        for side, size in sizes.items():
            found.setdefault(side, []).append(size)
    for side, beside, bar in (
        (_MANY, f"{_MANY}, nothing inlined", 1.3),
        (_CLANG, f"{_CLANG} -fno-inline", None),
        (_MANY, _CLANG, None),
    ):
        ratios = [a / b for a, b in zip(found[side], found[beside], strict=True)]
        yield Figure(
            f"bytes of code, geometric mean: {side} / {beside}", statistics.geometric_mean(ratios),
            "x", bar, note=f"{min(ratios):.2f} to {max(ratios):.2f}",
        )  # fmt: skip


def _session_text(cells: list[str], inlining: bool = True) -> int:
    """Bytes of code that these cells have in the arena."""
    with Session(inlining=inlining) as session:
        for cell in cells:
            session.run(cell, "c")
        return int(session.memory()["zones"]["text"]["used"])


def _clang_text(source: str, *flags: str) -> int:
    """Bytes of code in clang's object of one file, every function of it exported."""
    with TemporaryDirectory() as folder:
        file, made = Path(folder, "a.c"), Path(folder, "a.o")
        file.write_text(source, encoding="utf-8")
        _clang(*_FLAGS, *flags, "-Dstatic=", "-c", file, "-o", made)
        sections = [Section(*section) for section in read_object(made.read_bytes()).sections]
        return sum(section.size for section in sections if section.flags & SHF_EXECINSTR)


def _others() -> dict[str, str]:
    """Programs of a folder of one's own, `C_BENCHMARKS`: files of C with a `main`."""
    folder = os.environ.get("C_BENCHMARKS", "")
    files = sorted(Path(folder).glob("*.c")) if folder else []
    return {file.stem: "\n".join(main_renamed(file.read_text())) for file in files}


def _compilers() -> dict[str, Callable[[Path, Path], None]]:
    """How the native compilers that are there make a program of a file."""
    found: dict[str, Callable[[Path, Path], None]] = {}
    if importlib.util.find_spec("ziglang"):
        found[_CLANG] = _build_by_clang
    if shutil.which("gcc"):
        found["gcc -O2"] = lambda file, built: _build("gcc", *_FLAGS, file, "-o", built, "-lm")
    return found


def _build_by_clang(file: Path, built: Path) -> None:
    """The clang of C cells by its own driver: `zig cc` would keep frame pointers, and tune for no
    processor."""
    made = file.with_suffix(".o")
    _clang(*_FLAGS, "-c", file, "-o", made)
    _build(_zig() / "zig", "cc", made, "-o", built, "-lm")


def _clang(*arguments: str | Path) -> None:
    home = _zig()
    clang = (home / "zig", "clang", "--target=x86_64-linux-gnu", "-isystem", home / "lib/include")
    _build(*clang, *arguments)


def _zig() -> Path:
    """Where the package of the clang of C cells is."""
    import ziglang

    return Path(str(ziglang.__file__)).parent


def _build(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _run_in_turn(
    program: str, compilers: Mapping[str, Callable[[Path, Path], None]], rounds: int
) -> Comparison:
    """Milliseconds of processor time of each side, in every round one run of each."""
    source = program + TIMED
    with TemporaryDirectory() as folder, Session() as one, Session() as many, ExitStack() as stack:
        one.run(source, "c")
        for cell in in_cells(source):
            many.run(cell, "c")
        sides: dict[str, Callable[[], float]] = {
            _ONE: lambda: float(one.call("timed")), _MANY: lambda: float(many.call("timed")),
        }  # fmt: skip
        for number, (name, build) in enumerate(compilers.items()):
            file, built = Path(folder, f"{number}.c"), Path(folder, str(number))
            file.write_text(source + _MAIN, encoding="utf-8")
            build(file, built)
            process = stack.enter_context(
                subprocess.Popen([built], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            )
            sides[name] = partial(_timed, process)
        found: dict[str, list[float]] = {name: [] for name in sides}
        order = random.Random(1)
        for name in sides:
            sides[name]()
        for _ in range(rounds):
            for name in order.sample(list(sides), len(sides)):
                found[name].append(sides[name]())
    return Comparison(found)


def _timed(process: subprocess.Popen[bytes]) -> float:
    """What one run in a native program takes, in milliseconds."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    return float(process.stdout.readline())


# -- latency -------------------------------------------------------------------------------------


def latency(scale: Scale) -> Iterator[Figure]:
    """Cells that define a function, show an expression, and do something: all, the share that is
    not clang's, and what is neither clang's nor LLVM's; with headers, and among many names."""
    if not importlib.util.find_spec("ziglang"):
        yield Figure("C cells", None, "ms", note="not installed: pip install 'jitkernel[c]'")
        return
    times = scale.pick(15, 60)
    count = 100 if scale.name == "tiny" else 4000
    plain = _cells("", times)
    many = _cells(names(count), times)
    none: dict[str, float] = {}
    for what, took, bars, own_bar in (
        ("", plain, _BARS, 6),
        ("16 headers: ", _cells(HEADERS, times), dict.fromkeys(_BARS, 30.0), 9),
        (f"{count:,} names: ", many, none, None),
        (f"{count:,} names, 16 headers: ", _cells(f"{HEADERS}\n{names(count)}", times), none, None),
    ):
        for kind, (whole, own, neither) in took.items():
            yield Figure(f"{what}{kind}", whole, "ms", bars.get(kind))
            yield Figure(f"{what}{kind}, without clang's time", own, "ms", own_bar)
            yield Figure(
                f"{what}{kind}, without clang's and LLVM's", neither, "ms", None if what else 2
            )
    for kind, (_, own, _) in many.items():
        yield Figure(
            f"{kind}: what {count:,} names add to our share", own - plain[kind][1], "ms", 3
        )
    yield from _clang_repl(times)


def _cells(before: str, times: int) -> dict[str, tuple[float, float, float]]:
    """Milliseconds of a cell of each kind behind the cell `before`: the whole, our share with what
    LLVM takes, and without."""
    clang = llvm = 0.0

    def run(self: Clang, *arguments: Any, **named: Any) -> Any:
        nonlocal clang
        start = time.perf_counter()
        try:
            return original(self, *arguments, **named)
        finally:
            clang += time.perf_counter() - start

    def compiled(header: dict[str, Any], blob: bytes) -> Compiled:
        nonlocal llvm
        made = answers.compiled(header, blob)
        llvm += sum(made.times[stage] for stage in ("parse", "verify", "optimise", "emit")) / 1e9
        return made

    original = Clang._run
    kinds = {
        "define a function": "int f{0}(int x) {{ return x * {0} + 1; }}",
        "show an expression": "f1({0}) + 2",
        "do something": "counted += f1({0});",
    }
    found = {}
    with (
        mock.patch.object(Clang, "_run", run),
        mock.patch.object(pool, "compiled", compiled),
        Session() as s,
    ):
        s.run(before, "c")
        s.run(f"{_HOW}\nlong counted;", "c")
        for kind, text in kinds.items():
            rows = []
            for number in range(2, times + 7):
                clang = llvm = 0.0
                start = time.perf_counter()
                s.run(text.format(number), "c")
                whole = time.perf_counter() - start
                rows.append((whole, whole - clang, whole - clang - llvm))
            all_, own, neither = map(statistics.median, zip(*rows[5:], strict=True))
            found[kind] = (all_ * 1e3, own * 1e3, neither * 1e3)
    return found


# -- clang-repl ----------------------------------------------------------------------------------


def _clang_repl(times: int) -> Iterator[Figure]:
    """The same of LLVM's own interpreter, one process that parses everything.  Values are printed
    by `printf`: before version 20 it has no other way."""
    names = ("clang-repl", *(f"clang-repl-{version}" for version in range(30, 18, -1)))
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        yield Figure("clang-repl", None, "ms", note="not installed")
        return
    words = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    version = re.search(r"version (\S+)", words)
    note = f"{Path(program).name} {version[1] if version else ''}".strip()
    for what, before in (("", ""), ("16 headers: ", HEADERS)):
        for kind, text in (
            (
                "define a function and show its call",
                "int f{0}(int x) {{ return x * {0} + 1; }}\n" + _PRINT.format("f{0}(2)"),
            ),
            ("show an expression", _PRINT.format("f1({0}) + 2")),
        ):
            took = _repl_cells(program, f"{_PRINTF}\n{before}\n{_HOW}", text, times)
            yield Figure(f"clang-repl: {what}{kind}", took or None, "ms", note=note)


def _repl_cells(program: str, before: str, text: str, times: int) -> float:
    """The median in milliseconds; 0.0 where it does not answer."""
    terminal, inner = os.openpty()  # else what it prints stays with it
    found = []
    try:
        with subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=inner, stderr=inner, text=True
        ) as process:
            assert process.stdin is not None
            try:
                for number in range(1, times + 6):
                    start = time.perf_counter()
                    lines = before if number == 1 else text.format(number)
                    if number == 1:
                        lines += "\n" + _PRINT.format("1 + 1")
                    process.stdin.write(f"{lines}\n")
                    process.stdin.flush()
                    if not _answers(terminal):
                        return 0.0
                    found.append(time.perf_counter() - start)
            except BrokenPipeError:
                return 0.0
            finally:
                process.kill()
    finally:
        os.close(inner)
        os.close(terminal)
    return statistics.median(found[5:]) * 1e3


def _answers(terminal: int) -> bool:
    """Wait for a value, for ten seconds."""
    text, end = b"", time.monotonic() + 10
    while not re.search(rb"\(int\) -?\d+", text):
        if not select.select([terminal], [], [], max(end - time.monotonic(), 0))[0]:
            return False
        text += os.read(terminal, 4096)
    return True
