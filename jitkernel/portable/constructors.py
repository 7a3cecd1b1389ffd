"""Constructors of cells whose work is done: it is in the values that their variables leave with.

Start from `without_constructors`.  They would begin with first values again, over the present ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from jitkernel.ir.module import functions, global_values
from jitkernel.ir.names import symbols_in
from jitkernel.ir.text import after_space, closing, split_at_commas, type_at
from jitkernel.reach import reached

__all__ = ["CONSTRUCTORS", "mentions", "without_constructors"]

#: An appending array of `{ i32 priority, ptr function, ptr data }`: LLVM's Language Reference, "The
#: 'llvm.global_ctors' Global Variable".
CONSTRUCTORS = "llvm.global_ctors"


def mentions(sources: Iterable[str]) -> dict[str, frozenset[str]]:
    """The symbols that each function of the modules mentions, by its name."""
    found: dict[str, frozenset[str]] = {}
    for source in sources:
        for function in functions(source, "define"):
            found[function.name] = found.get(function.name, frozenset()) | symbols_in(function.text)
    return found


def without_constructors(
    source: str, called: Mapping[str, Collection[str]], has_value: Callable[[str], bool]
) -> str:
    """A module's text without the constructors that reach a variable that `has_value`; `called` is
    what functions mention."""
    for found in global_values(source):
        if found.name != CONSTRUCTORS or found.kind != "global":
            continue
        at = after_space(source, found.value)
        at = after_space(source, at + len(type_at(source, at)))
        end = closing(source, at) if source[at : at + 1] == "[" else -1
        if end < 0:
            continue
        entries = split_at_commas(source[at + 1 : end - 1])
        kept = [
            e for e in entries
            if not any(map(has_value, reached(symbols_in(e), lambda name: called.get(name, ()))))
        ]  # fmt: skip
        if len(kept) == len(entries):
            continue
        text = f"[{len(kept)} x {{ i32, ptr, ptr }}] [{', '.join(kept)}]"
        lines = "\n" * source.count("\n", found.start, end)
        head = source[found.start : found.value]
        return source[: found.start] + (f"{head} {text}" if kept else "") + lines + source[end:]
    return source
