"""What compiled code was built from is changed elsewhere, in any language, and the code follows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jitkernel import Session, views
from jitkernel.errors import CompileError, EvictError
from tests.languages.c.running import run
from tests.seeds import few, sampled

pytest.importorskip("ziglang")
IR = "define i32 @a(i32 %x) {\n  ret i32 1000\n}"


@pytest.mark.parametrize("words", sampled(["", "static ", "inline ", "static inline "], 3))
@pytest.mark.parametrize("how", ["c", "llvm", "python", "object"])
def test_callers_in_its_own_cell_follow_whoever_defines_a_function(s, words, how, tmp_path):
    run(s, f"{words}int a(int x) {{ return x + 1; }}\nint b(int x) {{ return a(x) * 2; }}")
    assert s.call("b", 1) == 4
    match how:
        case "c":
            run(s, "int a(int x) { return 1000; }")
        case "llvm":
            s.run(IR)
        case "python":
            s.export_python("a", lambda x: 1000, "i32 (i32)")
        case _:
            with Session() as other:
                other.run(IR)
                other.export(["a"], tmp_path / "a.o")
            s.link(tmp_path / "a.o")
    assert s.call("b", 1) == 2000
    s.undo()
    assert s.call("b", 1) == 4
    s.redo()
    assert s.call("b", 1) == 2000
    s.check()


def test_a_definition_of_another_language_stays_when_its_old_cell_is_compiled_again(s):
    run(s, "struct p { int x; };")
    run(s, "static int a(int x) { return x; }\nint b(struct p *q) { return a(1) + sizeof *q; }")
    s.run(IR)
    run(s, "struct p { int x, y; };")
    assert s.call("b", 0) == 1008
    s.undo()
    assert s.call("b", 0) == 1004
    assert s.call("a", 1) == 1000
    s.redo()
    assert s.call("b", 0) == 1008


@pytest.mark.parametrize("linkage", ["internal", "private", "weak", "linkonce_odr"])
def test_what_is_no_definition_for_others_changes_nothing(s, linkage):
    run(s, "static int a(int x) { return x + 1; }\nint b(int x) { return a(x) * 2; }")
    s.run(f"{IR.replace('define', f'define {linkage}')}\n@p = global ptr @a")
    assert (s.call("b", 1), s.call("a", 1), run(s, "a(5)").value) == (4, 2, 6)


@pytest.mark.parametrize(
    "words, old, new, wanted",
    [
        ("const int", "5", "6", 6),
        ("static const int", "5", "6", 6),
        ("const double", "3.0", "3.5", 7),
        ("const unsigned char", "5", "255", 255),
        ("const char *const", '"old"', '"new"', ord("n")),
    ],
)
def test_users_of_a_constant_follow_its_value(s, words, old, new, wanted):
    use = {"3.0": "(int) (K * 2)", '"old"': "K[0]"}.get(old, "K")
    run(s, f"{words} K = {old};\nint here(void) {{ return {use}; }}")
    run(s, f"int there(void) {{ return {use}; }}")
    run(s, f"{words} K = {new};")
    assert (s.call("here"), s.call("there")) == (wanted, wanted)
    s.undo()
    assert s.call("here") == s.call("there") != wanted
    s.redo()
    assert (s.call("here"), s.call("there")) == (wanted, wanted)


def test_users_of_a_constant_follow_one_in_ir(s):
    run(s, "const int k = 5;\nint f(void) { return k; }", "int g(void) { return k + 1; }")
    s.run("@k = constant i32 9")
    assert (s.call("f"), s.call("g")) == (9, 10)
    assert run(s, "k").value == 9
    s.undo()
    assert (s.call("f"), s.call("g"), run(s, "k").value) == (5, 6, 5)


def test_a_constant_of_another_type(s):
    run(s, "const int k = 5;\nint f(void) { return k * 2; }")
    run(s, "const double k = 2.75;")
    assert s.call("f") == 5
    assert run(s, "sizeof k").value == 8


def test_code_that_another_cell_has_replaced_does_not_keep_a_type(s):
    run(s, "int v;", "int f(void) { return v; }\nint g(void) { return 7; }")
    run(s, "int f(void) { return 1; }")
    run(s, "struct { int x; long y; } v;")
    assert (s.call("f"), s.call("g"), s["v"].value) == (1, 7, (0, 0))
    s.undo()
    assert (s.call("f"), s.call("g"), s["v"].value) == (1, 7, 0)
    s.check()


def test_a_variable_that_has_its_first_value_gets_the_new_one(s):
    run(s, "#define START 10", "int untouched = START, stored = START;", "stored = 11;")
    (told,) = run(s, "#define START 20").notes
    assert re.fullmatch(
        r"untouched \(cell \d+\) still had its first value and has the new one", told
    )
    assert (s["untouched"].value, s["stored"].value) == (20, 11)
    s.undo()
    assert (s["untouched"].value, s["stored"].value) == (10, 11)


PACKED = "struct T { char c; int i; }; struct T v = {1, 2}; int get(void) { return v.i; }"


def test_a_variable_that_another_cell_defines_with_another_type_is_that_cells(s):
    run(s, "enum { N = 3 }; int v = 1; static inline int size(void) { return N + sizeof v; }")
    run(s, "int v[9];")
    assert [cell.names for cell in s.cells] == [["size"], ["v"]]
    s.undo()
    s.redo()
    run(s, "enum { N = 8 };")
    assert s.call("size") == 8 + 36


def test_packing_holds_from_its_cell_on(s):
    run(s, "#pragma pack(push, 1)", cell_id="pack")
    assert run(s, f"{PACKED} sizeof v").value == 5
    assert (run(s, "sizeof v").value, run(s, "v.i").value, s.call("get")) == (5, 2, 2)
    run(s, "#pragma pack(pop)", "struct U { char c; int i; };")
    assert run(s, "sizeof(struct U)").value == 8


def test_structs_follow_the_packing_above_them(s):
    run(s, "#pragma pack(1)", cell_id="pack")
    run(s, PACKED, "int size(void) { return sizeof(struct T); }")
    for words, size in (("2", 6), ("", 8), ("1", 5)):
        run(s, f"#pragma pack({words})", cell_id="pack")
        assert (s.call("size"), run(s, "sizeof v").value, s.call("get")) == (size, size, 2)
    run(s, "#pragma pack(4)")  # below: what stands above it is as it was
    assert s.call("size") == 5


def test_variables_within_functions_keep_what_was_stored(s):
    run(s, "#define N 3", "#define START 10", "int f(void) { return 0; }")
    run(s, "int count(void) { static int calls = START; calls++; return calls * 100 + N; }")
    assert [s.call("count") for _ in range(2)] == [1103, 1203]
    run(s, "#define N 4")
    assert s.call("count") == 1304
    run(s, "#define START 20")  # stored over
    assert s.call("count") == 1404
    s.check()


def test_structs_of_a_header_follow_the_packing_above_it(s, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("p.h").write_text("struct T { char c; int i; };\n")
    run(s, "#pragma pack(1)", cell_id="pack")
    run(s, '#include "p.h"', "char room[sizeof(struct T)]; int n(void) { return sizeof room; }")
    assert s.call("n") == 5
    run(s, "#pragma pack(4)", cell_id="pack")
    assert (s.call("n"), run(s, "sizeof(struct T) + sizeof room").value) == (8, 16)


def test_a_constant_that_a_header_gives_its_value_follows_in_other_cells(s, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("k.h").write_text("#pragma once\n#define K 4\n")
    run(s, '#include "k.h"', cell_id="header")
    run(s, "static const int k = K + 1;")
    run(s, "int f(void) { return k; }")
    Path("k.h").write_text("#pragma once\n#define K 8\n")
    run(s, '#include "k.h"', cell_id="header")
    assert s.call("f") == 9


@pytest.mark.parametrize("guard", ["", "#pragma once\n"])
def test_a_header_that_another_cell_includes_again_is_followed(s, tmp_path, monkeypatch, guard):
    monkeypatch.chdir(tmp_path)
    Path("c.h").write_text(f"{guard}#define K 4\nstruct S {{ int a; }};\n")
    run(s, '#include "c.h"', "int f(void) { return K + sizeof(struct S); }", "struct S v;")
    Path("c.h").write_text(f"{guard}#define K 8\nstruct S {{ long a, b; }};\n")
    run(s, '#include "c.h"')
    assert (s.call("f"), run(s, "sizeof v").value) == (24, 16)
    Path("c.h").write_text(f"{guard}#define K 1\nstruct S {{ char a; }};\n")
    run(s, '#include "c.h"')
    assert (s.call("f"), run(s, "sizeof v").value) == (2, 1)


def test_the_place_of_a_cell_is_saved(s, tmp_path):
    run(s, "#pragma pack(1)", cell_id="pack")
    run(s, PACKED)
    run(s, "#pragma pack(2)", cell_id="pack")
    s.save(tmp_path / "a.jks")
    with Session.restore(tmp_path / "a.jks") as again:
        again.run("#pragma pack(1)", "c", cell_id="pack")
        assert again.run("sizeof v", "c").value == 5


#: What the cells `c0`, `c1`, ... are, what is run in which of them (or in another) after that, an
#: expression, and its value.
EDITS = [
    (  # what conditions within braces leave
        ["#define DEBUG 0", "int f(void) {\n#if DEBUG\n  return 1;\n#else\n  return 0;\n#endif\n}"],
        [("c0", "#define DEBUG 1")],
        "f()",
        1,
    ),
    (
        ["int other;", "int f(void) {\n#ifdef DEBUG\n  return 1;\n#else\n  return 0;\n#endif\n}"],
        [("c0", "#define DEBUG 1")],
        "f()",
        1,
    ),
    (
        ["int f(void) {\n#ifdef DEBUG\n  return 1;\n#else\n  return 0;\n#endif\n}"],
        [("below", "#define DEBUG 1")],
        "f()",
        0,
    ),
    (
        [
            "#define BIG 0",
            "typedef struct {\n int a;\n#if BIG\n long b;\n#endif\n} T;",
            "T v; int t[] = {1,\n#if BIG\n 2, 3,\n#endif\n};",
            "int f(void) { return 100 * sizeof v + sizeof t; }",
        ],
        [("c0", "#define BIG 1")],
        "f()",
        1612,
    ),
    (  # macros that open and end what they are in
        [
            "#define EACH(i, n) for (int i = 0; i < n; i++)\n#define BEGIN {\n#define END ;}",
            "int f(void) { int s = 0; EACH(i, 4) BEGIN s += i END return s; }",
        ],
        [
            (
                "c0",
                "#define EACH(i, n) for (int i = 1; i <= n; i++)\n#define BEGIN {\n#define END +1;}",
            )
        ],
        "f()",
        14,
    ),
    (  # what was a struct that others point at is none
        [
            "typedef struct n {int x;} T;",
            "struct l { T *p; }; int f(void){struct l q; return sizeof *q.p;}",
        ],
        [("c0", "typedef long T;")],
        "f()",
        8,
    ),
    (  # a prototype beside the type, the definition elsewhere
        [
            "typedef struct n {int x;} T; T *make(void);",
            "T *make(void) {return 0;} int f(void){return sizeof *make();}",
        ],
        [("c0", "typedef long T; T *make(void);")],
        "f()",
        8,
    ),
    (
        ["#define N 2", "typedef int A[N];", "A a; int n(void){return sizeof a;}"],
        [("c0", "#define N 5")],
        "n()",
        20,
    ),
    (
        ["enum { N = 2 };", "int a[N]; int n(void){return sizeof a;}"],
        [("c0", "enum { N = 5 };")],
        "n()",
        20,
    ),
    (
        [
            "#define W 3",
            "struct s { unsigned a : W; };",
            "struct s v; int f(void){ v.a = 255; return v.a; }",
        ],
        [("c0", "#define W 5")],
        "f()",
        31,
    ),
    (
        ["#define SQ(x) ((x)*(x))", "int f(int x){return SQ(x);}"],
        [("c0", "#define SQ(x) ((x)*(x)*(x))")],
        "f(3)",
        27,
    ),
    (
        [
            "int a(void){return 1;} int b(void){return 2;}",
            "#define CALL a",
            "int f(void){return CALL();}",
        ],
        [("c1", "#define CALL b")],
        "f()",
        2,
    ),
    (["#define X 3", "int f(void){return X;}"], [("c0", "int X = 9;")], "f()", 9),
    (["const int k = 3;", "int f(void){return k;}"], [("c0", "#define k 8")], "f()", 8),
    (["#define k 3", "int f(void){return k;}"], [("c0", "const int k = 8;")], "f()", 8),
    (["#define k 3", "int f(void){return k;}"], [("c0", "enum { k = 8 };")], "f()", 8),
    (["enum { k = 3 };", "int f(void){return k;}"], [("c0", "const int k = 8;")], "f()", 8),
    (["const int k = 3;", "int f(void){return k;}"], [("c0", "int k = 8;")], "f()", 8),
    (
        ["int k(int x){return x;}", "int f(void){return k(4);}"],
        [("c0", "#define k(x) ((x)*2)")],
        "f()",
        8,
    ),
    (
        ["typedef int T;", "int f(void){return sizeof(T);}"],
        [("c0", "typedef struct { int a[4]; } T;")],
        "f()",
        16,
    ),
    (
        ["#define S 5", "int f(void){static int n = S; return n++;}"],
        [("c0", "#define S 50")],
        "f()",
        50,
    ),
    (
        ["#define V 3", "struct p {int x, y;} q = {V, V+1};", "int f(void){return q.x*10+q.y;}"],
        [("c0", "#define V 5")],
        "f()",
        56,
    ),
    (
        ["const struct {int x;} q = {3}; int f(void){return q.x;}", "int g(void){return q.x;}"],
        [("new", "const struct {int x;} q = {4};")],
        "f()*10+g()",
        44,
    ),
    (
        ["static const int t[3] = {1,2,3}; int f(int i){return t[i];}"],
        [("new", "const int t[3] = {7,8,9};")],
        "f(1)",
        8,
    ),
    (
        [
            "static const int t[] = {1,2,3}; int f(void){return sizeof t/4;}",
            "int g(void){return sizeof t/4;}",
        ],
        [("new", "const int t[] = {7,8,9,10};")],
        "f()*10+g()",
        44,
    ),
    (
        [
            "int a(void){return 1;} int b(void){return 2;}",
            "int (*const p)(void) = a; int f(void){return p();}",
        ],
        [("new", "int (*const p)(void) = b;")],
        "f()",
        2,
    ),
    (
        ['#define NAME "abc"', "const char *s = NAME; int f(void){return s[0];}"],
        [("c0", '#define NAME "xyz"')],
        "f()",
        ord("x"),
    ),
    (
        [
            "const int a = 1;",
            "const int b = a + 1;",
            "const int c = b + 1;",
            "int f(void){return c;}",
        ],
        [("c0", "const int a = 10;")],
        "f()",
        12,
    ),
    (
        [
            "enum {A=1,B=2};",
            "int f(int x){switch(x){case A: return 10; case B: return 20;} return 0;}",
        ],
        [("c0", "enum {A=2,B=1};")],
        "f(1)",
        20,
    ),
    (
        ["typedef int T;", "union u {T a; char b;} v; int f(void){return sizeof v;}"],
        [("c0", "typedef double T;")],
        "f()",
        8,
    ),
    (
        ["typedef char T;", "struct s {int n; T d[];}; int f(void){return sizeof(struct s);}"],
        [("c0", "typedef long T;")],
        "f()",
        8,
    ),
    (
        ["#define AL 8", "struct s {_Alignas(AL) char c;}; int f(void){return sizeof(struct s);}"],
        [("c0", "#define AL 32")],
        "f()",
        32,
    ),
    (["#define N 3", "int f(int a[N]){return N;}"], [("c0", "#define N 9")], "f(0)", 9),
    (
        ["int g(int x){return x;}", "int f(void){return g(3.7);}"],
        [("c0", "double g(double x){return x*2;}")],
        "f()",
        7,
    ),
    (
        ["static inline int h(int x){return x+1;}", "int f(int x){return h(x);}"],
        [("c0", "static inline int h(int x){return x+100;}")],
        "f(1)",
        101,
    ),
    (
        ["int x = 5; int *const p = &x; int f(void){return *p;}"],
        [("new", "int y = 9; int *const p = &y;")],
        "f()",
        9,
    ),
    (
        ["struct s {int a;};", "char buf[sizeof(struct s)*2]; int f(void){return sizeof buf;}"],
        [("c0", "struct s {long a,b;};")],
        "f()",
        32,
    ),
    (
        ["#define R 2\n#define C 3", "int m[R][C]; int f(void){return sizeof m/4;}"],
        [("c0", "#define R 4\n#define C 5")],
        "f()",
        20,
    ),
    (
        ["#define K {1,2}", "struct p {int a,b;} t[] = {K, K}; int f(void){return sizeof t;}"],
        [("c0", "#define K {1,2},{3,4}")],
        "f()",
        32,
    ),
    (
        ["static const float pi = 3.0f; float f(void){return pi;}"],
        [("new", "static const float pi = 4.0f;")],
        "(int) f()",
        4,
    ),
    (
        ["#include <stdbool.h>\nconst bool on = false; int f(void){return on;}"],
        [("new", "const bool on = true;")],
        "f()",
        1,
    ),
    (
        ["typedef int T;", "int f(void){T x = 0; return _Generic(x, int: 1, double: 2);}"],
        [("c0", "typedef double T;")],
        "f()",
        2,
    ),
    (
        [
            "#include <stddef.h>\nstruct s {char a; int b;};",
            "int f(void){return offsetof(struct s, b);}",
        ],
        [("c0", "#include <stddef.h>\nstruct s {char a; long b;};")],
        "f()",
        8,
    ),
    (  # variables whose types have no names
        ["#define N 3", "union {int a; char c[N];} v = {N};\nint f(void){return v.a + sizeof v;}"],
        [("c0", "#define N 8")],
        "f()",
        16,
    ),
    (
        [
            "#define N 3",
            "static struct {\nint a; char c[N];\n} t[2] = {{N}}, *p = t + 1, v;",
            "int f(void){v = *p; *p = t[0]; return p->a * 1000 + v.a * 100 + sizeof v;}",
        ],
        [("c0", "#define N 9")],
        "f()",
        9016,
    ),
    (
        [
            "#define N 3",
            "enum {A = N, B} state = A, other = B;",
            "int f(void){return state * 100 + other * 10 + (state - 100u > 0) + A;}",
        ],
        [("c0", "#define N 7")],
        "f()",
        700 + 80 + 1 + 7,
    ),
    (
        ["#define N 3", "_Thread_local struct {int a;} v = {N}; int f(void){return v.a;}"],
        [("c0", "#define N 9")],
        "f()",
        9,
    ),
    *(  # a name that becomes a macro or none, in what says how large others are
        (
            [
                old,
                "char v[(int) K + 1]; struct s {char c[(int) K];};",
                "int g(struct s *p){return sizeof *p;}",
            ],
            [("c0", new)],
            "sizeof v * 100 + g(0)",
            1009,
        )
        for old, new in (
            ("enum {K = 6};", "#define K 9"),
            ("#define K 6", "enum {K = 9};"),
            ("#define K 6", "enum {J, K = 9};\n#define L 3"),
            ("#define K 6", "enum {J, K = 9} state = J, *other;"),
            ("enum {J, K = 6} state = K;", "enum {J, K = 9} state = J;"),
        )
    ),
    (
        ["#define T int", "struct s {T v[2];};", "int f(struct s *p){return sizeof *p;}"],
        [("c0", "typedef long T;")],
        "f(0)",
        16,
    ),
    (  # to the old style, and within it
        [
            "static inline long g(long x){return x;}",
            "int f(void){return sizeof g(1) * 100 + g(3);}",
        ],
        [("c0", "int g(x) int x; {return x + 1;}")],
        "f()",
        404,
    ),
    (
        ["int g(x) int x; {return x + 1;}", "int f(void){return sizeof g(1) * 100 + g(3);}"],
        [
            ("c0", "short g(x, y) int x, y; {return x + 2;}"),
            ("c0", "long g(x) long x; {return x;}"),
        ],
        "f()",
        803,
    ),
    *(  # a name leaves one cell, and is a macro in another, or none any more
        ([old, "int d;", f"int f(void){{return {use};}}"], edits, "f()", 8)
        for old, new, use in (
            ("#define K 3", "int K = 8;", "K"),
            ("#define K 3", "enum {J, K = 8};", "K"),
            ("int z; enum {J, K};", "#define K 8", "K"),
            ("int K(int x) {return x;}", "#define K(x) 8", "K(1)"),
            ("typedef int K;", "#define K long", "sizeof(K)"),
            ("#define K int", "typedef long K;", "sizeof(K)"),
        )
        for edits in (
            [("c0", "// gone"), ("c1", new)],
            [("c0", "int other;"), ("c1", f"{new}\nint d;")],
            *([[("c1", new), ("c0", "// gone")]] * new.startswith("#")),
        )
    ),
]


def test_what_followed_a_name_that_is_a_macro_now_is_told_by_it(s):
    run(s, "typedef long T;", cell_id="c")
    run(s, "struct s { T v[2]; };", "int f(struct s *p) { return sizeof *p; }")
    (told,) = run(s, "#define T int", cell_id="c").notes
    assert re.fullmatch(r"f \(cell \d+\) was compiled again for the new T", told)


@pytest.mark.parametrize("cells, edits, expression, wanted", EDITS)
def test_an_edit_gives_what_the_text_gives(s, cells, edits, expression, wanted):
    for at, cell in enumerate(cells):
        run(s, cell, cell_id=f"c{at}")
    for cell_id, text in edits:
        run(s, text, cell_id=cell_id)
    assert run(s, expression).value == wanted
    s.check()


@pytest.mark.parametrize(
    ("above", "use", "value"),
    [
        ("int f(int M) { return M + 1; }", "f(1)", 2),
        ("struct f { int M; };", "sizeof(struct f)", 4),
        ("int f(int (*M)(int), int x);", "sizeof(f(0, 1))", 4),
        ("struct M { int a; }; int f(struct M *p) { return !p; }", "f(0)", 1),
        ("typedef int M; int f(M x) { return x; }", "f(5)", 5),
        ("enum M { A = 3 }; int f(enum M x) { return x; }", "f(A)", 3),
    ],
)
def test_a_macro_is_none_in_what_was_declared_before_it(s, above, use, value):
    run(s, above, "#define M 30")
    assert run(s, use).value == value
    run(s, "#define M (", "#undef M")
    assert run(s, use).value == value


def test_a_declaration_has_the_macros_that_it_was_declared_with(s):
    run(s, "#define M 2", cell_id="M")
    run(s, "typedef int t[M]; struct u { int E, a[M]; };", "#define E 5")
    assert run(s, "(int) (sizeof(t) + sizeof(struct u))").value == 20
    run(s, "#define M 3", cell_id="M")
    assert run(s, "(int) (sizeof(t) + sizeof(struct u))").value == 28
    run(s, "#undef M")
    assert run(s, "(int) (sizeof(t) + sizeof(struct u))").value == 28


def test_a_macro_is_none_in_what_is_kept_for_others(s):
    run(s, "enum { N = 1 };", cell_id="n")
    run(s, "struct p { int M, a[N]; };", cell_id="p")
    run(s, "int f(struct p x) { return x.M + sizeof x; }", "#define M 30")
    run(s, "", cell_id="p")
    assert not run(s, "#define M 31").notes  # nobody has it
    assert "compiled again for the new N" in str(run(s, "enum { N = 3 };", cell_id="n").notes)


def test_a_macro_is_none_in_a_variable_that_is_made_again_and_again(s):
    run(s, "enum { N = 1 };", cell_id="n")
    run(s, "struct p { int M; }; struct p t[] = {{.M = 4}, [N] = {.M = 5}};", "#define M 30")
    for number in 2, 3:
        run(s, f"enum {{ N = {number} }};", cell_id="n")
        assert run(s, "sizeof t").value == 4 * number + 4


@pytest.mark.parametrize("anew", ["#undef EOF\n#define EOF (-2)", "#undef EOF"])
def test_a_headers_macro_that_is_defined_anew_is_the_headers_above(s, anew):
    run(s, "#include <stdio.h>")
    run(s, "enum { N = 1 };", cell_id="n")
    run(s, "struct s { int a[4 + EOF]; }; int f(void) { return 10 * EOF + N; }", anew)
    assert run(s, "sizeof(struct s)").value == 12
    run(s, "enum { N = 2 };", cell_id="n")
    assert s.call("f") == -8


def test_a_header_below_gives_no_macros_to_what_is_above_it(s, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("k.h").write_text("#define K 3\n")
    run(s, "struct s { int K; };", "#define K 9", '#include "k.h"')
    assert run(s, "sizeof(struct s)").value == 4


def test_what_conditions_left_out_is_told(s):
    run(s, "#define DEBUG 0", cell_id="c")
    run(s, "#if DEBUG\nint f(void) { return 1; }\n#else\nint f(void) { return 2; }\n#endif")
    run(s, "#ifdef LATER\nint g(void) { return 1; }\n#else\nint g(void) { return 2; }\n#endif")
    for text, names in (("#define DEBUG 1", "f"), ("#define LATER", "fg")):  # DEBUG leaves
        told = list(map(str, run(s, text, cell_id="c").notes))
        assert [note.split(" (cell ")[0] for note in told] == [f"note: {name}" for name in names]
        assert all(n.endswith("of before made; run that line again for the new one") for n in told)


def test_undo_and_redo_bring_back_what_functions_keep(s):
    run(s, "#define N 3", "int count(void) { static int n = 10, *p = &n; return ++*p * 10 + N; }")
    assert [s.call("count") for _ in range(2)] == [113, 123]
    run(s, "#define N 4")
    s.undo()
    s.redo()
    assert s.call("count") == 134
    run(s, "#define N 5", "#define N 6")
    s.undo()
    s.undo()
    assert s.call("count") == 144
    s.check()


def test_what_left_its_cell_is_known_as_such_when_it_is_undone_and_saved(s, tmp_path):
    run(s, "#define K 3", cell_id="c0")
    run(s, "int f(void) { return K; }")
    run(s, "// gone", cell_id="c0")
    s.undo()
    with pytest.raises(CompileError):  # it is a macro
        run(s, "int K = 8;")
    s.redo()
    s.save(tmp_path / "a.jks")
    with Session.restore(tmp_path / "a.jks") as again:
        for session in (s, again):
            run(session, "int K = 8;")
            assert session.call("f") == 8
    s.undo()
    assert s.call("f") == 3


def cells(s, *pairs):
    for name, text in pairs:
        s.run(text, "c", cell_id=name)


def test_an_enumerator_of_another_enum_stays_when_its_first_cell_is_run_without_it(s):
    cells(s, ("a", "enum one { e = 1 } w = e;\nint f(void) { return 1; }"))
    cells(s, ("b", "struct s { char c[2 + e]; };"), ("x", "enum { e = 5 } w = e;"))
    cells(s, ("a", "int f(void) { return e; }"))
    assert run(s, "e + f() + (int) sizeof(struct s)").value == 5 + 5 + 7
    s.undo()
    assert run(s, "e + f() + (int) sizeof(struct s)").value == 5 + 1 + 7


def test_a_cell_whose_code_others_have_taken_over_still_stands(s, tmp_path):
    """Its macros go with its text when it is run again, after a restore too."""
    cells(s, ("a", "#define m (1)\nint v;"), ("b", "int f(void) { return m; }"), ("x", "long v;"))
    s.save(tmp_path / "s.jks")
    with Session.restore(tmp_path / "s.jks") as back:
        for session in (s, back):
            cells(session, ("a", "enum { m = 3 } w = m;"))
            assert run(session, "m + f()").value == 6
            session.check()
    s.undo()
    assert run(s, "m + f()").value == 2


def test_a_name_is_a_macro_an_enumerator_and_a_macro_again(s):
    first = "int f(int x) { return x + %d; }\nenum { e = 5 } w = e;"
    again = "int f(int x) { return x + %d; }\n#define e 10"
    cells(
        s, ("a", first % 2), ("b", "struct s { char c[e]; };"), ("a", again % 2), ("a", again % 3)
    )
    assert run(s, "e + f(1) + (int) sizeof(struct s)").value == 10 + 4 + 10
    cells(s, ("a", first % 1))
    assert run(s, "e + f(1) + (int) sizeof(struct s)").value == 5 + 2 + 5


def test_what_is_in_no_text_and_has_no_code_does_not_follow(s):
    cells(
        s,
        ("t", "typedef int t[5];"),
        ("a", "enum { e = sizeof(t) } w = e;\nint g(void) { return 1; }"),
    )
    cells(s, ("b", "struct s { char c[e]; };"), ("a", "int g(void) { return 2; }\n#define e 7"))
    cells(s, ("t", "typedef char t[3];"))
    assert run(s, "(int) sizeof(struct s) + g() + (int) sizeof(t)").value == 7 + 2 + 3


def test_a_client_that_sends_no_names_of_cells_sends_empty_ones(s):
    s.run("#include <stdlib.h>\nint f(void) { return 1; }", "c", cell_id="")
    s.run("int f(void) { return 2; }", "c", cell_id="")  # the include is another cell's, and stays
    assert s.run("abs(-f())", "c", cell_id="").value == 2
    s.run('int g(int x) { return x ? atoi("3") : (exit(1), 0); }', "c", cell_id="")
    assert s.call("g", 1) == 3


def test_parameters_hide_what_has_their_names(s):
    run(s, "struct point { int x; };", "struct point p = {1};", "int n = 1;", "typedef int t;")
    run(s, "int deref(int *p) { return *p; }", "int twice(int n) { return 2 * n; }")
    run(s, "int tagged(struct point *n) { return n->x; }", "long typed(t t) { return t; }")
    run(s, "int both(int p) { struct p { int p; }; return p + n; }")

    def followed(cell):
        told = "\n".join(run(s, cell).notes)
        return {name for name in ("deref", "twice", "tagged", "typed", "both") if name in told}

    assert followed("struct point { long y, x; };") == {"tagged"}
    assert followed("long n = 2;") == {"both"}
    assert followed("typedef long t;") == {"typed"}
    assert s.call("both", 1) == 3
    assert s.call("typed", 1 << 40) == 1 << 40


def test_a_user_that_was_evicted_is_in_the_way_of_an_undo(s):
    s.run("struct p { int a; };", "c")
    user = s.run("int f(void) { return sizeof(struct p); }", "c").cell
    changed = s.run("struct p { int a, b; };", "c").cell
    s.evict(user.number)
    out = f"took cell {user.number} out, which was compiled again"
    with pytest.raises(EvictError, match=out):
        s.undo(cell=changed.number)
    s.undo(cell=changed.number, cascade=True)
    assert s.call("f") == 4
    s.redo(2)
    s.undo()
    assert s.call("f") == 8


@pytest.mark.parametrize(
    ("header", "use"), (
        ("enum { SIZE = N };\n", "SIZE"),
        ("struct buf { char c[N]; };\n", "sizeof(struct buf)"),
        ("#define TWICE (2 * N)\nstatic inline int n(void) { return TWICE; }\n", "n() / 2"),
        ("#ifndef N\n#define N 9\n#endif\nenum { SIZE = N };\n", "SIZE"),
    )
)  # fmt: skip
def test_macros_that_headers_of_one_s_own_read(s, tmp_path, monkeypatch, header, use):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.h").write_text(header)
    s.run("#define N 3", "c", cell_id="n")
    s.run('#include "own.h"', "c", cell_id="o")
    s.run(f"int used(void) {{ return {use}; }}", "c")
    for number in (3, 4, 7):
        s.run(f"#define N {number}", "c", cell_id="n")
        assert s.call("used") == number
        assert s.run(use, "c").value == number
    s.undo()
    assert s.call("used") == 4


@pytest.mark.parametrize("form", ["", "#define OV __attribute__((overloadable))\nOV static "])
def test_overloads_are_refused_for_later_cells_could_know_but_one(s, form):
    form = form or "__attribute__((__overloadable__)) "
    with pytest.raises(CompileError, match=r"f is `overloadable`(?s:.*)hint: .*`_Generic`"):
        run(s, f"{form}int f(int x) {{ return 1; }}\n")
    assert run(s, "int _Z1fi(int x) { return x; }", "_Z1fi(3)").value == 3  # C's own name
    assert run(s, "#include <tgmath.h>\nsqrt(4.0)").value == 2  # static ones of a header


def test_aliases_and_ifuncs_follow_macros_and_types_that_their_text_mentions(s):
    run(s, "typedef int T;\n#define K 1", cell_id="head")
    run(s, 'T r(void) { return K; }\nT f(void) __attribute__((alias("r"))), '
           'g(void) __attribute__((alias("r")));\n'
           'T rv = K;\nextern T v __attribute__((alias("rv")));', cell_id="alias")  # fmt: skip
    run(s, "static T one(void) { return K; }\nstatic void *choose(void) { return one; }\n"
           'T i(void) __attribute__((ifunc("choose")));')  # fmt: skip
    run(s, "long sum(void) { return f() + g() + v + i(); }")
    assert s.call("sum") == 4
    run(s, "typedef int T;\n#define K 2", cell_id="head")
    assert s.call("sum") == 8
    run(s, "rv = 10;")
    assert s.call("sum") == 16 and s["v"].value == 10
    run(s, "typedef short T;\n#define K 3", cell_id="head")
    assert s.call("sum") == 12
    s.undo()
    assert s.call("sum") == 16
    s.redo()
    assert s.call("sum") == 12
    s.check()


ASSEMBLY = '__asm__(".globl {0}\\n{0}: mov $" VALUE ", %eax\\nret");\nint {0}(void);\n'


def test_assembly_follows_a_macro(s, tmp_path):
    run(s, '#define VALUE "5"', cell_id="value")
    run(s, ASSEMBLY.format("alone"))
    run(s, ASSEMBLY.format("beside") + "int both(void) { return beside() + sizeof VALUE; }")
    run(s, "int user(void) { return alone() * 100 + both(); }")
    assert s.call("user") == 507
    notes = run(s, f'#define VALUE "16"\n{ASSEMBLY.format("own")}', cell_id="value").notes
    assert [note.partition(" (")[0] for note in notes] == ["asm", "asm, both"]
    assert (s.call("user"), run(s, "own()").value) == (1619, 16)
    s.undo()
    assert s.call("user") == 507
    s.redo()
    assert s.call("user") == 1619
    s.save(tmp_path / "s.jks")
    with Session.restore(tmp_path / "s.jks") as again:
        run(again, f'#define VALUE "7"\n{ASSEMBLY.format("own")}', cell_id="value")
        assert (again.call("user"), run(again, "own()").value) == (709, 7)
    s.check()


def test_extern_means_a_variable_that_assembly_beside_it_has(s):
    """Elsewhere it makes the variable, where nobody has it."""
    text = '__asm__(".data\\n.globl v; v: .long " K "\\n.text");\nextern int v; int get(void) {{ return {}v; }}'
    run(s, '#define K "5"', cell_id="k")
    run(s, text.format(""), cell_id="v")
    assert s.call("get") == s["v"].value == 5
    run(s, '#define K "6"', cell_id="k")
    run(s, text.format("2 * "), cell_id="v")
    assert s.call("get") == 12
    run(s, "int v = 7; int get(void) { return v; }", cell_id="v")
    assert s.call("get") == 7
    s.undo(2)
    assert s.call("get") == 6
    s.check()


def test_a_cell_that_cannot_be_made_again_says_what_to_do(s):
    label = '__asm__(".if " K "\\n.globl q\\nq: mov $5, %eax\\nret\\n.endif");\nint q(void);\n'
    run(s, '#define K "1"', cell_id="k")
    cell = run(s, f"{label}int f(void) {{ return q(); }}", cell_id="f").cell.number
    run(s, "int g(void) { return f(); }")
    with pytest.raises(CompileError, match=f"%evict {cell} --force, make the change, and run"):
        run(s, '#define K "0"', cell_id="k")
    s.evict(cell, force=True)
    run(s, '#define K "2"', cell_id="k")
    run(s, f"{label}int f(void) {{ return q() + 2; }}", cell_id="f")
    assert s.call("g") == 7


@pytest.mark.parametrize("beside, nothing", [("", ""), ("", "// no"), ("int ok = 1;\n", "")])
def test_an_assertion_of_another_cell_that_fails_refuses_a_change(s, beside, nothing):
    run(s, "struct s { int a; };", cell_id="s")
    cell = run(s, f'{beside}_Static_assert(sizeof(struct s) == 4, "size");', cell_id="t").cell
    where = f"cell {cell.number}, line {1 + beside.count(chr(10))}: static assertion failed"
    with pytest.raises(CompileError, match=f"{where}.*: size\n(?s:.*)Nothing was changed"):
        run(s, "struct s { long a; };", cell_id="s")
    assert run(s, "sizeof(struct s)").value == 4
    run(s, "struct s { unsigned a; };", cell_id="s")  # it holds
    run(s, f'{beside}_Static_assert(sizeof(struct s) < 9, "size");', cell_id="t")
    run(s, "struct s { long a; };", cell_id="s")
    s.undo(2)
    with pytest.raises(CompileError, match=where):
        run(s, "struct s { long a; };", cell_id="s")
    run(s, beside or nothing, cell_id="t")
    run(s, "struct s { long a; };", cell_id="s")
    assert run(s, "sizeof(struct s)").value == 8


@pytest.mark.parametrize("nothing", ["", "// nothing", "1;", "int other;"])
@pytest.mark.parametrize("directive", ["#pragma pack(1)", "#include <stddef.h>"])
def test_a_directive_goes_with_the_text_that_it_stood_in(s, directive, nothing):
    run(s, directive, cell_id="d")
    run(s, nothing, cell_id="d")
    assert run(s, "struct s { char c; int i; };", "sizeof(struct s)").value == 8
    if "include" in directive:
        with pytest.raises(CompileError, match="undeclared"):
            run(s, "offsetof(struct s, i)")
    s.undo(2)
    packed = 8 - 3 * directive.startswith("#pragma")
    assert run(s, "struct s { char c; int i; };", "sizeof(struct s)").value == packed


@pytest.mark.parametrize(
    "weak, define, use",
    [
        ("__attribute__((weak)) int w(void);", "int w(void) { return 5; }", "w ? w() : -1"),
        ("int w(void) __attribute__((weak));", "int w() { return 5; }", "w ? w() : -1"),
        ("#pragma weak w\nint w(void);", "int w(void) { return 5; }", "w ? w() : -1"),
        ("extern int w __attribute__((weak));", "int w = 5;", "&w ? w : -1"),
    ],
)
def test_what_was_declared_weak_may_go_though_it_was_there_when_a_caller_was_compiled(
    s, weak, define, use
):
    run(s, weak, define, f"int c(void) {{ return {use}; }}")
    assert s.call("c") == 5
    s.evict("w", force=True)
    assert s.call("c") == -1
    run(s, define.replace("5", "6"))
    assert s.call("c") == 6
    s.undo(2)
    assert s.call("c") == 5


def test_a_gnu_inline_function_and_its_definition_in_one_cell(s):
    """GCC manual, "Inline": the one that is `extern` is for inlining alone."""
    inline = "extern inline __attribute__((gnu_inline)) int f(int x) { return x + K; }\n"
    run(s, "#define K 1", cell_id="k")
    assert not any("warning" in note for note in run(s, inline).notes)
    run(s, "int g(void) { return f(1); }")
    assert (s.call("g"), s.call("f", 1)) == (2, 2)
    run(s, f"{inline}int h(void) {{ return f(1); }}\nint f(int x) {{ return x + 10 * K; }}")
    assert (s.call("f", 1), s.call("g"), s.call("h")) == (11, 11, 11)
    run(s, "#define K 2", cell_id="k")
    assert (s.call("f", 1), s.call("g"), s.call("h")) == (21, 21, 21)
    with pytest.raises(CompileError, match="redefinition of 'f'"):
        run(s, "int f(int x) { return 1; }\nint f(int x) { return 2; }")


@pytest.mark.parametrize(
    "declares, uses",
    [
        ("int x = 3;", "x + 1"),
        ("int x = 3;", "int get(void) { return x; }"),
        ("int x(void) { return 3; }", "x()"),
        ("int x(void) { return 3; }", "int get(void) { return x(); }"),
        ("int x(void);", "int get(void) { return x(); }"),
        ("struct x { int a; };", "struct x v = {4};"),
        ("typedef int x;", "x v = 4;"),
        ("enum { x = 4 };", "int v = x;"),
        ("#define x 4", "int v = x;"),
    ],
)
@pytest.mark.parametrize(
    "keeper", few(["unsigned long keeper(void) { return sizeof(KEPT); }", ""], 1)
)
def test_a_cell_has_nothing_of_what_its_text_was_before(s, declares, uses, keeper):
    """As in a session that begins anew: it may not lean on what no text declares."""
    first = run(s, declares, cell_id="x").cell.number
    kept = "struct x" if declares.startswith("struct") else "x()" if "(" in declares else "x"
    run(s, keeper.replace("KEPT", kept) or ";")
    hint = f"hint: the text of cell {first} that declared x is there no more: declare it here"
    with pytest.raises(CompileError, match=hint):
        run(s, uses, cell_id="x")
    run(s, f"{declares}\n{uses}", cell_id="x")
    run(s, "1", cell_id="x")
    with pytest.raises(CompileError):  # no more than others have
        run(s, uses, cell_id="other")
    s.check()


def test_a_declaration_without_parameters_says_nothing_of_them(s):
    """C17 6.7.6.3: the definition does, and callers follow it."""
    run(s, "int f();", "int g(void) { return f(1, 2.5f); }", "int (*p)() = f;")
    run(s, "int f(a, b) char a; float b; { return a + b * 2; }")
    assert (s.call("g"), run(s, "p(257, 0.5f)").value) == (6, 2)
    run(s, "int h() { return 4; }")
    with pytest.raises(CompileError, match="too many arguments"):
        run(s, "h(1)")


def test_dead_code_of_what_has_moved_follows_a_type(s):
    """A function whose labels have addresses stays in its cell's object when another defines it."""
    table = "static const void *const t[] = { &&a, &&b }; goto *t[x % 2];"
    struct = "struct s {{ int k; union {{ struct {{ short a, b; }}; {} all; }}; }};\nstatic struct s v = {{ 46 }};"
    run(s, struct.format("long"), cell_id="s")
    run(s, f"static int go(int x) {{ {table} a: return v.k + v.a; b: return 2; }}\nint w = 3;")
    run(s, f"static int go(int x) {{ {table} a: return 1; b: return 2; }}")
    run(s, struct.format("int"), cell_id="s")
    assert run(s, "go(0) + w + v.k").value == 50
    s.check()


