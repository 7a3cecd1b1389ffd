"""Plans: what is compiled, what runs, in which order, and what the module's text looks like."""

import random
import re

import pytest

from jitkernel.errors import CompileError
from jitkernel.ir import constants
from jitkernel.ir.constants import truncated
from jitkernel.ir.statements import Kind, Statement
from jitkernel.languages.llvm.assemble import assemble, stands_alone
from jitkernel.languages.llvm.plan import (
    AssignAction,
    BlockAction,
    CallAction,
    InspectAction,
    MagicAction,
    ShellAction,
    ShowAction,
    parse_cell,
    progress,
)

CELL = """%asm -O2
!echo hi
; a comment

define i32 @sq(i32 %x) { ; body
  %y = mul i32 %x, %x
  ret i32 %y
} ; tail
@text = private constant [3 x i8] c"hi\\00" ; text
%x = add i32 40, 2
call i32 @sq(i32 %x) ; seven
@sq(7)
@r = @sq(8)
@r
@sq??
%time @sq(9) ; once
"""


def test_order_of_a_cell():
    plan = parse_cell(CELL)
    assert [type(m) for m in plan.magics] == [MagicAction, ShellAction]
    assert [type(a) for a in plan.actions] == [
        BlockAction,
        CallAction,
        AssignAction,
        ShowAction,
        InspectAction,
        MagicAction,
    ]
    assert [a.line for a in plan.actions] == [10, 12, 13, 14, 15, 16]
    assert plan.actions[1].text == "@sq(7)"
    assert plan.actions[2].name == "r"
    assert (plan.actions[4].name, plan.actions[4].level) == ("@sq", 2)
    assert (plan.actions[5].name, plan.actions[5].rest) == ("time", "@sq(9)")
    assert plan.defines == {"sq", "text"}
    assert plan.local_names == {"text"}
    assert plan.uses == {"sq", "text"}
    assert plan.has_code


def test_module_text_keeps_lines_and_columns():
    found = assemble(parse_cell(CELL), part="entities")
    lines, cell = found.source.split("\n")[found.first_line - 1 :], CELL.split("\n")
    assert lines[4] == cell[4]
    assert lines[5] == cell[5]
    assert lines[8] == cell[8].partition(" ;")[0]
    assert [i for i, line in enumerate(lines) if line.strip()] == [4, 5, 6, 7, 8]


def test_assembled_module_is_llvms_and_keeps_lines(llvm):
    plan = parse_cell(CELL)
    found = assemble(plan, block_name="jk.cell 3")
    assert str(found.block_type) == "i32"
    assert found.block == "jk.cell 3"
    assert llvm.error(found.source)[2] == ""
    lines, cell = found.source.split("\n"), CELL.split("\n")
    for number in (5, 6, 10, 11):
        own = cell[number - 1].partition(" ;")[0]
        assert lines[number - 1 + found.first_line - 1].startswith(own)


@pytest.mark.parametrize(
    ("cell", "result"),
    [
        ("%x = add i32 40, 2", "ret i32 %x"),
        ("call i32 @sq(i32 7)", "ret i32 %jk.value"),
        ("add i32 1, 2\n%1 = add i32 %0, 1", "ret i32 %1"),
        ("%1 = add i32 1, 2", "ret i32 %1"),
        ("%0 = add i32 1, 2\nmul i32 %0, 3", "ret i32 %jk.value"),
        ("store i32 1, ptr @g", "ret void"),
        ("call void @nothing()", "ret void"),
        ("%x = add i32 1, 2\nret i32 %x", ""),
        ("ret void", ""),
        ("unreachable", ""),
        ("br label %a\na:\nret double 0.5", ""),
        ("first:\n%1 = add i32 1, 2\nbr label %b\nb:\n%y = add i32 %1, 1", "ret i32 %y"),
        ("br label %entry\nentry:\n%x = add i32 1, 2", "ret i32 %x"),
        ("%x = add i32 1, 2\nl:", None),
        ("br label %l\nl:", "ret void"),
        ("%x = insertvalue { i32, i32 } { i32 1, i32 2 }, i32 5, 0", "ret { i32, i32 } %x"),
        ("%x = load %pt, ptr @p\n%y = extractvalue %pt %x, 1", "ret i32 %y"),
        ("%x = call <4 x float> @vec() ; last", "ret <4 x float> %x"),
        ('%"a b" = add i32 1, 2', 'ret i32 %"a b"'),
        ("%x = alloca i32", "ret ptr %x"),
        ("  ; head\n\n  %x = add i32 1,\n 2", None),
        ("%x = add i32 1, 2 ; }", "ret i32 %x"),
        ("br label %done\ndone: ret i32 5", ""),
        ("br label %done\ndone: add i32 1, 2 ; x", "ret i32 %jk.value"),
        ("%s = select i1 true, i32 1, i32 2", "ret i32 %s"),
        ("br i1 true, label %a, label %b\na:\nret i32 1\nb:\n%x = add i32 1, 2", "ret i32 %x"),
    ],
)
def test_blocks(cell, result, llvm):
    """What is returned, and that LLVM takes the wrapper as it is."""
    if result is None and "l:" not in cell:
        with pytest.raises(CompileError):
            parse_cell(cell)
        return
    plan = parse_cell(cell)
    known = {
        "sq": "declare i32 @sq(i32)",
        "g": "@g = external global i32",
        "p": "@p = external global %pt",
        "nothing": "declare void @nothing()",
        "vec": "declare <4 x float> @vec()",
    }
    found = assemble(plan, known.get, {"pt": "{ i32, i32 }"})
    words = llvm.error(found.source)[2]
    if result is None:  # a label right after a value: LLVM complains, as it should
        assert words == "expected instruction opcode"
        return
    assert words == ""
    tail = found.source.rstrip().rsplit("}", 1)[0].strip() if not found.declared else ""
    if tail and result:
        assert tail.endswith(result)
    assert not found.missing


