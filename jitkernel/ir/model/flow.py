"""What control flow tells of a function: order, dominance, loops, liveness.

Each is computed from the function as it is, when it is asked for.  Start from the methods of
`Function` of the same names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from jitkernel.ir import dominators as graphs
from jitkernel.ir.model.values import Value

if TYPE_CHECKING:
    from jitkernel.ir.model.function import Block, Function
    from jitkernel.ir.model.instruction import Instruction


def _graph(function: Function) -> tuple[dict[Block, int], list[list[int]]]:
    """Blocks' numbers, and of each the numbers of its successors."""
    number = {block: index for index, block in enumerate(function.blocks)}
    return number, [[number[s] for s in block.successors] for block in number]


def reverse_post_order(function: Function) -> list[Block]:
    """See `Function.reverse_post_order`."""
    _, successors = _graph(function)
    return [function._blocks[n] for n in reversed(graphs.postorder(successors))]


class Dominators:
    """The tree of dominators.  `idom` maps a block to its immediate dominator: None for the root,
    and for one that no way leads to, which is missing in `reachable`.

    Of post-dominators the root is the end of the function, which is no block.
    """

    def __init__(
        self, blocks: Sequence[Block], parents: Sequence[int], successors: Sequence[Sequence[int]]
    ):
        self._blocks, self._parents, self._successors = blocks, parents, successors
        count = len(blocks)

        def block(number: int, parent: int) -> Block | None:
            return blocks[parent] if 0 <= parent < count and parent != number else None

        self.idom: dict[Block, Block | None] = {
            b: block(n, parents[n]) for n, b in enumerate(blocks)
        }
        self.reachable = frozenset([b for n, b in enumerate(blocks) if parents[n] >= 0])

    @cached_property
    def children(self) -> dict[Block, list[Block]]:
        """The blocks that a block dominates immediately."""
        found: dict[Block, list[Block]] = {block: [] for block in self._blocks}
        for block, parent in self.idom.items():
            if parent is not None:
                found[parent].append(block)
        return found

    @cached_property
    def depth(self) -> dict[Block, int]:
        """The number of other blocks that dominate a block, of those that can be reached."""
        found: dict[Block, int] = {}
        for block in self.reachable:
            chain, at = [], block
            while at not in found:
                chain.append(at)
                parent = self.idom[at]
                if parent is None:
                    found[at] = 0
                    break
                at = parent
            for each in reversed(chain):
                parent = self.idom[each]
                found[each] = found[parent] + 1 if parent is not None else 0
        return found

    @cached_property
    def frontiers(self) -> dict[Block, list[Block]]:
        """The blocks where a block's dominance ends, of those that can be reached."""
        found = graphs.frontiers(self._successors, self._parents)
        count = len(self._blocks)
        return {
            block: [self._blocks[m] for m in found[n] if m < count]
            for n, block in enumerate(self._blocks)
            if block in self.reachable
        }

    def dominates(self, one: Block | Instruction, other: Block | Instruction) -> bool:
        """True if every way to the other leads through the first; a block dominates itself, and an
        instruction those behind it in its block.  What no way leads to is dominated by all."""
        a, b = _block(one), _block(other)
        if a is b:
            if one is a or other is b:
                return one is a
            items = a._items
            return items.index(one) <= items.index(other)  # type: ignore[arg-type]
        if b not in self.reachable:
            return True
        if a not in self.reachable:
            return False
        depth, at = self.depth[a], b
        while self.depth[at] > depth:
            parent = self.idom[at]
            if parent is None:
                return False
            at = parent
        return at is a


def _block(item: Block | Instruction) -> Block:
    found: Any = getattr(item, "block", item)
    if found is None:
        raise ValueError(f"it is in no block: {item}")
    block: Block = found
    return block


def dominators(function: Function) -> Dominators:
    """See `Function.dominators`."""
    _, successors = _graph(function)
    return Dominators(function.blocks, graphs.dominators(successors), successors)


