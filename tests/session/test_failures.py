"""A cell that fails changes nothing: the whole state before and after is compared."""

from __future__ import annotations

import pytest
from programs import SQ, constant, state

from jitkernel.errors import (
    ArenaFull,
    CompileError,
    Fault,
    JitError,
    LinkError,
    TypeMismatch,
    UsageError,
)
from jitkernel.session import CellOptions


@pytest.fixture
def program(s):
    """A session with something of everything in it."""
    s.run(
        SQ
        + "\n@g = global i32 5\n@k = constant i32 6\n@p = global ptr @sq\n@big = global [4 x i64] zeroinitializer",
        cell_id="a",
    )
    s.run(
        "define i32 @user(i32 %x) {\n  %r = call i32 @sq(i32 %x)\n  %k = load i32, ptr @k\n  %s = add i32 %r, %k\n  ret i32 %s\n}",
        cell_id="b",
    )
    s.run('%pt = type { i32, i32 }\n@pts = global [2 x %pt] zeroinitializer\n@puts("x")')
    s.run("@g = 17\n@user(3)")
    s.call("sq", 1)
    s.call("user", 1)
    return s


FAILURES = [
    ("a syntax error", "define i32 @sq(i32 %x) {\n  foo\n}", CompileError),
    ("a type error", "define i32 @sq(i32 %x) {\n  ret i64 1\n}", CompileError),
    ("no terminator", "define i32 @sq(i32 %x) {\n  %r = mul i32 %x, %x\n}", CompileError),
    ("unverifiable", "define i32 @sq(i32 %x) {\n  %r = call i32 @llvm.abs.i32(i32 %x, i1 %c)\n  ret i32 %r\n}", CompileError),
    ("defined twice", SQ + "\n" + SQ, CompileError),
    ("an unknown gc", 'define i32 @sq(i32 %x) gc "nothing" {\n  ret i32 1\n}', CompileError),
    ("impossible assembly", 'define i32 @sq(i32 %x) {\n  %r = call i32 asm "nop", "={zz}"()\n  ret i32 %r\n}', CompileError),
    ("assembly that does not assemble", 'define i32 @sq(i32 %x) {\n  call void asm "no such thing", ""()\n  ret i32 1\n}', CompileError),
    ("another signature", "define i64 @sq(i64 %x) {\n  ret i64 1\n}", TypeMismatch),
    ("another variable type", "@k = constant i64 1\n@g = global i32 0", TypeMismatch),
    ("an undefined variable", "@nowhere = external global i32\n@g = global i32 99\ndefine i32 @sq(i32 %x) {\n  %v = load i32, ptr @nowhere\n  ret i32 %v\n}", LinkError),
    ("a thread-local variable's address", "@t = thread_local global i32 1\n@g = global i32 99\n@p = global ptr @t", CompileError),
    ("a thread-local variable that is none", "@g = thread_local global i32 99", TypeMismatch),
    ("an ifunc without a resolver", "@f = ifunc i32 (), ptr @r\n@g = global i32 99", CompileError),
    ("a fault in a resolver", "@f = ifunc i32 (), ptr @r\ndefine ptr @r() {\n  store volatile i32 1, ptr null\n  ret ptr null\n}\n@g = global i32 99", Fault),
    ("a fault in a constructor", "@g = global i32 99\n@big = global [4 x i64] [i64 1, i64 2, i64 3, i64 4]\n@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 65535, ptr @c, ptr null }]\ndefine void @c() {\n  store i32 98, ptr @g\n  store i64 7, ptr @big\n  store volatile i32 1, ptr null\n  ret void\n}\ndefine i32 @sq(i32 %x) {\n  ret i32 0\n}", Fault),
    ("exit in a constructor", "@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 65535, ptr @c, ptr null }]\ndeclare void @exit(i32)\ndefine void @c() {\n  call void @exit(i32 3)\n  ret void\n}\ndefine i32 @sq(i32 %x) {\n  ret i32 0\n}", Fault),
    ("not a statement", "@sq = 4 5", CompileError),
    ("unbalanced", "define i32 @sq(", CompileError),
    ("an unknown type", "@new = global %nothing zeroinitializer", CompileError),
    ("another target", 'target triple = "aarch64-unknown-linux-gnu"\n' + constant("sq", 1), CompileError),
]  # fmt: skip


