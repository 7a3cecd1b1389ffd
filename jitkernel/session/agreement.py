"""Whether a module and the session agree on types; with opaque pointers nothing else would tell.

Start from `check_types`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from jitkernel.compiler import Summary
from jitkernel.errors import TypeMismatch
from jitkernel.linker import Symbol, SymbolState
from jitkernel.printable import written
from jitkernel.session.cell import Cell, cells_words
from jitkernel.session.signatures import Signature, Variable, same_type, signature_of, variable_of
from jitkernel.session.status import shortened

if TYPE_CHECKING:
    from jitkernel.session.program import Program

__all__ = ["check_types", "refuse_change"]


def check_types(program: Program, summary: Summary, cell: Cell, old: Cell | None) -> list[str]:
    """Refuse a module that disagrees with the session on a type.

    The names whose definition changes its type although others use the old one: the caller
    refuses those too, or retypes them.  Raises TypeMismatch for everything else.
    """
    symbols, types = program.linker.symbols, summary.types
    changed: dict[str, None] = {}

    @cache
    def apart() -> list[Cell]:
        return [cell, *_leaving(program, summary, old)]

    for f in summary.functions:
        symbol = symbols.get(f.name)
        if symbol is not None and symbol.info is not None:
            _compare(program, symbol, signature_of(f, types), f.defined, apart, changed)
        if f.defined and f.name not in changed:
            for _, info in program.libraries.users(f.name, (old, cell)):
                if not info.same(signature_of(f, types)):
                    changed[f.name] = None
                    break
    for v in summary.variables:
        symbol = symbols.get(v.name)
        if symbol is None or symbol.info is None:
            continue
        _compare(program, symbol, variable_of(v, types), v.defined, apart, changed)
    for call in summary.calls:
        symbol = symbols.get(call.callee)
        if symbol is not None and symbol.state == SymbolState.DEFINED:
            raise TypeMismatch(
                f"line {call.line}: {written(call.callee)} is called as {call.type}, but it is "
                f"{symbol.info}; the call would read its arguments wrongly"
            )
    return list(changed)


def _leaving(program: Program, summary: Summary, old: Cell | None) -> list[Cell]:
    """The cells that a module supersedes: what they take names for does not matter any more."""
    symbols = program.linker.symbols
    every = [(f.name, f.defined) for f in summary.functions]
    every += [(v.name, v.defined) for v in summary.variables]
    new = {name for name, defined in every if defined}
    used = {name for name, defined in every if not defined}
    providers = {program.cell_of(s) for n in new if (s := symbols.get(n)) is not None}
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
    apart: Callable[[], list[Cell]],
    changed: dict[str, None],
) -> None:
    known = symbol.info
    if known is new or same_type(known, new):
        return
    if defined:
        if program.users(symbol, apart()):
            changed[symbol.name] = None
        return
    if symbol.state == SymbolState.FAR or symbol.state == SymbolState.FIXED:
        return
    if symbol.state == SymbolState.DEFINED:
        owner = program.cell_of(symbol)
        by = f"cell {owner.number} defines it as" if owner else "the session defines it as"
    else:
        users = program.users(symbol, apart())
        if not users:
            return
        by = f"{cells_words(users)} {'uses' if len(users) == 1 else 'use'} it as"
    raise TypeMismatch(
        f"{written(symbol.name)} is declared here as {_shown(new)}, but {by} {_shown(known)}"
    )


def _shown(info: Signature | Variable | None) -> str:
    return shortened(str(info), 1_000)


def refuse_change(
    program: Program, names: Sequence[str], summary: Summary, old: Cell | None
) -> None:
    """Raise the TypeMismatch that names who relies on the old types."""
    types, apart = summary.types, _leaving(program, summary, old)
    news = {f.name: str(signature_of(f, types)) for f in summary.functions}
    news |= {v.name: str(variable_of(v, types)) for v in summary.variables}
    lines = []
    for name in names:
        symbol = program.linker.symbols.get(name)
        library = dict(program.libraries.users(name, (old,)))
        known = symbol.info if symbol is not None else next(iter(library.values()))
        users = program.users(symbol, apart) if symbol is not None else []
        cells = sorted({*users, *library})
        lines.append(
            f"{written(name)} is {_shown(known)} and would become {shortened(news[name], 1_000)}, "
            "but "
            f"{cells_words(cells)} {'uses' if len(cells) == 1 else 'use'} it as it is"
        )
    raise TypeMismatch(
        "\n".join(lines)
        + "\nNothing was changed. Run this cell with %%llvm --retype (the users then "
        "raise TypeMismatch until they are run again), or "
        f"%evict {written(names[0])} --cascade first"
    )
