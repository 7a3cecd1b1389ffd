"""What an expression is worth, given the types that the session knows.

Arguments are evaluated from left to right, each before the next.  Whatever is wrong with a type is
found where it is met, as a CompileError that points into the cell; calls that came before it have
run.  Start from `evaluate`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from jitkernel.errors import CompileError, UsageError
from jitkernel.ir.expressions import (
    Aggregate,
    Call,
    Expr,
    Load,
    Number,
    Result,
    SymbolRef,
    Text,
    Word,
    complaint,
)
from jitkernel.ir.names import written
from jitkernel.ir.types import (
    I8,
    I32,
    I64,
    PTR,
    ArrayType,
    FloatType,
    FunctionType,
    IntType,
    OtherType,
    PointerType,
    StructType,
    Type,
    VectorType,
    VoidType,
    parse_type,
    types_named,
)
from jitkernel.languages.language import Host
from jitkernel.languages.llvm.intrinsics import (
    RESULTS,
    constant_text,
    is_literal,
    literal_types,
)
from jitkernel.values import literals
from jitkernel.values.datatype import DataType
from jitkernel.values.value import (
    TypedValue,
    encode_int,
    pack,
)
from jitkernel.wording import counted

_MOST = 1776 << 20  # bytes: what an arena has at most


#: What asks for a type, in words or a function that gives them.
Why: TypeAlias = str | Callable[[], str]


def evaluate(
    expr: Expr, expected: Type | None, host: Host, source: str = "", why: Why = ""
) -> TypedValue:
    """The value of an expression; `expected` is the type that its place asks for, None for any.

    `source` is the cell (`Plan.source`) and `why` what asks for the type, for messages.  Raises
    CompileError, and whatever the calls raise.
    """
    return _Evaluator(host, source).value(expr, expected, why)


def evaluate_arguments(call: Call, host: Host, source: str = "") -> list[TypedValue]:
    """The values of a call's arguments; the call itself is not made."""
    return _Evaluator(host, source).arguments(call)


_WHAT = {"{}": "a struct", "<{}>": "a packed struct", "[]": "an array", "<>": "a vector"}