@pytest.mark.parametrize("cell_id", ["a", None])
@pytest.mark.parametrize(("what", "source", "kind"), FAILURES, ids=[f[0] for f in FAILURES])
def test_a_failed_cell_changes_nothing(program, what, source, kind, cell_id):
    s = program
    if what.startswith("a fault in ") and s.settings.executor == "inline":
        pytest.skip("it would be the end of this process")
    before = state(s)
    with pytest.raises(kind):
        s.run(source, cell_id=cell_id)
    assert state(s) == before
    s.check()
    assert s.call("user", 3) == 15 and s["g"].value == 17
    # The next cell, and taking the last one back, work as if nothing had been.
    s.run(constant("next", 4), cell_id=cell_id)
    assert s.call("next") == 4
    s.undo()
    s.check()
    assert s.call("user", 3) == 15 and s["g"].value == 17


@pytest.mark.process
def test_the_fault_in_a_constructor_says_that_nothing_stayed(s):
    source = next(f[1] for f in FAILURES if f[0] == "a fault in a constructor")
    with pytest.raises(Fault) as caught:
        s.run(source)
    assert "null pointer" in str(caught.value) and "@c" in caught.value.where
    assert "constructor" in str(caught.value) and "nothing of it stayed" in str(caught.value)


# -- a full arena ----------------------------------------------------------------------------------


@pytest.fixture
def small(either):
    return either(capacity=4 << 20)


