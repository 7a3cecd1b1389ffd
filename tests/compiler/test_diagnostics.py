"""LLVM's complaints, in the lines and columns of the cell."""

from __future__ import annotations

import pytest

from jitkernel.compiler.pool import CompilerPool
from jitkernel.compiler.records import Options, Request
from jitkernel.errors import CompileError

# source, line, column, part of the message
REFUSED = [
    ("define i32 @f( {", 1, 17, "expected type"),
    ("define i32 @f() {\n  ret i32 0.5\n}", 2, 11, "floating point constant invalid for type"),
    ("define float @f() {\n  ret float 0.1\n}", 2, 13, "floating point constant invalid"),
    ("\n\n  define void @f() {\n  ret void x\n}", 4, 12, "expected instruction opcode"),
    ("define i32 @f() {\n  %x = add i32 %y, 1\n  ret i32 %x\n}", 2, 16, "undefined value '%y'"),
    ("define void @f() {\n  call void @h()\n  ret void\n}", 2, 13, "undefined value '@h'"),
    ("define i32 @f() {\n}", 2, 1, "function body requires at least one basic block"),
    ("define void @ü() { ret void }", 1, 13, "expected function name"),
    ('@s = global [2 x i8] c"ü" zork', 1, 27, "expected top-level entity"),
    ("@g = global i32 1\n@g = global i32 2", 2, 1, "redefinition of global"),
    ('target triple = "x86_64-linux-gnu"\n@g = global zork', 2, 13, "expected type"),
    ("@a = alias i32, ptr @zork", 1, 21, "use of undefined value '@zork'"),
    ("\x01\x02garbage", 1, 1, "expected top-level entity"),
    ("define void @f() {\n  ret void\0\n}", 2, 11, "a NUL character"),
    ('define i32 @f() gc "nope" {\n  ret i32 1\n}', 1, 17, "are shadow-stack, statepoint-example,"),
    ('; gc "a"\n\ndefine void @f() gc\n"ocaml" {\n  ret void\n}', 3, 18, 'strategy "ocaml" here'),
    (
        "declare void @llvm.experimental.guard(i1, ...)\ndefine void @f(i1 %c) {\n"
        '  call void (i1, ...) @llvm.experimental.guard(i1 %c) ["deopt"()]\n  ret void\n}',
        3,
        3,
        "llvm.experimental.deoptimize",
    ),
    # the verifier
    (
        "define i32 @f() {\n  %x = add i32 %y, 1\n  %y = add i32 1, 1\n  ret i32 %x\n}",
        2,
        3,
        "does not dominate all uses",
    ),
    (
        "define i32 @f(i32 %x) {\n\n  ret i32 %x ; fine\n  ret void\n}",
        4,
        7,
        "doesn't match function result type",
    ),
    ("define void @f() {\nentry:\n  br label %entry\n}", 2, 1, "must not have predecessors"),
]


