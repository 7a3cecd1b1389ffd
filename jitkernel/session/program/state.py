"""What a program says by name, apart from its code and its data.  Start from `State`.

A fact has a kind and a key.  Who writes one gives the table `before` of the step that it belongs to
(`cell.Change.before`): what the fact was when the step began stays there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from jitkernel.rollback import RecordedDict
from jitkernel.session.program.names import LanguageNotes

if TYPE_CHECKING:
    from jitkernel.linker.archives import LinkedArchive
    from jitkernel.session.program.cell import Cell
    from jitkernel.session.program.signatures import Signature, Variable

Kind: TypeAlias = Literal[
    "name", "cell", "object", "stale", "taken", "id", "type", "owner", "note", "below", "archive",
    "declared",
]  # fmt: skip
_NOTES = ("note", "below")
Fact: TypeAlias = tuple[Kind, Any]
#: Facts as they were; None for what was none.
Before: TypeAlias = dict[Fact, Any]


class State:
    """The facts of a program, by kind: `ids` are the numbers of notebook cells' present cells,
    `types` the bodies of named types, `owners` the numbers of the cells that defined those last,
    `notes` what cells have left for later ones of their language, `archives` those that were
    linked, by path: cells take members from them when they need them, `declared` the types of what
    cells declared and did not use, which their objects do not mention.

    `tables` has them all."""

    def __init__(self) -> None:
        self.ids: RecordedDict[str, int] = RecordedDict()
        self.types: RecordedDict[str, str] = RecordedDict()
        self.owners: RecordedDict[str, int] = RecordedDict()
        self.archives: RecordedDict[str, LinkedArchive] = RecordedDict()
        self.declared: RecordedDict[str, Signature | Variable] = RecordedDict()
        self.notes = LanguageNotes()
        self.tables: Mapping[Kind, RecordedDict[Any, Any]] = {
            "id": self.ids, "type": self.types, "owner": self.owners, "archive": self.archives,
            "note": self.notes.found, "below": self.notes.below, "declared": self.declared,
        }  # fmt: skip

    def __iter__(self) -> Iterator[Fact]:
        return ((kind, key) for kind, table in self.tables.items() for key in table)

    def get(self, kind: Kind, key: Any) -> Any:
        """The value of a fact, None for nothing."""
        return self.tables[kind].get(key)

    def put(self, kind: Kind, key: Any, value: Any, before: Before | None = None) -> None:
        """Say something; None (or the number 0 of a cell): nothing.  Without `before` it is no
        part of a step."""
        table = self.tables[kind]
        if before is not None:
            before.setdefault((kind, key), table.get(key))
        if kind in _NOTES:
            self.notes.set(key, value)
        elif value:
            table[key] = value
        else:
            table.pop(key, None)

    def defines(self, cell: Cell) -> bool:
        """True if a type is still as a cell's own text defines it."""
        return any(self.owners.get(name) == cell.number for name in cell.defines)

    def clear(self) -> None:
        """Say nothing."""
        for kind, table in self.tables.items():
            if kind not in _NOTES:
                table.clear()
        self.notes.clear()
