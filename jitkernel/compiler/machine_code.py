"""The text of machine IR as instructions with operands, and blocks.  Start from `code_of`.

Of what LLVM prints (docs/MIRLangRef) it reads what register allocation is about: virtual registers,
those of the machine, stack slots, and where control goes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from jitkernel.compiler.machine_ir import BLOCK, is_instruction, plain
from jitkernel.regex import regex

#: A virtual register with its part and its class.
CLASS = regex(r"(%\d+)(\.\w+)?:(\w+)")
_SUCCESSOR = regex(r"%bb\.(\d+)")
_OPERAND = regex(
    r"(?P<flags>(?:(?:implicit-def|implicit|early-clobber|undef|internal|dead|killed|def|renamable)"
    r" )*)(?P<name>%stack\.\d+(?:, 1, \$noreg, 0, \$noreg)?|%\d+\b|\$\w+)(?P<part>\.\w+)?"
)
_QUOTED = regex(r'"(?:\\.|[^"\\])*"')
_OPCODE = regex(r"\b[A-Z][A-Z_0-9a-z]*")
_WRITES = {"def", "implicit-def"}
_NO_CODE = ("DBG_", "PSEUDO_PROBE", "LIFETIME_")


class Operand(NamedTuple):
    """A register or a stack slot (`%3`, `$eax`, `%stack.0`), what LLVM says of it, and whether it
    is only a part of a virtual register."""

    name: str
    flags: frozenset[str]
    is_part: bool

    @property
    def is_virtual(self) -> bool:
        """True of a virtual register."""
        return self.name[1:].isdigit()


class Step(NamedTuple):
    """An instruction: its text, its operands that are registers or stack slots, of which `written`
    are in front of the `=`, and its `shape`: its text, with gaps for those that allocation may
    choose."""

    text: str
    operands: tuple[Operand, ...]
    written: int
    shape: str

    @property
    def opcode(self) -> str:
        """Its opcode."""
        found = _OPCODE.search(self.shape)
        return found[0] if found is not None else ""

    def defines(self) -> Iterator[Operand]:
        """The virtual registers that it writes."""
        for number, each in enumerate(self.operands):
            if each.is_virtual and (number < self.written or each.flags & _WRITES):
                yield each

    def uses(self) -> Iterator[str]:
        """The virtual registers that it reads; one of which it writes a part keeps the rest."""
        for number, each in enumerate(self.operands):
            written = number < self.written or each.flags & _WRITES
            if each.is_virtual and "undef" not in each.flags and (each.is_part or not written):
                yield each.name


class Block(NamedTuple):
    """A block: its number as text, its label, the number of its first instruction, and the numbers
    of the blocks that it may go on to."""

    number: str
    label: str
    first: int
    successors: list[str]


class Code(NamedTuple):
    """The instructions of a function, and its blocks in the order of their instructions."""

    steps: list[Step]
    heads: list[Block]

    def blocks(self) -> Iterator[tuple[str, range]]:
        """The numbers of the instructions of each block, by the block's own."""
        ends = [block.first for block in self.heads[1:]] + [len(self.steps)]
        for block, end in zip(self.heads, ends, strict=True):
            yield block.number, range(block.first, end)


def code_of(text: str) -> Code:
    """The instructions and blocks of one function's machine IR; debug records are left out."""
    steps: list[Step] = []
    blocks: list[Block] = []
    for line in text.splitlines():
        if (block := BLOCK.match(line)) is not None:
            blocks.append(Block(block[1], block[0], len(steps), []))
        elif line.lstrip().startswith("successors:") and blocks:
            blocks[-1].successors.extend(_SUCCESSOR.findall(line.partition(";")[0]))
        elif blocks and is_instruction(line) and not line.lstrip().startswith(_NO_CODE):
            steps.append(_step(plain(line).strip()))
    return Code(steps, blocks)


def _step(text: str) -> Step:
    bare = CLASS.sub(r"\1\2", _QUOTED.sub('""', text.partition(" :: ")[0]))
    head, equals, _ = bare.partition(" = ")
    written = len(_OPERAND.findall(head)) if equals else 0
    operands = [
        Operand(m["name"].partition(",")[0], frozenset(m["flags"].split()), m["part"] is not None)
        for m in _OPERAND.finditer(bare)
    ]
    shape = _OPERAND.sub(_placeholder, bare.partition(", implicit")[0])
    return Step(text, tuple(operands), written, shape)


def _placeholder(match: re.Match[str]) -> str:
    """A register that may have been a virtual one as a gap: LLVM calls it renamable."""
    name = match["name"]
    return name if name[0] == "$" and "renamable" not in match["flags"] else "_"
