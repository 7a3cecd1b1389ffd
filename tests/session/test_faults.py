"""What stops a cell, told so that a student understands it, and what is as before afterwards.

Each row of `FAULTS` is a cell, the words that its error must have, and what becomes of the heap.
"""

from __future__ import annotations

import os
import signal

import pytest
from programs import SQ, constant, interrupting

from jitkernel import Session
from jitkernel.errors import Exited, Fault, Interrupted, UndefinedSymbol

pytestmark = pytest.mark.process

# A program with a global, a block of malloc'ed memory and a probe of the processor's state: the
# probe runs on a thread of its own and answers 0 where rounding, x87 and direction flag are right.
WORLD = r"""
#include <pthread.h>
#include <stdlib.h>
#include <xmmintrin.h>
int kept = 41, state = -1;
long *heap;
void fill(void) { heap = malloc(100); *heap = 1234567; }
long heap_value(void) { return *heap; }
void *probe(void *ignored) {
  unsigned short control, x87[14];
  long flags;
  __asm__ volatile("fnstcw %0; fnstenv %1; fldenv %1" : "=m"(control), "=m"(x87));
  __asm__ volatile("pushfq; popq %0" : "=r"(flags));
  int wrong = (_mm_getcsr() & 0xffc0) != 0x1f80;
  wrong |= ((control & 0xf3f) != 0x33f) << 1 | (x87[4] != 0xffff) << 2;
  state = wrong | !!(flags & 0x400) << 3;
  return 0;
}
int on_thread(void) {
  pthread_t t;
  state = -1;
  pthread_create(&t, 0, probe, 0);
  pthread_join(t, 0);
  return state;
}
int here(void) { state = -1; probe(0); return state; }
fill();
"""

