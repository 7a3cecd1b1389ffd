"""New instructions.  Start from `binary`, and from `parse` for those that have no function here.

Each is in no block yet: `insert_before`, `insert_after`, `Block.append` put it somewhere, and only
then it has a name that nothing else in the function has.  Types are records or their text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jitkernel.ir.instructions import truth
from jitkernel.ir.model.function import Block
from jitkernel.ir.model.instruction import Instruction
from jitkernel.ir.model.values import Value, as_type
from jitkernel.ir.names import quote_name
from jitkernel.ir.types import (
    PTR,
    VOID,
    FunctionType,
    Type,
    VectorType,
)


def _made(
    opcode: str, parts: list[str | int], operands: Sequence[Value], type: Type, name: str = ""
) -> Instruction:
    spelled = "" if type == VOID else quote_name(name or "t")
    return Instruction(opcode, parts, operands, type, spelled)


def _same(left: Value, right: Value, what: str) -> None:
    if left.type != right.type:
        raise TypeError(f"{what} of {left.type} {left.ref} and {right.type} {right.ref}")


def binary(
    opcode: str, left: Value, right: Value, name: str = "", flags: Iterable[str] | str = ()
) -> Instruction:
    """`binary("add", a, b, flags="nsw")`; any opcode of two operands of one type.  Raises TypeError
    where they are of two."""
    _same(left, right, opcode)
    words = " ".join([opcode, *(flags.split() if isinstance(flags, str) else flags)])
    return _made(opcode, [f"{words} {left.type} ", 0, ", ", 1], [left, right], left.type, name)


def icmp(predicate: str, left: Value, right: Value, name: str = "") -> Instruction:
    """A comparison of integers or addresses: `icmp("slt", a, b)`."""
    return _compared("icmp", predicate, left, right, name)


def fcmp(predicate: str, left: Value, right: Value, name: str = "") -> Instruction:
    """A comparison of floats: `fcmp("olt", a, b)`."""
    return _compared("fcmp", predicate, left, right, name)


def _compared(opcode: str, predicate: str, left: Value, right: Value, name: str) -> Instruction:
    _same(left, right, opcode)
    type = left.type
    parts: list[str | int] = [f"{opcode} {predicate} {type} ", 0, ", ", 1]
    return _made(opcode, parts, [left, right], truth(type), name)


def cast(opcode: str, value: Value, type: Type | str, name: str = "") -> Instruction:
    """`cast("zext", v, "i64")`."""
    to = as_type(type)
    return _made(opcode, [f"{opcode} {value.type} ", 0, f" to {to}"], [value], to, name)


def select(condition: Value, left: Value, right: Value, name: str = "") -> Instruction:
    """The left value where the condition holds, else the right one."""
    _same(left, right, "select")
    parts: list[str | int] = [f"select {condition.type} ", 0, f", {left.type} ", 1]
    return _made(
        "select", [*parts, f", {left.type} ", 2], [condition, left, right], left.type, name
    )


def freeze(value: Value, name: str = "") -> Instruction:
    """The value, or a fixed one where it is undef or poison."""
    return _made("freeze", [f"freeze {value.type} ", 0], [value], value.type, name)


def alloca(type: Type | str, name: str = "") -> Instruction:
    """Room for a value of a type on the stack; it belongs into the entry."""
    return _made("alloca", [f"alloca {as_type(type)}"], [], PTR, name)


def load(type: Type | str, pointer: Value, name: str = "") -> Instruction:
    """`load("i32", p)`."""
    found = as_type(type)
    return _made("load", [f"load {found}, {pointer.type} ", 0], [pointer], found, name)


def store(value: Value, pointer: Value) -> Instruction:
    """Write a value through a pointer."""
    parts: list[str | int] = [f"store {value.type} ", 0, f", {pointer.type} ", 1]
    return _made("store", parts, [value, pointer], VOID)


def gep(
    type: Type | str, pointer: Value, *indices: Value, name: str = "", flags: str = ""
) -> Instruction:
    """`gep("i32", p, i)`: the address of the i-th `i32` from `p` on."""
    parts: list[str | int] = [f"getelementptr {flags}{' ' * bool(flags)}{as_type(type)}"]
    for number, value in enumerate([pointer, *indices]):
        parts += [f", {value.type} ", number]
    parts[:2] = [f"{parts[0]}{parts[1]}"]
    vectors = [v.type for v in [pointer, *indices] if isinstance(v.type, VectorType)]
    result = pointer.type
    if vectors and not isinstance(result, VectorType):
        result = VectorType(vectors[0].count, result, vectors[0].scalable)
    return _made("getelementptr", parts, [pointer, *indices], result, name)


def phi(type: Type | str, name: str = "", *incoming: tuple[Value, Block]) -> Instruction:
    """A phi, with pairs of a value and the block that it comes from; `add_incoming` adds more."""
    made = _made("phi", [f"phi {as_type(type)} "], [], as_type(type), name)
    if incoming:
        made._set_incoming(list(incoming))
    return made


def call(
    callee: Value, type: Type | str, arguments: Sequence[Value] = (), name: str = ""
) -> Instruction:
    """`call(module.declare("declare i32 @puts(ptr)"), "i32", [p])`: a call of what returns `type`;
    of what takes a variable number, `type` is the function's, `"i32 (ptr, ...)"`."""
    found = as_type(type)
    result = found.result if isinstance(found, FunctionType) else found
    parts: list[str | int] = [f"call {found} ", len(arguments), "("]
    for number, value in enumerate(arguments):
        parts += [f"{', ' if number else ''}{value.type} ", number]
    if arguments:
        parts[2:4] = [f"({parts[3]}"]
    return _made("call", [*parts, ")"], [*arguments, callee], result, name)


def ret(value: Value | None = None) -> Instruction:
    """Return a value, or nothing."""
    if value is None:
        return _made("ret", ["ret void"], [], VOID)
    return _made("ret", [f"ret {value.type} ", 0], [value], VOID)


def br(target: Block) -> Instruction:
    """Go on at a block."""
    return _made("br", ["br label ", 0], [target], VOID)


def cond_br(condition: Value, then: Block, other: Block) -> Instruction:
    """Go on at one of two blocks, by an `i1`."""
    parts: list[str | int] = ["br i1 ", 0, ", label ", 1, ", label ", 2]
    return _made("br", parts, [condition, then, other], VOID)


def unreachable() -> Instruction:
    """The point that is never reached."""
    return _made("unreachable", ["unreachable"], [], VOID)
