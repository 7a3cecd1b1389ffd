"""What instructions use: constants, globals, arguments, and, as values too, blocks and other
instructions.  Start from `Value`.
"""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING, NamedTuple

from jitkernel.ir.names import decode_name, quote_name
from jitkernel.ir.types import FloatType, IntType, Type, parse_type
from jitkernel.regex import regex

if TYPE_CHECKING:
    from jitkernel.ir.model.instruction import Instruction

_HEX = regex(r"([us])0x([0-9A-Fa-f]+)")
_DOUBLE = regex(r"0x[0-9A-Fa-f]{1,16}")
_INTEGER = regex(r"[-+]?[0-9]{1,4000}")


class Edits:
    """The code that edits of values come from: `file` is its name as Python's frames have it; the
    line of it that runs is remembered with what it makes or changes."""

    file = ""

    @classmethod
    def line(cls) -> int:
        """The line of the file that is running; 0 where none is."""
        frame = sys._getframe(1) if cls.file else None
        while frame is not None:
            if frame.f_code.co_filename == cls.file:
                return frame.f_lineno
            frame = frame.f_back
        return 0


class Use(NamedTuple):
    """A use of a value: by which instruction, as the how-manieth of its operands."""

    user: Instruction
    number: int


class Value:
    """Something that an instruction can use.

    `type` is a record of `jitkernel.ir.types`; `str` of it is its text.  `ref` is how instructions
    write the value: `%x`, `@f`, `7`; `str` of a value is that too, but an instruction's is its line
    and a block's are its lines.
    """

    __slots__ = ("_spelled", "_type", "_uses")
    _sigil = "%"

    def __init__(self, type: Type | None, spelled: str):
        self._type, self._spelled = type, spelled
        self._uses: dict[tuple[Instruction, int], None] = {}

    @property
    def type(self) -> Type:
        """The type.  Raises ValueError where it is not known, as a forward reference's."""
        if self._type is None:
            raise ValueError(f"the type of {self.ref} is not known")
        return self._type

    @property
    def bits(self) -> int:
        """The width of an integer; 0 of what is none."""
        type = self.type
        return type.bits if isinstance(type, IntType) else 0

    @property
    def name(self) -> str:
        """The name without sign and quotes; that of a value without one is its number."""
        return decode_name(self._spelled)

    @property
    def ref(self) -> str:
        """The value as an operand is written: `%x`, `@g`, `7`; "" of what gives none, as `ret`."""
        return self._sigil + self._spelled if self._spelled else ""

    @property
    def uses(self) -> list[Use]:
        """The uses: who, and as which operand.  Debug information does not count, and of constants
        nothing is known."""
        return [Use(*use) for use in self._uses if use[0].counts(use[1])]

    @property
    def users(self) -> list[Instruction]:
        """The instructions that use it, each once."""
        return list(dict.fromkeys([use.user for use in self.uses]))

    @property
    def debug_users(self) -> list[Instruction]:
        """The debug records, and calls with metadata, that name it."""
        found = [user for user, index in self._uses if not user.counts(index)]
        return list(dict.fromkeys(found))

    def replace_all_uses_with(self, other: Value) -> None:
        """Whoever uses it uses the other; debug information follows.  Raises TypeError where the
        other is of another type."""
        if other is not self:
            for user, index in list(self._uses):
                user.set_operand(index, other)

    def _add_use(self, user: Instruction, index: int) -> None:
        self._uses[user, index] = None

    def _drop_use(self, user: Instruction, index: int) -> None:
        self._uses.pop((user, index), None)

    def __str__(self) -> str:
        return self.ref

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._type or ''} {self.ref}>".replace("  ", " ")


class Constant(Value):
    """A constant's text: a number, `null`, `poison`, an expression.  Two of one type and one text
    are equal."""

    __slots__ = ()
    _sigil = ""

    def _add_use(self, user: Instruction, index: int) -> None:
        pass  # nor does LLVM: `1` is used by whoever needs it

    @property
    def name(self) -> str:
        return ""

    @property
    def value(self) -> int | float | None:
        """The number of an integer, signed as LLVM prints it (of `i1`, 0 and 1), or of a float or
        double; None of all else: `undef`, `poison`, expressions, vectors."""
        text, type = self._spelled, self.type
        if isinstance(type, IntType):
            return _integer(text, type.bits)
        if isinstance(type, FloatType) and type.name in ("float", "double"):
            try:
                if _DOUBLE.fullmatch(text):  # a float's too are those of a double
                    number: float = struct.unpack("<d", int(text, 16).to_bytes(8, "little"))[0]
                    return number
                return 0.0 if text == "zeroinitializer" else float(text)
            except ValueError:
                return None
        return None

    @property
    def signed(self) -> int | None:
        """The number of an integer in two's complement: `i1 true` is -1; None of what is none."""
        value, bits = self.unsigned, self.bits
        return value if value is None or not value >> (bits - 1) else value - (1 << bits)

    @property
    def unsigned(self) -> int | None:
        """The number of an integer, from 0 on; None of what is none."""
        value = self.value
        return value & ((1 << self.bits) - 1) if isinstance(value, int) else None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Constant):
            return NotImplemented
        return self._spelled == other._spelled and self._type == other._type

    def __hash__(self) -> int:
        return hash(self._spelled)


def _integer(text: str, bits: int) -> int | None:
    if text in ("true", "false", "zeroinitializer"):
        return int(text == "true")
    if _INTEGER.fullmatch(text):
        return int(text)
    if match := _HEX.fullmatch(text):
        number = int(match[2], 16)
        return number - (1 << bits) if match[1] == "s" and number >> (bits - 1) else number
    return None


def const(type: Type | str, value: int | float | str) -> Constant:
    """A constant: `const("i32", 7)`, `const(v.type, "poison")`, `const("double", 0.5)`.

    An integer is cut to the bits of its type, as the machine would: `const("i8", 255)` is -1.
    """
    type = as_type(type)
    if isinstance(type, IntType) and isinstance(value, int):
        number = value & ((1 << type.bits) - 1)
        if type.bits == 1:
            return Constant(type, "true" if number else "false")
        if number >> (type.bits - 1):
            number -= 1 << type.bits
        return Constant(type, str(number))
    if isinstance(type, FloatType) and isinstance(value, (int, float)):
        if type.name not in ("float", "double"):
            raise ValueError(f"a number of the type {type} is given as text, as LLVM writes it")
        if type.name == "float":
            (value,) = struct.unpack("<f", struct.pack("<f", value))
        return Constant(type, f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}")
    return Constant(type, str(value))


def as_type(type: Type | str) -> Type:
    """A type, or what its text spells.  Raises TypeSyntaxError."""
    return parse_type(type) if isinstance(type, str) else type


class Global(Value):
    """A function, variable or alias of the module, as instructions name it.  Uses in the first
    values of variables, and within constant expressions, are not counted."""

    __slots__ = ()
    _sigil = "@"


class Argument(Value):
    """A parameter of a function: the how-manieth it is in `index`."""

    __slots__ = ("index",)
    index: int

    def __init__(self, type: Type | None, spelled: str, index: int):
        super().__init__(type, spelled)
        self.index = index


def canonical(spelled: str) -> str:
    """A name as it is written, in the one form that is used where names are looked up."""
    return quote_name(decode_name(spelled)) if spelled[:1] == '"' else spelled


def is_number(spelled: str) -> bool:
    """True of the number of a value that has no name."""
    return spelled.isascii() and spelled.isdigit()
