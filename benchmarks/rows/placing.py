"""Messages to the executor, padding, many cells at once.  Start from `messages`."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness import Figure, Scale, ratios
from benchmarks.programs import caller, sixty_lines, tiny
from jitkernel import Session

__all__ = ["messages", "padding", "run_many"]


class _Counting:
    """A socket that counts what is sent through it."""

    def __init__(self, socket: Any):
        self._socket, self.sent = socket, 0

    def send(self, *arguments: Any) -> int:
        self.sent += 1
        return int(self._socket.send(*arguments))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)


def messages(scale: Scale) -> Iterator[Figure]:
    """Frames that go to the executor while cells are placed, redefined and evicted."""
    count = scale.pick(20, 500)
    with Session(spare=False) as s:
        s.run(tiny("base"))
        s.call("base", 2)
        child: Any = s.inspect.engine.executor._child
        counting = child.socket = _Counting(child.socket)
        s.call("base", 2)
        assert counting.sent == 1, "a call is one message: the count works"
        counting.sent = 0
        for i in range(count):
            s.run(caller(f"c{i}", "base"))
        placed = counting.sent
        for i in range(count):
            s.run(tiny("base", i))
        moved = counting.sent - placed
        for i in range(count):
            s.evict(f"c{i}")
        gone = counting.sent - placed - moved
    yield Figure("messages to the executor per placement", placed / count, "1", 0)
    yield Figure(f"messages per redefinition ({count} callers)", moved / count, "1", 0)
    yield Figure("messages per eviction", gone / count, "1")


def padding(scale: Scale) -> Iterator[Figure]:
    """Cells that use every zone, of many sizes: bytes between what they need and what they hold."""
    count = scale.pick(200, 2_000)
    with Session(opt_level=0, spare=False) as s:
        s.run_many([_mixed(i) for i in range(count)])
        zones = {name: zone.list for name, zone in s.inspect.engine.arena.zones.items()}
    for name, zone in zones.items():
        if zone.live:
            yield Figure(
                f"padding per cell in zone {name}, cells of mixed sizes", zone.padding / count, "bytes",
                16, note=f"{zone.used / count:.0f} bytes used per cell",
            )  # fmt: skip


def _mixed(i: int) -> str:
    """A function, a string, a floating constant and a variable, whose sizes vary with `i`."""
    text = "x" * (i % 41 + 1)
    return (
        f'@text{i} = constant [{len(text) + 1} x i8] c"{text}\\00"\n'
        f"@data{i} = global [{i % 23 + 1} x i8] zeroinitializer\n"
        f"define double @mixed{i}(double %x) {{\n  %c = load volatile i8, ptr @text{i}\n"
        f"  store volatile i8 %c, ptr @data{i}\n"
        + "".join(
            f"  %v{n} = fmul double {'%x' if n == 0 else f'%v{n - 1}'}, {n + 1}.5\n"
            for n in range(i % 9 + 1)
        )
        + f"  ret double %v{i % 9}\n}}\n"
    )


def run_many(scale: Scale) -> Iterator[Figure]:
    """Cells of about 60 lines, compiled by two workers and by one.

    Two processes that only compile, with nothing between them, show what the machine itself allows.
    """
    count, rounds = scale.pick(20, 200), scale.pick(1, 3)
    took: dict[str, list[float]] = {"1": [], "2": [], "alone": [], "apart": []}
    with (
        Session(workers=1, spare=False) as one,
        Session(workers=2, spare=False) as two,
        _Compilers(2) as plain,
    ):
        for s in (one, two):
            s.run_many([sixty_lines(f"w{i}", i) for i in range(4)])
        sides: dict[str, Callable[[list[str]], object]] = {
            "1": one.run_many,
            "2": two.run_many,
            "alone": lambda cells: plain.compile(1, count),
            "apart": lambda cells: plain.compile(2, count),
        }
        for turn in range(rounds):
            names = list(sides)
            for name in names[turn:] + names[:turn]:
                cells = [sixty_lines(f"r{turn}_{i}", i) for i in range(count)]
                start = time.perf_counter()
                sides[name](cells)
                took[name].append(time.perf_counter() - start)
    yield Figure(f"run_many of {count} cells of 60 lines, one worker", median(took["1"]), "s")
    yield Figure("the same with two workers", median(took["2"]), "s")
    yield Figure(
        "one worker / two workers", median(ratios(took["1"], took["2"])), "x", 1.6, at_least=True,
        note="LLJIT of llvmlite compiles in the caller's thread, one at a time",
    )  # fmt: skip
    yield Figure(
        "  two processes that only compile: what this machine allows",
        median(ratios(took["alone"], took["apart"])), "x",
    )  # fmt: skip


_PROGRAM = """
import sys
from benchmarks.programs import sixty_lines
from benchmarks.rivals import Front
import llvmlite.binding as llvm
front = Front(2)
for line in sys.stdin:
    for i in range(int(line)):
        with llvm.create_context() as context, front.module(sixty_lines(f"f{i}", i), context) as module:
            front.machine.emit_object(module)
    print("done", flush=True)
"""


class _Compilers:
    """Processes that compile cells with llvmlite when told to, and nothing else."""

    def __init__(self, number: int):
        root = str(Path(__file__).resolve().parents[2])
        self._all = [
            subprocess.Popen(
                [sys.executable, "-c", _PROGRAM], cwd=root, text=True, bufsize=1,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )
            for _ in range(number)
        ]  # fmt: skip
        self.compile(number, number)

    def compile(self, processes: int, cells: int) -> None:
        """Share the cells among so many of them, and wait."""
        for process in self._all[:processes]:
            assert process.stdin is not None
            process.stdin.write(f"{cells // processes}\n")
        for process in self._all[:processes]:
            assert process.stdout is not None
            process.stdout.readline()

    def __enter__(self) -> _Compilers:
        return self

    def __exit__(self, *exception: object) -> None:
        for process in self._all:
            process.communicate()
