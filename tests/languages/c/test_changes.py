"""What earlier cells declared is changed, and everything that depends on it follows."""

from __future__ import annotations

import re

import pytest

from jitkernel import Session
from jitkernel.errors import CompileError, EvictError, TypeMismatch
from tests.languages.c.running import run

pytest.importorskip("ziglang")


def test_a_struct_changes_and_functions_follow(s):
    run(s, "struct pt {int x; double y;};", cell_id="pt")
    run(s, "struct pt p = {1, 2.5};", "double y(struct pt *q) { return q->y; }")
    run(s, "double twice(void) { return 2 * y(&p); }")
    assert run(s, "twice()").text == "(double) 5.0"
    result = run(s, "struct pt {double y; int x;};", cell_id="pt")
    assert any(
        re.fullmatch(r"y \(cell \d+\) was compiled again for the new pt", n) for n in result.notes
    )
    assert run(s, "p").text == "(struct pt) {.y = 1.0, .x = 2}"
    assert run(s, "p.y = 7; twice()").text == "(double) 14.0"


def test_one_undo_takes_all_of_it_back(s):
    run(s, "struct pt {int x; double y;};", "struct pt p = {1, 2.5};", "p.y = 4;")
    functions = [f"double y{i}(struct pt *q) {{ return q->y + {i}; }}" for i in range(5)]
    run(s, *functions)
    run(s, "struct pt {double y, z; int x;};")
    assert run(s, "y3(&p)").text == "(double) 4.0"
    s.undo(2)
    assert run(s, "p").text == "(struct pt) {.x = 1, .y = 4.0}"
    assert run(s, "y3(&p)").text == "(double) 7.0"
    s.undo(2)
    s.inspect.program.linker.check()


def test_a_change_that_others_do_not_fit_is_refused_with_their_line(s):
    run(s, "struct pt {int x; double y;};", "\ndouble y(struct pt *q) { return q->y; }")
    with pytest.raises(CompileError, match=r"cell \d+, line 2: no member named 'y'"):
        run(s, "struct pt {int x;};")
    assert run(s, "sizeof(struct pt)").text == "(unsigned long) 16"


def test_a_macro_changes(s):
    run(s, "#define N 3", "int a[N] = {1, 2, 3};", "int total(void) { return N * 10; }")
    anew, again = run(s, "#define N 4").notes
    assert re.fullmatch(r"a \(cell \d+\) has another type now and its first value again", anew)
    assert re.fullmatch(r"total \(cell \d+\) was compiled again for the new N", again)
    assert run(s, "total()").text == "(int) 40"
    assert run(s, "a").text == "(int[4]) {1, 2, 3, 0}"


def test_a_macro_that_came_later_does_not_touch_what_was_there(s):
    run(s, "struct v {int a;};", "int f(struct v *k) { int q = k->a; return q; }", "#define q 77")
    run(s, "struct v {long b; int a;}; struct v one = {5, 6};")
    assert run(s, "f(&one)").text == "(int) 6"


def test_a_signature_changes_and_callers_follow(s):
    run(s, "int f(int x) { return x + 1; }", "int g(int x) { return f(x) * 2; }")
    run(s, "double f(double x) { return x + 0.5; }")
    assert run(s, "g(1)").text == "(int) 3"
    with pytest.raises(CompileError, match=r"cell \d+, line 1: too few arguments"):
        run(s, "int f(int a, int b) { return a; }")
    assert run(s, "g(1)").text == "(int) 3"


def test_a_variable_keeps_its_value_where_its_type_stays(s):
    run(s, "int n = 5;", "int get(void) { return n; }", "n = 8;", "int n;")
    assert run(s, "get()").text == "(int) 8"
    run(s, "int n = 1;")
    assert run(s, "get()").text == "(int) 1"
    run(s, "long n = 1L << 40;")
    assert run(s, "n == 1L << 40").text == "(int) 1"


def test_a_variable_of_a_type_that_changed_begins_anew_and_says_so(s):
    run(s, "struct pt {int x;};", "struct pt p = {3};", "p.x = 9;")
    result = run(s, "struct pt {long a; int x;};")
    assert any("first value" in note and "p" in note for note in result.notes)
    assert run(s, "p").text == "(struct pt) {.a = 3, .x = 0}"


