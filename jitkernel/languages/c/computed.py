"""Variables that get their values when their cell runs.  Start from `Computed`.

At file scope C has constants alone; so the declaration stays without its initialiser, and a
statement writes the value there.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from jitkernel.languages.c.declarations import Declarator, unsized
from jitkernel.languages.c.generated import OWN, Part
from jitkernel.languages.c.notes import IDENTIFIER, Notes
from jitkernel.languages.c.pieces import Piece
from jitkernel.languages.c.tokens import Token, closing, tokens

__all__ = ["Computed"]


class Computed:
    """One such variable of a piece; `elements` tells how many an initialiser has."""

    def __init__(
        self, source: str, notes: Notes, piece: Piece, declared: Declarator,
        elements: Callable[[str], int],
    ):  # fmt: skip
        self._source, self._notes = source, notes
        self._piece, self._declared, self._elements = piece, declared, elements
        tokens = piece.tokens
        self._name, self._equals = tokens[declared.name_at], tokens[declared.init]
        self._first, self._last = tokens[declared.init + 1], tokens[declared.end - 1]
        self._value = source[self._first.start : self._last.stop]

    def edits(self) -> list[tuple[int, int, str]]:
        """The changes to the text of the declaration: from, to, and what stands there."""
        tokens, declared = self._piece.tokens, self._declared
        found, bracket = self._piece.head, unsized(tokens[declared.name_at : declared.last])
        edits = [
            (
                self._equals.start, self._last.stop,
                re.sub(r"[^\n]", " ", self._source[self._equals.start : self._last.stop]),
            )
        ]  # fmt: skip
        if found.deduced >= 0:
            word = tokens[found.deduced]
            edits.append((word.start, word.stop, f"__typeof__(((void)0, {self._operand()}))"))
        elif self._first.text == "{" and (alias := self._unsized_type()):
            edits.append((alias.start, alias.stop, f"__typeof__((*({alias.text} *)0)[0])"))
            edits.append((self._name.stop, self._name.stop, f"[{self._elements(self._value)}]"))
        elif self._first.text == "{" and bracket:
            edits.append((bracket.start, bracket.start, str(self._elements(self._value))))
        base = self._piece.start
        return [(start - base, stop - base, text) for start, stop, text in edits]

    def parts(self) -> list[Part]:
        """The statement that writes the value."""
        name, first, last_line = self._name, self._first, self._piece.last_line
        start = self._piece.tokens[self._declared.first].start
        label = self._source[start : self._last.stop]
        return [
            Part(f"{{ __typeof__({name.text})"),
            Part(f"{OWN}i =", name.line, name.column, last_line),
            Part(self._value, first.line, first.column, last_line, label),
            Part(f"; __builtin_memcpy((void *)&{name.text}, (void *)&{OWN}i, sizeof {OWN}i); }}"),
        ]

    def _operand(self) -> str:
        """The value where only its type counts: compound literals have constants alone at file
        scope, so what they hold is left out."""
        tokens, text, start = self._piece.tokens, "", self._first.start
        at, stop = self._declared.init + 1, self._declared.end
        while at < stop:
            behind = closing(tokens, at) if tokens[at].text == "(" else stop
            if behind < stop and tokens[behind].text == "{":
                type = self._source[tokens[at].stop : tokens[behind - 1].start]
                text += f"{self._source[start : tokens[at].start]}(*(__typeof__({type}) *)0)"
                at = closing(tokens, behind)
                start = tokens[at - 1].stop
            else:
                at += 1
        return text + self._source[start : self._last.stop]

    def _unsized_type(self) -> Token | None:
        """The name of a type that is an array without a length, where the variable is of it."""
        declared, own = self._declared, self._piece.tokens
        plain = declared.first == declared.name_at and declared.last == declared.name_at + 1
        for token in own[: self._piece.head.end] if plain else ():
            note = self._notes.in_cell(IDENTIFIER + token.text)
            if note is not None and note.kind == "typedef" and unsized(tokens(note.text)):
                return token
        return None
