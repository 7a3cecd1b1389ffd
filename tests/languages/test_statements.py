"""Statements and their kinds: interface, section 1, row by row."""

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jitkernel.errors import CompileError
from jitkernel.ir.statements import Kind, normalise, scan, split


def kinds(source: str) -> list[str]:
    return [s.kind.value for s in split(normalise(source))]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("%%time", "cell magic"),
        ("%pt = type { i32, i32 }", "type"),
        ('%"a b" = type opaque', "type"),
        ("%x = add i32 40, 2", "instruction"),
        ("%typed = add i32 1, 1", "instruction"),
        ("%0 = load i32, ptr @g", "instruction"),
        ("%asm @sq -O2", "line magic"),
        ("%config Session.budget = 5", "line magic"),
        ("%time @sq(7) ; (", "line magic"),
        ("!0 = !{i32 1}", "metadata"),
        ("!llvm.module.flags = !{!0}", "metadata"),
        ("!named = distinct !{}", "metadata"),
        ("!ls -la (", "shell command"),
        ("!{ echo hi", "shell command"),
        ("!PATH=/bin ls", "shell command"),
        ("!!ls", "shell command"),
        ("@g = global i32 5", "entity"),
        ('@g = private unnamed_addr constant [2 x i8] c"a\\00"', "entity"),
        ("@g=external global i32", "entity"),
        ("@a = alias i32, ptr @g", "entity"),
        ("@t = thread_local global i32 0", "entity"),
        ('@"a b" = dso_local global i32 0', "entity"),
        ("@g = i32 5", "assignment"),
        ("@r = @sq(7)", "assignment"),
        ("@g=5", "assignment"),
        ("@sq(7)", "call line"),
        ("@sq (7)", "call line"),
        ('@"a b"()', "call line"),
        ("@sq(\n  7\n)", "call line"),
        ("@sq", "show"),
        ("@sq ; comment", "show"),
        ("@sq?", "inspection"),
        ("@sq??", "inspection"),
        ("?@sq", "inspection"),
        ("??sq", "inspection"),
        ("%asm?", "inspection"),
        ("%%time?", "inspection"),
        ("add?", "inspection"),
        ('@"a b"?', "inspection"),
        ("define i32 @f() { ret i32 1 }", "entity"),
        ("declare i32 @f(i32)", "entity"),
        ('target triple = "x86_64-unknown-linux-gnu"', "entity"),
        ('source_filename = "a.c"', "entity"),
        ("attributes #0 = { nounwind }", "entity"),
        ('module asm "nop"', "entity"),
        ("$c = comdat any", "entity"),
        ('^0 = module: (path: "x")', "entity"),
        ("uselistorder ptr @f, { 1, 0 }", "entity"),
        ("entry:", "label"),
        ("12:", "label"),
        ('"a b":', "label"),
        ("define:", "label"),
        ("ret i32 0", "instruction"),
        ("tail call void @f()", "instruction"),
        ("store <4 x i32> %a, ptr %p", "instruction"),
        ("switch i32 %x, label %d [\n i32 0, label %a\n ]", "instruction"),
        ("_", "result"),
        ("_5", "result"),
    ],
)
def test_kind(line, kind):
    assert kinds(line) == [kind]


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("sq(7)", "'sq(7)' cannot be understood", "did you mean `@sq(7)`?"),
        ("x = add i32 1, 2", "cannot be understood", "did you mean `%x = add i32 1, 2`?"),
        ("pt = type { i32 }", "cannot be understood", "did you mean `%pt = type { i32 }`?"),
        ("g = global i32 5", "cannot be understood", "did you mean `@g = global i32 5`?"),
        ("n = 5", "cannot be understood", "did you mean `@n = 5`?"),
        ("@g global i32 5", "cannot be understood", "did you mean `@g = global i32 5`?"),
        ("@g == 5", "cannot be understood", "an assignment is `@name = value`"),
        (
            "@sq 7",
            "cannot be understood",
            "`@sq` alone shows it, `@sq(...)` calls it, `@sq = ...` sets it",
        ),
        (
            "@sq[1]",
            "cannot be understood",
            "an element's address: `%p = getelementptr i32, ptr @sq,",
        ),
        ("// no", "cannot be understood", "comments start with ;"),
        ("# no", "cannot be understood", "comments start with ;"),
        ("ad i32 1, 2", "'ad' is no instruction", "did you mean `add i32 1, 2`?"),
        ("defin i32 @f() {", "is no instruction", "did you mean `define i32 @f() {`?"),
        ("laod i32, ptr @g", "is no instruction", "did you mean `load i32, ptr @g`?"),
        ("i32 5", "is only a value", "to keep it: `@name = i32 5`"),
        ("5", "is only a value", "to keep it: `@name = i64 5`"),
        ("n = 5", "cannot be understood", "A new one needs its type: `@n = i64 5`"),
        ("1 + 2", "cannot be understood", "an instruction does that: `%x = add i64 1, 2`"),
        ('print("hi")', "cannot be understood", 'did you mean `@puts("hi")`?'),
        ("print(3)", "cannot be understood", "a line that is a value shows it"),
        ("help", "cannot be understood", "%help lists what there is"),
        ("?", "cannot be understood", "%help lists what there is"),
        ("%%", "cannot be understood", "a cell magic is `%%name`; %lsmagic lists them"),
        ("}", "'}' closes nothing", "a '{' is missing above it, or it is one too many"),
        ("sq", "cannot be understood", "did you mean `@sq` or `%sq`?"),
        (
            "int main() {",
            "cannot be understood",
            "this cell holds LLVM IR; functions begin with `define`",
        ),
        ("import numpy", "cannot be understood", "this cell holds LLVM IR"),
        ("é = 5", "cannot be understood", "are quoted"),
        ("@é(4)", "cannot be understood", "or quoted"),
        ("%é", "cannot be understood", "a line magic is `%name`"),
        ("load @g", "", ""),
        ("hello world again", "is no instruction", "a line is IR"),
    ],
)
def test_anything_else_names_the_nearest_form(line, message, hint):
    if not message:
        assert kinds(line) == ["instruction"]
        return
    with pytest.raises(CompileError) as caught:
        split(f"\n  {line}")
    found = caught.value.diagnostics[0]
    assert message in found.message
    assert hint in found.hint
    assert (found.line, found.column) == (2, 3)


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("@f(1))", "a '(' is missing above it, or it is one too many"),
        ("\ndefine i32 @f()\n  ret i32 1\n}", "the function of line 2 has no '{' behind its"),
        ("define i32 @f() {\n  ret i32 1\n}\n}", "a '{' is missing above it, or it is one too"),
    ],
)
def test_what_closes_nothing_says_what_is_missing(source, hint):
    with pytest.raises(CompileError) as caught:
        split(source)
    found = caught.value.diagnostics[-1]
    assert "closes nothing" in found.message and hint in found.hint