def post_dominators(function: Function) -> Dominators:
    """See `Function.post_dominators`: dominance in the graph turned round, from a node that stands
    for the end.  Of a loop without end nothing is known: its blocks are not `reachable`."""
    _, successors = _graph(function)
    count = len(successors)
    ways = [*(following or [count] for following in successors), []]  # the last is the end
    turned = graphs.predecessors(ways, range(count))
    # The end comes first where dominators are computed: all numbers are one more there.
    back = [[node + 1 for node in turned[each]] for each in (count, *range(count))]
    above = [
        (parent - 1) % (count + 1) if parent >= 0 else -1 for parent in graphs.dominators(back)
    ]
    return Dominators(function.blocks, [*above[1:], count], turned)


@dataclass(eq=False)
class Loop:
    """A natural loop: `header` dominates its blocks, and each of `latches` goes back to it.

    `parent` is the loop around it, `depth` how many loops a block of it is in.
    """

    header: Block
    blocks: list[Block]
    latches: list[Block]
    parent: Loop | None = None
    _set: set[Block] = field(default_factory=set, repr=False)

    def __contains__(self, item: Value | None) -> bool:
        return getattr(item, "block", item) in self._set

    @property
    def depth(self) -> int:
        """The number of loops that a block of it is in."""
        return 1 + (self.parent.depth if self.parent else 0)

    @property
    def exits(self) -> list[Block]:
        """The blocks outside that a block of it may go on to."""
        found = [s for block in self.blocks for s in block.successors if s not in self._set]
        return list(dict.fromkeys(found))

    @property
    def preheader(self) -> Block | None:
        """The one block outside that goes to the header, if it goes nowhere else; else None."""
        outside = [p for p in self.header.predecessors if p not in self._set]
        if len(outside) == 1 and outside[0].successors == [self.header]:
            return outside[0]
        return None

    def __repr__(self) -> str:
        return f"<Loop {self.header.ref}: {len(self.blocks)} blocks, depth {self.depth}>"


def loops(function: Function) -> list[Loop]:
    """See `Function.loops`.  A circle that can be entered in several places is none."""
    _, successors = _graph(function)
    blocks, found = function.blocks, []
    for header, (ends, numbers) in graphs.loops(successors, graphs.dominators(successors)).items():
        inside = [blocks[number] for number in sorted(numbers)]
        latches = [blocks[number] for number in ends]
        found.append(Loop(blocks[header], inside, latches, _set={*inside}))
    found.sort(key=lambda loop: len(loop.blocks))
    for index, loop in enumerate(found):
        around = (other for other in found[index + 1 :] if loop.header in other._set)
        loop.parent = next(around, None)
    return found


@dataclass(frozen=True)
class Liveness:
    """Arguments and instructions whose values are needed later: `live_in` where a block begins,
    `live_out` where it ends.

    A phi's value is live from the beginning of its block, and not in `live_in`; what it takes from
    a block is live at that block's end.  Debug information needs nothing.
    """

    live_in: Mapping[Block, set[Value]]
    live_out: Mapping[Block, set[Value]]


def liveness(function: Function) -> Liveness:
    """See `Function.liveness`."""
    needed: dict[Block, set[Value]] = {}
    made: dict[Block, set[Value]] = {}
    taken: dict[Block, set[Value]] = {block: set() for block in function.blocks}
    locals = {*function.args, *function.instructions}
    for block in function.blocks:
        uses, defined = set[Value](), set[Value]()
        for item in block.instructions:
            if item.opcode == "phi":
                for value, where in item.incoming:
                    if value in locals:
                        taken[where].add(value)
            else:
                values = [v for n, v in enumerate(item._operands) if item.counts(n)]
                uses.update([v for v in values if v in locals and v not in defined])
            defined.add(item)
        needed[block], made[block] = uses, defined
    live_in: dict[Block, set[Value]] = {block: set() for block in function.blocks}
    live_out: dict[Block, set[Value]] = {block: set() for block in function.blocks}
    work = dict.fromkeys(function.blocks)
    while work:
        block, _ = work.popitem()
        out = set(taken[block]).union(*[live_in[s] for s in block.successors])
        into = needed[block] | (out - made[block])
        live_out[block] = out
        if into != live_in[block]:
            live_in[block] = into
            work.update(dict.fromkeys(block.predecessors))
    return Liveness(live_in, live_out)