HEADERS = ("<stdint.h>", '"own.h"')
RESTATED = "typedef {} T; struct S {{ {} a; }}; enum {{ K = {} }};\n#define M {}\n"


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("goes", ["edited", "emptied", "evicted"])
def test_a_header_is_known_while_a_cell_includes_it(s, tmp_path, monkeypatch, header, goes):
    monkeypatch.chdir(tmp_path)
    Path("own.h").write_text("typedef unsigned char uint8_t; struct of_own { int a; };\n")
    for cell in "ab":
        run(s, f"#include {header}\nint {cell};", cell_id=cell)
    run(s, "struct s { int a; };", cell_id="s")
    run(s, f"#include {header}\nunsigned long f(uint8_t x) {{ return sizeof(struct s) + x; }}")
    for cell, text in (("a", "int a;"), ("b", "int b;")):
        if goes == "evicted":
            s.evict(next(c.number for c in s.cells if cell in c.names))
        else:
            run(s, text if goes == "edited" else "", cell_id=cell)
        assert run(s, "(uint8_t) 257").value == 1
    run(s, "struct s { long a; };", cell_id="s")  # what includes it is compiled again
    assert s.call("f", 1) == 9
    s.undo()
    assert s.call("f", 1) == 5


def test_a_header_that_a_cell_includes_no_more_is_unknown_to_it(s):
    run(s, "#include <stdint.h>\nuint8_t f(void) { return 3; }", cell_id="f")
    with pytest.raises(CompileError, match="unknown type name 'uint8_t'"):
        run(s, "uint8_t f(void) { return 4; }", cell_id="f")
    assert (s.call("f"), run(s, "(uint8_t) 257").value) == (3, 1)
    run(s, "unsigned char f(void) { return 4; }", cell_id="f")
    with pytest.raises(CompileError, match="undeclared"):
        run(s, "(uint8_t) 257")
    s.undo()
    assert run(s, "(uint8_t) 257").value == 1


