"""Macros that declare, open or list something, and macros that a cell takes back."""

from __future__ import annotations

import pytest

from jitkernel.errors import CompileError, Fault
from jitkernel.languages.c import expansion, pieces, reader
from jitkernel.languages.c.tokens import tokens
from tests.languages.c.running import run

pytest.importorskip("ziglang")


PAIR = "#define PAIR(T) typedef struct { T a, b; } pair_##T;"
OPERATION = "#define OP(name, op) static inline int name(int a, int b) { return a op b; }"
COLORS = "#define COLORS X(RED) X(GREEN)"
COLOR = "#define X(c) c,\nenum color { COLORS };\n#undef X"
NAMES = "#define X(c) #c,\nconst char *names[] = { COLORS };\n#undef X"


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        # Types, functions and variables, in later cells too; what comes after is as ever.
        ([PAIR + "\nPAIR(int)\nPAIR(double)\npair_int p = {1, 2};", "pair_double q = {2.5}; int x = 3;", "q.a + p.b + x"],
         "(double) 7.5"),
        ([PAIR.removesuffix(";"), "PAIR(int);", "pair_int p = {4};", "p.a"], "(int) 4"),
        ([OPERATION + "\nOP(plus, +) OP(minus, -)", "int x = plus(4, minus(3, 1)); x", "x"], "(int) 6"),
        (["#define FN(name) int name(int x)\nFN(twice) { return 2 * x; }", "twice(4)"], "(int) 8"),
        (["#define TEST(n) static int test_##n(void)", "TEST(a) {\n  return 5;\n}", "test_a()"], "(int) 5"),
        (["#define CAT(a, b) a##b\n#define V(n) CAT(v, n)", "int V(1) = 3, V(2) = 4;", "V(1) * 10 + v2"], "(int) 34"),
        (["#define VAR(n) int n", "VAR(x) = 3;", "VAR(y); x + y"], "(int) 3"),
        (["#define LIST(n, t) struct n { struct t *first; }", "LIST(items, item);", "struct items i; i.first == 0"],
         "(int) 1"),
        (["#include <sys/queue.h>", "struct e { int v; SLIST_ENTRY(e) next; }; SLIST_HEAD(all, e) h = {0};",
          "struct e one = {7}; SLIST_INSERT_HEAD(&h, &one, next);", "struct e *x; int n; SLIST_FOREACH(x, &h, next) n += x->v;",
          "struct all g = h; SLIST_FIRST(&g)->v + n"], "(int) 14"),
        (["#define BEGIN {\n#define END }", "int f(int x) BEGIN return x + 1; END", "f(1)"], "(int) 2"),
        (["#define private static\n#define INLINE static inline",
          "private int f(void) { return 4; }\nINLINE int g(void) { return 5; }", "f() + g()"], "(int) 9"),
        # Statements.
        (["#define each(i, n) for (int i = 0; i < (n); i++)", "int n; each(i, 3) { n += i; }\neach(j, 2) n++; n"],
         "(int) 5"),
        (["#define CHECK(c) if (!(c)) bad++;", "int bad; CHECK(1 == 1)\nCHECK(1 == 2)\nbad"], "(int) 1"),
        # What an enum lists.
        (["#define ALL A, B, C", "enum e { ALL, D };", "D * 10 + B"], "(int) 31"),
        ([COLORS, COLOR, "(enum color) GREEN"], "(enum color) GREEN"),
        ([COLORS, COLOR, NAMES, "names[GREEN]"], '(const char *) "GREEN"'),
        (["\n".join((COLORS, COLOR, NAMES)), "names[RED]"], '(const char *) "RED"'),
        (["#define F(t, n) t n;\nstruct r { F(int, x) F(double, y) };\n#undef F", "struct r r = {1, 2.5}; r.y"],
         "(double) 2.5"),
        # What was there where a definition stood is what it means, also when it is compiled again.
        (["struct s { int x; };\n#define V 1\nint f(struct s *p) { return V; }\n#undef V\n#define V 2\n"
          "int g(struct s *p) {\n  return V;\n}\n#undef V", "struct s { int x, y; };", "f(0) * 10 + g(0)"], "(int) 12"),
        (["#define N 10\nint a[N];\nstruct s { char b[N]; };\n#undef N\n#define N 20\nint b[N];",
          "sizeof(struct s) + sizeof a / 4 + sizeof b / 4"], "(unsigned long) 40"),
        # So does what has a macro that a later cell takes back; a new one is followed.
        (["#define X 4\nint f(void) { return X; }", "#undef X", "int X = f(); X"], "(int) 4"),
        (["#define N 4\n#define M (N + 1)\nstruct s { char b[M]; };\nint f(struct s *p) { return N; }",
          "#undef N\nstruct s a;", "struct s b; int g(void) { return sizeof(struct s); }", "sizeof a + sizeof b + g()"],
         "(unsigned long) 15"),
        (["#define N 4\nstruct s { char b[N]; };\nint f(struct s *p) { return N; }", "#undef N",
          "struct s { char b, c; };", "f(0)"], "(int) 4"),
        (["#define N 4\nstruct s { char b[N]; };\nint f(struct s *p) { return N; }", "#undef N", "#define N 5",
          "f(0) + sizeof(struct s)"], "(unsigned long) 10"),
        ([COLORS, "#define X(c) c,\nenum color { COLORS };", "#undef X", NAMES, "names[GREEN]"],
         '(const char *) "GREEN"'),
        # All others are followed.
        (["#define N 2\nstruct s { char b[N]; };\n#define TWICE(x) ((x) * N)\nint f(int x) { return TWICE(x); }",
          "#define N 3", "f(10) + sizeof(struct s)"], "(unsigned long) 33"),
    ],
)  # fmt: skip
def test_macros_are_expanded_where_it_matters(s, cells, shown):
    assert run(s, *cells).text == shown


