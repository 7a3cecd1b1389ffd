"""The tokens of C, as they stand in a cell.  Start from `tokens`.

A directive is one token, to the end of its logical line; so is `_Pragma("...")` outside brackets,
as the `#pragma` it means.  C11 6.4 and 6.10; what GNU C adds (`$` in names) is read too.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from functools import lru_cache, partial
from sys import intern
from typing import Literal, TypeAlias

from jitkernel.record import NamedTuple
from jitkernel.regex import regex

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
_SCANNER = regex(
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
_DIRECTIVE = regex(
    r"""\#(?:\\(?:.|\n)|/\*(?:[^*]|\*(?!/))*\*/|//[^\n]*
    |"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[^\n\\])*""",
    re.VERBOSE | re.DOTALL,
)
_IGNORED = regex(
    r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/', re.DOTALL
)
# What may not stand before a name is looked at behind its first letter: the search skips to that.
_WORD = regex(rf"{_LETTER}(?<![\w$.].)(?<!->.)[\w$]*")
CONDITION = regex(r"#\s*(?:if|ifdef|ifndef|elif|elifdef|elifndef|else|endif)\b")
HAS_CONDITION = regex(r"(?m)^[ \t]*#[ \t]*if")
_ANY_WORD = regex(rf"{_LETTER}(?<![\w$].)[\w$]*")
_DIGRAPH = regex(rf"{_IGNORED.pattern}|%:%:|<[:%]|[:%]>|%:", re.DOTALL)
_DIGRAPHS = {"<:": "[ ", ":>": "] ", "<%": "{ ", "%>": "} ", "%:": "# ", "%:%:": "##  "}
PRAGMA = "_Pragma"  # an operator
_ESCAPED = regex(r'\\(["\\])')
_SKIPPED = frozenset(("blank", "break", "comment"))
CLOSING = {"(": ")", "[": "]", "{": "}"}


def tokens(source: str) -> list[Token]:
    """The tokens of a text, behind them one of kind `end`.  Raises Unfinished for a comment."""
    found: list[Token] = []
    at, line, begin, first = 0, 1, 0, True  # `first`: nothing stands before it on its line
    scan, length, token = _SCANNER.match, len(source), partial(tuple.__new__, Token)
    while at < length:
        if source[at] == " ":  # most of what stands between
            at += 1
            continue
        directive = first and source[at] == "#"
        match = _DIRECTIVE.match(source, at) if directive else scan(source, at)
        if match is None:  # both match any character
            raise AssertionError(source[at])
        kind, text, stop = "directive" if directive else match.lastgroup, match[0], match.end()
        if kind == "open":
            raise Unfinished("comment", Token("other", text, at, stop, line, at - begin + 1))
        if kind not in _SKIPPED:
            found.append(token((kind, text, at, stop, line, at - begin + 1)))
            first = directive
        elif kind == "break":
            first = True
        if "\n" in text:
            line += text.count("\n")
            begin = at + text.rfind("\n") + 1
        at = stop
    found.append(Token("end", "", at, at, line, at - begin + 1))
    return _with_pragmas(found) if PRAGMA in source else found


def token_at(source: str, at: int) -> tuple[str, int]:
    """The kind of what stands at an offset, and its end: also "blank", "break" and "comment"; what
    is begun and does not end, as a comment, is "other"."""
    match = _SCANNER.match(source, at)
    if match is None or match.lastgroup in (None, "open"):
        return "other", at + 1
    return str(match.lastgroup), match.end()


def _with_pragmas(found: list[Token]) -> list[Token]:
    """The tokens with directives for operators.  C11 6.10.9."""
    made: list[Token] = []
    at = 0
    while at < len(found):
        token = found[at]
        kinds = [t.kind for t in found[at : at + 4]]
        if token.text == PRAGMA and kinds == ["name", "operator", "string", "operator"]:
            quoted, last = found[at + 2].text, found[at + 3]
            text = _ESCAPED.sub(r"\1", quoted[quoted.index('"') + 1 : -1])
            made.append(token._replace(kind="directive", text=f"#pragma {text}", stop=last.stop))
            at += 4
            continue
        stop = after(found, at)
        made += found[at:stop]
        at = stop
    return made


def asked_for(code: str) -> frozenset[str]:
    """The names that the conditions of a text depend on."""
    if not HAS_CONDITION.search(code):
        return frozenset()
    marks = (t.text for t in tokens(code) if t.kind == "directive" and CONDITION.match(t.text))
    return frozenset(word for text in marks for word in all_words(text)) - {"defined"}


def expanded(text: str, macros: Container[str]) -> frozenset[str]:
    """The names of macros with parameters that are expanded in a text: those with a `(` behind
    them, or nothing yet, and those that any macro is given.  C11 6.10.3."""
    found, every = set[str](), tokens(text)
    last = 0  # of what macros are given
    for at, token in enumerate(every):
        if token.kind == "directive":
            found |= all_words(token.text)
        elif token.kind == "name" and token.text in macros:
            behind = every[at + 1]
            if behind.text == "(":
                last = max(last, closing(every, at + 1))
            if behind.text == "(" or behind.kind == "end" or at < last:
                found.add(token.text)
    return frozenset(found)


def closing(found: Sequence[Token], index: int) -> int:
    """The index behind the bracket that closes the one at `index`, or behind all where none
    does."""
    open_: list[str] = []
    for at in range(index, len(found)):
        token = found[at]
        if token.kind == "operator":
            if token.text in CLOSING:
                open_.append(CLOSING[token.text])
            elif open_ and token.text == open_[-1]:
                open_.pop()
                if not open_:
                    return at + 1
    return len(found) - (found[-1].kind == "end")


def after(found: Sequence[Token], index: int) -> int:
    """The index behind a token; of a bracket that opens, behind the one that closes it."""
    token = found[index]
    opens = token.kind == "operator" and token.text in CLOSING
    return closing(found, index) if opens else index + 1


def divided(found: Sequence[Token]) -> list[list[Token]]:
    """The parts of a list between the commas that stand in no brackets."""
    parts: list[list[Token]] = [[]]
    at = 0
    while at < len(found):
        stop = after(found, at)
        if found[at].text == ",":
            parts.append([])
        else:
            parts[-1] += found[at:stop]
        at = stop
    return parts


def without_digraphs(source: str) -> str:
    """The text with brackets and `#` for `<:` and so on (C11 6.4.6), everything in its column."""
    if "<%" not in source and "<:" not in source and "%:" not in source:
        return source
    return _DIGRAPH.sub(lambda match: _DIGRAPHS.get(match[0], match[0]), source)


def _code(text: str) -> str:
    """A text with a blank for each of its strings and comments."""
    return _IGNORED.sub(" ", text) if '"' in text or "'" in text or "/" in text else text


@lru_cache(maxsize=1 << 12)
def words(text: str) -> frozenset[str]:
    """The names in a text, apart from those of members: those in strings and comments are none."""
    return frozenset(map(intern, _WORD.findall(_code(text))))


@lru_cache(maxsize=1 << 12)
def all_words(text: str) -> frozenset[str]:
    """The names in a text, with those of members: any of them may be a macro."""
    found = frozenset(map(intern, _ANY_WORD.findall(_code(text))))
    plain = words(text)
    return plain if found == plain else found  # one set, where no member is named
