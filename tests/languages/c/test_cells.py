"""What a cell of C may hold, and what is said where it may not."""

from __future__ import annotations

import re
import shlex

import pytest

from jitkernel import Session
from jitkernel.compiler import answers, pool
from jitkernel.compiler.worker_process import WorkerProcess
from jitkernel.errors import CompileError, Fault, Interrupted, JitError
from jitkernel.languages.c import clang, reader
from jitkernel.languages.c.module import parse
from jitkernel.languages.llvm.plan import ENTRY, parse_cell
from jitkernel.session import CellOptions
from jitkernel.session.report.undefined import retold
from jitkernel.session.run import results
from jitkernel.session.run.results import Collector
from tests.busy import meanwhile
from tests.languages.c.running import run

pytest.importorskip("ziglang")


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        (["int sq(int x) { return x * x; }\nsq(7)"], "(int) 49"),
        (["int x = 3; x++; x"], "(int) 4"),
        # The C library's headers have bodies of these, for the optimiser alone.
        (["#include <stdlib.h>\n#include <ctype.h>", 'atoi("3") + toupper(98)'], "(int) 69"),
        (["#include <ctype.h>\nint f(int c) { return toupper(c); }", "int n = toupper(97);\nn + f(98)"], "(int) 131"),
        (["#include <math.h>", "double h = hypot(3, 4);", "h"], "(double) 5.0"),
        (["int a[] = {1, 2, 3};", "sizeof a / sizeof *a"], "(unsigned long) 3"),
        (["auto n = 2.5; n"], "(double) 2.5"),
        # What is computed when the cell runs: constants, arrays whose initialisers say their length.
        # What an earlier cell declares may be used above its definition.
        (["union u { int n; }; static union u f(int); extern int v;",
          *["int g(void) { return f(2).n + v; }\nstatic union u f(int n) { return (union u){n}; }\nint v = 3;"] * 2,
          "g()"], "(int) 5"),
        (["int x = 3; int f(int n) { return n + x; }", "const int k = f(1); k", "k"], "(int) 4"),
        (["int x = 3;", "const double part = 1.0 / x;", "int third(void) { return part * 3 == 1; }", "third()"],
         "(int) 1"),
        (["int f(int n) { return n; } static const int k = f(4); int g(void) { return k; } g()"], "(int) 4"),
        (["int f(int n) { return n; }", "const struct { int a, b; } k = {f(7), 1}; k.a"], "(int) 7"),
        (["int x = 3; int a[] = {x, 2}; a"], "(int[2]) {3, 2}"),
        (["int a[ /* of them */ ] = {1, 2};", "sizeof a"], "(unsigned long) 8"),
        (["int x = 3; typedef int A[/* any */];", "int a[/**/] = {x, 2}; A b = {x};", "sizeof a + sizeof b"],
         "(unsigned long) 12"),
        (["int x = 3; int a[] = {x}, b[] = {1, x}, c = x; a[0] + b[1] + c"], "(int) 9"),
        (["int f(int n) { return n; }", "int a[] = {[3] = f(1), f(2)};", "a"], "(int[5]) {0, 0, 0, 1, 2}"),
        (["int f(int n) { return n; }", "int a[][2] = {f(1), f(2), f(3)}; a"], "(int[2][2]) {{1, 2}, {3, 0}}"),
        (["struct p { int x, y; }; struct p mk(int n) { return (struct p){n, -n}; }",
          "const struct p a[] = {mk(1),\n  mk(2)};", "a[1].y + sizeof a"], "(unsigned long) 14"),
        (["int x = 3;", "\n".join(f"int v{i} = x + {i};" for i in range(50)), "v0 + v49"], "(int) 55"),
        (["int x = 3;", "\n".join(f"int v{i}[] = {{x, {i}}};" for i in range(10)), "v0[0] + v9[1]"], "(int) 12"),
        (["typedef int A[]; int q(void) { return 5; }", "A a = {q(), 2};", "int after[8];",
          "A a = {q(), 2, 3, 4, 5, 6, 7, 8}; a[7] + after[0] + after[1]", "sizeof a"], "(unsigned long) 32"),
        (["typedef int A[]; A a = {1, 2, 3};", "sizeof a"], "(unsigned long) 12"),
        (["int x = 3; int y = x + 1; int *p = (int[]){1, 2, 3};", "p[0] * 100 + p[1] * 10 + p[2]"], "(int) 123"),
        (["int q(int x) { return x * x; } const int a = q(3), b[] = {a, q(2)}; b"], "(const int[2]) {9, 4}"),
        (["typedef struct __attribute__((packed)) { char c; int x; } P; P p = {1, 2}; sizeof p + p.x"],
         "(unsigned long) 7"),
        (["enum __attribute__((packed)) { A, B } e = B; sizeof e"], "(unsigned long) 1"),
        # A type's name may come before the type, whose members then have it.
        (["typedef struct node node; struct node { int v; node *next; };", "node n = {3, &n};",
          "n.next->v"], "(int) 3"),
        (["typedef struct node *list;", "struct node { int v; list next; };",
          "struct node a = {1}, b = {2, &a};", "list all(void) { return &b; }", "all()->next->v"], "(int) 1"),
        (["typedef struct s s; typedef void (*f)(s *); struct in { s *owner; f call; }; struct s { struct in in; };",
          "void g(s *x) { x->in.owner = x; } s x = {{0, g}};", "x.in.call(&x); x.in.owner == &x"], "(int) 1"),
        (["typedef struct q q; typedef q *all[3]; struct q { all *a; int n; };", "q x = {0, 4}; all y; x.n"],
         "(int) 4"),
        (["typedef struct w w; struct w { int a; };", "struct w { int a; w *b; };", "w x = {4, &x}; x.b->a"],
         "(int) 4"),
        (["typedef struct e e; struct in { int n; };", "typedef struct in in3[3]; in3 x = {{7}};", "x[0].n"],
         "(int) 7"),
        (["struct s; struct in { struct s *owner; int n; }; struct s { struct in in; };",
          "struct s x = {{&x, 5}};", "x.in.owner->in.n"], "(int) 5"),
        (["typedef struct s s; struct s { int x; }; struct outer { s in; s *other; };", "struct s { long x, y; };",
          "struct outer o = {{1, 2}, &o.in}; o.other->y"], "(long) 2"),
        (["typedef struct s { int x; } t; int f(struct s *p) { return p->x; }", "t x = {3}; int y = f(&x); y"],
         "(int) 3"),
        (["typedef struct s { int x; } t; int f(struct s *p) { return p->x; }", "typedef struct s { long y, x; } t;",
          "t x = {3, 4}; f(&x)"], "(int) 4"),
        (["struct o { struct i { int x; } *p; }; int f(struct i *p) { return p->x; }",
          "struct o { long y; struct i { long y; int x; } *p; };", "struct i x = {3, 4}; f(&x)"], "(int) 4"),
        (["#define N 4\nstruct s { char b[N]; }; int f(struct s *p) { return sizeof *p; }", "#define N 5", "f(0)"],
         "(int) 5"),
        (["enum c { RED, BLUE }; typedef enum c c;", "c x = BLUE; x"], "(c) BLUE"),


        (["int f(int n) { return n; } const int a[sizeof(int) == 4] = {f(3)}; a[0]"], "(int) 3"),
        # Compound literals that are copied, or used while the cell runs.
        (["int f(int n) { return n; } int n = ((int[]){f(1), 2})[0]; n"], "(int) 1"),
        (["int sum(int *p, int n) { return n ? *p + sum(p + 1, n - 1) : 0; }\n"
          "int n = sum((int[]){sum(0, 0), 2, 3}, 3); n"], "(int) 5"),
        (["int f(int n) { return n; } struct p { int x, y; } a[] = {(struct p){f(1), 2}, {.y = *&(int){f(4)}}};",
          "a[0].x * 10 + a[1].y"], "(int) 14"),
        (["int f(int n) { return n; } double d[] = {(double){f(3)}, (int){4}}; d[0] + d[1]"], "(double) 7.0"),
        # Nothing has an address, too.
        (["struct none {} e; int q[0];", "sizeof e + sizeof q + (&e != 0)"], "(unsigned long) 1"),
        (["__auto_type n = 2L; n"], "(long) 2"),
        (["static int f(void) { return 4; }", "f()"], "(int) 4"),
        (["inline int f(void) { return 4; }", "f()"], "(int) 4"),
        (["extern int later; int get(void) { return later; }", "int later = 6;", "get()"], "(int) 6"),
        (["int t; int t; int t = 3;", "t"], "(int) 3"),
        (["int n(void) { static int k; return ++k; }", "n(); n()"], "(int) 2"),
        (["_Thread_local int t = 5;", "t++; t"], "(int) 6"),
        (["static __thread long t[3] = {1, 2, 3};", "t[2]"], "(long) 3"),
        (["int made; __attribute__((constructor)) void c(void) { made = 7; }", "made"], "(int) 7"),
        (["int inc(int x) { __asm__(\"incl %0\" : \"+r\"(x)); return x; }", "inc(4)"], "(int) 5"),
        (["#include <setjmp.h>", "jmp_buf e; void out(void) { longjmp(e, 5); }",
          "int try(void) { int r = setjmp(e); if (!r) out(); return r; }", "try()"], "(int) 5"),
        (["#include <stdarg.h>",
          "int sum(int n, ...) { va_list v; va_start(v, n); int t = 0; while (n--) t += va_arg(v, int);"
          " va_end(v); return t; }", "sum(3, 1, 2, 3)"], "(int) 6"),
        (["#include <pthread.h>", "int seen; void *work(void *p) { seen = 8; return 0; }",
          "pthread_t t; pthread_create(&t, 0, work, 0); pthread_join(t, 0); seen"], "(int) 8"),
        (["#include <errno.h>", "errno = 3; errno"], "(int) 3"),
        (["#define F(n) int f##n(void) { return n; }", "F(1) F(2)", "f1() + f2()"], "(int) 3"),
        (["#if defined(X)\nint no = 1 1;\n#else\nint yes = 2;\n#endif\nyes"], "(int) 2"),
        (["#define X", "#ifdef X\nint k = 4;\n#endif", "k"], "(int) 4"),
        (["int ñ = 3;", "ñ"], "(int) 3"),
        (["typedef struct node { struct node *next; int v; } node; node b = {0, 2}, a = {&b, 1};",
          "a.next->v"], "(int) 2"),
        (["long double l = 1; ll: ;"], ""),
    ],
)  # fmt: skip
def test_a_notebook_gives_its_last_value(s, cells, shown):
    assert run(s, *cells).text == shown


