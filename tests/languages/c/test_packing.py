"""`#pragma pack`: later cells lay structs out as their own cell did."""

from __future__ import annotations

import re

import pytest

from jitkernel.errors import CompileError

pytest.importorskip("ziglang")
PACKED = "#pragma pack(push, 1)\nstruct p { char c; int n; };\n#pragma pack(pop)\nstruct q { char c; int n; };"
SIZES = "sizeof(struct p) * 10 + sizeof(struct q)"


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        ([PACKED], 58),
        ([PACKED, PACKED.replace("(push, 1)", "(push, 2)")], 68),
        (["#pragma pack(2)\nstruct p { char c; int n; };\n#pragma pack()\nstruct q { char c; int n; };"], 68),
        (["struct q { char c; int n; };", "#pragma pack(1)", "struct p { char c; int n; };", "#pragma pack()"], 58),
        (["struct q { char c; int n; };", "#pragma pack(push, 1)", "struct p { char c; int n; };"], 58),
        (["#pragma pack(1)\ntypedef struct p { char c; int n; } p;\n#pragma pack()\n", "struct q { char c; p n; int m; };"],
         62),
    ],
)  # fmt: skip
def test_structs_keep_their_layout(s, cells, shown):
    for cell in cells:
        s.run(cell, "c")
    assert s.run(SIZES, "c").value == shown
    s.run("int f(struct p *x) { return x->n; }", "c")
    assert s.run("struct p x = {1, 7}; f(&x)", "c").value == 7
    assert s.run(SIZES, "c").value == shown


def operator(directive: str) -> str:
    """`#pragma text` as `_Pragma("text")`."""
    text = directive.removeprefix("#pragma ").replace("\\", "\\\\").replace('"', '\\"')
    return f'_Pragma("{text}")'


@pytest.mark.parametrize(
    "form",
    [
        "{0} struct p {{ char c; int n; }}; {1} struct q {{ char c; int n; }};",
        "{0}\nstruct p {{ char c; int n; }}; {1}\nstruct q {{ char c; int n; }};",
        "#define IN {0}\n#define OUT {1}\nIN struct p {{ char c; int n; }}; OUT struct q {{ char c; int n; }};",
        "#define DO(x) _Pragma(#x)\nDO(pack(push, 1)) struct p {{ char c; int n; }}; DO(pack(pop))\n"
        "struct q {{ char c; int n; }};",
        "#define DO(x) _Pragma(#x)\n#define IN DO(pack(push, 1))\n#define OUT DO(pack(pop))\n"
        "IN struct p {{ char c; int n; }}; OUT struct q {{ char c; int n; }};",
        "{0} {1} {0} struct p {{ char c; int n; }}; {1} {1} struct q {{ char c; int n; }};",
    ],
)  # fmt: skip
@pytest.mark.parametrize("apart", [False, True])
def test_as_an_operator(s, form, apart):
    """C11 6.10.9, in one cell and in several."""
    cell = form.format(operator("#pragma pack(push, 1)"), operator("#pragma pack(pop)"))
    for part in re.split(r"(?<=\)\)|\};)(?!$) |\n(?!#)" if apart else r"\Z", cell):
        s.run(part, "c")
    assert s.run(SIZES, "c").value == 58
    s.run("struct p x = {1, 7}; int f(struct p *x) { return x->n; }", "c")
    assert s.run("f(&x)", "c").value == 7


def test_any_pragma_as_an_operator(s):
    s.run('#define X 3\n_Pragma("push_macro(\\"X\\")")\n#undef X\n#define X 2', "c")
    assert s.run("X", "c").value == 2
    s.run(r'_Pragma(L"pop_macro(\"X\")")', "c")
    assert s.run("X", "c").value == 3
    s.run(
        r'_Pragma("push_macro(\"X\")") int f(void) { return X; } _Pragma("pop_macro(\"X\")")', "c"
    )
    assert s.run("f()", "c").value == 3
    s.run('_Pragma("GCC poison hemlock")', "c")
    with pytest.raises(CompileError, match="line 1, column 5: attempt to use a poisoned"):
        s.run("int hemlock;", "c")
    for weak in ("#pragma weak {0}=g\n", '_Pragma("weak {0}=g") '):
        name = "ab"[weak[0] == "_"]
        s.run(weak.format(name) + f"int g(void) {{ return 5; }} int {name}(void);", "c")
        assert s.run(f"{name}()", "c").value == 5
    s.run(
        'int h(int n) { _Pragma("clang loop unroll(disable)") while (n > 9) n--; return n; }', "c"
    )
    assert s.run("h(12)", "c").value == 9


def test_functions_follow_another_packing(s):
    s.run(PACKED, "c")
    s.run("int f(struct p *x) { return x->n; }", "c")
    s.run(PACKED.replace("(push, 1)", "(push, 4)"), "c")
    assert s.run("struct p x = {1, 7}; f(&x)", "c").value == 7
