"""Where a cell of C is cut."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jitkernel.languages.c.declarations import declarators, enumerators, specifiers, tags
from jitkernel.languages.c.pieces import Mismatch, PieceKind, cut
from jitkernel.languages.c.tokens import Unfinished, tokens, words


def kinds(source, types=(), values=()):
    def meaning(name):
        return "type" if name in types else "value" if name in values else ""

    return [(str(p.kind), p.text) for p in cut(source, meaning)]


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("#include <stdio.h>", "directive"),
        ("#define A \\\n  3", "directive"),
        ("int x;", "declaration"),
        ("struct pt {int x; double y;} a, *b = 0;", "declaration"),
        ("typedef int (*fn)(int);", "declaration"),
        ("enum {A, B};", "declaration"),
        ("T x;", "declaration"),
        ("T *x;", "declaration"),
        ("unsigned long long x = 3, y[2] = {1, 2};", "declaration"),
        ("int f(int x);", "declaration"),
        ('__asm__("nop");', "declaration"),
        ('_Static_assert(1, "");', "declaration"),
        ("int f(int x) { return x; }", "function"),
        ("static inline T *f(void) { return 0; }", "function"),
        ("main() { return 0; }", "function"),
        ("int g(a, b) int a; char b; { return a; }", "function"),
        ("int f(void) __attribute__((noinline)) { return 1; }", "function"),
        ("int (*f(int x))(void) { return 0; }", "function"),
        ("f(3);", "statement"),
        ("x = 5;", "statement"),
        ("x * y;", "statement"),
        ("if (a) b(); else c();", "statement"),
        ("for (int i = 0; i < 3; i++) { f(i); }", "statement"),
        ("do x--; while (x);", "statement"),
        ("{ int x; }", "statement"),
        ("again: x++;", "statement"),
        ("switch (x) { case 1: f(); default: g(); }", "statement"),
        ('__asm__ volatile ("nop" : : "r"(x));', "statement"),
        ("f(3)", "expression"),
        ("x", "expression"),
        ("(struct pt){1, 2}", "expression"),
        ("(int[]){1, 2}", "expression"),
        ("({ int x = 1; x; })", "expression"),
    ],
)
def test_a_piece_is_what_it_is(source, kind):
    assert kinds(source, values=("x", "y")) == [(kind, source)]


def test_what_a_name_is_decides():
    assert kinds("a * b;", types=("a",))[0][0] == "declaration"
    assert kinds("a * b;", values=("a",))[0][0] == "statement"
    assert kinds("typedef int a; a * b;")[1][0] == "declaration"


def test_a_cell_is_cut_into_all_its_pieces():
    source = "#define N 3\nint a[N];\nint f(void) { return N; }\na[0] = f();\na[0] + 1"
    assert [kind for kind, _ in kinds(source)] == [
        "directive", "declaration", "function", "statement", "expression",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "first",
    [
        "static alignas(max_align_t) unsigned char store[64];",
        "_Alignas(T) char store[64];",
        "static typeof(x) const y;",
        "_Atomic(T) volatile y;",
        "#define ALIGNED(n) __attribute__((aligned(n)))\nALIGNED(SIZE) char store[64];",
    ],
)
def test_what_is_in_front_of_a_type_is_no_function_of_the_old_style(first):
    second = "static int f(T a) { return 1; }"
    assert kinds(f"{first}\n{second}", types=("T",))[-2:] == [
        ("declaration", first.split("\n")[-1]), ("function", second)
    ]  # fmt: skip


@pytest.mark.parametrize("source", ["int f( {", "int f(void) { return 1;", "/* x", "F(", "if"])
def test_what_is_not_closed_is_unfinished(source):
    with pytest.raises(Unfinished):
        cut(source)


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from(list("(){}[];,=*&#\"'\\/\n :?") + ["int", "x", "if", "struct", "3"]))
)
def test_any_text_is_cut_whole_or_refused(parts):
    source = " ".join(parts)
    try:
        pieces = cut(source)
    except (Unfinished, Mismatch):
        return
    found = [t for p in pieces for t in p.tokens]
    wanted = [t for t in tokens(source)[:-1] if t.text != ";"]
    assert [t for t in found if t.text != ";"] == wanted


def names(source):
    (piece,) = cut(source)
    return [(d.name, d.function) for d in declarators(piece.tokens, piece.body)]


@pytest.mark.parametrize(
    ("source", "declared"),
    [
        ("int x, *y, z[3];", [("x", False), ("y", False), ("z", False)]),
        ("int (*fp)(int), f(void);", [("fp", False), ("f", True)]),
        ("char *(*(*x)(void))[3];", [("x", False)]),
        ("struct s {int a, b;} v;", [("v", False)]),
        ("const volatile unsigned n __attribute__((aligned(8))) = 1;", [("n", False)]),
        ("int a[] = {[2] = 1, 5}, b;", [("a", False), ("b", False)]),
        ("__attribute__((noreturn)) void stop(int);", [("stop", True)]),
        ("_Alignas(16) char c;", [("c", False)]),
        ("typeof(1 + 2) t;", [("t", False)]),
    ],
)
def test_the_names_of_a_declaration(source, declared):
    assert names(source) == declared


def test_specifiers_say_what_a_declaration_is():
    (piece,) = cut("static inline const struct pt {int x;} f(void) { }")
    found = specifiers(piece.tokens)
    assert [piece.tokens[i].text for i in found.local] == ["static", "inline"]
    assert found.tag is not None and (found.tag.word, found.tag.name) == ("struct", "pt")
    (piece,) = cut("extern _Thread_local int x;")
    assert specifiers(piece.tokens).extern and specifiers(piece.tokens).thread


def test_enumerators_and_tags_are_found_inside():
    (piece,) = cut("struct s {enum e {A, B = f(1, 2), C} k; union {int i;} u;};")
    found = tags(piece.tokens)
    assert [(t.word, t.name) for t in found] == [("struct", "s"), ("enum", "e"), ("union", "")]
    assert enumerators(piece.tokens, found[1]) == ["A", "B", "C"]


def test_words_are_those_of_code():
    assert words('f(x.y, "no", p->z) /* not */ + g // never') == {"f", "x", "p", "g"}
    assert PieceKind.DIRECTIVE == "directive"
