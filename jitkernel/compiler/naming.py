"""Names for values that have only a number, so that passes do not number them anew.  Worker only.

LLVM counts what has no name when it prints a function: one instruction less, and every number below
changes, whatever the pass did.  Names change no code.  Start from `name_values`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jitkernel.compiler import binding
from jitkernel.compiler.binding import lib

#: What stands before the number that LLVM printed: `%7` is `%v7`, and the block `8:` is `b8:`.
VALUE, BLOCK = "v", "b"


def name_values(module: int) -> bool:
    """Name the arguments, blocks and instructions of a module that have no name, each by the number
    that LLVM prints it with; true if there were any."""
    found = False
    for value, prefix, number in _numbered(binding.functions(module)):
        lib.SetValueName(value, b"%s%d" % (prefix.encode(), number))
        found = True
    return found


def number_blocks(functions: Iterable[int]) -> None:
    """Name the blocks of functions that have no name by the number alone that LLVM prints them
    with: its own numbers change while it generates code."""
    for value, prefix, number in _numbered(functions):
        if prefix == BLOCK:
            lib.SetValueName(value, b"%d" % number)


def _numbered(functions: Iterable[int]) -> Iterator[tuple[int, str, int]]:
    """The values that have only a number, with it."""
    nothing: dict[int, bool] = {}  # by type: no value is of it

    def is_void(value: int) -> bool:
        kind = lib.TypeOf(value)
        if kind not in nothing:
            nothing[kind] = binding.print_type(kind) == "void"
        return nothing[kind]

    for function in functions:
        if lib.IsDeclaration(function):
            continue
        number = 0
        for value, prefix in _values(function):
            if not lib.GetValueName(value) and (prefix == BLOCK or not is_void(value)):
                yield value, prefix, number
                number += 1


def _values(function: int) -> list[tuple[int, str]]:
    """The values that LLVM numbers, in its order (SlotTracker::processFunction, AsmWriter.cpp)."""
    found = [(argument, VALUE) for argument in binding.arguments(function)]
    for block in binding.blocks(function):
        found.append((block, BLOCK))
        found += [(instruction, VALUE) for instruction in binding.instructions(block)]
    return found
