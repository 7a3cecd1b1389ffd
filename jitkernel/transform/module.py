"""A module's text in a form that is easy to change: functions, blocks, instructions.

Start from `Module`.  Instructions are text, one string each; nothing is understood of them, so what
a pass writes is what LLVM reads.  Besides `jitkernel.ir` no part of jitkernel is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from jitkernel.ir.instructions import blocks
from jitkernel.ir.module import functions


@dataclass
class Block:
    """A basic block: `label` without its colon ("" for a first one without), its instructions."""

    label: str
    instructions: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        head = [f"{self.label}:"] if self.label else []
        return "\n".join([*head, *(f"  {line}" for line in self.instructions)])


@dataclass
class Function:
    """A function that is defined: `head` is all up to its brace, `name` is without @ and quotes."""

    name: str
    head: str
    blocks: list[Block]

    @property
    def instructions(self) -> list[str]:
        """All instructions, in order; a copy."""
        return [line for block in self.blocks for line in block.instructions]

    def __str__(self) -> str:
        return "\n".join([f"{self.head.rstrip()} {{", *map(str, self.blocks), "}"])


class Module:
    """A module: `functions` by name, in order, and `rest`, the text between them.

    `str(module)` is its text.  Functions may be changed in place, added and removed.
    """

    def __init__(self, text: str):
        self.functions: dict[str, Function] = {}
        self.rest: list[str] = []
        at = 0
        for found in functions(text, "define"):
            brace, end = found.body()
            if end < 0:
                break
            self.rest.append(text[at : found.start].strip("\n"))
            head = text[found.start : brace].strip()
            body = _blocks(text, brace + 1, end - 1)
            self.functions[found.name] = Function(found.name, head, body)
            at = end
        self.rest.append(text[at:].strip("\n"))

    def __str__(self) -> str:
        functions = [str(function) for function in self.functions.values()]
        before = [text for text in self.rest[:-1] if text]
        after = [self.rest[-1]] if self.rest[-1] else []
        return "\n\n".join([*before, *functions, *after]) + "\n"


def _blocks(text: str, start: int, stop: int) -> list[Block]:
    found = []
    for label, _, spans in blocks(text, start, stop):
        lines = [text[begin : _line_end(text, end, stop)] for begin, end in spans]
        found.append(Block(label, [*map(_laid_out, lines)]))
    return found


def _line_end(text: str, at: int, stop: int) -> int:
    """The end of a line: the comment behind an instruction stays with it."""
    end = text.find("\n", at, stop)
    return stop if end < 0 else end


def _laid_out(instruction: str) -> str:
    first, *others = (line.strip() for line in instruction.split("\n"))
    return first + "".join(("\n  " if o.startswith("]") else "\n    ") + o for o in others)