FAULTS = {
    "null read": ("define i64 @get(ptr %p) {\n  %q = getelementptr i64, ptr %p, i64 1\n  %v = load volatile i64, ptr %q\n  ret i64 %v\n}\n@get(null)",
        ["read of address 0x8 (8 bytes from a null pointer)", "at @get", "line 3: %v = load volatile i64, ptr %q", "mov rax, qword ptr"], True),
    "null write": ("define void @put() {\n  store volatile i32 1, ptr null\n  ret void\n}\n@put()",
        ["write to address 0 (a null pointer)", "@put", "line 2: store volatile i32 1, ptr null"], True),
    "wild read": ("define i64 @get() {\n  %p = inttoptr i64 70368744177664 to ptr\n  %v = load volatile i64, ptr %p\n  ret i64 %v\n}\n@get()",
        ["read of address 0x400000000000 (nothing is there)", "line 3"], True),
    "not canonical": ("define i64 @get() {\n  %p = inttoptr i64 -81985529216486896 to ptr\n  %v = load volatile i64, ptr %p\n  ret i64 %v\n}\n@get()",
        ["access to an address that cannot exist (not canonical): 0xfedcba9876543210", "line 3"], True),
    "misaligned": ("@b = global [64 x i8] zeroinitializer, align 64\ndefine void @put(i64 %n) {\n  %p = getelementptr i8, ptr @b, i64 %n\n  store volatile <4 x float> zeroinitializer, ptr %p, align 16\n  ret void\n}\n@put(4)",
        ["which is no multiple of 16: ", "movaps needs one", "line 4: store volatile <4 x float>"], True),
    "only the system's": ("define void @h() {\n  call void asm sideeffect \"hlt\", \"\"()\n  ret void\n}\n@h()", ["an instruction that only the system may execute", "line 2", "hlt"], True),
    "jump to what is not canonical": ("define void @j(i64 %n) {\n  %p = inttoptr i64 %n to ptr\n  call void %p()\n  call void %p()\n  ret void\n}\n@j(1311768467463790320)",
        ["jump to an address that cannot exist (not canonical): 0x123456789abcdef0", "line 3"], True),
    "division": ("define i32 @div(i32 %a, i32 %b) {\n  %r = sdiv i32 %a, %b\n  ret i32 %r\n}\n@div(1, 0)",
        ["integer division by zero or overflow", "@div", "line 2: %r = sdiv i32 %a, %b", "idiv"], True),
    "overflow in division": ("define i32 @div(i32 %a, i32 %b) {\n  %r = sdiv i32 %a, %b\n  ret i32 %r\n}\n@div(-2147483648, -1)",
        ["integer division by zero or overflow"], True),
    "illegal": ("define void @ill() {\n  call void asm sideeffect \"ud2\", \"\"()\n  ret void\n}\n@ill()",
        ["illegal instruction", "@ill", "line 2", "ud2"], True),
    "trap": ("define void @t() {\n  call void @llvm.trap()\n  unreachable\n}\ndeclare void @llvm.trap()\n@t()",
        ["illegal instruction (llvm.trap or unreachable code?)", "@t"], True),
    "int3": ("define void @t() {\n  call void @llvm.debugtrap()\n  ret void\n}\ndeclare void @llvm.debugtrap()\n@t()", ["a trap (int3)", "@t"], True),
    "no ret": ('define i32 @n() naked {\n  call void asm sideeffect ".byte 0x90", ""()\n  unreachable\n}\n@n()', ["@n was left at its end", "`ret` is missing"], True),
    "abort": ("define void @a() {\n  call void @abort()\n  ret void\n}\ndeclare void @abort()\n@a()", ["abort() was called", "@a", "line 2: call void @abort()"], True),
    "exit": ("define void @e() {\n  call void @exit(i32 3)\n  ret void\n}\ndeclare void @exit(i32)\n@e()", ["the cell called exit(3)", "@e", "line 2"], True),
    "_exit": ("define void @e() {\n  call void @_exit(i32 4)\n  ret void\n}\ndeclare void @_exit(i32)\n@e()", ["the cell called _exit(4)"], True),
    "quick_exit": ("define void @e() {\n  call void @quick_exit(i32 5)\n  ret void\n}\ndeclare void @quick_exit(i32)\n@e()", ["the cell called quick_exit(5)"], True),
    "pthread_exit": ("define void @e() {\n  call void @pthread_exit(ptr null)\n  ret void\n}\ndeclare void @pthread_exit(ptr)\n@e()", ["pthread_exit"], True),
    "recursion": ("define i32 @deep(i32 %n) {\n  %a = alloca [10 x i64]\n  store volatile i64 1, ptr %a\n  %m = add i32 %n, 1\n  %r = call i32 @deep(i32 %m)\n  %s = load volatile i64, ptr %a\n  %t = trunc i64 %s to i32\n  %u = add i32 %r, %t\n  ret i32 %u\n}\n@deep(0)",
        ["the stack is used up (endless recursion?)", "@deep", " times", "and more"], True),
    "a large variable": ("define void @large() noinline optnone {\n  %a = alloca [30000000 x i8]\n  store volatile i8 1, ptr %a\n  ret void\n}\n@large()",
        ["the stack is used up (endless recursion, or local variables too large for it?)", "@large"], True),
    "stack smashed": ("define void @spill(ptr %b) noinline {\n  %r = call ptr @memset(ptr %b, i32 65, i64 64)\n  ret void\n}\ndefine void @smash() sspreq {\n  %b = alloca [8 x i8]\n  call void @spill(ptr %b)\n  ret void\n}\ndeclare ptr @memset(ptr, i32, i64)\n@smash()",
        ["the stack was smashed: a local buffer was written past its end", "@smash"], True),
    "store to text": ("define void @w() {\n  store volatile i32 0, ptr @w\n  ret void\n}\n@w()", ["write to address", "@w", "which is code and cannot be written"], True),
    "store to a constant": ("@k = constant i32 1\ndefine void @w() {\n  store volatile i32 0, ptr @k\n  ret void\n}\n@w()", ["write to address", "@k", "constant"], True),
    "strlen(NULL)": ("define i64 @len(ptr %p) {\n  %r = call i64 @strlen(ptr %p)\n  %s = add i64 %r, 1\n  ret i64 %s\n}\ndeclare i64 @strlen(ptr)\n@len(null)",
        ["read of address 0 (a null pointer)", "at @len", "line 2: %r = call i64 @strlen(ptr %p)", "strlen"], True),
    "printf with a wild %s": ('@f = constant [4 x i8] c"%s\\0A\\00"\ndefine i32 @say() {\n  %r = call i32 (ptr, ...) @printf(ptr @f, i64 4096)\n  %s = add i32 %r, 1\n  ret i32 %s\n}\ndeclare i32 @printf(ptr, ...)\n@say()',
        ["read of address 0x1000", "@say"], True),
    "wild call": ("define void @c() {\n  %p = inttoptr i64 70368744177664 to ptr\n  call void %p()\n  ret void\n}\n@c()", ["jump to address 0x400000000000"], True),
    "null call": ("define i32 @c(ptr %p) {\n  %r = call i32 %p()\n  %s = add i32 %r, 1\n  ret i32 %s\n}\n@c(null)", ["jump to address 0 (a null function pointer)", "@c", "line 2: %r = call i32 %p()"], True),
    "call of data": ("@d = global i64 0\ndefine i32 @c() {\n  %r = call i32 @d()\n  %s = add i32 %r, 1\n  ret i32 %s\n}\n@c()", ["jump to address", "@d", "@c"], True),
    "rounding left wrong": ("define void @r() {\n  %p = alloca i32\n  store i32 65408, ptr %p\n  call void @llvm.x86.sse.ldmxcsr(ptr %p)\n  call void asm sideeffect \"std; fld1; fld1\", \"\"()\n  store volatile i32 1, ptr null\n  ret void\n}\ndeclare void @llvm.x86.sse.ldmxcsr(ptr)\n@r()", ["write to address 0", "@r"], True),
    "double free": ("@slot = global ptr null\ndefine void @f() {\n  %n = call ptr @malloc(i64 24)\n  store volatile ptr %n, ptr @slot\n  %p = load volatile ptr, ptr @slot\n  call void @free(ptr %p)\n  %q = load volatile ptr, ptr @slot\n  call void @free(ptr %q)\n  store volatile ptr null, ptr @slot\n  ret void\n}\ndeclare ptr @malloc(i64)\ndeclare void @free(ptr)\n@f()", ["abort in a library", "double free", "@f"], None),
    "raise(SIGSEGV)": ("declare i32 @raise(i32)\ndefine i32 @r(i32 %n) {\n  %r = call i32 @raise(i32 %n)\n  %s = add i32 %r, 1\n  ret i32 %s\n}\n@r(11)",
        ["the signal SIGSEGV, which the program itself sent (raise or kill): no memory access failed", "at @r", "line 3: %r = call i32 @raise(i32 %n)"], True),
    "raise(SIGBUS)": ("declare i32 @raise(i32)\n@raise(7)", ["the signal SIGBUS, which the program itself sent"], True),
    "raise(SIGFPE)": ("declare i32 @raise(i32)\n@raise(8)", ["the signal SIGFPE, which the program itself sent (raise or kill)"], True),
    "raise(SIGTRAP)": ("declare i32 @raise(i32)\n@raise(5)", ["the signal SIGTRAP, which the program itself sent"], True),
    # the parent has to be out of fork(), which holds the locks of malloc
    "a signal from a child": ("declare i32 @fork()\ndeclare i32 @getppid()\ndeclare i32 @kill(i32, i32)\ndeclare void @_exit(i32)\ndeclare i32 @sleep(i32)\ndeclare i32 @pipe(ptr)\ndeclare i64 @read(i32, ptr, i64)\ndeclare i64 @write(i32, ptr, i64)\ndefine i32 @f() {\n  %ends = alloca [2 x i32]\n  %o = call i32 @pipe(ptr %ends)\n  %in = load i32, ptr %ends\n  %at = getelementptr i32, ptr %ends, i64 1\n  %out = load i32, ptr %at\n  %p = call i32 @fork()\n  %c = icmp eq i32 %p, 0\n  br i1 %c, label %child, label %parent\nchild:\n  %r = call i64 @read(i32 %in, ptr %ends, i64 1)\n  %q = call i32 @getppid()\n  %k = call i32 @kill(i32 %q, i32 11)\n  call void @_exit(i32 0)\n  unreachable\nparent:\n  %w = call i64 @write(i32 %out, ptr %ends, i64 1)\n  br label %wait\nwait:\n  %s = call i32 @sleep(i32 1)\n  br label %wait\n}\n@f()",
        ["the signal SIGSEGV, which process ", " sent: no memory access failed"], True),
    "a fault on a thread": ("define ptr @t(ptr %p) {\n  store volatile i32 1, ptr null\n  ret ptr null\n}\ndefine void @s() {\n  %i = alloca i64\n  %r = call i32 @pthread_create(ptr %i, ptr null, ptr @t, ptr null)\n  %n = load i64, ptr %i\n  %j = call i32 @pthread_join(i64 %n, ptr null)\n  ret void\n}\n@s()", ["write to address 0", "on a thread that the program had started", "@t", "Lost:"], False),
    "undefined": ("declare i32 @nobody()\ndefine i32 @u() {\n  %r = call i32 @nobody()\n  %s = add i32 %r, 1\n  ret i32 %s\n}\n@u()", ["call of @nobody, which nobody defines", "at @u", "line 3: %r = call i32 @nobody()"], True),
}  # fmt: skip