def test_a_block_that_ends_in_two_ways():
    with pytest.raises(
        CompileError, match="returns double above, but its last instruction gives i32"
    ):
        assemble(
            parse_cell("br i1 1, label %a, label %b\na:\nret double 0.5\nb:\n%x = add i32 1, 2")
        )


def test_too_many_scalars_are_refused():
    with pytest.raises(CompileError, match="1000 scalars cannot be shown"):
        assemble(parse_cell("%x = load [1000 x i32], ptr @g"), named_types={})
    assert assemble(parse_cell("%x = load [64 x i32], ptr @g")).block_type is not None


def test_error_places_in_a_block_are_the_cells(llvm):
    cell = "; one\ndefine i32 @f() { ret i32 1 } ; two\n  %x = add i32 1, 2\n\n"
    cell += "  call i32 @nope(i32 %x)"
    found = assemble(parse_cell(cell))
    line, column, words = llvm.error(found.source)
    assert (line - found.first_line + 1, column) == (5, 12)
    assert words == "use of undefined value '@nope'"
    found = assemble(parse_cell("%x = ad i32 1, 2".replace("ad ", "bogus ")))
    line, column, words = llvm.error(found.source)
    assert (line - found.first_line + 1, column, words) == (1, 6, "expected instruction opcode")


def test_a_block_alone(llvm):
    cell = "define void @f() { ret void }\n\n%x = add i32 40, 2\nmul i32 %x, 2"
    found = assemble(parse_cell(cell), part="block")
    assert llvm.error(found.source)[2] == ""
    assert found.source.split("\n")[found.first_line + 1] == "%x = add i32 40, 2 %jk.value ="


def test_declarations_and_types_of_earlier_cells(llvm):
    cell = """define i32 @f(ptr %p) {
  %v = load %pt, ptr @origin
  %r = call i32 @norm(%pt %v)
  call i32 @puts(ptr @"a b")
  ret i32 %r
}
"""
    known = {
        "origin": "@origin = external global %pt",
        "norm": "declare i32 @norm(%pt)",
        "a b": '@"a b" = external global %list',
        "unused": "declare void @unused(%never)",
    }
    types = {
        "pt": "{ i32, %inner }",
        "inner": "{ i8 }",
        "never": "{ i1 }",
        "list": "{ ptr, %inner }",
    }
    found = assemble(parse_cell(cell), known.get, types)
    assert llvm.error(found.source)[2] == ""
    assert found.declared == {"origin", "norm", "a b", "puts"}
    assert "%never" not in found.source
    assert "%inner = type { i8 }" in found.source.split("\n")[0]
    assert "unused" not in found.source
    without = assemble(parse_cell(cell), known.get, types, prelude=False)
    assert without.missing == {"puts"}


