"""Forms of declarations and of files, each as a cell: what clang takes, a cell takes."""

from __future__ import annotations

import pytest

from jitkernel.errors import CompileError, LinkError
from tests.seeds import few, sampled

pytest.importorskip("ziglang")

OWN_HEADER = """typedef struct { int x; } thing;
typedef int num;
#define EMPTY
#define API(type) type
#define UNUSED __attribute__((unused))
#define ALIGNED(n) __attribute__((aligned(n)))
#define LOCAL static
#define TYPE num
"""
BASE = "int base = 3, row[1] = {3};\nint three(void) { return 3; }"
OLD_STYLE = [
    ("f(p, n) thing *p; int n; { return p ? 1 : n; }", "f(0, 3)"),
    ("f(p, n)\nthing *p;\nsize_t n;\n{ return p ? 1 : n; }", "f(0, 3)"),
    ("f(a, b) register size_t a, b; { return a + b; }", "f(1, 2)"),
    ("f(a) thing a[]; { return a ? 1 : 3; }", "f(0)"),
    ("f(g) thing (*g)(); { return g ? 1 : 3; }", "f(0)"),
    ("(*f(a))() thing *a; { return a ? 0 : three; }", "f(0)()"),
]
#: Declarations of a name, and what is 3 then.
FORMS = [
    ("{0} = 3;", "{0}"),
    ("*{0} = &base;", "*{0}"),
    ("*{0}[2] = {{&base}};", "*{0}[0]"),
    ("(*{0})[1] = &row;", "(*{0})[0]"),
    ("(*{0})(void) = three;", "{0}()"),
    ("{0}(void) {{ return 3; }}", "{0}()"),
    ("({0})(void) {{ return 3; }}", "{0}()"),
    ("*{0}(void) {{ return &base; }}", "*{0}()"),
    ("(*{0}(int a))(void) {{ return three; }}", "{0}(1)()"),
    ("{0}(a, b) num a; char b; {{ return a; }}", "{0}(3, 1)"),
    ("{0} = three();", "{0}"),
    ("{0}[] = {{three(), 4}};", "{0}[0]"),
    ("*{0} = &(int){{3}};", "*{0}"),
]
HEADS = [
    "num", "EMPTY int", "int EMPTY", "API(int)", "API(num)", "UNUSED int", "int UNUSED", "ALIGNED(8) int",
    "int ALIGNED(8)", "LOCAL int", "EMPTY static int", "num EMPTY", "API(int) EMPTY", "EMPTY API(int)",
    "ALIGNED(8) EMPTY num", "TYPE", "TYPE EMPTY", "__attribute__((unused)) num", "num __attribute__((unused))",
    "[[gnu::unused]] num", "__extension__ num",
]  # fmt: skip


@pytest.mark.parametrize("head", few(["__attribute__((noinline)) static int ", "int "], 1))
@pytest.mark.parametrize(("function", "call"), OLD_STYLE)
def test_old_style_parameters_may_have_types_of_headers(s, own_header, head, function, call):
    s.run(f"{BASE}\n{own_header}\n#include <stddef.h>", "c")
    s.run(head + function, "c")
    s.run("int later;", "c")
    assert s.run(call, "c").text == "(int) 3"


HIDING = [
    ("local unsigned f OF((unsigned code, int len));\nlocal unsigned f(code, len)\n    unsigned code;\n    int len;\n"
     "{ return code >> len; }", "f(6u, 1)"),
    # zlib 1.2.13, trees.c behind inftrees.h
    ("unsigned f(code, len)\n    unsigned code; /* to invert */\n    int len;\n{\n    register unsigned res = 0;\n"
     "    do {\n        res |= code & 1;\n        code >>= 1, res <<= 1;\n    } while (--len > 0);\n    return res >> 1;\n}",
     "f(6u, 3)"),
    ("static int f(n, code) code n; const int *code; { return n.op + *code; }", "f((code){1}, &(int){2})"),
    ("int (*f(code))(void) int (*code)(void); { return code; }", "f(three)()"),
    ("int f(code) int code[]; { return code[0] + (int)sizeof(struct { char code; }); }", "f((int[]){2})"),
]  # fmt: skip


@pytest.mark.parametrize("header", few([True, False], 1))
@pytest.mark.parametrize(("function", "call"), HIDING)
def test_an_old_style_parameter_hides_the_type_that_has_its_name(
    s, tmp_path, header, function, call
):
    types = tmp_path / "types.h"

    def declare(code):
        types.write_text(f"#pragma once\n{code}")
        s.run(f'#include "{types}"' if header else code, "c")

    s.run(f"#define local static\n#define OF(args) args\n{BASE}", "c")
    declare("typedef struct { unsigned char op; } code;")
    s.run(f"code before; {function}\ncode behind;", "c")
    assert int(s.run(f"(int){call}", "c").text.removeprefix("(int) ")) == 3
    declare("typedef struct { short op; int more; } code;")  # compiled again with another
    assert int(s.run(f"(int){call}", "c").text.removeprefix("(int) ")) == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("int f(a, b) foo a; int b; { return a; }", "column 13: expected function body"),
        ("int f(a, b) int a; { return a + b; }", "column 10: parameter 'b' was not declared"),
        ("int f(a, b) int a, b; { retrun a; }", "column 25: use of undeclared identifier 'retrun'"),
    ],
)
def test_a_mistake_in_an_old_style_function_is_told_where_it_is(s, text, words):
    with pytest.raises(CompileError, match=words):
        s.run(text, "c")


