"""One call of a tiny function: by ctypes, and by a session that runs code in this process or in
another.  Start from `calls`."""

from __future__ import annotations

import array
import ctypes
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.harness import Figure, Scale, compare
from jitkernel import Session

__all__ = ["calls"]

_CELL = """define i32 @abs_of(i32 %x) {
  %n = sub i32 0, %x
  %c = icmp slt i32 %x, 0
  %r = select i1 %c, i32 %n, i32 %x
  ret i32 %r
}
define double @first(ptr %p, i64 %n) {
  %v = load double, ptr %p
  ret double %v
}
"""
_TIMES = 1000  # calls of one repetition


def calls(scale: Scale) -> Iterator[Figure]:
    """Nanoseconds a call, and what it costs above ctypes calling the same machine code."""
    with (
        Session(executor="inline", capacity=64 << 20) as here,
        Session(capacity=64 << 20) as there,
    ):
        for session in (here, there):
            session.run(_CELL)
        plain = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(here["abs_of"].address)
        numbers, few = array.array("d", range(100_000)), max(_TIMES // 50, 1)
        sides = {
            "ctypes": _often(plain, -3),
            "s[name].ctypes": _often(here["abs_of"].ctypes, -3),
            "s[name](...)": _often(here["abs_of"], -3),
            "s.call(name, ...)": _often(here.call, "abs_of", -3),
            "array of 800 kB": _often(here["first"], numbers, 100_000),
        }
        took = compare(sides, scale.blocks, max(scale.block // 10, 2), warm_up=1)
        other = compare(
            {"process": _often(there["abs_of"], -3, times=few)}, scale.blocks,
            max(scale.block // 10, 2), warm_up=1,
        )  # fmt: skip
    for name in sides:
        yield Figure(f"call: {name}", took.median(name) / _TIMES, "ns")
    yield Figure("call: s[name](...), executor a process", other.median("process") / few, "ns")
    base = took.median("ctypes") / _TIMES
    for name in ("s[name].ctypes", "s[name](...)", "s.call(name, ...)"):
        above = took.median(name) / _TIMES - base
        yield Figure(f"above ctypes: {name}", above, "ns", bar=2000)


def _often(
    function: Callable[..., Any], *arguments: Any, times: int = _TIMES
) -> Callable[[int], None]:
    """Many calls of it."""

    def side(number: int) -> None:
        for _ in range(times):
            function(*arguments)

    return side
