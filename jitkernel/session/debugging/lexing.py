"""Tokens of C expressions, with the names of LLVM's values among them.  Start from `Stream`.

C11 6.4; a `%` is the beginning of a name where an operand may stand, else the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

from jitkernel.errors import UsageError
from jitkernel.languages.c.tokens import token_at
from jitkernel.regex import regex
from jitkernel.session.debugging.numbers import Number
from jitkernel.session.debugging.setting import unescaped
from jitkernel.values import literals
from jitkernel.values.c_numbers import DOUBLE, FLOAT, INT, LONG_DOUBLE, NAMED
from jitkernel.values.datatype import DataType

__all__ = ["Stream", "Token", "number_of", "tokens"]

_DEEPEST = 50  # of nesting
Kind = Literal["name", "number", "character", "text", "operator", "end"]

_VALUE = regex(r'[%@](?:"[^"]*"|[-\w$.]+)')
_REAL = regex(r"(?i)(?:0x.*[.p]|(?!0x).*[.e]).*")
_SUFFIX = regex(r"(?i)(?:u?(?:l|ll)?|(?:l|ll)u)\Z")


class Token(NamedTuple):
    """A token and the column, from 1, where it stands."""

    kind: Kind
    text: str
    column: int


def tokens(text: str, is_known: Callable[[str], bool]) -> list[Token]:
    """The tokens of a text, an "end" behind them.  LLVM's names may have `-` and `.` in them:
    `%a-1` is the longest name that there is.  Raises ValueError with a sentence."""
    found: list[Token] = []
    at = 0
    while at < len(text):
        kind, stop = token_at(text, at)
        if kind in ("blank", "break", "comment"):
            at = stop
            continue
        word = text[at:stop]
        value = _VALUE.match(text, at) if text[at] in "%@" and _awaits_operand(found) else None
        if value is not None:
            kind, word = "name", _longest(value[0], is_known)
            stop = at + len(word)
        elif kind == "other":
            raise ValueError(f"'{text[at]}' at column {at + 1} is not understood")
        elif kind in ("string", "character"):  # less what says of which letters
            quote, kind = ('"', "text") if kind == "string" else ("'", kind)
            word = word[word.index(quote) :]
        found.append(Token(kind, word, at + 1))  # type: ignore[arg-type]
        at = stop
    return [*found, Token("end", "", len(text) + 1)]


def _awaits_operand(found: list[Token]) -> bool:
    if not found:
        return True
    last = found[-1]
    if last.kind == "operator":
        return last.text not in (")", "]")
    return last.text == "sizeof"


def _longest(name: str, is_known: Callable[[str], bool]) -> str:
    shorter = name
    while not is_known(shorter):
        cut = max(shorter.rfind("-"), shorter.rfind("."))
        if cut < 2 or '"' in shorter:
            return name
        shorter = shorter[:cut]
    return shorter


class Stream:
    """The tokens of a text, read one after the other: `at` is the number of the one here.

    Raises UsageError where they cannot be told apart.
    """

    def __init__(self, text: str, is_known: Callable[[str], bool]):
        self.text, self.is_known = text.strip(), is_known
        self.at = self.depth = 0
        try:
            self.tokens = tokens(self.text, is_known)
        except ValueError as error:
            raise UsageError(f"{error}, in `{self.text}`") from None

    @property
    def token(self) -> Token:
        """The token here."""
        return self.tokens[self.at]

    def next(self) -> Token:
        """The token here; one goes behind it."""
        found = self.tokens[self.at]
        self.at += found.kind != "end"
        return found

    def accept(self, *operators: str) -> Token | None:
        """The operator here, if it is one of these: one goes behind it."""
        found = self.tokens[self.at]
        if found.kind != "operator" or found.text not in operators:
            return None
        self.at += 1
        return found

    def expect(self, operator: str) -> None:
        """Go behind an operator that must be here."""
        if self.accept(operator) is None:
            said = f"not '{self.token.text}'" if self.token.text else "but the text ends"
            raise self.failed(f"'{operator}' is expected, {said}")

    def failed(self, message: str, token: Token | None = None) -> UsageError:
        """The error that says what is wrong at a token, the one here if none is given."""
        column = (token or self.token).column
        return UsageError(f"{message} (column {column} of `{self.text}`)")

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Within, one is a level deeper.  Raises UsageError where that is too deep."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.failed("the expression is nested too deeply")
        yield
        self.depth -= 1

    def read_again(self) -> None:
        """Behind a cast stands an operand: `%` begins a name of LLVM's."""
        token = self.token
        if token.text == "%":
            start = token.column - 1
            more = tokens(self.text[start:], self.is_known)
            self.tokens[self.at :] = [t._replace(column=t.column + start) for t in more]


def number_of(token: Token) -> tuple[DataType, Number | bytes]:
    """The type and the value of a number or a character; bytes of a number with a point.

    C11 6.4.4.  Raises ValueError with a sentence.
    """
    if token.kind == "character":
        data = unescaped(token.text, "'")
        if not data or len(data) > 4:
            raise ValueError(f"{token.text} is no character")
        if len(data) > 1:
            return INT, int.from_bytes(data, "big", signed=len(data) == 4)
        return INT, data[0] - 256 if data[0] > 127 else data[0]
    text = token.text
    if _REAL.match(text):
        return _real(text)
    lower = text.lower()
    base = 16 if lower[:2] == "0x" else 2 if lower[:2] == "0b" else 8 if lower[:1] == "0" else 10
    digits = lower.rstrip("ul")
    suffix = lower[len(digits) :]
    try:
        if not _SUFFIX.match(suffix):
            raise ValueError
        value = int(digits, base) if digits != "0" else 0
    except ValueError:
        raise ValueError(f"{text[:40]} is no number") from None
    for name in _candidates(suffix, base == 10):
        type = NAMED[name]
        if value < 1 << type.bits - (type.signed is True):
            return type, value
    raise ValueError(f"{text[:40]} is too large for a number of C")


def _candidates(suffix: str, is_decimal: bool) -> list[str]:
    """The types that a number may have, in C's order; C11 6.4.4.1."""
    long = "ll" if "ll" in suffix else "l" if "l" in suffix else ""
    names = {"": ["int", "long"], "l": ["long"], "ll": ["long long"]}[long]
    if "u" in suffix:
        return [f"unsigned {name}" for name in names]
    found = []
    for name in names:
        found += [name] if is_decimal else [name, f"unsigned {name}"]
    return found


def _real(text: str) -> tuple[DataType, bytes]:
    plain, type = text, DOUBLE
    is_hex = text[:2].lower() == "0x"
    if text[-1] in "fF" and (not is_hex or "p" in text.lower()):
        plain, type = text[:-1], FLOAT
    elif text[-1] in "lL":
        plain, type = text[:-1], LONG_DOUBLE
    form = type.form or literals.FORMATS["double"]
    try:
        if is_hex:
            bits = literals.from_number(float.fromhex(plain), form)
        else:
            bits = literals.bits_of(plain, form)
    except (ValueError, OverflowError):
        raise ValueError(f"{text[:40]} is no number") from None
    return type, bits.to_bytes(type.size, "little")
