"""Programs that a thread runs which has met a breakpoint (native/decide.ll): small ones, for a
machine with a stack of words.  Start from `program`.

`Code` is a part of one: it leaves one word.  Integers are words, sign- or zero-extended as their
types say; numbers with a point are the bits of doubles.  What cannot be computed there, as a
division by zero or what is at an address where nothing is, is left to somebody else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from jitkernel.executor import abi

__all__ = ["Code", "both", "choice", "constant", "either", "op", "program"]

#: Instructions, and constants behind `word`.
Code: TypeAlias = tuple[int, ...]

_DEEPEST = 32
_OPS = {name: number for number, name in enumerate(abi.PROGRAM_OPS)}
_HALF = 1 << 55
# Words that each takes from the stack, and leaves there.
_MOVES: dict[str, tuple[int, int]] = {
    "end": (1, 0), "word": (0, 1), "push": (0, 1), "register": (0, 1), "hits": (0, 1),
    "copy": (1, 2),
    "drop": (1, 0), "skip": (0, 0), "skip_if_not": (1, 0), "swap": (2, 2),
    **dict.fromkeys("load signed unsigned real ureal single usingle widen round whole".split(),
                    (1, 1)),
}  # fmt: skip


def op(name: str, operand: int = 0) -> Code:
    """An instruction."""
    return (_OPS[name] | operand << 8,)


def constant(word: int) -> Code:
    """A word that is always the same."""
    word &= (1 << 64) - 1
    signed = word - (word >> 63 << 64)
    if -_HALF <= signed < _HALF:
        return op("push", signed)
    return (*op("word"), word)


def choice(condition: Code, first: Code, second: Code) -> Code:
    """One or the other; what is not wanted is not run."""
    ahead = op("skip_if_not", len(first) + 1)
    return (*condition, *ahead, *first, *op("skip", len(second)), *second)


def both(left: Code, right: Code) -> Code:
    """1 if both are not zero, else 0; `right` is one or the other."""
    return choice(left, right, constant(0))


def either(left: Code, right: Code) -> Code:
    """1 if one is not zero, else 0; `right` is one or the other."""
    return choice(left, constant(1), right)


def program(code: Code) -> Sequence[int] | None:
    """The words of a program that ends with what a code leaves; None where that has more on the
    stack than there is room for."""
    whole = (*code, *op("end"))
    return whole if _deepest(whole) <= _DEEPEST else None


def _deepest(code: Code) -> int:
    depth = most = at = 0
    jumps: dict[int, int] = {}
    while at < len(code):
        name, operand = abi.PROGRAM_OPS[code[at] & 255], code[at] >> 8
        depth = jumps.pop(at, depth)
        takes, leaves = _MOVES.get(name, (2, 1))
        depth += leaves - takes
        most = max(most, depth)
        at += 2 if name == "word" else 1
        if name in ("skip", "skip_if_not"):
            jumps[at + operand] = depth
    return most
