"""What is remembered of names beside the linker's symbols.

`HiddenNames` are those that ended with their cell, so that a hint can say where they were.
`Uses` has those that cells used as a library's, for the day a cell defines one of them
itself: LLVM knows what `strlen` and `pow` do and computes with that, and a cell that was compiled
so does not even mention the name any more; and named types, which go with the last cell that
mentions them.  `LanguageNotes` are what
cells of a language have left for later cells of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain, count
from typing import Any

from jitkernel.ir.module import entities
from jitkernel.languages.llvm.plan import (
    BlockAction,
    Kept,
    LanguageNote,
    Plan,
    Snapshot,
    above,
    under,
)
from jitkernel.reach import reached
from jitkernel.recent import Recent
from jitkernel.rollback import Recorded, RecordedDict, log_undo
from jitkernel.session.program.cell import Cell
from jitkernel.session.program.signatures import Signature

_KEPT = 1000  # names of each kind, the latest
_versions = count(1)


class HiddenNames:
    """Values of instructions (`%x`) and private symbols (`@.str`), each with its cell's number."""

    def __init__(self) -> None:
        self.locals: Recent[str, int] = Recent(_KEPT)
        self.private: Recent[str, int] = Recent(_KEPT)

    def add(self, plan: Plan, number: int) -> None:
        """The names that a cell has for itself alone."""
        for action in plan.actions:
            for statement in action.statements if isinstance(action, BlockAction) else ():
                name, equals, _ = statement.text.partition("=")
                if equals and name.startswith("%"):
                    self.locals[name[1:].strip()] = number
        for name in plan.local_names:
            self.private[name] = number


class Uses:
    """By name: the cells in memory that declared it as a function of a library, and with what type;
    by named type: those that mention it.

    A cell's own lists are `cell.libraries` and `cell.types`; they are kept while the cell is away,
    so that `add` after an undo needs no more than the cell.
    """

    def __init__(self) -> None:
        self._users: RecordedDict[Any, RecordedDict[int, Signature | None]] = RecordedDict()

    def add(self, cell: Cell) -> None:
        """A cell is in memory."""
        for key, signature in _used(cell):
            self._users.setdefault(key, RecordedDict())[cell.number] = signature

    def drop(self, cell: Cell) -> None:
        """A cell left memory, or is about to use other names."""
        for key, _ in _used(cell):
            users = self._users.get(key) or RecordedDict[int, Signature | None]()
            users.pop(cell.number, None)
            if not users:
                self._users.pop(key, None)

    def of_library(
        self, name: str, excluding: Sequence[Cell | None] = ()
    ) -> Iterator[tuple[int, Signature]]:
        """Numbers of the cells that declared `name`, with its type there."""
        for number, signature in self._users.get(name, {}).items():
            if signature is not None and number not in [c.number for c in excluding if c]:
                yield number, signature

    def unused_types(self, cells: Iterable[Cell]) -> list[str]:
        """The types of cells that left which none in memory mentions."""
        every = dict.fromkeys(name for cell in cells for name in cell.types)
        return [name for name in every if ("type", name) not in self._users]


def _used(cell: Cell) -> list[tuple[Any, Signature | None]]:
    return [*cell.libraries, *[(("type", name), None) for name in cell.types]]


def defined_types(module: str) -> frozenset[str]:
    """The types that a cell's own text defines; those of earlier cells are on the first line."""
    if "type" not in module:
        return frozenset()
    own = module.partition("\n")[2]
    return frozenset([found.name for found in entities(own, "type")])


