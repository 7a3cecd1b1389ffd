"""Constant folding: what has constants for operands is computed here and now."""

from collections.abc import Callable
from operator import eq, ge, gt, le, lt, ne

from jitkernel.ir.model import Constant, Function, Instruction, Value, const

# Of two numbers from 0 on, and the width of their type; `const` cuts what is too wide.
_BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "udiv": lambda a, b: a // b,
    "urem": lambda a, b: a % b,
}
_SHIFTS: dict[str, Callable[[Constant, int], int]] = {
    "shl": lambda a, by: (a.unsigned or 0) << by,
    "lshr": lambda a, by: (a.unsigned or 0) >> by,
    "ashr": lambda a, by: (a.signed or 0) >> by,
}
_COMPARE = {"eq": eq, "ne": ne, "gt": gt, "ge": ge, "lt": lt, "le": le}


def folded(i: Instruction) -> Value | None:
    """The value that an instruction always has; None where it is not known, or undefined."""
    values = [o for o in i.operands if isinstance(o, Constant) and o.unsigned is not None]
    if i.opcode == "select" and i.operands[0] in values:
        return i.operands[1 if values[0].unsigned else 2]
    if not values or len(values) != len(i.operands) or not i.bits:
        return None
    a, b = values[0], values[-1]
    left, right, bits = a.unsigned or 0, b.unsigned or 0, a.bits
    if i.opcode in _SHIFTS and right < bits:
        return const(i.type, _SHIFTS[i.opcode](a, right))
    if i.opcode in ("zext", "trunc"):
        return const(i.type, left)
    if i.opcode == "sext":
        return const(i.type, a.signed or 0)
    if i.opcode == "icmp":
        if i.predicate[0] == "s":
            left, right = a.signed or 0, b.signed or 0
        return const("i1", _COMPARE[i.predicate[-2:]](left, right))
    if right == 0 and i.opcode in ("udiv", "urem"):
        return None  # undefined
    return const(i.type, _BINARY[i.opcode](left, right)) if i.opcode in _BINARY else None


def fold(f: Function) -> None:
    work = list(f.instructions)
    while work:
        i = work.pop()
        if i.block is not None and (value := folded(i)) is not None:
            work += i.users
            i.replace_with(value)
