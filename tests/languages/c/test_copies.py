"""What a static or inline function holds that a copy of it would not have."""

from __future__ import annotations

import itertools

import pytest

pytest.importorskip("ziglang")


THREADED = """{word} int run(const unsigned char *code) {{
    static const void *const table[] = {{&&increment, &&twice, &&halt}};
    int a = 0;
    goto *table[*code++];
increment: a++; goto *table[*code++];
twice: a *= 2; goto *table[*code++];
halt: return a;
}}
int answer(void) {{ unsigned char code[] = {{0, 0, 1, 1, 0, 2}}; return run(code); }}"""
LABELLED = r"""{word} int sum(int n) {{
    int s;
    __asm__("xorl %0, %0\nagain:\taddl %1, %0\n\tdecl %1\n\tjnz again" : "=&r"(s), "+r"(n));
    return s;
}}
int answer(void) {{ return sum(10); }}"""


@pytest.mark.parametrize("word", ["static", "static inline", "inline", ""])
@pytest.mark.parametrize(("cell", "value"), [(THREADED, 9), (LABELLED, 55)])
def test_labels_are_those_of_one_function(s, word, cell, value):
    s.reset()
    for _ in range(2):
        s.run(cell.format(word=word), "c")
        assert s.run("answer()", "c").text == f"(int) {value}"


def test_labels_that_each_copy_has_for_itself(s):
    s.reset()
    s.run(
        'static int f(int n) { __asm__("movq %%fs:0, %%rax\\n1: decl %0\\n.Lx%=: jnz 1b"'
        ' : "+r"(n) : : "rax"); return n; }\nint g(void) { return f(3); }',
        "c",
    )
    assert s.run("g()", "c").text == "(int) 0"
    assert s.inspect.program.holders(["f"]), "such labels may be there more than once"


MEMBERS = ("char", "short", "int", "long", "char *", "float", "double")
STRUCTS = [
    *((a,) for a in MEMBERS),
    *itertools.product(MEMBERS, repeat=2),
    *(
        pair + ("float",)
        for pair in itertools.product(("char", "int", "float", "double"), repeat=2)
    ),
]
TYPES = [
    *(" ".join(("struct {", *(f"{t} m{n};" for n, t in enumerate(s)), "}")) for s in STRUCTS),
    *(f"struct {{ char c[{n}]; }}" for n in (3, 8, 9, 15, 16, 17)),
    *(f"struct {{ float c[{n}]; }}" for n in (2, 3, 4, 5)),
    "struct { int a : 3; long b : 50; unsigned char c : 5; }", "union { double d; long l[2]; }",
    "struct __attribute__((packed)) { char a; double d; int b; }",
    *(f"{t} _Complex" for t in ("float", "double", "long double")),
    "struct { float _Complex z; double d; }", "long double", "struct { long double d; }",
    "__int128", "struct { __int128 i; }", "_BitInt(100)", "_Float16", "_Bool",
    *(f"__attribute__((vector_size({n}))) float" for n in (8, 16, 32, 64)),
    "struct { int v __attribute__((vector_size(16))); }",
]  # fmt: skip


def test_functions_return_every_class_of_type_by_value(s):
    """Psabi 3.2.3: in registers of each kind, in two of them, and in memory."""
    s.reset()
    kinds = itertools.cycle(("static", "inline", "static inline"))
    s.run("#include <string.h>", "c")
    s.run(
        "\n".join(
            f"typedef {type} t{n};\n{word} t{n} same{n}(t{n} x, int y) {{ return x; }}\n"
            f"int f{n}(void) {{\n  t{n} a, b; memset(&a, 0, sizeof a); memset(&b, 0, sizeof b);\n"
            f"  *(char *)&a = 1; b = same{n}(a, 3); return *(char *)&b;\n}}"
            for n, (type, word) in enumerate(zip(TYPES, kinds, strict=False))
        ),
        "c",
    )
    total = " + ".join(f"f{n}()" for n in range(len(TYPES)))
    assert s.run(total, "c").text == f"(int) {len(TYPES)}"


def test_a_function_that_returns_two_registers_is_followed(s):
    s.reset()
    s.run(
        "typedef struct { double x, y; } pt;\nstatic pt mid(pt a) { return (pt){a.x / 2, a.y / 2}; }\n"
        "double half(double x) { return mid((pt){x, 0}).x; }",
        "c",
    )
    assert s.run("half(8)", "c").text == "(double) 4.0"
    s.run("static pt mid(pt a) { return (pt){a.x / 4, 0}; }", "c")
    assert s.run("half(8)", "c").text == "(double) 2.0"
