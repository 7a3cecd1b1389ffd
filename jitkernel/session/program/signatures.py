"""The types of symbols, spelled without names, and whether a module agrees with them.

LLVM's pointers are opaque, so nothing but this comparison notices that a caller and a callee
disagree.  Named types are expanded: two cells may call the same structure by different names.
Start from `Signature`, `Variable` and `check_types`; `TypeLayouts` says where LLVM puts the parts
of a type, `declaration` declares a symbol for a cell that uses it.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from jitkernel.compiler.records import CallInfo, FunctionInfo, Summary, VariableInfo
from jitkernel.errors import TypeMismatch, UsageError
from jitkernel.ir.expansion import Expansion, is_digest
from jitkernel.ir.names import CONTROL, quote_name, symbols_in
from jitkernel.ir.text import split_at_commas
from jitkernel.ir.types import FunctionType, NamedType, Type, function_type
from jitkernel.linker import Symbol, SymbolState
from jitkernel.printable import shortened
from jitkernel.record import NamedTuple
from jitkernel.regex import regex
from jitkernel.session.program.cell import Cell, cells_words
from jitkernel.values.datatype import DataType
from jitkernel.values.ir import data_type

if TYPE_CHECKING:
    from jitkernel.languages.prototypes import Spelling
    from jitkernel.session.engine import Engine
    from jitkernel.session.program.program import Program

_THREAD_LOCAL = "external thread_local"
_ONE = regex(r"(?:(\d+):)?(.*)", re.DOTALL)


class Signature(NamedTuple):
    """A function's type with everything that its calling convention depends on.

    `type` has named types expanded and decides equality; `shown` is as the user wrote it.
    """

    type: str
    convention: str
    attributes: str
    features: str
    shown: str

    def same(self, other: Signature) -> bool:
        """True if a call compiled for one reaches the other rightly."""
        return self[:4] == other[:4]

    def __str__(self) -> str:
        words = [w for w in (self.convention, self.shown) if w]
        if self.attributes:
            words.append(f"[{self.attributes}]")
        if self.features:
            words.append(f"[{self.features}]")
        return " ".join(words)

    @property
    def function(self) -> FunctionType:
        """The type as a record, with the user's names."""
        return function_type(self.shown)


class Variable(NamedTuple):
    """A global variable's type."""

    type: str
    constant: bool
    shown: str

    def same(self, other: Variable) -> bool:
        """True if code compiled for one may use the other's storage."""
        return self.type == other.type

    def __str__(self) -> str:
        return f"{'constant' if self.constant else 'global'} {self.shown}"


def same_type(one: Signature | Variable, other: Signature | Variable) -> bool:
    """True if two of what symbols are known as agree."""
    if isinstance(one, Signature):
        return isinstance(other, Signature) and one.same(other)
    return isinstance(other, Variable) and one.same(other)


def expand(text: str, types: Mapping[str, str]) -> str:
    """`text` with every named type replaced by its body, at any depth; opaque ones stay.

    A digest of it where it would be too long: see `Expansion`.
    """
    return Expansion(types.get)(text) if "%" in text else text


_latest: tuple[Mapping[str, str], Expansion] = ({}, Expansion(lambda name: None))


def _expand(text: str, types: Mapping[str, str]) -> str:
    """The same for the types of a module, which never change: each is looked at once."""
    global _latest
    if "%" not in text:
        return text
    of, expansion = _latest
    if of is not types:
        _latest = types, (expansion := Expansion(types.get))
    return expansion(text)


@lru_cache(maxsize=1024)
def shared_signature(*parts: str) -> Signature:
    return Signature(*parts)


@lru_cache(maxsize=1024)
def shared_variable(type: str, constant: bool, shown: str) -> Variable:
    return Variable(type, constant, shown)


def signature_of(info: FunctionInfo, types: Mapping[str, str]) -> Signature:
    """The signature of a function that a module defines or declares; equal ones are one object."""
    type, attributes = info.type, info.attributes
    if "%" in type or "%" in attributes:
        return shared_signature(
            _expand(type, types), info.convention, _expand(attributes, types), info.features, type
        )
    return shared_signature(type, info.convention, attributes, info.features, type)


def variable_of(info: VariableInfo, types: Mapping[str, str]) -> Variable:
    """The type of a variable that a module defines or declares; equal ones are one object."""
    return shared_variable(_expand(info.type, types), info.constant, info.type)


#: The names of a module, functions first: the type of each, and whether it defines it.
Described: TypeAlias = list[tuple[str, Signature | Variable, bool]]
#: The names that the text of each cell mentions, of those that were read; None: it has no text.
_Mentions: TypeAlias = dict[int, frozenset[str] | None]


def described(summary: Summary) -> Described:
    """The names of a module, with their types."""
    found: Described = []
    for f in summary.functions:
        found.append((f.name, signature_of(f, summary.types), f.defined))
    for v in summary.variables:
        found.append((v.name, variable_of(v, summary.types), v.defined))
    return found