@pytest.mark.parametrize(("source", "line", "column", "message"), REFUSED)
def test_refused(pool: CompilerPool, source: str, line: int, column: int, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        pool.compile(Request(source))
    first = caught.value.diagnostics[0]
    assert message in first.message
    assert (first.line, first.column) == (line, column)
    assert first.source == source.split("\n")[line - 1].replace("\0", "\N{SYMBOL FOR NULL}")
    assert first.hint == ""


def test_lines_that_the_user_did_not_type_are_not_counted(pool: CompilerPool) -> None:
    with pytest.raises(CompileError) as caught:
        pool.compile(Request("%pt = type { i32 }\n; cell\ndefine zork", first_line=3))
    assert caught.value.diagnostics[0].line == 1
    assert caught.value.diagnostics[0].source == "define zork"
    with pytest.raises(CompileError) as caught:
        pool.compile(
            Request("%pt = type { i32, zork }\ndefine void @f() { ret void }", first_line=2)
        )
    assert caught.value.diagnostics[0].line == 0
    assert "%pt" in str(caught.value)


def test_a_caret_under_the_place(pool: CompilerPool) -> None:
    with pytest.raises(CompileError) as caught:
        pool.compile(Request("define void @f() {\n\tret zork\n}"))
    lines = str(caught.value).split("\n")
    assert lines[0] == "line 2, column 6: expected type"
    assert lines[1:] == ["  \tret zork", "  \t    ^"]


def test_not_text(pool: CompilerPool) -> None:
    with pytest.raises(CompileError, match="line 2"):
        pool.compile(Request("; a\n; \ud800"))


@pytest.mark.parametrize(
    ("triple", "accepted"),
    [
        ("x86_64-unknown-linux-gnu", True),
        ("x86_64-pc-linux-gnu", True),
        ("x86_64-unknown-linux5.10.0-gnu2.31.0", True),
        ("x86_64-unknown-linux5.10.0-musl1.2", False),
        ("x86_64-linux-gnu", True),
        ("amd64-linux", True),
        ("", True),
        ("aarch64-unknown-linux-gnu", False),
        ("x86_64-apple-macosx13.0.0", False),
        ("x86_64-pc-windows-msvc", False),
        ("x86_64-unknown-linux-musl", False),
        ("wasm32", False),
        ("unknown-unknown-unknown", True),  # what llvmlite.ir writes
    ],
)
def test_target_triples(pool: CompilerPool, triple: str, accepted: bool) -> None:
    request = Request(f'target triple = "{triple}"\ndefine void @f() {{ ret void }}')
    if accepted:
        assert pool.compile(request).warnings == ()
        return
    with pytest.raises(CompileError) as caught:
        pool.compile(request)
    assert caught.value.diagnostics[0].line == 1
    assert ("%asm --target" in str(caught.value)) == (not triple.startswith("x86_64"))


def test_another_data_layout_is_replaced(pool: CompilerPool) -> None:
    assert not pool.compile(Request('target datalayout = ""\n@g = global i64 0')).warnings
    compiled = pool.compile(Request('\ntarget datalayout = "e-m:e-i64:32"\n@g = global i64 0'))
    (note,) = compiled.warnings
    assert (note.line, note.severity) == (2, "note") and "replaced" in note.message


def test_optnone_is_told_or_dropped(pool: CompilerPool) -> None:
    source = (
        "define i32 @f(i32 %x) #0 {\n  %p = alloca i32\n  store i32 %x, ptr %p\n"
        "  %v = load i32, ptr %p\n  ret i32 %v\n}\n"
        'attributes #0 = { noinline optnone "optnone"="optnone" }'
    )
    kept = pool.compile(Request(source))
    assert kept.warnings[0].line == 7
    dropped = pool.compile(Request(source, Options(ignore_optnone=True)))
    assert dropped.warnings == ()
    assert len(dropped.object) < len(kept.object)


def test_what_llvm_writes_while_it_succeeds(pool: CompilerPool) -> None:
    source = 'define void @f() {\n  call void asm ".warning \\22look\\22", ""()\n  ret void\n}'
    assert "look" in pool.compile(Request(source)).warnings[0].message
    assert pool.compile(Request("define void @f() { ret void }")).warnings == ()


@pytest.mark.parametrize(
    ("triple", "cpu", "words"),
    [
        ("aarch64-linux-gnu", "", "mul\tw0, w0, w0"),
        ("riscv64-linux-gnu", "sifive-u74", "mulw\ta0, a0, a0"),
        ("x86_64-linux-gnu", "", ".intel_syntax"),
    ],
)
def test_assembly_elsewhere(pool: CompilerPool, triple: str, cpu: str, words: str) -> None:
    source = (
        f'target triple = "{triple}"\ndefine i32 @sq(i32 %x) {{\n'
        "  %r = mul i32 %x, %x\n  ret i32 %r\n}"
    )
    text = pool.assembly(
        Request(source), triple, "sifive-u74" if triple.startswith("riscv") else ""
    )
    assert words in text


def test_assembly_that_is_refused(pool: CompilerPool) -> None:
    with pytest.raises(CompileError, match="no such machine: zork"):
        pool.assembly(Request(""), "zork-linux")
    with pytest.raises(CompileError) as caught:
        pool.assembly(Request("\ndefine zork"), "aarch64-linux-gnu")
    assert caught.value.diagnostics[0].line == 2