def test_a_pointer_to_what_changed_keeps_its_value(s):
    run(s, "struct pt {int x;};", "struct pt *p = 0;", "int n; p = (void *)&n;")
    run(s, "struct pt {long x;};")
    assert run(s, "(void *)p == &n").text == "(int) 1"


def test_a_cell_that_is_run_again_without_a_type_forgets_it(s):
    run(s, "struct old {int x;}; int n;", cell_id="a")
    run(s, "int n;", cell_id="a")
    with pytest.raises(CompileError, match="incomplete"):
        run(s, "sizeof(struct old)")


def test_a_type_that_others_need_is_not_forgotten(s):
    run(s, "struct old {int x;}; int n;", cell_id="a")
    run(s, "int get(struct old *o) { return o->x; }")
    run(s, "int n;", cell_id="a")
    assert run(s, "struct old o = {4}; get(&o)").text == "(int) 4"


def test_eviction_takes_declarations_along(s):
    run(s, "#define GONE 3\nint here;", "GONE")
    s.evict("here")
    with pytest.raises(CompileError, match="GONE"):
        run(s, "GONE")
    s.undo()
    assert run(s, "GONE").text == "(int) 3"


def test_undo_of_one_cell_that_others_build_on_is_refused(s):
    run(s, "struct pt {int x;};", "struct pt p;")
    with pytest.raises(EvictError, match="uses pt"):
        s.undo(cell=s.number - 1)


def test_other_languages_are_called_and_call(s):
    s.run("define i32 @three() { ret i32 3 }\n@word = global i64 7")
    s.run("def avg(a b) (a + b) * 0.5", "kaleidoscope")
    assert run(s, "three() + word").text == "(long) 10"
    assert run(s, "avg(1, 4)").text == "(double) 2.5"
    run(s, "double cube(double x) { return x * x * x; }")
    assert s.run("cube(3)", "kaleidoscope").text == "27.0"
    assert s.run("@cube(double 2.0)").text == "double 8.0"


def test_another_language_s_user_of_a_signature_is_named(s):
    run(s, "int f(int x) { return x; }")
    s.run("define i32 @user() { %1 = call i32 @f(i32 4)\n ret i32 %1 }")
    with pytest.raises(Exception, match=r"cell \d+ uses it as it is"):
        run(s, "double f(double x) { return x; }")
    assert s.run("@user()").text == "i32 4"


def test_hibernating_functions_follow_too(s):
    run(s, "struct pt {int x; double y;}; struct pt p = {1, 2};")
    run(s, "double y(struct pt *q) { return q->y; }", "y(&p)")
    s.hibernate()
    run(s, "struct pt {double y; int x;};")
    assert run(s, "p.y = 6; y(&p)").text == "(double) 6.0"


def test_a_static_function_is_part_of_its_callers_and_they_follow(s):
    run(s, "static int three(int x) { return x * 3; }\nint use(int x) { return three(x) + 1; }")
    run(s, "int (*p)(int) = three;", "int other(int x) { return three(x); }")
    run(s, "static int three(int x) { return x * 30; }")
    assert [run(s, f"{f}(2)").text for f in ("use", "p", "other")] == [
        "(int) 61", "(int) 60", "(int) 60",
    ]  # fmt: skip
    s.undo()
    assert [run(s, f"{f}(2)").text for f in ("use", "p", "other")] == [
        "(int) 7",
        "(int) 6",
        "(int) 6",
    ]


def test_what_a_string_quotes_is_no_name(s):
    run(
        s, 'static int f(void) { return 1; }\nconst char *g(void) { f(); return "@f(\\"x\\") !3"; }'
    )
    assert run(s, "g()").text == '(const char *) "@f(\\"x\\") !3"'


def test_many_cells_that_follow_are_told_in_few_lines(s):
    run(s, "#define N 1", *(f"int f{i}(void) {{ return N + {i}; }}" for i in range(9)))
    notes = run(s, "#define N 5").notes
    assert len(notes) == 4 and notes[-1] == "and so were 6 more cells"
    assert run(s, "f8()").text == "(int) 13"