def test_main_is_a_function_like_any_other(s):
    run(s, '#include <stdio.h>\nint main(void) { puts("one"); return 3; }')
    result = run(s, "main()")
    assert (result.text, result.stdout) == ("(int) 3", "one\n")
    run(s, 'int main(int argc, char **argv) { printf("%d\\n", argc); return 0; }')
    assert run(s, "main(2, 0)").stdout == "2\n"


def test_status_lines_are_in_c(s):
    result = run(s, "double half(double x) { return x / 2; }")
    assert ": double half(double x), 9 bytes, compiled" in result.notes[0]
    result = run(s, "double half(double x) { return x * 0.5; }")
    assert any(note.startswith("half moved from cell ") for note in result.notes)


def test_a_fault_tells_the_line_of_c(s):
    run(s, "int crash(int *p) {\n  int a = 1;\n  return *p + a;\n}")
    with pytest.raises(Fault, match=r"at crash.*cell \d+, line 3: return \*p \+ a;"):
        run(s, "crash(0)")
    with pytest.raises(Fault, match=r"cell \d+, line 2: 5 / z"):
        run(s, "int z = 0;\n5 / z")


REFUSED = [
    ("int f( {", "line 1, column 6: unterminated '('"),
    ("int f(void) { return 1;", "unterminated '{'"),
    ("/* comment", "unterminated comment"),
    ('"open', "missing terminating '\"' character"),
    ("#include <nosuch.h>", "line 1, column 10: 'nosuch.h' file not found"),
    ("#if 1\nint x;", "unterminated conditional directive"),
    ("#endif", "#endif without #if"),
    ("#define", "macro name missing"),
    ("int a\0b;", "NUL"),
    ('char *a;\nchar *b = "\ud800";', "line 2, column 12: character U+D800"),
    ("return 5;", "no function stands around"),
    ("nosuch v;", "unknown type name 'nosuch'"),
    ("x = 5;", "undeclared identifier 'x'"),
    ("nosuch(3)", "call to undeclared function 'nosuch'"),
    ("}", "line 1, column 1: unexpected '}'"),
    (")", "unexpected ')'"),
    ("1 +", "line 1, column 4: expected expression"),
    ("1 2", "line 1, column 2: expected ';'"),
    ("#define A A A\nA", "undeclared identifier 'A'"),
    ("int i; i i", "line 1, column 9: expected ';'"),
    ("{1, 2}", "expected ';'"),
    ("int x; float x;", "redefinition of 'x'"),
    ("f(\n\n  1 + ;", "line 1, column 2: unterminated '('"),
    ("#include", "expected"),
    ("'", "missing terminating ' character"),
    ("é é é", "line 1"),
]


