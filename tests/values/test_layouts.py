"""Types of LLVM's as they lie in memory: against LLVM's own data layout, and clang's idea of the
same types in C."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import binding

from jitkernel.errors import CompileError
from jitkernel.ir.types import parse_type
from jitkernel.values.datatype import DataType
from jitkernel.values.ir import data_type, data_type_of

#: The newest first: older ones do not know, or do not survive, every type.
CLANGS = [*(f"clang-{version}" for version in range(25, 13, -1)), "clang"]
CLANG = next(filter(None, map(shutil.which, CLANGS)), None)

NAMED = {"in": "{ i16, double }", "pt": "{ i8, %in, ptr }", "op": "opaque"}

# type, size, alignment, offsets
LAYOUTS = [
    ("i1", 1, 1, []),
    ("i33", 8, 8, []),
    ("i128", 16, 16, []),
    ("half", 2, 2, []),
    ("x86_fp80", 16, 16, []),
    ("fp128", 16, 16, []),
    ("ptr addrspace(270)", 4, 4, []),
    ("{ i8, i32 }", 8, 4, [0, 4]),
    ("<{ i8, i32 }>", 5, 1, [0, 1]),
    ("{}", 0, 1, []),
    ("[0 x i32]", 0, 4, []),
    ("[1000000000000 x {}]", 0, 1, []),
    ("[2 x { i8, i16 }]", 8, 2, []),
    ("<3 x float>", 16, 16, []),
    ("<2 x i24>", 8, 8, []),
    ("%pt", 32, 8, [0, 8, 24]),
]


def read(text: str) -> DataType:
    return data_type_of(parse_type(text), NAMED)


@pytest.mark.parametrize(("text", "size", "align", "offsets"), LAYOUTS)
def test_layouts(text: str, size: int, align: int, offsets: list[int]) -> None:
    type_ = read(text)
    assert (type_.name, type_.size, type_.align) == (text, size, align)
    assert [member.offset for member in type_.members] == offsets


def test_bits_of_a_vector_are_packed() -> None:
    type_ = read("<12 x i1>")
    assert (type_.size, type_.count, type_.stride) == (2, 12, 0)


def test_members() -> None:
    struct, array = read("%pt"), read("[3 x %in]")
    assert (struct.kind, [m.type.name for m in struct.members]) == ("struct", ["i8", "%in", "ptr"])
    assert (array.kind, array.part(0).name, array.count, array.stride) == ("array", "%in", 3, 16)
    assert (struct.elements, struct.scalars, array.elements, array.scalars) == (3, 4, 3, 6)


def test_a_long_array() -> None:
    type_ = read("[10000000000 x i8]")
    assert (type_.size, type_.count, type_.scalars) == (10**10, 10**10, 10**10)


@pytest.mark.parametrize(
    "text",
    ["void", "label", "metadata", "%op", "%zork", "i32 (i32)", "<vscale x 4 x i32>", "token",
     "[2 x void]", "{ i8, label }", "<0 x i32>", "<2 x { i8 }>", "[4 x %op]",
     "[99999999999999999999 x i8]"],
)  # fmt: skip
def test_types_without_a_layout(text: str) -> None:
    with pytest.raises(CompileError):
        read(text)


STRUCTS = {
    "{ i8, i64, i8 }": "struct { char a; long b; char c; }",
    "{ i8, x86_fp80, i8 }": "struct { char a; long double b; char c; }",
    "{ i8, i128 }": "struct { char a; __int128 b; }",
    "{ float, double, ptr, i16 }": "struct { float a; double b; void *c; short d; }",
    "{ i8, { i8, i32 }, i8 }": "struct { char a; struct { char a; int b; } b; char c; }",
    "<{ i8, i64, i16 }>": "struct __attribute__((packed)) { char a; long b; short c; }",
    "{ i8, [3 x i16], i64 }": "struct { char a; short b[3]; long c; }",
    "{ i8, <4 x float> }": "struct { char a; float b __attribute__((vector_size(16))); }",
    "{ i8, half, bfloat }": "struct { char a; _Float16 b; __bf16 c; }",
}


def clang(source: str) -> subprocess.CompletedProcess[str]:
    """The IR of a piece of C."""
    assert CLANG is not None
    command = [CLANG, "-fno-crash-diagnostics", "-x", "c", "-S", "-emit-llvm", "-o", "-", "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True)


@pytest.mark.skipif(CLANG is None, reason="clang, the oracle, is not installed (apt: clang)")
@pytest.mark.parametrize("type_", STRUCTS)
def test_structs_as_clang_lays_them_out(type_: str) -> None:
    layout = read(type_)
    # A clang that does not know the type, or crashes (clang 14 where a struct holds a __bf16), is
    # no oracle for it.
    declared = f"#include <stddef.h>\ntypedef {STRUCTS[type_]} s;\n"
    if clang(declared + "s probe;").returncode:
        pytest.skip(f"{CLANG} cannot compile {STRUCTS[type_]}")
    numbers = ["sizeof(s)", "_Alignof(s)"]
    numbers += [f"offsetof(s, {'abcd'[i]})" for i in range(len(layout.members))]
    done = clang(f"{declared}const unsigned long r[] = {{ {', '.join(numbers)} }};")
    assert done.returncode == 0, done.stderr
    match = re.search(r"@r = .*constant \[\d+ x i64\] \[(.*?)\]", done.stdout)
    assert match, done.stdout
    found = [int(word.split()[1]) for word in match[1].split(", ")]
    assert found == [layout.size, layout.align, *[m.offset for m in layout.members]]


LEAVES = st.sampled_from(
    [f"i{bits}" for bits in (1, 7, 8, 16, 24, 32, 33, 64, 65, 100, 128, 129, 256, 300)]
    + ["half", "bfloat", "float", "double", "x86_fp80", "fp128", "ppc_fp128"]
    + ["ptr", "ptr addrspace(3)", "ptr addrspace(270)", "ptr addrspace(271)", "ptr addrspace(272)"]
)
TYPES = st.recursive(
    LEAVES | st.builds("<{} x {}>".format, st.integers(1, 40), LEAVES),
    lambda inner: (
        st.builds("[{} x {}]".format, st.integers(0, 5), inner)
        | st.lists(inner, max_size=5).map(lambda of: f"{{ {', '.join(of)} }}" if of else "{}")
        | st.lists(inner, max_size=5).map(lambda of: f"<{{ {', '.join(of)} }}>" if of else "<{}>")
    ),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def llvm() -> Callable[[str], tuple[Any, Any]]:
    """LLVM's own data layout of this machine, and its type of a text."""
    binding.initialize_native_target()
    machine = binding.Target.from_default_triple().create_target_machine()
    data = machine.target_data
    context = binding.create_context()

    def asked(text: str) -> tuple[Any, Any]:
        source = f'target datalayout = "{data}"\n@v = external global {text}'
        module = binding.parse_assembly(source, context)
        return data, (module, module.get_global_variable("v").global_value_type)

    return asked


@settings(max_examples=100)
@given(TYPES)
def test_sizes_and_places_are_llvms(llvm: Callable[[str], tuple[Any, Any]], text: str) -> None:
    data, (_, theirs) = llvm(text)
    type_ = data_type(text)
    assert type_.size == data.get_abi_size(theirs)
    assert type_.align == data.get_abi_alignment(theirs)
    offsets = [data.get_element_offset(theirs, i) for i in range(len(type_.members))]
    assert [member.offset for member in type_.members] == offsets
    assert type_.name == text