def test_a_variable_that_an_undo_brought_back_outlives_the_history():
    with Session(capacity=64 << 20, undo_depth=3) as s:
        run(s, "struct pt {int x;}; struct pt p = {5};", "struct pt {long a; int x;};")
        s.undo()
        run(s, "struct pt p = {6};", cell_id="p")
        for i in range(8):
            run(s, f"long v{i} = {i};")
        assert run(s, "p.x").text == "(int) 6"
        s.check()


def test_variables_of_a_cell_that_is_redefined_after_an_undo_keep_their_memory():
    with Session(capacity=64 << 20, undo_depth=3) as s:
        run(s, "typedef int T;", "T n = 5;", "typedef long T;")
        s.undo()
        run(s, "T n = 6;")
        for i in range(8):
            run(s, f"long v{i} = -1;")
        assert run(s, "n").text == "(T) 6"
        s.check()


def test_a_name_keeps_the_symbol_that_it_was_given(s):
    run(s, 'int f(int x) __asm__("symbol_of_f");\nint v __asm__("symbol_of_v") = 4;')
    run(s, "struct s { int a; };\nint f(int x) { return x + (int)sizeof(struct s); }")
    assert {"symbol_of_f", "symbol_of_v"} <= set(s.symbols)
    assert run(s, "f(1) + v").text == "(int) 9"
    run(s, "struct s { int a, b; };")  # f is compiled again
    assert run(s, "f(1)").text == "(int) 9"
    run(s, "v = 6;\nint v;")
    assert run(s, "v").text == "(int) 6"
    run(s, "int f(int x) { return x; }\nint v = 2;")
    assert run(s, "f(1) + v").text == "(int) 3"
    assert not {"f", "v"} & set(s.symbols)
    s.undo()
    s.check()


@pytest.mark.parametrize(
    "cells",
    [
        ["#include <stdlib.h>\n#include <string.h>\n#define SIZE 4", "void *f(void) { return calloc(1, SIZE); }",
         "f() != NULL && strlen(f()) == 0"],
        ["#define _GNU_SOURCE\n#include <string.h>\nint n;", "#include <stdlib.h>\nint m;",
         "(strchrnul(\"ab\", 'b') != NULL) + (abs(n) == m) == 2"],
        ["typedef struct s s;\nstruct s { int top; s *next; };", "s x;\nint f(s *p) { return p->next == 0; }\nf(&x)",
         "s y; f(&y) + x.top"],
        ["#define PAIR(T) typedef struct { T a, b; } pair_##T;", "PAIR(int) PAIR(long)", "pair_int p = {1}; pair_long q; p.a"],
    ],
)  # fmt: skip
def test_all_cells_run_again_any_number_of_times(s, cells):
    for _ in range(4):
        for index, cell in enumerate(cells):
            result = s.run(cell, "c", cell_id=f"cell {index}")
        assert result.text == "(int) 1"
    for index, cell in [*enumerate(cells)][:-1][::-1]:  # earlier ones again, the last first
        s.run(cell, "c", cell_id=f"cell {index}")
    assert s.run(cells[-1], "c", cell_id=f"cell {len(cells) - 1}").text == "(int) 1"


def test_types_of_cells_in_any_order_stand_in_theirs(s):
    cell = "typedef struct s s;\nstruct s { int top; s *next; };"
    s.run(cell, "c", cell_id="1")
    s.run("s x;\nint f(s *p) { return p->top; }", "c")
    s.run(cell.replace("int", "long"), "c", cell_id="1")
    assert s.run("f(&x) + x.top", "c").text == "(long) 0"


