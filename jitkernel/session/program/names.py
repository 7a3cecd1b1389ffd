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
from itertools import count
from typing import Any

from jitkernel.ir.module import entities
from jitkernel.languages.llvm.plan import (
    Below,
    BlockAction,
    Filed,
    Kept,
    LanguageNote,
    NoteKey,
    NoteTable,
    Plan,
    name_of,
)
from jitkernel.reach import reached
from jitkernel.recent import Recent
from jitkernel.rollback import Recorded, RecordedDict
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
    """Notes by key: `found` are those that count, `below` what else cells say of the same names.
    The session knows of each which cell left it and which others it needs; `seen` is what languages
    see."""

    def __init__(self) -> None:
        self.found: RecordedDict[str, LanguageNote] = RecordedDict()
        self.below: RecordedDict[Below, LanguageNote] = RecordedDict()
        self.seen, self._users = NoteTable(), Filed()  # by key, those that need what it means
        self.version = 0  # another one whenever a note changes, and the same after a rollback

    @property
    def kept(self) -> dict[str, Kept]:
        """The notes of languages by key: a copy, for who asks while a cell runs."""
        return dict(self.seen)

    def unneeded(self, gone: Iterable[Cell]) -> set[NoteKey]:
        """The keys of the notes of cells that left, apart from those that the notes of others
        need."""
        found, below = self.found, self.below
        numbers = {cell.number for cell in gone}
        said = {Below(key, number) for number in numbers for key in self.seen.of.get(number, ())}
        going = {key for key, cell in said if key in found and found[key].cell == cell}

        def is_needed(key: str) -> bool:
            for user in self._users.get(key, ()):
                if isinstance(user, str):
                    if found[user].cell not in numbers:
                        return True
                elif user.cell not in numbers and (key, user.cell) not in below:
                    return True  # else it means what its own cell says
            return False

        needed = reached(filter(is_needed, going), lambda key: found[key].needs & going)
        return (going - needed.keys()) | (said & below.keys())

    def again(self, gone: Set[NoteKey]) -> dict[str, Below]:
        """The keys of what counts again where these notes are gone, by theirs: what the youngest
        cell says that is below them."""
        below = self.seen.below
        return {k: Below(k, max(below[k])) for k in gone if isinstance(k, str) and k in below}

    def language_of(self, cell: int) -> str:
        """The name of a cell's language, with which its keys begin; "" where it has left none."""
        return next(iter(self.seen.of.get(cell, ())), "").partition(":")[0]

    def kept_of(self, cell: int) -> Mapping[str, Kept]:
        """A cell's own notes by key, as they are when they are asked for."""
        return NotesSeen(self.seen.of.get(cell, {}))

    @property
    def languages(self) -> set[str]:
        """The names of the languages that have left notes."""
        return {key.partition(":")[0] for key in list(self.found)}

    def clear(self) -> None:
        """Forget all."""
        self.version = next(_versions)
        seen = self.seen
        every = self.found, self.below, self._users, seen, seen.of, seen.below, seen.groups
        for table in every:
            table.clear()

    def check(self) -> None:
        """Prove that what languages see is what there is; raises AssertionError."""
        again = LanguageNotes()
        for table in (self.found, self.below):
            for key, note in table.items():
                again.set(key, note)
        one, other = (
            (n.seen, n._users, n.seen.of, n.seen.below, n.seen.groups) for n in (self, again)
        )
        if one != other:
            raise AssertionError("notes are filed otherwise than they are")

    def set(self, key: NoteKey, note: LanguageNote | None) -> None:
        """Have a note, or none, of this key."""
        self.version = next(_versions)
        name, seen = name_of(key), self.seen
        table: RecordedDict[Any, LanguageNote] = self.found if name == key else self.below
        before = table.get(key)
        _put(table, key, note)
        for needed in before.needs if before is not None else ():
            self._users.file(needed, key, None)
        for needed in note.needs if note is not None else ():
            self._users.file(needed, key, True)
        for cell in {n.cell for n in (before, note) if n is not None}:
            counts, below = self.found.get(name), self.below.get(Below(name, cell))
            seen.of.file(cell, name, counts if counts and counts.cell == cell else below)
            seen.below.file(name, cell, below)
        if name != key:
            return
        _put(seen, name, note and note.kept)
        for of, value in ((before, None), (note, True)):
            if of is not None:
                seen.groups.file(of.group, name, value)


def _put(table: RecordedDict[Any, Any], key: Any, value: Any) -> None:
    """Have a value in its place in a table; None: none."""
    if value is not None:
        table[key] = value
    else:
        table.pop(key, None)
