"""LLVM types as records: `parse_type` reads their text, `str` writes it as LLVM prints it.

Only the text is known here, not what a target makes of it: sizes and offsets are a `Layout`'s.
Start from `parse_type`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from jitkernel.ir.names import NAME, decode_name, quote_name

__all__ = [
    "ArrayType",
    "FloatType",
    "FunctionType",
    "I8",
    "I32",
    "I64",
    "IntType",
    "NamedType",
    "OtherType",
    "PTR",
    "PointerType",
    "StructType",
    "Type",
    "TypeSyntaxError",
    "VOID",
    "VectorType",
    "VoidType",
    "function_type",
    "is_first_class",
    "parse_type",
    "parse_type_at",
    "resolve",
]


class TypeSyntaxError(ValueError):
    """Text that is no type; `position` is the offset at which reading stopped."""

    def __init__(self, message: str, position: int):
        self.position = position
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class VoidType:
    def __str__(self) -> str:
        return "void"


@dataclass(frozen=True, slots=True)
class IntType:
    bits: int

    def __str__(self) -> str:
        return f"i{self.bits}"


@dataclass(frozen=True, slots=True)
class FloatType:
    """`name` is half, bfloat, float, double, x86_fp80, fp128 or ppc_fp128."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class PointerType:
    space: int = 0

    def __str__(self) -> str:
        return f"ptr addrspace({self.space})" if self.space else "ptr"


@dataclass(frozen=True, slots=True)
class ArrayType:
    count: int
    element: Type

    def __str__(self) -> str:
        return f"[{self.count} x {self.element}]"


@dataclass(frozen=True, slots=True)
class VectorType:
    count: int
    element: Type
    scalable: bool = False

    def __str__(self) -> str:
        return f"<{'vscale x ' if self.scalable else ''}{self.count} x {self.element}>"


@dataclass(frozen=True, slots=True)
class StructType:
    """A literal struct, or the body of a named one."""

    members: tuple[Type, ...]
    packed: bool = False

    def __str__(self) -> str:
        inside = f"{{ {', '.join(map(str, self.members))} }}" if self.members else "{}"
        return f"<{inside}>" if self.packed else inside


@dataclass(frozen=True, slots=True)
class NamedType:
    """`%name`; what it stands for is in a table of named types (see `resolve`)."""

    name: str

    def __str__(self) -> str:
        if self.name.isascii() and self.name.isdigit():
            return f"%{self.name}"  # an unnamed type, by its number
        return "%" + quote_name(self.name)


@dataclass(frozen=True, slots=True)
class FunctionType:
    result: Type
    parameters: tuple[Type, ...]
    variadic: bool = False

    def __str__(self) -> str:
        inside = [str(p) for p in self.parameters] + ["..."] * self.variadic
        return f"{self.result} ({', '.join(inside)})"


@dataclass(frozen=True, slots=True)
class OtherType:
    """What has no bytes: label, metadata, token, x86_amx, opaque, target(...)."""

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

_FLOATS = ("half", "bfloat", "float", "double", "x86_fp80", "fp128", "ppc_fp128")
_WORDS: dict[str, Type] = {
    "void": VOID,
    "ptr": PTR,
    **{name: FloatType(name) for name in _FLOATS},
    **{name: OtherType(name) for name in ("label", "metadata", "token", "x86_amx", "opaque")},
}
MAX_INT_BITS = (1 << 23) - 1  # LLVM's own limit (IntegerType::MAX_INT_BITS)
_MAX_DEPTH = 100

_SPACE = re.compile(r"(?:[ \t\r\n\f\v]+|;[^\n]*)*")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"\d+")
_LOCAL = re.compile(f"%({NAME})")
_TARGET = re.compile(r'\(\s*"[^"]*"[^()]*\)')