def imports(known: Described) -> dict[str, str]:
    """The names that a module only declares, each a `function` or a `variable`."""
    found: dict[str, str] = {}
    for name, info, defined in known:
        if not defined:
            found[name] = "function" if isinstance(info, Signature) else "variable"
    return found


class TypeLayouts:
    """Layouts by type, named types as `named` has them at that time; one for a whole session.

    This is all that a value keeps besides its bytes.  It keeps neither cell, run nor session alive.
    """

    __slots__ = ("_engine", "_named")

    def __init__(self, engine: Engine, named: Mapping[str, str]):
        self._engine = weakref.ref(engine)
        self._named = named

    def __call__(self, type: Type) -> DataType:
        """The layout of a type.  Raises UsageError where nobody knows it (any more)."""
        if isinstance(type, NamedType) and type.name not in self._named:
            raise UsageError(f"%{type.name} is a type that this session does not know")
        text = str(type)
        return data_type(self.text(type) if "%" in text else text)

    def read(self, address: int, size: int) -> bytes:
        """Bytes of the program's memory; fewer, or none, where there is no more."""
        engine = self._engine()
        return b"" if engine is None or engine.closed else engine.read(address, size)

    def text(self, type: Type) -> str:
        """The type without names."""
        text = str(type)
        if "%" not in text:
            return text
        text = expand(text, self._named)
        if is_digest(text):
            shown = str(type)
            raise UsageError(
                f"{shown if len(shown) < 80 else 'this type'} has too many parts to be a value: "
                "use a pointer to it"
            )
        return text


def attributes_of(text: str) -> tuple[str, dict[int, str]]:
    """`signext|0:signext,1:sret({ i32 })` as IR text: the result's, and each parameter's."""
    result, _, rest = text.partition("|")
    found: dict[int, str] = {}
    index = -1
    for piece in split_at_commas(rest):
        match = _ONE.fullmatch(piece.strip())
        if match is None or not match[2]:
            continue
        if match[1] is not None:
            index = int(match[1])
        found[index] = f"{found[index]} {match[2]}" if index in found else match[2]
    return result.replace(",", " "), found


def declaration(name: str, info: Signature | Variable) -> str:
    """IR text that declares a symbol: `declare fastcc signext i8 @f(i32, ptr sret(%pt))`.

    The control block of a thread-local variable declares that.
    """
    head, tail = _parts(info)
    if name.startswith(CONTROL):
        name, tail = name.removeprefix(CONTROL), tail.replace("external", _THREAD_LOCAL, 1)
    return f"{head}@{quote_name(name)}{tail}"


def too_long(info: Signature | Variable) -> bool:
    """True if it passes a value of so many parts that its type cannot be written without names:
    then a cell has to declare it."""
    return isinstance(info, Signature) and is_digest(info.attributes)


@lru_cache(maxsize=1024)
def _parts(info: Signature | Variable) -> tuple[str, str]:
    if isinstance(info, Variable):
        return "", f" = external {'constant' if info.constant else 'global'} {info.shown}"
    function = function_type(info.shown)
    on_result, on_parameter = attributes_of(info.attributes)
    parameters = [
        f"{p} {on_parameter[i]}" if i in on_parameter else str(p)
        for i, p in enumerate(function.parameters)
    ]
    if function.variadic:
        parameters.append("...")
    words = [w for w in ("declare", info.convention, on_result, str(function.result)) if w]
    return " ".join(words) + " ", f"({', '.join(parameters)})"


def check_types(
    program: Program,
    known: Described,
    calls: Iterable[CallInfo],
    cell: Cell,
    old: Cell | None,
    remade: Sequence[Cell] = (),
    unchanged: frozenset[str] = frozenset(),
) -> list[str]:
    """Refuse a module that disagrees with the session on a type.

    The names whose definition changes its type although others use the old one: the caller
    refuses those too, or retypes them.  `remade` cells follow, whatever they use; `unchanged`
    variables have the type that they had.  Raises TypeMismatch for everything else.
    """
    symbols = program.linker.symbols
    changed: dict[str, None] = {}

    others: list[Cell] = []
    read: _Mentions = {}

    def excluding() -> list[Cell]:
        if not others:
            others[:] = [cell, *remade, *_leaving(program, known, old)]
        return others

    for name, info, defined in known:
        symbol = symbols.get(name)
        if symbol is None or symbol.state != SymbolState.DEFINED:
            _check_threads(program, name, excluding)
        same = defined and name.removeprefix(CONTROL) in unchanged
        if symbol is not None and symbol.info is not None and not same:
            _compare(program, symbol, info, defined, excluding, changed, read)
        if defined and isinstance(info, Signature) and name not in changed:
            for _, declared in program.uses.of_library(name, (old, cell)):
                if not info.same(declared):
                    changed[name] = None
    for call in calls:
        symbol = symbols.get(call.callee)
        if symbol is not None and symbol.state == SymbolState.DEFINED:
            raise TypeMismatch(
                f"line {call.line}: {program.called(call.callee)} is called as {call.type}, but "
                f"it is {symbol.info}; the call would read its arguments wrongly"
            )
    return list(changed)