class _Evaluator:
    """One expression's evaluation; `why` says what asks for the expected type."""

    def __init__(self, host: Host, source: str):
        self.host, self.source = host, source

    def fail(self, expr: Expr, message: str, hint: str = "") -> CompileError:
        return complaint(self.source, expr.at, message, hint)

    def value(self, expr: Expr, expected: Type | None, why: Why) -> TypedValue:
        wanted = expected
        if expr.type is not None:
            if isinstance(expected, PointerType) and _is_data(expr):
                data = self.value(expr, None, "")
                return self.owned(data.data, self.host.layout(data.type).align)
            if expected is not None and expr.type != expected:
                raise self.unlike(expr, f"{expr.type} is written where", expected, why)
            wanted = expr.type
        match expr:
            case Number():
                return self.number(expr, wanted, why)
            case Word():
                return self.word(expr, wanted, why)
            case Text():
                return self.text(expr, wanted, why)
            case SymbolRef():
                return self.symbol(expr, wanted, why)
            case Aggregate():
                return self.aggregate(expr, wanted, why)
            case Load():
                found = self.load(expr)
            case Call():
                found = self.call(expr)
            case Result():
                found = self.result(expr)
        if wanted is not None and found.type != wanted:
            shown = expr.shown if isinstance(expr, Result) else written(expr.name)
            shown += "(...)" * isinstance(expr, Call)
            gives = "returns nothing" if found.is_void else f"is {found.type}"
            raise self.unlike(expr, f"{shown} {gives}, but", wanted, why)
        return found

    def unlike(
        self, expr: Expr, what: str, expected: Type, why: Why, hint: str = ""
    ) -> CompileError:
        """Something stands where another type is expected; `why` says what asks for it."""
        return self.fail(expr, f"{what} {expected} is expected" + _because(why), hint)

    def result(self, expr: Result) -> TypedValue:
        found = self.host.result(expr.number)
        if found is None:
            where = (
                "no cell has given one yet"
                if expr.number is None
                else f"cell {expr.number} gave none, or it is no longer kept"
            )
            raise self.fail(expr, f"{expr.shown} has no value: {where}")
        if not found.is_void and len(found.data) != self.host.layout(found.type).size:
            raise self.fail(expr, f"{found.type} has changed since {expr.shown} was made")
        return found

    def scalar(self, type: Type, data: bytes) -> TypedValue:
        return TypedValue(type, data, self.host.layout)

    # --- literals ---

    def number(self, expr: Number, type: Type | None, why: Why) -> TypedValue:
        if type is None:
            type = FloatType("double") if expr.is_fraction else self.default_integer(expr)
        if isinstance(type, FloatType):
            return self.float(expr, type)
        if isinstance(type, PointerType) and expr.type is not None and not expr.is_fraction:
            return self.integer(expr, type, 64, unsigned=True)
        if not isinstance(type, IntType):
            raise self.unlike(expr, f"{expr.text} is a number, but", type, why)
        if expr.is_fraction:
            words = f"{expr.text} is a fraction, but {type} is an integer"
            raise self.fail(expr, words + _because(why))
        return self.integer(expr, type, type.bits)

    def default_integer(self, expr: Number) -> Type:
        value = self.parse_int(expr, 64)
        if -(1 << 31) <= value < 1 << 31:
            return I32
        if -(1 << 63) <= value < 1 << 63:
            return I64
        raise self.fail(expr, f"{expr.text} does not fit i64", "write its type in front of it")

    def integer(self, expr: Number, type: Type, bits: int, unsigned: bool = False) -> TypedValue:
        value = self.parse_int(expr, bits)
        low, high = (0 if unsigned else -(1 << bits - 1)), (1 << bits) - 1
        if not low <= value <= high:
            limits = f"{type} holds {low} to {high}" if bits <= 64 else ""
            raise self.fail(expr, f"{expr.text[:60]} does not fit {type}", limits)
        return self.scalar(type, encode_int(value, bits, self.host.layout(type).size))

    def parse_int(self, expr: Number, bits: int) -> int:
        try:
            return literals.integer(expr.text, bits)
        except ValueError as error:
            raise self.fail(expr, str(error)) from None

    def float(self, expr: Number, type: FloatType) -> TypedValue:
        form = literals.FORMATS.get(type.name)
        if form is None:
            raise self.fail(expr, f"{type} values cannot be written here")
        text = expr.text
        if text.lstrip("+-")[:2] == "0b":
            text = str(self.parse_int(expr, 64))
        try:
            bits = literals.bits_of(text, form)
        except ValueError as error:
            raise self.fail(expr, str(error)) from None
        return self.scalar(type, bits.to_bytes(self.host.layout(type).size, "little"))

    def word(self, expr: Word, type: Type | None, why: Why) -> TypedValue:
        if expr.text == "zeroinitializer":
            if type is None:
                raise self.fail(expr, "zeroinitializer needs a type in front of it")
            return self.scalar(type, bytes(self.sized(expr, type).size))
        if expr.text == "null":
            if type is not None and not isinstance(type, PointerType):
                raise self.unlike(expr, "null is a ptr, but", type, why)
            return self.scalar(type or PTR, bytes(8))
        if type is not None and type != IntType(1):
            hint = f"write {int(expr.text == 'true')}" if isinstance(type, IntType) else ""
            raise self.unlike(expr, f"{expr.text} is an i1, but", type, why, hint)
        return self.scalar(IntType(1), bytes([expr.text == "true"]))

    def sized(self, expr: Expr, type: Type) -> DataType:
        if isinstance(type, (VoidType, FunctionType, OtherType)):
            raise self.fail(expr, f"{type} has no values")
        try:
            layout = self.host.layout(type)
        except (CompileError, UsageError) as error:
            raise self.fail(expr, str(error)) from None
        if layout.size > _MOST:
            raise self.fail(expr, f"a value of {layout.size} bytes is larger than any arena")
        return layout

    def text(self, expr: Text, type: Type | None, why: Why) -> TypedValue:
        data = expr.data + b"\0" * expr.terminated
        if type is None:
            if expr.terminated:
                return self.owned(data, 1)
            type = ArrayType(len(data), I8)
        if isinstance(type, PointerType):
            return self.owned(data, 1)
        layout = self.sized(expr, type)
        if layout.kind != "array" or layout.part(0).name != "i8":
            raise self.unlike(expr, "a string is given where", type, why)
        if layout.count != len(data):
            nul = ", with its NUL" if expr.terminated else ""
            hint = f"write [{len(data)} x i8]" if expr.type is not None else ""
            raise self.unlike(expr, f"the string is {len(data)} bytes{nul}, but", type, why, hint)
        return self.scalar(type, data)

    def owned(self, data: bytes, align: int) -> TypedValue:
        return self.scalar(PTR, self.host.allocate(data or b"\0", align).to_bytes(8, "little"))

    # --- symbols ---

    def symbol(self, expr: SymbolRef, type: Type | None, why: Why) -> TypedValue:
        shown = written(expr.name)
        if type is not None and not isinstance(type, PointerType):
            variable = self.host.variable(expr.name)
            hint = f"for its value write `load {shown}`" if variable else ""
            if not variable and self.host.signature(expr.name):
                hint = f"to call it: {shown}(...)"
            raise self.unlike(expr, f"{shown} is an address (ptr), but", type, why, hint)
        address = self.host.address(expr.name)
        if address is None:
            raise self.unknown(expr, expr.name)
        return self.scalar(type or PTR, encode_int(address + expr.offset, 64, 8))

    def unknown(self, expr: Expr, name: str) -> CompileError:
        return self.fail(expr, f"{written(name)} is not known", self.host.hint(name))

    def load(self, expr: Load) -> TypedValue:
        variable = self.host.variable(expr.name)
        if variable is None:
            shown = written(expr.name)
            if self.host.signature(expr.name) is not None:
                raise self.fail(expr, f"{shown} is a function", f"to call it: {shown}(...)")
            raise self.unknown(expr, expr.name)
        return self.host.load(variable[0], variable[1])

    def intrinsic(self, expr: Call) -> TypedValue:
        """A call of one of LLVM's own functions, whose type LLVM tells."""
        shown = written(expr.name)
        named = types_named(expr.name)
        values = [None if is_literal(a) else self.value(a, None, "") for a in expr.arguments]
        choices = [
            literal_types(argument, named) if value is None else [str(value.type)]
            for argument, value in zip(expr.arguments, values, strict=True)
        ]
        constants = [constant_text(a) if is_literal(a) else "" for a in expr.arguments]
        found = self.host.intrinsic(expr.name, choices, constants, [*named, *RESULTS])
        if found == "unknown":
            raise self.fail(expr, f"LLVM has no intrinsic {shown}", "llvm.org/docs/LangRef.html")
        if isinstance(found, str):
            words = f"{shown} has no form that takes these arguments"
            raise self.fail(expr, words, "write their types: @llvm.ctpop.i32(i32 7)")
        given: list[TypedValue | str] = []
        for argument, value, type in zip(expr.arguments, values, found.parameters, strict=True):
            if value is None:
                value = self.value(argument, type, f"{shown} takes {type} there")
            literal = is_literal(argument) and isinstance(type, IntType)
            given.append(value.value_text() if literal else value)
        return self.host.call_intrinsic(expr.name, found, given)

    def call(self, expr: Call) -> TypedValue:
        if expr.name.startswith("llvm."):
            return self.intrinsic(expr)
        return self.host.call(expr.name, self.arguments(expr))

    def arguments(self, expr: Call) -> list[TypedValue]:
        """The values of a call's arguments, as the function's parameters ask for them."""
        signature = self.host.signature(expr.name)
        if signature is None:
            variable = self.host.variable(expr.name)
            if variable is not None:
                shown = written(expr.name)
                words = f"{shown} is a variable ({variable[0]}), not a function"
                raise self.fail(expr, words, f"`{shown}` alone shows it")
            raise self.unknown(expr, expr.name)
        given, taken = len(expr.arguments), len(signature.parameters)
        if given != taken and not (signature.variadic and given > taken):
            raise self.miscounted(expr, signature)
        arguments = []
        for index, argument in enumerate(expr.arguments):
            if index < len(signature.parameters):
                type = signature.parameters[index]
                why = partial(_parameter, index, expr.name, type)
                arguments.append(self.value(argument, type, why))
            else:
                arguments.append(self.variadic(argument))
        return arguments

    def miscounted(self, expr: Call, signature: FunctionType) -> CompileError:
        given, taken = len(expr.arguments), len(signature.parameters)
        least = "at least " if signature.variadic else ""
        words = (
            f"{written(expr.name)} takes {least}{counted(taken, 'argument')}, and {_given(given)}"
        )
        return self.fail(expr, words, f"its type is {signature}")

    def variadic(self, argument: Expr) -> TypedValue:
        """An argument behind the `...`, promoted as C does it: the callee reads it that way."""
        found = self.value(argument, None, "")
        if found.is_void:
            raise self.fail(argument, "the call returns nothing to pass on")
        type = found.type
        if isinstance(type, IntType) and type.bits < 32:
            return self.scalar(I32, encode_int(int(found.python), 32, 4))
        if isinstance(type, FloatType) and type.name in ("half", "bfloat", "float"):
            form = literals.FORMATS[type.name]
            bits = int.from_bytes(found.data, "little")
            wide = literals.convert(bits, form, literals.FORMATS["double"])
            return self.scalar(FloatType("double"), wide.to_bytes(8, "little"))
        return found

    # --- aggregates ---

    def aggregate(self, expr: Aggregate, type: Type | None, why: Why) -> TypedValue:
        if type is None or isinstance(type, PointerType):
            found = self.self_typed(expr)
            if type is None:
                return found
            layout = self.host.layout(found.type)
            return self.owned(found.data, layout.align)
        layout = self.sized(expr, type)
        brackets = {"struct": ("{}", "<{}>"), "array": ("[]",), "vector": ("<>",)}.get(layout.kind)
        if brackets is None or expr.brackets not in brackets:
            what = _WHAT[expr.brackets]
            raise self.unlike(expr, f"{what} is given where", type, why)
        if isinstance(type, StructType) and expr.brackets != ("<{}>" if type.packed else "{}"):
            raise self.unlike(expr, f"{expr.brackets} is written where", type, why)
        wanted = layout.elements
        if len(expr.elements) != wanted:
            words = f"{type} has {counted(wanted, 'element')}, and {_given(len(expr.elements))}"
            raise self.fail(expr, words + _because(why))
        parts = []
        for index, element in enumerate(expr.elements):
            member = parse_type(layout.part(index).name)
            parts.append(self.value(element, member, f"element {index} of {type} is {member}").data)
        return self.scalar(type, pack(layout, parts))

    def self_typed(self, expr: Aggregate) -> TypedValue:
        """An aggregate whose place says nothing of its type: the elements' types make it."""
        values: list[TypedValue] = []
        for element in expr.elements:
            if element.type is None and isinstance(element, (Number, Word, Text)):
                if not (isinstance(element, Word) and element.text in ("true", "false", "null")):
                    raise self.fail(element, "this element needs a type", "for example `i32 1`")
            values.append(self.value(element, None, ""))
            if values[-1].is_void:
                raise self.fail(element, "the call returns nothing, so there is no element")
        types = [v.type for v in values]
        if expr.brackets in ("{}", "<{}>"):
            type: Type = StructType(tuple(types), expr.brackets == "<{}>")
        else:
            if not types:
                raise self.fail(expr, "an empty list needs a type in front of it")
            for element, found in zip(expr.elements, types, strict=True):
                if found != types[0]:
                    raise self.fail(element, f"{found} among elements of type {types[0]}")
            maker = ArrayType if expr.brackets == "[]" else VectorType
            type = maker(len(types), types[0])
        return self.scalar(type, pack(self.host.layout(type), [v.data for v in values]))


def _given(count: int) -> str:
    return f"{count} {'is' if count == 1 else 'are'} given"


def _is_data(expr: Expr) -> bool:
    """True if the value written is bytes that a pointer can point to: `%pt { 1, 2 }`."""
    if isinstance(expr.type, PointerType):
        return False
    return isinstance(expr, (Aggregate, Text)) or (
        isinstance(expr, Word) and expr.text == "zeroinitializer"
    )


def _because(why: Why) -> str:
    words = why if isinstance(why, str) else why()
    return f": {words}" if words else ""


def _parameter(index: int, name: str, type: Type) -> str:
    return f"parameter {index + 1} of {written(name)} is {type}"