@pytest.fixture
def world(s):
    s.run(WORLD, "c")
    assert s.call("on_thread") == s.call("here") == 0
    return s


def as_before(s, heap=True):
    """Globals, functions, threads and processor state are as they should be."""
    assert s.run("@kept").value == 41
    assert s.call("on_thread") == 0
    assert s.call("here") == 0
    if heap:
        assert s.call("heap_value") == 1234567
    assert s.run('@printf("%.3f|%d\\0A", 0.5, 7)').stdout == "0.500|7\n"
    assert s.run(constant("after", 5) + "\n@after()").value == 5


@pytest.mark.parametrize("name", FAULTS)
def test_faults(world, name):
    s = world
    source, words, heap = FAULTS[name]
    with pytest.raises(Fault) as caught:
        s.run(source)
    error = caught.value
    text = str(error)
    for word in words:
        assert word in text, text
    assert "free text" not in text and "runtime" not in text, text
    assert "Kept: " in text and "functions" in text
    if heap:
        assert "Nothing was lost" in text
        assert error.lost == ""
    as_before(s, heap if heap is not None else error.lost == "")
    s.check()
    # and once more: recovering does not wear off
    with pytest.raises(Fault):
        s.run(source.rpartition("\n")[2])
    as_before(s, heap if heap is not None else False)


