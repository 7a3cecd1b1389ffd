"""C++ exceptions across cells.  Start from `thrown_and_caught`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

from benchmarks.cells import Stamp
from benchmarks.harness import Figure, Scale
from jitkernel import Session
from jitkernel.errors import JitError

__all__ = ["CATCHES", "THROWS", "thrown_and_caught"]

#: `throw x` and `try { throws(x); } catch (int e) { return e + 1; }`, as clang compiles them.
THROWS = """
@_ZTIi = external constant ptr
declare ptr @__cxa_allocate_exception(i64)
declare void @__cxa_throw(ptr, ptr, ptr)
define i32 @throws(i32 %x) {
  %e = call ptr @__cxa_allocate_exception(i64 4)
  store i32 %x, ptr %e
  call void @__cxa_throw(ptr %e, ptr @_ZTIi, ptr null)
  unreachable
}
"""
CATCHES = """
@_ZTIi = external constant ptr
declare i32 @throws(i32)
declare i32 @__gxx_personality_v0(...)
declare ptr @__cxa_begin_catch(ptr)
declare void @__cxa_end_catch()
declare i32 @llvm.eh.typeid.for(ptr)
define i32 @catches(i32 %x) personality ptr @__gxx_personality_v0 {
entry:
  %r = invoke i32 @throws(i32 %x) to label %done unwind label %pad
pad:
  %l = landingpad { ptr, i32 } catch ptr @_ZTIi
  %e = extractvalue { ptr, i32 } %l, 0
  %t = extractvalue { ptr, i32 } %l, 1
  %w = call i32 @llvm.eh.typeid.for(ptr @_ZTIi)
  %m = icmp eq i32 %t, %w
  br i1 %m, label %caught, label %other
caught:
  %p = call ptr @__cxa_begin_catch(ptr %e)
  %v = load i32, ptr %p
  call void @__cxa_end_catch()
  %v1 = add i32 %v, 1
  ret i32 %v1
other:
  resume { ptr, i32 } %l
done:
  ret i32 %r
}
"""


def thrown_and_caught(scale: Scale) -> Iterator[Figure]:
    """The first throw after 10,000 cells were placed, and the next ones."""
    cells, times = scale.pick(500, 10_000), scale.pick(5, 15)
    with Session(spare=False) as s:
        try:
            s.load("libstdc++.so.6")
        except JitError as error:
            yield Figure("C++ exceptions", None, "ms", note=f"not measured: {error}")
            return
        s.run(THROWS)
        s.run(CATCHES)
        s.call("catches", 1)  # libstdc++ and libgcc start up once in a process
        stamp = Stamp(s)
        stamp.place(range(cells))
        first, plain = [], []
        s.run("define i32 @same(i32 %x) {\n  ret i32 %x\n}")
        s.call("same", 1)
        for k in range(times):
            # A new cell changes the tables, so that the next throw is a first one again.
            stamp.place(range(cells + k, cells + k + 1))
            start = time.perf_counter_ns()
            assert s.call("catches", 5) == 6
            first.append(time.perf_counter_ns() - start)
            start = time.perf_counter_ns()
            s.call("same", 5)
            plain.append(time.perf_counter_ns() - start)
        later = min(s.time("@catches(i32 5)", repeat=5))
    yield Figure(
        f"first C++ exception across cells, {cells:,} live", statistics.median(first) / 1e6, "ms", 2.0,
        note=f"the whole call; one that throws nothing takes {statistics.median(plain) / 1e6:.2f} ms",
    )  # fmt: skip
    yield Figure("the next ones", later / 1e3, "us", 20)
    yield Figure(
        "C++ exceptions: LLJIT, MCJIT", None, "us",
        note="not compared: llvmlite's engines register each module's tables by itself",
    )  # fmt: skip
