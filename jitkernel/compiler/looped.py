"""Variables that change in loops, marked for a debugger before LLVM optimises.  Worker only.

Optimised loops count otherwise than they were written, and what LLVM says of their variables
afterwards is not always so: in one of the Stanford benchmarks a variable was one behind, in another
it was 0 where the loop had left it at 512.  Whoever shows them has to know which they are: they
get an annotation, in DWARF an entry below theirs.

Start from `annotated`.  Source: llvm.org/docs/LangRef.html, DILocalVariable.
"""

from __future__ import annotations

from collections.abc import Mapping

from jitkernel.ir.dominators import looped
from jitkernel.ir.instructions import Instruction, blocks, successors
from jitkernel.ir.module import Entity
from jitkernel.ir.names import mentions
from jitkernel.ir.text import split_at_commas

_DECLARE = "#dbg_declare("


def annotated(function: Entity, nodes: Mapping[str, str]) -> list[str]:
    """The numbers of the nodes of a function's variables that are stored to in one of its loops;
    `nodes` are the module's."""
    text = function.source
    brace, end = function.body()
    body = blocks(text, brace + 1, end - 1)
    number = {block.label: index for index, block in enumerate(body)}
    ways: list[list[int]] = []
    variables: dict[str, str] = {}  # by the memory they are in
    stored: list[set[str]] = []
    for block in body:
        places: set[str] = set()
        last = ""
        for start, stop in block.instructions:
            line = text[start:stop]
            if line.startswith(_DECLARE):
                where, variable, *_ = split_at_commas(line[len(_DECLARE) :])
                variables.update(dict.fromkeys(mentions(where, "%"), variable.strip("! ")))
                continue
            read = Instruction.read(line)
            if read.opcode == "store":
                places |= mentions(split_at_commas(read.text[read.operands :])[1], "%")
            last = read.text
        stored.append(places)
        labels = [label for label, _ in successors(last)] if last else []
        ways.append([number[label] for label in labels if label in number])
    changed = set().union(*(stored[index] for index in looped(ways)))
    found = [node for place, node in variables.items() if place in changed]
    return [node for node in found if "!DILocalVariable(" in nodes.get(node, "")]
