"""What a cell of C costs grows in proportion to what it declares.  Nothing here looks at a clock.

Work is counted in lines of Python; `benchmarks.rows.c_growth` has the times, clang's among them.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any
from unittest import mock

import pytest

from benchmarks.rows.c_growth import KINDS, steps_of
from benchmarks.rows.growth import spent
from jitkernel import Session
from jitkernel.compiler import wire
from jitkernel.languages.c.clang import Clang
from tests.busy import within
from tests.seeds import few, sampled
from tests.session.test_growth import lines

N = 30
#: Kinds whose reading is that of another one, apart from a step or two.
LIKE_OTHERS = {
    "macros of the one before", "macros with parameters", "types", "structs", "enums",
    "constants of one enum", "structs with the one before", "elements", "strings", "prototypes",
    "functions", "functions that call the one before", "functions of a macro", "labels",
    "static functions", "variables of a type", "statements of a function", "brackets",
    "empty lines", "calls on one line", "conditions", "computed variables",
    "typedefs that point at the one before", "members of one struct", "else-ifs", "comments",
    "variables of one declaration", "constant variables", "functions of a type", "warnings",
    "static functions that call the one before",
}  # fmt: skip


def work(kind: str, n: int) -> dict[str, int]:
    with Session(spare=False, opt_level=0) as s:
        found = {step: lines(run) for step, run in steps_of(KINDS[kind])(s, n)}
        s.check()
    return found


@pytest.fixture(autouse=True)
def asleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for an answer sleeps: how often it would ask instead is a matter of time."""
    monkeypatch.setattr(wire, "SPIN_ALLOWED", False)


@pytest.mark.parametrize(
    "kind",
    [
        *sampled([k for k in KINDS if k not in LIKE_OTHERS], 2),
        *few([k for k in KINDS if k in LIKE_OTHERS], 0),
    ],
)
def test_work_grows_in_proportion(kind: str) -> None:
    few, many = work(kind, N), work(kind, 4 * N)
    assert few.keys() == many.keys() and few
    grew = {step: round(many[step] / few[step], 2) for step in few if many[step] > 20 * N}
    assert {step: times for step, times in grew.items() if times > 4.8} == {}


def test_a_cell_costs_the_same_whatever_was_declared_before(s: Session) -> None:
    s.run("int f(int x) { return x; }\nint counted;", "c")

    def costs(n: int) -> list[int]:
        """Of cells of three kinds, behind one of each, which see what is new."""
        cells = [[f"int d{n + k}(void) {{ return {k}; }}", "f(1)", f"counted += {k};"]
                 for k in range(2)]  # fmt: skip
        for cell in cells[0]:
            s.run(cell, "c")
        return [lines(partial(s.run, cell, "c")) for cell in cells[1]]

    costs(0)
    few = costs(10)
    s.run("".join(f"int g{i}(int x) {{ return x + {i}; }}\n" for i in range(500)), "c")
    assert all(now < before + 100 for before, now in zip(few, costs(20), strict=True))


def test_a_cell_that_is_run_again_costs_the_same_whatever_was_declared_before(s: Session) -> None:
    def cost(value: int) -> int:
        return lines(partial(s.run, f"int f(void) {{ return {value}; }}", "c", cell_id="again"))

    few = [cost(value) for value in range(4)][-1]
    s.run("".join(f"struct t{i} {{ int a; }};\n" for i in range(500)), "c")
    assert [cost(value) for value in range(4)][-1] < few + 100


@pytest.mark.parametrize("said", ["typedef int t;", "int abs(int);", "#define K 1"])
def test_a_cell_costs_the_same_however_many_say_the_same(s: Session, said: str) -> None:
    def costs(numbers: range) -> int:
        cells = [f"{said}\nint f{n}(void) {{ return {n}; }}" for n in numbers]
        return [lines(partial(s.run, cell, "c", cell_id=cell)) for cell in cells][-1]

    few = costs(range(25))  # more than undo leads back to
    assert costs(range(25, 75)) < few + 100  # as many as it takes to say it again for one


def given(cell: str, before: str) -> tuple[object, list[int]]:
    """A cell's value, and how many characters clang was given each time for it."""
    asked: list[int] = []
    run = Clang._run

    def counted(self: Clang, arguments: Any, source: str, *rest: Any, **named: Any) -> Any:
        asked.append(len(source))
        return run(self, arguments, source, *rest, **named)

    with Session() as s:
        s.run(before, "c")
        with mock.patch.object(Clang, "_run", counted):
            return s.run(cell, "c").value, asked


