"""LLVM types as records: `parse_type` reads their text, `str` writes it as LLVM prints it.

Only the text is known here, not what a target makes of it: `values.ir` has sizes and offsets.
Start from `parse_type`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TypeAlias

from jitkernel.ir.keywords import FLOAT_TYPES
from jitkernel.ir.names import NAME, SPACE, decode_name, quote_name
from jitkernel.ir.text import Cursor
from jitkernel.record import record
from jitkernel.regex import regex


class TypeSyntaxError(ValueError):
    """Text that is no type; `position` is the offset at which reading stopped."""

    def __init__(self, message: str, position: int):
        self.position = position
        super().__init__(message)


@record
class VoidType:
    def __str__(self) -> str:
        return "void"


@record
class IntType:
    bits: int

    def __str__(self) -> str:
        return f"i{self.bits}"


@record
class FloatType:
    """`name` is half, bfloat, float, double, x86_fp80, fp128 or ppc_fp128."""

    name: str

    def __str__(self) -> str:
        return self.name


@record
class PointerType:
    space: int = 0

    def __str__(self) -> str:
        return f"ptr addrspace({self.space})" if self.space else "ptr"


@record
class ArrayType:
    count: int
    element: Type

    def __str__(self) -> str:
        return f"[{self.count} x {self.element}]"


@record
class VectorType:
    count: int
    element: Type
    scalable: bool = False

    def __str__(self) -> str:
        return f"<{'vscale x ' if self.scalable else ''}{self.count} x {self.element}>"


@record
class StructType:
    """A literal struct, or the body of a named one."""

    members: tuple[Type, ...]
    packed: bool = False

    def __str__(self) -> str:
        inside = f"{{ {', '.join(map(str, self.members))} }}" if self.members else "{}"
        return f"<{inside}>" if self.packed else inside


@record
class NamedType:
    """`%name`; what it stands for is in a table of named types (see `resolve`)."""

    name: str

    def __str__(self) -> str:
        if self.name.isascii() and self.name.isdigit():
            return f"%{self.name}"  # an unnamed type, by its number
        return "%" + quote_name(self.name)


@record
class FunctionType:
    result: Type
    parameters: tuple[Type, ...]
    variadic: bool = False

    def __str__(self) -> str:
        inside = [str(p) for p in self.parameters] + ["..."] * self.variadic
        return f"{self.result} ({', '.join(inside)})"


@record
class OtherType:
    """A type without bytes: label, metadata, token, x86_amx, opaque, target(...)."""

    text: str

    def __str__(self) -> str:
        return self.text


Type: TypeAlias = (
    VoidType
    | IntType
    | FloatType
    | PointerType
    | ArrayType
    | VectorType
    | StructType
    | NamedType
    | FunctionType
    | OtherType
)

VOID = VoidType()
I8, I32, I64 = IntType(8), IntType(32), IntType(64)
PTR = PointerType()

_WORDS: dict[str, Type] = {
    "void": VOID,
    "ptr": PTR,
    **{name: FloatType(name) for name in (*FLOAT_TYPES, "ppc_fp128")},
    **{name: OtherType(name) for name in ("label", "metadata", "token", "x86_amx", "opaque")},
}
MAX_INT_BITS = (1 << 23) - 1  # LLVM's own limit (IntegerType::MAX_INT_BITS)
_MAX_DEPTH = 100

_WORD = regex(r"[A-Za-z_][A-Za-z0-9_]*")
_SUFFIXES = dict(zip(("f16", "bf16", "f32", "f64", "f80", "f128"), FLOAT_TYPES, strict=True))
_SUFFIX = regex(r"(nx)?(?:v(\d+))?(i\d+|bf16|f16|f32|f64|f80|f128|p(\d+))\Z")
_NUMBER = regex(r"\d{1,20}(?!\d)")
_LOCAL = regex("%" + NAME)
_TIMES = regex(r"x(?!\w)")
_SCALABLE = regex(r"vscale(?!\w)")
_ADDRESS_SPACE = regex(rf"addrspace{SPACE}\(")
_TARGET = regex(r'\(\s*"[^"]*"[^()]*\)')


class _Reader(Cursor):
    """One method per grammar rule."""

    def fail(self, message: str) -> TypeSyntaxError:
        return TypeSyntaxError(message, self.at)

    def expect(self, token: str) -> None:
        if not self.take(token):
            raise self.fail(f"expected '{token}' in a type")

    def number(self) -> int:
        number = self.token(_NUMBER)
        if not number:
            raise self.fail("expected a number in a type")
        return int(number)

    def times(self) -> None:
        if not self.token(_TIMES):
            raise self.fail("expected 'x' in a type")

    def sequence(self, closing: str) -> tuple[int, Type]:
        """`4 x i32` and its bracket."""
        count = self.number()
        self.times()
        element = self.type()
        self.expect(closing)
        return count, element

    def types(self, closing: str) -> tuple[list[Type], bool]:
        """Types between commas and the bracket behind them; whether `...` stands at their end."""
        found: list[Type] = []
        if self.take(closing):
            return found, False
        while not (variadic := closing == ")" and self.take("...")):
            found.append(self.type())
            if not self.take(","):
                break
        self.expect(closing)
        return found, variadic

    def type(self) -> Type:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self.fail("a type nested too deeply")
        found = self.suffixes(self.plain())
        self.depth -= 1
        return found

    def suffixes(self, found: Type) -> Type:
        while True:
            mark = self.at
            if self.take("*"):  # LLVM 22 still reads i32* and makes it ptr
                found = PTR
            elif self.take("("):
                try:
                    parameters, variadic = self.types(")")
                    found = FunctionType(found, tuple(parameters), variadic)
                except TypeSyntaxError:
                    # `i32 (` may begin something else, as in `call void (i32 1)`: not ours.
                    self.at = mark
                    return found
            else:
                self.at = mark
                return found

    def plain(self) -> Type:
        if self.peek() not in ("%", "[", "{", "<"):  # most of them
            return self.named_word()
        if local := self.token(_LOCAL):
            return NamedType(decode_name(local[1:]))
        if self.take("["):
            return ArrayType(*self.sequence("]"))
        if self.take("{"):
            return StructType(tuple(self.types("}")[0]))
        if self.take("<"):
            if self.take("{"):
                body = StructType(tuple(self.types("}")[0]), packed=True)
                self.expect(">")
                return body
            if scalable := bool(self.token(_SCALABLE)):
                self.times()
            return VectorType(*self.sequence(">"), scalable)
        return self.named_word()

    def named_word(self) -> Type:
        self.peek()
        start = self.at
        word = self.token(_WORD)
        if word[:1] == "i" and word[1:].isdigit():
            bits = int(word[1:]) if len(word) < 10 else MAX_INT_BITS + 1
            if 0 < bits <= MAX_INT_BITS:
                return IntType(bits)
            self.at = start
            raise self.fail(f"'{word}' is no type: integers have 1 to {MAX_INT_BITS} bits")
        if word == "target" and (arguments := self.token(_TARGET)):
            return OtherType(word + arguments)
        end = self.at
        if word == "ptr" and self.token(_ADDRESS_SPACE):
            space = self.number()
            self.expect(")")
            return PointerType(space)
        self.at = end if word in _WORDS else start
        if word not in _WORDS:
            raise self.fail(f"'{word}' is no type" if word else "expected a type")
        return _WORDS[word]


def parse_type_at(text: str, position: int = 0) -> tuple[Type, int]:
    """The type that begins at `position`, and the offset behind it.  Raises TypeSyntaxError."""
    reader = _Reader(text, position)
    return reader.type(), reader.at


def types_named(name: str) -> list[str]:
    """The types in an intrinsic's name: of `llvm.memcpy.p0.p0.i64` ptr and i64."""
    found = []
    for part in name.split(".")[2:]:
        match = _SUFFIX.match(part)
        if match is None:
            continue
        space = match[4]
        type = _SUFFIXES.get(match[3], match[3])
        if space is not None:
            type = "ptr" if space == "0" else f"ptr addrspace({space})"
        if match[2]:
            type = f"<{'vscale x ' * bool(match[1])}{match[2]} x {type}>"
        found.append(type)
    return list(dict.fromkeys(found))


