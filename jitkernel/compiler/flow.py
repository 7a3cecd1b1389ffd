"""Control flow of a module's functions: blocks, their instructions, and where each can go next.

Worker only.  The graph is LLVM's own, of the IR as it is compiled or as it
is written.  Start from `flow`.
"""

from __future__ import annotations

import re
from typing import Any

from jitkernel.compiler import binding, pipeline
from jitkernel.compiler.binding import lib
from jitkernel.compiler.records import Options
from jitkernel.ir.names import NAME, decode_name

__all__ = ["flow"]

_NODE = re.compile(r'\[shape=record,.*?label="\{(.*?)(?:\||\}")')
_TO = re.compile(r"label %(" + NAME + ")")
_CASE = re.compile(r"i\d+ (-?\d+|true|false), label %(" + NAME + ")")
_COMMENT = re.compile(r"\s*;.*$")


def flow(
    source: str,
    options: Options,
    nobuiltin: frozenset[str],
    first_line: int,
    optimised: bool,
) -> list[Any]:
    """Rows `[name, [[label, [instruction, ...]], ...], [[from, to, letter], ...]]` by function.

    Blocks are in LLVM's order, the first the entry; edges name them by index.  `letter` is T or F,
    a switch's value or `default`, `unwind`, or empty.  Raises CompileError.
    """
    rows: list[Any] = []

    def watch(stage: str, module: int) -> None:
        if stage == ("emit" if optimised else "optimise"):
            defined = (f for f in binding.functions(module) if not lib.IsDeclaration(f))
            rows.extend(map(_function, defined))

    pipeline.compile_module(source, options, nobuiltin, first_line, watch=watch)
    return rows


def _function(function: int) -> list[Any]:
    """The row of one function."""
    blocks = list(binding.blocks(function))
    # LLVM's drawing is asked for the numbers of blocks without a name, which nothing else tells.
    drawn = _NODE.findall(binding.told(lambda out: lib.WriteCFG(function, out, 0)))
    names = map(binding.name_of, blocks)
    labels = [name or n.removeprefix("%") for name, n in zip(names, drawn, strict=True)]
    number = {label: index for index, label in enumerate(labels)}
    rows, edges = [], []
    for index, block in enumerate(blocks):
        texts = map(binding.print_value, binding.instructions(block))
        lines = [(_COMMENT.sub("", text) if ";" in text else text).strip() for text in texts]
        rows.append([labels[index], lines])
        edges += [
            [index, number[name], letter]
            for name, letter in _successors(lines[-1])
            if name in number
        ]
    return [binding.name_of(function), rows, edges]


def _successors(terminator: str) -> list[tuple[str, str]]:
    """Labels that a terminator names, each with what leads there."""
    names = [decode_name(name) for name in _TO.findall(terminator)]
    opcode = re.search(r"(?:^|= )(\w+)", terminator)
    match opcode[1] if opcode else "":
        case "br" if len(names) == 2:
            return list(zip(names, "TF", strict=True))
        case "switch":
            cases = [(decode_name(name), value) for value, name in _CASE.findall(terminator)]
            return [(names[0], "default"), *cases]
        case "invoke" | "catchswitch" | "cleanupret":
            unwinds = re.findall(r"unwind label %(" + NAME + ")", terminator)
            last = decode_name(unwinds[-1]) if unwinds else None
            return [(n, "unwind" if n == last and n is names[-1] else "") for n in names]
    return [(name, "") for name in names]