@pytest.mark.parametrize(("source", "words"), REFUSED, ids=[repr(s)[:30] for s, _ in REFUSED])
def test_a_mistake_is_told_and_the_next_cell_works(s, source, words):
    with pytest.raises(CompileError) as caught:
        run(s, source)
    assert words in str(caught.value)
    assert str(caught.value).count("line ") <= 8
    assert run(s, "1 + 1").text == "(int) 2"


@pytest.mark.parametrize(
    "source", ["a" * 5000, "(" * 3000, "{" * 3000, "int " * 3000, "\\\n" * 500]
)
def test_long_nonsense_ends(s, source):
    try:
        run(s, source)
    except JitError as error:
        assert len(str(error)) < 20_000
    assert run(s, "1 + 1").text == "(int) 2"


@pytest.mark.parametrize(
    "cell", ["struct none *p; *p", "struct none x; x", "enum none x; x", "int f(int n) { return n; } f(", "3 + ) 4"]
)  # fmt: skip
def test_nothing_of_ours_is_told_and_nothing_twice(s, cell):
    with pytest.raises(CompileError) as caught:
        run(s, cell)
    told = str(caught.value)
    assert "__jk" not in told and "typeof" not in told
    messages = [d.message for d in caught.value.diagnostics]
    assert len(set(messages)) == len(messages)