def test_a_cell_magic_takes_the_cell_and_comes_first():
    assert kinds("; head\n\n%%time\n@sq(7)\nanything ((") == ["cell magic"]
    with pytest.raises(CompileError, match="a cell magic is the first statement"):
        split("@sq(7)\n%%time")


def test_lines_columns_and_comments():
    source = """; head (

  @a(1) ; tail {
@s = constant [3 x i8] c"a;b" ; x
define void @f() ; y
{ ; }
  ret void
} ; z
@b()"""
    found = [(s.text, s.line, s.column, s.last_line) for s in split(source)]
    assert found == [
        ("@a(1)", 3, 3, 3),
        ('@s = constant [3 x i8] c"a;b"', 4, 1, 4),
        ("define void @f() ; y\n{ ; }\n  ret void\n}", 5, 1, 8),
        ("@b()", 9, 1, 9),
    ]
    for statement in split(source):
        assert source[statement.start : statement.stop] == statement.text


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("define void @f() { ret void } define void @g() { ret void }", ["entity", "entity"]),
        ("define void @f() { ret void } @f()", ["entity", "call line"]),
        ("define { i32, i32 } @f()\n\n; why\n{\nret { i32, i32 } zeroinitializer\n}", ["entity"]),
        ("define i32 @f(i32 %x)\n#0 {\nret i32 %x\n}", ["entity"]),
        ("declare void @f()\n@f()", ["entity", "call line"]),
        ("invoke void @f()\n  to label %a unwind label %b\n@f()", ["instruction", "call line"]),
        ("%l = landingpad { ptr, i32 }\n cleanup\n catch ptr null", ["instruction"]),
        ("!echo a \\\n b\n@f()", ["shell command", "call line"]),
        ("@f(1,\r\n 2)\r\n@g()", ["call line", "call line"]),
        ("@f(1,\r 2)\r@g()", ["call line", "call line"]),
        ("@f(\t1\t)\t", ["call line"]),
        ("\ufeff@f()", ["call line"]),
        ('@f("a;b(", c"}\\22")', ["call line"]),
        ('@"a (b"()\n@"c"', ["call line", "show"]),
        ('call void asm sideeffect "nop ; (", "~{dirflag}"()', ["instruction"]),
        ('@s = constant [2 x i8] c"\\5C\\22"', ["entity"]),
        ('@s = constant [1 x i8] c"\\"', ["entity"]),
        ("", []),
        ("\n\n ; only comments ((\n", []),
        ("define void @f() {\n ; }\n ret void\n}", ["entity"]),
    ],
)
def test_splitting(source, expected):
    assert kinds(source) == expected


