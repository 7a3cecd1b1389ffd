"""What pieces of a cell say by conditions and by macros that are expanded before it is cut, as it
was written.

A function with `#if DEBUG` within its braces follows `DEBUG` when its note has the condition, and
not what that left.  Start from `written`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jitkernel.languages.c.pieces import Piece, PieceKind
from jitkernel.languages.c.tokens import all_words, asked_for, closing, tokens

__all__ = ["Written", "written"]

_CONDITION = re.compile(r"#\s*(if|el|endif)")
_CHANGED = re.compile(r"#\s*(?:define|undef)\s+(\w+)")


class Written(NamedTuple):
    """Braces of a piece: where they are in the code that was cut, and the text that was written."""

    start: int
    stop: int
    text: str
    lines: range


def written(
    source: str, code: str, pieces: Sequence[Piece]
) -> tuple[list[Written], frozenset[str]]:
    """The braces of a cell's pieces that were written otherwise than they were read, and the names
    that conditions outside of them ask for.  Both texts have the same lines."""
    if source == code:
        return [], frozenset()
    before, now = source.split("\n"), code.split("\n")
    changed = [
        (match[1], piece.start) for piece in pieces
        if piece.kind is PieceKind.DIRECTIVE and (match := _CHANGED.match(piece.text))
    ]  # fmt: skip
    found = []
    for piece in pieces:
        if piece.kind in (PieceKind.DECLARATION, PieceKind.FUNCTION):
            later = {name for name, start in changed if start > piece.start}
            for one in _braces(piece, before, now):
                if one.text != code[one.start : one.stop] and _is_whole(one.text):
                    if later.isdisjoint(all_words(one.text)):
                        found.append(one)
    inside = {line for one in found for line in one.lines[1:]}
    outside = "\n".join("" if at in inside else line for at, line in enumerate(before, 1))
    return found, asked_for(outside)


def _braces(piece: Piece, before: Sequence[str], now: Sequence[str]) -> Iterator[Written]:
    """The original texts of the piece's outermost braces; those of an enum give names."""
    found, at = piece.tokens, 0
    while at < len(found):
        stop = closing([*found, found[-1]], at) if found[at].text in ("(", "[", "{") else at + 1
        if found[at].text == "enum":
            return
        if found[at].text == "{":
            first, last = found[at], found[stop - 1]
            head = now[first.line - 1][: first.column]
            tail = now[last.line - 1][last.column - 1 :]
            old = before[last.line - 1]
            if before[first.line - 1].startswith(head) and old.endswith(tail):
                lines = [*before[first.line - 1 : last.line - 1], old[: len(old) - len(tail) + 1]]
                text = "\n".join(lines)[first.column - 1 :]
                yield Written(first.start, last.stop, text, range(first.line, last.line + 1))
        at = stop


def _is_whole(text: str) -> bool:
    """True if all of its conditions begin and end in it."""
    depth = 0
    for token in tokens(text):
        match = _CONDITION.match(token.text) if token.kind == "directive" else None
        if match is not None and match[1] == "el":
            if not depth:
                return False
        elif match is not None:
            depth += 1 if match[1] == "if" else -1
            if depth < 0:
                return False
    return not depth