def test_at_most_three_mistakes_are_told(s):
    with pytest.raises(CompileError) as caught:
        run(s, "\n".join(f"nosuch{i} v{i};" for i in range(10)))
    assert "and 7 more" in str(caught.value)


def test_warnings_are_told(s):
    result = run(s, "int f(int x) { return x == 1 == 2; }\n1 / 0;")
    assert any("division by zero" in note for note in result.notes)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("add(2147483647)", "an addition of signed integers overflowed"),
        ("at(5)", "an index is out of the array's bounds"),
        ("shift(1, 40)", "a shift by a negative count"),
        ("quotient(1, 0)", "a division by zero"),
        ("product(1 << 30, 4)", "a multiplication of signed integers overflowed"),
    ],
)
def test_undefined_behaviour_is_named_at_its_line(s, call, words):
    options = CellOptions(sanitize=True)
    s.run(
        "int add(int x) {\n  return x + 1;\n}\nint a[3]; int at(int i) { return a[i]; }\n"
        "int shift(int x, int n) { return x << n; }\nint quotient(int a, int b) { return a / b; }\n"
        "int product(int a, int b) { return a * b; }",
        "c",
        options=options,
    )
    with pytest.raises(Fault, match=rf"undefined behaviour: {words}[^\n]*\nat \w+\+\d+, .*line \d"):
        s.run(call, "c", options=options)
    assert run(s, "add(1)").text == "(int) 2"


def test_bad_assembly_is_told_at_its_line(s):
    with pytest.raises(CompileError, match="line 3: inline asm: invalid instruction") as caught:
        run(s, '\nint g(void) {\n  __asm__("garbage here");\n  return 1;\n}')
    assert "call void asm" not in str(caught.value)
    assert run(s, "1 + 1").text == "(int) 2"


def test_a_file_of_definitions_is_a_unit_of_its_own(s, tmp_path):
    (tmp_path / "lib.h").write_text("typedef struct lib { int n; } lib;\nint lib_get(lib *l);\n")
    (tmp_path / "lib.c").write_text(
        '#include "lib.h"\n#if 1\nstatic int twice(int x) { return 2 * x; }\n#endif\n'
        "int lib_get(lib *l) { return twice(l->n); }\nint lib_count = 3;\n"
    )
    (tmp_path / "other.c").write_text(
        "static int twice(int x) { return 20 * x; }\nint other(int x) { return twice(x); }\n"
    )
    s.configure("clang_flags", f"-I '{tmp_path}'")
    told = run(s, '#include "lib.c"').notes[0]
    assert "the functions and variables of lib.c, but not its types and macros" in str(told)
    assert shlex.quote(f"{tmp_path}/lib.c") in str(told)
    run(s, '#include "other.c"')
    assert not [n for n in run(s, '#include "lib.h"').notes if "later cells" in str(n)]
    assert run(s, "lib l = {4}; lib_get(&l) + lib_count + other(1)").text == "(int) 31"
    with pytest.raises(CompileError, match="twice"):
        run(s, "twice(1)")
    s.configure("clang_flags", "")


BOMB = "\n".join(
    ["#define B0 1+", *(f"#define B{i} " + f"B{i - 1} " * 8 for i in range(1, 9)), "int x = B8 1;"]
)


