"""A program whose threads throw, jump, unwind and stand at safepoints, and random changes of what
they run.  Start from `Work`."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable
from pathlib import Path

from jitkernel import Session
from jitkernel.errors import EvictError, Fault, Interrupted, JitError, UsageError

#: Each thread does one thing without pause, and counts its rounds and the results that are wrong.
THREADS = """#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <unwind.h>
_Atomic long rounds[%d], wrong[5];
volatile int stop;
int catches(int);
long same(long), jumps(jmp_buf *, long), visits(void *), collects(long);
static void *thrower(void *at) {
    for (int i = 1; !stop; i = i %% 100 + 1, ++*(_Atomic long *)at) if (catches(i) != i) wrong[0]++;
    return 0;
}
static void *leaper(void *at) {
    for (long i = 1; !stop; i++, ++*(_Atomic long *)at) {
        jmp_buf back;
        long got = setjmp(back);
        if (!got) jumps(&back, 7);
        if (got != 7) wrong[1]++;
    }
    return 0;
}
static _Unwind_Reason_Code frame(struct _Unwind_Context *context, void *count) {
    ++*(long *)count;
    return _URC_NO_REASON;
}
long walk(void) {
    void *trace[64];
    long count = 0;
    _Unwind_Backtrace(frame, &count);
    return count > 3 && backtrace(trace, 64) > 2;  /* the thread's first frame at least */
}
static void *walker(void *at) {
    for (; !stop; ++*(_Atomic long *)at) if (visits(walk) != 1) wrong[2]++;
    return 0;
}
static void *caller(void *at) {
    for (long i = 1; !stop; i++, ++*(_Atomic long *)at) if (same(i) != i) wrong[3]++;
    return 0;
}
static void *waiter(void *at) {
    for (long i = 1; !stop; i++, ++*(_Atomic long *)at) if (collects(i) != i + 5) wrong[4]++;
    return 0;
}
static void *(*const bodies[])(void *) = {thrower, leaper, walker, caller, waiter};
static pthread_t threads[%d];
int go(void) {
    int failed = 0;
    stop = 0;
    for (int i = 0; i < %d; i++)
        failed |= pthread_create(threads + i, 0, bodies[i %% 5], (void *)(rounds + i));
    return failed;
}
void finish(void) { stop = 1; for (int i = 0; i < %d; i++) pthread_join(threads[i], 0); }"""

#: What threads call: each of these texts, with another number, is another function that does the same.
PARTS = {
    "throws": """@_ZTIi = external constant ptr
declare ptr @__cxa_allocate_exception(i64)
declare void @__cxa_throw(ptr, ptr, ptr)
define void @throws(i32 %x) {{
  %a = xor i32 %x, {0}
  %b = xor i32 %a, {0}
  %p = call ptr @__cxa_allocate_exception(i64 4)
  store i32 %b, ptr %p
  call void @__cxa_throw(ptr %p, ptr @_ZTIi, ptr null)
  unreachable
}}""",
    "catches": """@_ZTIi = external constant ptr
declare i32 @__gxx_personality_v0(...)
declare ptr @__cxa_begin_catch(ptr)
declare void @__cxa_end_catch()
declare void @throws(i32)
define i32 @catches(i32 %x) personality ptr @__gxx_personality_v0 {{
  invoke void @throws(i32 %x) to label %fine unwind label %pad
fine:
  ret i32 -{0}
pad:
  %e = landingpad {{ ptr, i32 }} catch ptr @_ZTIi
  %p = extractvalue {{ ptr, i32 }} %e, 0
  %v = call ptr @__cxa_begin_catch(ptr %p)
  %i = load i32, ptr %v
  call void @__cxa_end_catch()
  ret i32 %i
}}""",
    "jumps": """declare void @longjmp(ptr, i32)
define i64 @jumps(ptr %back, i64 %x) uwtable {{
  %a = add i64 %x, {0}
  %b = sub i64 %a, {0}
  %c = trunc i64 %b to i32
  call void @longjmp(ptr %back, i32 %c)
  unreachable
}}""",
    "visits": """define i64 @visits(ptr %f) uwtable {{
  %room = alloca [{0} x i64]
  store volatile i64 {0}, ptr %room
  %r = call i64 %f()
  store volatile i64 %r, ptr %room
  ret i64 %r
}}""",
    "same": """define i64 @same(i64 %x) uwtable {{
  %a = xor i64 %x, {0}
  %b = xor i64 %a, {0}
  ret i64 %b
}}""",
    "collects": """declare void @safe()
