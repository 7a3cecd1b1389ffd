"""Functions and basic blocks.  Start from `Function`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitkernel.ir.model.flow import (
    Dominators,
    Liveness,
    Loop,
    dominators,
    liveness,
    loops,
    post_dominators,
    reverse_post_order,
)
from jitkernel.ir.model.instruction import Instruction
from jitkernel.ir.model.values import Argument, Constant, Value, canonical, is_number
from jitkernel.ir.names import quote_name
from jitkernel.ir.types import OtherType

if TYPE_CHECKING:
    from jitkernel.ir.model.module import Module

LABEL = OtherType("label")
_UNWINDING = ("invoke", "catchswitch", "cleanupret")


class Block(Value):
    """A basic block; as a value it is what branches and phis name.  `str` of it is its lines."""

    __slots__ = ("_after", "_before", "_implicit", "_items", "function")

    function: Function

    def __init__(self, spelled: str, function: Function):
        super().__init__(LABEL, spelled)
        self.function = function
        self._items: list[Instruction] = []  # instructions and debug records
        self._implicit = False  # it has a number and no label in the text
        self._before, self._after = "\n\n", ""

    @property
    def name(self) -> str:
        """Its label, or its number; it may be set."""
        return super().name

    @name.setter
    def name(self, name: str) -> None:
        if self.has_address:
            raise ValueError(f"{self.ref} is named by a blockaddress: it keeps its name")
        self._spelled = self.function._rename(self, quote_name(name))
        self._implicit = False

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """Its instructions as they are now, without debug records: they may be moved and erased
        while one goes over them."""
        return tuple([item for item in self._items if item.opcode[:1] != "#"])

    @property
    def records(self) -> tuple[Instruction, ...]:
        """Its records of debug information (`#dbg_value`); each is of the instruction after it."""
        return tuple([item for item in self._items if item.is_debug])

    @property
    def phis(self) -> list[Instruction]:
        """Its phis, with which it begins."""
        return [item for item in self._items if item.opcode == "phi"]

    @property
    def first_non_phi(self) -> Instruction:
        """The first instruction behind its phis."""
        return next(i for i in self._items if i.opcode != "phi" and not i.is_debug)

    @property
    def terminator(self) -> Instruction:
        """Its last instruction.  Raises ValueError where none ends it."""
        if not self._items or not self._items[-1].is_terminator:
            raise ValueError(f"the block {self.ref} has no terminator")
        return self._items[-1]

    @property
    def edges(self) -> list[Block]:
        """The blocks that it may go on to, one as often as its terminator names it."""
        return [v for v in self.terminator._operands if isinstance(v, Block)]

    @property
    def conditions(self) -> list[str]:
        """The condition of each of the `edges`: `T` where a condition holds and `F` where it does
        not, a switch's value or `default`, `unwind`; "" where nothing tells."""
        last, count = self.terminator, len(self.edges)
        if last.opcode == "br" and count == 2:
            return ["T", "F"]
        if last.opcode == "switch":
            return ["default", *[value.ref for value in last._operands[2::2]]]
        texts = [part for part in last._parts if isinstance(part, str)]
        if last.opcode in _UNWINDING and any("unwind label" in text for text in texts):
            return [*[""] * (count - 1), "unwind"]
        return [""] * count

    @property
    def successors(self) -> list[Block]:
        """The blocks that it may go on to, each once."""
        return list(dict.fromkeys(self.edges))

    @property
    def predecessors(self) -> list[Block]:
        """The blocks that may go on to it, each once."""
        found = [user.block for user, _ in self._uses if user.is_terminator]
        return list(dict.fromkeys([block for block in found if block is not None]))

    @property
    def has_address(self) -> bool:
        """True if a `blockaddress` somewhere in the module names it."""
        return self.function.module.has_address(self)

    def append(self, instruction: Instruction) -> Instruction:
        """Put an instruction at its end; out of where it is."""
        instruction._leave()
        self._insert(len(self._items), instruction)
        return instruction

    def split_before(self, instruction: Instruction, name: str = "") -> Block:
        """Cut it in two: the instruction and what follows are a new block, to which this one
        branches.  Phis of the blocks that follow name the new block."""
        if instruction.block is not self:
            raise ValueError(f"not in the block {self.ref}: {instruction}")
        if instruction.opcode == "phi":
            raise ValueError(f"a block cannot be cut before a phi: {instruction}")
        new = self.function.append_block(name or f"{self.name}.split", after=self)
        at = self._above(self._items.index(instruction))
        moved, self._items[at:] = self._items[at:], []
        for item in moved:
            item.block = new
        new._items = moved
        for successor in new.successors if moved[-1].is_terminator else ():
            for phi in successor.phis:
                phi.replace_uses_of(self, new)
        self._insert(at, Instruction("br", ["br label ", 0], [new]))
        return new

    def erase(self) -> None:
        """Take it out, with its instructions; phis of the blocks that follow lose their entries.

        Raises ValueError where others still use it or what it defines, or a `blockaddress` does.
        """
        users = [v for v in [self, *self._items] for v in v.users if v.block is not self]
        phis = {p for s in (self.successors if self._items else ()) for p in s.phis}
        for user in users:
            if user not in phis:
                raise ValueError(f"{self.ref} is still used by: {user}")
        if self.has_address:
            raise ValueError(f"{self.ref} is still used by a blockaddress")
        if self is self.function.entry:
            raise ValueError(f"{self.ref} is the block that the function begins with")
        for phi in phis:
            if any(block is self for _, block in phi.incoming):
                phi.remove_incoming(self)
        for item in reversed(self._items):
            item.replace_all_uses_with(Constant(item.type, "poison"))
        for item in list(self._items):
            item.erase()
        self.function._blocks.remove(self)
        self.function._forget(self)

    def _insert(self, at: int, item: Instruction, above: bool = False) -> None:
        following = self._items[at] if at < len(self._items) else None
        item.block, item._before = self, "\n  "
        if following is not None and (above or "\n" not in following._before):
            # A comment above says of which line all that follows is: of the new one, too.
            item._before, following._before = following._before, item._before
        if "\n" not in item._before:
            item._before = "\n  "
        self._items.insert(at, item)
        item._module = self.function.module
        self.function._adopt(item)
        item._touch()

    def _take(self, item: Instruction) -> None:
        """Take an item out; a comment above it is of what follows, too."""
        at = self._items.index(item)
        del self._items[at]
        if ";" in item._before and at < len(self._items):
            following = self._items[at]
            if ";" not in following._before:
                following._before = item._before

    def _above(self, at: int) -> int:
        """The place above the debug records of the instruction at a place."""
        while at and self._items[at - 1].is_debug:
            at -= 1
        return at

    def _write(self, parts: list[str]) -> None:
        parts.append(self._before)
        if not self._implicit:
            parts += [self._spelled, ":", self._after]
        for item in self._items:
            parts += [item._before, str(item), item._after]

    def __str__(self) -> str:
        parts: list[str] = []
        self._write(parts)
        return "".join(parts).strip("\n")