@pytest.mark.parametrize(
    "again",
    ["int f(struct s *p);", "extern struct s t;", "extern struct s t;\nint f(struct s *);\nint g(void) { return f(&t); }"],
)  # fmt: skip
def test_what_is_declared_again_follows_as_before(s, again):
    s.run("struct s { int x; };", "c")
    s.run("int f(struct s *p) { return p->x; }", "c")
    s.run("struct s t = {7};", "c")
    s.run(again, "c")
    s.run("struct s { long pad; int x; };", "c")
    assert s.run("struct s u = {1, 5}; f(&u)", "c").text == "(int) 5"
    assert s.symbols["t"].size == 16
    s.undo(2)
    assert s.run("f(&t)", "c").text == "(int) 7"
    s.check()


def test_a_definition_that_becomes_a_declaration_is_one(s):
    s.run("int f(int x) { return x; }", "c", cell_id="1")
    s.run("int f(int x);", "c", cell_id="1")
    assert "f" not in s.symbols or s.symbols["f"].state != "defined"
    s.run("int f(int x) { return x + 1; }", "c")
    assert s.run("f(1)", "c").text == "(int) 2"


def test_a_declaration_follows_what_another_language_defines(s):
    s.run("int f(int x) { return x; }", "c")
    s.run("define i64 @f(i64 %x) {\n  ret i64 %x\n}")
    s.run("long f(long);", "c")
    assert s.run("f(1L << 33)", "c").text == "(long) 8589934592"


def test_a_header_that_changed_beneath_a_variable(s, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "h.h").write_text("struct h { int a; };\n")
    run(s, '#include "h.h"')
    s.run("struct h v = {7};", "c", cell_id="v")
    (tmp_path / "h.h").write_text("struct h { int a, b; };\n")
    with pytest.raises(TypeMismatch, match=r"another body of that type \(a header that changed"):
        run(s, "v")
    s.run("struct h v = {7};", "c", cell_id="v")
    assert run(s, "v").text == "(struct h) {.a = 7, .b = 0}"


@pytest.mark.parametrize("attributes", [
    '__attribute__((alias("first")))', '__attribute__((weak, __alias__("first")))',
    '[[gnu::alias("first"), gnu::weak]]',
])  # fmt: skip
def test_another_name_of_a_variable(s, attributes):
    cell = f"int first = 4; extern int second {attributes};"
    run(s, cell, "second = 9;", "int f(void) { return second; }")
    assert (run(s, "first").value, run(s, "f()").value) == (9, 9)
    run(s, "int first = 11;")
    assert (run(s, "second").value, run(s, "f()").value) == (11, 11)


@pytest.mark.parametrize(("text", "name", "use"), [
    ("#define N 3", "N", "N"), ("#define N(x) x", "N", "N(2)"), ("enum { M, N };", "N", "N"),
    ("struct s { int x; };", "s", "sizeof(struct s)"), ("typedef int t;", "t", "(t)1"),
    ("static const int k = 3;", "k", "k"), ("enum e { N };", "e", "sizeof(enum e)"),
])  # fmt: skip
def test_what_uses_a_name_that_leaves_its_cell_is_told(s, text, name, use):
    s.run(f"{text}\nint other;", "c", "first")
    user = run(s, f"int f(void) {{ return {use}; }}").cell.number
    result = s.run("int other;", "c", "first")
    number = result.cell.number
    told = f"note: cell {number} no longer declares {name}; f (cell {user}) still uses the old one"
    assert [str(note) for note in result.notes if "no longer" in str(note)] == [told]
    assert not [n for n in s.run("int other;", "c", "first").notes if "no longer" in str(n)]


def test_what_a_condition_has_decided_is_told_when_its_macro_leaves(s):
    s.run("#define FAST\nint other;", "c", "first")
    run(s, "#ifdef FAST\nint f(void) { return 1; }\n#else\nint f(void) { return 2; }\n#endif")
    notes = s.run("int other;", "c", "first").notes
    assert "still is what the FAST of before made" in "\n".join(map(str, notes))


NODE = "struct node { int v; struct node *next; };"


