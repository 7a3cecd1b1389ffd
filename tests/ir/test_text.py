"""The parts of a line of IR."""

from __future__ import annotations

import pytest

from jitkernel.ir.text import (
    closing,
    line_end,
    split_at_commas,
    squeeze,
    type_at,
    without_comments,
)

SPLITS = [
    ("", []),
    ("i32 1", ["i32 1"]),
    ("i32 1,i8 %x", ["i32 1", "i8 %x"]),
    ("{ i32, i8 } zeroinitializer, ptr @f", ["{ i32, i8 } zeroinitializer", "ptr @f"]),
    ('ptr @"a, b", [2 x i8] c"a,"', ['ptr @"a, b"', '[2 x i8] c"a,"']),
    ("ptr byval({ i8, i8 }) %p, <2 x i1> %v", ["ptr byval({ i8, i8 }) %p", "<2 x i1> %v"]),
]


@pytest.mark.parametrize(("text", "parts"), SPLITS)
def test_split_at_commas(text: str, parts: list[str]) -> None:
    assert split_at_commas(text) == parts


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("i32 %x", "i32"),
        ("ptr addrspace(1) %x", "ptr addrspace(1)"),
        ("%pt %x", "%pt"),
        ('%"a b" %x', '%"a b"'),
        ("{ i32, [2 x i8] } undef", "{ i32, [2 x i8] }"),
        ("<{ i8 }> %x", "<{ i8 }>"),
        ("x86_fp80 0xK0", "x86_fp80"),
        ("1", ""),
    ],
)
def test_leading_type(text: str, type_: str) -> None:
    assert type_at(text) == type_


def test_brackets_in_strings_and_comments_do_not_count() -> None:
    text = '(c"(", ; (((\n )) rest'
    assert text[: closing(text, 0)] == '(c"(", ; (((\n )'
    assert closing("(", 0) == -1


def test_squeeze_keeps_strings() -> None:
    assert squeeze('%"a b" ( i32 ,i8)') == '%"a b"(i32,i8)'


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("global i32 1\n@h", "global i32 1"),
        ("global i32 1 ; ,", "global i32 1 "),
        ("[2 x i32] [i32 1, ; one\n i32 2]\nx", "[2 x i32] [i32 1, ; one\n i32 2]"),
        ('c";\n"\n', 'c";\n"'),
        ("whole", "whole"),
    ],
)
def test_a_statement_ends_outside_brackets(text: str, statement: str) -> None:
    assert text[: line_end(text, 0)] == statement


def test_comments_become_blanks() -> None:
    assert without_comments('a ";" ; b\nc') == 'a ";"    \nc'


def test_comments_in_brackets_are_no_code() -> None:
    assert closing("(a /* ) */ b) c", 0) == 13
    assert split_at_commas("i32 /* , */ 1, i32 2") == ["i32 /* , */ 1", "i32 2"]
    text = '"/*" /* one\ntwo */ x ; /* three'
    assert without_comments(text) == '"/*"' + " " * 7 + "\n" + " " * 7 + "x" + " " * 11
    assert without_comments(text, kept=";").endswith("x ; /* three")