@pytest.mark.parametrize(
    ("source", "message", "place", "incomplete"),
    [
        ("@f(1", "this '(' is never closed", (1, 3), True),
        ("@f(1))", "')' closes nothing", (1, 6), False),
        ("@f({1)}", "')' where '}' should close the '{' of line 1, column 4", (1, 6), False),
        ("\ndefine void @f() {\n ret void", "this '{' is never closed", (2, 18), True),
        ('@f("abc)\n', "this string is never closed", (1, 4), False),
        ('@s = constant [4 x i8] c"abc', "this string is never closed", (1, 25), True),
        ("%pt = type { i32,\n [3 x i8}", "'}' where ']' should close the '['", (2, 9), False),
        ("a\x00b", "character U+0000 is not text", (1, 2), False),
        ("; \x1b[0m", "character U+001B is not text", (1, 3), False),
        ("x\ud800", "character U+D800 is not text", (1, 2), False),
    ],
)
def test_what_cannot_be_split(source, message, place, incomplete):
    problems = scan(source)[1]
    found = problems[0].diagnostic
    assert message in found.message
    assert (found.line, found.column) == place
    assert problems[0].incomplete is incomplete
    found.render().encode()  # whatever the cell held, the message is text


def test_every_bad_line_is_named_up_to_five():
    with pytest.raises(CompileError) as caught:
        split("sq(1)\n@ok()\nsq(2)\n" + "bad line\n" * 20)
    assert [d.line for d in caught.value.diagnostics[:3]] == [1, 3, 4]
    assert len(caught.value.diagnostics) == 5


def test_of_a_program_in_c_one_line_is_told():
    program = (
        "#include <stdio.h>\n\nint sq(int x) {\n    return x * x;\n}\n\nint main(void) {\n"
        + ('    for (int i = 0; i < 9; i++)\n        printf("%d\\n", sq(i));\n    return 0;\n}')
    )
    for source in (program, program.partition("\n\n")[2], "@ok()\nif (x) {\n  y();\n}"):
        with pytest.raises(CompileError) as caught:
            split(source)
        (found,) = caught.value.diagnostics
        assert "`%%c` above it" in found.hint and found.source.split()[0] in (
            "#include",
            "int",
            "if",
        )


