"""Control flow of a function: its blocks, their instructions, and where each can go next.

Of a module as LLVM prints it, where every block but the first has its label.  Start from `flow`.
"""

from __future__ import annotations

from typing import NamedTuple

from jitkernel.ir.instructions import blocks, successors
from jitkernel.ir.module import Entity
from jitkernel.ir.names import decode_name
from jitkernel.ir.text import without_comments

__all__ = ["Flow", "flow"]


class Flow(NamedTuple):
    """Control flow of a function: `blocks` are (label, instructions), the first is the entry.

    `edges` are (from, to, letter) with indices of blocks; the letter is T or F, a switch's value or
    `default`, `unwind`, or empty.
    """

    blocks: list[tuple[str, list[str]]]
    edges: list[tuple[int, int, str]]


def flow(function: Entity) -> Flow:
    """Control flow of a function that is defined, in LLVM's order of blocks."""
    brace, end = function.body()
    text = without_comments(function.source[brace:end])
    # A block without a name has the number that follows those of parameters without one.
    first = sum(map(str.isdigit, function.parameter_names))
    rows, edges = [], []
    for block in blocks(text, 1, len(text) - 1):
        lines = [text[start:stop] for start, stop in block.instructions]
        label = decode_name(block.label) if block.label else str(first)
        rows.append((label, [line for line in lines if not line.startswith("#dbg_")]))
    number = {label: index for index, (label, _) in enumerate(rows)}
    for index, (_, lines) in enumerate(rows):
        edges += [(index, number[to], letter) for to, letter in successors(lines[-1])]
    return Flow(rows, edges)
