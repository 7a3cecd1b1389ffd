"""From Kaleidoscope's text to its syntax tree.  Start from `parse`.

The tree is lark's: a node is called after its rule in `grammar.lark`.  Two kinds are made here:
`Prototype` of a function's head, and `binary` (operator, left, right) of a chain of operators.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

from lark import Lark, Token, Transformer, Tree, UnexpectedToken, v_args
from lark.exceptions import UnexpectedCharacters, VisitError

from jitkernel.errors import CompileError, Diagnostic
from jitkernel.lookalikes import advice
from jitkernel.record import record, replace

Node: TypeAlias = Tree[Any]

# Binary operators that are not functions; a higher precedence binds more tightly.
BUILT_IN = {"=": 2, "<": 10, "+": 20, "-": 20, "*": 40}
DEFAULT_PRECEDENCE = 30
ENDS_EARLY = "the cell ends where"  # what more text could make right
KEYWORDS = {
    "def": "defines a function: def f(x y) x + y",
    "extern": "names a function that is elsewhere: extern sin(x)",
    "if": "a choice: if x < 1 then a else b; 0 is false, every other number true",
    "then": "what a choice is when its condition is not 0",
    "else": "what a choice is when its condition is 0",
    "for": "a loop: for i = 1, i < 10, 2 in body; the step is 1 where there is none; it is 0.0",
    "in": "begins the body of `for` and of `var`",
    "var": "names that can be assigned to: var a = 1, b in body",
    "unary": "defines an operator before its operand: def unary!(x) if x then 0 else 1",
    "binary": "defines an operator with its precedence: def binary> 10 (x y) y < x",
}
_BODY = "a function's body is one expression: `def f(x) x + 1`"
#: What users of other languages write, and what is written here; functions of operators by name.
HABITS = {
    "{": _BODY, "return": _BODY, "unary:": _BODY,
    "unary=": f"`<` is the one comparison, and {_BODY}",
    **dict.fromkeys(("'", '"'), "there are numbers only, and no text"),
    **dict.fromkeys(("int", "float", "double", "let", "const"), "a variable: `var x = 1 in x + 1`"),
    **dict.fromkeys(("import", "include"), "a C function of numbers is named: `extern sin(x)`"),
    **dict.fromkeys(("true", "false"), "every number but 0 is true: 1, 0"),
    "while": "a loop: `for i = 1, i < 10 in printd(i)`", "print": "`printd(x)` prints a number",
    "unary/": "a comment begins with #", "unary@": "names are written without @: `f(1)`",
    "exponent": "numbers are digits with a point: 1000, 0.5",
}  # fmt: skip


@record
class Prototype:
    """`f(x y)`; of an operator, `name` is `unary!` or `binary|`, and a binary one has a
    `precedence` from 1 to 100.  `at` is the token that it is named by."""

    at: Token
    name: str
    parameters: tuple[Token, ...]
    precedence: int = 0

    @property
    def text(self) -> str:
        """It as it is written: `f(x y)`, `binary| 5 (x y)`."""
        bound = f" {self.precedence} " if self.precedence else ""
        return f"{self.name}{bound}({' '.join(self.parameters)})"


def complaint(source: str, at: Any, message: str, hint: str = "") -> CompileError:
    """An error about a token (or whatever has a line and a column): the line with a caret."""
    line = at.line or 1
    return CompileError(
        [Diagnostic(message, line, at.column or 1, source.split("\n")[line - 1], hint)]
    )


def parse(source: str, precedence: Callable[[str], int]) -> list[Node]:
    """A cell's items in order: `definition`, `external` and `top` nodes.

    `precedence` gives that of operators which the cell does not define, 0 for those that nobody
    does.  Raises CompileError.
    """
    try:
        tree = _parser().parse(source)
    except (UnexpectedCharacters, UnexpectedToken) as error:
        raise _unexpected(source, error) from None
    known = dict(BUILT_IN)
    for head in tree.find_data("binary_head"):
        operator, number = head.children[:2]
        known.setdefault(str(operator), int(float(str(number or DEFAULT_PRECEDENCE))))
    try:
        return [*_Group(source, lambda o: known.get(o) or precedence(o)).transform(tree).children]
    except VisitError as error:
        raise error.orig_exc from None


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


def _unexpected(source: str, error: UnexpectedCharacters | UnexpectedToken) -> CompileError:
    if isinstance(error, UnexpectedCharacters):
        hint = HABITS.get(error.char) or advice(error.char)
        return complaint(source, error, f"{error.char!r} is no part of the language", hint)
    expected = set(error.accepts or error.expected) - {"$END"}
    words = "an expression" if expected >= _EXPRESSION else ""
    expected -= _EXPRESSION if words else set()
    others = sorted(_SHOWN.get(name, f"`{name.lower()}`") for name in expected)
    wanted = " or ".join(filter(None, [words, *others][:4])) or "the end"
    if error.token.type == "$END":
        end = source.rstrip()
        at = Token("", "", line=end.count("\n") + 1, column=len(end) - end.rfind("\n"))
        return complaint(source, at, f"{ENDS_EARLY} {wanted} is expected")
    hint = "parameters are separated by blanks" if wanted == "`)` or a name" else ""
    return complaint(source, error.token, f"{wanted} is expected, not `{error.token}`", hint)


@v_args(inline=True)
class _Group(Transformer[Token, Any]):
    """Groups chains of operators and reads prototypes, from the leaves up."""

    def __init__(self, source: str, precedence: Callable[[str], int]):
        super().__init__()
        self.source, self.precedence = source, precedence

    def function_head(self, name: Token, *parameters: Token) -> Prototype:
        if again := [b for a, b in pairwise(sorted(parameters)) if a == b]:
            raise complaint(self.source, again[0], f"two parameters called `{again[0]}`")
        return Prototype(name, str(name), parameters)

    def unary_head(self, operator: Token, parameter: Token) -> Prototype:
        return Prototype(operator, f"unary{operator}", (parameter,))

    def binary_head(self, operator: Token, number: Token | None, *names: Token) -> Prototype:
        if number is not None and not 1 <= float(number) <= 100:
            raise complaint(self.source, number, "a precedence is a number from 1 to 100")
        if operator in BUILT_IN:
            raise complaint(self.source, operator, f"`{operator}` is built in: take another sign")
        head = self.function_head(operator, *names)
        return replace(head, name=f"binary{operator}", precedence=self.precedence(operator))

    def expression(self, first: Node, *rest: Any) -> Node:
        return self.climb(first, list(reversed(rest)), 1)

    def climb(self, left: Node, rest: list[Any], least: int) -> Node:
        """Precedence climbing; takes what it uses off `rest`, operators and operands in reverse."""
        while rest and (own := self.binds(rest[-1])) >= least:
            operator, right = rest.pop(), rest.pop()
            # Of equal ones the left is first, but for assignment: a = b = 1.
            right = self.climb(right, rest, own if operator == "=" else own + 1)
            if operator == "=" and left.data != "variable":
                hint = HABITS.get(f"unary{right.children[0]}", "")  # `1 == 2`
                raise complaint(self.source, operator, "only a variable can be assigned to", hint)
            left = Tree("binary", [operator, left, right], left.meta)
        return left

    def binds(self, operator: Token) -> int:
        found = self.precedence(str(operator))
        if not found:
            words = f"nobody defines the binary operator `{operator}`"
            begins = not self.source[: operator.start_pos].rpartition("\n")[2].strip()
            hint = "`;` ends what stands above" if begins else f"def binary{operator} 30 (x y) ..."
            raise complaint(self.source, operator, words, hint)
        return found