class _Reader:
    """A cursor over a text; one method per grammar rule."""

    def __init__(self, text: str, position: int):
        self.text, self.at, self.depth = text, position, 0

    def fail(self, message: str) -> TypeSyntaxError:
        return TypeSyntaxError(message, self.at)

    def space(self) -> None:
        match = _SPACE.match(self.text, self.at)
        if match is not None:  # as always: the pattern matches the empty text
            self.at = match.end()

    def take(self, token: str) -> bool:
        self.space()
        if self.text.startswith(token, self.at):
            self.at += len(token)
            return True
        return False

    def expect(self, token: str) -> None:
        if not self.take(token):
            raise self.fail(f"expected '{token}' in a type")

    def times(self) -> None:
        if self.word() != "x":
            raise self.fail("expected 'x' in a type")
        self.at += 1

    def number(self) -> int:
        self.space()
        match = _NUMBER.match(self.text, self.at)
        if not match or len(match[0]) > 20:
            raise self.fail("expected a number in a type")
        self.at = match.end()
        return int(match[0])

    def word(self) -> str:
        self.space()
        match = _WORD.match(self.text, self.at)
        return match[0] if match else ""

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
                    found = self.parameters(found)
                except TypeSyntaxError:
                    # `i32 (` may begin something else, as in `call void (i32 1)`: not ours.
                    self.at = mark
                    return found
            else:
                self.at = mark
                return found

    def plain(self) -> Type:
        self.space()
        text, start = self.text, self.at
        head = text[start : start + 1]
        if head == "%":
            match = _LOCAL.match(text, start)
            if not match:
                raise self.fail("expected a type")
            self.at = match.end()
            return NamedType(decode_name(match[1]))
        if head == "[":
            self.at += 1
            count = self.number()
            self.times()
            element = self.type()
            self.expect("]")
            return ArrayType(count, element)
        if head == "{":
            return self.struct(packed=False)
        if head == "<":
            self.at += 1
            if self.take("{"):
                self.at -= 1
                body = self.struct(packed=True)
                self.expect(">")
                return body
            scalable = self.word() == "vscale"
            if scalable:
                self.expect("vscale")
                self.times()
            count = self.number()
            self.times()
            element = self.type()
            self.expect(">")
            return VectorType(count, element, scalable)
        return self.named_word()

    def named_word(self) -> Type:
        word = self.word()
        if word[:1] == "i" and word[1:].isdigit():
            bits = int(word[1:]) if len(word) < 10 else MAX_INT_BITS + 1
            if not 0 < bits <= MAX_INT_BITS:
                raise self.fail(f"'{word}' is no type: integers have 1 to {MAX_INT_BITS} bits")
            self.at += len(word)
            return IntType(bits)
        if word == "target":
            match = _TARGET.match(self.text, self.at + len(word))
            if match:
                found = OtherType(word + match[0])
                self.at = match.end()
                return found
        known = _WORDS.get(word)
        if known is None:
            raise self.fail(f"'{word}' is no type" if word else "expected a type")
        self.at += len(word)
        if word == "ptr":
            mark = self.at
            if self.word() == "addrspace":
                self.expect("addrspace")
                self.expect("(")
                space = self.number()
                self.expect(")")
                return PointerType(space)
            self.at = mark
        return known

    def struct(self, packed: bool) -> StructType:
        self.expect("{")
        members: list[Type] = []
        if not self.take("}"):
            members.append(self.type())
            while self.take(","):
                members.append(self.type())
            self.expect("}")
        return StructType(tuple(members), packed)

    def parameters(self, result: Type) -> FunctionType:
        parameters: list[Type] = []
        variadic = False
        if not self.take(")"):
            while True:
                if self.take("..."):
                    variadic = True
                    break
                parameters.append(self.type())
                if not self.take(","):
                    break
            self.expect(")")
        return FunctionType(result, tuple(parameters), variadic)


def parse_type_at(text: str, position: int = 0) -> tuple[Type, int]:
    """The type that begins at `position`, and the offset behind it.  Raises TypeSyntaxError."""
    reader = _Reader(text, position)
    return reader.type(), reader.at


def function_type(text: str) -> FunctionType:
    """The function type that `text` spells.  Raises TypeSyntaxError where it spells another."""
    found = parse_type(text)
    if not isinstance(found, FunctionType):
        raise TypeSyntaxError(f"{found} is not the type of a function", 0)
    return found


@lru_cache(maxsize=4096)
def parse_type(text: str) -> Type:
    """The type that `text` spells, whole.  Raises TypeSyntaxError."""
    found, end = parse_type_at(text)
    reader = _Reader(text, end)
    reader.space()
    if reader.at != len(text):
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
    """Whether a function may return a value of this type and it has bytes to show."""
    return not isinstance(type, (VoidType, FunctionType, OtherType))
