"""`#pragma pack`: later cells lay structs out as their own cell did."""

from __future__ import annotations

import pytest

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


def test_functions_follow_another_packing(s):
    s.run(PACKED, "c")
    s.run("int f(struct p *x) { return x->n; }", "c")
    s.run(PACKED.replace("(push, 1)", "(push, 4)"), "c")
    assert s.run("struct p x = {1, 7}; f(&x)", "c").value == 7
