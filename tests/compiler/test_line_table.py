"""The line of an address, found by compiling once more."""

from __future__ import annotations

import io

import pytest
from elftools.elf.elffile import ELFFile

from jitkernel.compiler.line_table import beside, extent, line_table
from jitkernel.compiler.pool import CompilerPool
from jitkernel.compiler.records import BODY, Lent, LineTable, Options, Request, own_line
from jitkernel.elf.dwarf.dies import Die
from jitkernel.ir.debug_info import with_locations

SOURCE = """; a cell
@g = global i32 0
declare i32 @pers(...)
declare void @may(ptr)
define i32 @f(ptr %p, i32 %n) personality ptr @pers { ; head (
entry:
  %x = load volatile i32,   ; a comment {
     ptr %p
  switch i32 %n, label %a [
    i32 1, label %b
    i32 2, label %c
  ]
a:
  %q = sdiv i32 %x, %n
  br label %c
b: invoke void @may(ptr %p)
     to label %a unwind label %lp
lp:
  %l = landingpad { ptr, i32 }
     cleanup
     catch ptr null
  call void @may(ptr @g)
  resume { ptr, i32 } %l
c:
  %r = phi i32 [ %q, %a ], [ 7, %entry ]
  store volatile i32 %r, ptr @g
  ret i32 %r
}
define void @one() { ret void }
define i32 @caller(ptr %p, i32 %n) section ".text.hot" {
  %v = load volatile i32, ptr %p

  %w = udiv i32 %n, %v
  ret i32 %w
}
"""


def at(table: LineTable, section: str, offset: int) -> int:
    """The line of the byte at `offset`: that of the last row not past it."""
    return [lines[0] for name, start, lines in table if name == section and start <= offset][-1]


def every(table: LineTable, section: str = ".text") -> set[int]:
    """The lines that a section's code comes from."""
    return {line for name, _, lines in table if name == section for line in lines}


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_the_line_of_each_instruction(pool: CompilerPool, level: int) -> None:
    request = Request(SOURCE, Options(level))
    table = pool.lines(request)
    assert every(table) >= {7, 14, 22, 26}  # the load, the division, the call, the store
    hot = ELFFile(io.BytesIO(pool.compile(request).object)).get_section_by_name(".text.hot")
    assert hot is not None
    divide = hot.data().index(b"\xf7")  # div r/m32
    assert at(table, ".text.hot", divide) == 33
    assert at(table, ".text.hot", 0) in (30, 31)  # the load may be the first instruction


def test_the_table_as_another_reader_sees_it(pool: CompilerPool) -> None:
    """pyelftools, on an object with one text section."""
    source = SOURCE.replace('section ".text.hot" ', "")
    code = pool.compile(Request(with_locations(source), Options(0))).object
    dwarf = ELFFile(io.BytesIO(code)).get_dwarf_info()
    wanted: dict[int, int] = {}
    for unit in dwarf.iter_CUs():
        program = dwarf.line_program_for_CU(unit)
        assert program is not None
        for entry in program.get_entries():
            if entry.state and entry.state.end_sequence:
                wanted.setdefault(entry.state.address, 0)
            elif entry.state:
                wanted[entry.state.address] = entry.state.line
    found = {(offset, line) for _, offset, (line, *_) in line_table(code)}
    assert found == set(wanted.items())


def test_lines_count_from_the_cell(pool: CompilerPool) -> None:
    source = "%pt = type { i32 }\n; generated\n" + "define void @f() {\n  ret void\n}"
    table = pool.lines(Request(source, first_line=3))
    assert every(table) in ({0, 2}, {0, 1, 2})


def test_of_inlined_code_the_calls_are_told(pool: CompilerPool) -> None:
    """From one compile: of a function of the text, and of one of another text."""
    source = """declare i32 @lent(i32)
define internal i32 @inner(i32 %x) {
  %a = mul i32 %x, 3
  %b = add i32 %a, 7
  ret i32 %b
}
define i32 @outer(i32 %x) {
  %p = call i32 @inner(i32 %x)
  %q = call i32 @lent(i32 %p)
  %r = xor i32 %q, 77
  ret i32 %r
}"""
    text = "define available_externally i32 @lent(i32 %x) {\n  %a = sdiv i32 %x, 3\n  ret i32 %a\n}"
    table = pool.lines(Request(source, bodies=(Lent("c0de" * 4, "lent", text),)))
    every_row = {lines for _, _, lines in table}
    assert {(4, 8), (BODY + 2, 9), (10,), (11,)} <= every_row
    assert {own_line(lines) for lines in every_row if lines[0] > 9} == {9, 10, 11}


def test_debug_information_of_its_own_is_used(pool: CompilerPool) -> None:
    source = with_locations("define void @f() {\n\n\n  ret void\n}")
    assert 4 in every(pool.lines(Request(source)))


def test_braces_before_the_body_are_no_body(pool: CompilerPool) -> None:
    source = "define void @f() prefix { i32, i8 } { i32 1, i8 2 } {\n\n\n  ret void\n}"
    assert 4 in every(pool.lines(Request(source)))


@pytest.mark.parametrize("source", ["", "@g = global i32 0", "define zork"])
def test_without_lines_the_table_is_empty(pool: CompilerPool, source: str) -> None:
    assert pool.lines(Request(source)) == ()