def test_objects_of_an_old_layout_are_told(s):
    run(s, "#include <stdlib.h>", NODE, "struct node *head, *none, here; struct node *table[3];")
    run(s, "typedef struct { struct node *first; int n; } list; list all; int *other;")
    run(
        s,
        "head = calloc(1, sizeof *head); all.first = head; table[2] = head; here.v = 77; other = malloc(4);",
    )
    found = run(s, "struct node { long v; struct node *next, *before; };").notes
    (told,) = [note for note in found if "malloc" in note]
    assert told == (
        "note: head, table, all lead to memory from malloc that has the layout of node from before:"
        " it is read as the new one from now on; allocate it again"
    )
    run(s, "head = calloc(1, sizeof *head); all.first = 0; table[2] = 0;")
    assert not any("malloc" in note for note in run(s, "struct other { int x; };").notes)


DEFINED = "int g(void) { return f(1); }\nint f(int x) { return x + K; }"


@pytest.mark.parametrize("first", ["int f(int);", "int f(int); int f(int y);"])
def test_a_name_is_known_by_each_text_that_declares_it(s, first):
    """A prototype in one cell, the definition below its use in another, run again and again."""
    run(s, first, cell_id="p")
    run(s, DEFINED.replace("K", "1"), cell_id="d")
    run(s, DEFINED.replace("K", "2"), cell_id="d")
    assert s.call("g") == 3
    s.evict("f", force=True)
    run(s, DEFINED.replace("K", "3"), cell_id="d")
    assert s.call("g") == 4
    run(s, "int g(void) { return 5; }", cell_id="d")
    run(s, "int h(void) { return f(3); }", cell_id="h")
    run(s, "", cell_id="p")
    with pytest.raises(CompileError, match="undeclared function 'f'"):
        run(s, "int h(void) { return f(4); }", cell_id="h")
    s.undo()
    run(s, "int f(long x) { return x; }", cell_id="d")
    assert s.call("h") == 3


def test_a_prototype_and_a_definition_change_one_after_the_other(s):
    run(s, "int f(int); extern int v; typedef int t;", cell_id="p")
    text = (
        "int g(void) {{ return f(1) + v; }} int v = 3; typedef int t; int f({} x) {{ return x; }}"
    )
    run(s, text.format("int"), cell_id="d")
    run(s, "int f(long); extern int v; typedef int t;", cell_id="p")
    run(s, text.format("long"), cell_id="d")
    assert s.call("g") == 4
    run(s, "t g(void) { return 7; }", cell_id="d")
    assert s.call("g") == 7


def test_a_macro_that_is_defined_where_there_is_none_stays_when_its_cell_runs_again(s):
    """`#ifndef` asks what stands before the text, not what it said itself the last time."""
    text = "#ifndef _GNU_SOURCE\n#define _GNU_SOURCE 1\n#endif\n#include <stddef.h>\n"
    text += "#ifndef K\n#define K 3\n#endif\nint a;"
    for number in range(3):
        run(s, text + " " * number, cell_id="k")
        run(s, f"int f(void) {{ return 10 * K + _GNU_SOURCE + {number}; }}", cell_id="f")
        assert s.call("f") == 31 + number
    run(s, "int a;", cell_id="k")
    run(s, text.replace("3", "4"), cell_id="k")
    run(s, "int f(void) { return K; }", cell_id="f")
    assert s.call("f") == 4


@pytest.mark.parametrize(
    "macro, member", [("#define N 4", "T m; char c[N];"), ("#define N T", "N m;")]
)
def test_a_struct_with_a_macro_stands_behind_what_a_typedef_of_its_members_names(s, macro, member):
    text = "struct t; typedef struct t T; T *made(void); struct t {{ {} a; }};"
    run(s, macro, cell_id="n")
    run(s, text.format("int"), cell_id="t")
    run(s, f"typedef struct {{ {member} }} S; int size(void) {{ return sizeof(S); }}")
    assert s.call("size") in (4, 8)
    run(s, text.format("long"), cell_id="t")
    assert s.call("size") in (8, 16)