@lru_cache(maxsize=1024)
def function_type(text: str) -> FunctionType:
    """The function type that `text` spells.  Raises TypeSyntaxError where it spells another."""
    found = parse_type(text)
    if not isinstance(found, FunctionType):
        raise TypeSyntaxError(f"{found} is not the type of a function", 0)
    return found


@lru_cache(maxsize=4096)
def parse_type(text: str) -> Type:
    """The type that `text` spells, whole.  Raises TypeSyntaxError."""
    reader = _Reader(text)
    found = reader.type()
    if reader.peek():
        raise TypeSyntaxError(f"'{text[reader.at :][:40]}' follows the type {found}", reader.at)
    return found


def resolve(type: Type, named: Mapping[str, str]) -> Type:
    """`type`, or what it names: `named` maps a name to its body's text (`{ i32, i32 }`).

    A name that the table lacks, an opaque one, or one whose body is no type stays as it is.
    """
    seen = set()
    while isinstance(type, NamedType) and type.name in named and type.name not in seen:
        seen.add(type.name)
        try:
            body = parse_type(named[type.name])
        except TypeSyntaxError:
            break
        if isinstance(body, OtherType):
            break
        type = body
    return type


def is_first_class(type: Type) -> bool:
    """True if a function may return a value of this type and it has bytes to show."""
    return not isinstance(type, (VoidType, FunctionType, OtherType))
