"""A declaration holds for later cells, also when its own cell did not use it."""

from __future__ import annotations

import pytest

from jitkernel.errors import TypeMismatch

pytestmark = pytest.mark.process

DECLARE = "declare i32 @iswalpha(i32)"


def test_a_definition_may_use_it(s):
    s.run(DECLARE)
    s.run(
        "define i1 @f() {\n  %x = call i32 @iswalpha(i32 65)\n  %c = icmp ne i32 %x, 0\n  ret i1 %c\n}"
    )
    assert s.call("f") is True


def test_a_block_may_use_it(s):
    s.run(DECLARE)
    assert s.run("%x = call i32 @iswalpha(i32 49)").value == 0


def test_a_block_may_use_what_its_own_cell_declares_beside_a_definition(s):
    s.run(
        "@g = global i32 49\n"
        + DECLARE
        + "\n%v = load i32, ptr @g\n%x = call i32 @iswalpha(i32 %v)"
    )
    assert s.run("_").value == 0


def test_a_call_line_may_use_it(s):
    s.run(DECLARE)
    assert s.run("@iswalpha(49)").value == 0


def test_a_later_definition_may_differ_from_an_unused_declaration(s):
    s.run("declare i32 @mine(i32)")
    try:
        s.run("define i64 @mine(i64 %x) {\n  ret i64 %x\n}")
    except TypeMismatch:
        return  # refused with both shown is right, too
    assert s.run("@mine(5)").text == "i64 5"
