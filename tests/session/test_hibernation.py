"""Code that leaves memory and comes back when it is called, whatever is in the registers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from programs import SQ, constant, interrupting

from jitkernel import Session
from jitkernel.errors import (
    Fault,
    Interrupted,
    LinkError,
    TypeMismatch,
)
from jitkernel.session import CellOptions
from jitkernel.session.program.cell import CellState
from tests.busy import until

PADDED = """define i32 @p{0}(i32 %x) {{
  call void asm sideeffect ".fill {1}, 1, 0x90", ""()
  %r = add i32 %x, {0}
  ret i32 %r
}}"""


def asleep(s: Session) -> list[int]:
    return [c.number for c in s.cells if c.state is CellState.HIBERNATED]


# -- a call brings it back ---------------------------------------------------------------------


def test_a_call_in_the_middle_of_a_run_brings_code_back(s: Session) -> None:
    s.configure("inlining", False)
    s.run(SQ)
    s.run(
        "define i32 @both(i32 %x) {\n  %a = call i32 @sq(i32 %x)\n  %b = call i32 @sq(i32 %a)\n"
        "  ret i32 %b\n}"
    )
    woken = s.inspect.residency.woken
    for _ in range(3):
        before = s.symbols["sq"].address
        assert [c.names for c in s.hibernate("sq")] == [["sq"]]
        s.check()
        assert asleep(s) == [s.find("sq")[0].number]
        assert s.inspect.engine.arena.read(before, 1) == b"\xcc"
        assert s.call("both", 3) == 81
        assert asleep(s) == []
        s.check()
        assert s.call("both", 2) == 16
    assert s.inspect.residency.woken == woken + 3


def test_by_statements_lines_and_handles(s: Session) -> None:
    s.run(SQ)
    handle = s["sq"]
    for use in (
        lambda: s.call("sq", 5),
        lambda: s.run("@sq(5)").value,
        lambda: s.run("%r = call i32 @sq(i32 5)").value,
        lambda: handle(5),
    ):
        s.hibernate("sq")
        assert use() == 25
    s.hibernate("sq")
    assert len(s.time("@sq(5)", number=10, repeat=2)) == 2


def test_every_argument_is_as_it_was(s: Session) -> None:
    """All that the calling convention passes: integers, floats, vectors, stack, nest, long double."""
    s.configure("inlining", False)
    integers = ", ".join(f"i64 %a{i}" for i in range(9))
    floats = ", ".join(f"double %d{i}" for i in range(10))
    total = "\n".join(
        [f"  %s{i} = add i64 %s{i - 1}, %a{i}" if i else "  %s0 = add i64 %a0, 0" for i in range(9)]
        + [
            f"  %t{i} = fadd double %t{i - 1}, %d{i}" if i else "  %t0 = fadd double %d0, 0.0"
            for i in range(10)
        ]
    )
    s.run(f"""define double @many({integers}, {floats}, x86_fp80 %l) {{
{total}
  %i = sitofp i64 %s8 to double
  %m = fptrunc x86_fp80 %l to double
  %x = fadd double %i, %t9
  %y = fadd double %x, %m
  ret double %y
}}
define <8 x float> @wide(<8 x float> %a, <8 x float> %b, <4 x i32> %c) {{
  %d = fmul <8 x float> %a, %b
  %e = extractelement <4 x i32> %c, i32 3
  %f = sitofp i32 %e to float
  %g = insertelement <8 x float> %d, float %f, i32 0
  ret <8 x float> %g
}}
define i64 @nested(ptr nest %p, i64 %x) {{
  %n = ptrtoint ptr %p to i64
  %r = add i64 %n, %x
  ret i64 %r
}}""")
    numbers = ", ".join(f"i64 {10**i}" for i in range(9))
    parts = ", ".join(f"double {2.0**-i}" for i in range(10))
    s.run(f"""define double @call_many() {{
  %l = fpext double 1000.5 to x86_fp80
  %r = call double @many({numbers}, {parts}, x86_fp80 %l)
  ret double %r
}}
define <8 x float> @call_wide() {{
  %r = call <8 x float> @wide(<8 x float> <float 1.0, float 2.0, float 3.0, float 4.0, float 5.0, float 6.0, float 7.0, float 8.0>, <8 x float> splat (float 2.0), <4 x i32> <i32 1, i32 2, i32 3, i32 99>)
  ret <8 x float> %r
}}
define i64 @call_nested() {{
  %p = inttoptr i64 4096 to ptr
  %r = call i64 @nested(ptr nest %p, i64 6)
  ret i64 %r
}}""")
    expected = {n: s.call(n) for n in ("call_many", "call_wide", "call_nested")}
    assert expected["call_many"] == 111111111 + sum(2.0**-i for i in range(10)) + 1000.5
    assert list(expected["call_wide"])[:2] == [99.0, 4.0] and expected["call_nested"] == 4102
    for name, value in expected.items():
        s.hibernate("many")
        assert s.call(name) == value
        assert asleep(s) == []


def test_in_a_tail_call_and_deep_in_a_recursion(s: Session) -> None:
    s.run(constant("leaf", 7))
    s.run("define i32 @hop() {\n  %r = musttail call i32 @leaf()\n  ret i32 %r\n}")
    s.run("int leaf(void); int deep(int n) { return n ? deep(n - 1) + 1 : leaf(); }", "c")
    s.hibernate("leaf")
    assert s.call("hop") == 7
    s.hibernate("leaf")
    assert s.call("deep", 1000) == 1007


def test_constants_tables_and_variables_stay_where_they_are(s: Session) -> None:
    cases = "\n".join(f"    i32 {i}, label %l{i}" for i in range(8))
    blocks = "\n".join(f"l{i}:\n  store i32 {i * 7}, ptr @last\n  br label %end" for i in range(8))
    s.run(
        f"@last = global i32 0\n@squares = constant [4 x i32] [i32 0, i32 1, i32 4, i32 9]\n"
        f"define i32 @jump(i32 %x) {{\n  switch i32 %x, label %end [\n{cases}\n  ]\n{blocks}\n"
        "end:\n  %i = and i32 %x, 3\n  %p = getelementptr i32, ptr @squares, i32 %i\n"
        "  %v = load i32, ptr %p\n  ret i32 %v\n}\ndefine ptr @where() {\n  ret ptr @squares\n}"
    )
    where = s.call("where")
    for i in range(8):
        s.hibernate("jump")
        assert s.call("jump", i) == (i & 3) ** 2
        assert s["last"].value == i * 7 and s.call("where") == where
        s.check()


def test_cells_whose_code_has_to_stay(s: Session) -> None:
    s.run(
        "define internal i32 @own() {\n  ret i32 5\n}\n@p = global ptr @own\n"
        "define i32 @f() {\n  ret i32 1\n}"
    )
    with pytest.raises(LinkError, match=r"stays in memory: its variables hold addresses of its"):
        s.hibernate("f")
    s.run(
        "@labels = constant [2 x ptr] [ptr blockaddress(@go, %a), ptr blockaddress(@go, %b)]\n"
        "define i32 @go(i32 %i) {\nentry:\n  %p = getelementptr ptr, ptr @labels, i32 %i\n"
        "  %t = load ptr, ptr %p\n  indirectbr ptr %t, [label %a, label %b]\n"
        "a:\n  ret i32 10\nb:\n  ret i32 20\n}"
    )
    with pytest.raises(LinkError, match="label"):
        s.hibernate("go")
    s.run(
        "@n = global i32 0\n@llvm.global_dtors = appending global [1 x { i32, ptr, ptr }] "
        "[{ i32, ptr, ptr } { i32 65535, ptr @end, ptr null }]\n"
        "define void @end() {\n  store i32 1, ptr @n\n  ret void\n}"
    )
    with pytest.raises(LinkError, match="constructors or destructors"):
        s.hibernate("end")
    s.run("define internal i32 @one() noinline {\n  ret i32 4\n}\n"
          "define i32 @call() {\n  %r = call i32 @one()\n  ret i32 %r\n}")  # fmt: skip
    s.hibernate("call")
    assert s.call("call") == 4
    assert s.call("go", 1) == 20


# -- with everything else ----------------------------------------------------------------------


@pytest.mark.process
@pytest.mark.parametrize("how", ["wake", "undo"])
def test_what_is_compiled_for_a_type_that_is_gone_comes_back_alone(s: Session, how: str) -> None:
    s.run("@v = global i32 1")
    s.run("define i32 @f() {\n  %a = load i32, ptr @v\n  ret i32 %a\n}")
    s.run("@v = global i64 2", options=CellOptions(retype=True))
    if how == "wake":
        s.hibernate("f")
    s.evict("v")
    s.inspect.history.clear()
    if how == "undo":
        s.evict("f")
        s.undo()
    with pytest.raises(TypeMismatch):
        s.call("f")
    assert "v" not in s.inspect.program.linker.symbols
    s.check()


@pytest.mark.process
def test_a_crash_in_code_that_came_back_names_it(s: Session) -> None:
    s.run("define i32 @get(ptr %p) {\n  %v = load volatile i32, ptr %p\n  ret i32 %v\n}")
    s.hibernate("get")
    with pytest.raises(Fault, match=r"(?s)null pointer.*@get"):
        s.call("get", 0)
    s.hibernate("get")
    s.run("@g = global i32 3")
    assert s.run("@get(@g)").value == 3


@pytest.mark.process
def test_an_interrupt_waits_and_then_ends_the_cell(s: Session) -> None:
    s.run(SQ)
    s.run(
        "define void @spin() {\nentry:\n  br label %l\nl:\n  %v = call i32 @sq(i32 2)\n"
        "  br label %l\n}"
    )
    s.hibernate("sq")
    with interrupting(s), pytest.raises(Interrupted):
        s.call("spin")
    assert s.call("sq", 3) == 9


def test_from_threads_of_the_program(s: Session) -> None:
    """Four threads call what is not there, at the same time as the cell itself."""
    s.run("\n".join(f"define i64 @w{i}(i64 %x) {{\n  %r = add i64 %x, {i}\n  ret i64 %r\n}}"
                    for i in range(4)))  # fmt: skip
    s.run(
        "define ptr @body(ptr %p) {\n"
        + "\n".join(f"  %v{i} = call i64 @w{i}(i64 {10 * i})" for i in range(4))
        + "\n  %a = add i64 %v0, %v1\n  %b = add i64 %v2, %v3\n  %c = add i64 %a, %b\n"
        "  %r = inttoptr i64 %c to ptr\n  ret ptr %r\n}"
    )
    s.run(
        "#include <pthread.h>\nvoid *body(void *);\nlong go(void) {\n  pthread_t t[4]; void *r;\n"
        "  for (int i = 0; i < 4; i++) pthread_create(t + i, 0, body, 0);\n"
        "  long sum = (long)body(0);\n"
        "  for (int i = 0; i < 4; i++) { pthread_join(t[i], &r); sum += (long)r; }\n  return sum;\n}",
        "c",
    )
    for _ in range(20):
        assert until(lambda: not s.inspect.engine.executor.threads)
        s.hibernate("w0", "body")
        assert s.call("go") == 5 * (60 + 6)
        s.check()


def test_an_exception_crosses_code_that_came_back_after_another_one(s: Session) -> None:
    """The unwinder keeps what it has found out about the code that was there at the first one."""
    if not _has_cxx(s):
        pytest.skip("libstdc++ cannot be loaded")
    throw = (
        "define void @t{0}() {{\n  %e = call ptr @__cxa_allocate_exception(i64 4)\n"
        "  store i32 {0}, ptr %e\n  call void @__cxa_throw(ptr %e, ptr @_ZTIi, ptr null)\n"
        "  unreachable\n}}"
    )
    s.run(
        "@_ZTIi = external constant ptr\ndeclare ptr @__cxa_allocate_exception(i64)\n"
        "declare void @__cxa_throw(ptr, ptr, ptr)\n" + throw.format(1)
    )
    s.run(throw.format(2))
    s.run(
        "declare i32 @__gxx_personality_v0(...)\ndeclare ptr @__cxa_begin_catch(ptr)\n"
        "declare void @__cxa_end_catch()\n"
        "define i32 @caught(ptr %f) personality ptr @__gxx_personality_v0 {\n"
        "  invoke void %f() to label %fine unwind label %bad\nfine:\n  ret i32 0\n"
        "bad:\n  %l = landingpad { ptr, i32 } catch ptr null\n"
        "  %x = extractvalue { ptr, i32 } %l, 0\n  %p = call ptr @__cxa_begin_catch(ptr %x)\n"
        "  %v = load i32, ptr %p\n  call void @__cxa_end_catch()\n  ret i32 %v\n}"
    )
    calls = "".join(f"  %v{i} = call i32 @caught(ptr @t{i % 2 + 1})\n" for i in range(4))
    s.run(f"define i32 @all() {{\n{calls}  %r = add i32 %v2, %v3\n  ret i32 %r\n}}")
    for which in ("t2", "t1"):
        s.hibernate(which)
        assert s.call("all") == 3
        s.check()


def _has_cxx(s: Session) -> bool:
    try:
        s.load("libstdc++.so.6")
    except Exception:
        return False
    return True


# -- the budget --------------------------------------------------------------------------------


def test_what_was_used_last_stays(either: Callable[..., Session]) -> None:
    s = either()
    for i in range(10):
        s.run(PADDED.format(i, 4000))
    s.run("define i32 @top(i32 %x) {\n  %r = call i32 @p2(i32 %x)\n  ret i32 %r\n}")
    for _ in range(2):
        s.call("p5", 1)
        s.call("top", 1)  # uses p2
    s.budget = 14 << 10
    awake = {n for c in s.cells if c.state is CellState.LIVE for n in c.names}
    assert {"top", "p2", "p5"} <= awake and len(asleep(s)) >= 7
    s.budget = 0
    assert s.call("p0", 1) == 1


def test_code_smaller_than_its_stub_is_left_alone(either: Callable[..., Session]) -> None:
    s = either()
    for i in range(20):
        s.run(constant(f"tiny{i}", i))
    s.run(PADDED.format(1, 4000))
    s.budget = 64
    assert asleep(s) == [s.find("p1")[0].number]
    assert s.call("tiny3") == 3