def test_the_kinds_of_errors(s):
    s.run(FAULTS["exit"][0].rpartition("\n")[0])
    with pytest.raises(Exited) as caught:
        s.call("e")
    assert caught.value.status == 3
    s.run(FAULTS["undefined"][0].rpartition("\n")[0])
    with pytest.raises(UndefinedSymbol) as undefined:
        s.call("u")
    assert undefined.value.symbol == "nobody"
    s.run(FAULTS["division"][0].rpartition("\n")[0])
    with pytest.raises(Fault) as fault:
        s.call("div", 1, 0)
    assert fault.value.signal == "SIGFPE" and "idiv" in fault.value.instruction
    assert s.call("div", 6, 3) == 2


def test_the_card_of_a_crash(s):
    s.configure("inlining", False)
    s.run("@g = global i32 7\n" + SQ)
    number = s.run(
        "define i64 @get(ptr %p) {\n  %v = load i64, ptr %p\n  ret i64 %v\n}"
    ).cell.number
    user = s.run(
        "define i64 @outer() {\n  %v = call i64 @get(ptr null)\n  %w = add i64 %v, 1\n  ret i64 %w\n}"
    ).cell.number
    with pytest.raises(Fault) as caught:
        s.run("@outer()")
    lines = str(caught.value).split("\n")
    assert lines[0] == "read of address 0 (a null pointer)"
    assert lines[1] == f"at @get, cell {number}, line 2: %v = load i64, ptr %p"
    assert lines[2] == "    mov rax, qword ptr [rdi]"
    assert "called from @outer+" in "\n".join(lines) and f"cell {user}" in "\n".join(lines)
    assert "Kept: 3 functions, 1 global. Nothing was lost." in lines
    assert [f.where.split(",")[0].split("+")[0] for f in caught.value.frames] == ["@get", "@outer"]


