"""The text that the compiler gets for a plan: the cell's own lines, and what they need around them.

Named types of earlier cells go before the text, declarations after it (before it where they are
many), the wrapper function's head and tail into line ends: line and column of everything the user
wrote stay as they are.
Start from `assemble`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Literal, TypeAlias

from jitkernel.errors import CompileError
from jitkernel.ir.instructions import Instruction
from jitkernel.ir.keywords import TERMINATORS
from jitkernel.ir.module import symbols_of
from jitkernel.ir.names import locals_in, quote_name, symbols_in, verbatim_in, written
from jitkernel.ir.statements import Kind, Statement
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
from jitkernel.languages.llvm.plan import BlockAction, Plan
from jitkernel.languages.llvm.prelude import PRELUDE
from jitkernel.reach import postorder
from jitkernel.record import record

# A table that names so many symbols before they are declared takes LLVM long: it makes the whole
# table again for each.
_MANY = 500

# The name given to the value shown, where the user gave it none.
_VALUE_NAME = "%jk.value"
# Returning an aggregate of more scalars than this takes LLVM seconds to compile.
_SCALARS_BY_VALUE = 64

# From a symbol's name to its declaration's text (`declare i32 @sq(i32)`), None where unknown.
Known = Callable[[str], str | None]


@record
class Assembled:
    """A module's text.

    The cell's line 1 is line `first_line` of `source`.  `block` is the name of the function that
    runs the cell's instructions, empty without any; `block_type` what it returns.  `declared` are
    the names that were declared for the cell, `missing` those that nobody knows.
    """

    source: str
    first_line: int
    block: str
    block_type: Type | None
    declared: frozenset[str]
    missing: frozenset[str]


def assemble(
    plan: Plan,
    known: Known = lambda name: None,
    named_types: Mapping[str, str] | None = None,
    *,
    block_name: str = "jk.block",
    prelude: bool = True,
    part: Literal["all", "entities", "block"] = "all",
) -> Assembled:
    """The module of a plan, entities and instruction block in one.

    `known` gives the declarations of the session's symbols, `named_types` the bodies of its named
    types.  `part` leaves the block or the entities out: a block that uses the cell's own entities
    then finds them through `known` (see `stands_alone`).  Raises CompileError for a block that
    cannot be wrapped.
    """
    named_types = named_types or {}
    block = plan.block if part != "entities" else None
    entities = plan.entities if part != "block" else _defining_nothing(plan)
    type: Type | None = None
    around: _Around = {}
    if block is not None:
        type, around = _wrap(block, block_name, {**named_types, **plan.types})
    text = _place((*entities, *(block.statements if block else ())), around)
    own = plan.declares if part == "block" else plan.defines | plan.declares
    uses = plan.uses if part == "all" or plan.block is None else symbols_in(text)
    others = uses - own - {block_name}
    wanted = sorted(n for n in others if not n.startswith("llvm.")) if others else []
    texts: dict[str, str] = {}
    for name in wanted:
        if declaration := known(name) or (prelude and PRELUDE.get(name)):
            texts[name] = declaration
    declared = frozenset(texts)
    for name, spelled in verbatim_in(text).items():
        if name in texts:
            texts[spelled] = texts[name].replace(written(name), spelled, 1)
    after = "\n".join([*texts.values(), ""])
    before = ""
    if named_types:
        before = _type_definitions("\n".join((text, after)), named_types, plan.types)
    first_line = 2
    if len(declared) > _MANY and "%" not in after:  # a type of the cell's own has to come first
        before, after, first_line = f"{before}\n{after}", "", 3 + len(declared)
    return Assembled(
        "".join((before, text, "\n", after)),
        first_line,
        block_name if block else "",
        type,
        declared,
        frozenset(wanted) - declared,
    )


def stands_alone(plan: Plan) -> bool:
    """True if the block can be a module of its own: it uses no name that only its cell can see
    (private and internal symbols, metadata, attribute groups)."""
    block = plan.block
    if block is None:
        return True
    texts = [s.text for s in block.statements]
    if any(symbols_in(text) & plan.local_names for text in texts):
        return False
    return not any("!" in t or "#" in t for t in texts)


def _defining_nothing(plan: Plan) -> tuple[Statement, ...]:
    """Types and declarations, which a block may use and two modules may both have."""
    kept = []
    for statement in plan.entities:
        symbols = [*symbols_of(statement.text)]
        declares = symbols and all(symbol.is_declaration for symbol in symbols)
        if declares or statement.kind is Kind.TYPE or statement.text.startswith("attributes"):
            kept.append(statement)
    return tuple(kept)


def _place(statements: Iterable[Statement], around: _Around) -> str:
    """Statements on the lines and columns that they have in the cell.  Line 0 is one of our own
    before the cell's first."""
    parts: list[str] = []
    line, column = 0, 1

    def append(text: str) -> None:
        nonlocal line, column
        parts.append(text)
        lines = text.count("\n")
        line += lines
        column = len(text) - text.rfind("\n") if lines else column + len(text)

    for statement in sorted(statements, key=attrgetter("start")):
        before, behind = around.get(statement.start, ("", ""))
        if before:
            append(before)
        if statement.line > line:
            parts.append("\n" * (statement.line - line))
            line, column = statement.line, 1
        gap = statement.column - column
        if gap < 0 or (gap == 0 and column > 1):
            gap = 1  # what was put before it took its place; only this line's columns differ
        append(" " * gap + statement.text + behind)
    return "".join(parts) if line else "".join([*parts, "\n"])