def test_clang_is_ended_by_an_interrupt(s):
    run(s, "int a = 1;")
    with meanwhile(s.interrupt, 0.5), pytest.raises(Interrupted):
        run(s, BOMB)
    assert run(s, "a").text == "(int) 1"


def test_clang_is_ended_when_it_takes_too_long(s):
    s.configure("timeout", 1)
    try:
        with pytest.raises(CompileError, match="clang needs more than 1 s"):
            run(s, BOMB)
    finally:
        s.configure("timeout", 60)
    assert run(s, "1 + 1").text == "(int) 2"


def test_lines_may_end_as_on_other_systems(s):
    assert (
        s.run("#define A(x) ((x) + \\\r\n 1)\r\nint crlf = 2;\r\nA(crlf)\r\n", "c").text
        == "(int) 3"
    )
    with pytest.raises(CompileError, match="line 2, column 9: use of undeclared identifier 'q'"):
        s.run("int f(void) {\r\n return q;\r\n}\r\n", "c")


def test_names_in_any_alphabet_are_shown_as_written(s):
    s.run("struct größe { int ü; };\nstruct größe w = {7};\nint é(void) { return w.ü; }", "c")
    assert s.run("w", "c").text == "(struct größe) {.ü = 7}"
    assert s.run("é", "c").text == "int é(void)"
    assert s.run("&w", "c").text == "(struct größe *) &w"


def _rounded_once() -> bool:
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        return " fma " in file.read()


@pytest.mark.skipif(not _rounded_once(), reason="this processor has no fused multiply-add")
def test_whether_a_product_is_rounded_before_it_is_added_is_the_programs_choice(s):
    body = "double %s(double a, double c) {%s return a * a + c; }"
    off = "\n#pragma STDC FP_CONTRACT OFF\n"
    x = 1 + 2.0**-30
    exact, rounded = 2.0**-29 + 2.0**-60, x * x - 1

    run(s, body % ("one", ""), body % ("two", off), body % ("three", ""))
    assert [s.call(f, x, -1.0) for f in ("one", "two", "three")] == [exact, rounded, exact]
    run(s, off, body % ("four", ""))
    run(s, body % ("five", ""))  # as in a file: what follows
    assert [s.call(f, x, -1.0) for f in ("one", "four", "five")] == [exact, rounded, rounded]
    s.undo(3)
    run(s, body % ("six", ""))
    assert s.call("six", x, -1.0) == exact
    s.configure("clang_flags", "-ffp-contract=off")
    run(s, body % ("seven", ""))
    assert s.call("seven", x, -1.0) == rounded
    s.configure("clang_flags", "")


def test_compilers_that_warn_of_much_warn_of_nothing_here():
    cells = [
        "int b = 3; int g(void) { return b; }", "b", "b == 3", "struct p { int x; } q = {1}; q",
        "static const int k = 3;", "static int h(void) { return 1; }", '"abc"', "b = 4", "(void)0",
        "double d = g(); d", "int a[] = {g(), 2}; a", "enum e { A, B } v = B; v",
    ]  # fmt: skip
    with Session(capacity=64 << 20, clang_flags="-Wall -Wextra -Wpedantic") as s:
        notes = [str(note) for cell in cells for note in s.run(cell, "c").notes]
    assert not [note for note in notes if "warning" in note]


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        (
            "int f(void) {\n  int b;\n  int *p = &b;\n  return *p;\n}",
            "f may return anything: it reads memory that nothing was stored into, and the optimiser",
        ),
        (
            "int f(int x) {\n  int z = 0;\n  return x / z;\n}",
            "f may return anything: division by z",
        ),
        (
            "int f(int x) {\n  int n = 40;\n  return x << n;\n}",
            "a shift of 32 bits by 40 is undefin",
        ),
        (
            "void f(void) {\n  int *p, **q = &p;\n  **q = 3;\n}",
            "f may do anything: a write through a pointer that was never set is undefined",
        ),
    ],
)
def test_what_the_optimiser_leaves_out_is_told_in_words_of_c(s, cell, told):
    said = "\n".join(run(s, cell).notes)
    assert told in said and said.count("warning") == 1
    assert not re.search(r"@|%|undef\b|poison|LLVM|i32|__jk|-O2|define ", said)


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        (
            "int f(void) {\n  int x;\n  return x + 1;\n}",
            "line 3, column 10: variable 'x' is uninit",
        ),
        ("int f(int n) {\n  int r;\n  if (n) r = 1;\n  return r;\n}", "line 3, column 7: variable"),
        ("int f(int n) {\n  return n * f(n - 1);\n}", "line 1, column 14: all paths through"),
        ("int f(int n) {\n  if (n) return 1;\n}", "line 3, column 1: non-void function does not"),
        (
            "int f(void) {\n  int a[3];\n  a[5] = 3;\n  return a[0];\n}",
            "line 3, column 3: array ind",
        ),
        (
            "int f(void) {\n  int *p;\n  *p = 3;\n  return 1;\n}",
            "line 3, column 4: variable 'p' is",
        ),
        ("int f(int n) {\n  return n % 0;\n}", "line 2, column 12: remainder by zero"),
        (
            "int f(int n) {\n  if (n)\n    n++;\n    n--;\n  return n;\n}",
            "line 4, column 5: mislead",
        ),
    ],
)
def test_where_clang_says_what_is_undefined_nothing_else_is_said(s, cell, told):
    (said,) = [note for note in run(s, cell).notes if "warning" in note]
    assert said.startswith(f"warning: {told}")