def test_a_fault_in_bare_instructions_names_cell_and_line(s):
    with pytest.raises(Fault) as caught:
        s.run("%a = add i32 1, 2\n%v = load volatile i64, ptr null")
    text = str(caught.value)
    assert f"cell {s.number}, line 2: %v = load volatile i64, ptr null" in text


def test_a_fault_in_a_private_function_names_it(s):
    with pytest.raises(Fault) as caught:
        s.run(
            "define i32 @first() {\n  ret i32 1\n}\ndefine internal i32 @hidden(ptr %p) noinline {\n  %v = load volatile i32, ptr %p\n  ret i32 %v\n}\ndefine i32 @go(ptr %p) {\n  %r = call i32 @hidden(ptr %p)\n  %s = add i32 %r, 1\n  ret i32 %s\n}\n@go(null)"
        )
    text = str(caught.value)
    assert "line 5: %v = load volatile i32, ptr %p" in text
    assert "at @hidden" in text and "@go" in text


def test_earlier_statements_of_the_cell_stand_and_are_named(s):
    with pytest.raises(Fault) as caught:
        s.run("@g = global i32 0\n@g = 1\n@g = 2\n@strlen(null)\n@g = 3")
    assert s["g"].value == 2
    assert "ran" in str(caught.value).lower()


def test_a_stale_pointer_into_freed_text_names_the_evicted_cell(s):
    number = s.run(
        "define internal i32 @old() noinline {\n  ret i32 1\n}\ndefine ptr @leak() {\n  ret ptr @old\n}"
    ).cell.number
    pointer = s.call("leak")
    s.run(
        "define i32 @through(ptr %f) {\n  %r = call i32 %f()\n  %s = add i32 %r, 1\n  ret i32 %s\n}"
    )
    assert s.call("through", pointer) == 2
    s.evict("leak")
    with pytest.raises(Fault) as caught:
        s.call("through", pointer)
    text = str(caught.value)
    assert f"stale pointer led into cell {number}" in text and "gone" in text
    s.undo()
    assert s.call("through", pointer) == 2, "undo brings it back where it was"


BYTES = 'define {} void @{}() naked noinline {{\n  call void asm sideeffect ".byte {}", ""()\n  unreachable\n}}\n'
WHOLE, OWN = ",".join(["0x90"] * 15 + ["0xc3"]), "0xcc, 0xc3"  # a granule; a trap of its own


def test_what_begins_where_a_function_ends_is_not_taken_for_its_end():
    """A trap of another function's own, a private one's too; and a stale pointer to one."""
    with Session(spare=False) as s:
        s.run(BYTES.format("", "f", WHOLE))
        s.run(BYTES.format("", "g", OWN))
        h = "define void @h() {\n  call void @p()\n  ret void\n}\n"
        s.run(BYTES.format("", "k", WHOLE) + BYTES.format("internal", "p", OWN) + h)
        g = s.symbols["g"].address
        assert g == s.symbols["f"].address + 16
        for name, where in (("g", "@g, cell 2"), ("h", "@p")):
            with pytest.raises(Fault, match=r"^a trap \(int3\)") as caught:
                s.call(name)
            assert f"\nat {where}" in str(caught.value)
        s.run(f"define void @v() {{\n  call void inttoptr (i64 {g} to ptr)()\n  ret void\n}}")
        s.evict("g")
        with pytest.raises(Fault) as caught:
            s.call("v")
    assert "left at its end" not in str(caught.value)


