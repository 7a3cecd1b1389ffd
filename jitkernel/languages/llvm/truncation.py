"""Warnings for integer constants that LLVM cuts to their type without a word.

`i32 4294967296` becomes 0 and `i1 2` becomes false.  Start from `check`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from jitkernel.errors import Diagnostic
from jitkernel.ir.names import NAME, SKIP
from jitkernel.languages.llvm.statements import Statement

__all__ = ["check"]

# `i32 7`, and the second operand of `add i32 %x, 7`, which has no type of its own.
_CONSTANT = re.compile(
    SKIP + r"|\b(add|sub|mul|[su]div|[su]rem|shl|[al]shr|and|or|xor|icmp)\b((?:\s+[a-z]+){0,6})"
    r"\s+i(\d+)\s+"
    rf"(-?\d+|[%@]{NAME}|true|false)\s*,\s*(-?\d+)(?![\w.])"
    r"|(?<![%@\w$.-])i(\d+)\s+(-?\d+)(?![\w.])"
)
# Where one of those may not fit, by the number of its digits: seldom there, and quickly found.  A
# statement that has it is read in full: it may be in a string or a comment.
_FIRST = rf"\s+(?:(?:-?\d+|[%@]{NAME}|true|false)\s*,\s*)?-?"
_SUSPECT = re.compile(
    r"i(?<![%@\w$.-]i)(?:"
    rf"32{_FIRST}\d{{10}}|64{_FIRST}\d{{19}}|8{_FIRST}\d{{3}}|16{_FIRST}\d{{5}}"
    rf"|1{_FIRST}(?:[2-9]|\d\d)|(?!(?:1|8|16|32|64)\s)\d+{_FIRST}\d)"
)
_MOST = 20


def check(statements: Iterable[Statement]) -> list[Diagnostic]:
    """One warning per constant that does not fit its type, at most 20."""
    return [*islice(filter(None, _warnings(statements)), _MOST)]


def _warnings(statements: Iterable[Statement]) -> Iterator[Diagnostic | None]:
    for statement in statements:
        if not _SUSPECT.search(statement.text):
            continue
        for match in _CONSTANT.finditer(statement.text):
            width = match[3] or match[6] or ""
            for group in (4, 5, 7):
                digits = match[group] or ""
                if digits.lstrip("-").isdigit():
                    yield _warning(statement, int(width[:8]), digits, match.start(group))


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
