"""From Kaleidoscope's text to its syntax tree.  Start from `parse`.

The tree's nodes are the records below; each knows the line and the column where it is written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from lark import Lark, Token, Transformer, Tree, UnexpectedInput, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedToken, VisitError

from jitkernel.errors import CompileError, Diagnostic

__all__ = ["BUILT_IN", "DEFAULT_PRECEDENCE", "KEYWORDS", "At", "complaint", "ends_early", "parse"]

# Binary operators that are not functions; a higher precedence binds more tightly.
BUILT_IN = {"=": 2, "<": 10, "+": 20, "-": 20, "*": 40}
DEFAULT_PRECEDENCE = 30
KEYWORDS = {
    "def": "defines a function: def f(x y) x + y",
    "extern": "names a function that is elsewhere: extern sin(x)",
    "if": "a choice: if x < 1 then a else b; 0 is false, all other numbers are true",
    "then": "what a choice is when its condition is not 0",
    "else": "what a choice is when its condition is 0",
    "for": "a loop: for i = 1, i < 10, 2 in body; the step is 1 where there is none; it is 0.0",
    "in": "begins the body of `for` and of `var`",
    "var": "names that can be assigned to: var a = 1, b in body",
    "unary": "defines an operator before its operand: def unary!(x) if x then 0 else 1",
    "binary": "defines an operator with its precedence: def binary> 10 (x y) y < x",
}


@dataclass(frozen=True, slots=True)
class At:
    """Where a node is written; both count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Number:
    at: At
    value: float