def test_what_runs_once_has_no_name_in_what_is_told():
    words = "is left without a return: a loop that never ends and does nothing is undefined (must"
    told = retold(f"@__jk_run0 {words}progress), and loop-deletion (-O2) removed the rest")
    assert told == (
        "this may do anything: a loop that never ends and does nothing is undefined, "
        "and the optimiser removed the rest"
    )


def test_a_warning_can_be_switched_off(s):
    s.configure("clang_flags", "-Wno-uninitialized")
    notes = run(s, "int f(void) {\n  int x;\n  return x + 1;\n}").notes
    s.configure("clang_flags", "")
    assert "f may return anything" in "\n".join(notes)


@pytest.mark.parametrize(
    ("cell", "value", "expected"),
    [
        ("int *p = (int[]){f(1), 2};", "p[0] + p[1]", 3),
        ("auto p = (int[]){f(1), 2};", "p[0] + p[1]", 3),
        ("struct s { int x, y; } *p = &(struct s){f(1), 2};", "p->x + p->y", 3),
        ("struct { int n; int *at; } p = {.n = 2, .at = (int[]){f(1), 2}};", "p.at[0]", 1),
        (
            "struct s { int x; struct s *next; } p = {f(1), &(struct s){2, &(struct s){3, 0}}};",
            "p.x + p.next->x + p.next->next->x", 6,
        ),
        ("int (*p)[2] = &(int[2]){f(1), 2};", "(*p)[0] + (*p)[1]", 3),
        ("int *p; p = (int[]){f(1), 2};", "p[0] + p[1]", 3),
        ("struct s { int x, y; } *p; p = &(struct s){f(1), 2};", "p->x + p->y", 3),
        ("struct s { long x[9]; } *p; if (f(1)) p = &(struct s){.x[8] = f(1)};", "p->x[8]", 1),
        ("int *p; void keep(int *q) { p = q; } keep((int[]){f(1), 2});", "p[0] + p[1]", 3),
        ("int *p; for (int i = 0; i < 3; i++) p = &(int){f(i)};", "*p", 2),
        ("int *p; p = (int[]){f(1), 2} + 1;", "*p", 2),
        ("long p; p = (long)(int[]){f(1), 2};", "*(int *)p", 1),
        ("char *p; p = f(0) ? 0 : (char[]){'a', f('b'), 0};", "p[1] - 'a'", 1),
        ("_Complex double *p; p = &(_Complex double){f(1), 2};", "(int)__real__ *p", 1),
    ],
)  # fmt: skip
def test_literals_outside_of_functions_stay(shared, cell, value, expected):
    shared.reset()
    run(shared, "int f(int n) { return n; }")
    run(shared, cell)
    run(shared, "int *stir(int n) { volatile int a[500]; while (n) a[--n] = -7; return 0; }")
    run(shared, "stir(500);")
    shared.check()
    assert run(shared, value).value == expected


_MODULE = """
#include <stdlib.h>
struct pair { int first; double second; } both;
static int seen; extern int elsewhere; _Thread_local int own; int list[3] = {1, 2};
static int twice(int x) { static int last; return last = 2 * x + seen++; }
int used(struct pair *p) { return twice(p->first) + elsewhere + atoi("1") + abs(own); }
int weak(void) __attribute__((weak)); int weak(void) { return puts == 0; }
int same(struct pair *) __attribute__((alias("used")));
__attribute__((constructor)) static void begin(void) { list[0] = 2; }
void __jk_run0(void) { static void *t[] = {&&a}; goto *t[0]; a: both.first = used(&both); }
"""


