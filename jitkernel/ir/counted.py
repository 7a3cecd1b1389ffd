"""Functions that count how often each of their edges is taken.  Start from `counted`."""

from __future__ import annotations

from typing import TypeAlias

from jitkernel.ir.model import Block, Function, const, parse, phi
from jitkernel.ir.model.module import function_of
from jitkernel.ir.module import functions

#: An edge by the numbers of the blocks that it leads from and to; into the entry, from -1.
Edge: TypeAlias = tuple[int, int]

WORD = 8  # bytes of a counter
_PADS = ("landingpad", "catchpad", "cleanuppad")  # with which a block must begin


def edges_of(function: Function) -> list[Edge]:
    """The edges of a function, each once: the entry's, then by block in the order of its
    terminator."""
    number = {block: at for at, block in enumerate(function.blocks)}
    return [
        (-1, 0),
        *((at, number[to]) for block, at in number.items() for to in block.successors),
    ]


def counted(text: str, name: str, address: int) -> str:
    """A module in which a function counts, in a word of memory for each of `edges_of` from the
    address on, how often it is taken.

    A block is told by a phi which edge it was: so no edge needs a block of its own.
    """
    entity = next(found for found in functions(text, "define") if found.name == name)
    function = function_of(entity)
    number = {block: at for at, block in enumerate(function.blocks)}
    counter = {edge: at for at, edge in enumerate(edges_of(function))}
    for block, at in number.items():
        before = [b for b in block.predecessors if b in number]
        counters = [counter[number[b], at] for b in before] if at else [0]
        if not counters:  # nothing leads here
            continue
        first = block.first_non_phi
        if first.opcode == "catchswitch":  # beside which nothing may stand
            continue
        places = [const("ptr", f"inttoptr (i64 {address + WORD * n} to ptr)") for n in counters]
        place: str = places[0].ref
        if len(places) > 1:
            made = phi("ptr", "count")
            for where, came in zip(places, before, strict=True):
                for _ in range(came.edges.count(block)):
                    made.add_incoming(where, came)
            place = made.insert_before(first).ref
        step = parse(f"%count = atomicrmw add ptr {place}, i64 1 monotonic, align {WORD}", function)
        if first.opcode in _PADS:
            step.insert_after(first)
        else:
            step.insert_before(first)
    return text[: entity.start] + str(function) + text[entity.end :]


def taken(function: Function, data: bytes) -> dict[tuple[Block | None, Block], int]:
    """The times that each edge was taken: what `counted` has left in memory."""
    words = memoryview(data).cast("Q")
    blocks = function.blocks
    return {
        (blocks[a] if a >= 0 else None, blocks[b]): words[at]
        for at, (a, b) in enumerate(edges_of(function))
    }
