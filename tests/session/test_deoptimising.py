"""Optimised code that leaves in the middle, by a `deopt` bundle and its stack map: the interpreter
is the judge of what comes back.  The handler and the translator are those of the course."""

from __future__ import annotations

import random

import pytest

from jitkernel import Session
from jitkernel.elf.stack_maps import LocationKind
from jitkernel.errors import JitError
from tests.seeds import seeds
from tests.session.bytecode import handler, lesson, programs

HEAD = """declare i64 @llvm.experimental.deoptimize.i64(...)
@__LLVM_StackMaps = external global i8
declare void @touch(ptr)
"""
OUT = "@llvm.experimental.deoptimize.i64(ptr @__LLVM_StackMaps)"


@pytest.mark.parametrize("seed", seeds(1, 12))
def test_the_interpreter_goes_on_where_a_guard_fails(s: Session, seed: int) -> None:
    """Twelve seeds are more than a thousand guards that fail in each executor."""
    machine, rng = lesson(s), random.Random(seed)
    code, starts = programs(rng, 12)
    machine.put(code)
    interpret = s["run"]
    for start in starts:  # what it sees here is what the code is made for
        interpret(start, machine.word(rng.randrange(60)))
    seen = s["went"].array.tolist()
    text = [machine.translate(code, f"p{start}", start, (), seen) for start in starts]
    s.run(machine.HEAD + "\n".join(text))
    numbers = [0, 1, -3, 50, rng.randrange(1000), rng.random() * 100, -0.5, 1e9]
    for start in starts:
        for number in numbers:
            given = machine.word(number)
            assert s.call(f"p{start}", given) == interpret(start, given), (start, number)
    assert s["deoptimised"].value > 50 and s["two"].value > 5
    s.check()


SEEN = """#include <string.h>
long seen[64], number;
long resume(const long *values, long count) {
    memcpy(seen, values, count * sizeof *values);
    number = count;
    return 1000 + count;
}
__attribute__((noinline)) void touch(void *any) { __asm__ volatile("" : : "r"(any) : "memory"); }
long around(long (*f)(long), long x) {
    long a = x * 3, b = x ^ 5, c = x + 7, d = x - 11, e = x * x, g = ~x;
    __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(g));
    long r = f(x);
    __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(g));
    return a == x * 3 && b == (x ^ 5) && c == x + 7 && d == x - 11 && e == x * x && g == ~x ? r : -1;
}"""


def left(s: Session, source: str, *arguments: object) -> list[int]:
    """The values of the bundle with which `@f` of a module is left."""
    s.run(SEEN, "c")
    s.run(handler(), "c")
    s.run(HEAD + source)
    count = s.call("f", *arguments) - 1000
    assert count == s["number"].value
    found: list[int] = s["seen"].array[:count].tolist()
    return found


def kinds(s: Session) -> list[LocationKind]:
    [record] = s.stack_maps.records
    return [place.kind for place in record.statepoint.deopt]


def test_values_of_every_kind_and_size(s: Session) -> None:
    found = left(s, f"""define i64 @f(i64 %x, i32 %w, i8 %b, double %d) {{
  %a = alloca i64
  store i64 77, ptr %a
  call void @touch(ptr %a)
  %r = call i64 (...) {OUT} [ "deopt"(i64 %x, i32 %w, i8 %b, double %d, i64 -5,
      i64 123456789012345, ptr %a, ptr null, i1 true) ]
  ret i64 %r
}}""", -9, -2, 200, 1.5)  # fmt: skip
    narrow = [found[1] & 0xFFFF_FFFF, found[2] & 0xFF]
    assert [found[0], *narrow, found[3]] == [-9, 0xFFFF_FFFE, 200, 0x3FF8 << 48]
    assert found[4:6] == [-5, 123456789012345] and found[7] == 0 and found[8] & 1
    assert set(kinds(s)) == set(LocationKind) - {LocationKind.REGISTER}


@pytest.mark.parametrize(
    "more",
    ["", "%v = alloca i8, i64 %x\n  call void @touch(ptr %v)",
     "%v = alloca i64, align 64\n  call void @touch(ptr %v)",
     "%v = alloca i8, i64 %x, align 64\n  call void @touch(ptr %v)\n"
     "  %u = alloca i64, align 64\n  call void @touch(ptr %u)"],
    ids=["fixed", "varying", "aligned", "both"],
)  # fmt: skip
def test_frames_of_every_kind_are_left(s: Session, more: str) -> None:
    """Many live values, a frame without a fixed size, one that is aligned: and the caller has what
    it had in the registers that calls keep."""
    lines = [f"  %v{i} = mul i64 %x, {i + 2}\n  call void @touch(ptr null)" for i in range(40)]
    values = ", ".join(f"i64 %v{i}" for i in range(40))
    body = "\n".join([*lines, f'  %r = call i64 (...) {OUT} [ "deopt"({values}) ]', "  ret i64 %r"])
    source = f"define i64 @f(i64 %x) {{\n  {more}\n{body}\n}}\n@pointer = global ptr @f"
    assert left(s, source, 5) == [5 * (i + 2) for i in range(40)]
    assert s.call("around", s["f"].address, 9) == 1040
    [record] = s.stack_maps.records
    assert (record.function.stack_size is None) == bool(more)


@pytest.mark.process
@pytest.mark.parametrize(
    ("attributes", "value", "why"),
    [("", "i128 %w", "a value has more than 8 bytes"),
     ("nounwind", "i64 %x", "the function has no unwind table")],
)  # fmt: skip
def test_what_cannot_be_left_is_refused(
    s: Session, capfd: pytest.CaptureFixture[str], attributes: str, value: str, why: str
) -> None:
    source = f"""define i64 @f(i64 %x) {attributes} {{
  %y = sext i64 %x to i128
  %w = mul i128 %y, %y
  %r = call i64 (...) {OUT} [ "deopt"({value}) ]
  ret i64 %r
}}"""
    with pytest.raises(JitError):
        left(s, source, 5)
    assert why in capfd.readouterr().err


THREADS = """#include <pthread.h>
long guarded(long);
_Atomic long rounds, wrong;
volatile int stop;
static pthread_t threads[4];
static void *work(void *none) {{
    while (!stop) {{ if (guarded({given}) != {expected}) wrong++; rounds++; }}
    return 0;
}}
int go(void) {{
    int failed = 0;
    for (int i = 0; i < 4; i++) failed |= pthread_create(threads + i, 0, work, 0);
    return failed;
}}
void finish(void) {{ stop = 1; for (int i = 0; i < 4; i++) pthread_join(threads[i], 0); }}"""


@pytest.mark.process
@pytest.mark.soak
def test_threads_leave_code_that_has_just_come(s: Session) -> None:
    """They find its unwind tables before they can run it.  More of them than processors: some are
    in the middle of the unwinder all the time that code is linked."""
    machine = lesson(s)
    machine.put(machine.MEAN)
    given = machine.word(2.5)

    def define(*inline: int) -> None:
        s.run(machine.HEAD + machine.translate(machine.MEAN, "guarded", 0, inline), cell_id="g")

    define()
    s.run(THREADS.format(given=given, expected=s.call("run", 0, given)), "c")
    s.call("go")
    executor = s.inspect.executor
    for number in range(30):
        define(100 + number)
        s.run(f"define i64 @other{number}() {{\n  ret i64 {number}\n}}")
        s.serve(0.001)
    s.call("finish")
    assert s.inspect.executor == executor, "it lives"
    assert s["wrong"].value == 0 and s["deoptimised"].value > 1000
