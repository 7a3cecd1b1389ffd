"""Expressions of C, evaluated without running code.  Start from `evaluate`.

C11 6.5, and the names of LLVM's values (`%i == 10`), whose integers count as C's signed ones.
Integers wrap around, as on the machine.  What is not computed on the way (behind `&&`, `||`, `?:`,
in `sizeof`) is typed alone: its memory is not read.
"""

from __future__ import annotations

from functools import partial

from jitkernel.errors import UsageError
from jitkernel.session.debugging.lexing import Stream, Token, number_of
from jitkernel.session.debugging.operations import Context, Operations
from jitkernel.session.debugging.type_names import TypeNames, pointer_to
from jitkernel.session.debugging.values import Value
from jitkernel.values.c_numbers import INT, ULONG
from jitkernel.values.datatype import VOID, DataType

__all__ = ["Context", "converted", "evaluate", "is_true"]

_LEVELS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"),
    ("+", "-"), ("*", "/", "%"),
)  # fmt: skip
_LEVEL = {operator: level for level, each in enumerate(_LEVELS) for operator in each}
_ASSIGNED = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")


def evaluate(text: str, context: Context, does: type[Operations] = Operations) -> Value:
    """The value of an expression; with an address where it is something in memory; what each
    operator `does` is computed unless somebody else says so.

    Raises UsageError, which says what is wrong and at which column.
    """
    return _Evaluation(text, context, does).run()


def is_true(value: Value, context: Context) -> bool:
    """True if a condition with this value holds.  Raises UsageError where that makes no sense."""
    return _Evaluation("", context, Operations).does.truth(value, Token("end", "", 1))


def converted(text: str, type: DataType, context: Context) -> bytes:
    """The bytes that a variable of a type has where an expression is assigned to it.  Raises
    UsageError."""
    made, end = _Evaluation(text, context, Operations), Token("end", "", 1)
    return made.does.bytes(made.does.cast(made.run(), type, end), end)


class _Evaluation:
    """Reads and computes at once, by recursive descent."""

    def __init__(self, text: str, context: Context, does: type[Operations]):
        self.context = context
        self.stream = Stream(text, self.is_known)
        self.does = does(context, self.stream.failed)
        self.type_names = TypeNames(self.stream, context.types, self.is_known, self.count)

    def run(self) -> Value:
        if len(self.stream.tokens) == 1:
            raise UsageError("an expression is expected")
        found = self.expression()
        if self.stream.token.kind != "end":
            raise self.stream.failed(f"'{self.stream.token.text}' was not expected here")
        return found

    def is_known(self, name: str) -> bool:
        return self.context.names(name) is not None

    def count(self) -> int:
        token = self.stream.token
        return int(self.does.number(self.conditional(), token))

    def expression(self) -> Value:
        found = self.assignment()
        while self.stream.accept(","):
            found = self.does.behind(found, self.assignment())
        return found

    def assignment(self) -> Value:
        with self.stream.nested():
            left = self.conditional()
            token = self.stream.accept(*_ASSIGNED)
            if token is None:
                return left
            right = self.assignment()
            if token.text != "=":
                right = self.does.compute(token.text[:-1], left, right, token)
            return self.does.assigned(left, right, token)

    def conditional(self) -> Value:
        condition = self.binary(0)
        token = self.stream.accept("?")
        if token is None:
            return condition
        with self.stream.nested():
            return self.does.choice(condition, self.expression, self.otherwise, token)

    def otherwise(self) -> Value:
        self.stream.expect(":")
        return self.conditional()

    def binary(self, level: int) -> Value:
        left = self.unary()
        while True:
            token = self.stream.token
            mine = _LEVEL.get(token.text, -1) if token.kind == "operator" else -1
            if mine < level:
                return left
            self.stream.at += 1
            right = partial(self.binary, mine + 1)
            if mine > 1:
                left = self.does.compute(token.text, left, right(), token)
            else:
                left = self.does.logical(token.text, left, right, token)

    def unary(self) -> Value:
        with self.stream.nested():
            token = self.stream.token
            if token.kind == "operator":
                if token.text in ("-", "+", "~", "!", "*", "&", "++", "--"):
                    self.stream.at += 1
                    return self.prefixed(token, self.unary())
                if token.text == "(" and (type := self.type_names.cast_type()) is not None:
                    self.stream.read_again()
                    return self.does.cast(self.unary(), type, token)
            elif token.text == "sizeof":
                self.stream.at += 1
                return self.size_of()
            return self.postfix(self.primary())

    def prefixed(self, token: Token, value: Value) -> Value:
        match token.text:
            case "*":
                return self.does.pointed(value, token)
            case "&":
                return self.does.address_of(value, token)
            case "++" | "--":
                one = self.does.compute(token.text[0], value, self.does.make(INT, 1), token)
                return self.does.assigned(value, one, token)
        return self.does.prefixed(token.text, value, token)

    def postfix(self, value: Value) -> Value:
        while (token := self.stream.accept("[", ".", "->", "++", "--", "(")) is not None:
            match token.text:
                case "[":
                    index = self.expression()
                    self.stream.expect("]")
                    value = self.does.indexed(value, index, token)
                case "(":
                    value = self.does.called(value, self.arguments(), token)
                case "++" | "--":
                    before = self.does.cast(value, value.type.bare, token)
                    one = self.does.compute(token.text[0], value, self.does.make(INT, 1), token)
                    self.does.assigned(value, one, token)
                    value = before
                case _:
                    name = self.stream.next()
                    if token.text == "->":
                        value = self.does.pointed(value, token)
                    value = self.does.member(value, name)
        return value

    def primary(self) -> Value:
        token = self.stream.next()
        match token.kind:
            case "number" | "character":
                return self.constant(token)
            case "text":
                raise self.stream.failed("texts are not evaluated here", token)
            case "name":
                return self.variable(token)
        if token.text == "(":
            found = self.expression()
            self.stream.expect(")")
            return found
        said = f"'{token.text}' is none" if token.text else "the text ends"
        raise self.stream.failed(f"a name or a number is expected: {said}", token)

    def constant(self, token: Token) -> Value:
        try:
            type, found = number_of(token)
        except ValueError as error:
            raise self.stream.failed(str(error), token) from None
        return Value(type, data=found) if isinstance(found, bytes) else self.does.make(type, found)

    def variable(self, token: Token) -> Value:
        found = self.context.names(token.text)
        if found is not None:
            return found
        if token.text in ("true", "false"):
            return self.does.make(INT, token.text == "true")
        if token.text in ("NULL", "null", "nullptr"):
            return Value(pointer_to(VOID), data=bytes(8))
        if self.stream.token.text == "(" and self.context.call is None:
            raise self.stream.failed("calls are not evaluated here", token)
        near = self.context.near(token.text)
        raise self.stream.failed(f"nothing here is called {token.text}{near}", token)

    def size_of(self) -> Value:
        token = self.stream.token
        type = self.type_names.cast_type() if token.text == "(" else None
        if type is None:
            with self.does.typed_only():
                value = self.unary()
            if value.bits:
                raise self.stream.failed("a bit-field has no size", token)
            type = value.type
        return self.does.make(ULONG, self.does.size(type, token))

    def arguments(self) -> list[Value]:
        found: list[Value] = []
        while not self.stream.accept(")"):
            if found:
                self.stream.expect(",")
            found.append(self.assignment())
        return found