def test_a_type_may_come_after_the_old_style_parameter_that_hides_it(s, tmp_path):
    s.run("#define STEP 1\nint f(code) int code; { return code + STEP; }", "c")
    (tmp_path / "types.h").write_text("#pragma once\ntypedef struct { char op; } code;")
    s.run(f'#include "{tmp_path}/types.h"', "c")
    s.run("#define STEP 2", "c")
    assert s.run("f(1)", "c").value == 3


@pytest.mark.parametrize(
    ("head", "where"),
    [
        *sampled(((head, "header") for head in HEADS), 3),
        *((HEADS[n], "own cell's header") for n in (1, 4, 9)),
        *((HEADS[n], "earlier cell") for n in (2, 3, 14)),
        *((HEADS[n], "own cell") for n in (5, 7, 10)),
    ],
)
def test_names_are_found_behind_macros_and_attributes(s, own_header, head, where):
    declared = "".join(f"{head} {form.format(f'x{n}')}\n" for n, (form, _) in enumerate(FORMS))
    given = {
        "header": [own_header, declared], "own cell's header": [f"{own_header}\n{declared}"],
        "earlier cell": [OWN_HEADER, declared], "own cell": [OWN_HEADER + declared],
    }  # fmt: skip
    for cell in (BASE, *given[where], "int later;"):
        s.run(cell, "c")
    values = " + ".join(value.format(f"x{n}") for n, (_, value) in enumerate(FORMS))
    assert s.run(f"(int)({values})", "c").text == f"(int) {3 * len(FORMS)}"


PROGRAM = "#define ONE 1\nint f(int x)\n{\n  return x + ONE;\n}\nf(2)"


@pytest.mark.parametrize(
    "text",
    [
        f"\ufeff{PROGRAM}",
        "int before;\n\ufeff" + PROGRAM,
        *(PROGRAM.replace("\n", end) for end in ("\r\n", "\r", "\r\r\n", "\f\n", "\v\n", " \n\n")),
        f"\f{PROGRAM}",
        PROGRAM.replace(" ", "\u00a0"),
    ],
)
def test_files_of_every_kind_are_read(s, text):
    assert s.run(text, "c").value == 3


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("int x = 3; // end \\", "(int) 3"),
        ("#define x 3 \\", "(int) 3"),
        ("int x = 3;\n// nothing", "(int) 3"),
        ("int x = 3;\n#define y", "(int) 3"),
    ],
)
def test_a_text_may_end_anywhere(s, text, shown):
    s.run(text, "c")
    assert s.run("x", "c").text == shown


@pytest.mark.parametrize(
    "text",
    ["// nothing", "/* nothing */", ";", ";;", "\\", "\\\n", "\\\n\\", "// \\", "//\\\nx", "#", "# ",
     "#\n#", "%:", "#pragma", "#line 5", "", "   ", "\t", "\n\n", "\r", "\f", "\v", " \f\n\v ", "\ufeff",
     "\u00a0", "\u2028"],
)  # fmt: skip
def test_a_cell_may_say_nothing(s, text):
    s.run("int x = 3;", "c")
    assert s.run(text, "c").text == ""
    assert s.run("x", "c").text == "(int) 3"


