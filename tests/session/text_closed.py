"""A program for the tests of threads: operations of a session while a thread of its program runs.

In this process text and constants, GOT slots among them, can be written only while that thread is
parked, or has called code that is not in memory: whatever writes some at another time ends the
program with SIGSEGV and a traceback.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import mmap
from collections.abc import Callable
from typing import Any

from jitkernel import Session
from jitkernel.errors import JitError, UsageError
from tests.looping import looping

#: The thread calls a function of another cell and a library's, by their names and by pointers.
WORKER = """#include <stdlib.h>
long same(long); extern volatile long k; volatile long turns; long (*volatile pointer)(long) = same;
int (*volatile far)(int) = abs;
""" + looping("turns += same(k) + pointer(k) + far(-1) + abs(-1);")
#: It is placed, its constructor fails, and all of it is taken back.
UNMADE = """long same(long);
__attribute__((constructor)) static void make(void) { *(volatile char *)same(1) = 0; }
long made(void) { return same(2); }"""


class Closed:
    """A session whose text nobody may write from here on, but where its threads are parked."""

    def __init__(self, s: Session):
        engine = s.inspect.engine
        executor, arena = engine.executor, engine.arena
        self._mprotect = ctypes.CDLL(None, use_errno=True).mprotect
        self._mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        at = ctypes.addressof(ctypes.c_char.from_buffer(arena.view)) - arena.base
        self._parts = [
            (at + r.start, r.stop - r.start) for r in arena.regions if r.name in ("text", "rodata")
        ]
        self.opened = 0
        park, unpark, wake = executor.park, executor.unpark, executor.on_wake

        def parked(threads: bool = True) -> None:
            park(threads)
            self.set(True)

        def unparked() -> None:
            self.set(False)
            unpark()

        def woken(*arguments: Any) -> int:
            self.set(True)
            try:
                return wake(*arguments)
            finally:
                self.set(False)

        executor.park, executor.unpark, executor.on_wake = parked, unparked, woken
        self.set(False)

    def set(self, writable: bool) -> None:
        """Let text be written, or not."""
        self.opened += writable
        prot = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        for at, size in self._parts:
            assert self._mprotect(at, size, prot) == 0, ctypes.get_errno()


def fails(do: Callable[..., object], *arguments: object) -> None:
    """An operation that is taken back."""
    try:
        do(*arguments)
    except JitError:
        return
    raise AssertionError(f"{arguments} was accepted")


def main() -> None:
    faulthandler.enable()
    with Session(capacity=64 << 20, spare=False, inlining=False) as s:
        s.run("long k = 3;", "c", cell_id="k")
        s.run("long same(long x) { return x; }", "c", cell_id="same")
        for step in range(3):
            s.run(f"int asleep{step}(void) {{ return {step}; }}", "c")
            s.hibernate(f"asleep{step}")
        s.run(WORKER, "c")
        s.call("start")
        closed = Closed(s)
        for step in range(3):
            s.run(
                f"long same(long x) {{ return x + k - k + {step} - {step}; }}", "c", cell_id="same"
            )
            s.check()
            fails(s.run, "long same(long x) { return x; }\nint same;", "c", "same")
            fails(s.run, UNMADE, "c")
            s.run(f"#define STEP {step}\nint fresh{step}(double x) {{ return STEP + x; }}", "c")
            assert s.call(f"fresh{step}", 1.0) == step + 1
            s.run("@k = 5")
            assert s["k"].value == 5
            s.check()
            s.undo()
            with contextlib.suppress(UsageError):  # the thread has changed variables since
                s.redo()
            assert s.call(f"asleep{step}") == step
            with contextlib.suppress(UsageError):  # it was undone, and the redo refused
                s.evict(f"fresh{step}")
            s.gc()
            s.check()
        s.evict("asleep0", force=True)
        s.undo()
        s.check()
        assert closed.opened > 20, "operations that write text have parked the thread"
        assert s["turns"].value > 0
        closed.set(True)
        assert s.call("finish") == 0
        s.check()
    print("whole")


if __name__ == "__main__":
    main()
