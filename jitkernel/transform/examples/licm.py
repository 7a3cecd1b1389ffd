"""Loop-invariant code motion: what is the same in every round is computed once, before the loop.

A division stays: before a loop that never runs it would divide by what was not checked."""

from jitkernel.ir.model import Block, Function


def licm(f: Function) -> None:
    for loop in f.loops():  # inner ones first: what leaves one may leave the next
        before = loop.preheader
        work: list[Block | None] = [*loop.blocks] if before else []
        while before and work:
            b = work.pop(0)
            for i in b.instructions if b else ():
                fixed = not any(o in loop for o in i.operands)
                if i.is_pure and not i.may_trap and fixed:
                    i.insert_before(before.terminator)
                    work += [u.block for u in i.users if u.block in loop]