def test_the_plan_of_clangs_module_is_what_reading_its_text_gives():
    module = parse(clang.find_clang().compile(f"int puts(const char *);{_MODULE}").text)
    module.keep_lines("__jk_", "-")
    own = [name for name, e in module.entities.items() if not (e.local or e.is_declaration)]
    for made in (
        module.plan(["used"]), module.plan([*own, "llvm.global_ctors"], ['module asm ".text"']),
        module.plan(["__jk_run0"], entry="__jk_run0"), module.plan([], declared=["used", "both"]),
    ):  # fmt: skip
        found = parse_cell(made.source)
        assert made.entities[0].text == made.source
        for what in ("defines", "declares", "uses", "local_names", "types"):
            assert getattr(made, what) == getattr(found, what), what
    assert ENTRY in module.plan(["__jk_run0"], entry="__jk_run0").defines


def test_notes_are_made_once_and_while_llvm_works(s, monkeypatch):
    order: list[str] = []

    def noted(where, name, event):
        before = getattr(where, name)

        def call(*given, **named):
            order.append(event)
            return before(*given, **named)

        monkeypatch.setattr(where, name, call)

    run(s, "int first(int x) { return x; }")
    noted(reader, "learned", "learned")
    noted(WorkerProcess, "send", "sent")
    noted(WorkerProcess, "receive", "received")
    run(s, "int second(int x) { return first(x); }")
    assert order == ["sent", "learned", "received"]
    assert run(s, "second(3)").value == 3


@pytest.mark.parametrize(
    ("use", "stays"),
    [
        ("store i32 1, ptr %at", False),
        ("%2 = load i32, ptr %at", False),
        ("call void @llvm.memcpy.p0.p0.i64(ptr %1, ptr %.compoundliteral, i64 8, i1 false)", False),
        ("store ptr %at, ptr @p", True),
        ("store volatile ptr %.compoundliteral, ptr @p", True),
        ("call void @g(ptr noundef %at)", True),
        ("%2 = ptrtoint ptr %at to i64", True),
        ("%2 = select i1 %1, ptr %at, ptr null", True),
    ],
)
def test_literals_whose_addresses_nobody_has_are_on_the_stack(use, stays):
    lines = ["%.compoundliteral = alloca [2 x i32], align 4",
             "%at = getelementptr inbounds i32, ptr %.compoundliteral, i64 1", use, "ret void"]  # fmt: skip
    module = parse("define void @__jk_run0() {\n" + "".join(f"  {x}\n" for x in lines) + "}\n")
    module.keep_literals("__jk_")
    text = module.plan(["__jk_run0"]).source
    assert ("@__jk_run0..compoundliteral = internal global [2 x i32] zero" in text) is stays
    assert (" = alloca" in text) is not stays


def test_the_c_library_knows_the_program_by_its_name(s):
    run(s, "extern char *program_invocation_name, *program_invocation_short_name;")
    for name in ("program_invocation_name", "program_invocation_short_name"):
        assert run(s, name).text == '(char *) "jitkernel"'
    run(s, "#include <assert.h>\nint f(int n) { assert(n > 0); return n; }")
    run(s, "#include <stdio.h>\n#include <unistd.h>\nint ends[2]; pipe(ends); dup2(ends[1], 2);")
    with pytest.raises(Fault):
        run(s, "f(0)")
    run(s, "char told[200]; read(ends[0], told, 199);")
    said = r"jitkernel: cell \d+:2: int f\(int\): Assertion `n > 0' failed\."
    assert re.search(said, run(s, "told").text)


def test_digraphs(s):
    cell = "%:define TEXT(x) %:x\n%:define ONE(a) a%:%:1\nint ONE(t)<:3:> = <%1, 2, 3%>;\nt1<:1:>"
    assert s.run(cell, "c").text == "(int) 2"
    cell = "int f(void)\n<%\n  int i = t1<:0:>;\n  if (i) <% return t1<:2:>; %>\n  return 0;\n%>"
    assert s.run(cell, "c").text == ""
    assert s.run("f()", "c").text == "(int) 3"
    assert s.run('TEXT(a) "<:%:" /* <% */', "c").text == '(char[6]) "a<:%:"'
    with pytest.raises(CompileError, match="line 2, column 18: use of undeclared identifier 'q'"):
        s.run("int g(void) <%\n  int k<:2:> = <%q%>; %>", "c")


