"""Local value numbering: within a block, what does the same with the same operands is one value."""

from jitkernel.ir.model import Function, Instruction, Value


def key(i: Instruction) -> tuple[str, tuple[Value, ...]]:
    """A key that two instructions have in common if they give one value."""
    operands = i.operands
    if i.opcode in ("add", "mul", "and", "or", "xor"):  # a + b is b + a
        operands = tuple(sorted(operands, key=lambda value: value.ref))
    return i.form, operands


def lvn(f: Function) -> None:
    for b in f.blocks:
        known = dict[tuple[str, tuple[Value, ...]], Instruction]()
        for i in b.instructions:
            if i.is_pure:
                first = known.setdefault(key(i), i)
                if first is not i:
                    i.replace_with(first)
