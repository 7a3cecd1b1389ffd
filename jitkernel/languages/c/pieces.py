"""A cell of C cut at its top level: directives, declarations, functions, statements, and a last
expression.  Start from `cut`.

Nothing is parsed but brackets and the words that say where a piece ends; clang reads the rest.
Whether `a * b;` declares or multiplies depends on what `a` is: the caller knows the names of
earlier cells.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from jitkernel.languages.c.declarations import declarators
from jitkernel.languages.c.tokens import Token, Unfinished, tokens
from jitkernel.languages.c.words import (
    ASSEMBLY,
    ASSERTIONS,
    BASIC_TYPES,
    CONTROL,
    QUALIFIERS,
    STORAGE,
    TAGS,
    TYPE_OPERATORS,
    WITH_ARGUMENTS,
)

__all__ = ["Mismatch", "Piece", "PieceKind", "cut"]

_BEGINS = STORAGE | QUALIFIERS | BASIC_TYPES | TAGS | ASSERTIONS | (WITH_ARGUMENTS - ASSEMBLY)
_CLOSES = {"(": ")", "[": "]", "{": "}"}
# A macro that is `(...) {...}` behind its own parameters.
_FUNCTION_BODY = re.compile(r"#\s*define\s+\w+\([^)]*\).*\)\s*\{.*\}\Z", re.DOTALL)
_MACRO = re.compile(r"#\s*define\s+(\w+)")


class PieceKind(StrEnum):
    """What a piece is."""

    DIRECTIVE = "directive"
    DECLARATION = "declaration"
    FUNCTION = "function"
    STATEMENT = "statement"
    EXPRESSION = "expression"


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece: its tokens, its text, its place in the cell.

    `body` is the index of the token that opens a function's body, -1 where there is none.
    """

    kind: PieceKind
    tokens: list[Token]
    text: str
    body: int = -1

    @property
    def line(self) -> int:
        """Where it begins, from 1."""
        return self.tokens[0].line

    @property
    def column(self) -> int:
        """Where it begins, from 1."""
        return self.tokens[0].column

    @property
    def start(self) -> int:
        """Its offset in the cell."""
        return self.tokens[0].start

    @property
    def last_line(self) -> int:
        """The line of its last token's end."""
        last = self.tokens[-1]
        return last.line + last.text.count("\n")

    @property
    def end_column(self) -> int:
        """The column behind its last token."""
        last = self.tokens[-1]
        return last.column + len(last.text)


class Mismatch(Exception):
    """A bracket that closes none, or another one than was opened."""

    def __init__(self, token: Token):
        super().__init__(token.text)
        self.token = token


def cut(
    source: str,
    meaning: Callable[[str], str] = lambda name: "",
    macro: Callable[[str], str] = lambda name: "",
    found: list[Token] | None = None,
) -> list[Piece]:
    """The pieces of a cell; `found` are its tokens, where they have been read already.

    `meaning` tells of a name that an earlier cell declared whether it is a "type" or a "value", ""
    for all others; `macro` gives the directive that defines one, "" for what is none.  Raises
    Unfinished where something that was opened is not closed, Mismatch for the wrong bracket.
    """
    return _Cutter(source, tokens(source) if found is None else found, meaning, macro).cut()


