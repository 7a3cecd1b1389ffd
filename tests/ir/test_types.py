"""Types: what is read is written as LLVM writes it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import binding

from jitkernel.ir.types import (
    PTR,
    ArrayType,
    FloatType,
    FunctionType,
    IntType,
    NamedType,
    PointerType,
    StructType,
    TypeSyntaxError,
    VectorType,
    parse_type,
    parse_type_at,
    resolve,
)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("i1", "i1"),
        ("i8388607", "i8388607"),
        ("ptr", "ptr"),
        ("ptr addrspace(3)", "ptr addrspace(3)"),
        ("ptr  addrspace ( 3 )", "ptr addrspace(3)"),
        ("[4xi32]", None),
        ("[ 4 x i32 ]", "[4 x i32]"),
        ("{i32,i32}", "{ i32, i32 }"),
        ("{}", "{}"),
        ("<{i8}>", "<{ i8 }>"),
        ("< { i8 } >", "<{ i8 }>"),
        ("<{}>", "<{}>"),
        ("<4 x float>", "<4 x float>"),
        ("<vscale x 2 x i64>", "<vscale x 2 x i64>"),
        ("i32 (i32,...)", "i32 (i32, ...)"),
        ("void ()", "void ()"),
        ("i32(...)", "i32 (...)"),
        ("%pt", "%pt"),
        ('%"a b"', '%"a b"'),
        ('%"plain"', "%plain"),
        ("%0", "%0"),
        ("i32*", "ptr"),
        ("i32 (i32)*", "ptr"),
        ("i32 ; comment\n", "i32"),
        ('target("spirv.Image", void, 1)', 'target("spirv.Image", void, 1)'),
        ("{ i32, [2 x { ptr, <2 x half> }] }", "{ i32, [2 x { ptr, <2 x half> }] }"),
        ("i0", None),
        ("i8388608", None),
        ("int", None),
        ("", None),
        ("i32 i32", None),
        ("[4 x i32", None),
        ("[x i32]", None),
        ("[" * 5000, None),
        ("[99999999999999999999999999 x i8]", None),
    ],
)
def test_reads_and_writes(text, written):
    if written is None:
        with pytest.raises(TypeSyntaxError):
            parse_type(text)
    else:
        assert str(parse_type(text)) == written


def test_stops_where_the_type_ends():
    assert parse_type_at("i32 %x, i64 %y", 8) == (IntType(64), 11)
    assert parse_type_at("void (i32 7)")[0] == parse_type("void")


names = st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1, max_size=8)
scalars = st.one_of(
    st.builds(IntType, st.integers(1, 200)),
    st.sampled_from([FloatType("half"), FloatType("double"), FloatType("x86_fp80"), PTR]),
    st.builds(PointerType, st.integers(0, 300)),
    st.builds(NamedType, names),
)
types = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.builds(ArrayType, st.integers(0, 10**6), inner),
        st.builds(VectorType, st.integers(1, 64), scalars, st.booleans()),
        st.builds(StructType, st.lists(inner, max_size=4).map(tuple), st.booleans()),
        st.builds(FunctionType, scalars, st.lists(inner, max_size=3).map(tuple), st.booleans()),
    ),
    max_leaves=12,
)


@given(types)
@settings(max_examples=100)
def test_written_types_read_back(type):
    assert parse_type(str(type)) == type


def test_llvm_reads_the_same_types():
    for text in ["{ i32, <{ i8, [3 x i24] }>, ptr addrspace(3) }", "[0 x {}]", "<3 x i1>"]:
        module = binding.parse_assembly(f"@g = external global {text}", binding.create_context())
        assert str(next(iter(module.global_variables)).global_value_type) == str(parse_type(text))


def test_resolving_follows_names():
    named = {"a": "%b", "b": "{ i32 }", "o": "opaque", "loop": "%loop"}
    assert resolve(NamedType("a"), named) == StructType((IntType(32),))
    assert resolve(NamedType("o"), named) == NamedType("o")
    assert resolve(NamedType("loop"), named) == NamedType("loop")
    assert resolve(NamedType("missing"), named) == NamedType("missing")
