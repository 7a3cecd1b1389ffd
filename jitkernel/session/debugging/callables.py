"""Functions as values of expressions, and what they are given and give when they are called.

Start from `function_value`; `Call` reads the signature of one.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from jitkernel.errors import CompileError, JitError, UsageError
from jitkernel.ir.types import FloatType, FunctionType, IntType, PointerType, Type, VoidType
from jitkernel.linker.records import SymbolState
from jitkernel.session.debugging.calling import Arguments, Returned
from jitkernel.session.debugging.expressions import Context, evaluate
from jitkernel.session.debugging.numbers import arithmetic, converted, decode, named_by_size
from jitkernel.session.debugging.values import Value, bytes_of, type_text
from jitkernel.session.program.signatures import Signature, attributes_of
from jitkernel.values.c_numbers import LONG
from jitkernel.values.datatype import VOID, DataType, Member
from jitkernel.values.python import bit_field

if TYPE_CHECKING:
    from jitkernel.linker import Symbol
    from jitkernel.session.core import Core

__all__ = ["Call", "function_value", "in_c"]

Read = Callable[[int, int], bytes]
_SIZES = {"float": 4, "double": 8}
_MEMORY = ("sret", "byval", "inalloca", "preallocated", "inreg", "nest", "byref", "swift")


def function_value(core: Core, name: str) -> Value | None:
    """A function that a cell has defined or refers to; None where there is none of this name."""
    symbol = core.program.named(name)
    if symbol is None or not isinstance(symbol.info, Signature):
        return None
    if symbol.state not in (SymbolState.DEFINED, SymbolState.FAR):
        return None
    value = Value(DataType("function", name=name), _entry(core, symbol))
    with contextlib.suppress(UsageError):
        value.type.element = Call(core, value, lambda at, size: b"").gives
    return value


def _entry(core: Core, symbol: Symbol) -> int:
    return symbol.address if symbol.state is SymbolState.FAR else core.engine.linker.entry(symbol)


class Call:
    """A call of what a value is, a function or a pointer to one.  Raises UsageError where it is no
    function whose signature is known, or one whose arguments are more than registers hold."""

    def __init__(
        self, core: Core, value: Value, read: Read,
        types: Callable[[str], DataType | None] = lambda name: None,
    ):  # fmt: skip
        self._core, self._read, self._types = core, read, types
        bare = value.type.bare
        if bare.kind == "function":
            symbol = core.program.named(bare.name) or self._at(value.address or 0)
        elif bare.kind == "pointer":
            symbol = self._at(int.from_bytes(bytes_of(value, read) or b"", "little"))
        else:
            raise UsageError(f"what is called is a function, not a value of {type_text(value)}")
        if symbol is None or not isinstance(symbol.info, Signature):
            raise UsageError("no cell defines the function at that address, nor declares it")
        self.symbol, self.address = symbol, _entry(core, symbol)
        self.name = core.program.called(symbol.name)
        self.signature: Signature = symbol.info
        self._type: FunctionType = self.signature.function
        self._check()

    def _at(self, address: int) -> Symbol | None:
        places = self._core.places
        if (stub := places.stub(address)) is not None:
            return stub
        owner = places.owner(address)
        return owner[1] if owner is not None and not owner[2] else None

    def _check(self) -> None:
        refused = [w for w in _MEMORY if w in self.signature.attributes]
        if self.signature.convention not in ("", "ccc") or refused:
            word = self.signature.convention or refused[0]
            raise UsageError(f"{self.name} is not called here: its convention has {word}")
        for type in (self._type.result, *self._type.parameters):
            if not (isinstance(type, VoidType) or _fits(type)):
                raise UsageError(
                    f"{self.name} is not called here: {type} is neither a number of up to 64 bits "
                    "nor an address"
                )

    def arguments(self, given: Sequence[Value]) -> Arguments:
        """The bits of the arguments.  Raises UsageError for too many, too few, or others."""
        parameters = self._type.parameters
        few = len(given) < len(parameters)
        if few or (len(given) > len(parameters) and not self._type.variadic):
            raise UsageError(
                f"{self.name} takes {len(parameters)} argument{'s' * (len(parameters) != 1)}, not "
                f"{len(given)}"
            )
        _, words = attributes_of(self.signature.attributes)
        found = []
        for index, value in enumerate(given):
            type = parameters[index] if index < len(parameters) else _promoted(value)
            zero = "zeroext" in words.get(index, "")
            found.append((self._bits(value, type, index, zero), isinstance(type, FloatType)))
        return Arguments(found, self._type.variadic)

    def _bits(self, value: Value, type: Type, index: int, zero: bool) -> int:
        what = f"argument {index + 1} of {self.name}"
        bare, number = value.type.bare, arithmetic(value.type)
        if value.absent:
            raise UsageError(f"{what} has no value here: {value.absent.strip('<>')}")
        if bare.kind in ("array", "function") and not value.ir and isinstance(type, PointerType):
            if value.address is None:
                raise UsageError(f"{what} is in no memory")
            return value.address
        data = bytes_of(value, self._read)
        if data is None:
            raise UsageError(f"{what} cannot be read")
        if bare.kind == "pointer" and isinstance(type, PointerType):
            return int.from_bytes(data[:8], "little")
        if number is None:
            raise UsageError(f"{what} is {type}, not {type_text(value)}")
        found = (
            bit_field(Member("", bare, 0, value.bits, value.shift), data) if value.bits
            else decode(bare, data)
        )  # fmt: skip
        if isinstance(type, FloatType):
            code = "<f" if type.name == "float" else "<d"
            try:
                packed = struct.pack(code, float(found))
            except OverflowError as error:
                raise UsageError(f"{what}: {error}") from None
            return int.from_bytes(packed, "little")
        if isinstance(type, PointerType) and found:
            raise UsageError(f"{what} is an address, not {type_text(value)}: cast it first")
        if not isinstance(type, IntType):
            return 0
        try:
            whole = int(converted(found, number if number.kind != "float" else LONG))
        except ValueError as error:
            raise UsageError(f"{what}: {error}") from None
        whole &= (1 << type.bits) - 1
        if type.bits == 1 and found:
            whole = 1
        negative = not zero and type.bits > 1 and whole >> type.bits - 1
        return whole | (-1 << type.bits & (1 << 64) - 1 if negative else 0)

    @property
    def is_ir(self) -> bool:
        """True of a function of LLVM's, whose result is shown as that."""
        cell = self.symbol.cell
        return bool(cell) and not self._core.program.state.notes.language_of(cell)

    @property
    def gives(self) -> DataType:
        """The type of its result."""
        type = self._type.result
        if isinstance(type, VoidType):
            return VOID
        if not self.is_ir and (said := self._said()) is not None and said.bare.size <= 8:
            return said
        try:
            layout = self._core.program.layouts(type)
        except CompileError as error:
            raise UsageError(str(error)) from None
        return layout if self.is_ir else in_c(layout)

    def result(self, left: Returned) -> Value:
        """The value that it has left in registers."""
        type, gives = self._type.result, self.gives
        word = left.real if isinstance(type, FloatType) else left.word
        if isinstance(type, IntType):
            word &= (1 << type.bits) - 1
        data = (word & (1 << 64) - 1).to_bytes(8, "little")
        return Value(gives, data=data[: gives.bare.size], ir=self.is_ir)

    def _said(self) -> DataType | None:
        """The type of the result as the function's language has it."""
        core, name = self._core, self.symbol.name
        with contextlib.suppress(JitError):
            spelled = core.spelling(name)
            before, found, _ = (spelled.text if spelled else "").partition(f"{self.name}(")
            words = before.removeprefix("extern ").removeprefix("static ").strip()
            if found and words and not words.endswith("("):
                context = Context(lambda name: None, self._read, self._types)
                return evaluate(f"({words})0", context).type
        with contextlib.suppress(JitError):
            said = core.said(name)
            return in_c(said.result) if said is not None and said.result is not None else None
        return None


def _fits(type: Type) -> bool:
    return (
        isinstance(type, PointerType) or (isinstance(type, IntType) and type.bits <= 64)
        or (isinstance(type, FloatType) and type.name in _SIZES)
    )  # fmt: skip


def _promoted(value: Value) -> Type:
    """The type that an argument has where no parameter gives it one; C11 6.5.2.2."""
    bare = value.type.bare
    if bare.kind == "float":
        return FloatType("double")
    number = arithmetic(value.type)
    if number is None:
        return PointerType()
    if number.size > 8:
        raise UsageError(f"{type_text(value)} is no argument here: it has more than 64 bits")
    return IntType(64 if number.size == 8 else 32)


def in_c(type: DataType) -> DataType:
    """A type that came by way of LLVM's, with the names that C has for its integers."""
    if type.kind == "int" and (not type.name or type.name[1:].isdigit()):
        name = "_Bool" if type.bits == 1 else named_by_size(type.size, type.signed)
        return replace(type, name=name or type.name, signed=type.signed is not False)
    element = in_c(type.element) if type.element is not None else None
    members = tuple(replace(m, type=in_c(m.type)) for m in type.members)
    return replace(type, element=element, members=members)
