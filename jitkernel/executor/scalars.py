"""Numbers and pointers as `struct` writes and reads them, for calls that convert no more than that.

Start from `scalars`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import islice, product
from operator import itemgetter
from typing import Any, NamedTuple

from jitkernel.ir.types import FloatType, FunctionType, IntType, PointerType, Type, VoidType

_INTEGERS = {8: "b", 16: "h", 32: "i", 64: "q"}
_MOST_KINDS = 64


class Scalars(NamedTuple):
    """A function's parameters and result: `codes` are the letters of `struct`; `layout` is its
    format of all there is in memory, and `order` has arguments as they lie there, None where they
    do; `kinds` are the classes of Python's that all arguments may have at once; `result` is the
    result's letter, "" for none."""

    codes: tuple[str, ...]
    layout: str
    order: Callable[[tuple[Any, ...]], tuple[Any, ...]] | None
    kinds: frozenset[tuple[type, ...]]
    result: str


def scalars(
    function: FunctionType, offsets: Sequence[int], pointer: type[int], unsigned: bool = False
) -> Scalars | None:
    """Of a function whose arguments lie at `offsets`, the last of which is where their memory ends;
    None where it takes or gives more.

    `pointer` is the class of addresses; `unsigned` is the result where it is an integer without a
    sign.
    """
    codes = tuple(map(_code, function.parameters))
    result = "" if isinstance(function.result, VoidType) else _code(function.result)
    if function.variadic or not all(codes) or (not result and str(function.result) != "void"):
        return None
    layout, at = "", 0
    ascending = sorted(range(len(codes)), key=offsets.__getitem__)
    for index in ascending:
        layout += f"{offsets[index] - at}x{codes[index]}"
        at = offsets[index] + struct.calcsize("<" + codes[index])
    layout += f"{offsets[-1] - at}x"
    order = itemgetter(*ascending) if ascending != sorted(ascending) else None
    choices: list[tuple[type, ...]] = [
        (bool,) if c == "?" else (float,) if c in "fd" else (int, pointer) if c == "Q" else (int,)
        for c in codes
    ]
    kinds = frozenset(islice(product(*choices), _MOST_KINDS))
    return Scalars(codes, layout, order, kinds, result.upper() if unsigned else result)


def _code(type: Type) -> str:
    """The letter of `struct` for a scalar; empty for others."""
    match type:
        case IntType(1):
            return "?"
        case IntType(bits) if bits in _INTEGERS:
            return _INTEGERS[bits]
        case FloatType("float" | "double" as name):
            return name[0]
        case PointerType(0):
            return "Q"
        case _:
            return ""