@pytest.mark.parametrize("blank", ["\f", "\v", "\u00a0", "\f\n", " \f \n\v\n"])
def test_blanks_of_c_around_a_cell(s, blank):
    """A form feed stands between the parts of older sources."""
    s.run(f"{blank}\nint x = 3;\n{blank}", "c")
    assert s.run(f"{blank}x", "c").text == "(int) 3"
    assert s.run(f"int f(void)\n{{\n{blank}\nreturn 4;\f}}\f", "c").text == ""
    with pytest.raises(CompileError, match=f"^line {blank.count(chr(10)) + 2}, column 1"):
        s.run(f"{blank}\nnobody\n{blank}", "c")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("/*", "line 1, column 1: unterminated comment"),
        ("x;\n/* x", "line 2, column 1: unterminated comment"),
        ("\0", "line 1, column 1: a NUL character, which no text of C has: remove it"),
        ("int y;\n\0int z;", "line 2, column 1: a NUL character"),
        ("int y; \0", "line 1, column 8: a NUL character"),
        ('"', "line 1, column 1: missing terminating"),
        ("#define", "line 1, column 8: macro name missing"),
    ],
)
def test_what_is_less_than_a_cell_says_what_is_wrong(s, text, words):
    s.run("int x = 3;", "c")
    with pytest.raises(CompileError, match=words):
        s.run(text, "c")
    assert s.run("x", "c").text == "(int) 3" and "y" not in s


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        (["extern struct S s;", "struct S { int a; };", "struct S s = {4};", "s.a"], "(int) 4"),
        (["extern struct S s;", "struct S { int a; } s = {4};", "s.a"], "(int) 4"),
        (["extern struct S s; struct S { int a; };", "s.a"], "(int) 0"),
        (["extern struct S s; struct S { int a; }; int f(void) { return s.a; }", "struct S s = {4};", "f()"], "(int) 4"),
        (["extern union U u;", "union U { int a; float b; };", "union U u = {4};", "u.a"], "(int) 4"),
        (["typedef struct T T; extern T t;", "struct T { int a; }; T t = {4};", "t.a"], "(int) 4"),
        (["typedef struct T T; extern T t, *p;", "struct T { int a; }; T t = {4}, *p = &t;", "p->a"], "(int) 4"),
        (["extern enum E e;", "enum E { A, B }; enum E e = B;", "e == B"], "(int) 1"),
        (["extern const struct S s; int k = 2;", "struct S { int a; }; const struct S s = {4};", "s.a + k"], "(int) 6"),
    ],
)  # fmt: skip
def test_a_variable_whose_type_is_not_known_yet(s, cells, shown):
    """C11 6.2.5: a type may be incomplete where a variable is declared."""
    for cell in cells[:-1]:
        s.run(cell, "c")
    assert s.run(cells[-1], "c").text == shown


def test_a_variable_whose_type_is_never_known(s):
    with pytest.raises(CompileError, match="'struct S' that is never completed"):
        s.run("struct S s;", "c")
    s.run("extern struct S s;", "c")
    with pytest.raises(CompileError, match="incomplete"):
        s.run("s.a", "c")
    with pytest.raises(LinkError, match="reads s, which nobody defines"):
        s.run("void *p(void) { return &s; }", "c")


UNION = "typedef union { int *f; float *g; } U __attribute__((transparent_union));"


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        (["extern int a[]; int g(int i) { return a[i]; }", "int a[4] = {1, 2, 3};", "g(2)"], "(int) 3"),
        ([f"{UNION} int f(U u) {{ return *u.f; }}", "int k = 3;", "f(&k)"], "(int) 3"),
        (["#include <complex.h>", "double complex z = cexp(0), *p = &z;", "creal(*p)"], "(double) 1.0"),
        # A macro that is put aside.
        (['#define X 3\n#pragma push_macro("X")\n#undef X\n#define X 2', '#pragma pop_macro("X")', "X"], "(int) 3"),
        (['#define X 3', '#pragma push_macro("X")\n#undef X\nint X = 7;\n#pragma pop_macro("X")', "X"], "(int) 3"),
        (['#pragma push_macro("X")\n#define X 2', '#pragma pop_macro("X")', "int X = 3;", "X"], "(int) 3"),
        (['#define X 3\n#pragma push_macro("X")\n#undef X\n#define X 2\nint a(void) { return X; }\n'
          '#pragma pop_macro("X")\nint b(void) { return X; }', "a() * 10 + b()"], "(int) 23"),
        # What a header of one's own says of conditions.
        (['#include "own.h"', "#ifdef EMPTY\nint x = 3;\n#endif", "x"], "(int) 3"),
    ],
)  # fmt: skip
def test_what_a_cell_says_holds_in_later_cells(s, own_header, cells, shown):
    assert [s.run(cell, "c").text for cell in cells][-1] == shown


def test_an_array_of_no_length_waits_for_its_definition(s):
    told = s.run("extern int a[], b[][3]; int g(int i) { return a[i] + b[0][i]; }", "c").notes
    assert not any("warning" in note for note in told)
    s.run("extern int c[]; int h(int i) { return c[i]; }\nint c[] = {1, 2};", "c")
    assert s.run("g(0) + h(1)", "c").text == "(int) 2"
    s.run("int a[4] = {1, 2, 3}, b[2][3] = {{4, 5, 6}};", "c")
    assert s.run("g(2)", "c").text == "(int) 9"


@pytest.fixture
def own_header(tmp_path, monkeypatch):
    """The line that includes a header of one's own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.h").write_text(OWN_HEADER)
    return '#include "own.h"'


def test_a_large_header_without_a_guard_is_included_by_several_cells(s, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "large.h").write_text(f"typedef struct {{ int x; }} state;\n/*{' ' * 70_000}*/\n")
    s.run('#include "large.h"\nint get(state *s) { return s->x; }', "c")
    s.run('#include "large.h"\nint twice(state *s) { return 2 * get(s); }', "c")
    assert s.run("state it = {4}; twice(&it)", "c").text == "(int) 8"
