"""Whether a module and the session agree on types; with opaque pointers nothing else would tell.

Start from `check_types`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jitkernel.compiler import Summary
from jitkernel.errors import TypeMismatch
from jitkernel.linker import Symbol, SymbolState
from jitkernel.session.cell import Cell, cells_words
from jitkernel.session.signatures import Signature, Variable, same_type, signature_of, variable_of

if TYPE_CHECKING:
    from jitkernel.session.program import Program

__all__ = ["check_types", "refuse_change"]


def check_types(program: Program, summary: Summary, cell: Cell, old: Cell | None) -> list[str]:
    """Refuse a module that disagrees with the session on a type.

    The names whose definition changes its type although others use the old one: the caller
    refuses those too, or retypes them.  Raises TypeMismatch for everything else.
    """
    symbols, types = program.linker.symbols, summary.types
    changed: list[str] = []
    for f in summary.functions:
        symbol = symbols.get(f.name)
        if symbol is not None and symbol.info is not None:
            _compare(program, symbol, signature_of(f, types), f.defined, cell, old, changed)
        if f.defined and f.name not in changed:
            for _, info in program.libraries.users(f.name, (old, cell)):
                if not info.same(signature_of(f, types)):
                    changed.append(f.name)
                    break
    for v in summary.variables:
        symbol = symbols.get(v.name)
        if symbol is None or symbol.info is None:
            continue
        _compare(program, symbol, variable_of(v, types), v.defined, cell, old, changed)
    for call in summary.calls:
        symbol = symbols.get(call.callee)
        if symbol is not None and symbol.state == SymbolState.DEFINED:
            raise TypeMismatch(
                f"line {call.line}: @{call.callee} is called as {call.type}, but it is "
                f"{symbol.info}; the call would read its arguments wrongly"
            )
    return changed


def _compare(
    program: Program,
    symbol: Symbol,
    new: Signature | Variable,
    defined: bool,
    cell: Cell,
    old: Cell | None,
    changed: list[str],
) -> None:
    known = symbol.info
    if known is new or same_type(known, new):
        return
    if defined:
        provider = program.cell_of(symbol)
        if program.users(symbol, (provider, old, cell)):
            changed.append(symbol.name)
        return
    if symbol.state == SymbolState.FAR or symbol.state == SymbolState.FIXED:
        return
    if not program.users(symbol, (old,)) and symbol.state != SymbolState.DEFINED:
        return
    owner = program.cell_of(symbol)
    if owner is not None and owner is old:
        return
    by = f"cell {owner.number} defines it as" if owner else "earlier cells declare it as"
    raise TypeMismatch(f"@{symbol.name} is declared here as {new}, but {by} {known}")


def refuse_change(
    program: Program, names: Sequence[str], summary: Summary, old: Cell | None
) -> None:
    """Raise the TypeMismatch that names who relies on the old types."""
    types = summary.types
    news = {f.name: str(signature_of(f, types)) for f in summary.functions}
    news |= {v.name: str(variable_of(v, types)) for v in summary.variables}
    lines = []
    for name in names:
        symbol = program.linker.symbols.get(name)
        library = dict(program.libraries.users(name, (old,)))
        known = symbol.info if symbol is not None else next(iter(library.values()))
        users = program.users(symbol, (program.cell_of(symbol), old)) if symbol is not None else []
        cells = sorted({*users, *library})
        lines.append(
            f"@{name} is {known} and would become {news[name]}, but "
            f"{cells_words(cells)} {'uses' if len(cells) == 1 else 'use'} it as it is"
        )
    raise TypeMismatch(
        "\n".join(lines)
        + "\nNothing was changed. Run this cell with %%llvm --retype (the users then "
        f"raise TypeMismatch until they are run again), or %evict @{names[0]} --cascade first"
    )
