"""Functions of Python's, as cells of C define them.  Start from `foreign`.

The cell hands a struct of result and arguments to the kernel process (executor/native/ask.ll), so
whatever C passes by value goes as clang lays it out.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitkernel.errors import UsageError
from jitkernel.ir.names import ASK
from jitkernel.languages.c.notes import Notes
from jitkernel.languages.c.pieces import Mismatch
from jitkernel.languages.c.prototypes import type_of
from jitkernel.languages.c.tokens import Unfinished
from jitkernel.languages.language import StateView
from jitkernel.languages.prototypes import Foreign
from jitkernel.values.c import declare
from jitkernel.values.datatype import DataType, Member, plain

__all__ = ["foreign"]

_PLACE = 16  # bytes: what each begins at a multiple of


def foreign(name: str, type: str, number: int, known: StateView) -> Foreign | None:
    """A cell that defines `name` with a function's type such as `unsigned (double, const char *)`;
    None for what is none.  Raises UsageError for one that takes `...`."""
    notes = Notes(known.notes)
    try:
        pointer = type_of(f"(__typeof__({type}) *)0", known, notes)
    except (Unfinished, Mismatch):
        return None
    function = pointer.bare.element.bare if pointer is not None and pointer.bare.element else None
    if function is None or function.kind != "function" or function.element is None:
        return None
    if function.variadic:
        raise UsageError(f"{name}: a Python function takes no `...` from a cell")
    returns = function.element.bare.kind != "void"
    parameters = [declare(p, f"a{at}") for at, p in enumerate(function.parameters)]
    members = [*([declare(function.element.unqualified, "r")] if returns else []), *parameters]
    body = f"struct {{ {' '.join(f'_Alignas({_PLACE}) {member};' for member in members)} }}"
    given = ", ".join(f".a{at} = a{at}" for at in range(len(parameters)))
    head = declare(function.element, f"{name}({', '.join(parameters) or 'void'})")
    lines = [
        f"{head} {{",
        f"  {body} frame = {{{given}}};",
        f"  void {ASK}(long, void *, long);",
        f"  {ASK}({number}, &frame, sizeof frame);",
        *(["  return frame.r;"] if returns else []),
        "}",
    ]
    types = [*([function.element] if returns else []), *function.parameters]
    return Foreign("\n".join(lines), _frame(types), returns)


def _frame(types: Sequence[DataType]) -> DataType:
    """The struct of these, each where its place begins."""
    parts, at = [], 0
    for number, type in enumerate(types):
        seen = plain(type)
        parts.append(Member(f"m{number}", seen, at))
        at += seen.size + -seen.size % _PLACE
    return DataType("struct", size=at, members=tuple(parts))
