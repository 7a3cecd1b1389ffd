"""Global value numbering, by dominance: what a block knows, the blocks that it dominates know."""

from jitkernel.ir.model import Function, Instruction, Value
from jitkernel.transform.examples.lvn import key


def gvn(f: Function) -> None:
    tree = f.dominators()
    work = [(f.entry, dict[tuple[str, tuple[Value, ...]], Instruction]())]
    while work:
        b, known = work.pop()
        for i in b.instructions:
            if i.is_pure:
                first = known.setdefault(key(i), i)
                if first is not i:
                    i.replace_with(first)
        work += [(child, dict(known)) for child in tree.children[b]]
