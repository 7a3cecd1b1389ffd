"""Debug forms in the place of ordinary code, and back: the same results, the same bytes."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jitkernel import Session
from jitkernel.elf import read_object
from jitkernel.errors import Fault, JitError
from jitkernel.session import CellOptions
from jitkernel.session.debugging.forms import Forms
from jitkernel.session.run.results import Collector

pytest.importorskip("ziglang")
pytestmark = pytest.mark.process

IR = """
$cm = comdat any
@.str = private unnamed_addr constant [4 x i8] c"abc\\00", align 1
@count = internal global i32 5
@vis = global i32 3
@per = thread_local global i32 7
@table = internal global [2 x ptr] [ptr @one, ptr @two]
@labels = constant [2 x ptr] [ptr blockaddress(@jump, %l1), ptr blockaddress(@jump, %l2)]
@same = alias i32 (i32), ptr @f
@seen = alias i32, ptr @vis
@per2 = thread_local alias i32, ptr @per
define i32 @by_alias(i32 %x) {
  %v = load i32, ptr @per2
  %r = add i32 %x, %v
  ret i32 %r
}
@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 65535, ptr @init, ptr null }]
declare ptr @llvm.threadlocal.address.p0(ptr)
define internal void @init() {
  store i32 100, ptr @vis
  ret void
}
define internal i32 @one(i32 %x) {
  %r = add i32 %x, 1
  ret i32 %r
}
define internal i32 @two(i32 %x) {
  %r = mul i32 %x, 3
  ret i32 %r
}
define linkonce_odr i32 @cm(i32 %x) comdat {
  %r = call i32 @one(i32 %x)
  ret i32 %r
}
define internal i32 @hidden(i32 %x, i32 %y) noinline {
  %c = load i32, ptr @count
  %d = add i32 %c, %x
  store i32 %d, ptr @count
  ret i32 %d
}
define i32 @f(i32 %x) {
  %a = call i32 @hidden(i32 %x, i32 9)
  %p = call ptr @llvm.threadlocal.address.p0(ptr @per)
  %t = load i32, ptr %p
  %t1 = add i32 %t, 1
  store i32 %t1, ptr %p
  %s = add i32 %a, %t1
  ret i32 %s
}
define i32 @by_table(i32 %i, i32 %x) {
  %p = getelementptr [2 x ptr], ptr @table, i32 0, i32 %i
  %q = load ptr, ptr %p
  %r = call i32 %q(i32 %x)
  ret i32 %r
}
define ptr @text() {
  ret ptr @.str
}
define ptr @pointer() {
  ret ptr @one
}
define i32 @by_cm(i32 %x) {
  %r = call i32 @cm(i32 %x)
  ret i32 %r
}
define i32 @choose(i32 %x) {
  switch i32 %x, label %d [ i32 0, label %a
    i32 1, label %b
    i32 2, label %c
    i32 3, label %e ]
a: ret i32 5
b: ret i32 17
c: ret i32 99
e: ret i32 2
d: ret i32 0
}
define i32 @jump(i32 %x) {
  %p = getelementptr [2 x ptr], ptr @labels, i32 0, i32 %x
  %q = load ptr, ptr %p
  indirectbr ptr %q, [label %l1, label %l2]
l1: ret i32 1
l2: ret i32 2
}
"""
IR_CALLS = [
    ("f", 2), ("by_table", 0, 5), ("by_table", 1, 5), ("text",), ("pointer",), ("choose", 2),
    ("by_cm", 4), ("jump", 0), ("jump", 1), ("same", 3), ("by_alias", 4),
]  # fmt: skip
C = """#include <string.h>
#include <stdlib.h>
static int count;
_Thread_local int per = 4;
struct pair { int a; double b; } both = { 3, 1.5 };
static int up(int x) { return x + 1; }
static int down(int x) { return x - 1; }
int (*table[2])(int) = { up, down };
static const char *names[] = { "none", "one", "many" };
const char *name(int n) { static int calls; calls++; count += calls; per++; return n > 9 ? "ten" : names[n]; }
int state(void) { return count * 100 + per; }
int by_table(int i, int x) { return table[i](x); }
int choose(int n) {
    switch (n) { case 0: return 9; case 1: return 3; case 2: return 77; case 3: return 5; case 7: return 1; }
    return -1;
}
static int order(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int smallest(int seed) {
    int v[7];
    for (int i = 0; i < 7; i++) v[i] = seed = seed * 1103515245 + 12345;
    qsort(v, 7, sizeof *v, order);
    return v[0];
}
double mix(int x) { struct pair p = both; p.a += x; both.a++; return p.a * p.b; }
int (*pick(int i))(int) { return i ? up : down; }
"""
C_CALLS = [
    ("name", 2), ("name", 12), ("state",), ("by_table", 0, 5), ("by_table", 1, 5), ("choose", 2),
    ("choose", 6), ("smallest", 3), ("mix", 4), ("pick", 1),
]  # fmt: skip
KALEIDOSCOPE = "def fib(n) if n < 3 then 1 else fib(n-1) + fib(n-2)"


def text(s: Session) -> dict[tuple[int, int], str]:
    """The bytes of each extent of code."""
    arena = s._core.engine.arena
    live = arena.zones["text"].list.live
    return {(at, n): hashlib.sha256(arena.read(at, n)).hexdigest() for at, n in live.items()}


@contextmanager
def installed(forms: Forms) -> Iterator[None]:
    """As a call does it."""
    forms.install()
    try:
        yield
    finally:
        forms.restore()


@pytest.fixture
def forms(s: Session) -> Iterator[Forms]:
    made = Forms(s._core)
    yield made
    made.close()


def results(s: Session, calls: list[Any]) -> list[Any]:
    return [str(s.call(name, *arguments)) for name, *arguments in calls]


@pytest.mark.parametrize(
    ("language", "source", "calls"),
    [
        ("llvm", IR, IR_CALLS),
        ("c", C, C_CALLS),
        ("kaleidoscope", KALEIDOSCOPE, [("fib", 12.0)]),
    ],
)
def test_results_and_bytes_are_those_of_ordinary_code(
    s: Session, forms: Forms, language: str, source: str, calls: list[Any]
) -> None:
    s.run(source, language)
    results(s, calls)  # thunks are there from now on
    s.reset()
    s.run(source, language)
    wanted = [results(s, calls) for _ in range(4)]
    s.reset()
    s.run(source, language)
    assert forms.want([s.number]) == {} and forms.left_out == {}
    found = [results(s, calls)]
    before, generation = text(s), s._core.engine.linker.generation
    for _ in range(2):
        with installed(forms):
            assert text(s) != before
            found.append(results(s, calls))
        assert text(s) == before
        s.check()
    assert s._core.engine.linker.generation == generation
    found.append(results(s, calls))
    assert found == wanted


def test_the_code_that_runs_is_the_debug_form(s: Session, forms: Forms) -> None:
    s.run(C, "c")
    forms.want([s.number])
    with installed(forms):
        ((image, code, _),) = forms.objects()
        assert image.text is not None
        at = s.call("by_table", 1, 4), image.text.start
        s._core.engine.arena.write(image.text.start, b"\x0f\x0b" * (image.text.size // 2))  # ud2
        for name, *arguments in C_CALLS[:-1]:
            with pytest.raises(JitError, match="illegal instruction"):
                s.call(name, *arguments)
    assert at[0] == 3
    assert {".debug_info", ".debug_line"} <= {
        read_object(code).section_name(i) for i in range(len(read_object(code).sections))
    }
    assert s.call("by_table", 1, 4) == 3


def test_callers_that_hold_a_body_are_among_the_forms(s: Session, forms: Forms) -> None:
    first = s.number + 1
    s.run("define i32 @inner(i32 %x) {\n  %r = mul i32 %x, 3\n  ret i32 %r\n}")
    s.run("define i32 @middle(i32 %x) {\n  %r = call i32 @inner(i32 %x)\n  ret i32 %r\n}")
    s.run("define i32 @outer(i32 %x) {\n  %r = call i32 @middle(i32 %x)\n  ret i32 %r\n}")
    s.run("define i32 @other(i32 %x) {\n  ret i32 %x\n}")
    assert forms.want([first]) == {}
    with installed(forms):
        assert sorted(i.cell for i, *_ in forms.objects()) == [first, first + 1, first + 2]
        assert s.call("outer", 5) == 15


def test_hibernated_code_comes_back_and_may_leave_again(s: Session, forms: Forms) -> None:
    s.run("define i32 @sq(i32 %x) {\n  %r = mul i32 %x, %x\n  ret i32 %r\n}")
    number = s.number
    s.call("sq", 3)
    s.hibernate(number)
    assert forms.want([number]) == {}
    with installed(forms):
        assert s.call("sq", 3) == 9
    s.hibernate(number)
    with installed(forms):  # it was not asked for again
        assert list(forms.objects()) == []
        assert s.call("sq", 4) == 16
    assert forms.want([number]) == {}
    with installed(forms):
        assert len(list(forms.objects())) == 1


def test_code_that_comes_back_meanwhile_is_not_written_over_a_jump(
    s: Session, forms: Forms
) -> None:
    sleeper, number = s.number + 1, s.number + 2
    s.run("int awake(void) { return 7; }", "c")
    s.run("int first(void) { return awake() + 1; }", "c", options=CellOptions(inline=False))
    s.run("int both(void) { return awake() + first(); }", "c", options=CellOptions(inline=False))
    assert s.call("both") == 15
    s.hibernate(sleeper)
    assert forms.want([number]) == {}
    with installed(forms):
        assert s.call("both") == 15  # `awake` has come before `first` is called
    assert s.call("both") == 15
    s.check()


def test_what_has_no_form_says_why(s: Session, forms: Forms) -> None:
    first = s.number + 1
    s.run(
        "@own = internal thread_local global i32 1\n"
        "declare ptr @llvm.threadlocal.address.p0(ptr)\n"
        "define i32 @get() {\n  %p = call ptr @llvm.threadlocal.address.p0(ptr @own)\n"
        "  %v = load i32, ptr %p\n  ret i32 %v\n}"
    )
    s.run("@x = global i32 1")
    s.run(
        "@set = internal global i32 0\ndefine i32 @once() {\n  %v = load i32, ptr @set\n"
        "  %c = icmp eq i32 %v, 0\n  br i1 %c, label %a, label %b\na:\n  store i32 1, ptr @set\n"
        "  ret i32 0\nb:\n  ret i32 1\n}"
    )
    s.run("@i = internal ifunc i32 (i32), ptr @r\ndeclare i32 @abs(i32)\n"
          "define internal ptr @r() {\n  ret ptr @abs\n}\n"
          "define i32 @distance(i32 %x) {\n  %y = call i32 @i(i32 %x)\n  ret i32 %y\n}")  # fmt: skip
    s.run(
        'declare void @abort()\ndefine void @held(ptr addrspace(1) %o) gc "statepoint-example" {\n'
        "  call void @abort()\n  ret void\n}"
    )
    found = forms.want(range(first, first + 5))
    words = ("thread-local", "no functions", "another form", "ifunc", "a collector follows")
    assert all(word in found[first + at] for at, word in enumerate(words))
    with installed(forms):
        assert list(forms.objects()) == []
    assert s.call("once") == 0 and s.call("once") == 1


def test_nothing_is_done_where_nothing_is_wanted(s: Session, forms: Forms) -> None:
    s.run(KALEIDOSCOPE, "kaleidoscope")
    before = text(s), s._core.engine.linker.generation
    with installed(forms):
        assert (text(s), s._core.engine.linker.generation) == before


def test_a_cell_that_knows_another_type_still_does(s: Session, forms: Forms) -> None:
    s.configure("inlining", False)
    s.run("@v = global i32 5\ndefine i32 @f() {\n  ret i32 1\n}")
    s.run(
        "@v = external global i32\ndeclare i32 @f()\ndefine i32 @load() {\n  %r = load i32, ptr @v\n"
        "  ret i32 %r\n}\ndefine i32 @use() {\n  %r = call i32 @f()\n  ret i32 %r\n}"
    )
    number = s.number
    s.run(
        "@v = global i64 -1\ndefine i64 @f(i64 %x) {\n  ret i64 %x\n}",
        options=CellOptions(retype=True),
    )
    wanted = [attempt(lambda: s.call("load")), attempt(lambda: s.call("use"))]
    assert forms.want([number]) == {}
    before = text(s)
    with installed(forms):
        assert list(forms.objects())
        assert [attempt(lambda: s.call("load")), attempt(lambda: s.call("use"))] == wanted
    assert text(s) == before
    s.check()


def test_what_is_registered_for_the_end_runs_at_the_end(s: Session, forms: Forms) -> None:
    s.run("int seen;", "c")
    s.run(
        "#include <stdlib.h>\nextern int seen;\nstatic void end(void) { seen = 7; }\n"
        "int begin(void) { return atexit(end); }",
        "c",
    )
    assert forms.want([s.number]) == {}
    with installed(forms):
        assert s.call("begin") == 0
    s.evict(s.number)
    assert s["seen"].value == 7


def test_forms_arrive_while_code_runs(s: Session, forms: Forms) -> None:
    """As when somebody steps into a function from a stop."""
    s.run("int step(int x) {\n  static int n = 5;\n  return n++ + x;\n}", "c")
    number = s.number
    s.run(
        "#include <stdio.h>\nint step(int);\n"
        'int go(void) { int r = step(1); puts("now"); fflush(stdout); return r * 100 + step(2); }',
        "c",
    )
    seen: list[Any] = []

    class Late(Collector):
        def output(self, name: str, data: bytes) -> None:
            seen.append(forms.want([number]))
            forms.install()
            seen.append([image.cell for image, *_ in forms.objects()])

    before = text(s)
    assert s.value("@go()", Late()).python == 608
    (reasons, cells), after = seen[:2], text(s)
    assert reasons == {} and cells[0] == number
    assert after.keys() > before.keys()
    forms.restore()
    assert {at: text(s)[at] for at in before} == before
    s.check()
    assert s.call("step", 0) == 7


def test_a_fault_in_a_form_has_a_name_and_a_line(s: Session, forms: Forms) -> None:
    source = "int get(int *p) {\n  int x = 1;\n  return x +\n    *p;\n}"
    s.run(source, "c")
    number = s.number
    forms.want([number])
    s._core.places.lines.debugged = lambda at: (source, 4) if forms.find(at) else None
    with installed(forms), pytest.raises(Fault) as caught:
        s.call("get", 0)
    s._core.places.lines.debugged = lambda at: None
    assert "get+" in caught.value.where and f"cell {number}, line 4: *p;" in caught.value.where
    assert not forms.find(caught.value.pc)


# -- random sessions -------------------------------------------------------------------------------

NAMES = ("a", "b", "c", "d")


def cell(r: random.Random) -> tuple[str, str, str]:
    """Language, source, and the function that a new cell defines."""
    name, other = r.sample(NAMES, 2)
    n = r.randrange(2, 90)
    kind = r.randrange(5)
    if kind == 0:
        return (
            "llvm",
            (
                f"@{name}.n = internal global i64 {n}\ndeclare i64 @{other}(i64)\n"
                f"define i64 @{name}(i64 %x) {{\n  %v = load i64, ptr @{name}.n\n  %w = add i64 %v, %x\n"
                f"  store i64 %w, ptr @{name}.n\n  %c = icmp slt i64 %x, 1\n"
                "  br i1 %c, label %l, label %m\nl:\n  ret i64 %w\n"
                f"m:\n  %y = sub i64 %x, 1\n  %r = call i64 @{other}(i64 %y)\n"
                "  %q = add i64 %r, %w\n  ret i64 %q\n}"
            ),
            name,
        )
    if kind == 1:
        return (
            "c",
            (
                f"long {other}(long);\nstatic long step{n}(long x) {{ return x * {n}; }}\n"
                f"long (*table_{name})(long) = step{n};\n"
                f"long {name}(long x) {{ static long calls = {n}; calls++;\n"
                f"  return x < 1 ? calls : table_{name}(x) + {other}(x - 1); }}"
            ),
            name,
        )
    if kind == 2:
        cases = " ".join(f"case {i}: return {r.randrange(999)};" for i in range(6))
        return "c", f"long {name}(long x) {{ switch (x) {{ {cases} }} return x * {n}; }}", name
    if kind == 3:
        return (
            "llvm",
            f"define i64 @{name}(i64 %x) {{\n  %r = mul i64 %x, {n}\n  ret i64 %r\n}}",
            name,
        )
    return "c", (
        f"int variable_{name} = {n};\nlong {name}(long x) {{ variable_{name} += x;\n"
        f'  return variable_{name} + "text"[x & 3]; }}'
    ), name  # fmt: skip


def attempt(do: Callable[[], Any]) -> str:
    """What came of it."""
    try:
        return str(do())
    except JitError as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def act(r: random.Random, s: Session, path: Path) -> str:
    kind = r.randrange(12)
    language, source, name = cell(r)
    which = r.choice(NAMES)
    if kind < 4:
        return attempt(lambda: s.run(source, language, cell_id=f"n{r.randrange(4)}") and name)
    if kind < 6:
        return attempt(lambda: len(s.undo()))
    if kind == 6:
        return attempt(lambda: len(s.redo()))
    if kind == 7:
        return attempt(lambda: [c.number for c in s.evict(which, force=True)])
    if kind == 8:
        return attempt(lambda: [c.number for c in s.hibernate(which)])
    if kind == 9:
        return attempt(lambda: s.save(path) and "")
    if kind == 10:
        return attempt(lambda: [c.number for c in s.wake(which)])
    return attempt(lambda: s.gc() and "")


def session(seed: int, s: Session, path: Path, forms: Forms | None) -> list[str]:
    """All that came of a random session, in which calls run debug forms, where there are any."""
    r, own = random.Random(seed), random.Random(seed)
    s.reset()
    found: list[str] = []
    for _ in range(14):
        found.append(act(r, s, path))
        name, x = r.choice(NAMES), r.randrange(5)
        before = text(s)
        if forms is None:
            found.append(attempt(lambda name=name, x=x: s.call(name, x)))  # type: ignore[misc]
            continue
        live = [c.number for c in s.cells]
        forms.want([n for n in live if own.random() < 0.7])
        before, states = text(s), [c.state for c in s.cells]
        with installed(forms):
            found.append(attempt(lambda name=name, x=x: s.call(name, x)))  # type: ignore[misc]
        after = text(s)  # with thunks of new types of functions
        if states == [c.state for c in s.cells]:  # no code has come back
            assert after | before == after
        s.check()
    found.append(str(sorted((c.number, c.names) for c in s.cells)))
    return found


def play(seeds: range, make: Callable[..., Session], tmp_path: Path) -> None:
    plain, debugged = make(), make()
    installs = 0
    for seed in seeds:
        wanted = session(seed, plain, tmp_path / "plain", None)
        forms = Forms(debugged._core)
        found = session(seed, debugged, tmp_path / "debugged", forms)
        forms.close()
        assert found == wanted, seed
        installs += 1
    assert installs == len(seeds)


def test_random_sessions(fresh: Callable[..., Session], tmp_path: Path) -> None:
    play(range(3), fresh, tmp_path)


@pytest.mark.slow
def test_more_random_sessions(fresh: Callable[..., Session], tmp_path: Path) -> None:
    play(range(6, 106), fresh, tmp_path)