@pytest.mark.parametrize("goes", ["int other;", "int T(void) { return 1; }", "", "evicted"])
@pytest.mark.parametrize("type, number", [("int", 3), ("short", 5)])
def test_what_another_cell_says_counts_again(s, type, number, goes, tmp_path):
    """A type, a constant or a macro that two cells declare is there while one of them is."""
    uses = "1" if goes == "evicted" else "sizeof(struct S) * 100 + K * 10 + M"  # what is used stays
    run(s, RESTATED.format("int", "int", 3, 3), cell_id="a")
    last = run(s, RESTATED.format(type, type, number, number), cell_id="b").cell
    run(s, f"int f(void) {{ return {uses}; }}", cell_id="f")

    def values() -> list[int]:
        return [*run(s, "(int[]){sizeof(struct S), K, M}").value, s.call("f")]

    size = 2 if type == "short" else 4
    before = [size, number, number, 1 if uses == "1" else size * 100 + number * 11]
    after = [4, 3, 3, 1 if uses == "1" else 433]
    assert values() == before
    assert "@" not in str(views.cells(s))
    s.evict(last.number) if uses == "1" else run(s, goes, cell_id="b")
    assert values() == after
    s.undo()
    assert values() == before
    s.save(tmp_path / "a.jks")
    with Session.restore(tmp_path / "a.jks") as again:
        again.evict(last.number) if uses == "1" else run(again, goes, cell_id="b")
        assert list(run(again, "(int[]){sizeof(struct S), K, M}").value) == after[:3]
        run(again, "int f(void) { return 0; }", cell_id="f")
        run(again, "", cell_id="a")
        with pytest.raises(CompileError):
            run(again, "sizeof(struct S)")
        again.check()


