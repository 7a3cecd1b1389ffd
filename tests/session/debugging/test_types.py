"""Types of debug sections: the same as those of clang's metadata for the same C."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jitkernel.elf.dwarf import DebugInfo
from jitkernel.ir.debug_info import nodes
from jitkernel.session.debugging.types import Types, type_of_ir
from jitkernel.values import debug_info
from jitkernel.values.c import declare
from jitkernel.values.datatype import DataType

SOURCE = """
typedef unsigned char byte; typedef long long ll; typedef int row[4]; typedef row mat[3];
struct node { struct node *next; int v; }; typedef struct node node_t;
enum color { RED, GREEN = 5, BLUE = -1 }; enum big { BIG = 0xffffffffu };
struct bits { unsigned a:3; int b:7; unsigned long c:40; _Bool d:1; enum color e:4; int :5; int f; };
struct anon { int k; union { int i; float f; struct { char c, d; }; };
              int (*cb)(int, const char *, ...); };
struct arrays { int m[3][4]; char s[10]; int flexible[]; };
typedef int vec __attribute__((vector_size(16)));
typedef float vec3 __attribute__((ext_vector_type(3)));
union un { int i; double d; char b[16]; }; struct opaque;
struct one { struct two *p; } one; struct two { struct one o; struct two *q[2]; } two;
node_t node; enum color color; enum big big; struct bits bits; struct anon anon;
struct arrays arrays; vec vec_; vec3 vec3_; mat mat_; union un un; struct opaque *opaque;
void *pointer; const char *const text = "hi"; volatile int vol; int *restrict res;
_Bool truth; char c; signed char sc; byte uc; short s; unsigned short us; unsigned u; long l;
unsigned long ul; ll ll_; float f; double d; long double ld; _Complex double cd;
float _Complex cf; __int128 i128; unsigned __int128 u128; int (*fp)(void); int (*old)();
void (*more)(struct node, ...); int multi[2][3][5]; node_t *list[4]; _Float16 h; __float128 q;
int (*to_array)[7]; struct { int x; } unnamed; const struct node constant; int *const *volatile cp;
"""


def difference(one: DataType, other: DataType) -> str:
    """The first place where two types are not the same; "" for none."""
    seen, left = set(), [("", one, other)]
    facts = ("kind", "name", "size", "bits", "signed", "count", "complete", "constants", "variadic")
    while left:
        path, one, other = left.pop()
        if (id(one), id(other)) in seen:
            continue
        seen.add((id(one), id(other)))
        for fact in facts:
            if getattr(one, fact) != getattr(other, fact):
                return f"{path}: {fact} {getattr(one, fact)}, {getattr(other, fact)}"
        parts = [
            [m.type for m in of.members] + [*of.parameters] + ([of.element] if of.element else [])
            for of in (one, other)
        ]
        places = [[(m.name, m.offset, m.bits, m.shift) for m in of.members] for of in (one, other)]
        if len(parts[0]) != len(parts[1]) or places[0] != places[1]:
            return f"{path}: {places[0]}, {places[1]}"
        left += [(f"{path}/{i}", a, b) for i, (a, b) in enumerate(zip(*parts, strict=True))]
    return ""


@pytest.mark.parametrize("version", [4, 5])
def test_types_are_those_of_the_metadata(version: int, tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    source, text, code = (tmp_path / name for name in ("a.c", "a.ll", "a.o"))
    source.write_text(SOURCE)
    clang = [sys.executable, "-m", "ziglang", "clang", "--target=x86_64-linux-gnu", "-std=gnu17"]
    for more in (["-S", "-emit-llvm", "-o", str(text)], ["-c", "-o", str(code)]):
        command = [*clang, "-g", f"-gdwarf-{version}", *more, str(source)]
        subprocess.run(command, check=True, env={**os.environ, "HOME": str(tmp_path)})
    theirs = debug_info.Types(nodes(text.read_text()))
    info = DebugInfo(code.read_bytes(), {})
    mine = Types(info)
    assert len(info.globals) == 45
    for variable in info.globals:
        expected = theirs.variable(variable.name)
        assert expected is not None
        found = mine.of(variable)
        assert declare(found, variable.name) == declare(expected, variable.name)
        assert difference(found, expected) == "", variable.name
    assert mine.named("struct node").members[0].type.element is mine.named("struct node")
    assert (mine.named("node_t").kind, mine.named("unsigned long").size) == ("typedef", 8)
    assert mine.named("struct nothing") is None
    constants = [mine.enumerator(name) for name in ("GREEN", "BLUE", "x")]
    assert [known and (known[0].kind, known[1]) for known in constants] == [
        ("enum", 5), ("enum", -1), None,
    ]  # fmt: skip


def test_a_long_chain_of_types(tmp_path: Path) -> None:
    """Types that lead to each other through thousands are read without recursion."""
    pytest.importorskip("ziglang")
    chain = "".join(f"struct s{i} {{ struct s{i + 1} *next; }};\n" for i in range(3000))
    source, code = tmp_path / "a.c", tmp_path / "a.o"
    source.write_text(f"struct s3000 {{ int end; }};\n{chain}struct s0 first;\n")
    clang = [sys.executable, "-m", "ziglang", "clang", "--target=x86_64-linux-gnu", "-g", "-c"]
    command = [*clang, str(source), "-o", str(code)]
    subprocess.run(command, check=True, env={**os.environ, "HOME": str(tmp_path)})
    info = DebugInfo(code.read_bytes(), {})
    found = Types(info).of(info.globals[0])
    for _ in range(3000):
        found = found.members[0].type.element
    assert found.name == "s3000" and found.members[0].name == "end"


@pytest.mark.parametrize(
    ("text", "kind", "size", "element"),
    [
        ("i32", "int", 4, ""), ("i1", "int", 1, ""), ("<4 x float>", "vector", 16, "float"),
        ("{ i8, ptr }", "struct", 16, ""), ("ptr", "pointer", 8, ""),
        ("ptr to { i32, ptr }", "pointer", 8, "{ i32, ptr }"), ("ptr to [4 x i8]", "pointer", 8, "[4 x i8]"),
        ("%pt", "struct", 8, ""), ("ptr to %pt", "pointer", 8, "%pt"), ("%none", "bytes", 0, ""),
        ("nonsense type", "bytes", 0, ""),
    ],
)  # fmt: skip
def test_types_of_values(text: str, kind: str, size: int, element: str) -> None:
    found = type_of_ir(text, {"%pt": "{ i32, i32 }", "pt": "{ i32, i32 }"})
    assert (found.kind, found.size) == (kind, size)
    assert (found.element.name if found.element else "") == element
