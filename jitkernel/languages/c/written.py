"""What pieces of a cell say by conditions and by macros that are expanded before it is cut, as it
was written.

A function with `#if DEBUG` within its braces follows `DEBUG` when its note has the condition, and
not what that left.  Start from `written`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jitkernel.languages.c.code import Code
from jitkernel.languages.c.pieces import Piece, PieceKind
from jitkernel.languages.c.tokens import Token, after, all_words, asked_for, tokens

__all__ = ["Written", "written"]

_CONDITION = re.compile(r"#\s*(if|el|endif)")
_CHANGED = re.compile(r"#\s*(?:define|undef)\s+(\w+)")


class Written(NamedTuple):
    """Braces of a piece: where they are in the code that was cut, and the text that was written."""

    start: int
    stop: int
    text: str
    lines: range


def written(code: Code, pieces: Sequence[Piece]) -> tuple[list[Written], frozenset[str]]:
    """The braces of a cell's pieces that were written otherwise than they were read, and the names
    that conditions outside of them ask for."""
    source = code.source
    if source == code.text:
        return [], frozenset()
    changed = [
        (match[1], piece.start) for piece in pieces
        if piece.kind is PieceKind.DIRECTIVE and (match := _CHANGED.match(piece.text))
    ]  # fmt: skip
    found, outside, at = [], list[str](), 0
    for piece in pieces:
        later = {name for name, start in changed if start > piece.start}
        for first, last in _braces(piece):
            start, stop = code.origin(first.start), code.origin(last.start) + 1
            text = source[start:stop]
            same = text == code.text[first.start : last.stop] or text[:1] + text[-1:] != "{}"
            if not same and _is_whole(text) and later.isdisjoint(all_words(text)):
                lines = range(first.line, last.line + 1)
                found.append(Written(first.start, last.stop, text, lines))
                outside.append(source[at:start])
                at = stop
    return found, asked_for("".join((*outside, source[at:])))


def _braces(piece: Piece) -> Iterator[tuple[Token, Token]]:
    """The piece's outermost braces; those of an enum give names."""
    found, at = piece.tokens, 0
    while at < len(found) and piece.kind in (PieceKind.DECLARATION, PieceKind.FUNCTION):
        stop = after(found, at)
        if found[at].text == "enum":
            return
        if found[at].text == "{":
            yield found[at], found[stop - 1]
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
