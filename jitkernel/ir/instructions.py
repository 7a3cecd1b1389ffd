"""Bodies cut into blocks and instructions, and what one instruction's text says of itself: its
name, its opcode, the type of its value and where it leads.

IR writes the type of every operand, so the text alone is enough; only the shape of named types is
looked up.  Whether the instruction is valid is LLVM's business: for text it would refuse, the
answers here are void or None.  Start from `blocks` and `Instruction.read`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from jitkernel.ir.keywords import BINARY_OPCODES, CAST_OPCODES, OPCODES, TERMINATORS
from jitkernel.ir.module import Entity
from jitkernel.ir.names import NAME, SKIP, decode_name
from jitkernel.ir.text import after_flags, after_space, commas, line_end, without_comments
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
from jitkernel.record import NamedTuple, record
from jitkernel.regex import regex

_HEAD = regex(
    rf"\s*(?:(%{NAME})\s*=\s*)?"
    r"(?:(?:tail|musttail|notail)\s+(?=call\b))?([a-z_]+)(?![-\w$.:])"
)
_TO = regex(SKIP + r"|(?<![-\w$.%@])to(?![-\w$.])")
_LABEL = regex(f"({NAME}):")
# What an instruction goes on with at a new line: `to label` of an invoke, clauses of a landingpad;
# not a block's label, `cleanup:` or `catch.2:`.
CONTINUES = regex(r"(?:cleanup|catch|filter|unwind)(?![-\w$.:])|to\s+label\b|,")
_LABELLED = regex(r'\basm\b[^"\n]*"[^"\n]*(?:(?<![\w$%.])|(?<=\\0[9A]))[A-Za-z_.][\w.]*:')
# What a line of a body begins with that goes on with nothing: an instruction, a label, a record.
_STARTS = regex(
    rf"%{NAME}\s*=(?!=)|#dbg_|uselistorder|(?:{'|'.join(sorted(OPCODES))})(?![-\w$.:(])|{NAME}:"
)
# What an instruction begins with, and brackets.
_BEGINS = regex(
    rf'{SKIP}|[(\[{{<>}}\])]|(?<![-\w$.@%"])(?:(?P<named>%{NAME}\s*=(?!=))|(?P<opcode>(?:(?:tail|'
    r"musttail|notail)\s+)?(?:call|invoke|callbr|store|fence|ret|br|switch|indirectbr|resume|"
    r"unreachable)(?![-\w$.:])))"
)
_TARGET = regex(rf"(?:i\d+ (-?\d+|true|false), )?label %({NAME})")


@record
class Instruction:
    """One instruction: `text` has blanks for comments.  `result` is what stands before the `=`
    (`%x`, empty where there is none), `opcode` is empty in what is none (a bare label); `operands`
    is the offset behind it."""

    text: str
    result: str
    opcode: str
    operands: int

    @staticmethod
    def read(text: str) -> Instruction:
        """The instruction that a text begins with."""
        text = without_comments(text)
        match = _HEAD.match(text)
        if match is None:
            return Instruction(text, "", "", 0)
        return Instruction(text, match[1] or "", match[2], match.end())

    @property
    def returned(self) -> Type | None:
        """The type that a `ret` returns; None where it is none."""
        try:
            return parse_type_at(self.text, self.operands)[0] if self.opcode == "ret" else None
        except TypeSyntaxError:
            return None

    def type(self, named: Mapping[str, str] | None = None) -> Type | None:
        """The type of the value that it gives: VOID where it gives none, None where its text cannot
        be read.  `named` maps names of types to their bodies (`{ i32, i32 }`)."""
        rule = _RULES.get(self.opcode)
        try:
            return rule(_Operands(self.text, self.operands, named or {})) if rule else None
        except (TypeSyntaxError, IndexError, ValueError):
            return None


class Block(NamedTuple):
    """A basic block: its label as written ("" for a first one without), the offset where it begins,
    and where each instruction begins and ends, without a comment behind it."""

    label: str
    start: int
    instructions: list[tuple[int, int]]


def blocks(text: str, start: int, stop: int) -> list[Block]:
    """The blocks of the body between two offsets.  An instruction may go over several lines: in
    brackets, behind a comma, and where the next begins as no instruction does."""
    found = [Block("", start, [])]
    at = after_space(text, start)
    while at < stop:
        if label := _LABEL.match(text, at, stop):
            found.append(Block(label[1], at, []))
            at = after_space(text, label.end())
            continue
        end = min(line_end(text, at), stop)
        following = after_space(text, end)
        while following < stop and (
            text[at:end].rstrip()[-1:] in (",", "=") or not _STARTS.match(text, following)
        ):
            end = min(line_end(text, following), stop)
            following = after_space(text, end)
        found[-1].instructions.append((at, at + len(text[at:end].rstrip())))
        at = following
    return found if found[0].instructions else found[1:]


def apart(text: str, start: int, stop: int) -> list[tuple[int, int]]:
    """The instructions of a line that has several, where each begins and ends."""
    begins: list[int] = []
    depth, named = 0, -1
    for match in _BEGINS.finditer(text, start, stop):
        if match["named"] or match["opcode"]:
            own = named >= 0 and not text[named : match.start()].strip()  # `%x = call`
            if not depth and not own:
                begins.append(match.start())
            named = match.end() if match["named"] else -1
        elif match[0] in "([{<":
            depth += 1
        elif match[0] in ")]}>":
            depth -= 1
    if begins[:1] != [start]:
        return [(start, stop)]
    ends = [*begins[1:], stop]
    return [(a, a + len(text[a:b].rstrip())) for a, b in zip(begins, ends, strict=True)]


def instructions(function: Entity) -> list[str]:
    """The texts of the instructions of a function that is defined, in order."""
    source, (begin, end) = function.source, function.body()
    found = blocks(source, begin + 1, end - 1)
    return [source[start:stop] for block in found for start, stop in block.instructions]


def successors(text: str) -> list[tuple[str, str]]:
    """The labels that a terminator names, each with what leads there: T or F, a switch's value or
    `default`, `unwind`, or nothing."""
    opcode = Instruction.read(text).opcode
    found = [(decode_name(name), value or "") for value, name in _TARGET.findall(text)]
    if opcode == "br" and len(found) == 2:
        return [(found[0][0], "T"), (found[1][0], "F")]
    if opcode == "switch":
        return [(found[0][0], "default"), *found[1:]]
    if opcode in ("invoke", "catchswitch", "cleanupret") and re.search(r"unwind label", text):
        return [*found[:-1], (found[-1][0], "unwind")]
    return found


def has_labelled_assembly(text: str) -> bool:
    """True if there is assembly with a label that is neither a number nor made anew with each
    copy."""
    return _LABELLED.search(text) is not None


class _Operands:
    """The text behind an opcode, cut at the commas outside brackets."""

    def __init__(self, text: str, start: int, named: Mapping[str, str]):
        self.text, self.start, self.named = text, start, named
        # The offsets at which the comma-separated pieces begin.
        self.pieces = [start, *[comma + 1 for comma in commas(text, start)]]

    def type(self, piece: int) -> Type:
        return parse_type_at(self.text, after_flags(self.text, self.pieces[piece]))[0]

    def words(self, piece: int) -> list[str]:
        end = self.pieces[piece + 1] if piece + 1 < len(self.pieces) else len(self.text)
        return self.text[self.pieces[piece] : end].rstrip(",").split()

    def cast(self) -> Type:
        """The type behind the last `to`: those of constants in the operand stand before it."""
        words = [word for word in _TO.finditer(self.text, self.start) if word[0] == "to"]
        if not words:
            raise TypeSyntaxError("a cast without 'to'", self.start)
        return parse_type_at(self.text, words[-1].end())[0]


def truth(type: Type) -> Type:
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
    **dict.fromkeys(
        (*BINARY_OPCODES, *"fneg phi freeze landingpad insertvalue insertelement load".split()),
        lambda o: o.type(0),
    ),
    **dict.fromkeys("select va_arg atomicrmw".split(), lambda o: o.type(1)),
    **dict.fromkeys(CAST_OPCODES, lambda o: o.cast()),
    **dict.fromkeys(TERMINATORS | {"store", "fence"}, lambda o: VOID),
    **dict.fromkeys("catchpad cleanuppad catchswitch".split(), lambda o: _TOKEN_TYPE),
    **dict.fromkeys("call invoke callbr".split(), _call),
    **dict.fromkeys(("icmp", "fcmp"), lambda o: truth(o.type(0))),
    "alloca": _alloca,
    "getelementptr": _getelementptr,
    "cmpxchg": lambda o: StructType((o.type(1), IntType(1))),
    "extractvalue": _extractvalue,
    "extractelement": lambda o: _element(o.type(0)),
    "shufflevector": _shufflevector,
}
