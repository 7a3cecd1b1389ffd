"""Conditions as programs that the thread runs which has met a breakpoint.  Start from `translate`.

The same reader and the same types as in `expressions.py`; what an operator does is a `Code` here,
which computes what `Operations` would.  Numbers of more than 64 bits, what is set or called, and a
few more are not translated: they are evaluated as everything else is.  A program that meets what
is an error there leaves it to that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, NoReturn

from jitkernel.errors import JitError, UsageError
from jitkernel.executor import programs
from jitkernel.executor.programs import Code, constant, op
from jitkernel.session.debugging import numbers
from jitkernel.session.debugging.expressions import evaluate
from jitkernel.session.debugging.lexing import Token
from jitkernel.session.debugging.numbers import Number
from jitkernel.session.debugging.operations import Context, Operations, pointee
from jitkernel.session.debugging.type_names import pointer_to
from jitkernel.session.debugging.values import Value
from jitkernel.values.c_numbers import BOOL, DOUBLE, INT, LONG
from jitkernel.values.datatype import VOID, DataType, Member

__all__ = ["In", "translate"]

_WHOLE = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor"}
_REAL = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
_COMPARED = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "lt", ">=": "le"}
_SWAPPED = (">", ">=")
_ZERO, _SIGN = constant(0), constant(1 << 63)


class In(NamedTuple):
    """The place of a value: the code gives its `address`, or the `word` in whose lowest bytes it
    is, or is the `number`."""

    kind: str
    code: Code


class _Number(NamedTuple):
    """A number: a code for it, and what is known of it: the bits that it has room in, and whether
    it may be negative.  One with a point has 32 bits or 64."""

    code: Code
    bits: int
    signed: bool
    real: bool = False


def translate(text: str, context: Context) -> Code | None:
    """The code of a condition, of one word: zero where it is false; None where it has to be
    evaluated.  `context` gives as the place of each variable an `In`."""
    try:
        does = Translation(context, lambda message, _: UsageError(message))
        return does.holds(evaluate(text, context, Translation), Token("end", "", 1))
    except (JitError, ValueError, OverflowError):
        return None


class Translation(Operations):
    """Operations whose results are codes: in a value's `place` is an `In`, but where it is always
    the same."""

    def untold(self, token: Token) -> NoReturn:
        raise self.failed("this is evaluated, not translated", token)

    # -- numbers -------------------------------------------------------------------------------

    def number(self, value: Value, token: Token) -> Number:
        if value.place is not None:
            self.untold(token)  # it is not known yet
        return super().number(value, token)

    def told(self, value: Value, token: Token) -> _Number:
        """The number that a value is."""
        bare = value.type.bare
        if value.missing or (bare.kind != "pointer" and not numbers.is_number(bare)):
            self.untold(token)
        size = value.size
        if not 0 < size <= 8:
            self.untold(token)
        real = bare.kind == "float"
        if real and (bare.form is None or bare.form.width not in (32, 64)):
            self.untold(token)
        bits, signed = _width(value)
        place = value.place
        if place is None:
            found = super().number(value, token)
            if isinstance(found, int):
                return _Number(constant(found), bits, signed)
            word = numbers.encode(DOUBLE, found)
            return _Number(constant(int.from_bytes(word, "little")), bits, True, True)
        code: Code = place.code
        if place.kind == "address":
            code += op("load", size)
        if place.kind != "number":
            if value.shift:
                code += (*constant(value.shift), *op("uright", 64))
            if real:
                code += op("widen") if bits == 32 else ()
            elif bare.kind == "bool" and not value.bits:
                code = (*code, *_extended(8 * size, False), *_ZERO, *op("ne"))
            elif bits < 64 and (signed or place.kind == "word" or bits != 8 * size):
                code += _extended(bits, signed)
        return _Number(code, bits, signed, real)

    def become(self, number: _Number, type: DataType, token: Token) -> _Number:
        """A number as one of another type: see `numbers.converted`."""
        bare, code = type.bare, number.code
        if bare.kind == "bool":
            return _Number((*code, *_ZERO, *op("fne" if number.real else "ne")), 1, False)
        if bare.kind == "float":
            if bare.form is None or bare.form.width not in (32, 64):
                self.untold(token)
            bits = bare.form.width if bare.form is not None else 0
            if number.real:
                code += op("round") if bits < number.bits else ()
            else:
                name = "real" if bits == 64 else "single"
                code += op(name if number.signed else f"u{name}")
            return _Number(code, bits, True, True)
        bits, signed = 8 * bare.size, bare.signed is not False
        if bits > 64:
            self.untold(token)
        if number.real:
            # What does not fit is an error: then the thread asks, by dividing by zero.
            code = (*code, *op("whole"))
            if bits < 64:
                same = (*op("copy"), *op("copy"), *_extended(bits, signed), *op("eq"))
                code = (*code, *same, *op("udiv"))
            elif not signed:
                code = (*code, *op("copy"), *_ZERO, *op("swap"), *op("le"), *op("udiv"))
            return _Number(code, bits, signed)
        fits_in = number.bits <= bits if number.signed == signed else (
            signed and number.bits < bits
        )  # fmt: skip
        if not fits_in and bits < 64:
            code += _extended(bits, signed)
        return _Number(code, bits, signed)

    def made(self, type: DataType, code: Code) -> Value:
        return Value(type, place=In("number", code))

    def holds(self, value: Value, token: Token) -> Code:
        """1 where a value is not zero, else 0."""
        number = self.told(self.decayed(value, token), token)
        return (*number.code, *_ZERO, *op("fne" if number.real else "ne"))

    # -- operators -----------------------------------------------------------------------------

    def choice(
        self, condition: Value, first: Callable[[], Value], second: Callable[[], Value],
        token: Token,
    ) -> Value:  # fmt: skip
        left, right = self.decayed(first(), token), self.decayed(second(), token)
        for value in (left, right):
            # Whether it is a null pointer is not known.
            if value.type.bare.kind == "pointer" and pointee(value.type).bare.kind == "void":
                self.untold(token)
        type = self.type_of_both(left, right, token)
        codes = [self.told(self.cast(v, type, token), token).code for v in (left, right)]
        return self.made(type, programs.choice(self.holds(condition, token), *codes))

    def logical(
        self, operator: str, left: Value, right: Callable[[], Value], token: Token
    ) -> Value:
        codes = self.holds(left, token), self.holds(right(), token)
        return self.made(INT, (programs.either if operator == "||" else programs.both)(*codes))

    def prefixed(self, operator: str, value: Value, token: Token) -> Value:
        if value.place is None:
            return super().prefixed(operator, value, token)
        if operator == "!":
            return self.made(INT, (*self.holds(value, token), *_ZERO, *op("eq")))
        type = self.promoted_for(operator, value, token)
        number = self.become(self.told(value, token), type, token)
        code = number.code
        if operator == "-" and number.real:
            code = (*code, *_SIGN, *op("xor"))
        elif operator == "-":
            code = (*_ZERO, *code, *op("sub"))
        elif operator == "~":
            code = (*code, *constant(-1), *op("xor"))
        return self.made(type, code if number.real else code + _of(type))

    def behind(self, left: Value, right: Value) -> Value:  # type: ignore[override]
        token = Token("end", "", 1)
        before = self.told(self.decayed(left, token), token).code + op("drop")
        number = self.told(self.decayed(right, token), token)
        return self.made(right.type, before + number.code)

    def compute(self, operator: str, left: Value, right: Value, token: Token) -> Value:
        if left.place is None and right.place is None:
            return super().compute(operator, left, right, token)
        left, right = self.decayed(left, token), self.decayed(right, token)
        if "pointer" in (left.type.bare.kind, right.type.bare.kind):
            return self.with_pointers(operator, left, right, token)
        one, other = self.promoted(left), self.promoted(right)
        if one is None or other is None:
            self.untold(token)
        first, second = self.told(left, token), self.told(right, token)
        if operator in ("<<", ">>"):
            if first.real or second.real:
                self.untold(token)
            name = "left" if operator == "<<" else "right" if one.signed else "uright"
            code = (*first.code, *second.code, *op(name, one.bits))
            return self.made(one, code + (_of(one) if operator == "<<" else ()))
        type = numbers.common(one, other)
        first, second = self.become(first, type, token), self.become(second, type, token)
        if operator in _COMPARED:
            return self.made(INT, _comparison(operator, first, second))
        if first.real:
            if operator not in _REAL:
                self.untold(token)
            code = (*first.code, *second.code, *op(_REAL[operator]))
            return self.made(type, code + (op("round") if first.bits == 32 else ()))
        unsigned = type.signed is False
        name = _WHOLE.get(operator) or "u" * unsigned + ("div" if operator == "/" else "rem")
        return self.made(type, (*first.code, *second.code, *op(name), *_of(type)))

    def with_pointers(self, operator: str, left: Value, right: Value, token: Token) -> Value:
        """As `compute`, where an operand is a pointer."""
        first, second = self.told(left, token), self.told(right, token)
        if first.real or second.real:
            self.untold(token)
        if operator in _COMPARED:
            unsigned = (number._replace(signed=False, bits=64) for number in (first, second))
            return self.made(INT, _comparison(operator, *unsigned))
        pointers = [v for v in (left, right) if v.type.bare.kind == "pointer"]
        if operator not in "+-" or (operator == "+" and len(pointers) == 2):
            self.untold(token)
        size = constant(max(self.size(pointee(pointers[0].type), token), operator == "-"))
        if len(pointers) == 2:
            code = (*first.code, *second.code, *op("sub"), *size, *op("div"))
            return self.made(LONG, code)
        if operator == "-" and left is not pointers[0]:
            self.untold(token)
        size = constant(self.size(pointee(pointers[0].type), token))
        scaled = [
            number.code if value is pointers[0] else (*number.code, *size, *op("mul"))
            for value, number in ((left, first), (right, second))
        ]
        code = (*scaled[0], *scaled[1], *op("add" if operator == "+" else "sub"))
        found = pointers[0]
        return Value(found.type.bare, ir=found.ir, place=In("number", code))

    # -- memory --------------------------------------------------------------------------------

    def decayed(self, value: Value, token: Token) -> Value:
        bare = value.type.bare
        if bare.kind == "function" or (bare.kind == "array" and not value.ir):
            target = value.type if bare.kind == "function" else bare.element or VOID
            return Value(pointer_to(target), place=In("number", self.address(value, token)))
        return value

    def address(self, value: Value, token: Token) -> Code:
        """The address of what is in memory."""
        if value.place is None or value.place.kind != "address" or value.bits:
            self.untold(token)
        code: Code = value.place.code
        return code

    def address_of(self, value: Value, token: Token) -> Value:
        type = pointer_to(value.type)
        if value.ir:
            type.name = "ptr"
        return Value(type, ir=value.ir, place=In("number", self.address(value, token)))

    def pointed(self, value: Value, token: Token) -> Value:
        value = self.decayed(value, token)
        if value.type.bare.kind != "pointer" or pointee(value.type).bare.kind == "void":
            self.untold(token)
        return Value(
            pointee(value.type), ir=value.ir, place=In("address", self.told(value, token).code)
        )

    def indexed(self, value: Value, index: Value, token: Token) -> Value:
        bare = value.type.bare
        if bare.kind == "vector" or (value.ir and bare.kind in ("array", "struct")):
            return self.element(value, int(self.number(index, token)), token)
        return self.pointed(self.compute("+", value, index, token), token)

    def part(self, value: Value, of: Member) -> Value:
        place = value.place
        if place is None or place.kind != "address":
            raise UsageError("parts of what is in no memory are evaluated")
        code = (*place.code, *constant(of.offset), *op("add")) if of.offset else place.code
        return Value(of.type, bits=of.bits, shift=of.shift, ir=value.ir, place=In("address", code))

    def cast(self, value: Value, type: DataType, token: Token) -> Value:
        if value.place is None and value.data is not None:
            return super().cast(value, type, token)
        bare = type.bare
        value = self.decayed(value, token)
        number = self.told(value, token)
        if bare.kind == "pointer":
            if number.real:
                self.untold(token)
            ir = value.ir and bare.name == "ptr"
            return Value(type, ir=ir, place=In("number", number.code))
        wanted = numbers.arithmetic(bare)
        if wanted is None or (value.type.bare.kind == "pointer" and bare.kind == "float"):
            self.untold(token)
        code = self.become(number, wanted, token).code
        if bare.kind == "int" and bare.bits < 8 * bare.size:
            code += _extended(*_width(Value(bare)))
        return self.made(type.bare if bare.kind != "enum" else type, code)

    def assigned(self, left: Value, right: Value, token: Token) -> Value:
        self.untold(token)

    def called(self, value: Value, arguments: list[Value], token: Token) -> Value:
        self.untold(token)


def _width(value: Value) -> tuple[int, bool]:
    """The bits of a value's number, and whether it may be negative: see `numbers.decode`, and
    `bit_field`."""
    bare = value.type.bare
    if bare.kind == "pointer":
        return 64, False
    if bare.kind == "bool":
        return (1, False) if not value.bits else (value.bits, False)
    if value.bits:
        is_truth = value.bits == 1 and bare.signed is None
        return value.bits, bare.signed is not False and not is_truth
    bits = bare.bits if bare.kind in ("int", "float") and bare.bits else 8 * bare.size
    return bits, bare.signed is not False and bits > 1


def _extended(bits: int, signed: bool) -> Code:
    return op("signed" if signed else "unsigned", bits) if bits < 64 else ()


def _of(type: DataType) -> Code:
    """The code by which the result of an operation is one of a type's."""
    return _extended(BOOL.bits if type.kind == "bool" else 8 * type.size, type.signed is not False)


def _comparison(operator: str, left: _Number, right: _Number) -> Code:
    name = _COMPARED[operator]
    front = "f" if left.real else "" if left.signed or name in ("eq", "ne") else "u"
    swap = op("swap") if operator in _SWAPPED else ()
    return (*left.code, *right.code, *swap, *op(front + name))
