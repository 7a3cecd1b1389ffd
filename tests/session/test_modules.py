"""Modules as programs have them: of `llvmlite.ir`, of `llvmlite.binding`, as bitcode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jitkernel import Session
from jitkernel.errors import CompileError, UsageError
from tests.processes import python

TEXT = "define i32 @sq(i32 %x) {\n  %r = mul i32 %x, %x\n  ret i32 %r\n}\n"


def as_ir() -> Any:
    from llvmlite import ir

    module = ir.Module("mine")
    i32 = ir.IntType(32)
    function = ir.Function(module, ir.FunctionType(i32, [i32]), "sq")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    builder.ret(builder.mul(function.args[0], function.args[0]))
    return module


def as_ref() -> Any:
    from llvmlite import binding

    return binding.parse_assembly(TEXT)


def as_bitcode() -> bytes:
    return bytes(as_ref().as_bitcode())


FORMS = [
    as_ir,
    as_ref,
    as_bitcode,
    lambda: bytearray(as_bitcode()),
    lambda: memoryview(as_bitcode()),
]


@pytest.mark.parametrize("make", FORMS)
def test_every_form(s: Session, make: Callable[[], Any]) -> None:
    cell = s.run(make()).cell
    assert cell is not None and cell.names == ["sq"]
    assert s.call("sq", 7) == 49
    assert "define i32 @" in s.source(cell.number), "the source is text"
    s.undo()
    assert "sq" not in s
    assert s.compile(make()).sizes["text"] > 0
    s.run_many([make(), "define i32 @one() {\n  ret i32 1\n}"])
    assert (s.call("sq", 3), s.call("one")) == (9, 1)


def test_a_module_sees_earlier_cells(s: Session) -> None:
    from llvmlite import ir

    s.run(TEXT)
    module = ir.Module("second")
    i32 = ir.IntType(32)
    sq = ir.Function(module, ir.FunctionType(i32, [i32]), "sq")
    function = ir.Function(module, ir.FunctionType(i32, [i32]), "fourth")
    builder = ir.IRBuilder(function.append_basic_block())
    builder.ret(builder.call(sq, [builder.call(sq, function.args)]))
    s.run(module)
    assert s.call("fourth", 3) == 81
    s.run(TEXT.replace("mul", "add"))
    assert s.call("fourth", 3) == 12


def test_what_is_no_module(s: Session) -> None:
    closed = as_ref()
    closed.close()
    for source, error, words in (
        (b"define i32 @f()", UsageError, "no bitcode; text is given as a str"),
        (b"BC\xc0\xde" + bytes(20), CompileError, "bitcode|compiler"),
        (as_bitcode()[:-40], CompileError, "bitcode|compiler"),
        (closed, UsageError, "is closed"),
        (5, UsageError, "not a int"),
        (None, UsageError, "not a NoneType"),
    ):
        with pytest.raises(error, match=words):
            s.run(source)
    with pytest.raises(UsageError, match="a cell of c is text, not a bytes"):
        s.run(as_bitcode(), language="c")
    assert not s.cells


def test_this_process_loads_no_llvm() -> None:
    """For bitcode; nor is llvmlite imported to see whether something is a module of its."""
    program = f"""
import sys
from jitkernel import Session
from jitkernel.errors import UsageError
from tests.processes import python
with Session(capacity=64 << 20) as s:
    s.run({as_bitcode()!r})
    print(s.call("sq", 5))
    try:
        s.run(object())
    except UsageError:
        print([m for m in sys.modules if m.startswith("llvmlite")])
    print("libllvmlite" in open("/proc/self/maps").read())
"""
    assert python(program).splitlines() == ["25", "[]", "False"]