@pytest.mark.parametrize(
    "kind", ["structs that point at each other", "types that point at each other"]
)
def test_a_type_is_given_without_what_it_points_at(kind: str) -> None:
    few, many = (given("S17 g; g.v = 7; g.v" if "types" in kind else "struct S17 g; g.v = 7; g.v",
                       KINDS[kind].define(n)) for n in (50, 1_200))  # fmt: skip
    assert few[0] == many[0] == 7
    assert len(many[1]) == 1 and many[1][0] < 1.1 * few[1][0]


CHAIN = "".join(f"struct T{i} {{ struct T{i + 1} *next; int v; }};\n" for i in range(8))
FIVE = "struct T0 a; struct T1 b; struct T2 c; struct T3 d; struct T4 e; struct T5 f;\n"
LINKED = f"{CHAIN}{FIVE}a.next = &b; b.next = &c; c.next = &d; d.next = &e; e.next = &f; f.v = 42;"


@pytest.mark.parametrize(
    ("cell", "value", "asked"),
    [
        ("a.v", 0, 1),
        ("a.next->next->v", 0, 1),
        ("a.next->next->next->next->next->v", 42, 3),  # clang says what it misses
        ("#define DEEP(p) (p).next->next->v\nDEEP(b)", 0, 1),
        ("int get(struct T2 *p) { return p->next->next->next->v; }\nget(&c)", 42, 2),
        ("sizeof(*a.next)", 16, 1),
        ("a.next[0].next == &c", 1, 1),
        ("__auto_type p = e.next; p->v", 42, 1),
    ],
)
def test_what_a_member_leads_to_is_there_where_it_is_named(
    cell: str, value: int, asked: int
) -> None:
    found, times = given(cell, LINKED)
    assert found == value
    assert len(times) <= asked + ("int get" in cell)


def test_types_of_both_kinds_lead_to_each_other(s: Session) -> None:
    s.run(
        "typedef struct A { int v; struct B *b; } A;\n"
        "typedef struct B { A *a; A in; int (*op)(struct T *, A *); } B;", "c",
    )  # fmt: skip
    s.run("typedef struct { A *a; B *b; int w; } C; typedef C *PC;", "c")
    s.run("struct D { PC c; B arr[2]; };", "c")
    s.run("struct D d; d.arr[1].in.v = 3; C c = {.w = 5}; d.c = &c;", "c")
    assert s.run("d.arr[1].in.v + d.c->w", "c").value == 8
    s.run("int through(struct D *d) { return d->c->a->v; }", "c")
    s.run("A a = {7}; c.a = &a;", "c")
    assert s.run("through(&d)", "c").value == 7
    s.run("typedef struct A { long before; int v; struct B *b; } A;", "c")
    s.run("a.v = 9; c.a = &a; d.c = &c;", "c")
    assert s.run("through(&d)", "c").value == 9


def test_a_long_chain_of_types_and_of_else_ifs_is_read(s: Session) -> None:
    n = 1_200  # more than Python calls deep
    assert n > sys.getrecursionlimit()
    s.run(
        "typedef int T0;\n" + "".join(f"typedef T{i} T{i + 1};\n" for i in range(n))
        + f"T{n} x = 7;", "c",
    )  # fmt: skip
    assert s.run("x", "c").value == 7
    chain = "".join(f"else if (x == {i}) x = {i + 100};\n" for i in range(n))
    assert s.run(f"if (x < 0) x = 1;\n{chain}x", "c").value == 107


def switch(n: int) -> str:
    cases = "".join(f"case {i}: return {i * 7919 % 1000};\n" for i in range(n))
    return f"int f(int x) {{ switch (x) {{\n{cases}}} return -1; }}"


def test_a_switch_of_many_cases_costs_in_proportion() -> None:
    """LLVM's passes alone look at each pair of cases: four times as many take sixteen times."""

    def took(n: int) -> float:
        with Session(spare=False) as s:
            s.run("int g(void) { return 1; }", "c")
            before = spent(s)
            s.run(switch(n), "c")
            taken = spent(s) - before
            assert [s.call("f", i) for i in (0, 1, n - 1, n, -1)] == [
                0, 919, (n - 1) * 7919 % 1000, -1, -1
            ]  # fmt: skip
            return taken

    within(lambda: took(2_000) / took(500), 9)  # other programs are in the caches too


def test_a_long_chain_of_macros_is_read(s: Session) -> None:
    n = 1_200
    s.run("#define M0 7\n" + "".join(f"#define M{i} M{i - 1}\n" for i in range(1, n)), "c")
    assert s.run(f"M{n - 1}", "c").value == 7
    s.run(
        "#define T0 const\n" + "".join(f"#define T{i} T{i - 1} T{i - 1}\n" for i in range(1, 12)),
        "c",
    )
    s.run("T11 int x = 5;", "c")
    assert s.run("x", "c").value == 5
