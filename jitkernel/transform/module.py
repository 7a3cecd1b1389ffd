"""A module's text in a form that is easy to change: functions, blocks, instructions.

Start from `Module`.  Instructions are text, one string each; nothing is understood of them, so what
a pass writes is what LLVM reads.  No other part of jitkernel is needed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

__all__ = ["Block", "Function", "Module"]

_DEFINE = re.compile(r'^[ \t]*define\b[^\n@]*@(?P<name>"[^"\n]*"|[-\w$.]+)\s*\(', re.M)
_LABEL = re.compile(r'[ \t]*(?P<label>"[^"\n]*"|[-\w$.]+):')
_OPEN, _CLOSE = "([{<", ")]}>"
_QUIET = re.compile(r'"[^"\n]*"|;[^\n]*')


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
    """A function that is defined: `head` is all up to its brace, `name` is written without @."""

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
        for match in _DEFINE.finditer(text):
            if match.start() < at:
                continue
            self.rest.append(text[at : match.start()].strip("\n"))
            function, at = _function(text, match)
            self.functions[function.name] = function
        self.rest.append(text[at:].strip("\n"))

    def __str__(self) -> str:
        functions = [str(function) for function in self.functions.values()]
        before = [text for text in self.rest[:-1] if text]
        after = [self.rest[-1]] if self.rest[-1] else []
        return "\n\n".join([*before, *functions, *after]) + "\n"


def _function(text: str, match: re.Match[str]) -> tuple[Function, int]:
    """The function whose definition begins at `match`, and where it ends."""
    depth, brace = 0, len(text)
    quiet = _QUIET.sub(lambda m: " " * len(m[0]), text)  # no brackets in strings and comments
    for index in range(match.end() - 1, len(text)):
        char = quiet[index]
        if char == "{" and depth == 0 and text[index - 1] in " \t\n)":
            brace = index
            break
        depth += (char in _OPEN) - (char in _CLOSE)
    end, depth = brace + 1, 1
    while end < len(text) and depth:
        depth += (quiet[end] == "{") - (quiet[end] == "}")
        end += 1
    name = match["name"].strip('"')
    body = text[brace + 1 : end - 1]
    return Function(name, text[match.start() : brace].strip(), _blocks(body)), end


def _blocks(body: str) -> list[Block]:
    blocks = [Block("")]
    depth = 0
    for line in body.split("\n"):
        words = line.strip()
        quiet = _QUIET.sub("", line)
        if depth == 0:
            label = _LABEL.match(line)
            if label and not quiet[label.end() : label.end() + 1] == ":":
                blocks.append(Block(label["label"]))
                words = line[label.end() :].strip()
            if not words or words.startswith(";"):
                continue
            blocks[-1].instructions.append(words)
        else:  # a switch over several lines
            blocks[-1].instructions[-1] += ("\n  " if words.startswith("]") else "\n    ") + words
        depth += sum(map(quiet.count, "([{")) - sum(map(quiet.count, ")]}"))
    return [block for block in blocks if block.label or block.instructions]