def test_what_includes_a_header_follows_it_as_it_was_again(s, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for cell, number in zip("abcd", (4, 8, 4, 8), strict=True):
        Path("c.h").write_text(f"#pragma once\n#define K {number}\n")
        run(s, f'#include "c.h"\nint {cell}(void) {{ return K; }}', cell_id=cell)
        assert [s.call(name) for name in "abcd" if name <= cell] == [number] * (ord(cell) - 96)
    s.evict("a")
    Path("c.h").write_text("#pragma once\n#define K 5\n")
    run(s, '#include "c.h"\nint c(void) { return K; }', cell_id="c")
    assert [s.call(name) for name in "bcd"] == [5, 5, 5]


def test_a_function_that_has_left_c_stays_known_when_its_old_cell_is_edited(s):
    run(s, "int left(int x) { return x; } int beside;", cell_id="a")
    run(s, "int user(void) { return left(2); }")
    s.export_python("left", lambda x: x + 5, "i32 (i32)")
    run(s, "int beside; int also(void) { return left(3); }", cell_id="a")
    assert (run(s, "left(1)").value, s.call("user"), s.call("also")) == (6, 7, 8)


def test_a_typedef_of_a_pointer_to_what_is_only_named(s):
    run(s, "typedef union V { int a; } V;", cell_id="v")
    run(s, "typedef V *At;\ntypedef struct { At p; long o; } Rel;")
    run(s, "struct S { Rel top; };")
    run(s, "typedef union V { int a; char c[12]; } V;", cell_id="v")
    run(s, "long f(void) { struct S s = {{.o = 5}}; return s.top.o; }")
    assert s.call("f") == 5


def test_a_member_by_the_name_of_a_macro_with_parameters(s):
    run(s, "#define LINKED struct S *next; int v", "struct S;")
    run(s, "typedef struct S S;\nstruct G;\ntypedef struct G G;\nstruct S { LINKED; G *all; };")
    run(s, "typedef struct M { char m; S s; } M;\nstruct G { int n; M main; };")
    run(s, "#define next(x) last((x)->all->main.s.next)")
    run(s, "int f(void) { static G g; g.main.s.v = 6; return g.main.s.v; }", cell_id="f")
    run(s, "int f(void) { static G g; g.main.s.v = 7; return g.main.s.v; }", cell_id="f")
    assert s.call("f") == 7


@pytest.mark.parametrize("bound", ["CALL(LEN)", "LEN /* long */ (3)", "BOTH"])
def test_a_macro_with_parameters_that_is_called_otherwise(s, bound):
    run(s, "#define CALL(f) f(3)\n#define BOTH CALL(LEN)")
    run(s, "struct q { int v; };", "#define LEN(n) (n * sizeof(struct q))")
    run(s, f"struct big {{ char x[{bound}]; }};")
    assert run(s, "struct q { int v[4]; };\nsizeof(struct big)").value == 48