def test_a_macro_between_a_struct_and_its_pointer(s):
    """It is one that is pointed at, however that is written: zlib's `FAR`."""
    run(s, "#define FAR")
    run(s, "typedef struct z { int n; struct st FAR *at; } z_t; typedef z_t FAR *z_p;", cell_id="z")
    text = "typedef struct st {{ z_p z; {} }} FAR state;"
    run(s, text.format("short k;"), cell_id="st")
    run(s, "int f(z_p z) { static state t = {0, 5}; t.z = z; z->at = &t; return t.z->at->k; }")
    run(s, "int g(void) { z_t z; return f(&z) + sizeof(state); }")
    for members in "int k;", "long k;", "long k, more;":
        run(s, text.format(members), cell_id="st")
        assert s.call("g") == 5 + run(s, "sizeof(state)").value


def test_pragmas_that_push_and_pop_in_two_cells_run_again(s):
    push, pop = (
        "#pragma GCC visibility push(default)\nint a = {};",
        "#pragma GCC visibility pop\nint b = {};",
    )
    for number in range(3):
        run(s, push.format(number), cell_id="push")
        run(s, f"int get(void) {{ return a + {number}; }}", cell_id="get")
        run(s, pop.format(number), cell_id="pop")
        assert s.call("get") == 2 * number
    run(s, push.format(5), cell_id="push")
    assert s.call("get") == 7


@pytest.mark.parametrize(
    "first, second, value, size",
    [
        ("enum e { A = 1 };", "enum e { A = 2, B };", "A", 1),
        ("typedef struct { int a; } T;", "typedef struct s { int a, b; } T;", "sizeof(T)", 4),
        ("typedef struct s { int a; } T;", "typedef struct s { long a; } T, *P;", "sizeof(T)", 4),
    ],
)
@pytest.mark.parametrize("leave", ["emptied", "edited", "evicted"])
def test_what_is_said_with_more_names_leaves_what_was_said_before(
    s, first, second, value, size, leave
):
    run(s, first, cell_id="first")
    number = run(s, second, cell_id="second").cell
    if leave == "evicted":
        s.evict(number)
    else:
        run(s, "" if leave == "emptied" else "int z;", cell_id="second")
    assert run(s, value).value == size
    s.undo()
    assert run(s, value).value != size


def test_a_name_of_an_enum_that_others_say_without_it_has_users(s):
    run(s, "enum e { A = 1 };", cell_id="first")
    run(s, "enum e { A = 2, B };", cell_id="second")
    run(s, "int g(void) { return B; }")
    with pytest.raises(CompileError, match=r"cell \d+, line 1: use of undeclared identifier 'B'"):
        run(s, "", cell_id="second")
    assert s.call("g") == 3 and run(s, "A").value == 2
    for value in 5, 7:
        run(s, f"enum e {{ A = {value}, B }};", cell_id="second")
        assert s.call("g") == value + 1


def test_a_cell_all_of_which_another_says_anew_is_emptied(s):
    run(s, "struct s { int a; };", cell_id="first")
    run(s, "struct s { int a, b; };", cell_id="second")
    run(s, "", cell_id="first")
    assert run(s, "sizeof(struct s)").value == 8
    run(s, "", cell_id="second")
    with pytest.raises(CompileError, match="incomplete type 'struct s'"):
        run(s, "sizeof(struct s)")


def test_a_variable_that_others_declare_otherwise_keeps_its_value_when_its_cell_runs_again(s):
    run(s, "int a[3];", cell_id="a")
    run(s, "a[0] = 7;")
    run(s, "extern int a[];")
    run(s, "int a[3];\n", cell_id="a")
    assert run(s, "a[0]").value == 7


def test_a_macro_that_is_the_same_again_is_no_news(s):
    run(s, "#define N 3", cell_id="first")
    run(s, "#define N 4", cell_id="n")
    run(s, "#if N == 4\nint v = 4;\n#endif")
    assert not run(s, "\n#define N 4", cell_id="n").notes


def test_memory_of_a_type_that_an_earlier_cell_only_names(s):
    run(s, "#include <stdlib.h>\ntypedef struct s T;", cell_id="name")
    run(s, "typedef struct s { int a; } T;", cell_id="s")
    run(s, "T *p;", "p = malloc(sizeof *p);")
    (note,) = run(s, "typedef struct s { int a; long b; } T;", cell_id="s").notes
    assert "p leads to memory from malloc" in note
