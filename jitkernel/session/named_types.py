"""Which cell defines which named types and which cells mention them, so that a type goes with the
last of them.

Start from `TypeUses`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from jitkernel.languages.llvm.quoting import decode_name
from jitkernel.rollback import RecordedDict
from jitkernel.session.cell import Cell

__all__ = ["TypeUses", "defined_types"]

_DEFINED = re.compile(r'"[^"]*"|;[^\n]*|%("[^"]*"|[-\w$.]+)\s*=\s*type\b')


def defined_types(module: str) -> frozenset[str]:
    """The types that a cell's own text defines; those of earlier cells are on the first line."""
    if "type" not in module:
        return frozenset()
    own = module.partition("\n")[2]
    return frozenset([decode_name(name) for name in _DEFINED.findall(own) if name])


class TypeUses:
    """How many cells in memory mention each type (`cell.types`), and the number of the cell that
    was the last to define it (`cell.defines`)."""

    def __init__(self) -> None:
        self._count: RecordedDict[str, int] = RecordedDict()
        self.owners: RecordedDict[str, int] = RecordedDict()

    def add(self, cell: Cell) -> None:
        """A cell is in memory."""
        for name in cell.types:
            self._count[name] = self._count.get(name, 0) + 1

    def drop(self, cell: Cell) -> None:
        """A cell left memory."""
        for name in cell.types:
            left = self._count.get(name, 0) - 1
            if left > 0:
                self._count[name] = left
            else:
                self._count.pop(name, None)

    def defined_by(self, cell: Cell) -> bool:
        """Whether a type is still as the cell's own text defines it."""
        return any(self.owners.get(name) == cell.number for name in cell.defines)

    def move(self, name: str, number: int, moved: dict[str, tuple[int, int]]) -> None:
        """A cell (0: none) is the type's owner from now on; `moved` gets who was and who is."""
        before = self.owners.pop(name, 0)
        if number:
            self.owners[name] = number
        moved[name] = moved.get(name, (before, 0))[0], number

    def unused(self, cells: Iterable[Cell]) -> list[str]:
        """The types of cells that left which none in memory mentions."""
        every = dict.fromkeys(name for cell in cells for name in cell.types)
        return [name for name in every if name not in self._count]
