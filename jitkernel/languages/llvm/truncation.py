"""Warnings for integer constants that LLVM cuts to their type without a word.

`i32 4294967296` becomes 0 and `i1 2` becomes false.  Start from `check`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from jitkernel.errors import Diagnostic
from jitkernel.ir.constants import integers
from jitkernel.languages.llvm.statements import Statement

__all__ = ["check"]

_MOST = 20


def check(statements: Iterable[Statement]) -> list[Diagnostic]:
    """One warning per constant that does not fit its type, at most 20."""
    return [*islice(filter(None, _warnings(statements)), _MOST)]


def _warnings(statements: Iterable[Statement]) -> Iterator[Diagnostic | None]:
    for statement in statements:
        for bits, digits, at in integers(statement.text):
            yield _warning(statement, bits, digits, at)


def _warning(statement: Statement, bits: int, digits: str, at: int) -> Diagnostic | None:
    # A decimal digit holds more than 3.3 bits: most constants are settled without any arithmetic.
    if len(digits) * 10 // 3 + 1 < bits or len(digits) > 4000:
        return None
    value = int(digits)
    if -(1 << bits - 1) <= value < 1 << bits:
        return None
    kept = value & (1 << bits) - 1
    if kept >> bits - 1 and bits > 1:
        kept -= 1 << bits
    shown = ("false", "true")[kept & 1] if bits == 1 else str(kept)
    words = f"{digits} does not fit i{bits}: LLVM takes it as {shown}"
    hint = f"i{bits} holds {-(1 << bits - 1)} to {(1 << bits) - 1}" if bits < 65 else ""
    return statement.diagnostic(words, hint, at, "warning")
