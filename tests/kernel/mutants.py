"""Mutants of a function in IR: small faults of the kinds that students make.  Start from `mutants`.

Off by one, the comparison beside the right one, the other sign, the other operand, a width too
small, a store that is missing.  Of each place and kind there is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_SWAPS = {
    "slt": "sle ult", "sle": "slt ule", "sgt": "sge ugt", "sge": "sgt uge", "ult": "ule slt",
    "ule": "ult", "ugt": "uge sgt", "uge": "ugt", "eq": "ne", "ne": "eq", "olt": "ole ogt",
    "add": "sub", "sub": "add", "and": "or", "or": "and", "lshr": "ashr", "udiv": "sdiv",
    "sdiv": "udiv", "urem": "srem", "zext": "sext", "sext": "zext", "fadd": "fsub",
}  # fmt: skip
_WORD = re.compile(rf"(?<![\w.%@])({'|'.join(_SWAPS)})(?![\w.])")
_NUMBER = re.compile(r"(?<![\w.%@-])(-?\d+)(?=\s*(?:[,\]]|$))(?!\s+x\b)", re.M)
_PAIR = re.compile(r"\b(sub|icmp \w+|udiv|sdiv|urem) (\w+) ([%\w.-]+), ([%\w.-]+)")
_STORE = re.compile(r"^  store [^\n]*\n", re.M)


def mutants(source: str) -> Iterator[tuple[str, str]]:
    """Each mutant, with what was changed in words."""
    start = source.index("define")

    def line(at: int) -> str:
        return source[source.rfind("\n", 0, at) + 1 : source.find("\n", at)].strip()

    for match in _WORD.finditer(source, start):
        for other in _SWAPS[match[1]].split():
            yield (
                source[: match.start()] + other + source[match.end() :],
                f"{line(match.start())}: {match[1]} -> {other}",
            )
    for match in _NUMBER.finditer(source, start):
        for step in (1, -1):
            number = str(int(match[1]) + step)
            yield (
                source[: match.start(1)] + number + source[match.end(1) :],
                f"{line(match.start())}: {match[1]} -> {number}",
            )
    for match in _PAIR.finditer(source, start):
        swapped = f"{match[1]} {match[2]} {match[4]}, {match[3]}"
        yield (
            source[: match.start()] + swapped + source[match.end() :],
            f"{line(match.start())}: operands swapped",
        )
    for match in _STORE.finditer(source, start):
        yield source[: match.start()] + source[match.end() :], f"{match[0].strip()}: left out"
