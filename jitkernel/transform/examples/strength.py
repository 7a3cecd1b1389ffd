"""Strength reduction: a multiplication, division or remainder by a power of two is a shift or a
mask."""

from jitkernel.ir.model import Constant, Function, Instruction, Value, binary, const


def cheaper(i: Instruction) -> Value | None:
    """An instruction that does the same for less, put before it; None where none is known."""
    if i.opcode not in ("mul", "udiv", "urem") or not i.bits:
        return None
    left, right = i.operands
    if i.opcode == "mul" and isinstance(left, Constant):
        left, right = right, left
    number = right.unsigned if isinstance(right, Constant) else None
    if not number or number & (number - 1):
        return None  # no power of two
    by, flags = number.bit_length() - 1, list(i.flags)
    if i.opcode == "urem":
        return binary("and", left, const(i.type, number - 1), i.name).insert_before(i)
    # 2^(w-1) is negative for mul nsw, and too far for shl nsw: x = 1 overflows in one of them only.
    if i.opcode == "mul" and by == i.bits - 1 and "nsw" in flags:
        flags.remove("nsw")
    opcode = {"mul": "shl", "udiv": "lshr"}[i.opcode]
    return binary(opcode, left, const(i.type, by), i.name, flags).insert_before(i)


def strength(f: Function) -> None:
    for i in f.instructions:
        if (new := cheaper(i)) is not None:
            i.replace_with(new)
