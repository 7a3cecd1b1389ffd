"""IR that brings debug information of its own: what `clang -g` writes of tests/data/walk.c."""

from __future__ import annotations

from pathlib import Path

import pytest

from jitkernel.compiler.pool import CompilerPool
from jitkernel.compiler.records import Options, Request
from jitkernel.ir.debug_info import Origins, without_locations

DATA = Path(__file__).parent.parent / "data"
WALK = {level: (DATA / f"walk_g_O{level}.ll").read_text() for level in (0, 2)}


@pytest.mark.parametrize("clang", [0, 2])
@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_lines_are_those_of_the_ir(pool: CompilerPool, clang: int, level: int) -> None:
    """The first load of @first, in whatever line of the IR, stands at the function's begin."""
    source = WALK[clang]
    table = pool.lines(Request(source, Options(level, ignore_optnone=True)))
    lines = source.split("\n")
    lines_of = [line for _, _, (line, *_) in table]
    found = {lines[line - 1].partition(",")[0].strip() for line in lines_of if line}
    assert {"ret i32 %18", "%10 = load i32"} <= found if clang == 0 else "ret i32 %3" in str(found)
    assert not any(
        line >= lines.index("}") and lines[line - 1].startswith("!") for line in lines_of
    )
    assert max(lines_of) < source[: source.index("attributes #0")].count("\n")


def test_origins() -> None:
    source = WALK[2]
    origins = Origins(source)

    def line(start: str) -> str:
        return origins.line(1 + next(i for i, t in enumerate(source.split("\n")) if start in t))

    assert line("%6 = load") == "  %6 = load i32, ptr %5, align 8 ; walk.c:12"
    assert line("%7 = shl") == "  %7 = shl nsw i32 %6, 1 ; walk.c:6, inlined at walk.c:12"
    assert line("@first(").endswith("#1 { ; walk.c:18")
    assert line("%4 = phi") == "  %4 = phi i32 [ %8, %3 ], [ 0, %1 ]"  # none is named
    assert line("%13 = phi").endswith("[ %8, %3 ], !dbg !28")  # line 0: the compiler's own
    assert origins.line(0) == origins.line(99_999) == ""
    assert Origins("ret void, !dbg !1").line(1) == "ret void, !dbg !1"


def test_a_switch_and_what_leads_nowhere() -> None:
    source = """\
define void @f(i32 %x) !dbg !2 {
  switch i32 %x, label %d [
    i32 1, label %d
  ], !dbg !3
d:
  ret void, !dbg !4
}
!0 = !DIFile(filename: "src/a.c", directory: "/")
!2 = distinct !DISubprogram(name: "f", scope: !0, file: !0, line: 3)
!3 = !DILocation(line: 4, scope: !2)
!4 = !DILocation(line: 5, scope: !4, inlinedAt: !4)
"""
    assert [Origins(source).of(n) for n in range(1, 7)] == ["a.c:3", "a.c:4", "", "a.c:4", "", ""]


def test_only_debug_information_goes() -> None:
    source = """\
@s = constant [12 x i8] c", !dbg !1; \\00", !dbg !0
define void @f() !dbg !2 { ; , !dbg !7
  #dbg_value(i32 1, !3, !DIExpression(), !4)
  call void @llvm.dbg.value(metadata i32 1, metadata !3, metadata !DIExpression()), !dbg !4
  ret void, !prof !5, !dbg !DILocation(line: 1, scope: !2)
}
!6 = distinct !{!6, !7}
!7 = !DILocation(line: 4, scope: !2)
"""
    assert without_locations(source).split("\n") == [
        '@s = constant [12 x i8] c", !dbg !1; \\00", !dbg !0',
        "define void @f() { ; , !dbg !7",
        "",
        "",
        "  ret void, !prof !5",
        "}",
        "!6 = distinct !{!6, !7}",
        '!7 = !{!"location"}',
        "",
    ]