@dataclass(frozen=True, slots=True)
class Variable:
    at: At
    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call, by name or by operator: `-x` calls `unary-`, `a | b` calls `binary|`."""

    at: At
    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """`a + b`, `a - b`, `a * b`, `a < b`."""

    at: At
    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Assign:
    at: At
    name: str
    value: Expression


@dataclass(frozen=True, slots=True)
class Choice:
    at: At
    condition: Expression
    then: Expression
    otherwise: Expression


@dataclass(frozen=True, slots=True)
class Loop:
    at: At
    name: str
    start: Expression
    condition: Expression
    step: Expression
    body: Expression


@dataclass(frozen=True, slots=True)
class Scope:
    at: At
    bindings: tuple[tuple[str, Expression], ...]
    body: Expression


Expression: TypeAlias = Number | Variable | Call | BuiltIn | Assign | Choice | Loop | Scope


@dataclass(frozen=True, slots=True)
class Prototype:
    """`f(x y)`; of an operator, `name` is `binary|`, and of a binary one `precedence` is not 0."""

    at: At
    name: str
    parameters: tuple[str, ...]
    precedence: int = 0


@dataclass(frozen=True, slots=True)
class Item:
    """What stands at the top: a definition, an extern (no body), or an expression (no prototype).

    `start` and `stop` are offsets of its text in the cell.
    """

    at: At
    prototype: Prototype | None
    body: Expression | None
    start: int
    stop: int


Precedence: TypeAlias = Callable[[str], int]


def complaint(source: str, at: At, message: str, hint: str = "") -> CompileError:
    """An error that shows the line with a caret."""
    lines = source.split("\n")
    text = lines[at.line - 1] if 0 < at.line <= len(lines) else ""
    return CompileError([Diagnostic(message, at.line, at.column, text, hint)])


def parse(source: str, precedence: Precedence) -> tuple[Item, ...]:
    """The items of a cell; `precedence` gives that of operators which the cell does not define, 0
    for those that nobody does.  Raises CompileError."""
    try:
        tree = _parser().parse(source)
    except UnexpectedInput as error:
        raise _unexpected(source, error) from None
    own = dict(BUILT_IN)
    for head in tree.find_data("binary_head"):
        operator, number = head.children[:2]
        if operator not in BUILT_IN:
            own[str(operator)] = int(float(number)) if number else DEFAULT_PRECEDENCE
    try:
        items: tuple[Item, ...] = _Build(source, lambda o: own.get(o) or precedence(o)).transform(
            tree
        )
    except VisitError as error:
        raise error.orig_exc from None
    return items


def ends_early(source: str) -> bool:
    """Whether more text could make a cell right that is wrong as it stands."""
    try:
        _parser().parse(source)
    except UnexpectedToken as error:
        return error.token.type == "$END"
    except UnexpectedInput:
        pass
    return False


@cache
def _parser() -> Lark:
    """The parser.  Where the grammar leaves a choice (`if a then b else c + d`) it reads on."""
    grammar = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", propagate_positions=True, maybe_placeholders=True)


_SHOWN = {
    "LPAR": "`(`", "RPAR": "`)`", "COMMA": "`,`", "EQUAL": "`=`", "SEMICOLON": "`;`",
    "NAME": "a name", "NUMBER": "a number", "OPERATOR": "an operator",
}  # fmt: skip
_EXPRESSION = {"NUMBER", "NAME", "LPAR", "IF", "FOR", "VAR", "OPERATOR"}


def _unexpected(source: str, error: UnexpectedInput) -> CompileError:
    if isinstance(error, UnexpectedCharacters):
        at = At(error.line, error.column)
        return complaint(source, at, f"{error.char!r} is no part of the language")
    assert isinstance(error, UnexpectedToken)
    expected = set(error.accepts or error.expected) - {"$END"}
    words = []
    if expected >= _EXPRESSION:
        words, expected = ["an expression"], expected - _EXPRESSION
    words += sorted(_SHOWN.get(name, f"`{name.lower()}`") for name in expected)
    wanted = " or ".join(words[:4]) or "the end"
    if error.token.type == "$END":
        end = source.rstrip()
        at = At(end.count("\n") + 1, len(end) - end.rfind("\n"))
        return complaint(source, at, f"the cell ends where {wanted} is expected")
    at = At(error.token.line or 1, error.token.column or 1)
    hint = "parameters are separated by blanks" if wanted == "`)` or a name" else ""
    return complaint(source, at, f"{wanted} is expected here, not `{error.token}`", hint)


def _at(token: Any) -> At:
    return At(token.line, token.column)


@v_args(inline=True)
class _Build(Transformer[Token, Any]):
    """Makes the records from lark's tree, from the leaves up; a method for each of its rules."""

    def __init__(self, source: str, precedence: Precedence):
        super().__init__()
        self.source, self.precedence = source, precedence

    def start(self, *items: Item) -> tuple[Item, ...]:
        return items

    # -- items -------------------------------------------------------------------------------

    @v_args(tree=True)
    def definition(self, tree: Tree[Any]) -> Item:
        prototype, body = tree.children
        return _item(tree, prototype, body.body)

    @v_args(tree=True)
    def external(self, tree: Tree[Any]) -> Item:
        return _item(tree, tree.children[0], None)

    def function_head(self, name: Token, *parameters: Token) -> Prototype:
        for i, parameter in enumerate(parameters):
            if parameter in parameters[:i]:
                raise complaint(self.source, _at(parameter), f"two parameters called {parameter}")
        return Prototype(_at(name), str(name), tuple(map(str, parameters)))

    def unary_head(self, operator: Token, parameter: Token) -> Prototype:
        return Prototype(_at(operator), f"unary{operator}", (str(parameter),))

    def binary_head(
        self, operator: Token, number: Token | None, left: Token, right: Token
    ) -> Prototype:
        if number is not None and not 1 <= float(number) <= 100:
            raise complaint(self.source, _at(number), "a precedence is from 1 to 100")
        precedence = int(float(number)) if number else DEFAULT_PRECEDENCE
        return Prototype(
            _at(operator), f"binary{operator}", (str(left), str(right)), precedence
        )

    # -- expressions -------------------------------------------------------------------------

    @v_args(tree=True)
    def expression(self, tree: Tree[Any]) -> Item:
        chain = [c.body if isinstance(c, Item) else c for c in tree.children]
        return _item(tree, None, self.group(chain.pop(0), chain, 1))

    def group(self, left: Expression, rest: list[Any], least: int) -> Expression:
        """Groups `left (operator operand)*` as far as operators bind at least as tightly as
        `least`: precedence climbing.  What it used is taken off `rest`."""
        while rest and (own := self.binds(rest[0])) >= least:
            operator, right = rest.pop(0), rest.pop(0)
            # An assignment to the right of another one is made first: a = b = 1.
            tighter = own if operator == "=" else own + 1
            right = self.group(right, rest, tighter)
            left = self.binary(operator, left, right)
        return left

    def binds(self, operator: Token) -> int:
        found = self.precedence(str(operator))
        if not found:
            raise complaint(
                self.source, _at(operator), f"nobody defines the operator `{operator}`",
                f"def binary{operator} 30 (x y) ...",
            )  # fmt: skip
        return found

    def binary(self, operator: Token, left: Expression, right: Expression) -> Expression:
        at = _at(operator)
        if operator == "=":
            if not isinstance(left, Variable):
                raise complaint(self.source, at, "what stands before `=` must be a variable")
            return Assign(at, left.name, right)
        if operator in BUILT_IN:
            return BuiltIn(at, str(operator), left, right)
        return Call(at, f"binary{operator}", (left, right))

    def operation(self, operator: Token, operand: Any) -> Call:
        return Call(_at(operator), f"unary{operator}", (_bare(operand),))

    def number(self, token: Token) -> Number:
        return Number(_at(token), float(token))

    def variable(self, name: Token) -> Variable:
        return Variable(_at(name), str(name))

    def call(self, name: Token, *arguments: Item | None) -> Call:
        return Call(_at(name), str(name), tuple(_bare(a) for a in arguments if a is not None))

    def choice(self, condition: Item, then: Item, otherwise: Item) -> Choice:
        return Choice(condition.at, _bare(condition), _bare(then), _bare(otherwise))

    def loop(
        self, name: Token, start: Item, condition: Item, step: Item | None, body: Item
    ) -> Loop:
        by = _bare(step) if step is not None else Number(_at(name), 1.0)
        return Loop(_at(name), str(name), _bare(start), _bare(condition), by, _bare(body))

    def scope(self, *parts: Any) -> Scope:
        *bindings, body = parts
        return Scope(body.at, tuple(bindings), _bare(body))

    def binding(self, name: Token, value: Item | None) -> tuple[str, Expression]:
        return str(name), _bare(value) if value is not None else Number(_at(name), 0.0)


def _item(tree: Tree[Any], prototype: Prototype | None, body: Expression | None) -> Item:
    meta = tree.meta
    return Item(At(meta.line, meta.column), prototype, body, meta.start_pos, meta.end_pos)


def _bare(part: Any) -> Expression:
    """The expression of what lark's rule `expression` gave, or of a node that is one already."""
    found: Expression = part.body if isinstance(part, Item) else part
    return found
