"""Expressions of call lines and assignments, as trees: `@sq(7)`, `%pt { i32 1, i32 2 }`.

    [type] (int | float | true | false | null | "str" | c"str" | zeroinitializer | @sym
           | inf | nan | @f(expr, ...) | load @g | {...} | [...] | <...> | _ | _5)

Only the grammar is here; what a number may stand for is decided in `evaluate`, where the expected
type is known.  Start from `parse_expression`.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from jitkernel.errors import CompileError
from jitkernel.ir.keywords import OPCODES, nearest
from jitkernel.ir.names import NAME, bare, symbol_name, unescape
from jitkernel.ir.statements import diagnostic
from jitkernel.ir.text import TYPE_WORD, Cursor
from jitkernel.ir.types import NamedType, Type, TypeSyntaxError, parse_type_at
from jitkernel.record import record
from jitkernel.regex import regex


@record
class _Node:
    """`type` is what is written in front of it, or None; `at` the offset in the cell."""

    type: Type | None
    at: int


@record
class Number(_Node):
    """An integer or a fraction, as written: what it means depends on its type."""

    text: str
    is_fraction: bool


@record
class Word(_Node):
    """true, false, null or zeroinitializer."""

    text: str


@record
class Text(_Node):
    """A string's bytes; `terminated` is True for `"..."`, which a NUL ends, False for `c"..."`."""

    data: bytes
    terminated: bool


@record
class SymbolRef(_Node):
    """`@name`, an address; `offset` is in bytes (`@name+4`, as pointers are printed)."""

    name: str
    offset: int


@record
class Load(_Node):
    """`load @name`: the value of a global."""

    name: str


@record
class Call(_Node):
    name: str
    arguments: tuple[Expr, ...]


@record
class Result(_Node):
    """`_` (number None) or `_5`."""

    number: int | None

    @property
    def shown(self) -> str:
        return "_" if self.number is None else f"_{self.number}"


@record
class Aggregate(_Node):
    """`brackets` is `{}`, `[]`, `<>` or `<{}>`."""

    brackets: str
    elements: tuple[Expr, ...]


Expr: TypeAlias = Number | Word | Text | SymbolRef | Load | Call | Result | Aggregate

# An integer, or (in a group) a fraction.
_NUMBER = regex(
    r"([-+]?(?:[us]?0x[HKLMR]?[0-9a-fA-F][0-9a-fA-F_]*|0b[01][01_]*|(\d[\d_]*\.[\d_]*(?:[eE][-+]?\d+)?"
    r"|\d[\d_]*[eE][-+]?\d+|\.\d+(?:[eE][-+]?\d+)?|inf|nan)|\d[\d_]*)(?![\w.]))"
    # What the display adds to an address of unknown origin, `ptr 0x7f12 (heap)`, `ptr 0x7f14
    # (stdout, libc.so.6)`, and to a hex form: `double 0x7FF0000000000000 (inf)`.
    r"(?:[ \t]*\(-?[A-Za-z_][\w ,.+-]*\))?"
)
_WORD = regex(r"[A-Za-z_][A-Za-z0-9_.]*")
_GLOBAL = regex(f"@({NAME})")
_OFFSET = regex(r"[ \t]*([+-][ \t]*(?:0x[0-9a-fA-F]+|\d+))(?![\w.])")
_STRING = regex(r'(c)"([^"\n]*)"|"((?:\\[^\n]|[^"\\\n])*)"')
_RESULT = regex(r"_(\d*)(?![\w.])")
# How it writes many zeros at the end of a string.
_ZEROS = regex(r"[ \t]*\((\d{1,9}) more \\00\)")
_TYPE_BEGINS = regex(rf"%|[{{\[<]|(?:{TYPE_WORD})\b")
# `[4 x`, `<4 x`, `{ i32,`: a cheap look, so that long lists of values are not read twice.
_TYPE_IN_BRACKET = regex(r"[\[<]\s*(?:vscale\b|\d+\s*x\b)|<?\{\s*(?:\}|[%\[{<a-z])")
_WORDS = ("true", "false", "null", "zeroinitializer")
_CLOSING = {"{": "}", "[": "]", "<": ">"}
_MAX_DEPTH = 60


def complaint(source: str, at: int, message: str, hint: str = "") -> CompileError:
    """An error that points at offset `at` of a cell."""
    return CompileError([diagnostic(source, at, message, hint)])


def parse_expression(source: str, start: int = 0, stop: int | None = None) -> Expr:
    """The expression that `source[start:stop]` holds, whole.

    Raises CompileError that points into the cell.
    """
    parser = _Parser(source, start, stop)
    found = parser.expression()
    if parser.peek():
        raise parser.follows(found)
    return found


