"""is_complete for consoles, the word under the cursor, and the lists for completion."""

import ctypes
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jitkernel.ir.keywords import KEYWORDS, OPCODES, describe_word, nearest
from jitkernel.ir.statements import Kind, split, word_at
from jitkernel.ir.types import VOID
from jitkernel.languages.llvm.language import is_complete
from jitkernel.languages.llvm.prelude import PRELUDE, prelude_type


@pytest.mark.parametrize(
    ("source", "status", "indent"),
    [
        ("", "complete", ""),
        ("  \n", "complete", ""),
        ("; comment (", "complete", ""),
        ("@sq(7)", "complete", ""),
        ("%x = add i32 40, 2", "complete", ""),
        ("define i32 @f() {\n  ret i32 1\n}", "complete", ""),
        ("define i32 @f() {", "incomplete", "  "),
        ("define i32 @f() {\n  %x = add i32 1, 2", "incomplete", "  "),
        ("define i32 @f() {\nentry:", "incomplete", "  "),
        ("define i32 @f()", "incomplete", ""),
        ("define i32 @f(i32 %x,", "incomplete", "  "),
        ("@sq(", "incomplete", "  "),
        ("@take({ 1,", "incomplete", "  "),
        ("%pt = type {", "incomplete", "  "),
        ('@s = constant [3 x i8] c"ab', "incomplete", "  "),
        ("entry:", "incomplete", "  "),
        ("!ls \\", "incomplete", ""),
        ("%%time", "incomplete", ""),
        ("%%time\n@sq(7)", "incomplete", ""),
        ("%%time\n@sq(7)\n\n", "complete", ""),
        ("%%llvm -O0\ndefine i32 @f() {", "incomplete", "  "),
        ("%%llvm -O0\ndefine i32 @f() {\n  ret i32 1", "incomplete", "  "),
        ("%%llvm -O0\ndefine i32 @f() {\n  ret i32 1\n}", "incomplete", ""),
        ("%asm", "complete", ""),
        ("!ls (", "complete", ""),
        ("@sq(7))", "invalid", ""),
        ("sq(7)", "invalid", ""),
        ("@sq(]", "invalid", ""),
        ("@sq(7 7)", "invalid", ""),
        ('@puts("x)', "invalid", ""),
        ("sq(7)\ndefine i32 @f() {", "invalid", ""),
        ("%x = add i32 1, 2\n@f()\n%y = add i32 1, 2", "invalid", ""),
        ("a\x00", "invalid", ""),
    ],
)
def test_is_complete(source, status, indent):
    found = is_complete(source)
    assert (found.status, found.indent) == (status, indent)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("@sq|", "@sq"),
        ("@s|q(7)", "@sq"),
        ("@|", "@"),
        ("  |@sq", "@sq"),
        ("call i32 @a|", "@a"),
        ('@"a b|"', '@"a b"'),
        ("%ti|", "%ti"),
        ("  %ti|me @sq", "%time"),
        ("%x| = add i32 1, 2", "%x"),
        ("%y = add i32 %x|", "%x"),
        ("%%ti|", "%%ti"),
        ("%%|", "%%"),
        ("al|", "al"),
        ("%x = al|loca i32", "alloca"),
        ("%x = load i3|", "i3"),
        ("load double|", "double"),
        ("!dbg|", "!dbg"),
        ('@puts("al|', ""),
        ('@puts("al|ways")', ""),
        ("ret void ; al|", ""),
        ("; |", ""),
        ("ret|; c", "ret"),
        ("@sq(7)|", ""),
        ("one\n@t|wo\nthree", "@two"),
        ("?@s|q", "@sq"),
        ("|", ""),
        ("@a|@b", "@a"),
    ],
)
def test_word_at(text, word):
    assert word_at(text.replace("|", ""), text.index("|")) == word


@given(st.text(st.sampled_from('@%!"; \nabc(){}?=1'), max_size=40), st.integers(-5, 50))
@settings(max_examples=100)
def test_any_cursor(text, position):
    assert word_at(text, position) in text
    is_complete(text)


def test_every_opcode_is_described_and_begins_an_instruction():
    described = {word for word, (kind, _) in KEYWORDS.items() if kind == "opcode"}
    assert described == OPCODES
    for word in OPCODES:
        assert split(f"{word} i32 1")[0].kind is Kind.INSTRUCTION
    assert describe_word("add") == "add (opcode): add integers"
    assert describe_word("nonsense") == ""


def test_the_opcodes_are_llvms(llvm):
    """A word that LLVM does not know as an opcode draws its words at the word itself."""
    for word in OPCODES:
        text = f"define void @f() {{\n  {word} $\n}}"
        line, column, words = llvm.error(text)
        assert (line, column) != (2, 3), (word, words)
    assert llvm.error("define void @f() {\n  zadd $\n}")[:2] == (2, 3)


def test_prelude_is_what_libc_has_and_llvm_reads(llvm):
    libraries = [ctypes.CDLL(name) for name in ("libc.so.6", "libm.so.6")]
    assert 60 <= len(PRELUDE) <= 120
    for name, text in PRELUDE.items():
        assert any(hasattr(library, name) for library in libraries), name
        type = prelude_type(name)
        assert type is not None
        assert text == f"declare {type.result} @{name}{str(type)[len(str(type.result)) + 1 :]}"
        # Small integers would need signext or zeroext at both ends.
        assert not re.search(r"\bi(1|8|16)\b", text)
    assert llvm.error("\n".join(PRELUDE.values()))[2] == ""
    assert prelude_type("printf").variadic
    assert prelude_type("free").result == VOID
    assert prelude_type("nonsense") is None


def test_prelude_agrees_with_llvms_own_table(llvm):
    """LLVM knows the types of library functions; one that differs would not be optimised."""
    calls = "\n".join(
        f"@use.{name} = global ptr @{name}"
        for name in ("strlen", "malloc", "sqrt", "puts", "memcpy")
    )
    assert llvm.error("\n".join(PRELUDE.values()) + "\n" + calls)[2] == ""


@pytest.mark.parametrize(
    ("name", "known", "close"),
    [
        ("sp", ["sq", "counter"], "sq"),
        ("PUTS", ["puts"], "puts"),
        ("zzz", ["sq"], None),
        ("ad", ["and", "add"], "add"),
        ("", ["sq"], None),
    ],
)
def test_nearest(name, known, close):
    assert nearest(name, known) == close


def test_a_very_long_cell_is_not_read() -> None:
    call = f"@f({', '.join(['1'] * 200_000)}"  # a bracket is open
    assert is_complete(call).status == "complete"
    assert is_complete(call[:1000]).status == "incomplete"