def test_of_two_variables_taken_away_the_one_that_was_used_is_named(s):
    number = s.run("@g = global i32 7\n@h = global i32 8").cell.number
    get = "define i32 @{0}() {{\n  %v = load volatile i32, ptr @{1}\n  ret i32 %v\n}}\n"
    s.run(get.format("a", "g") + get.format("b", "h"))
    s.evict(number, force=True)
    for function, name in (("a", "g"), ("b", "h")):
        with pytest.raises(UndefinedSymbol) as caught:
            s.call(function)
        assert caught.value.symbol == name
        assert f"use of @{name}: cell {number}, which defined it, was evicted" in str(caught.value)


# -- other processes and descriptors ---------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "declare i32 @sigaltstack(ptr, ptr)\ndefine void @go() {\n  %s = alloca { ptr, i32, i64 }\n  store { ptr, i32, i64 } { ptr null, i32 2, i64 0 }, ptr %s\n  %a = call i32 @sigaltstack(ptr %s, ptr null)\n  ret void\n}",
        "declare i32 @setpgid(i32, i32)\ndeclare i32 @prctl(i32, i64, i64, i64, i64)\ndefine void @go() {\n  %a = call i32 @prctl(i32 1, i64 0, i64 0, i64 0, i64 0)\n  ret void\n}",
    ],
    ids=[
        "no alternate stack",
        "no parent death signal",
    ],
)
def test_what_a_cell_does_to_its_process_the_next_one_survives(world, source):
    s = world
    s.run(source)
    s.call("go")
    for name in ("null read", "division"):
        with pytest.raises(Fault):
            s.run(FAULTS[name][0])
    s.run("define void @spin() {\nentry:\n  br label %l\nl:\n  br label %l\n}")
    with interrupting(s), pytest.raises(Interrupted):
        s.call("spin")
    as_before(s)


def test_lines_are_found_once_for_a_text(s):
    """Each fault names its line; the worker is asked once for each text, however often it comes."""

    def compiles():
        return sum(count for _, _, count in s.inspect.engine.pool.processes())

    broken = "define i32 @down(ptr %p) {\n\n  %v = load volatile i32, ptr %p\n  ret i32 %v\n}"
    other = "define i32 @down(ptr %p) {\n  %v = load volatile i32, ptr %p\n  ret i32 %v\n}"
    s.run("define i32 @up(ptr %p) {\n  ret i32 1\n}\n@up(null)")  # there is a thunk now
    asked = []
    for source, line in ((broken, 3), (broken, 3), (other, 2), (broken, 3)):
        s.run(source)
        for _ in range(2):
            before = compiles()
            with pytest.raises(Fault) as caught:
                s.call("down", 0)
            assert f"line {line}" in str(caught.value)
            asked.append(compiles() - before)
    assert asked == [1, 0, 0, 0, 1, 0, 0, 0]