def test_code_is_compared(pool: CompilerPool) -> None:
    one = pool.compile(Request("define i32 @f() { ret i32 1 }")).object
    two = pool.compile(Request("define i32 @f() { ret i32 2 }")).object
    assert beside(one, one)[0] >= 0 > beside(one, two)[0]


def test_lines_of_code_that_looks_into_a_constant_of_another_cell(pool: CompilerPool) -> None:
    """It is lent to that compile too, though there is nothing in it to locate."""
    lent = Lent("c0ffee", "t", "@t = constant [2 x i32] [i32 7, i32 8]\n", telling=True)
    source = (
        "@t = external constant [2 x i32]\ndefine i32 @f(i32 %x) {\n"
        "  %p = getelementptr [2 x i32], ptr @t, i32 0, i32 1\n  %v = load i32, ptr %p\n"
        "  %r = mul i32 %v, %x\n  ret i32 %r\n}\n"
    )
    request = Request(source, bodies=(lent,))
    compiled = pool.compile(request).object
    assert compiled != pool.compile(Request(source)).object, "the load is gone"
    assert pool.lines(request, compiled)
    made = pool.traces.machine(request, "f", code=compiled)
    assert made.same == extent(compiled, "f")[1] > 0 and made.lines


LOOP = """define i32 @%s(ptr %%p, i32 %%n) {
entry:
  br label %%loop
loop:
  %%i = phi i32 [ 0, %%entry ], [ %%j, %%loop ]
  %%j = add i32 %%i, 1
  store volatile i32 %%j, ptr %%p
  %%more = icmp slt i32 %%j, %%n
  br i1 %%more, label %%loop, label %%done, !llvm.loop !0
done:
  ret i32 %%j
}
"""


def test_what_a_loop_says_stands_anywhere(
    pool: CompilerPool, capfd: pytest.CaptureFixture[str]
) -> None:
    """In front of the functions and between them; and of several functions, which share no line."""
    node = '!0 = distinct !{!0, !1}\n!1 = !{!"llvm.loop.mustprogress"}\n'
    f, g = LOOP % "f", LOOP % "g"
    for source in (node + f, f + node + g, g + f + node):
        found = pool.lines(Request(source, Options(2)))
        stored = 1 + source[: source.index("@f")].count("\n") + 6
        assert stored in every(found), (source, found)
    assert len(with_locations(node + f).split("!1 = ")) == 2
    assert "{!0, !1}" in with_locations(f + g + node)
    assert "invalid debug info" not in capfd.readouterr().err


def test_many_calls_that_are_inlined_are_each_looked_up(pool: CompilerPool, monkeypatch) -> None:
    """Not among all of their function, for each stretch of its code."""
    asked = []
    ranges = vars(Die)["ranges"].fget
    monkeypatch.setattr(Die, "ranges", property(lambda die: asked.append(die) or ranges(die)))
    calls = "\n".join(f"  %v{n + 1} = call i32 @h(i32 %v{n})" for n in range(60))
    source = (
        "@g = global i32 1\ndefine internal i32 @h(i32 %x) alwaysinline {\n"
        "  %y = load volatile i32, ptr @g\n  %p = xor i32 %y, %x\n  ret i32 %p\n}\n"
        f"define i32 @f(i32 %v0) {{\n{calls}\n  ret i32 %v60\n}}"
    )
    rows = pool.lines(Request(source, Options(2)))
    assert len({lines for _, _, lines in rows if len(lines) == 2}) >= 60
    assert len(asked) < 300


def test_inlined_code_of_no_line_ends_within_a_row(pool: CompilerPool) -> None:
    """Two loads of no line, of which the first one was inlined: a line program has one row for
    both."""
    source = """define i32 @f(ptr %p) !dbg !4 {
  %a = load volatile i32, ptr %p, !dbg !6
  %b = load volatile i32, ptr %p, !dbg !7
  %c = load volatile i32, ptr %p, !dbg !8
  ret i32 %a, !dbg !9
}
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2, !3}
!0 = distinct !DICompileUnit(language: DW_LANG_C99, file: !1, emissionKind: FullDebug)
!1 = !DIFile(filename: "a.c", directory: "")
!2 = !{i32 2, !"Debug Info Version", i32 3}
!3 = !{i32 2, !"Dwarf Version", i32 4}
!4 = distinct !DISubprogram(name: "f", file: !1, line: 2, type: !11, unit: !0, spFlags: DISPFlagDefinition)
!5 = distinct !DISubprogram(name: "g", file: !1, line: 1, type: !11, unit: !0, spFlags: DISPFlagDefinition)
!6 = !DILocation(line: 3, scope: !4)
!7 = !DILocation(line: 0, scope: !5, inlinedAt: !10)
!8 = !DILocation(line: 0, scope: !4)
!9 = !DILocation(line: 5, scope: !4)
!10 = distinct !DILocation(line: 4, scope: !4)
!11 = !DISubroutineType(types: !{null})
"""
    code = pool.compile(Request(source, Options(1))).object
    assert [lines for _, _, lines in line_table(code)][:4] == [(3,), (0, 4), (0,), (5,)]
