"""What C does with values: conversions, arithmetic, memory.  Start from `Operations`.

C11 6.3 and 6.5.  Integers wrap around, as on the machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction

from jitkernel.errors import UsageError
from jitkernel.session.debugging import numbers
from jitkernel.session.debugging.lexing import Token
from jitkernel.session.debugging.numbers import Number, arithmetic
from jitkernel.session.debugging.setting import with_bits
from jitkernel.session.debugging.type_names import pointer_to
from jitkernel.session.debugging.values import Value, bytes_of, element, members, type_text
from jitkernel.values.c_numbers import INT, LONG
from jitkernel.values.datatype import VOID, DataType, Member
from jitkernel.values.python import bit_field

__all__ = ["Context", "Operations", "pointee"]

_COMPARED: dict[str, Callable[[Number, Number], bool]] = {
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,
    ">": lambda a, b: a > b, "<=": lambda a, b: a <= b, ">=": lambda a, b: a >= b,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Context:
    """The surroundings of an expression: `names` gives variables by name (`x`, `%i`, `@g`, and an
    enum's constants), `read` memory, `types` C's types by name (`struct pt`, `size_t`).

    `write(value, data)` sets what is at a value's address or place; `call(function, arguments)`
    calls.  Without them there is none of that.  `near(name)` says what a name may have meant.
    """

    names: Callable[[str], Value | None]
    read: Callable[[int, int], bytes]
    types: Callable[[str], DataType | None] = lambda name: None
    write: Callable[[Value, bytes], None] | None = None
    call: Callable[[Value, list[Value]], Value] | None = None
    near: Callable[[str], str] = lambda name: ""


class Operations:
    """Operations of an expression in a `context`; `failed` makes the error that says what is wrong
    at a token.  While `dry` only types are wanted: no memory is read or set, nothing is called."""

    def __init__(self, context: Context, failed: Callable[[str, Token], UsageError]):
        self.context, self.failed, self.dry = context, failed, False

    @contextmanager
    def typed_only(self, wanted: bool = True) -> Iterator[None]:
        """Within, only types are wanted."""
        before, self.dry = self.dry, self.dry or wanted
        yield
        self.dry = before

    def type_of_both(self, left: Value, right: Value, token: Token) -> DataType:
        """The type of `?:`; C11 6.5.15."""
        one, other = self.promoted(left), self.promoted(right)
        if one is not None and other is not None:
            return numbers.common(one, other)
        pointers = [v.type for v in (left, right) if v.type.bare.kind == "pointer"]
        if len(pointers) == 2:
            if _is_null(left) or (_leads_nowhere(right) and not _is_null(right)):
                return pointers[1]
            return pointers[0]
        if pointers and (one is not None or other is not None):
            return pointers[0]
        if _same(left.type, right.type):
            return left.type.bare
        raise self.failed(f"{type_text(left)} and {type_text(right)} have no type in common", token)

    def choice(
        self, condition: Value, first: Callable[[], Value], second: Callable[[], Value],
        token: Token,
    ) -> Value:  # fmt: skip
        """The value of `?:`; both operands are read, one of them is computed.  C11 6.5.15."""
        holds = self.truth(condition, token)
        with self.typed_only(not holds):
            left = self.decayed(first(), token)
        with self.typed_only(holds):
            right = self.decayed(second(), token)
        type = self.type_of_both(left, right, token)
        return self.cast(left if holds else right, type, token)

    def logical(
        self, operator: str, left: Value, right: Callable[[], Value], token: Token
    ) -> Value:
        """The value of `&&` or `||`; the right operand is computed where the left one does not
        tell.  C11 6.5.13, 6.5.14."""
        holds = self.truth(left, token)
        with self.typed_only(holds == (operator == "||")):
            other = self.truth(right(), token)
        return self.make(INT, (holds or other) if operator == "||" else (holds and other))

    def prefixed(self, operator: str, value: Value, token: Token) -> Value:
        """The value of `-`, `+`, `~` or `!` and an operand.  C11 6.5.3.3."""
        if operator == "!":
            return self.make(INT, not self.truth(value, token))
        type = self.promoted_for(operator, value, token)
        number = self.number(value, token)
        if operator == "-":
            number = -self.converted(number, type, token)
        elif operator == "~":
            number = ~int(number)
        return self.make(type, self.converted(number, type, token))

    def promoted_for(self, operator: str, value: Value, token: Token) -> DataType:
        """The type of a prefixed operator's value."""
        type = self.promoted(value)
        if type is None or (operator == "~" and type.kind == "float"):
            raise self.failed(f"{operator} wants a number, not {type_text(value)}", token)
        return type

    @staticmethod
    def behind(left: Value, right: Value) -> Value:
        """The value of `,`."""
        del left
        return right

    def size(self, type: DataType, token: Token) -> int:
        """The bytes of a type."""
        bare = type.bare
        if bare.kind in ("void", "function"):
            return 1  # GNU C
        if not bare.complete or -1 in bare.sides:
            raise self.failed("nobody says here what size it has", token)
        return bare.size

    def make(self, type: DataType, number: Number) -> Value:
        """A number of a type, as a value."""
        if self.dry:
            return Value(type, data=bytes(type.size))
        return Value(type, data=numbers.encode(type, number))

    def number(self, value: Value, token: Token) -> Number:
        """The number that a value is, an address for a pointer."""
        bare = value.type.bare
        if bare.kind != "pointer" and arithmetic(bare) is None:
            raise self.failed(f"a number is wanted, not a value of type {type_text(value)}", token)
        if self.dry:
            return 1
        data = self.bytes(value, token)
        if value.bits:
            return int(bit_field(Member("", bare, 0, value.bits, value.shift), data))
        if bare.kind == "pointer":
            return int.from_bytes(data[:8], "little")
        return numbers.decode(bare, data)

    def bytes(self, value: Value, token: Token) -> bytes:
        """All its bytes."""
        if value.absent:
            raise self.failed(f"it has no value here: {value.absent.strip('<>')}", token)
        data = bytes_of(value, self.context.read)
        if data is None:
            where = f" at {value.address:#x}" if value.address is not None else ""
            raise self.failed(f"the memory{where} cannot be read", token)
        return data

    def truth(self, value: Value, token: Token) -> bool:
        """True of what is not zero."""
        value = self.decayed(value, token)
        return bool(self.number(value, token) != 0)

    def promoted(self, value: Value) -> DataType | None:
        """The type that a number counts with; None for what is none."""
        type = arithmetic(value.type)
        return None if type is None else numbers.promoted(type, value.bits)

    def converted(self, number: Number, type: DataType, token: Token) -> Number:
        """A number as one of another type."""
        if self.dry:
            return 1
        try:
            return numbers.converted(number, type)
        except ValueError as error:
            raise self.failed(str(error), token) from None

    def decayed(self, value: Value, token: Token) -> Value:
        """An array as a pointer to its first element, a function as its address; 6.3.2.1."""
        bare = value.type.bare
        if bare.kind == "function" or (bare.kind == "array" and not value.ir):
            if value.address is None and not self.dry:
                raise self.failed("it is in no memory", token)
            target = value.type if bare.kind == "function" else bare.element or VOID
            return Value(pointer_to(target), data=(value.address or 0).to_bytes(8, "little"))
        return value

    def cast(self, value: Value, type: DataType, token: Token) -> Value:
        """A value as one of another type."""
        bare = type.bare
        if bare.kind == "void":
            return Value(VOID, data=b"")
        if bare.kind in ("struct", "union") or (
            arithmetic(bare) is None and bare.kind != "pointer"
        ):
            if not _same(value.type, type):
                text = f"{type_text(value)} does not become {type_text(Value(type, ir=value.ir))}"
                raise self.failed(text, token)
            return Value(type, data=bytes(bare.size) if self.dry else self.bytes(value, token))
        value = self.decayed(value, token)
        of = value.type.bare
        if bare.kind == "pointer" or of.kind == "pointer":
            number = self.number(value, token)
            if "float" in (of.kind, bare.kind):
                raise self.failed("an address and a number with a point are not the same", token)
            if bare.kind == "pointer":
                data = (int(number) & (1 << 64) - 1).to_bytes(8, "little")
                return Value(type, data=data, ir=value.ir and bare.name == "ptr")
        number = self.converted(self.number(value, token), arithmetic(bare) or bare, token)
        if bare.kind == "int" and bare.bits < 8 * bare.size:
            number = int(number) & (1 << bare.bits) - 1
        return self.make(type.bare if type.bare.kind != "enum" else type, number)

    def pointed(self, value: Value, token: Token) -> Value:
        """The value that a pointer leads to."""
        value = self.decayed(value, token)
        bare = value.type.bare
        if bare.kind != "pointer":
            raise self.failed(f"{type_text(value)} is no pointer", token)
        of = pointee(bare)
        if of.bare.kind == "void":
            what = "ptr leads to nothing known" if value.ir else "it is a pointer to void"
            raise self.failed(f"{what}: cast it first", token)
        return Value(of, int(self.number(value, token)), ir=value.ir)

    def address_of(self, value: Value, token: Token) -> Value:
        """The place where a value is."""
        if value.bits or value.address is None:
            what = "a bit-field" if value.bits else "what is in no memory"
            if not (self.dry and not value.bits):
                raise self.failed(f"{what} has no address", token)
        type = pointer_to(value.type)
        if value.ir:
            type.name = "ptr"
        return Value(type, data=(value.address or 0).to_bytes(8, "little"), ir=value.ir)

    def indexed(self, value: Value, index: Value, token: Token) -> Value:
        """An element of an array, or of what a pointer leads to."""
        bare = value.type.bare
        if bare.kind == "vector" or (value.ir and bare.kind in ("array", "struct")):
            return self.element(value, int(self.number(index, token)), token)
        if value.address is None and bare.kind == "array" and not self.dry:
            return self.element(value, int(self.number(index, token)), token)
        return self.pointed(self.compute("+", value, index, token), token)

    def element(self, value: Value, index: int, token: Token) -> Value:
        """A part by its number: of a vector, and of LLVM's arrays and structs."""
        bare = value.type.bare
        count = bare.elements if bare.count >= 0 else 0
        if self.dry:
            index = 0
        if not 0 <= index < count:
            raise self.failed(f"there are {count} elements, and none with number {index}", token)
        is_struct = bare.kind == "struct"
        part = bare.members[index] if is_struct else element(bare, index, value.ir)
        return self.part(value, part)

    def part(self, value: Value, of: Member) -> Value:
        """A part of a value: see `Value.part`."""
        return value.part(of)

    def member(self, value: Value, name: Token) -> Value:
        """A member of a struct or a union, or a half of a complex number."""
        bare = value.type.bare
        if bare.kind not in ("struct", "union", "complex"):
            raise self.failed(f"{type_text(value)} has no members", name)
        known = {} if value.ir else {member.name: member for member in members(bare)}
        if name.text not in known:
            has = f"it has {', '.join(known)}" if known else "nothing is known of its members"
            raise self.failed(f"no member is called {name.text}: {has}", name)
        return self.part(value, known[name.text])

    def assigned(self, left: Value, right: Value, token: Token) -> Value:
        """Set a variable; the value that it has then."""
        if left.address is None and left.place is None:
            why = f": {left.absent.strip('<>')}" if left.absent else ""
            raise self.failed(f"what is on the left is nothing that can be set{why}", token)
        write = self.context.write
        if write is None:
            raise self.failed("nothing is set here", token)
        found = self.cast(right, left.type, token)
        data = self.bytes(found, token)
        if left.bits:
            data = with_bits(left, data, self.context.read) if not self.dry else data
            raw = replace(left, address=None, data=data, place=None)
            found = self.make(left.type.bare, self.number(raw, token))
        if not self.dry:
            write(left, data)
        return replace(found, ir=left.ir)

    def called(self, value: Value, arguments: list[Value], token: Token) -> Value:
        """The result of a function."""
        call = self.context.call
        if call is None:
            raise self.failed("calls are not evaluated here", token)
        if not self.dry:
            return call(value, arguments)
        bare = value.type.bare
        if bare.kind == "pointer":
            bare = pointee(bare).bare
        result = bare.element or VOID
        return Value(result, data=bytes(result.bare.size))

    def compute(self, operator: str, left: Value, right: Value, token: Token) -> Value:
        """The value of an operator with two operands; C11 6.5.5 to 6.5.12."""
        left, right = self.decayed(left, token), self.decayed(right, token)
        kinds = left.type.bare.kind, right.type.bare.kind
        if "pointer" in kinds:
            return self.on_pointers(operator, left, right, token)
        one, other = self.promoted(left), self.promoted(right)
        if one is None or other is None:
            wrong = left if one is None else right
            raise self.failed(f"'{operator}' wants numbers, not {type_text(wrong)}", token)
        first, second = self.number(left, token), self.number(right, token)
        if operator in ("<<", ">>"):
            return self.shifted(operator, (one, first), (other, second), token)
        type = numbers.common(one, other)
        first, second = self.converted(first, type, token), self.converted(second, type, token)
        if operator in _COMPARED:
            return self.make(INT, _COMPARED[operator](first, second))
        if self.dry:
            return self.make(type, 1)
        if type.kind == "float":
            return self.make(type, self.real(operator, first, second, type, token))
        result = self.whole(operator, int(first), int(second), token)
        return self.make(type, self.converted(result, type, token))

    def shifted(
        self,
        operator: str,
        left: tuple[DataType, Number],
        right: tuple[DataType, Number],
        token: Token,
    ) -> Value:
        (type, number), count = left, right[1]
        if "float" in (type.kind, right[0].kind):
            raise self.failed(f"'{operator}' wants integers", token)
        if self.dry:
            return self.make(type, 1)
        if not 0 <= count < type.bits:
            raise self.failed(f"a number of {type.bits} bits is not shifted by {count}", token)
        number = int(number)
        found = number << int(count) if operator == "<<" else number >> int(count)
        return self.make(type, self.converted(found, type, token))

    def whole(self, operator: str, left: int, right: int, token: Token) -> int:
        """The exact result of an operator on integers."""
        match operator:
            case "+":
                return left + right
            case "-":
                return left - right
            case "*":
                return left * right
            case "&":
                return left & right
            case "|":
                return left | right
            case "^":
                return left ^ right
        if not right:
            raise self.failed("division by zero", token)
        quotient = abs(left) // abs(right)
        quotient = -quotient if (left < 0) != (right < 0) else quotient
        return quotient if operator == "/" else left - quotient * right

    def real(
        self, operator: str, left: Number, right: Number, type: DataType, token: Token
    ) -> Number:
        if operator not in "+-*/":
            raise self.failed(f"'{operator}' wants integers", token)
        if not (isinstance(left, Fraction) and isinstance(right, Fraction)):
            left, right = float(left), float(right)
        match operator:
            case "+":
                found = left + right
            case "-":
                found = left - right
            case "*":
                found = left * right
            case _:
                found = left / right if right else _by_zero(float(left), float(right))
        return numbers.converted(found, type)

    def on_pointers(self, operator: str, left: Value, right: Value, token: Token) -> Value:
        """As `compute`, where an operand is a pointer."""
        pointers = [v for v in (left, right) if v.type.bare.kind == "pointer"]
        first, second = self.number(left, token), self.number(right, token)
        if any(v.type.bare.kind == "float" for v in (left, right)):
            raise self.failed(f"'{operator}' wants an address and an integer", token)
        if operator in _COMPARED:
            word = (1 << 64) - 1
            holds = _COMPARED[operator](int(first) & word, int(second) & word)
            return self.make(INT, holds)
        size = self.size(pointee(pointers[0].type.bare), token) if operator in "+-" else 0
        if operator == "-" and len(pointers) == 2:
            distance = self.converted(int(first) - int(second), LONG, token)
            count = abs(int(distance)) // max(size, 1)
            return self.make(LONG, count if distance > 0 else -count)
        if operator == "+" and len(pointers) == 1:
            address = (
                int(first) + size * int(second)
                if pointers[0] is left else int(second) + size * int(first)
            )  # fmt: skip
        elif operator == "-" and left is pointers[0]:
            address = int(first) - size * int(second)
        else:
            raise self.failed(f"'{operator}' is not for pointers", token)
        data = (address & (1 << 64) - 1).to_bytes(8, "little")
        return Value(pointers[0].type.bare, data=data, ir=pointers[0].ir)


def _by_zero(left: float, right: float) -> float:
    """IEEE 754 7.3."""
    if left == 0 or left != left:
        return math.nan
    return math.copysign(math.inf, math.copysign(1, left) * math.copysign(1, right))


def pointee(pointer: DataType) -> DataType:
    """The type that a pointer leads to, void where nobody says."""
    return pointer.bare.element or VOID


def _leads_nowhere(pointer: Value) -> bool:
    return pointee(pointer.type).bare.kind == "void"


def _is_null(pointer: Value) -> bool:
    """True of a null pointer constant; C11 6.3.2.3."""
    return _leads_nowhere(pointer) and pointer.data is not None and not any(pointer.data)


def _same(left: DataType, right: DataType) -> bool:
    """True if two structs, or the like, are of one type."""
    one, other = left.bare, right.bare
    same = (one.kind, one.name, one.size) == (other.kind, other.name, other.size)
    return one is other or (same and bool(one.name))
