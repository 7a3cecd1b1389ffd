"""What one instruction's text says of itself: its name, its opcode and the type of its value.

IR writes the type of every operand, so the text alone is enough; only the shape of named types is
looked up.  Whether the instruction is valid is LLVM's business: for text it would refuse, the
answers here are void or None.  Start from `instruction_type`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jitkernel.ir.names import NAME, SKIP, quote_name
from jitkernel.ir.text import closing, commas, without_comments
from jitkernel.ir.types import (
    PTR,
    VOID,
    ArrayType,
    FunctionType,
    IntType,
    OtherType,
    PointerType,
    StructType,
    Type,
    TypeSyntaxError,
    VectorType,
    parse_type_at,
    resolve,
)
from jitkernel.languages.llvm.keywords import BINARY_OPCODES, CAST_OPCODES, TERMINATORS

__all__ = [
    "Instruction",
    "call_declaration",
    "instruction_type",
    "is_terminator",
    "read_instruction",
    "return_type",
]


@dataclass(frozen=True, slots=True)
class Instruction:
    """`result` is the text before the `=` (`%x`, empty where there is none); `operands` the offset
    behind the opcode."""

    result: str
    opcode: str
    operands: int


_HEAD = re.compile(
    rf"\s*(?:(%{NAME})\s*=\s*)?"
    r"(?:(?:tail|musttail|notail)\s+(?=call\b))?([a-z_]+)(?![-\w$.:])"
)
_TO = re.compile(SKIP + r"|(?<![-\w$.%@])to(?![-\w$.])")
# Words between an opcode and its first type: flags, conventions, attributes.
_FLAG = re.compile(
    r"\s*(?!(?:i\d+|void|ptr|half|bfloat|float|double|x86_fp80|fp128|ppc_fp128|x86_amx|label|metadata"
    r"|token|target|asm)\b)([a-z_][a-z_0-9]*|\"[^\"]*\"(?:=\"[^\"]*\")?|#\d+)"
)
_NUMBER = re.compile(r"\s*\d+\b")


def read_instruction(text: str) -> Instruction | None:
    """The head of an instruction, or None for text that is not one (a bare label)."""
    match = _HEAD.match(without_comments(text))
    if not match:
        return None
    return Instruction(match[1] or "", match[2], match.end())


def is_terminator(text: str) -> bool:
    """True if a basic block may end with this instruction."""
    found = read_instruction(text)
    return found is not None and found.opcode in TERMINATORS


def return_type(text: str) -> Type | None:
    """The type that a `ret` returns; None where the text is no `ret`."""
    found = read_instruction(text)
    if found is None or found.opcode != "ret":
        return None
    try:
        return parse_type_at(without_comments(text), found.operands)[0]
    except TypeSyntaxError:
        return None


def instruction_type(text: str, named: Mapping[str, str] | None = None) -> Type | None:
    """The type of the value that an instruction gives: VOID where it gives none, None where its
    text cannot be read.  `named` maps names of types to their bodies (`{ i32, i32 }`)."""
    text = without_comments(text)
    found = read_instruction(text)
    if found is None:
        return None
    rule = _RULES.get(found.opcode)
    if rule is None:
        return None
    try:
        return rule(_Operands(text, found.operands, named or {}))
    except (TypeSyntaxError, IndexError, ValueError):
        return None


def call_declaration(text: str, name: str) -> str:
    """A declaration that would suit the call of `@name` in an instruction's text, as far as the
    text tells: `declare i32 @f(i32, ptr)`."""
    shown = quote_name(name)
    found = read_instruction(text)
    text = without_comments(text)
    at = text.find(f"@{shown}")
    try:
        if found is None or found.opcode not in ("call", "invoke") or at < 0:
            raise TypeSyntaxError("no call", 0)
        type = _Operands(text[:at], found.operands, {}).type(0)
        if isinstance(type, FunctionType):
            return f"declare {type.result} @{shown}{str(type)[len(str(type.result)) + 1 :]}"
        inside = text[at + len(shown) + 1 :].lstrip()
        end = inside.rfind(")")
        if not inside.startswith("(") or end < 0:
            raise TypeSyntaxError("no call", 0)
        arguments = _Operands(inside[:end], 1, {})
        count = len(arguments.pieces) if inside[1:end].strip() else 0
        types = ", ".join(str(arguments.type(i)) for i in range(count))
        return f"declare {type} @{shown}({types})"
    except TypeSyntaxError:
        return f"declare void @{shown}()"


class _Operands:
    """The text behind an opcode, cut at the commas outside brackets."""

    def __init__(self, text: str, start: int, named: Mapping[str, str]):
        self.text, self.start, self.named = text, start, named
        # The offsets at which the comma-separated pieces begin.
        self.pieces = [start, *[comma + 1 for comma in commas(text, start)]]

    def after_flags(self, at: int) -> int:
        """`at`, moved behind words that are no type: `nuw`, `fastcc`, `align 4`, `range(...)`."""
        while True:
            match = _FLAG.match(self.text, at)
            if not match:
                return at
            at = match.end()
            number = _NUMBER.match(self.text, at)
            if number and match[1] in ("cc", "align", "alignstack"):
                at = number.end()
            elif self.text[at : at + 1] == "(":
                at = closing(self.text, at)
                if at < 0:
                    raise TypeSyntaxError("an unclosed bracket", len(self.text))

    def type(self, piece: int) -> Type:
        return parse_type_at(self.text, self.after_flags(self.pieces[piece]))[0]

    def words(self, piece: int) -> list[str]:
        end = self.pieces[piece + 1] if piece + 1 < len(self.pieces) else len(self.text)
        return self.text[self.pieces[piece] : end].rstrip(",").split()

    def cast(self) -> Type:
        """The type behind the last `to`: those of constants in the operand stand before it."""
        words = [word for word in _TO.finditer(self.text, self.start) if word[0] == "to"]
        if not words:
            raise TypeSyntaxError("a cast without 'to'", self.start)
        return parse_type_at(self.text, words[-1].end())[0]


def _truth(type: Type) -> Type:
    """The type of a comparison of two values of `type`."""
    if isinstance(type, VectorType):
        return VectorType(type.count, IntType(1), type.scalable)
    return IntType(1)


def _element(type: Type) -> Type:
    if not isinstance(type, VectorType):
        raise TypeSyntaxError(f"{type} is no vector", 0)
    return type.element


def _call(operands: _Operands) -> Type:
    type = operands.type(0)
    return type.result if isinstance(type, FunctionType) else type


def _alloca(operands: _Operands) -> Type:
    for piece in range(1, len(operands.pieces)):
        match = re.fullmatch(r"addrspace\((\d+)\)", "".join(operands.words(piece)))
        if match:
            return PointerType(int(match[1]))
    return PTR


def _getelementptr(operands: _Operands) -> Type:
    base = operands.type(1)
    if isinstance(base, VectorType):
        return base
    for piece in range(2, len(operands.pieces)):
        try:
            index = operands.type(piece)
        except TypeSyntaxError:  # `!dbg !3`, the tail of an instruction
            break
        if isinstance(index, VectorType):
            return VectorType(index.count, base, index.scalable)
    return base


def _extractvalue(operands: _Operands) -> Type:
    type = operands.type(0)
    for piece in range(1, len(operands.pieces)):
        words = operands.words(piece)
        if not words[0].isdigit():
            break
        type = resolve(type, operands.named)
        if isinstance(type, StructType):
            type = type.members[int(words[0])]
        elif isinstance(type, ArrayType):
            type = type.element
        else:
            raise TypeSyntaxError(f"{type} has no members", 0)
    return type


def _shufflevector(operands: _Operands) -> Type:
    mask = operands.type(2)
    if not isinstance(mask, VectorType):
        raise TypeSyntaxError(f"{mask} is no mask", 0)
    return VectorType(mask.count, _element(operands.type(0)), mask.scalable)


_TOKEN_TYPE = OtherType("token")
_RULES: dict[str, Callable[[_Operands], Type]] = {
    **dict.fromkeys(BINARY_OPCODES, lambda o: o.type(0)),
    **dict.fromkeys(CAST_OPCODES, lambda o: o.cast()),
    **dict.fromkeys(
        "ret br switch indirectbr resume unreachable cleanupret catchret store fence".split(),
        lambda o: VOID,
    ),
    **dict.fromkeys("catchpad cleanuppad catchswitch".split(), lambda o: _TOKEN_TYPE),
    **dict.fromkeys("call invoke callbr".split(), _call),
    **dict.fromkeys(
        "fneg phi freeze landingpad insertvalue insertelement".split(), lambda o: o.type(0)
    ),
    "icmp": lambda o: _truth(o.type(0)),
    "fcmp": lambda o: _truth(o.type(0)),
    "select": lambda o: o.type(1),
    "load": lambda o: o.type(0),
    "va_arg": lambda o: o.type(1),
    "alloca": _alloca,
    "getelementptr": _getelementptr,
    "cmpxchg": lambda o: StructType((o.type(1), IntType(1))),
    "atomicrmw": lambda o: o.type(1),
    "extractvalue": _extractvalue,
    "extractelement": lambda o: _element(o.type(0)),
    "shufflevector": _shufflevector,
}
