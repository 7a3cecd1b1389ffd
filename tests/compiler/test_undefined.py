"""What is undefined is said, with the pass that made nothing of it; what is defined is not."""

from __future__ import annotations

import pytest

from jitkernel.compiler.pool import CompilerPool
from jitkernel.compiler.records import Options, Request
from jitkernel.ir.constants import undefined


def said(
    pool: CompilerPool, source: str, level: int = 2, passes: str = ""
) -> list[tuple[int, str]]:
    made = pool.compile(Request(source, Options(level, passes=passes)))
    return [(w.line, w.message) for w in made.warnings]


def function(body: str, head: str = "i32 @f(i32 %x, ptr %p, i1 %c)") -> str:
    return f"define {head} {{\n{body}\n}}\n"


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        (
            "  %r = sdiv i32 %x, 0\n  ret i32 %r",
            2,
            "@f returns poison: division by zero is undefined, and ",
        ),
        ("  %r = urem i32 %x, 0 ; none\n  ret i32 %r", 2, "@f returns poison: division by zero"),
        ("  %r = lshr i32 %x, 32\n  ret i32 %r", 2, "a shift of an i32 by 32 is undefined"),
        ("  %r = load i32, ptr null\n  ret i32 %r", 2, "a load through a null pointer"),
        (
            "  %a = alloca ptr\n  store ptr null, ptr %a\n  %q = load ptr, ptr %a\n"
            "  %r = load i32, ptr %q\n  ret i32 %r",
            1,
            "a load through a null pointer is undefined, and ",
        ),
        (
            "  %a = alloca i32\n  %r = load i32, ptr %a\n  ret i32 %r",
            1,
            "@f returns undef: it reads memory that nothing was stored into, and sroa (-O2)",
        ),
        (
            "  %a = alloca i32\n  store i32 0, ptr %a\n  %z = load i32, ptr %a\n"
            "  %r = sdiv i32 %x, %z\n  ret i32 %r",
            1,
            "@f returns poison: division by zero is undefined",
        ),
    ],
)
def test_a_function_of_which_nothing_is_left(
    pool: CompilerPool, body: str, line: int, words: str
) -> None:
    ((where, message),) = said(pool, function(body))
    assert words in message and where == line
    assert message.endswith(" (-O2) removed the rest")


def test_a_function_without_a_return(pool: CompilerPool) -> None:
    ((_, words),) = said(pool, function("  store i32 1, ptr null\n  ret void", "void @f()"))
    assert words.startswith("@f is left without a return: a store through a null pointer is undef")
    endless = function("  br label %l\nl:\n  br label %l", "void @f() mustprogress")
    assert "a loop that never ends and does nothing" in said(pool, endless)[0][1]
    assert said(pool, endless.replace("mustprogress", "")) == []


def test_the_pass_is_the_one_that_did_it(pool: CompilerPool) -> None:
    source = function("  %r = sdiv i32 %x, 0\n  ret i32 %r")
    for name in ("instcombine", "early-cse"):
        ((_, message),) = said(pool, source, passes=f"dce,{name}")
        assert f"and {name} (--passes dce,{name}) removed the rest" in message


@pytest.mark.parametrize("level", [0, 2])
def test_what_may_never_run(pool: CompilerPool, level: int) -> None:
    """A block of its own: LLVM leaves out the way there."""
    source = function(
        "  br i1 %c, label %a, label %b\na:\n  %r = sdiv i32 %x, 0\n  ret i32 %r\nb:\n  ret i32 7"
    )
    words = "division by zero is undefined: LLVM takes it that this never runs"
    assert said(pool, source, level) == [(4, words)]


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize(
    "body",
    [
        "  %r = mul i32 %x, %x\n  ret i32 %r",
        "  %r = sdiv i32 0, %x\n  ret i32 %r",
        "  %r = shl i32 %x, 31\n  ret i32 %r",
        "  %r = load volatile i32, ptr null\n  ret i32 %r",
        "  store ptr null, ptr %p\n  ret i32 %x",
        "  store { i32, ptr } { i32 1, ptr null }, ptr %p\n  ret i32 %x",
        "  store [3 x ptr] [ptr @s, ptr null, ptr @s], ptr %p, align 8 ; ptr null\n  ret i32 %x",
        "  ; %r = sdiv i32 %x, 0\n  ret i32 %x",
        "  ret i32 undef",  # as it is written
        "  ret i32 poison",
        "  call void @exit(i32 0)\n  unreachable",
        "  call void @exit(i32 0)\n  ret i32 0",
        "  %i = insertvalue { i32, i32 } poison, i32 %x, 0\n  store { i32, i32 } %i, ptr %p\n"
        "  ret i32 %x",
        "  %r = load i32, ptr addrspace(256) null\n  ret i32 %r",  # the thread's own block
        "  br label %l\nl:\n  call void @exit(i32 0)\n  br label %l",
    ],
)
def test_no_false_alarm(pool: CompilerPool, body: str, level: int) -> None:
    source = '@s = private constant [21 x i8] c"%r = sdiv i32 %x, 0\\0A\\00"\n'
    assert said(pool, source + "declare void @exit(i32)\n" + function(body), level) == []


def test_null_may_be_valid(pool: CompilerPool) -> None:
    body = "  %r = load i32, ptr null\n  ret i32 %r"
    head = "i32 @f() null_pointer_is_valid"
    assert said(pool, function(body, head)) == []


def test_several_functions_and_lines_in_front(pool: CompilerPool) -> None:
    good = function("  ret i32 %x", "i32 @g(i32 %x)")
    bad = function("  %r = sdiv i32 %x, 0\n  ret i32 %r")
    made = pool.compile(Request("%t = type { i32 }\n" + good + bad, first_line=2))
    assert [w.line for w in made.warnings] == [5]
    assert "@f returns poison" in made.warnings[0].message
    assert said(pool, good + bad.replace("@f(", '@"a f"('))[0][1].startswith('@"a f" returns')


def test_the_worker_is_as_before(pool: CompilerPool) -> None:
    """LLVM's options that log passes stay in the child."""
    said(pool, function("  %r = sdiv i32 %x, 0\n  ret i32 %r"))
    assert said(pool, function("  %r = mul i32 %x, %x\n  ret i32 %r")) == []


def test_what_is_undefined_by_constants_is_found_in_the_order_of_the_text() -> None:
    lines = [
        "  %a = load i32, ptr null", "  %b = sdiv i32 %a, 0", "  call void poison()",
        "  %resdiv = add i32 %b, 0", "  %c = ashr i32 %b, 40", "  store i32 %c, ptr undef",
        "  store volatile i32 %c, ptr null", "  ; %d = udiv i32 %c, 0", "  %e = shl nuw i8 %x, 8",
    ]  # fmt: skip
    text = "define void @f() {\n" + "\n".join(lines) + "\n  ret void\n}"
    found = undefined(text)
    assert [(text.count("\n", 0, one.at), one.what.partition(" is undefined")[0]) for one in found] == [
        (1, "a load through a null pointer"), (2, "division by zero"),
        (3, "a call through a poison pointer"), (5, "a shift of an i32 by 40"),
        (6, "a store through an undef pointer"), (9, "a shift of an i8 by 8"),
    ]  # fmt: skip
    assert {one.function for one in found} == {"f"}
    assert text[found[1].at :].startswith("sdiv") and text[found[3].at :].startswith("ashr")