define i64 @collects(i64 %x) gc "statepoint-example" {{
  call void @safe()
  %a = add i64 %x, {0}
  call void @safe()
  %b = sub i64 %a, {0}
  %c = add i64 %b, 5
  ret i64 %c
}}""",
}


class Work:
    """Threads at work in a session; `steps` changes it at random, from a seed."""

    def __init__(self, session: Session, seed: int, threads: int, folder: Path):
        self.session, self.rng, self.folder = session, random.Random(seed), folder
        self.others = 0
        s = session
        s.load("libstdc++.so.6")
        s.run("define void @safe() noinline uwtable {\n  ret void\n}")
        for name, text in PARTS.items():
            s.run(text.format(9), cell_id=name)
        s.run(THREADS % (4 * (threads,)), "c")
        s.run("define i64 @spins() {\n  br label %l\nl:\n  br label %l\n}")
        s.run("define i64 @faults() {\n  %r = load volatile i64, ptr null\n  ret i64 %r\n}")
        for number in range(4):
            s.run(
                f"declare i64 @same(i64)\ndefine i64 @asleep{number}(i64 %x) {{\n"
                f"  %r = call i64 @same(i64 %x)\n  ret i64 %r\n}}"
            )
        self.start()

    def start(self) -> None:
        self.session.hibernate(*(f"asleep{number}" for number in range(4)))
        assert self.session.call("go") == 0
        self.process = self.session.inspect.executor

    def finish(self) -> None:
        """The threads end; none has met anything wrong, and nothing has ended their process."""
        self.session.call("finish")
        assert self.session.inspect.executor == self.process
        assert not any(self.session["wrong"].value)
        assert all(self.session["rounds"].value)

    def steps(self, count: int) -> list[str]:
        """So many random changes; their names."""
        changes: list[Callable[[], object]] = [
            self.redefine, self.redefine, self.redefine, self.define, self.evict, self.undo,
            self.redo, self.fail, self.call, self.wake, self.fault, self.interrupt, self.look,
            self.save, self.remake,
        ]  # fmt: skip
        done = []
        for _ in range(count):
            change = self.rng.choice(changes)
            done.append(change.__name__)
            with contextlib.suppress(EvictError, UsageError):
                change()
            assert self.session.inspect.executor == self.process, done
            assert not any(wrong := self.session["wrong"].value), (wrong, done)
        return done

    def redefine(self) -> None:
        name = self.rng.choice([*PARTS])
        self.session.run(PARTS[name].format(self.rng.randrange(1, 90)), cell_id=name)

    def define(self) -> None:
        self.others += 1
        self.session.run(f"define i64 @other{self.others}() uwtable {{\n  ret i64 1\n}}")

    def evict(self) -> None:
        if names := [name for name in self.session.symbols if name.startswith("other")]:
            self.session.evict(self.rng.choice(names))

    def undo(self) -> None:
        """Of what was done since the threads began."""
        self.define()
        self.session.undo()

    def redo(self) -> None:
        self.undo()
        self.session.redo()

    def fail(self) -> None:
        with contextlib.suppress(JitError):
            self.session.run("@none = external global i64\n@pointer = global ptr @none")

    def call(self) -> None:
        assert self.session.call("catches", 41) == 41

    def wake(self) -> None:
        assert self.session.call(f"asleep{self.rng.randrange(4)}", 3) == 3

    def fault(self) -> None:
        with contextlib.suppress(Fault):
            self.session.call("faults")

    def interrupt(self) -> None:
        """Ctrl-C at a random moment, of a change or of a loop."""
        timer = threading.Timer(self.rng.random() * 0.05, self.session.interrupt)
        with contextlib.suppress(Interrupted):
            timer.start()
            self.redefine()
        timer.join()
        timer = threading.Timer(self.rng.random() * 0.05 + 0.01, self.session.interrupt)
        with contextlib.suppress(Interrupted):
            timer.start()
            if self.session.inspect.executor == self.process:
                self.session.call("spins")
        timer.join()

    def look(self) -> None:
        assert self.session.stack_maps.safepoints()

    def save(self) -> None:
        self.session.save(self.folder / "work.jks")

    def remake(self) -> None:
        """Of several at once: what `same` is made of is in those that call it."""
        self.session.run(
            "\n".join(PARTS[name].format(self.rng.randrange(1, 90)) for name in ("same", "jumps")),
            cell_id="same",
        )