def _type_definitions(text: str, named_types: Mapping[str, str], own: Mapping[str, str]) -> str:
    """One line that defines the session's types which a text mentions, and what those mention:
    those first, as LLVM wants it of names for what is no struct."""
    others = named_types.keys() - own.keys()

    def mentions(text: str) -> list[str]:
        return sorted(locals_in(text) & others)

    found = postorder(mentions(text), lambda name: mentions(named_types[name]))
    return " ".join(f"%{quote_name(name)} = type {named_types[name]}" for name in found)


# -- the function that runs the cell's instructions ------------------------------------------------


#: What is put in front of a statement and behind it, by the offset where it starts.
_Around: TypeAlias = dict[int, tuple[str, str]]


def _wrap(block: BlockAction, name: str, named: Mapping[str, str]) -> tuple[Type, _Around]:
    """The result's type, and what makes `define TYPE @name() { ... }` of a block: a head in front
    of its first statement, a name and an end around its last.  `named` maps the names of types to
    their bodies.

    The result's type is that of the first `ret`; a block that just ends gives its last
    instruction's value, VOID where nothing is shown.  Raises CompileError where both are there and
    differ, and for a value of too many scalars.
    """
    first, last = block.statements[0], block.statements[-1]
    types = (Instruction.read(s.text).returned for s in block.statements)
    returned = next((t for t in types if t is not None), None)
    instruction = Instruction.read(last.text)
    ended = last.kind is Kind.INSTRUCTION and instruction.opcode in TERMINATORS
    shown = VOID if ended or last.kind is Kind.LABEL else _shown_type(instruction, named)
    type = shown if returned is None else returned
    if not ended and returned is not None and shown != returned:
        gives = "nothing" if shown == VOID else str(shown)
        words = f"the block returns {returned} above, but its last instruction gives {gives}"
        hint = "end the last block with ret, br or unreachable"
        raise CompileError([last.diagnostic(words, hint)])
    count = _scalar_count(type, named)
    if count > _SCALARS_BY_VALUE:
        words = f"a value of {count} scalars cannot be shown (at most {_SCALARS_BY_VALUE})"
        hint = "keep it in a global or behind a pointer: `@g` alone shows a global of any size"
        raise CompileError([last.diagnostic(words, hint)])
    head = f" define {type} @{quote_name(name)}() {{ {_entry(block)}"
    if first.kind is Kind.LABEL:  # a loop may lead back to it, not to an entry block
        head += f" br label %{first.text.partition(':')[0].strip()}"
    naming, tail = "", " }"
    if not ended:
        value = ""
        if type != VOID:
            value = instruction.result or _VALUE_NAME
            naming = "" if instruction.result else f" {_VALUE_NAME} ="
        # On a line of its own: the user's last line stays a single instruction.
        tail = f"\nret {type} {value}".rstrip() + " }"
    around = {first.start: (head, ""), last.start: (naming, tail)}
    if first is last:
        around[first.start] = (head + naming, tail)
    return type, around


def _shown_type(instruction: Instruction, named: Mapping[str, str]) -> Type:
    type = instruction.type(named)
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


def _scalar_count(type: Type, named: Mapping[str, str]) -> int:
    """The number of scalars that a value holds; a vector is one."""
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