def test_a_full_data_zone_says_what_holds_it_and_what_frees_it(small):
    s = small
    room = s.memory()["zones"]["data"]["capacity"]
    number = s.run(f"@big = global [{room // 2} x i8] zeroinitializer").cell.number
    s.run("@little = global i32 7")
    before = state(s)
    with pytest.raises(ArenaFull) as caught:
        s.run(f"@more = global [{room // 2} x i8] zeroinitializer\n@little = global i32 8")
    message = str(caught.value)
    assert state(s) == before and s["little"].value == 7
    assert f"cell {number}" in message and "@big" in message
    for command in ("%evict", "%gc", "%reset", "Arena.capacity"):
        assert command in message, message
    assert "Nothing was placed" in message
    assert (caught.value.zone, caught.value.size) == ("data", room // 2)
    s.check()
    s.evict("big")
    with pytest.raises(ArenaFull, match="undo"):
        s.run(f"@more = global [{room // 2 + 64} x i8] zeroinitializer")
    s.reset()
    s.run(f"@more = global [{room // 2 + 64} x i8] zeroinitializer")


def test_a_full_text_zone(small):
    s = small
    room = s.memory()["zones"]["text"]["capacity"]
    code = 'define void @f%d() {\n  call void asm sideeffect ".skip %d, 0x90", ""()\n  ret void\n}'
    s.run(code % (1, room // 2))
    before = state(s)
    with pytest.raises(ArenaFull, match=r"cell 1.*@f1"):
        s.run(code % (2, room // 2))
    assert state(s) == before
    s.call("f1")
    s.check()


def test_redefinition_needs_room_for_both_at_once(small):
    s = small
    room = s.memory()["zones"]["rodata"]["capacity"]
    s.run(f"@k = constant [{room * 2 // 3} x i8] zeroinitializer")
    before = state(s)
    with pytest.raises(ArenaFull):
        s.run(f"@k = constant [{room * 2 // 3} x i8] zeroinitializer\n" + constant("f", 1))
    assert state(s) == before
    s.check()


def test_no_room_for_text_given_to_a_call(small):
    s = small
    room = s.memory()["zones"]["data"]["capacity"]
    with pytest.raises(ArenaFull):
        s.call("strlen", "x" * room)
    assert s.call("strlen", "x") == 1
    s.check()


def test_a_retype_that_finds_no_room_changes_nothing(small):
    s = small
    s.run(SQ)
    s.run("define i32 @u() {\n  %r = call i32 @sq(i32 3)\n  ret i32 %r\n}")
    room = s.memory()["zones"]["data"]["capacity"]
    before = state(s)
    with pytest.raises(ArenaFull):
        s.run(
            f"define i64 @sq(i64 %x) {{\n  ret i64 1\n}}\n@b = global [{room + 1} x i8] zeroinitializer",
            options=CellOptions(retype=True),
        )
    assert state(s) == before and s.call("u") == 9


# -- bad input -------------------------------------------------------------------------------------

BAD = [
    ("binary", bytes(range(256)).decode("latin-1")),
    ("zeros", "\0" * 1000),
    ("open string", '@puts("hello'),
    ("open brace", "define i32 @f() {"),
    ("surrogates", "\udcff\udcfe"),
    ("only a name", "hello"),
    ("a C call", "sq(7)"),
    ("no ret", "define i32 @f() {\n}"),
    ("no body", "define i32 @f()"),
    ("wrong arguments", "@strlen(1, 2, 3)"),
    ("no arguments", "@strlen()"),
    ("deep nesting", "@x = i32 " + "(" * 5000),
    ("deep aggregates", "@x = " + "{" * 3000 + " i8 1 " + "}" * 3000),
    ("a huge number", "@x = i32 " + "9" * 100_000),
    ("a huge width", "@x = global i99999999 0"),
    ("a huge array", "@x = global [9223372036854775807 x i64] zeroinitializer"),
    ("unterminated quote", 'define i32 @"a b( {'),
    ("a triple", 'target triple = "sparc-sun-solaris"\n@x = global i32 1'),
    ("a run of labels", "a:\nb:\nc:"),
    ("a shell command", "!ls"),
    ("an unknown magic", "%nosuchmagic"),
    ("an unknown cell magic", "%%nosuchmagic\n@x = global i32 1"),
    ("half a megabyte of one line", "@x = global [500000 x i8] c\"" + "a" * 499_999 + '"'),
    ("an expression without end", "@puts(" * 2000),
]  # fmt: skip


@pytest.mark.parametrize(("what", "source"), BAD, ids=[b[0] for b in BAD])
def test_bad_input_gets_a_clear_error_and_changes_nothing(s, what, source):
    s.run(SQ)
    before = state(s)
    with pytest.raises(JitError) as caught:
        s.run(source)
    assert str(caught.value).strip() and not isinstance(caught.value, Fault)
    assert state(s) == before
    s.check()
    assert s.call("sq", 4) == 16


def test_a_block_with_metadata_that_is_nowhere_defined(s):
    with pytest.raises(CompileError, match="metadata"):
        s.run("%a = alloca i32\n%r = load i32, ptr %a, !range !0")


@pytest.mark.parametrize("source", ["", "\n\n", "   \t ", "; only a comment", "\n; one\n; two\n"])
def test_cells_without_code_do_nothing(s, source):
    before = state(s)
    r = s.run(source)
    assert (r.value, r.text, r.notes, r.stdout) == (None, "", [], "")
    assert state(s) == before


@pytest.mark.parametrize(
    "name", ['"a b"', '"é"', '"日本"', '"a\\22b"', "a.b", "$x", "-y", "_1z", '"1"']
)
def test_names_with_quotes_and_unicode(s, name):
    s.run(f"define i32 @{name}() {{\n  ret i32 7\n}}")
    assert s.run(f"@{name}()").value == 7
    s.run(f"define i32 @use() {{\n  %r = call i32 @{name}()\n  ret i32 %r\n}}")
    r = s.run(f"define i32 @{name}() {{\n  ret i32 8\n}}")
    assert s.call("use") == 8 and any("moved" in n for n in r.notes)
    s.evict("use")
    s.check()


def test_the_right_triple_and_another_layout_are_accepted(s):
    r = s.run(
        'target datalayout = "e-m:e-i64:64"\ntarget triple = "x86_64-pc-linux-gnu"\n'
        + SQ
        + "\n@sq(3)"
    )
    assert r.value == 9 and any("data layout" in n for n in r.notes)


def test_unknown_languages_and_wrong_names(s):
    with pytest.raises(UsageError, match="no language 'fortran'"):
        s.run("x", language="fortran")
    with pytest.raises(UsageError, match="no cell 999"):
        s.evict(999)
    with pytest.raises(UsageError, match="no cell defines @nothing"):
        s.evict("nothing")
    with pytest.raises(UsageError, match="evict what"):
        s.evict()
    with pytest.raises(UsageError, match="no cells 900-950"):
        s.evict("900-950")
    with pytest.raises(UsageError, match="nothing to undo"):
        s.undo()
    with pytest.raises(UsageError, match="no source of cell"):
        s.source(999)