class NotesSeen(Mapping[str, Kept]):
    """Notes by key, as they are when they are asked for.

    Where a name is given, as the cell `cell` sees them that defines it: where the note of the name
    is another cell's, its definition is in another language.
    """

    def __init__(self, notes: Mapping[str, LanguageNote], name: str = "", cell: int = 0):
        self._notes, self._end, self._cell = notes, f":{name}" if name else "", cell

    def _hidden(self, key: str) -> bool:
        if not self._end or not key.endswith(self._end):
            return False
        note = self._notes.get(key)
        return note is None or note.cell != self._cell

    def __getitem__(self, key: str) -> Kept:
        note = self._notes[key]
        if self._hidden(key):
            raise KeyError(key)
        return note.kept

    def __iter__(self) -> Iterator[str]:
        every = list(self._notes)  # at once: cells of another thread may leave notes meanwhile
        return (key for key in every if not self._hidden(key))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class LanguageNotes(Recorded):
    """Notes by key; the session knows of each which cell left it and which others it needs."""

    def __init__(self) -> None:
        self.found: RecordedDict[str, LanguageNote] = RecordedDict()
        self._of: RecordedDict[int, RecordedDict[str, LanguageNote]] = RecordedDict()  # by cell
        self.version = 0  # another one whenever a note changes, and the same after a rollback
        # The latest, which is none of what a rollback takes back, and keys of notes that may be
        # others than there.
        self._snapshots, self._changed = [Snapshot({}, {}, ())], dict[str, None]()

    def snapshot(self) -> Snapshot:
        """The notes by key for who has the session's lock: the same one until a note changes."""
        (before,) = self._snapshots
        if not self._changed:
            return before
        now = Snapshot(before, before.memo, self._changed)
        for key in now.changed:
            if (note := self.found.get(key)) is not None:
                now[key] = note.kept
            else:
                now.pop(key, None)
        self._snapshots[0] = now
        self._changed.clear()
        return now

    @property
    def kept(self) -> dict[str, Kept]:
        """The notes of languages by key: a copy, for who asks while a cell runs."""
        return {key: note.kept for key, note in dict(self.found).items()}

    def unneeded(self, gone: Iterable[Cell]) -> set[str]:
        """The keys of the notes of cells that left, apart from those that the notes of others
        need."""
        going = {key for cell in gone for key in self._of.get(cell.number, ())}
        if not going:
            return going
        others = (self._needs(key) & going for key in self.found if key not in going)
        needed = reached(chain.from_iterable(others), lambda key: self._needs(key) & going)
        return going - needed.keys()

    def _needs(self, key: str) -> frozenset[str]:
        """The keys of the notes that one needs; not what stands above others of its cell: of these
        it means what that says."""
        needs, cell = self.found[key].needs, above(key)[1]
        return frozenset(k for k in needs if under(k, cell) not in self.found) if cell else needs

    def again(self, gone: Set[str]) -> dict[str, str]:
        """The keys of what counts again where these notes are gone, by theirs: what the youngest
        cell says that is `under` them."""
        found: dict[str, int] = {}
        for below in self.found if gone else ():
            key, cell = above(below)
            if cell and key in gone:
                found[key] = max(found.get(key, 0), cell)
        return {key: under(key, cell) for key, cell in found.items()}

    def language_of(self, cell: int) -> str:
        """The name of a cell's language, with which its keys begin; "" where it has left none."""
        return next(iter(self._of.get(cell, ())), "").partition(":")[0]

    def kept_of(self, cell: int) -> Mapping[str, Kept]:
        """A cell's own notes by key, as they are when they are asked for."""
        return NotesSeen(self._of.get(cell, {}))

    @property
    def languages(self) -> set[str]:
        """The names of the languages that have left notes."""
        return {key.partition(":")[0] for key in list(self.found)}

    def clear(self) -> None:
        """Forget all."""
        self.version = next(_versions)
        self._change(self.found)
        self.found.clear()
        self._of.clear()

    def check(self) -> None:
        """Prove that the notes of each cell are filed under it; raises AssertionError."""
        filed = {key: cell for cell, keys in self._of.items() for key in keys}
        if filed != {key: note.cell for key, note in self.found.items()}:
            raise AssertionError("notes are filed under other cells than theirs")

    def set(self, key: str, note: LanguageNote | None) -> None:
        """Have a note, or none, of this key."""
        self.version = next(_versions)
        self._change((key,))
        before = self.found.get(key)
        if before is not None:
            keys = self._of[before.cell]
            keys.pop(key)
            if not keys:
                del self._of[before.cell]
        if note is None:
            self.found.pop(key, None)
        else:
            self.found[key] = note
            self._of.setdefault(note.cell, RecordedDict())[key] = note

    def _change(self, keys: Iterable[str]) -> None:
        """The notes of these keys are about to be others, and may be what they were again."""
        changed = dict.fromkeys(keys)
        log_undo(self._changed.update, changed)
        self._changed.update(changed)