def test_own_declarations_and_types_come_first(llvm):
    cell = """declare i64 @puts(ptr)
%pt = type { i64 }
define i64 @f(%pt %p) {
  %x = call i64 @puts(ptr null)
  ret i64 %x
}"""
    found = assemble(parse_cell(cell), {"puts": "declare i32 @puts(ptr)"}.get, {"pt": "{ i32 }"})
    assert llvm.error(found.source)[2] == ""
    assert found.declared == frozenset()


def test_entities_and_block_can_be_two_modules(llvm):
    plan = parse_cell("%t = type { i32 }\ndefine i32 @f() {\n ret i32 1\n}\n%x = call i32 @f()\n")
    entities = assemble(plan, part="entities")
    assert "%x" not in entities.source
    assert llvm.error(entities.source)[2] == ""
    block = assemble(plan, {"f": "declare i32 @f()"}.get, part="block")
    assert llvm.error(block.source)[2] == ""
    assert block.declared == {"f"}
    assert "define i32 @f" not in block.source
    assert stands_alone(plan)
    assert not stands_alone(parse_cell("@s = private global i32 5\n%x = load i32, ptr @s"))
    assert not stands_alone(parse_cell("%x = call i32 @f() #0\nattributes #0 = { nounwind }"))


def test_actions_need_no_module():
    plan = parse_cell("@sq(7)\n@r = i32 5")
    assert not plan.entities
    assert plan.block is None
    assert assemble(plan).block == ""


@pytest.mark.parametrize(
    ("cell", "code"),
    [
        ("%cells", False),
        ("!ls", False),
        ("; nothing", False),
        ("", False),
        ("@f?", False),
        ("@f", True),
        ("%x = type i32", True),
    ],
)
def test_cells_of_magics_only(cell, code):
    assert parse_cell(cell).has_code is code


def test_cell_magic():
    assert parse_cell("\n%%llvm -O3 --closed\ndefine @f ((\n").cell_magic == "llvm"
    assert parse_cell("%%time").cell_magic == "time"


def test_instructions_are_one_block():
    with pytest.raises(CompileError) as caught:
        parse_cell("%x = add i32 1, 2\n@sq(7)\n%y = add i32 1, 2")
    assert "line 2 is no instruction" in str(caught.value)
    with pytest.raises(CompileError, match="stands among the instructions of lines 1 to 3"):
        parse_cell("%x = add i32 1, 2\n@g = global i32 5\n%y = add i32 1, 2")
    parse_cell("%x = add i32 1, 2\n@g = global i32 5\n@sq(7)")


def test_a_wrong_expression_anywhere_refuses_the_whole_cell():
    with pytest.raises(CompileError) as caught:
        parse_cell("@sq(7)\n@sq(7 7)\n@r = add i32 1, 2\n@f(int)")
    assert [d.line for d in caught.value.diagnostics] == [2, 3, 4]


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("%t @f(1) ; c", "@f(1)"),
        ('%t "a ; b" ; c', '"a ; b"'),
        ("%t a;b", "a;b"),
        ("%t ; c", ""),
        ("%t 'x ; y'", "'x ; y'"),
    ],
)
def test_comments_behind_magics(rest, expected):
    assert parse_cell(rest).magics[0].rest == expected


def test_progress():
    plan = parse_cell("@a()\n%x = add i32 1, 2\n%y = add i32 1, 2\n@b()\n@c()")
    assert (
        progress(plan, plan.actions[2])
        == "lines 1 to 3 ran, line 4 did not end, line 5 did not run"
    )
    assert (
        progress(plan, plan.actions[1])
        == "line 1 ran, lines 2 to 3 did not end, lines 4 to 5 did not run"
    )
    assert progress(plan, plan.actions[-1]) == "lines 1 to 4 ran, line 5 did not end"
    assert progress(plan, plan.actions[0], True) == "line 1 ran, lines 2 to 5 did not run"
    single = parse_cell("@a()")
    assert progress(single, single.actions[0]) == ""


