"""What a view costs: CPU time of all who work at it, for functions that are as long as one likes."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import psutil

from jitkernel import Session


def loops(count: int) -> str:
    """A function of C with so many loops, four lines each."""
    body = "".join(
        f"  for (int i{k} = 0; i{k} < n; i{k}++) {{\n    if (p[i{k}] > {k}) t += p[i{k}] * {k + 1};\n"
        f"    else t ^= {k};\n  }}\n"
        for k in range(count)
    )
    return f"long big(const long *p, int n) {{\n  long t = 0;\n{body}  return t;\n}}"


def spent(what: Callable[..., Any], *given: object) -> tuple[float, Any]:
    """Seconds of CPU of this process and its children, those that ended too, and the answer."""
    own = psutil.Process()

    def now() -> float:
        total = sum(own.cpu_times()[:4])
        for child in own.children(recursive=True):
            try:
                total += sum(child.cpu_times()[:4])
            except psutil.NoSuchProcess:
                pass
        return total

    gc.collect()
    before = now()
    made = what(*given)
    return now() - before, made


def anew(s: Session, view: Callable[[Session, str], Any], name: str) -> tuple[float, Any]:
    """The same of a view that finds nothing of an earlier one."""
    s.inspect.engine.pool.traces._traced.clear()
    s.inspect.places.lines.tables.clear()
    s.inspect.places.lines.shown = None
    return spent(view, s, name)
