"""Lines that are nearly IR: the hint is a line that LLVM takes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from jitkernel import Session
from jitkernel.errors import CompileError, LinkError
from jitkernel.ir.miswritten import repaired

BLOCKS = "a:\n  ret i32 1\nb:\n  ret i32 2"
END = "  ret i32 1"
LOOP = """define i32 @f(i32 %x) {{
a:
  br label %l
l:
  %i = {}
  %j = add i32 %i, 1
  %c = icmp slt i32 %j, %x
  br i1 %c, label %l, label %b
b:
  ret i32 %j
}}"""


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(capacity=64 << 20, spare=False) as s:
        s.run('@wide = global i64 7\n@text = global [3 x i8] c"hi\\00"')
        s.run("define double @halved(double %d, ptr %p) {\n  ret double 0.5\n}")
        yield s


def function(line: str, rest: str) -> str:
    return f"define i32 @f(i32 %x, i64 %w, i1 %c, ptr %p, double %d) {{\n  {line}\n{rest}\n}}"


@pytest.mark.parametrize(
    ("line", "right", "rest"),
    [
        ("br %c, label %a, label %b", "br i1 %c, label %a, label %b", BLOCKS),
        ("br i1 %c, %a, %b", "br i1 %c, label %a, label %b", BLOCKS),
        ("br %a", "br label %a", BLOCKS),
        ("br a", "br label %a", BLOCKS),
        ("%r = icmp lt i32 %x, 3", "icmp slt i32 %x, 3", END),
        ("%r = icmp >= i32 %x, 3", "icmp sge i32 %x, 3", END),
        ("%r = icmp == i32 %x, 3", "icmp eq i32 %x, 3", END),
        ("%r = icmp i32 %x, 3", "icmp eq i32 %x, 3", END),
        ("%r = fcmp lt double %d, 3.0", "fcmp olt double %d, 3.0", END),
        ("ret %x", "ret i32 %x", ""),
        ("%r = %x + 1", "%r = add i32 %x, 1", END),
        ("%r = 2 * %x", "%r = mul i32 2, %x", END),
        ("%r = %d / 2.0", "%r = fdiv double %d, 2.0", END),
        ("%r = %w << 3", "%r = shl i64 %w, 3", END),
        ("%r = %x >= 1", "%r = icmp sge i32 %x, 1", END),
        ("%r = add %x, 1", "add i32 %x, 1", END),
        ("%r = fmul %d, %d", "fmul double %d, %d", END),
        ("%r = *%p", "%r = load i32, ptr %p", END),
        ("%r = icmp lt double %d, 3.0", "fcmp olt double %d, 3.0", END),
        ("store %x, %p", "store i32 %x, ptr %p", END),
        ("store %w, %p", "store i64 %w, ptr %p", END),
        ("store %w, ptr %p", "", END),
        ("store i32 %x, %p", "store i32 %x, ptr %p", END),
        ("store i32 %x, %p", "store i32 %x, ptr %p", f"  %v = load i32, ptr %p\n{END}"),
        ("store 1.5, @wide", "store double 1.5, ptr @wide", END),
        ("%r = load i32* %p", "load i32, ptr %p", END),
        ("%r = load i32 %p", "load i32, ptr %p", END),
        ("%r = load @wide", "load i64, ptr @wide", END),
        ("%r = add double %d, 2.0", "fadd double %d, 2.0", END),
        ("%r = fmul i32 %x, 2 ; twice", "mul i32 %x, 2", END),
        ("br %c, label a, label b", "br i1 %c, label %a, label %b", BLOCKS),
        ("store %x, ptr %p", "store i32 %x, ptr %p", END),
        ("%r = icmp sgt %x, 3", "icmp sgt i32 %x, 3", END),
        ("%r = icmp ult %w, i64 3", "icmp ult i64 %w, 3", END),
        ("%r = fcmp olt %d, 3.0", "fcmp olt double %d, 3.0", END),
        ("%r = add nsw %x, 1", "add nsw i32 %x, 1", END),
        ("%r = add i32 %x, i32 1", "add i32 %x, 1", END),
        ("%r = icmp eq i32 %x, i32 1", "icmp eq i32 %x, 1", END),
        ("%r = add nsw i32, %x, 1", "add nsw i32 %x, 1", END),
        ("%r = select %c, %w, 5", "select i1 %c, i64 %w, i64 5", END),
        ("%r = select i1 %c, i32 %x, 5", "select i1 %c, i32 %x, i32 5", END),
        ("%r = sext %x to i64", "sext i32 %x to i64", END),
        ("%r = sext i32 %x, i64", "sext i32 %x to i64", END),
        ("%r = zext i1 %c i32", "zext i1 %c to i32", END),
        ("%r = getelementptr ptr %p, i32 1", "getelementptr i32, ptr %p, i32 1", END),
        ("%r = getelementptr i64, %p, %w", "getelementptr i64, ptr %p, i64 %w", END),
        ("%r = getelementptr inbounds %p, 1", "getelementptr inbounds i32, ptr %p, i32 1", END),
        ("%r = @abs(%x)", "call i32 @abs(i32 %x)", END),
        ("%r = call @labs(%w)", "call i64 @labs(i64 %w)", END),
        ("%r = call i64 @labs(%w)", "call i64 @labs(i64 %w)", END),
        ("%r = call i32 abs(i32 %x)", "call i32 @abs(i32 %x)", END),
        ("%r = @printf(%p, %d)", "call i32 (ptr, ...) @printf(ptr %p, double %d)", END),
        ("%r = @halved(%d, @wide)", "call double @halved(double %d, ptr @wide)", END),
    ],
)
def test_the_hint_is_a_line_that_llvm_takes(
    session: Session, line: str, right: str, rest: str
) -> None:
    with pytest.raises(CompileError) as caught:
        session.run(function(line, rest))
    hint = caught.value.diagnostics[0].hint
    if not right:
        return
    found = [text for text in re.findall("`([^`]*)`", hint) if text.endswith(right)]
    assert found, hint
    result = re.match(r"%r = ", line)
    session.run(function(("%r = " if result and "=" not in found[0] else "") + found[0], rest))


@pytest.mark.parametrize(
    ("cell", "hint"),
    [
        ("define i32 f(i32 %x) {\n  ret i32 1\n}", "begin with @: `define @f(...)`"),
        ("define i32 @f(i32 x) {\n  ret i32 1\n}", "begin with %: `i32 %x`"),
        ("define i32 @f(ptr %p, double %d, i1 y) {\n  ret i32 1\n}", "begin with %: `i1 %y`"),
        ("define void @f() {\n  ret\n}", "ends with `ret void`"),
        ("%x = 5", "`@x = i64 5` makes a variable"),
        ("%pt = { i32, i32 }", "`%pt = type { i32, i32 }`"),
        ('@s = global "hello"', '`@s = global [6 x i8] c"hello\\00"`'),
        ('@s = private constant ptr "hi\\00"', '`@s = private constant [3 x i8] c"hi\\00"`'),
        ("@a = global [3 x i32] [1, 2, 3]", "`[i32 1, i32 2, i32 3]`"),
        ("load i32, @wide", "write `%v = load i32, ptr @wide`"),
        (function("if (%x > 1) ret i32 1", END), "`br i1 %c, label %then, label %else`"),
        ("@puts('hi')", 'strings stand in "..."'),
        ("@abs(&wide)", "@wide is the address already"),
        ("\u201chi\u201d", 'write " instead of \u201c'),
        ("@puts(\u201chi\u201d)", 'write " instead of \u201c'),
        ("@abs(\u22123)", "write - instead of \u2212"),
        ("\u00a0@abs(3)", "write a blank instead of U+00A0"),
        ("@abs(3)\u200b", "take out U+200B, which does not show"),
        ("%x = load i32,\u00a0ptr @wide", "write a blank instead of U+00A0"),
        ("#include <stdio.h>", "need no header"),
        ("ls", "`!ls`"),
        ("define i64 @f() {\n  ret\n}", "the function returns i64: `ret i64 ...`"),
        ("define void @f() {\n}", "a body ends with `ret` and a value, or `ret void`"),
        (
            "load @wide",
            "`@wide` alone shows it; as an instruction, write `%v = load i64, ptr @wide`",
        ),
        (
            "define @f() {\n  ret i32 1\n}",
            "the type that it returns comes first: `define i32 @...`",
        ),
        ("define i32 @f(i32 %x, %y) {\n  ret i32 1\n}", "type in front: `i32 %y`"),
        (function("%r = i32 5", END), "a constant is written where it is used"),
        (function("%r = i32 %x", END), "write %x wherever %r is meant"),
        (function("%r = load i32, ptr %p[%w]", END), "`%p = getelementptr i32, ptr %p, i64 %w`"),
        (function("br label %l\nl", END), "a label ends with a colon: `l:`"),
        (function("%r = select i1 %c, i64 1, i64 2", "  ret %r"), "`ret i64 %r`"),
        (function("%r = select i1 %c, i32 %x, i32 %x", "  ret %r"), "`ret i32 %r`"),
        (function("%r = sext i32 %x to i64", "  ret %r"), "`ret i64 %r`"),
        (function("br label %l\nl:\n  %r = phi [ 1, %0 ]", END), "`phi i32 [ 1, %0 ]`"),
        (LOOP.format("phi [0, %a], [%j, %l]"), "`phi i32 [ 0, %a ], [ %j, %l ]`"),
        (LOOP.format("phi i32 [ 0, a ], [ i32 %j, label %l ]"), "`phi i32 [ 0, %a ], [ %j, %l ]`"),
        (LOOP.format("phi i32 0, %a"), "`phi i32 [ value, %block ], ...`"),
        (LOOP.format("phi i32 [ %a, 0 ], [ %l, %j ]"), "[ value, %block ]: the value comes first"),
        ('call i32 @puts("hi")', 'a line `@puts("hi")` of its own calls it'),
        ('call i32 @puts(ptr c"hi\\00")', '`@s = private constant [3 x i8] c"hi\\00"`'),
        ("call i32 @abs(7)", "write `call i32 @abs(i32 7)`"),
        (function("br label %l\nl:\n  %r = phi i32 [ 1, %zz ]", END), "no block is labelled zz"),
        ("@y = global ptr @_ZTIi", "`%lib libstdc++.so.6`"),
    ],
)
def test_other_hints(session: Session, cell: str, hint: str) -> None:
    with pytest.raises(CompileError) as caught:
        session.run(cell)
    assert hint in caught.value.diagnostics[0].hint


def test_what_the_library_of_cxx_has(session: Session) -> None:
    with pytest.raises(LinkError, match=r"reads @_ZTIi, which nobody defines; .*%lib libstdc\+\+"):
        session.run("@_ZTIi = external constant ptr\n@y = global ptr @_ZTIi")


def test_the_hint_for_a_global_can_be_typed(session: Session) -> None:
    assert session.run("%v = load i64, ptr @wide").value == 7


@pytest.mark.parametrize(
    "line",
    [
        "", "}", "ret void", "br label %a", "br i1 %c, label %a, label %b", "%r = icmp eq i32 %x, 3",
        "store i32 %x, ptr %p, align 4", "%r = load i32, ptr %p, align 4, !tbaa !3",
        "%r = add nsw i32 %x, 1", "%r = fadd fast double %d, %d", "call void @f(ptr @s)",
        "define i32 @f(i32 noundef %x, ptr readonly) {", "%r = shl i32 %x, 1", "; br %c",
        "%r = select i1 %c, i32 %x, i32 2", "%r = phi i32 [0, %a], [ %x, %b ]",
        "%r = getelementptr inbounds i32, ptr %p, i64 1", "%r = sext i32 %x to i64",
        "%r = call i32 @f(i32 %x, ptr null)", "call void @f()", "%r = call i32 %p(i32 %x)",
        "store i32 %x, ptr %p", "%r = fcmp olt double %d, 3.0", "%r = phi %pt [ %x, %a ]",
        "define %pt @f(i32 %x) {", "%r = phi [2 x i32] [ %x, %a ]", "%pt = type { i32 }",
    ],
)  # fmt: skip
def test_what_is_right_gets_no_hint(line: str) -> None:
    assert repaired(line, line, 1) == ""


def test_quotes_in_strings(session: Session) -> None:
    assert session.run('@puts("say \\"hi\\"; (twice")').stdout == 'say "hi"; (twice\n'
    assert session.run('@puts("a\\\\")\n@puts("\\"")').stdout == 'a\\\n"\n'
    assert session.run('@printf("%s%s", "\\"a", "b\\\\")').stdout == '"ab\\'
    session.run('@q = c"a\\5C\\00"')
    assert session.run("@puts(@q)").stdout == "a\\\n"
    with pytest.raises(CompileError, match="never closed"):
        session.run('@puts("a\\")')
    with pytest.raises(CompileError, match="never closed"):
        session.run('@puts("a\\"b)')
