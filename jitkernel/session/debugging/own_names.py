"""The variables of a language that is translated to LLVM IR, by the names that it has for them.

Start from `own_names`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from jitkernel.session.debugging.values import Value, bytes_of

if TYPE_CHECKING:
    from jitkernel.elf.dwarf import Read

__all__ = ["own_names"]


def own_names(values: Sequence[tuple[str, Value]], read: Read) -> list[tuple[str, Value]]:
    """The contents of the places that a function has for its variables, its `alloca`s, by name:
    `%n.1` is the variable `n`, or `n.1` where several are called so.  None where it has none."""
    places = [
        (name, value) for name, value in values
        if name[:1] == "%" and value.type.kind == "pointer" and value.type.element is not None
    ]  # fmt: skip
    count = Counter(_plain(name) for name, _ in places)
    found = []
    for name, value in places:
        of = value.type.element or value.type
        data = bytes_of(value, read) if not value.absent else None
        shown = _plain(name) if count[_plain(name)] == 1 else name[1:]
        if data is None:
            found.append((shown, replace(value, type=of, data=None, address=None)))
        else:
            found.append((shown, Value(of, int.from_bytes(data[:8], "little"), ir=True)))
    return found


def _plain(name: str) -> str:
    """The name that a value was given, without the number that tells it from others."""
    before, dot, number = name[1:].rpartition(".")
    return before if dot and number.isdigit() and before else name[1:]
