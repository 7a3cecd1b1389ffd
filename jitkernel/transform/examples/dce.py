"""Dead code elimination: what nobody needs goes.  Phis that only use each other are used, and yet
dead: so what is needed is marked, and all else goes."""

from jitkernel.ir.model import Function, Instruction, const


def dce(f: Function) -> None:
    live = set[Instruction]()
    work = [i for i in f.instructions if i.has_side_effects]
    while work:
        i = work.pop()
        if i not in live:
            live.add(i)
            work += [o for o in i.operands if isinstance(o, Instruction)]
    dead = [i for i in f.instructions if i not in live]
    for i in dead:  # the dead use each other
        i.replace_all_uses_with(const(i.type, "poison"))
    for i in dead:
        i.erase()
