"""A cell of C cut at its top level: directives, declarations, functions, statements, and a last
expression.  Start from `cut`.

Nothing is parsed but brackets and the words that say where a piece ends; clang reads the rest.
Whether `a * b;` declares or multiplies depends on what `a` is: the caller knows the names of
earlier cells.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from enum import StrEnum

from jitkernel.ir.text import replaced
from jitkernel.languages.c.declarations import Declarator, Specifiers, declarators, specifiers
from jitkernel.languages.c.macros import Macros
from jitkernel.languages.c.tokens import CLOSING, Token, Unfinished, tokens
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
from jitkernel.record import field, record
from jitkernel.regex import regex

_BEGINS = STORAGE | QUALIFIERS | BASIC_TYPES | TAGS | ASSERTIONS | (WITH_ARGUMENTS - ASSEMBLY)
_NO_BREAK = regex(r"[^\n]")
# However it is spaced, it is the same header's.
_INCLUDE = regex(
    r'#[ \t]*(include|include_next|import)[ \t]*("[^"\n]+"|<[^>\n]+>)'
    r"[ \t]*(?://.*|/\*[^\n]*\*/)?[ \t]*"
)


class PieceKind(StrEnum):
    """The kind of a piece."""

    DIRECTIVE = "directive"
    DECLARATION = "declaration"
    FUNCTION = "function"
    STATEMENT = "statement"
    EXPRESSION = "expression"


@record
class Piece:
    """A piece: its tokens, its text, its place in the cell.

    `body` is the index of the token that opens a function's body, -1 where there is none; `head`
    and `declared` are what a declaration or a function says.
    """

    kind: PieceKind
    tokens: list[Token]
    text: str
    body: int = -1
    head: Specifiers = field(default_factory=Specifiers)
    declared: list[Declarator] = field(default_factory=list)

    @property
    def line(self) -> int:
        """The line where it begins, from 1."""
        return self.tokens[0].line

    @property
    def column(self) -> int:
        """The column where it begins, from 1."""
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

    def text_of(self, first: int, stop: int, skipped: Iterable[int] = ()) -> str:
        """The text of its tokens from an index to another, blanks for those that are skipped; lines
        stay."""
        if first >= stop:
            return ""
        own, start = self.tokens, self.start
        blanks = (
            (token.start - start, token.stop - start, _NO_BREAK.sub(" ", token.text))
            for token in (own[i] for i in sorted(skipped) if first <= i < stop)
        )
        text = replaced(self.text, blanks)
        return text[own[first].start - start : own[stop - 1].stop - start]


class Mismatch(Exception):
    """A bracket that closes none, or another one than was opened; or a token where `wanted` is."""

    def __init__(self, token: Token, wanted: str = ""):
        super().__init__(token.text)
        self.token, self.wanted = token, wanted


def cut(
    source: str,
    meaning: Callable[[str], str] = lambda name: "",
    macro: Callable[[str], str] = lambda name: "",
    found: list[Token] | None = None,
    declarations: Collection[int] = (),
) -> list[Piece]:
    """The pieces of a cell; `found` are its tokens, where they have been read already.

    `meaning` tells of a name that an earlier cell declared whether it is a "type" or a "value", ""
    for all others; `macro` gives the directive that defines one, "" for what is none.  Pieces that
    begin at one of `declarations` are some, whatever they look like.  Raises Unfinished where
    something that was opened is not closed, Mismatch for the wrong bracket.
    """
    own = tokens(source) if found is None else found
    return _Cutter(source, own, meaning, macro, declarations).cut()


class _Cutter:
    def __init__(
        self, source: str, found: list[Token], meaning: Callable[[str], str],
        macro: Callable[[str], str], declarations: Collection[int],
    ):  # fmt: skip
        self._source, self._tokens = source, found
        self._meaning, self._macros = meaning, Macros(macro)
        self._declarations = declarations
        self._types: set[str] = set()  # typedef names of this cell
        self._values: set[str] = set()

    def cut(self) -> list[Piece]:
        """From the first token to the last."""
        found: list[Piece] = []
        at = 0
        while self._tokens[at].kind != "end":
            token = self._tokens[at]
            if token.kind == "directive":
                found.append(self._piece(PieceKind.DIRECTIVE, at, at + 1))
                self._macros.direct(token.text)
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
        stop, body = self._simple(at)
        last = self._text(stop - 1)
        if self._declares(at, body, last in (";", "}")):
            kind = PieceKind.FUNCTION if body >= 0 else PieceKind.DECLARATION
            piece = self._piece(kind, at, stop, body - at if body >= 0 else -1)
            self._learn(piece)
            return piece
        kind = PieceKind.STATEMENT if last == ";" else PieceKind.EXPRESSION
        return self._piece(kind, at, stop)

    def _piece(self, kind: PieceKind, start: int, stop: int, body: int = -1) -> Piece:
        own = self._tokens[start:stop]
        directive = kind is PieceKind.DIRECTIVE
        text = own[0].text if directive else self._source[own[0].start : own[-1].stop]
        if kind not in (PieceKind.DECLARATION, PieceKind.FUNCTION):
            include = _INCLUDE.fullmatch(text) if directive else None
            return Piece(kind, own, f"#{include[1]} {include[2]}" if include is not None else text)
        head, declared = specifiers(own, self._macros), declarators(own, body, self._macros)
        return Piece(kind, own, text, body, head, declared)

    def _learn(self, piece: Piece) -> None:
        for declared in piece.declared:
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
        first, open_ = at, [CLOSING[self._text(at)]]
        while open_:
            at += 1
            token = self._tokens[at]
            if token.kind == "end":
                raise Unfinished(f"'{self._tokens[first].text}'", self._tokens[first])
            if token.kind == "operator":
                if token.text in CLOSING:
                    open_.append(CLOSING[token.text])
                elif token.text in (")", "]", "}") and open_.pop() != token.text:
                    raise Mismatch(token)
        return at + 1

    def _is_label(self, at: int) -> bool:
        return self._is_name(at) and self._text(at + 1) == ":" and self._text(at) not in _BEGINS

    def _is_type(self, name: str) -> bool:
        return name in self._types or self._meaning(name) == "type"

    def _is_value(self, name: str) -> bool:
        return name in self._values or self._meaning(name) == "value"

    # -- statements ------------------------------------------------------------------------------

    def _statement(self, at: int) -> int:
        """The index behind a statement; nothing calls itself, for `else if` may follow on itself
        by the thousand."""
        open_: list[str] = []  # of `if` and `do` around it, whose statement this is
        while True:
            word = self._text(at)
            if word in ("if", "for", "while", "switch"):
                open_ += ["if"] * (word == "if")
                at = self._condition(at + 1)
                continue
            if word == "do":
                open_.append(word)
                at += 1
                continue
            if word in ("case", "default") or self._is_label(at):
                while self._text(at) != ":" and self._tokens[at].kind != "end":
                    at += 1
                if self._tokens[at].kind != "end":
                    at += 1
                    continue
            else:
                at = self._group(at) if word == "{" else self._simple(at)[0]
            goes_on = False
            while open_ and not goes_on:
                at, goes_on = self._behind_part(open_.pop(), at)
            if not goes_on:
                return at

    def _behind_part(self, word: str, at: int) -> tuple[int, bool]:
        """The index behind the statement of an `if` or a `do`, which ends at `at`, and whether
        another one belongs to it."""
        if word == "if":
            behind = at
            while self._tokens[behind].kind == "directive":
                behind += 1
            return (behind + 1, True) if self._text(behind) == "else" else (at, False)
        if self._text(at) == "while":
            at = self._condition(at + 1)
        return (at + 1 if self._text(at) == ";" else at), False

    def _condition(self, at: int) -> int:
        if self._tokens[at].kind == "end":
            raise Unfinished(f"'{self._tokens[at - 1].text}'", self._tokens[at - 1])
        if self._text(at) != "(":
            raise Mismatch(self._tokens[at], f"expected '(' after '{self._text(at - 1)}'")
        return self._group(at)

    def _simple(self, begin: int) -> tuple[int, int]:
        """The index behind a declaration, a function or an expression statement, and that of the
        bracket that opens a function's body, -1 where there is none."""
        at, before, opened = begin, "", -1  # `opened`: the ( of the last )
        plain = True  # neither an initialiser nor a body so far
        while True:
            token, text = self._tokens[at], self._text(at)
            if token.kind == "end":
                return at, -1
            if token.kind == "directive":
                at += 1
            elif text == ";":
                return at + 1, -1
            elif text == "{":
                if before == ")" and self._opens_body(begin, opened):
                    return self._group(at), at
                at, before, plain = self._group(at), "}", False
            elif text in ("(", "["):
                opened, at = at, self._group(at)
                before = self._text(at - 1)
                body = self._old_style_body(begin, opened, at) if plain and before == ")" else -1
                if body >= 0:
                    return self._group(body), body
            elif text in (")", "]", "}"):
                raise Mismatch(token)
            else:
                plain = plain and text != "="
                at, before = at + 1, text

    def _opens_body(self, begin: int, opened: int) -> bool:
        """True if the `{` behind the `)` that `opened` opens a function's body, and no compound
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
            declares = self._is_name(begin) or self._text(begin) == "["
            return declares and not any(t.text == "=" for t in self._tokens[begin:at])
        return self._is_name(at) and not (
            word in CONTROL | TYPE_OPERATORS | TAGS or word in ("sizeof", "_Alignof", "alignof")
        )

    def _old_style_body(self, begin: int, opened: int, behind: int) -> int:
        """The index of the `{` behind the declarations of an old-style function's parameters, which
        begin at `behind`; -1 where there are none.  They declare names between the parentheses, so
        what types there are need not be known.  C11 6.9.1."""
        if self._text(opened - 1) != ")" and not self._may_be_function(opened - 1):
            return -1
        names = {t.text for t in self._tokens[begin:behind] if t.kind == "name"}
        at = behind
        while self._is_name(at) and self._text(at) not in CONTROL:
            stop = at
            while self._text(stop) != ";":
                if self._tokens[stop].kind == "end" or self._text(stop) in ("=", ")", "]", "}"):
                    return -1
                stop = self._group(stop) if self._text(stop) in CLOSING else stop + 1
            called = self._text(at + 1) == "(" and self._is_name(at + 2)
            found = declarators(self._tokens[at : stop + 1], -1, self._macros)
            if called or not found or not names.issuperset(d.name for d in found):
                return -1
            at = stop + 1
            while self._tokens[at].kind == "directive":
                at += 1
        return at if at > behind and self._text(at) == "{" else -1

    def _may_be_function(self, at: int) -> bool:
        """True if a token in front of a `(` may be the name of a function that is defined."""
        word = self._text(at)
        return self._is_name(at) and word not in WITH_ARGUMENTS and not self._macros.get(word)

    def _declares(self, at: int, body: int, ended: bool) -> bool:
        """True if what begins here is a declaration."""
        if self._tokens[at].start in self._declarations:
            return True
        typed = False  # by a macro
        while use := self._macros.use(self._tokens, at):
            if not (use.type or use.attribute) or self._text(use.behind) in (";", ",", "=", ""):
                break
            if use.type and not use.names:
                return True
            typed |= any(map(self._is_type, use.names))
            if use.type:
                return self._is_declarator(use.behind, typed) or body >= 0
            at = use.behind
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
        return self._is_declarator(at + 1, self._is_type(word))

    def _is_declarator(self, at: int, typed: bool) -> bool:
        """True if declarators begin here, behind what may be the name of a type; `typed` says that
        it is one."""
        while self._text(at) == "*" or self._text(at) in QUALIFIERS | WITH_ARGUMENTS:
            arguments = self._text(at) in WITH_ARGUMENTS and self._text(at + 1) == "("
            at = self._group(at + 1) if arguments else at + 1
        if self._is_name(at) and self._text(at) not in CONTROL:
            return True
        return typed and self._text(at) in ("(", ";")
