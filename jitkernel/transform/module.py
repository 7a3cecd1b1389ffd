"""A module's text in a form that is easy to change: functions, blocks, instructions.

Start from `Module`.  Instructions are text, one string each; nothing is understood of them, so what
a pass writes is what LLVM reads.  Besides `jitkernel.ir` no part of jitkernel is needed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from jitkernel.ir.module import functions
from jitkernel.ir.names import NAME, SKIP

__all__ = ["Block", "Function", "Module"]

_LABEL = re.compile(rf"[ \t]*(?P<label>{NAME}):")
_QUIET = re.compile(SKIP)


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
            head, body = text[found.start : brace].strip(), text[brace + 1 : end - 1]
            self.functions[found.name] = Function(found.name, head, _blocks(body))
            at = end
        self.rest.append(text[at:].strip("\n"))

    def __str__(self) -> str:
        functions = [str(function) for function in self.functions.values()]
        before = [text for text in self.rest[:-1] if text]
        after = [self.rest[-1]] if self.rest[-1] else []
        return "\n\n".join([*before, *functions, *after]) + "\n"


def _blocks(body: str) -> list[Block]:
    blocks = [Block("")]
    depth = 0
    for line in body.split("\n"):
        words = line.strip()
        quiet = _QUIET.sub("", line)
        if depth == 0:
            label = _LABEL.match(line)
            if label and quiet[label.end() : label.end() + 1] != ":":
                blocks.append(Block(label["label"]))
                words = line[label.end() :].strip()
            if not words or words.startswith(";"):
                continue
            blocks[-1].instructions.append(words)
        else:  # a switch over several lines
            blocks[-1].instructions[-1] += ("\n  " if words.startswith("]") else "\n    ") + words
        depth += sum(map(quiet.count, "([{")) - sum(map(quiet.count, ")]}"))
    return [block for block in blocks if block.label or block.instructions]