def test_macros_of_attributes_in_front_of_a_declaration(s):
    run(s, "#define ALIGNED(n) __attribute__((aligned(n)))\nenum {SIZE = 64};\ntypedef long L;")
    run(s, "ALIGNED(SIZE) char store[64];\nint f(void) { return 1; }")
    assert run(s, "(long)store % 64 + f()").text == "(long) 1"
    run(s, "ALIGNED(8) struct s { char c; } w;")
    assert run(s, "sizeof(struct s)").value == 1
    assert run(s, "ALIGNED(32) L g(L x) { return x; }", "g(3)").text == "(L) 3"
    run(s, "int old(a, b) int a; L b; { return a + b; }")
    assert run(s, "old(1, 2l)").text == "(int) 3"


@pytest.mark.parametrize(
    "cell",
    [
        "double k = 3; call F = {f, &k}; int p, x; F.fn(2, F.p)",
        "call F = {f, 0}; int x; struct call *p; F.fn(2, F.p)",
        "double (*g)(double, void *) = f; int x(int p) { return p; } int p = x(1); g(2, 0)",
        "typedef int size; call F = {f, 0}; size p, x; F.fn(2, 0)",
        "double g(call *c, void *p) { return f(2, p); } int p, x; call F; g(&F, 0)",
    ],
)
def test_variables_may_be_called_as_parameters_and_members_of_what_stands_before(s, cell):
    """Run again, the variables are known when what has such parameters is declared."""
    run(s, "typedef struct call { double (*fn)(double x, void *p); void *p; } call;")
    run(s, "double f(double x, void *p) { return x + !p; }")
    first = run(s, cell).value
    assert run(s, cell).value == first
    assert run(s, "double f(double x, void *p) { return 7; }").cell is not None
    assert run(s, cell).value == 7


def test_what_needs_a_type_of_the_cell_stays_behind_it(s):
    run(s, "typedef int unit; unit scale(unit by) { return by * 2; }")
    run(s, "int use(int scale) { return scale; } typedef int unit; int v = scale(4); v")
    text = "int use(int scale) { return scale; } typedef long unit; use(3)"
    assert run(s, text).value == 3
    assert run(s, "sizeof scale(1)").value == 8


@pytest.mark.parametrize("before", ["", "int known;\n", "int f(int n);\n"])
def test_what_the_assembler_refuses_is_told_at_lines_of_c(s, before):
    run(s, "int f(int n) { return n; }\nint known;")
    line = 1 + before.count("\n")
    with pytest.raises(
        CompileError, match=rf"line {line}: inline asm: .*'bogus'\n  __asm__ volatile"
    ):
        run(s, before + '__asm__ volatile("bogus");')


class _Told(Collector):
    def __init__(self):
        super().__init__()
        self.words = []

    def progress(self, text):
        self.words.append(text)


def test_a_long_compile_tells_of_its_progress(s, monkeypatch):
    functions = "".join(f"int f{i}(int x) {{ return x * {i} + f(x); }}\n" for i in range(600))
    quiet, told = _Told(), _Told()
    monkeypatch.setattr(results, "_AT_FIRST", 1e9)
    s.run("int f(int x);\n" + functions.replace("f(x)", "x"), "c", sink=quiet)
    assert not quiet.words
    monkeypatch.setattr(results, "_AT_FIRST", 0)
    monkeypatch.setattr(results, "_EVERY", 0)
    monkeypatch.setattr(clang, "_SLICE", 0.001)
    monkeypatch.setattr(pool, "_LARGE", 0)
    monkeypatch.setattr(answers, "_TICK", 0.001)
    s.run(functions.replace("f(x)", "1"), "c", sink=told)
    *words, last = told.words
    for part in ("clang", "LLVM"):
        assert [w for w in words if re.fullmatch(rf"compiling, \d+ s: {part}", w)]
    assert re.fullmatch(r"compiling took \d+\.\d s", last)
    refused = _Told()
    with pytest.raises(CompileError):
        s.run(functions.replace("f(x)", "1") + "int last(void) { return y; }", "c", sink=refused)
    assert refused.words[-1].startswith("compiling took")


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        ("int r = setjmp(env);", True),
        ("n++; setjmp(env)", True),
        ("if (!setjmp(env)) longjmp(env, 1);", False),
        ("int set(void) { return setjmp(env); }", False),
    ],
)
def test_where_longjmp_could_not_come_back_to(s, cell, told):
    run(s, "#include <setjmp.h>\njmp_buf env; int n;")
    assert any("ends with this cell" in note for note in run(s, cell).notes) == told
