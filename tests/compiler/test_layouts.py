"""Layouts, against clang's own idea of the same types in C, and arithmetic where C has none."""

from __future__ import annotations

import random
import re
import shutil
import subprocess

import pytest

from jitkernel.compiler import CompilerPool
from jitkernel.compiler.records import SCALARS_LIMIT
from jitkernel.errors import CompileError
from jitkernel.ir.types import parse_type
from jitkernel.languages.llvm.values import plain_layout

#: The newest first: older ones do not know, or do not survive, every type.
CLANGS = [*(f"clang-{version}" for version in range(25, 13, -1)), "clang"]
CLANG = next(filter(None, map(shutil.which, CLANGS)), None)

NAMED = "%in = type { i16, double }\n%pt = type { i8, %in, ptr }\n%op = type opaque\n"

# type, size, alignment, (path, offset) of each scalar
LAYOUTS = [
    ("i1", 1, 1, [((), 0)]),
    ("i33", 8, 8, [((), 0)]),
    ("i128", 16, 16, [((), 0)]),
    ("half", 2, 2, [((), 0)]),
    ("x86_fp80", 16, 16, [((), 0)]),
    ("fp128", 16, 16, [((), 0)]),
    ("{ i8, i32 }", 8, 4, [((0,), 0), ((1,), 4)]),
    ("<{ i8, i32 }>", 5, 1, [((0,), 0), ((1,), 1)]),
    ("{}", 0, 1, []),
    ("[0 x i32]", 0, 4, []),
    ("[1000000000000 x {}]", 0, 1, []),
    ("[2 x { i8, i16 }]", 8, 2, [((0, 0), 0), ((0, 1), 2), ((1, 0), 4), ((1, 1), 6)]),
    ("<3 x float>", 16, 16, [((0,), 0), ((1,), 4), ((2,), 8)]),
    ("<2 x i24>", 8, 8, [((0,), 0), ((1,), 3)]),
    ("%pt", 32, 8, [((0,), 0), ((1, 0), 8), ((1, 1), 16), ((2,), 24)]),
]


@pytest.mark.parametrize(("type_", "size", "align", "scalars"), LAYOUTS)
def test_layouts(
    pool: CompilerPool,
    type_: str,
    size: int,
    align: int,
    scalars: list[tuple[tuple[int, ...], int]],
) -> None:
    (layout,) = pool.layouts([type_], NAMED)
    assert (layout.type, layout.size, layout.align) == (type_, size, align)
    assert [(path, offset) for path, _, offset in layout.scalars] == scalars
    assert layout.complete


def test_bits_of_a_vector_are_packed(pool: CompilerPool) -> None:
    (layout,) = pool.layouts(["<12 x i1>"])
    assert (layout.size, layout.bits, layout.count, layout.stride) == (2, 1, 12, 0)
    assert layout.packed
    assert {offset for _, _, offset in layout.scalars} == {0}


def test_members(pool: CompilerPool) -> None:
    struct, array = pool.layouts(["%pt", "[3 x %in]"], NAMED)
    assert (struct.kind, struct.elements, struct.offsets) == (
        "struct",
        ("i8", "%in", "ptr"),
        (0, 8, 24),
    )
    assert (array.kind, array.elements, array.count, array.stride) == ("array", ("%in",), 3, 16)


def test_a_long_list_is_cut(pool: CompilerPool) -> None:
    (layout,) = pool.layouts(["[10000000000 x i8]"])
    assert (layout.size, layout.count) == (10**10, 10**10)
    assert len(layout.scalars) == SCALARS_LIMIT and not layout.complete


@pytest.mark.parametrize(
    "type_",
    ["void", "label", "metadata", "%op", "%zork", "i32 (i32)", "<vscale x 4 x i32>", "token"],
)
def test_types_without_a_layout(pool: CompilerPool, type_: str) -> None:
    with pytest.raises(CompileError):
        pool.layouts([type_], NAMED)


def test_several_at_once_keep_their_order(pool: CompilerPool) -> None:
    types = ["i64", "i8", "i64", "ptr", "%pt"]
    assert [layout.type for layout in pool.layouts(types, NAMED)] == types
    assert pool.layouts([]) == []


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
def test_structs_as_clang_lays_them_out(pool: CompilerPool, type_: str) -> None:
    (layout,) = pool.layouts([type_])
    # A clang that does not know the type, or crashes (clang 14 where a struct holds a __bf16), is
    # no oracle for it.
    declared = f"#include <stddef.h>\ntypedef {STRUCTS[type_]} s;\n"
    if clang(declared + "s probe;").returncode:
        pytest.skip(f"{CLANG} cannot compile {STRUCTS[type_]}")
    numbers = ["sizeof(s)", "_Alignof(s)"]
    numbers += [f"offsetof(s, {'abcd'[i]})" for i in range(len(layout.offsets))]
    done = clang(f"{declared}const unsigned long r[] = {{ {', '.join(numbers)} }};")
    assert done.returncode == 0, done.stderr
    match = re.search(r"@r = .*constant \[\d+ x i64\] \[(.*?)\]", done.stdout)
    assert match, done.stdout
    found = [int(word.split()[1]) for word in match[1].split(", ")]
    assert found == [layout.size, layout.align, *layout.offsets]


SCALARS = ("i1", "i8", "i16", "i32", "i64", "float", "double", "ptr", "i24", "half", "x86_fp80")


def test_what_is_laid_out_without_asking_is_laid_out_as_llvm_has_it(pool: CompilerPool) -> None:
    order = random.Random(5)
    types = [*SCALARS, "ptr addrspace(1)", "{}", "<{ i8, i64 }>", "{ { i8 }, i8 }", "[2 x i32]"]
    for length in [*range(1, 9), 64, 65]:
        for _ in range(25):
            members = order.choices(SCALARS[:8], k=length)
            if order.random() < 0.1:
                members[-1] = order.choice(SCALARS[8:])
            types.append(f"{{ {', '.join(members)} }}")
    own = [plain_layout(parse_type(text)) for text in types]
    asked = pool.layouts(types)
    assert [a for a in own if a] == [b for a, b in zip(own, asked, strict=True) if a]
    plain = {text for text, found in zip(types, own, strict=True) if found}
    assert set(SCALARS[:8]) < plain and len(plain) > 150
