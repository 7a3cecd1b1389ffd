"""The tokens of C, as they stand in a cell.  Start from `tokens`.

A directive is one token, to the end of its logical line.  C11 6.4 and 6.10; what GNU C adds (`$` in
names) is read too.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

__all__ = [
    "Token", "Unfinished", "all_words", "closing", "tokens", "without_digraphs", "words",
]  # fmt: skip

Kind: TypeAlias = Literal[
    "name", "number", "string", "character", "operator", "directive", "other", "end"
]


class Token(NamedTuple):
    """A token with its offsets, and its line and column, counted from 1."""

    kind: Kind
    text: str
    start: int
    stop: int
    line: int
    column: int


class Unfinished(Exception):
    """The text ends within something that `token` has opened; `what` says what that is."""

    def __init__(self, what: str, token: Token):
        super().__init__(what)
        self.what, self.token = what, token


_LETTER = r"[A-Za-z_$\u0080-\U0010ffff]"
_QUOTED = r"(?:u8|[uUL])?{0}(?:[^{0}\\\n]|\\(?:.|\n))*{0}"
_SCANNER = re.compile(
    rf"""(?P<blank>(?:[ \t\f\v\r]|\\\n)+)
    |(?P<break>\n)
    |(?P<comment>//(?:[^\n\\]|\\(?:.|\n))*|/\*(?:[^*]|\*(?!/))*\*/)
    |(?P<open>/\*)
    |(?P<string>{_QUOTED.format('"')})
    |(?P<character>{_QUOTED.format("'")})
    |(?P<name>{_LETTER}[\w$]*)
    |(?P<number>\.?\d(?:[eEpP][-+]|'(?=\w)|[\w.])*)
    |(?P<operator>\.\.\.|<<=|>>=|->|\+\+|--|<<|>>|[<>=!+*/%&|^-]=|&&|\|\||[][{{}}()<>;:,.?=+*/%&|^~!-])
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_DIRECTIVE = re.compile(
    r"""\#(?:\\(?:.|\n)|/\*(?:[^*]|\*(?!/))*\*/|//[^\n]*
    |"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[^\n\\])*""",
    re.VERBOSE | re.DOTALL,
)
_IGNORED = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/', re.DOTALL
)
_WORD = re.compile(rf"(?<![\w$.])(?<!->){_LETTER}[\w$]*")
_ANY_WORD = re.compile(rf"(?<![\w$]){_LETTER}[\w$]*")
_DIGRAPH = re.compile(rf"{_IGNORED.pattern}|%:%:|<[:%]|[:%]>|%:", re.DOTALL)
_DIGRAPHS = {"<:": "[ ", ":>": "] ", "<%": "{ ", "%>": "} ", "%:": "# ", "%:%:": "##  "}
_SKIPPED = frozenset(("blank", "break", "comment"))
_CLOSING = {"(": ")", "[": "]", "{": "}"}


def tokens(source: str) -> list[Token]:
    """The tokens of a text, behind them one of kind `end`.  Raises Unfinished for a comment."""
    found: list[Token] = []
    at, line, begin, first = 0, 1, 0, True  # `first`: nothing stands before it on its line
    while at < len(source):
        directive = first and source[at] == "#"
        match = (_DIRECTIVE if directive else _SCANNER).match(source, at)
        if match is None:  # both match any character
            raise AssertionError(source[at])
        kind = "directive" if directive else match.lastgroup or "other"
        token = Token(kind, match[0], at, match.end(), line, at - begin + 1)  # type: ignore[arg-type]
        if kind == "open":
            raise Unfinished("comment", token)
        if kind not in _SKIPPED:
            found.append(token)
            first = directive
        elif kind == "break":
            first = True
        if breaks := match[0].count("\n"):
            line += breaks
            begin = at + match[0].rfind("\n") + 1
        at = match.end()
    found.append(Token("end", "", at, at, line, at - begin + 1))
    return found


def closing(found: list[Token], index: int) -> int:
    """The index behind the bracket that closes the one at `index`; of the last token where none
    does."""
    open_: list[str] = []
    while index < len(found) - 1:
        token = found[index]
        if token.kind == "operator":
            if token.text in _CLOSING:
                open_.append(_CLOSING[token.text])
            elif open_ and token.text == open_[-1]:
                open_.pop()
                if not open_:
                    return index + 1
        index += 1
    return index


def without_digraphs(source: str) -> str:
    """The text with brackets and `#` for `<:` and so on (C11 6.4.6), everything in its column."""
    if "<%" not in source and "<:" not in source and "%:" not in source:
        return source
    return _DIGRAPH.sub(lambda match: _DIGRAPHS.get(match[0], match[0]), source)


@lru_cache(maxsize=1 << 15)
def words(text: str) -> frozenset[str]:
    """The names in a text, apart from those of members: those in strings and comments are none."""
    return frozenset(_WORD.findall(_IGNORED.sub(" ", text)))


@lru_cache(maxsize=1 << 15)
def all_words(text: str) -> frozenset[str]:
    """The names in a text, with those of members: any of them may be a macro."""
    return frozenset(_ANY_WORD.findall(_IGNORED.sub(" ", text)))
