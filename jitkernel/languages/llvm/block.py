"""The function that a cell's instructions become.  Start from `wrap`.

The user's own lines stay where they are: the head of the function goes to the end of the line
before them, the tail to the end of their last line, so that lines and columns in messages are the
cell's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jitkernel.errors import CompileError, Diagnostic
from jitkernel.ir.names import quote_name
from jitkernel.ir.types import (
    VOID,
    ArrayType,
    NamedType,
    StructType,
    Type,
    VectorType,
    is_first_class,
    resolve,
)
from jitkernel.languages.llvm.instructions import (
    instruction_type,
    is_terminator,
    read_instruction,
    return_type,
)
from jitkernel.languages.llvm.plan import BlockAction
from jitkernel.languages.llvm.statements import Kind, Statement

__all__ = ["SCALARS_BY_VALUE", "VALUE_NAME", "Wrapper", "scalar_count", "wrap"]

# The name given to the value shown, where the user gave it none.
VALUE_NAME = "%jk.value"
# Returning an aggregate of more scalars than this takes LLVM seconds to compile.
SCALARS_BY_VALUE = 64


@dataclass(frozen=True, slots=True)
class Wrapper:
    """How a block becomes `define TYPE @name() { ... }`.

    `head` goes in front of the first statement, `naming` (perhaps empty) in front of the last one,
    `tail` behind it.  `type` is the function's result, void where nothing is shown.
    """

    type: Type
    head: str
    naming: str
    tail: str


def wrap(block: BlockAction, name: str, named: Mapping[str, str] | None = None) -> Wrapper:
    """The wrapper of a block.  `named` maps the names of types to their bodies.

    The result's type is that of the first `ret`; a block that just ends gives its last
    instruction's value.  Raises CompileError where both are there and differ, and for a value of
    too many scalars.
    """
    named = named or {}
    last = block.statements[-1]
    types = (return_type(s.text) for s in block.statements)
    returned = next((t for t in types if t is not None), None)
    ended = last.kind is Kind.INSTRUCTION and is_terminator(last.text)
    shown = VOID if ended or last.kind is Kind.LABEL else _shown_type(last, named)
    type = shown if returned is None else returned
    if not ended and returned is not None and shown != returned:
        gives = "nothing" if shown == VOID else str(shown)
        raise _complaint(
            last,
            f"the block returns {returned} above, but its last instruction gives {gives}",
            "end the last block with ret, br or unreachable",
        )
    count = scalar_count(type, named)
    if count > SCALARS_BY_VALUE:
        raise _complaint(
            last,
            f"a value of {count} scalars cannot be shown (at most {SCALARS_BY_VALUE})",
            "keep it in a global or behind a pointer: `@g` alone shows a global of any size",
        )
    head = f"define {type} @{quote_name(name)}() {{"
    head += f" {_entry(block)}"
    if block.statements[0].kind is Kind.LABEL:  # a loop may lead back to it, not to an entry block
        head += f" br label %{block.statements[0].text.partition(':')[0].strip()}"
    naming, tail = "", " }"
    if not ended:
        value = ""
        if type != VOID:
            instruction = read_instruction(last.text)
            value = instruction.result if instruction else ""
            if not value:
                value, naming = VALUE_NAME, f"{VALUE_NAME} ="
        # On a line of its own: the user's last line stays a single instruction.
        tail = f"\nret {type} {value}".rstrip() + " }"
    return Wrapper(type, head, naming, tail)


def _shown_type(statement: Statement, named: Mapping[str, str]) -> Type:
    type = instruction_type(statement.text, named)
    if type is None or not is_first_class(type):
        return VOID
    if isinstance(type, VectorType) and type.scalable:
        return VOID
    return type


def _entry(block: BlockAction) -> str:
    """The label of the first basic block; `entry`, unless the user has one further down."""
    taken = any(
        s.kind is Kind.LABEL and s.text.startswith(("entry:", '"entry":')) for s in block.statements
    )
    return "jk.entry:" if taken else "entry:"


def scalar_count(type: Type, named: Mapping[str, str]) -> int:
    """How many scalars a value holds; a vector is one."""
    counts: dict[str, int] = {}

    def count(type: Type) -> int:
        if isinstance(type, NamedType):
            if type.name not in counts:
                counts[type.name] = 0  # a struct that holds itself is LLVM's to refuse
                body = resolve(type, named)
                counts[type.name] = 1 if isinstance(body, NamedType) else count(body)
            return counts[type.name]
        match type:
            case StructType(members, _):
                return sum(count(m) for m in members)
            case ArrayType(number, element):
                return number * count(element)
        return 1

    return count(type)


def _complaint(statement: Statement, message: str, hint: str) -> CompileError:
    source = " " * (statement.column - 1) + statement.text.partition("\n")[0]
    return CompileError([Diagnostic(message, statement.line, statement.column, source, hint)])