def _check_threads(program: Program, name: str, excluding: Callable[[], list[Cell]]) -> None:
    """Refuse a name that means one variable here and one for each thread elsewhere."""
    bare = name.removeprefix(CONTROL)
    other = program.linker.symbols.get(bare if bare != name else CONTROL + name)
    if other is None or other.state != SymbolState.DEFINED:
        return
    owner = program.cells.get(other.cell)
    if owner is None or owner in excluding():
        return
    here, there = "thread-local", "is not"
    if bare == name:
        here, there = "not thread-local", "is"
    raise TypeMismatch(
        f"{program.called(bare)} is {here} in this cell, and cell {owner.number}'s {there}; "
        f"%evict {program.called(bare)} --cascade removes that one"
    )


def _leaving(program: Program, known: Described, old: Cell | None) -> list[Cell]:
    """The cells that a module supersedes: what they take names for does not matter any more."""
    symbols = program.linker.symbols
    new = {name for name, _, defined in known if defined}
    used = {name for name, _, defined in known if not defined}
    providers = {program.cells.get(s.cell) for n in new if (s := symbols.get(n)) is not None}
    found = [c for c in providers if c is not None and c is not old and new.issuperset(c.names)]
    if old is not None and not any(
        name in used or set(symbols[name].users or ()) - {old.image}
        for name in old.names
        if name not in new
    ):
        found.append(old)
    return found


def _compare(
    program: Program,
    symbol: Symbol,
    new: Signature | Variable,
    defined: bool,
    excluding: Callable[[], list[Cell]],
    changed: dict[str, None],
    read: _Mentions,
) -> None:
    known = symbol.info
    if known is new or same_type(known, new):
        return
    if defined:
        if _users(program, symbol, excluding(), read):
            changed[symbol.name] = None
        return
    if symbol.state == SymbolState.FAR or symbol.state == SymbolState.FIXED:
        return
    if symbol.state == SymbolState.DEFINED:
        owner = program.cells.get(symbol.cell)
        by = f"cell {owner.number} defines it as" if owner else "the session defines it as"
    else:
        users = program.users(symbol, excluding())
        if not users:
            return
        by = f"{cells_words(users)} {'uses' if len(users) == 1 else 'use'} it as"
    other = _shown(known)
    if other == _shown(new):  # a type of one name, and two bodies
        other += ", with another body of that type (a header that changed?): run it again"
    raise TypeMismatch(
        f"{program.called(symbol.name)} is declared here as {_shown(new)}, but {by} {other}"
    )


def _users(
    program: Program, symbol: Symbol, excluding: Iterable[Cell], read: _Mentions
) -> list[int]:
    """The cells that rely on the type of a symbol, except those of `excluding`: whoever has it only
    in a body of others that it holds is made anew with those.  What was `read` is not read
    again."""
    users, name = [], symbol.name.removeprefix(CONTROL)
    for number in program.users(symbol, excluding):
        if number not in read:
            record = program.store.get(number)
            read[number] = symbols_in(record.module) if record and record.module else None
        names = read[number]
        if names is None or name in names:
            users.append(number)
    return users


def _shown(info: Signature | Variable | None) -> str:
    return shortened(str(info), 1_000)


def refuse_change(
    program: Program, names: Sequence[str], known: Described, old: Cell | None,
    spelled: Mapping[str, str], said: Callable[[str], Spelling | None],
) -> None:  # fmt: skip
    """Raise the TypeMismatch that names who relies on the old types.

    Languages declare the new ones as `spelled`, and what is there as it is `said`."""
    excluding = _leaving(program, known, old)
    news = {name: str(info) for name, info, _ in known}
    lines: list[str] = []
    read: _Mentions = {}
    for name in names:
        symbol = program.linker.symbols.get(name)
        library = dict(program.uses.of_library(name, (old,)))
        was = symbol.info if symbol is not None else next(iter(library.values()))
        users = _users(program, symbol, excluding, read) if symbol is not None else []
        cells = sorted({*users, *library})
        called, spelling = program.called(name), said(name)
        before = spelling.text if spelling is not None else f"{called} {_shown(was)}"
        after = spelled.get(name, f"{called} {news[name]}")
        if before == after or not (spelling or name in spelled):
            before, after = f"{called} is {_shown(was)} and", news[name]
        lines.append(
            f"{before} would become {shortened(after, 1_000)}, but "
            f"{cells_words(cells)} {'uses' if len(cells) == 1 else 'use'} it as it is"
        )
    raise TypeMismatch(
        "\n".join(lines)
        + f"\nNothing was changed. Run this cell with %%{program.speaks} --retype (the users then "
        "raise TypeMismatch until they are run again), or "
        f"%evict {program.called(names[0])} --cascade first"
    )
