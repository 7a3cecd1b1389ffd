"""Variables of the session as values of expressions, with the types that their languages have for
them.  Start from `global_value`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from jitkernel.errors import CompileError, UsageError
from jitkernel.ir.names import CONTROL
from jitkernel.ir.types import Type, parse_type
from jitkernel.linker.records import SymbolState
from jitkernel.session.debugging.callables import in_c
from jitkernel.session.debugging.values import Value
from jitkernel.session.program.signatures import Variable
from jitkernel.session.run.host import SessionHost

if TYPE_CHECKING:
    from jitkernel.linker import Symbol
    from jitkernel.session.core import Core
    from jitkernel.values.datatype import DataType

__all__ = ["global_value", "global_variables", "thread_locals"]

Copies = Callable[["Symbol"], int]


def global_variables(core: Core, copy_of: Copies) -> list[tuple[str, Value]]:
    """The variables that cells have defined, as their languages call them, by name."""
    names = [
        name
        for name, symbol in sorted(core.program.linker.symbols.items())
        if isinstance(symbol.info, Variable) and symbol.state is SymbolState.DEFINED
    ]
    return [(core.program.called(name), value) for name, value in _values(core, names, copy_of)]


def thread_locals(core: Core) -> list[Symbol]:
    """The control blocks of the variables of which each thread has its own."""
    symbols = core.program.linker.symbols
    return [
        s for name, s in symbols.items()
        if name.startswith(CONTROL) and s.state is SymbolState.DEFINED
    ]  # fmt: skip


def global_value(core: Core, name: str, copy_of: Copies) -> Value | None:
    """A variable of the session's; None where there is none of this name.  `copy_of` says where a
    thread's copy is, or why it cannot."""
    symbol = core.program.named(name)
    if symbol is None or symbol.state not in (SymbolState.DEFINED, SymbolState.FAR):
        return None
    if not isinstance(symbol.info, Variable):
        return None
    return next((value for _, value in _values(core, [symbol.name], copy_of)), None)


def _values(core: Core, names: Sequence[str], copy_of: Copies) -> list[tuple[str, Value]]:
    found = []
    wholes = core.prototypes.wholes(names) if core.has_prototypes else {}
    for name in names:
        known = _place(core, name, copy_of)
        if known is None:
            continue
        type, address, missing = known
        where = None if missing else address
        try:
            layout = core.program.layouts(type)
        except CompileError:  # a type of too many parts
            continue
        seen = _seen(core, name, wholes)
        if seen is not None and seen.bare.size == layout.size:
            found.append((name, Value(seen, where, missing=missing)))
            continue
        ir = not core.program.state.notes.language_of(core.program.owner(name))
        made = layout if ir else in_c(layout)
        found.append((name, Value(made, where, ir=ir, missing=missing)))
    return found


def _place(core: Core, name: str, copy_of: Copies) -> tuple[Type, int, str] | None:
    """Type and address of a variable, or why it has none."""
    symbol = core.program.named(name)
    if symbol is not None and isinstance(symbol.info, Variable) and name.startswith(CONTROL):
        type = parse_type(symbol.info.shown)
        try:
            return type, copy_of(symbol), ""
        except UsageError as error:
            return type, 0, f"<{error}>"
    known = SessionHost(core).variable(name)
    return (known[0], known[1], "") if known is not None else None


def _seen(core: Core, name: str, wholes: dict[str, DataType]) -> DataType | None:
    """The type in the language of the definition; None where that is IR's."""
    if (whole := wholes.get(name)) is not None:
        return whole
    said = core.said(name)
    return in_c(said.result) if said is not None and said.result is not None else None