@pytest.mark.parametrize(
    ("cell", "line", "column"),
    [
        ("GETTER(int) int a = 1; int b = zork;", 1, 32),
        ("GETTER(int) GETTER(long) int b = zork;", 1, 34),
        ("GETTER(int\n) int b = zork;", 2, 11),
        ("GETTER(int)\nint b = zork;", 2, 9),
        ("GETTER(zork)", 1, 1),
        ("int f(void) { return ONE + zork; }\n#undef ONE", 1, 28),
        ("int f(void) {\n  return ONE +\n    zork; }\n#undef ONE", 3, 5),
    ],
)
def test_mistakes_are_told_where_they_stand(s, cell, line, column):
    run(s, "#define GETTER(T) T get_##T(void) { return (T)7; }\n#define ONE (1 + 0)")
    with pytest.raises(CompileError) as caught:
        run(s, cell)
    told = caught.value.diagnostics[0]
    assert (told.line, told.column) == (line, column)
    assert "zork" in str(caught.value)
    assert run(s, "ONE").text == "(int) 1"


def test_lines_of_code_stay(s):
    run(s, "#define TEST(n) static int test_##n(int *p)")
    run(s, "TEST(a) {\n  int x = 1;\n  return *p + x;\n}")
    with pytest.raises(Fault, match=r"line 3: return \*p \+ x;"):
        run(s, "test_a(0)")


def test_a_macro_that_was_taken_back_is_unknown(s):
    run(s, "#define N 4\nint f(void) { return N; }", "#undef N")
    with pytest.raises(CompileError, match="undeclared identifier 'N'"):
        run(s, "N")
    s.undo()
    assert run(s, "N + f()").text == "(int) 8"


def test_a_cell_is_read_into_tokens_once(s, monkeypatch):
    read = []
    for where in (expansion, pieces, reader):
        monkeypatch.setattr(where, "tokens", lambda text: read.append(text) or tokens(text))
    plain, by_macro = "int twice(int x) { return 2 * x; }", "HEAD(thrice) { return 3 * x; }"
    run(s, plain, "#define HEAD(n) int n(int x)", by_macro)
    assert [text for text in read if "return" in text] == [
        plain, by_macro, "int thrice(int x) { return 3 * x; }"
    ]  # fmt: skip


STACK = "#define DEFINE_STACK(T) int size_##T(void) { return %s; } enum { MAX_##T = %s };"


def test_what_a_macro_of_before_made_is_told_when_it_changes(s):
    run(s, STACK % ("sizeof(T)", 10))
    first = run(
        s, "DEFINE_STACK(char)\nDEFINE_STACK(short)\nint other(void) { return 1; }"
    ).cell.number
    assert not told(s, STACK % ("sizeof(T)", 10))  # the same again
    assert told(s, STACK % ("8 * sizeof(T)", 20)) == [
        f"note: size_char, MAX_char, size_short and 1 more (cell {first}) still are what the "
        "DEFINE_STACK of before made; run that line again for the new one"
    ]
    assert run(s, "size_char()").value == 1
    assert not told(s, "DEFINE_STACK(char)")
    assert run(s, "size_char() + MAX_char").value == 28
    again = told(s, STACK % ("16 * sizeof(T)", 20))
    assert [note.split(" still ")[0] for note in again] == [
        f"note: size_short, MAX_short (cell {first})",
        f"note: size_char, MAX_char (cell {first + 4})",
    ]  # fmt: skip
    s.undo()
    s.check()


def test_macros_within_macros_are_told_of_too(s):
    run(s, "#define ONE A, B,\n#define ALL ONE C")
    cell = run(s, "enum e { ALL };").cell.number
    notes = told(s, "#define ONE A,")
    assert len(notes) == 1
    assert notes[0].startswith(f"note: e (cell {cell}) still is what the ONE of before made")
    assert run(s, "C").value == 2


def told(s, cell):
    return [str(note) for note in s.run(cell, "c").notes if " of before made" in str(note)]