@pytest.mark.parametrize("ends", ["die", "nobody", "exit"])
def test_a_call_that_does_not_return_is_told_as_its_callers(s, ends):
    """Its return address is the first byte of what lies behind the caller: of another cell, or of
    one that is gone."""
    s.run(f"declare void @{ends}() noreturn" if ends != "exit" else "declare void @exit(i32)")
    if ends == "die":
        s.run("define void @die() noreturn {\n  call void @llvm.trap()\n  unreachable\n}")
    call = "call void @exit(i32 3)" if ends == "exit" else f"call void @{ends}()"
    text = (
        "define void @{name}{skipped}() noreturn {{\n"
        '  call void asm sideeffect ".skip {skipped}, 0x90", ""()\n  {call}\n  unreachable\n}}'
    )
    for skipped in range(16):  # what is behind was there first
        s.run(text.format(name="before", skipped=skipped, call=call))
        s.run(f"define i32 @behind{skipped}() {{\n  ret i32 1\n}}")
    for skipped in range(16):
        s.evict(f"before{skipped}")
        s.run(text.format(name="user", skipped=skipped, call=call))
    for gone in (False, True):
        if gone:
            s.evict(*(f"behind{skipped}" for skipped in range(16)))
        for skipped in range(16):
            with pytest.raises(Fault) as caught:
                s.run(f"@user{skipped}()")
            told = caught.value.frames[-1].where
            assert told.startswith(f"@user{skipped}+"), told
            assert "gone" not in str(caught.value)
            if s.inspect.observers.stopped is not None:
                named = [f.where for f in s.inspect.observers.stopped.frames]
                assert not any("behind" in w or "gone" in w for w in named), named


FILL = """#include <stdlib.h>
#include <string.h>
#include <unistd.h>
void fill_heap(long beyond) {
  char *p = malloc(40);
  memset(p, 90, (char *)sbrk(0) - p + beyond);
}"""
LOOK_UP = "declare i32 @{0}()\ndefine i32 @of_{0}() {{\n  %r = call i32 @{0}()\n  ret i32 %r\n}}"
READ_NOTHING = "%v = load volatile i64, ptr null"


def test_what_a_fault_has_lost_is_said_in_that_fault(s):
    """A loop that runs over the whole heap, and on."""
    s.run(FILL, "c")
    with pytest.raises(Fault) as caught:
        s.run("@fill_heap(i64 268435456)")
    assert "malloc" in caught.value.lost and "Nothing was lost" not in str(caught.value)
    with pytest.raises(Fault) as caught:
        s.run(READ_NOTHING)
    assert "Nothing was lost." in str(caught.value)
    assert not any("malloc" in note for note in s.run(constant("later", 1)).notes)


@pytest.mark.parametrize("how", ["alone", "with a call", "with a fault"])
def test_a_process_that_is_found_dead_is_told_in_the_cell_that_finds_it(s, how):
    """Whoever looks up a name finds it so, and another process goes on."""
    s.run(constant("before", 1))
    s.run("@before()")
    told, executor = [], s.inspect.engine.executor
    generation = executor.generation
    os.kill(executor.pid, signal.SIGKILL)
    name = {"alone": "getpgrp", "with a call": "getegid", "with a fault": "geteuid"}[how]
    source = LOOK_UP.format(name)
    if how == "with a fault":
        with pytest.raises(Fault) as caught:
            s.run(f"{source}\n{READ_NOTHING}")
        told += [caught.value.lost]
    else:
        told += s.run(source + ("\n@of_getegid()" if how == "with a call" else "")).notes
    assert executor.generation == generation + 1
    assert sum("memory from malloc" in note for note in told) == 1, told
    assert not any("malloc" in note for note in s.run(constant("later", 1)).notes)


def test_an_address_in_the_code_that_calls_cells_is_called_so(s):
    s.run(
        "declare ptr @llvm.returnaddress(i32)\n"
        "define ptr @back() {\n  %r = call ptr @llvm.returnaddress(i32 0)\n  ret ptr %r\n}"
    )
    back = s.call("back")
    assert s.describe(back) == f"{back:#x} (what calls cells)"
    assert s.inspect.name_of(back) == "what calls cells"


def test_a_frame_whose_upper_end_has_no_page(s):
    """Each begins with a page, so that the first write that fails is far above the stack pointer."""
    s.run(
        "__attribute__((naked)) void deep(void) {\n"
        '  __asm__("and $-4096, %rsp; sub $4088, %rsp; 1: push %rbp; mov %rsp, %rbp;"\n'
        '          "sub $4080, %rsp; movl $0, -4(%rbp); call 1b");\n'
        "}",
        "c",
    )
    with pytest.raises(Fault, match="the stack is used up"):
        s.call("deep")
