"""Faults that constants alone tell of: numbers that do not fit their types, and what is undefined
whenever it runs.  Start from `truncated` and `undefined`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from jitkernel.ir.module import Entity, functions
from jitkernel.ir.names import NAME, SKIP
from jitkernel.record import NamedTuple
from jitkernel.regex import regex

# `i32 7`, and the second operand of `add i32 %x, 7`, which has no type of its own.
_CONSTANT = regex(
    SKIP + r"|\b(add|sub|mul|[su]div|[su]rem|shl|[al]shr|and|or|xor|icmp)\b((?:\s+[a-z]+){0,6})"
    r"\s+i(\d+)\s+"
    rf"(-?\d+|[%@]{NAME}|true|false)\s*,\s*(-?\d+)(?![\w.])"
    r"|(?<![%@\w$.-])i(\d+)\s+(-?\d+)(?![\w.])"
)
# Where one of those may not fit, by the number of its digits: seldom there, and quickly found.  A
# statement that has it is read in full: it may be in a string or a comment.
_SUSPECT = regex(
    r"i(?<![%@\w$.-]i)(?:(32)|(64)|(8)|(16)|(1)|(?!(?:1|8|16|32|64)\s)\d+)\s+"
    rf"(?:(?:-?\d+|[%@]{NAME}|true|false)\s*,\s*)?-?"
    r"(?(1)\d{10}|(?(2)\d{19}|(?(3)\d{3}|(?(4)\d{5}|(?(5)(?:[2-9]|\d\d)|\d)))))"
)
_END = r"(?=[ \t]*(?:$|;|,[ \t]*(?:!|align\b)))"
# A keyword's first letter stands before what may not precede it: the search skips to it.
_ARITHMETIC = regex(
    r"(?m)[sula](?<!\w.)(?:(?P<divide>(?<=[su])(?:div|rem))[ \t]+(?:exact[ \t]+)?"
    r"(?:i\d+[ \t]+[^,\n]+,[ \t]*0|<[^>\n]+>[ \t]+[^,\n]+,[ \t]*zeroinitializer)" + _END + r"|"
    r"(?P<shift>(?<=s)hl|(?<=[la])shr)[ \t]+(?:(?:nuw|nsw|exact)[ \t]+)*i(?P<bits>\d+)[ \t]+"
    r"[^,\n]+,[ \t]*(?P<by>\d+)" + _END + r")"
)
_ACCESS = regex(
    r"(?m)[lsc](?<!\w.)(?:"
    r"(?:(?<=l)oad|(?<=s)tore)[ \t]+(?!(?:atomic[ \t]+)?volatile\b)[^;\n]*?,[ \t]*ptr[ \t]+"
    r"(?P<where>null|undef|poison)\b" + _END + r"|"
    r"(?<=c)all[ \t][^;\n\"]*?[ \t](?P<callee>null|undef|poison)[ \t]*\()"
)
_DIVIDED = regex(r"\b[su](?:div|rem)[ \t]+i\d+[ \t]+[^,\n]+,[ \t]*%")
# One of these stands in every text that has any of the above.
_OPERATIONS = ("div ", "rem ", "shl ", "lshr ", "ashr ")
_NULL, _VALID = " null", " null_pointer_is_valid"


def truncated(text: str) -> Iterator[tuple[int, str, str]]:
    """The integer constants that LLVM cuts to their types without a word: `i32 4294967296` becomes
    0, and `i1 2` false.  Of each its offset, what it becomes in words, and what the type holds."""
    for match in _CONSTANT.finditer(text) if _SUSPECT.search(text) else ():
        bits = int((match[3] or match[6] or "0")[:8])
        for group in (4, 5, 7):
            digits = match[group] or ""
            if not digits.lstrip("-").isdigit() or len(digits) > 4000:
                continue
            # A decimal digit holds more than 3.3 bits: most are settled without any arithmetic.
            if len(digits) * 10 // 3 + 1 < bits:
                continue
            value = int(digits)
            if -(1 << bits - 1) <= value < 1 << bits:
                continue
            kept = value & (1 << bits) - 1
            if kept >> bits - 1 and bits > 1:
                kept -= 1 << bits
            shown = ("false", "true")[kept & 1] if bits == 1 else str(kept)
            words = f"{digits} does not fit i{bits}: LLVM takes it as {shown}"
            hint = f"i{bits} holds {-(1 << bits - 1)} to {(1 << bits) - 1}" if bits < 65 else ""
            yield match.start(group), words, hint


class Finding(NamedTuple):
    """Something undefined: in which function, at which offset of the text, and what it is."""

    function: str
    at: int
    what: str


def undefined(source: str) -> list[Finding]:
    """The places that are undefined by constants alone whenever they run: divisions by 0, shifts by
    too much, accesses through null or to nowhere.  Volatile accesses happen as they are written."""
    matches: list[re.Match[str]] = []
    if any(word in source for word in _OPERATIONS):
        matches += _ARITHMETIC.finditer(source)
    nowhere = " undef" in source or " poison" in source
    if nowhere or source.count(_NULL) > source.count(_VALID):
        matches += _ACCESS.finditer(source)
    found: list[Finding] = []
    heads: list[Entity] | None = None
    for match in sorted(matches, key=re.Match.start):
        begin = source.rfind("\n", 0, match.start()) + 1
        what = _what(match)
        if not what or any(c in source[begin : match.start()] for c in ';"'):
            continue  # in a comment or a string, or well defined
        if "null" in what and "null_pointer_is_valid" in source:
            continue
        if heads is None:
            heads = list(functions(source, "define"))
        function = next((f.name for f in reversed(heads) if f.start <= match.start()), "")
        found.append(Finding(function, match.start(), what))
    return found


def divisions(source: str) -> Iterator[int]:
    """The offsets of the divisions of integers by what is no constant."""
    return (match.start() for match in _DIVIDED.finditer(source))


def _what(match: re.Match[str]) -> str:
    if match.lastgroup == "divide":
        return "division by zero is undefined"
    if match.lastgroup == "by":
        bits, by = int(match["bits"]), int(match["by"])
        return f"a shift of an i{bits} by {by} is undefined" if by >= bits else ""
    where = match[match.lastgroup or 0]
    through = "a null pointer" if where == "null" else f"an {where} pointer"
    through = through.replace("an poison", "a poison")
    if match.lastgroup == "callee":
        return f"a call through {through} is undefined"
    return f"a {match[0].split(None, 1)[0]} through {through} is undefined"
