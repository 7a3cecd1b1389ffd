"""Names for values that have only a number, so that passes do not number them anew.  Worker only.

LLVM counts what has no name when it prints a function: one instruction less, and every number below
changes, whatever the pass did.  Names change no code.  Start from `name_values`.
"""

from __future__ import annotations

from jitkernel.compiler import binding
from jitkernel.compiler.binding import lib

#: What stands before the number that LLVM printed: `%7` is `%v7`, and the block `8:` is `b8:`.
VALUE, BLOCK = "v", "b"


def name_values(module: int) -> bool:
    """Name the arguments, blocks and instructions of a module that have no name, each by the number
    that LLVM prints it with; true if there were any."""
    nothing: dict[int, bool] = {}  # by type: no value is of it

    def is_void(value: int) -> bool:
        kind = lib.TypeOf(value)
        if kind not in nothing:
            nothing[kind] = binding.print_type(kind) == "void"
        return nothing[kind]

    found = False
    for function in binding.functions(module):
        if lib.IsDeclaration(function):
            continue
        number = 0
        for value, prefix in _values(function):
            if lib.GetValueName(value) or (prefix == VALUE and is_void(value)):
                continue
            lib.SetValueName(value, b"%s%d" % (prefix.encode(), number))
            number, found = number + 1, True
    return found


def _values(function: int) -> list[tuple[int, str]]:
    """The values that LLVM numbers, in its order (SlotTracker::processFunction, AsmWriter.cpp)."""
    found = [(argument, VALUE) for argument in binding.arguments(function)]
    for block in binding.blocks(function):
        found.append((block, BLOCK))
        found += [(instruction, VALUE) for instruction in binding.instructions(block)]
    return found
