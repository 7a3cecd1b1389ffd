"""Values: bytes to text and back; LLVM says what the bytes of a constant are."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jitkernel.ir.expressions import parse_expression
from jitkernel.ir.types import VOID, IntType, parse_type
from jitkernel.languages.llvm.evaluate import evaluate
from jitkernel.values.conversion import from_python
from jitkernel.values.python import Pointer
from jitkernel.values.value import (
    TypedValue,
    value_html,
    void,
)

PRE = '<pre style="margin:0;padding:6px 0 0 0.6em;font-size:0.93em">'


def read(text, host):
    return evaluate(parse_expression(text), None, host, text)


# What is typed, and how it is shown (None: the same).
VALUES = [
    ("i32 49", None),
    ("i32 -1", None),
    ("i32 4294967295", "i32 -1"),
    ("i1 true", None),
    ("i1 1", "i1 true"),
    ("i1 -1", "i1 true"),
    ("i7 -64", None),
    ("i24 8388607", None),
    ("i128 -170141183460469231731687303715884105728", None),
    ("i200 5", None),
    ("double 0.1", None),
    ("float 0.5", None),
    ("double -0.0", None),
    ("double 0x7FF0000000000000 (inf)", None),
    ("double inf", "double 0x7FF0000000000000 (inf)"),
    ("double 0x7FF8000000000000 (nan)", None),
    ("float nan", "float 0x7FF8000000000000 (nan)"),
    ("x86_fp80 -inf", "x86_fp80 0xKFFFF8000000000000000 (-inf)"),
    ("float 0xFFF0000000000000 (-inf)", None),
    ("float -inf", "float 0xFFF0000000000000 (-inf)"),
    ("half 0.5", None),
    ("half 0xH7C00 (inf)", None),
    ("bfloat 0xR7F80 (inf)", None),
    ("x86_fp80 0xK3FFF8000000000000000", "x86_fp80 1.0"),
    ("fp128 0xL00000000000000003FFF000000000000", "fp128 1.0"),
    ("ptr null", None),
    ("%pt { i32 1, i32 2 }", None),
    ('%"a b" { %pt { i32 1, i32 2 }, i1 true }', None),
    ("%mixed { i8 1, double 2.5, [3 x i16] [i16 1, i16 -2, i16 3], ptr null }", None),
    ("%packed <{ i8 1, i32 -2 }>", None),
    ("{ i8, i64 } { i8 1, i64 2 }", None),
    ("<{ i8, i64 }> <{ i8 1, i64 2 }>", None),
    ("{} {}", None),
    ("{ {}, [0 x i32], i8 } { {} {}, [0 x i32] [], i8 5 }", None),
    ("[0 x i32] []", None),
    ('[2 x [2 x i8]] [[2 x i8] c"ab", [2 x i8] c"\\00\\FF"]', None),
    ('[6 x i8] c"hello\\00"', None),
    ('[14 x i8] c"hello\\00" (8 more \\00)', None),
    ('[8 x i8] c"a\\00\\00\\00\\00\\00\\00\\00"', None),
    ('[4096 x i8] c"hello\\00" (4090 more \\00)', None),
    ("[9 x i8] zeroinitializer", None),
    ("[9 x double] zeroinitializer", None),
    ("[2 x i16] [i16 0, i16 0]", None),
    ("[1000 x %pt] zeroinitializer", None),
    ('[4 x i8] c"\\22\\5C\\0A~"', None),
    ("[3 x i24] [i24 1, i24 -2, i24 3]", None),
    ("[2 x x86_fp80] zeroinitializer", "[2 x x86_fp80] [x86_fp80 0.0, x86_fp80 0.0]"),
    ("<4 x float> <float 1.0, float 2.0, float -3.5, float 0.0>", None),
    ("<3 x i32> <i32 1, i32 2, i32 3>", None),
    ("<5 x i1> <i1 true, i1 false, i1 true, i1 true, i1 false>", None),
    ("<16 x i1> zeroinitializer", None),
    ("<3 x i7> <i7 1, i7 -1, i7 5>", None),
    ("<2 x ptr> <ptr null, ptr null>", None),
    ("<2 x half> <half 1.0, half 0xH7C00 (inf)>", None),
    ("<2 x i24> <i24 1, i24 -2>", None),
    ("%pt zeroinitializer", "%pt { i32 0, i32 0 }"),
]


@pytest.mark.parametrize(("text", "shown"), VALUES)
def test_bytes_are_llvms_and_text_reads_back(text, shown, host, llvm):
    value = read(text, host)
    size = host.layout(value.type).size
    assert len(value.data) == size
    meant = value.text() if re.search(r"(?:inf|nan)$", text) else text  # words of ours alone
    assert value.data == llvm.bytes_of(for_llvm(meant), size)
    if shown is None and "zeroinitializer" in text:
        shown = value.text()
    assert value.text() == (shown or text)
    assert read(value.text(), host).data == value.data
    if not ("x86_fp80" in value.text() or "fp128" in value.text()):  # decimal is ours alone
        assert llvm.bytes_of(for_llvm(value.text()), size) == value.data


def for_llvm(text: str) -> str:
    """A value's text as a constant of IR: without what is only said of it."""
    text = re.sub(r" \(-?(?:inf|nan)\)", "", text)
    return re.sub(r'" \((\d+) more \\00\)', lambda m: "\\00" * int(m[1]) + '"', text)


