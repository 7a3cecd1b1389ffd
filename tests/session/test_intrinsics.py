"""Intrinsics in call lines: LLVM tells their types."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jitkernel import Session
from jitkernel.errors import CompileError, Fault
from jitkernel.ir.types import types_named


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(capacity=64 << 20, spare=False) as s:
        yield s


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("@llvm.ctpop.i32(7)", "i32 3"),
        ("@llvm.ctpop(7)", "i32 3"),  # the ending may be left out
        ("@llvm.ctpop(i8 255)", "i8 8"),
        ("@llvm.ctpop.i64(u0xFFFF)", "i64 16"),
        ("@llvm.ctlz.i32(8, true)", "i32 28"),  # the second has to be a constant
        ("@llvm.abs.i32(-3, false)", "i32 3"),
        ("@llvm.sqrt.f64(2)", "double 1.4142135623730951"),
        ("@llvm.sqrt.f32(2.0)", "float 1.4142135"),
        ("@llvm.pow.f64(2.0, 10.0)", "double 1024.0"),  # libm's in the end
        ("@llvm.sadd.with.overflow.i32(2147483647, 1)", "{ i32, i1 } { i32 -2147483648, i1 true }"),
        ("@llvm.fptosi.sat.i32.f64(1e30)", "i32 2147483647"),
        ("@llvm.vector.reduce.add.v4i32(<4 x i32> <i32 1, i32 2, i32 3, i32 4>)", "i32 10"),
        ("@llvm.fshl.i32(1, 2, 3)", "i32 8"),
        ("@llvm.is.fpclass.f64(1.0, 256)", "i1 true"),
        ("@llvm.umax.i8(@llvm.ctpop.i8(255), 3)", "i8 8"),
    ],
)
def test_a_call(session: Session, line: str, shown: str) -> None:
    assert session.run(line).text == shown


def test_memory_and_assignment(session: Session) -> None:
    session.run("@n = i64 5\n@llvm.memset.p0.i64(@n, 1, 3, false)")
    assert session.run("load i64, ptr @n").value == 0x010101
    session.run("@bits = @llvm.ctpop.i64(load @n)")
    assert session.run("@bits").value == 3


def test_a_trap_is_a_fault(session: Session) -> None:
    with pytest.raises(Fault, match=r"llvm\.trap"):
        session.run("@llvm.trap()")


@pytest.mark.parametrize(
    ("line", "message", "column"),
    [
        ("@llvm.nonsense.i32(3)", "LLVM has no intrinsic @llvm.nonsense.i32", 1),
        ("@llvm.ctpop.i32(i64 7)", "@llvm.ctpop.i32 has no form that takes these arguments", 1),
        ("@llvm.ctpop.i32(7, 8)", "@llvm.ctpop.i32 has no form that takes these arguments", 1),
        ("@llvm.ctpop.i32(5000000000)", "5000000000 does not fit i32", 17),
    ],
)
def test_what_is_refused(session: Session, line: str, message: str, column: int) -> None:
    with pytest.raises(CompileError) as caught:
        session.run(line)
    found = caught.value.diagnostics[0]
    assert (found.message, found.column) == (message, column)


def test_types_in_names() -> None:
    assert types_named("llvm.memcpy.p0.p0.i64") == ["ptr", "i64"]
    assert types_named("llvm.vp.add.nxv4i32") == ["<vscale x 4 x i32>"]
    assert types_named("llvm.fptosi.sat.i32.f64") == ["i32", "double"]
    assert types_named("llvm.masked.load.v8f32.p1") == ["<8 x float>", "ptr addrspace(1)"]
    assert types_named("llvm.trap") == types_named("llvm.assume") == []
