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


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(capacity=64 << 20, spare=False) as s:
        s.run('@wide = global i64 7\n@text = global [3 x i8] c"hi\\00"')
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
        ("store 1.5, @wide", "store double 1.5, ptr @wide", END),
        ("%r = load i32* %p", "load i32, ptr %p", END),
        ("%r = load i32 %p", "load i32, ptr %p", END),
        ("%r = load @wide", "load i64, ptr @wide", END),
        ("%r = add double %d, 2.0", "fadd double %d, 2.0", END),
        ("%r = fmul i32 %x, 2 ; twice", "mul i32 %x, 2", END),
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
        ("\u201chi\u201d", 'is no quote here: write "'),
        ("#include <stdio.h>", "need no header"),
        ("ls", "`!ls`"),
        ("define i64 @f() {\n  ret\n}", "the function returns i64: `ret i64 ...`"),
        ("define void @f() {\n}", "`{ ret void }`"),
        (
            "load @wide",
            "`@wide` alone shows it; as an instruction, write `%v = load i64, ptr @wide`",
        ),
        ('call i32 @puts("hi")', 'a line `@puts("hi")` of its own calls it'),
        ('call i32 @puts(ptr c"hi\\00")', '`@s = private constant [3 x i8] c"hi\\00"`'),
        ("call i32 @abs(7)", "`(i32 7)`"),
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