scalars = st.one_of(
    st.integers(1, 140).map(lambda n: f"i{n}"),
    st.sampled_from(
        ["half", "bfloat", "float", "double", "x86_fp80", "fp128", "ptr", "%pt", "%packed"]
    ),
)
types = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.tuples(st.integers(0, 5), inner).map(lambda p: f"[{p[0]} x {p[1]}]"),
        st.lists(inner, max_size=4).map(lambda m: "{ " + ", ".join(m) + " }" if m else "{}"),
        st.lists(inner, min_size=1, max_size=4).map(lambda m: "<{ " + ", ".join(m) + " }>"),
    ),
    max_leaves=6,
)
vectors = st.tuples(
    st.integers(1, 9),
    st.sampled_from(["i1", "i3", "i8", "i24", "i64", "half", "float", "double", "ptr"]),
).map(lambda p: f"<{p[0]} x {p[1]}>")


@given(data=st.data())
@settings(max_examples=150, suppress_health_check=["function_scoped_fixture"])
def test_any_bytes_are_shown_and_read_back(data, host):
    """The text of random bytes reads back as a value with the same text and the same bytes in all
    places that hold something (padding is not kept)."""
    type = parse_type(data.draw(st.one_of(types, vectors)))
    size = host.layout(type).size
    raw = data.draw(st.binary(min_size=size, max_size=size))
    value = TypedValue(type, raw, host.layout)
    again = read(value.text(), host)
    assert again.type == type
    assert again.text() == value.text()
    assert len(again.data) == size
    assert read(again.text(), host).data == again.data
    assert value.texts()[1]
    assert repr(value.python) == repr(again.python)


@pytest.mark.parametrize(
    ("text", "python"),
    [
        ("i1 true", True),
        ("i32 -5", -5),
        ("double 0.5", 0.5),
        ("x86_fp80 0.5", 0.5),
        ("ptr null", 0),
        ("ptr 0x7f00", Pointer(0x7F00)),
        ("%pt { i32 1, i32 2 }", (1, 2)),
        ("<3 x i1> <i1 true, i1 false, i1 true>", (True, False, True)),
        ("[2 x %pt] [%pt { i32 1, i32 2 }, %pt { i32 3, i32 4 }]", ((1, 2), (3, 4))),
        ('[3 x i8] c"ab\\FF"', (97, 98, -1)),
    ],
)
def test_python(text, python, host):
    value = read(text, host).python
    assert value == python
    assert type(value) is type(python) or isinstance(value, Pointer)


def test_void_and_pointers(host):
    assert void(host.layout).text() == ""
    assert void(host.layout).python is None
    assert void(host.layout).type == VOID
    value = host.value("ptr", (0x5008).to_bytes(8, "little"))
    assert value.text() == "ptr 0x5008"
    assert value.text(lambda address: f"@g+{address - 0x5000}") == "ptr @g+8"
    assert repr(value.python) == "Pointer(0x5008)"


