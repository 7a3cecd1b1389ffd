"""Memory to values: allocas become values, and phis where ways meet (Cytron et al. 1991)."""

from jitkernel.ir.model import Block, Dominators, Function, Instruction, Value, const, phi


def promotable(a: Instruction) -> bool:
    if a.opcode != "alloca" or a.operands:
        return False
    for i, number in a.uses:
        value = {"load0": i, "store1": i.operands[0]}.get(f"{i.opcode}{number}")
        if value is None or value.type != a.allocated_type or i.is_volatile:
            return False
    return True


def place(a: Instruction, tree: Dominators, slots: dict[Instruction, Instruction]) -> None:
    """Phis for one alloca, which `slots` notes: at frontiers of stores, where it is read later."""
    users, blocks = set(a.users), dict.fromkeys([i.block for i in a.users if i.block])
    first = {b: next(i for i in b.instructions if i in users) for b in blocks}
    stores = [b for b in blocks if any(i.opcode == "store" and i in users for i in b.instructions)]
    kills, read, work = set(stores), set[Block](), [b for b in first if first[b].opcode == "load"]
    while work:  # from each load back to the stores
        if (b := work.pop()) and b not in read:
            read.add(b)
            work += [p for p in b.predecessors if p not in kills]
    while stores:
        for b in [b for b in tree.frontiers.get(stores.pop(), ()) if b in read]:
            read.remove(b)
            slots[phi(a.allocated_type, a.name).insert_before(b.instructions[0])] = a
            stores.append(b)


def mem2reg(f: Function) -> None:
    tree, slots, value = f.dominators(), dict[Instruction, Instruction](), dict[Value, Value]()
    allocas = [i for i in f.entry.instructions if promotable(i)]
    for a in allocas:
        value[a] = const(a.allocated_type, "undef")
        place(a, tree, slots)
    work = [(b, dict(value)) for b in f.blocks if tree.idom[b] is None]
    while work:
        b, now = work.pop()
        for i in b.instructions:
            if i in slots:
                now[slots[i]] = i
            elif i.opcode == "load" and i.operands[0] in now:
                i.replace_with(now[i.operands[0]])
            elif i.opcode == "store" and i.operands[1] in now:
                now[i.operands[1]] = i.operands[0]
                i.erase()
        for p in [p for s in b.edges for p in s.phis if p in slots]:  # one entry for each edge
            p.add_incoming(now[slots[p]], b)
        work += [(child, dict(now)) for child in tree.children[b]]
    for a in allocas:
        a.erase()
    while same := [i for i in slots if i.block and len({v for v, _ in i.incoming} - {i}) == 1]:
        for i in same:
            others = [v for v, _ in i.incoming if v is not i]
            i.replace_with(others[0] if others else const(i.type, "poison"))
    if allocas:
        mem2reg(f)  # what had the address of one of them may be ready now