def test_megabytes_are_split_in_linear_time():
    function = """define i32 @f%d(i32 %%x) {
  %%y = add i32 %%x, 1 ; (
  ret i32 %%y
}
@c%d = constant [2 x i8] c";\\00"
"""
    text = "".join(function % (i, i) for i in range(40_000))

    def seconds(source: str) -> float:
        begin = time.process_time()
        assert len(split(source)) > 1000
        return time.process_time() - begin

    small, large = seconds(text[: len(text) // 4].rsplit("define", 1)[0]), seconds(text)
    assert len(text) > 3_000_000
    assert large < 3.0
    assert large < 10 * small  # four times the text; a quadratic scan would take sixteen


def test_deep_and_wide_brackets():
    assert kinds("@f(" + "(" * 20_000 + ")" * 20_000 + ")") == ["call line"]
    assert kinds("@f(" + "1, " * 50_000 + "1)") == ["call line"]


pieces = st.sampled_from(
    'define declare @f @"a b" %x %%time ( ) [ ] { } < > = , ; " c"a\\00" \n \t ! !0 = type global '
    "i32 ret void entry: 5 -1 @f( ? ?? %asm $c ^0 _ _5 é \\ \r\n".split(" ")
    + ["\n", " ", "\r\n"]
)


@given(st.lists(pieces, max_size=40).map(" ".join))
@settings(max_examples=100)
def test_any_text_is_split_or_refused(source):
    source = normalise(source)
    statements, problems = scan(source)
    at = 0
    for statement in statements:
        assert source[statement.start : statement.stop] == statement.text
        assert statement.start >= at
        assert statement.line == source.count("\n", 0, statement.start) + 1
        assert statement.last_line == source.count("\n", 0, statement.stop) + 1
        assert statement.kind is not Kind.UNKNOWN
        at = statement.stop
    for problem in problems:
        problem.diagnostic.render()


@given(st.binary(max_size=200))
@settings(max_examples=100)
def test_binary_garbage(data):
    for text in (data.decode("latin-1"), data.decode("utf-8", "surrogateescape")):
        try:
            split(normalise(text))
        except CompileError as error:
            str(error).encode()


def test_mutated_cells():
    source = """%pt = type { i32 }
define i32 @f(i32 %x) {
entry:
  ret i32 %x
}
%y = call i32 @f(i32 1)
@f(2)
@r = @f("a")
!ls
"""
    chance = random.Random(1)
    for _ in range(1000):
        text = list(source)
        for _ in range(chance.randint(1, 6)):
            at = chance.randrange(len(text))
            text[at : at + chance.randint(0, 2)] = chance.choice("(){}[]<>\"';\n@%!=?x \\")
        try:
            split("".join(text))
        except CompileError as error:
            assert error.diagnostics[0].line >= 1


BRACKETED = [
    ("/* a ; \" } */ define i32 @f() { /* x\n } */ ret i32 /* 1 */ 7 }", [Kind.ENTITY]),
    ("@a /* one\n*/ = /* two */ global i32 5", [Kind.ENTITY]),
    ("%t = type /* a */ { i32 /*,*/ }", [Kind.TYPE]),
    ("%x = add i32 1, /* two\nlines */ 2\nret i32 %x", [Kind.INSTRUCTION, Kind.INSTRUCTION]),
    ("@f(1 /* one */, \"/*\") /* end */\n@g", [Kind.CALL, Kind.SHOW]),
    ("@g = /* five */ 5 /* end */", [Kind.ASSIGN]),
    ("@g /* shown */", [Kind.SHOW]),
    ("_3 /* shown */", [Kind.RESULT]),
    ('@s = global [3 x i8] c"/*\\00"\n!ls /*', [Kind.ENTITY, Kind.SHELL]),
]  # fmt: skip


@pytest.mark.parametrize(("source", "kinds"), BRACKETED)
def test_comments_in_brackets_are_read_over_as_in_llvm(source: str, kinds: list[Kind]) -> None:
    statements = split(source)
    assert [s.kind for s in statements] == kinds
    assert [len(s.text) for s in statements] == [s.stop - s.start for s in statements]


@pytest.mark.parametrize(
    "source", ["/* never", "@f(1) /* never", "define void @f() { /* }", "/***/"]
)
def test_a_comment_that_is_never_closed_wants_more(source: str) -> None:
    _, problems = scan(source)
    assert [p.incomplete for p in problems] == [True]
    assert problems[0].diagnostic.message == "this comment is never closed"


@pytest.mark.parametrize("between", [" ; five\n", "\n", " /* five */ ", "; one\n; two\n  "])
def test_comments_stand_between_a_name_and_its_sign(between: str) -> None:
    assert [s.kind for s in split(f"@x{between}= global i32 5")] == [Kind.ENTITY]
    assert [s.kind for s in split(f"@x{between}= 5")] == [Kind.ASSIGN]
    assert [s.kind for s in split(f"%x{between}= add i32 1, 2")] == [Kind.INSTRUCTION]
    assert [s.kind for s in split(f"%x{between}= type {{ i32 }}")] == [Kind.TYPE]