def test_wide_text_adds_unsigned_hex_and_html_is_escaped(host):
    assert read("i8 -1", host).texts()[1] == "i8 -1 (0xff)"
    assert read("i32 1", host).texts()[1] == "i32 1"
    assert (
        read("[2 x i16] [i16 -2, i16 3]", host).texts()[1] == "[2 x i16] [i16 -2 (0xfffe), i16 3]"
    )
    assert value_html('[3 x i8] c"<&>"') == PRE + "[3 x i8] c&quot;&lt;&amp;&gt;&quot;</pre>"


def test_elision_over_64_elements(host):
    def one(type):
        return (1).to_bytes(host.layout(parse_type(type)).size, "little")

    def shown(type, count):
        return host.value(f"[{count} x {type}]", one(type) * count).text()

    assert shown("i32", 64).count("i32 1") == 64
    assert shown("i32", 65) == "[65 x i32] [" + "i32 1, " * 6 + "... 57 more ..., i32 1, i32 1]"
    assert shown("i8", 1000).endswith("... 992 more ..., i8 1, i8 1]")
    assert shown("i8", 64).startswith('[64 x i8] c"\\01')
    text = host.value("[100 x i8]", b"x" * 99 + b"\0")
    assert text.value_text() == 'c"' + "x" * 99 + '\\00"'
    struct = "{ " + ", ".join(["i8"] * 70) + " }"
    assert (
        host.value(struct, bytes(70)).value_text()
        == "{ " + "i8 0, " * 6 + "... 62 more ..., i8 0, i8 0 }"
    )
    vector = host.value("<128 x i1>", bytes(16)).value_text()
    assert vector == "<" + "i1 false, " * 6 + "... 120 more ..., i1 false, i1 false>"


def test_large_arrays_are_shown_at_once(host):
    value = host.value("[1000000 x i32]", bytes(3_999_999) + b"\1")
    assert "999992 more" in value.text()
    assert host.value("[4000000 x i8]", bytes(4_000_000)).value_text() == "zeroinitializer"
    assert "(3999999 more" in host.value("[4000002 x i8]", b"ab" + bytes(4_000_000)).text()
    assert len(value.python) == 1_000_000


def test_very_wide_integers(host):
    value = read("i20000 -1", host)
    assert value.text().startswith("i20000 0xfff")
    assert read(value.text(), host).data == value.data


@pytest.mark.parametrize(
    ("type", "thing", "text"),
    [
        ("i32", 7, "i32 7"),
        ("i32", True, "i32 1"),
        ("i8", 255, "i8 -1"),
        ("double", 1, "double 1.0"),
        ("float", 0.1, "float 0.1"),
        ("half", float("inf"), "half 0xH7C00 (inf)"),
        ("ptr", None, "ptr null"),
        ("ptr", 16, "ptr 0x10"),
        ("%pt", (1, 2), "%pt { i32 1, i32 2 }"),
        ("<3 x i1>", [True, False, True], "<3 x i1> <i1 true, i1 false, i1 true>"),
        ("[2 x i8]", b"ab", '[2 x i8] c"ab"'),
        (None, 5, "i32 5"),
        (None, 1 << 40, "i64 1099511627776"),
        (None, 0.5, "double 0.5"),
    ],
)
def test_from_python(type, thing, text, host):
    assert from_python(type and parse_type(type), thing, host).text() == text


def test_from_python_strings_are_copied(host):
    value = from_python(parse_type("ptr"), "héy", host)
    assert host.memory[value.python] == "héy".encode() + b"\0"
    value = from_python(None, b"raw", host)
    assert host.memory[value.python] == b"raw\0"
    same = host.value("i32", bytes(4))
    assert from_python(IntType(32), same, host) is same


@pytest.mark.parametrize(
    ("type", "thing", "words"),
    [
        ("i32", 1 << 32, "4294967296 does not fit i32"),
        ("i32", 0.5, "a Python float cannot be i32"),
        ("i32", "x", "a Python str cannot be i32"),
        ("double", 10**400, "beyond the largest double"),
        ("%pt", (1,), "has 2 elements, and 1 are given"),
        ("%pt", (1, "x"), "element 1: a Python str cannot be i32"),
        (None, object(), "needs a type"),
        ("ptr", -1, "a Python int cannot be ptr"),
    ],
)
def test_from_python_refuses(type, thing, words, host):
    from jitkernel.errors import UsageError

    with pytest.raises(UsageError, match=words):
        from_python(type and parse_type(type), thing, host, "argument 1")