@pytest.mark.parametrize(
    ("line", "defines", "declares", "local"),
    [
        ("define i32 @f() { ret i32 0 }", {"f"}, set(), set()),
        ("define internal fastcc i32 @f() { ret i32 0 }", {"f"}, set(), {"f"}),
        ('define void @"a b"(ptr @x) { ret void }', {"a b"}, set(), set()),
        ("declare i32 @f(i32) #0", set(), {"f"}, set()),
        ("declare extern_weak void @f()", set(), {"f"}, set()),
        ("@g = global i32 5", {"g"}, set(), set()),
        ("@g = external global i32", set(), {"g"}, set()),
        ("@g = extern_weak global i32", set(), {"g"}, set()),
        ("@g = external thread_local(initialexec) global i32", set(), {"g"}, set()),
        ("@g = private unnamed_addr constant i32 5", {"g"}, set(), {"g"}),
        ("@g = global ptr @h", {"g"}, set(), set()),
        ("@a = weak alias i32, ptr @g", {"a"}, set(), set()),
        ("@a = global i32 1 @b = external global i32", {"a"}, {"b"}, set()),
        ("@g = addrspace(1) global i32 5", {"g"}, set(), set()),
        ("declare void @f() declare void @g()", set(), {"f", "g"}, set()),
        ("define void @f() { ret void } define void @g() { ret void }", {"f", "g"}, set(), set()),
        ('@"\\61b" = global i32 5', {"ab"}, set(), set()),
    ],
)
def test_names(line, defines, declares, local):
    plan = parse_cell(line)
    assert (plan.defines, plan.declares, plan.local_names) == (defines, declares, local)


def test_truncated_constants_are_warned_of():
    plan = parse_cell(
        "@a = global i32 4294967296\n@b = global i1 2\n@c = global i32 4294967295\n"
        "@d = global i8 -128\n@e = global i8 -129\n%x = add i8 %q, 256 ; i8 999\n"
        "%y = icmp eq i1 3, 0\n%i5 = add i8 1, 2\n"
        '@s = constant [6 x i8] c"i1 222"'
    )
    found = [(w.line, w.column, w.message) for w in plan.warnings]
    assert found == [
        (1, 17, "4294967296 does not fit i32: LLVM takes it as 0"),
        (2, 16, "2 does not fit i1: LLVM takes it as false"),
        (5, 16, "-129 does not fit i8: LLVM takes it as 127"),
        (6, 17, "256 does not fit i8: LLVM takes it as 0"),
        (7, 17, "3 does not fit i1: LLVM takes it as true"),
    ]
    assert all(w.severity == "warning" for w in plan.warnings)


def test_llvm_does_truncate_them(llvm):
    text = str(
        llvm.parse(
            "@a = global i32 4294967296\n@b = global i1 2\n@c = global i8 -129\n@d = global i1 3"
        )
    )
    for line in (
        "@a = global i32 0",
        "@b = global i1 false",
        "@c = global i8 127",
        "@d = global i1 true",
    ):
        assert line in text


def test_target_lines_are_the_compilers_to_judge():
    cell = 'target triple = "aarch64-linux-gnu"\n@g = global i32 5'
    assert cell in assemble(parse_cell(cell)).source


def test_the_quick_look_for_constants_that_do_not_fit_misses_none() -> None:
    """Against the full reading of each statement, on statements of every shape and width."""
    rnd = random.Random(11)
    widths = [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 128]

    def number() -> str:
        bits = rnd.choice(widths)
        near = rnd.choice([0, 1, -1, 2, (1 << bits) - 1, 1 << bits, -(1 << bits - 1) - 1, 10**bits])
        return rnd.choice(["%x", "true", '%"a b"', str(near), str(near), str(near)])

    def one() -> str:
        bits = rnd.choice(widths)
        return rnd.choice(
            [
                f"  %r = add nsw i{bits} {number()}, {number()}",
                f"  %c = icmp slt i{bits} {number()} ,{number()}",
                f"  call void @f(i{bits} {number()}, i8 {number()})",
                f"  ret i{bits}  {number()} ; i8 {number()}",
                f'  call void @g(ptr c"i8 {number()}", i{bits} {number()})',
                f"  %i{bits} = phi i{bits} [ {number()}, %a ], [ 300, %i8 ]",
            ]
        )

    warned = 0
    for _ in range(3000):
        text = "\n".join(one() for _ in range(rnd.randrange(1, 4)))
        statement = Statement(Kind.ENTITY, text, 0, len(text), 1, 1, 4)
        found = [*truncated(statement.text)]
        quick = constants._SUSPECT
        constants._SUSPECT = re.compile("")
        try:
            assert [*truncated(statement.text)] == found, statement.text
        finally:
            constants._SUSPECT = quick
        warned += bool(found)
    assert 500 < warned < 2900


def test_a_call_behind_a_semicolon_is_told():
    (found,) = parse_cell("@f(1); @f(2)\n@f(3) ; @f(4)\n@f(5); is 25\n@f(6);").warnings
    assert (found.line, found.column, found.severity) == (1, 6, "warning")
    assert found.message == "@f(2) did not run: a ; begins a comment"