class _Parser(Cursor):
    """One method per grammar rule; the text is the cell's."""

    def fail(self, message: str, hint: str = "", at: int | None = None) -> CompileError:
        from jitkernel.lookalikes import advice  # only for errors

        at = self.at if at is None else at
        return complaint(self.text, at, message, hint or advice(self.text[at : at + 1]))

    def follows(self, found: Expr) -> CompileError:
        """Something stands behind an expression that is whole."""
        rest = self.text[self.at : self.stop].strip()
        hint = ""
        if isinstance(found, Text):
            hint = 'a quote inside a string is written \\" or \\22'
        elif isinstance(found, SymbolRef) and rest[:1].isalnum():
            hint = f"to call it: @{found.name}(...)"
        return self.fail(f"'{rest[:40]}' follows the expression", hint)

    def expression(self) -> Expr:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self.fail("an expression nested too deeply")
        head = self.peek()
        start = self.at
        type = self.written_type()
        found = self.value(type, start, head if type is None else self.peek())
        self.depth -= 1
        return found

    def written_type(self) -> Type | None:
        """The type in front of a value, where there is one.

        `{`, `[` and `<` begin types and values alike: it is a type when a value follows it.
        """
        start = self.at
        if not _TYPE_BEGINS.match(self.text, start, self.stop):
            return None
        bracket = self.text[start] in _CLOSING
        if bracket and not _TYPE_IN_BRACKET.match(self.text, start):
            return None
        try:
            type, self.at = parse_type_at(self.text, start)
        except TypeSyntaxError as error:
            if bracket:
                return None
            raise self.fail(str(error), at=min(error.position, self.stop)) from None
        self.at = min(self.at, self.stop)
        if bracket and self.peek() in ",)]}>":  # which the end is in, too
            self.at = start
            return None
        return type

    def value(self, type: Type | None, start: int, head: str) -> Expr:
        """The value that begins with `head`, whose expression began at `start`."""
        if head in ",)]}>":  # which the end is in, too
            if isinstance(type, NamedType):
                raise self.local(str(type), start)
            raise self.fail("expected a value" + (f" behind the type {type}" if type else ""))
        if head == "@":
            return self.symbol(type, start)
        if head in _CLOSING:
            return self.aggregate(type, start)
        if head == '"' or self.text.startswith('c"', self.at):
            return self.string(type, start)
        if head == "_":
            found = self.match(_RESULT)
            if found:
                return Result(type, start, int(found[1]) if found[1] else None)
        number = self.match(_NUMBER)
        if number:
            return Number(type, start, number[1], number[2] is not None)
        if head == "%":
            raise self.local(self.text[self.at : self.stop].split()[0].rstrip(",)"), self.at)
        return self.word(type, start)

    def local(self, name: str, at: int) -> CompileError:
        return self.fail(
            f"{name} has no value here: it ended with the instructions",
            "the last instruction's value is `_` in the next cell, and `@name = _` keeps it",
            at,
        )

    def word(self, type: Type | None, start: int) -> Expr:
        at = self.at
        found = self.match(_WORD)
        if not found:
            text = self.text[at : min(self.stop, at + 20)]
            text = re.split(r"[\s,)\]}]", text, maxsplit=1)[0] or text.strip()
            hint = ""
            if text[:1] in ("'", "‘", "’"):
                hint = 'strings stand in "..."; a character is its number, as 65 for A'
            elif re.match(r"&@?\w", text):
                hint = f"@{text.lstrip('&@')} is the address already; a value is `load @name`"
            elif text[:1] == "*":
                hint = "`load @name` is the value of a global"
            raise self.fail(f"'{text}' is no value", hint)
        word = found[0]
        if word in _WORDS:
            return Word(type, start, word)
        if word == "load":
            if not (name := self.token(_GLOBAL)):
                raise self.fail("expected a global behind `load`", "write `load @name`")
            return Load(type, start, bare(name))
        self.at = at
        if word in ("undef", "poison"):
            raise self.fail(f"{word} is no value to call with", "zeroinitializer gives zeros")
        if word in OPCODES:
            hint = "an instruction's result has a name of its own: `%x = ...`"
            if word == "call":
                hint = "a call is written without `call`: @f(...)"
            raise self.fail(f"an instruction ({word}) is no expression", hint)
        if self.text[found.end() : self.stop].lstrip()[:1] == "(":
            raise self.fail(f"'{word}' is no value", f"did you mean `@{word}(`?")
        close = nearest(word, (*_WORDS, "load"))
        raise self.fail(f"'{word}' is no value", f"did you mean `{close or '@' + word}`?")

    def symbol(self, type: Type | None, start: int) -> Expr:
        if not (match := self.match(_GLOBAL)):
            raise self.fail("expected a name behind '@'", 'or quoted: @"any text"')
        name = symbol_name(match[1])
        if self.take("("):
            return Call(type, start, name, self.elements(")"))
        offset = self.match(_OFFSET)
        value = int(re.sub(r"\s", "", offset[1]), 0) if offset else 0
        return SymbolRef(type, start, name, value)

    def string(self, type: Type | None, start: int) -> Expr:
        at = self.at
        match = self.match(_STRING)
        if not match:
            raise self.fail(
                "this string is never closed", 'a quote inside a string is written \\" or \\22'
            )
        try:
            data = unescape(match[2] if match[1] else match[3], c_like=not match[1])
        except ValueError as error:
            raise self.fail(
                f"'{error}' is no escape",
                'write two hex digits (\\0A), or \\n \\t \\r \\0 \\" \\\\',
                at,
            ) from None
        zeros = self.match(_ZEROS) if match[1] else None
        if zeros:
            data += bytes(int(zeros[1]))
        return Text(type, start, data, not match[1])

    def aggregate(self, type: Type | None, start: int) -> Expr:
        head = self.peek()
        self.take(head)
        if head == "<" and self.take("{"):
            elements = self.elements("}")
            if not self.take(">"):
                raise self.fail("expected '>' behind a packed struct")
            return Aggregate(type, start, "<{}>", elements)
        return Aggregate(type, start, head + _CLOSING[head], self.elements(_CLOSING[head]))

    def elements(self, closing: str) -> tuple[Expr, ...]:
        """Expressions between commas, and the bracket behind them."""
        if self.take(closing):
            return ()
        found = [self.expression()]
        while (mark := self.peek()) == ",":
            self.at += 1
            found.append(self.expression())
        if mark == closing:
            self.at += 1
            return tuple(found)
        raise self.follows(found[-1]) if mark else self.fail(f"expected ',' or '{closing}'")
