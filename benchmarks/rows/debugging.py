"""What stops and steps cost, beside a trap that a C program makes and handles itself.  Start from
`stops`.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.harness import Figure, Scale, compare
from jitkernel import Session
from jitkernel.session.debugging.records import Breakpoint, Event

__all__ = ["stops"]

_LOOP = """\
int turn(int n) {
  int all = 0;
  for (int i = 0; i < n; i++)
    all += i;
  return all;
}
"""
_BODY = 4
_TRAPS = """\
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <ucontext.h>
static volatile long n, most = 20000;
static void h(int s, siginfo_t *i, void *c) {
  if (++n >= most) ((ucontext_t *)c)->uc_mcontext.gregs[REG_EFL] &= ~0x100;
}
int main(void) {
  struct sigaction a = {.sa_sigaction = h, .sa_flags = SA_SIGINFO};
  struct timespec x, y;
  sigaction(SIGTRAP, &a, 0);
  clock_gettime(CLOCK_MONOTONIC, &x);
  __asm__ volatile("pushfq; orl $0x100, (%%rsp); popfq" ::: "memory");
  while (n < most);
  clock_gettime(CLOCK_MONOTONIC, &y);
  printf("%f\\n", ((y.tv_sec - x.tv_sec) * 1e9 + y.tv_nsec - x.tv_nsec) / most);
  return 0;
}
"""


def stops(scale: Scale) -> Iterator[Figure]:
    """Each figure and a bare trap in turn, so that a slow moment hits both."""
    if shutil.which("gcc") is None:
        yield Figure("stops and steps", None, "x", note="gcc is not there to build a bare trap")
        return
    with tempfile.TemporaryDirectory() as folder, Session(spare=False) as s:
        program = _trapping(Path(folder))
        yield from _off(scale, s)
        yield from _on(scale, s, program)


def _trapping(folder: Path) -> Path:
    (folder / "trap.c").write_text(_TRAPS)
    subprocess.run(["gcc", "-O2", "-o", str(folder / "trap"), str(folder / "trap.c")], check=True)
    return folder / "trap"


def _bare(program: Path) -> float:
    """Nanoseconds of a bare trap."""
    return float(subprocess.run([program], check=True, capture_output=True, text=True).stdout)


def _off(scale: Scale, s: Session) -> Iterator[Figure]:
    """A call in a session whose debugger was on, and is off again, and in one that never had it."""
    with Session(spare=False) as never:
        for one in (s, never):
            one.run(_LOOP, "c")
        s.debugger.start()
        s.debugger.close()
        sides = {
            "off": lambda i: s.call("turn", 3),
            "never": lambda i: never.call("turn", 3),
        }
        found = compare(sides, max(scale.blocks, 3) * 3, scale.block)
        yield Figure(
            "a call with the debugger off again / never on", found.ratio("off", "never"), "x", 1.01,
            note=found.spread("off", "never"),
        )  # fmt: skip


def _on(scale: Scale, s: Session, program: Path) -> Iterator[Figure]:
    debugger, rounds = s.debugger, scale.pick(3, 5)
    gaps: list[float] = []
    went, motion = 0.0, "continue"

    def look(event: Event) -> None:
        nonlocal went
        if event.kind == "stopped":
            if went:
                gaps.append(time.perf_counter() - went)
            went = time.perf_counter()
            debugger.go("next" if motion == "next" else "continue")

    def run(count: int) -> float:
        nonlocal went
        went = 0.0
        begin = time.perf_counter()
        s.call("turn", count)
        return time.perf_counter() - begin

    debugger.start()
    debugger.listener = look
    few, many = scale.pick(300, 1000), scale.pick(2_000, 10_000)
    stops, hits, steps = [], [], []
    for _ in range(rounds):
        debugger.set_breakpoints(_LOOP, [Breakpoint(line=_BODY)])
        run(few)
        stops.append(median(gaps) * 1e3)
        gaps.clear()
        debugger.set_breakpoints(_LOOP, [])

        debugger.set_breakpoints(_LOOP, [Breakpoint(line=_BODY, condition="i == -1")])
        bare, took = _bare(program), run(10 * many)  # they are quick
        hits.append(took * 1e9 / (10 * many) / bare)
        debugger.set_breakpoints(_LOOP, [])

        debugger.add(Breakpoint(function="turn", temporary=True))
        motion = "next"
        bare, took = _bare(program), run(many // 2)  # two lines a turn
        steps.append(took * 1e9 / max(len(gaps), 1) / bare)
        taken = len(gaps)
        gaps.clear()
        motion = "continue"
    yield Figure("continue to stopped, in process", median(stops), "ms", 0.5)
    yield Figure("a hit whose condition is false / a bare trap", median(hits), "x", 4)
    yield Figure(
        "a step over a line / a bare trap", median(steps), "x", 60, note=f"{taken:,} steps in a row"
    )