class Function:
    """A function that is defined: `head` is all up to its brace, `name` is without @ and quotes.

    `args` are its arguments.  Analyses are computed when they are asked for, and say how it is
    then: after a change, ask again.
    """

    module: Module
    name: str
    head: str
    args: list[Argument]

    def __init__(self, module: Module, name: str, head: str):
        self.module, self.name, self.head = module, name, head.rstrip()
        self._gap = head[len(self.head) :]
        self.args = []
        self.edited = False
        self._blocks: list[Block] = []
        self._names: dict[str, Value] = {}
        self._left: set[str] = set()  # numbers of what was taken out: it gets a name where it goes
        self._next: dict[str, int] = {}
        self._orders: list[str] = []  # uselistorder, as long as nothing has changed
        self._tail = "\n"

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Its blocks as they are now, the entry first."""
        return tuple(self._blocks)

    @property
    def entry(self) -> Block:
        """The block that it begins with."""
        return self._blocks[0]

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """All instructions as they are now, in order, without debug records."""
        return tuple([i for b in self._blocks for i in b._items if i.opcode[:1] != "#"])

    def value(self, name: str) -> Value:
        """The argument, instruction or block that is called so, or has that number: `value("x")`,
        `value("%3")`.  Raises KeyError."""
        short = name.removeprefix("%")
        for key in (canonical(short), quote_name(short), quote_name(name)):
            if key in self._names:
                return self._names[key]
        raise KeyError(f"no value %{short} in @{self.name}")

    def append_block(self, name: str = "", after: Block | None = None) -> Block:
        """A new block without instructions: the last one, or the one behind another."""
        block = Block("", self)
        block._spelled = self._unique(quote_name(name or "bb"))
        self._names[block._spelled] = block
        at = self._blocks.index(after) + 1 if after else len(self._blocks)
        self._blocks.insert(at, block)
        self.edited = True
        return block

    # -- analyses

    def reverse_post_order(self) -> list[Block]:
        """The blocks that ways from the entry lead to: each before its successors, but for loops"""
        return reverse_post_order(self)

    def dominators(self) -> Dominators:
        """The tree of those blocks that every way to a block leads through."""
        return dominators(self)

    def frontiers(self) -> dict[Block, list[Block]]:
        """The blocks where one's dominance ends: its definitions need phis there (Cytron et al.
        1991)."""
        return dominators(self).frontiers

    def post_dominators(self) -> Dominators:
        """The tree of those blocks that every way from a block to the end leads through."""
        return post_dominators(self)

    def loops(self) -> list[Loop]:
        """Its natural loops, inner ones before those around them."""
        return loops(self)

    def liveness(self) -> Liveness:
        """The values that are needed later, where a block begins and where it ends."""
        return liveness(self)

    # -- names

    def _unique(self, spelled: str) -> str:
        """The name, or with a number behind it where it is taken."""
        if is_number(spelled):
            spelled = f"t{spelled}"
        if spelled not in self._names:
            return spelled
        base, quote = (spelled[:-1], '"') if spelled.endswith('"') else (spelled, "")
        count = self._next.get(spelled, 0)
        while (found := f"{base}.{count}{quote}") in self._names:
            count += 1
        self._next[spelled] = count + 1
        return found

    def _rename(self, value: Value, spelled: str) -> str:
        self._forget(value)
        new = self._unique(canonical(spelled))
        self._names[new] = value
        self.edited = True
        return new

    def _adopt(self, item: Instruction) -> None:
        """A name that nothing else has, for what is put into a block."""
        if not item._spelled and (item.is_debug or str(item.type) == "void"):
            return
        spelled = canonical(item._spelled) or "t"
        if self._names.get(spelled) is item:
            if not is_number(spelled):
                return
            del self._names[spelled]
        item._spelled = self._unique(spelled)
        self._names[item._spelled] = item

    def _forget(self, value: Value) -> None:
        if self._names.get(key := canonical(value._spelled)) is value:
            del self._names[key]

    # -- text

    def lines(self) -> list[tuple[int, Instruction]]:
        """Its instructions with the line of its text that each begins in, counted from 1."""
        found, line = [], 1 + (self.head + self._gap).count("\n")
        self.number()
        for block in self._blocks:
            line += block._before.count("\n")
            line += 0 if block._implicit else block._after.count("\n")
            for item in block._items:
                line += item._before.count("\n")
                found.append((line, item))
                line += str(item).count("\n") + item._after.count("\n")
        return found

    def number(self) -> None:
        """Names for values whose numbers do not rise in the order of the text, as LLVM wants it;
        gaps stay, so that whatever names a block by its number finds it."""
        last = -1
        values: list[Value] = [*self.args]
        for block in self._blocks:
            values += [block, *[item for item in block._items if item._spelled]]
        for value in values:
            if is_number(value._spelled):
                if int(value._spelled) > last:
                    last = int(value._spelled)
                elif isinstance(value, Block):
                    value.name = f"t{value._spelled}"
                else:
                    value._spelled = self._rename(value, value._spelled)
        if self._blocks and self._blocks[0]._implicit and not self._blocks[0]._items:
            raise ValueError(f"the first block of @{self.name} is empty")

    def __str__(self) -> str:
        self.number()
        parts = [self.head, self._gap, "{"]
        for block in self._blocks:
            block._write(parts)
        if not self.edited:
            parts += self._orders
        parts += [self._tail, "}"]
        return "".join(parts)

    def __repr__(self) -> str:
        return f"<Function @{self.name}: {len(self._blocks)} blocks>"
