"""Calls and signatures, read from the text of a cell."""

from __future__ import annotations

import pytest

from jitkernel.ir.calls import find_calls, suspects
from jitkernel.ir.debug_info import with_locations
from jitkernel.ir.expansion import Expansion
from jitkernel.ir.signature import abi_features, headers


@pytest.mark.parametrize(
    ("header", "convention", "attributes"),
    [
        ("define i32 @f(i32 %x) {", "", ""),
        ("define ccc i32 @f(i32 %x) {", "", ""),
        ("declare fastcc void @f()", "fastcc", ""),
        ("declare cc 8 void @f()", "fastcc", ""),
        ("declare cc 99 void @f()", "cc 99", ""),
        ("declare %fastcc @f()", "", ""),
        ("declare zeroext i1 @f(i8 noundef signext, i16)", "", "zeroext|0:signext"),
        (
            "declare void @f(ptr sret(%p) align 8 %x, i1 zeroext)",
            "",
            "|0:sret(%p) align 8,1:zeroext",
        ),
        ("declare void @f(ptr align 8 byval(%p))", "", "|0:byval(%p) align 8"),
        ("declare void @f(ptr align 8 nonnull)", "", ""),
        (
            "declare swiftcc void @f(ptr swiftself, ptr swifterror)",
            "swiftcc",
            "|0:swiftself,1:swifterror",
        ),
    ],
)
def test_headers(header: str, convention: str, attributes: str) -> None:
    assert headers(header)["f"] == (convention, attributes)


@pytest.mark.parametrize(
    ("type_", "attributes", "host", "says"),
    [
        ("i32 (<4 x float>)", "", "+avx", ""),
        ("i32 (<8 x float>)", "", "+avx", "vectors of 256 bits"),
        ("i32 (<8 x float>)", "", "+sse2", "vectors of 128 bits"),
        ("i32 (<16 x float>)", "", "+avx,+avx512f", "vectors of 512 bits"),
        ("i32 (<16 x float>)", '"target-features"="+avx"', "+avx512f", "vectors of 256 bits"),
        ("half (half)", "", "+sse2", "sse2"),
    ],
)
def test_abi_features(type_: str, attributes: str, host: str, says: str) -> None:
    assert abi_features(type_, attributes, host) == says


CALLS = [
    ("  %r = call i32 @f(i32 1)", "i32 (i32)", True),
    ("  %r = call i32 @f(i64 1)", "i32 (i32)", False),
    ("  %r = call i32 @f()", "i32 (i32)", False),
    ("  call void @f(i32 1)", "i32 (i32)", False),
    ("  %r = tail call noundef signext i32 @f(i32 noundef %x) #1", "i32 (i32)", True),
    ("  %r = call i32 (ptr, ...) @f(ptr @s, i32 1)", "i32 (ptr, ...)", True),
    ("  %r = call i32 @f(ptr @s, i32 1)", "i32 (ptr, ...)", False),
    ("  %r = call {i32,i8} @f(<2 x i8> zeroinitializer)", "{ i32, i8 } (<2 x i8>)", True),
    ("  %r = call bfloat @f(i32 1)", "float (i32)", False),
    ("  %r = call %pt @f(ptr byval(%pt) %x,\n     i32 2)", "%pt (ptr, i32)", True),
    ("  %r = invoke i32 @f(i32 1)\n   to label %a unwind label %b", "i32 (i32)", True),
    ("  %r = call i32 %f(i32 1)\n  %q = load i32, ptr @f", "i32 (i64)", True),
    ('  call void asm "x", ""()\n  store ptr @f, ptr %p', "i32 (i64)", True),
    ("  ; call i32 @f(i64 1)", "i32 (i64)", True),
    ("  %r = call i32 @f (i64 1)", "i32 (i32)", False),
    ("  %r = call\n    ; a comment\n    i32 @f(i64 1)", "i32 (i32)", False),
    ("  %r = call fastcc i32 @f(i32 1)", "i32 (i32)", False),
    ('  %r = call %"a)b" @f(%"a)b" %x)', '%"a)b" (%"a)b")', True),
    ('  %r = call %"@f(" @f(%"@f(" %x)', '%"@f(" (%"@f(")', True),
    ('  call void asm "call @f(i64 1)", ""()', "i32 (i32)", True),
    ('  %call = load i32, ptr @"call @f(i64 1)"', "i32 (i32)", True),
]


@pytest.mark.parametrize(("text", "type_", "fits"), CALLS)
def test_suspects(text: str, type_: str, fits: bool) -> None:
    assert (suspects(find_calls(text), {"f": (type_, "")}) == []) is fits


def test_structs_are_compared_by_structure() -> None:
    bodies = {"a": "{ i32, %b }", "b": "{ ptr }", "c": "{ i32, %d }", "d": "{ ptr }"}
    expanded = Expansion(bodies.get)
    assert expanded("%a (%b)") == expanded("%c (%d)")
    assert expanded("%a (%b)") != expanded("%c (%c)")
    assert Expansion({"l": "{ %l }"}.get)("%l") == "{ %l }"


def test_locations_leave_lines_where_they_are() -> None:
    source = "define void @f() { ; (\n  %x = add i32 1,\n    2 ; )\n  ret void\n}\n; end"
    located = with_locations(source).split("\n")
    assert located[1] == "  %x = add i32 1,"
    assert located[2].startswith("    2, !dbg !") and located[2].endswith(" ; )")
    assert located[3].startswith("  ret void, !dbg !")
    assert located[5] == "; end"
    assert with_locations("@g = global i32 0") == ""
