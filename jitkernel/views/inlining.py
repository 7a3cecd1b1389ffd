"""What was inlined into a cell's code, and what was not and why.  Start from `inlining`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.ir.names import symbols_in
from jitkernel.linker import SymbolState
from jitkernel.regex import regex
from jitkernel.views.view import View, paragraph, table

if TYPE_CHECKING:
    from jitkernel.session import Session

_COST = regex(r"\(cost=(-?\d+), threshold=(-?\d+)\)")
_NEVER = regex(r"\(cost=(?:never|always)\)(?:: )?")
_APART = "LLVM is not given it: too long, noinline, or in many cells"


def inlining(session: Session, target: int | str | None = None) -> View:
    """The calls of a cell as LLVM's inliner sees them now: which became part of their callers.

    A cost is about five for an instruction that would be left; what is below the threshold is
    inlined.  Raises UsageError where the cell has no IR.
    """
    cell, _ = session.inspect.cell_of(target)
    if cell.number not in {c.number for c in session.cells}:
        raise UsageError(f"cell {cell.number} is not in memory")
    request = session.inspect.request_anew(cell.number)
    called = session.inspect.program.called
    rows, seen = [], set()
    for callee, caller, done, why in session.inspect.traced(lambda of: of.inlining(request)):
        if callee.startswith("llvm."):
            continue
        seen.add(callee)
        where = session.inspect.program.owner(callee)
        rows.append(
            (called(callee), f"cell {where}" if where else "", called(caller),
             "inlined" if done else "called", reason(why))
        )  # fmt: skip
    symbols = session.inspect.program.linker.symbols
    for name in sorted(symbols_in(request.source) - seen - {*cell.names}):
        symbol = symbols.get(name)
        if symbol is not None and symbol.is_function and symbol.state is SymbolState.DEFINED:
            rows.append((called(name), f"cell {symbol.cell}", "", "called", _APART))
    held = session.inspect.held(cell.number)
    names = ", ".join(called(name) for name in sorted(held))
    note = f"In its code are bodies and values of {names}: who changes one has it made anew."
    title = f"Inlining, cell {cell.number}"
    if not rows:
        return paragraph(f"{title}: it calls no function of a cell. {note * bool(names)}".strip())
    return table(title, ("function", "of", "into", "is", "why"), rows, note * bool(names))


def reason(why: str) -> str:
    """LLVM's reason in fewer words."""
    if found := _COST.search(why):
        cost, threshold = int(found[1]), int(found[2])
        return f"cost {cost}, {'below' if cost < threshold else 'not below'} {threshold}"
    return _NEVER.sub("", why).strip().removeprefix("it should never be inlined ")