class _Cutter:
    def __init__(
        self, source: str, found: list[Token], meaning: Callable[[str], str],
        macro: Callable[[str], str],
    ):  # fmt: skip
        self._source, self._tokens = source, found
        self._meaning, self._macro = meaning, macro
        self._types: set[str] = set()  # typedef names of this cell
        self._values: set[str] = set()
        self._macros: dict[str, str] = {}

    def cut(self) -> list[Piece]:
        """From the first token to the last."""
        found: list[Piece] = []
        at = 0
        while self._tokens[at].kind != "end":
            token = self._tokens[at]
            if token.kind == "directive":
                found.append(self._piece(PieceKind.DIRECTIVE, at, at + 1))
                if macro := _MACRO.match(token.text):
                    self._macros[macro[1]] = token.text
                at += 1
            elif token.text == ";":
                at += 1
            else:
                found.append(piece := self._next(at))
                at += len(piece.tokens)
        return found

    def _next(self, at: int) -> Piece:
        if self._text(at) in CONTROL or self._text(at) == "{" or self._is_label(at):
            return self._piece(PieceKind.STATEMENT, at, self._statement(at))
        if self._is_name(at) and self._text(at + 1) == "(" and self._expands_to_body(at):
            return self._piece(PieceKind.DECLARATION, at, self._group(at + 1))
        stop, body = self._simple(at)
        last = self._text(stop - 1)
        if self._declares(at, body, last in (";", "}")):
            kind = PieceKind.FUNCTION if body >= 0 else PieceKind.DECLARATION
            piece = self._piece(kind, at, stop, body - at if body >= 0 else -1)
            self._learn(piece)
            return piece
        kind = PieceKind.STATEMENT if last == ";" else PieceKind.EXPRESSION
        return self._piece(kind, at, stop)

    def _expands_to_body(self, at: int) -> bool:
        """Whether a macro's text ends as a function's definition does."""
        name = self._text(at)
        text = (self._macros.get(name) or self._macro(name)).rstrip()
        return bool(_FUNCTION_BODY.search(text))

    def _piece(self, kind: PieceKind, start: int, stop: int, body: int = -1) -> Piece:
        own = self._tokens[start:stop]
        return Piece(kind, own, self._source[own[0].start : own[-1].stop], body)

    def _learn(self, piece: Piece) -> None:
        for declared in declarators(piece.tokens, piece.body, self.knows_macro):
            (self._types if declared.typedef else self._values).add(declared.name)

    # -- tokens ----------------------------------------------------------------------------------

    def _text(self, at: int) -> str:
        """A token's text; of a string a quotation mark."""
        token = self._tokens[at]
        return '"' if token.kind == "string" else token.text

    def _is_name(self, at: int) -> bool:
        return self._tokens[at].kind == "name"

    def _group(self, at: int) -> int:
        """The index behind the bracket that closes the one at `at`."""
        first, open_ = at, [_CLOSES[self._text(at)]]
        while open_:
            at += 1
            token = self._tokens[at]
            if token.kind == "end":
                raise Unfinished(f"'{self._tokens[first].text}'", self._tokens[first])
            if token.kind == "operator":
                if token.text in _CLOSES:
                    open_.append(_CLOSES[token.text])
                elif token.text in (")", "]", "}") and open_.pop() != token.text:
                    raise Mismatch(token)
        return at + 1

    def _is_label(self, at: int) -> bool:
        return self._is_name(at) and self._text(at + 1) == ":" and self._text(at) not in _BEGINS

    def knows_macro(self, name: str) -> bool:
        """Whether a name is a macro, of this cell or an earlier one."""
        return bool(self._macros.get(name) or self._macro(name))

    def _is_type(self, name: str) -> bool:
        return name in self._types or self._meaning(name) == "type"

    def _is_value(self, name: str) -> bool:
        return name in self._values or self._meaning(name) == "value"

    # -- statements ------------------------------------------------------------------------------

    def _statement(self, at: int) -> int:
        """The index behind a statement."""
        word = self._text(at)
        if word == "{":
            return self._group(at)
        if word == "if":
            at = self._statement(self._condition(at + 1))
            behind = at
            while self._tokens[behind].kind == "directive":
                behind += 1
            return self._statement(behind + 1) if self._text(behind) == "else" else at
        if word in ("for", "while", "switch"):
            return self._statement(self._condition(at + 1))
        if word == "do":
            at = self._statement(at + 1)
            if self._text(at) == "while":
                at = self._condition(at + 1)
            return at + 1 if self._text(at) == ";" else at
        if word in ("case", "default"):
            while self._text(at) != ":" and self._tokens[at].kind != "end":
                at += 1
            return self._statement(at + 1) if self._tokens[at].kind != "end" else at
        if self._is_label(at):
            return self._statement(at + 2)
        return self._simple(at)[0]

    def _condition(self, at: int) -> int:
        if self._tokens[at].kind == "end":
            raise Unfinished(f"'{self._tokens[at - 1].text}'", self._tokens[at - 1])
        if self._text(at) != "(":
            raise Mismatch(self._tokens[at])
        return self._group(at)

    def _simple(self, begin: int) -> tuple[int, int]:
        """The index behind a declaration, a function or an expression statement, and that of the
        bracket that opens a function's body, -1 where there is none."""
        at, before, opened = begin, "", -1  # `opened`: the ( of the last )
        while True:
            token, text = self._tokens[at], self._text(at)
            if token.kind == "end":
                return at, -1
            if token.kind == "directive":
                at += 1
            elif text == ";":
                at += 1
                if not self._is_old_style(begin, at - 1):
                    return at, -1
                before = ";"
            elif text == "{":
                if before == ";" or (before == ")" and self._opens_body(begin, opened)):
                    return self._group(at), at
                at, before = self._group(at), "}"
            elif text in ("(", "["):
                opened, at = at, self._group(at)
                before = self._text(at - 1)
            elif text in (")", "]", "}"):
                raise Mismatch(token)
            else:
                at, before = at + 1, text

    def _opens_body(self, begin: int, opened: int) -> bool:
        """Whether the `{` behind the `)` that `opened` opens a function's body, and no compound
        literal."""
        at = opened - 1
        while at >= begin and self._text(at) in WITH_ARGUMENTS - TYPE_OPERATORS:
            at -= 1  # an attribute behind the parameters: back to what they are
            if self._text(at) != ")":
                return self._text(at) not in TAGS
            depth = 0
            while at >= begin:
                depth += (self._text(at) == ")") - (self._text(at) == "(")
                at -= 1
                if not depth:
                    break
        if at < begin:
            return False
        word = self._text(at)
        if word == ")":  # `int (*f(int n))(void) {`, not `(long)(int[]){`, not `p = (long)(int[]){`
            return self._is_name(begin) and not any(t.text == "=" for t in self._tokens[begin:at])
        return self._is_name(at) and not (
            word in CONTROL | TYPE_OPERATORS | TAGS or word in ("sizeof", "_Alignof", "alignof")
        )

    def _is_old_style(self, begin: int, semicolon: int) -> bool:
        """Whether a `;` ends the declaration of an old-style function's parameter."""
        at = begin
        while at < semicolon:
            text = self._text(at)
            if text in ("=", "{"):
                return False
            if text != "(":
                at += 1
                continue
            behind = self._group(at)
            names = all(
                t.kind == "name" or t.text == "," for t in self._tokens[at + 1 : behind - 1]
            )
            if names and at > begin and behind < semicolon and self._may_be_function(at - 1):
                word = self._text(behind)
                if word in BASIC_TYPES | TAGS | QUALIFIERS or word == "register":
                    return True
                if self._is_name(behind) and self._is_type(word):
                    return True
            at = behind
        return False

    def _may_be_function(self, at: int) -> bool:
        """Whether a token in front of a `(` may be the name of a function that is defined."""
        word = self._text(at)
        return self._is_name(at) and word not in WITH_ARGUMENTS and not self.knows_macro(word)

    def _declares(self, at: int, body: int, ended: bool) -> bool:
        """Whether what begins here is a declaration."""
        word = self._text(at)
        if word in _BEGINS or (word == "[" and self._text(at + 1) == "["):
            return True
        if not self._is_name(at) or word in CONTROL:
            return False
        if word in ASSEMBLY:
            behind = self._group(at + 1) if self._text(at + 1) == "(" else at
            return behind > at and not any(t.text == ":" for t in self._tokens[at:behind])
        if body >= 0:
            return True
        if not ended or (self._is_value(word) and not self._is_type(word)):
            return False
        at += 1
        if self._text(at) == "(" and self.knows_macro(word):
            behind = self._group(at)  # a macro of an attribute stands in front of a type
            if self._text(behind) in _BEGINS or self._is_type(self._text(behind)):
                return True
        behind = at
        while self._text(behind) == "*" or self._text(behind) in QUALIFIERS | WITH_ARGUMENTS:
            arguments = self._text(behind) in WITH_ARGUMENTS and self._text(behind + 1) == "("
            behind = self._group(behind + 1) if arguments else behind + 1
        if self._is_name(behind) and self._text(behind) not in CONTROL:
            return True
        return self._is_type(word) and self._text(behind) in ("(", ";")
