"""What a cell of C changes under other cells.  Start from `Changes`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Set
from operator import attrgetter
from struct import iter_unpack

from jitkernel.ir.types import PointerType
from jitkernel.languages.c.notes import Note, Notes, key_name
from jitkernel.languages.c.packing import Packing
from jitkernel.languages.c.reading import Reading
from jitkernel.languages.language import Known

_WORD = 8
_PLACE = attrgetter("place")
_LOWEST = 1 << 16  # no address is below: vm.mmap_min_addr
_MOST = 1 << 16  # bytes of a variable that are looked at


class Changes:
    """The changes by a cell that declares `own` notes.

    `keys` are those of what it declares otherwise than before, `unchanged` its variables whose
    types stay, `stale` the definitions of other cells that must follow, each with the names that
    changed; `remade` are all definitions of those cells, by cell; `every` are these and assertions
    that must hold again, as they were run.  `packing` is that of the notebook with the cell.
    """

    def __init__(self, reading: Reading, own: Iterable[Note], packing: Packing):
        self._reading, self._notes = reading, reading.notes
        self._own, self._packing = list(own), packing
        self._packed_before = Packing(self._notes.directives())
        self.keys: set[str] = set()
        self.unchanged: set[str] = set()
        self.stale: dict[str, list[str]] = {}
        self.remade: dict[int, list[Note]] = {}
        asserted = self._find()
        made = (n for notes in self.remade.values() for n in notes)
        self.every = sorted((*made, *asserted), key=_PLACE)

    def _find(self) -> list[Note]:
        """Find what other cells define and the cell changes under them; the assertions of those
        that it changes."""
        changed = self._packed_otherwise()
        for note in self._own:
            for key in note.keys:
                known = self._notes.before(key)
                if known is not None and not known.same(note):
                    if note.kind != "undef":  # what has it keeps what it was
                        changed.add(key)
        own = {key for note in self._own for key in note.keys}
        given = {key: self._notes.get(key) for key in self._notes.was.keys() - own}
        for key, other in {**given, **self._reading.given}.items():
            known = self._notes.before(key)
            if known is not None and (other is None or not known.same(other)):
                changed.add(key)
        read, headers = self._reading, self._reading.headers
        if not (changed or self._own or headers or read.leaving or read.again):
            return []
        asked = self._asked_for()
        changed |= asked.keys()
        self.keys = changed
        leaving = [n for key in self._reading.leaving if (n := self._notes.get(key)) is not None]
        changed |= {note.key for note in leaving if note.folded}
        reached, stale = self._notes.affected(changed, self._new_in_headers(changed))
        self.unchanged = {
            note.name for note in self._own
            if note.kind == "variable" and note.key in self._notes and note.key not in reached
        }  # fmt: skip
        before = (self._notes.get(note.key) for note in self._own)
        replaced = [note for note in before if note is not None]
        stale |= self._notes.holders({
            note.key: note for note in (*replaced, *leaving)
            if note.is_constant and note.cell != self._reading.number
        })  # fmt: skip
        defined = ((key, self._notes.get(key)) for key in asked)
        stale |= {key: asked[key] for key, note in defined if note is not None and note.is_defined}
        apart = {key for note in self._own for key in note.keys}
        apart |= self._reading.leaving
        self.stale = {
            key: why for key, why in stale.items() if key not in apart and self._has_code(key)
        }
        found = [n for key in self.stale if (n := self._notes.get(key)) is not None]
        asserted = [n for n in found if n.kind == "assertion" and n.cell != read.replaces]
        cells = {note.cell for note in found if note.kind != "assertion"}
        cells |= self._left_over(reached) | self._tentative() | read.again
        for note in self._notes if cells else ():
            follows = note.cell in cells and note.cell != read.replaces
            made = note.is_defined and note.kind != "assertion" and note.key not in apart
            if follows and made and self._has_code(note.key):
                self.remade.setdefault(note.cell, []).append(note)
        return asserted

    def _has_code(self, key: str) -> bool:
        """True unless the name is in no text any more and its cell's code is gone: its note is
        still there for those that were compiled with it."""
        note = self._notes.get(key)
        if note is None or not note.left:
            return True
        return self._reading.cell_of(note.symbol) == note.cell

    def _asked_for(self) -> dict[str, list[str]]:
        """The notes of what stands below the cell and asks by a condition for macros that the cell
        is the first to define, by key."""
        new = {
            note.name: note.position for note in self._own
            if note.kind == "define" and note.key not in self._notes
        }  # fmt: skip
        return {
            note.key: found for note in (self._notes if new else ())
            if (found := [n for n in note.asks if n in new and new[n] < note.position])
        }  # fmt: skip

    def _left_over(self, reached: Set[str]) -> set[int]:
        """The cells that have code of what others define by now, which uses what changes."""
        names = {
            note.symbol for key in reached
            if (note := self._notes.get(key)) is not None and note.kind in ("function", "variable")
        }  # fmt: skip
        users = self._reading.users
        return {cell for name in names for cell in users(name)} - {self._reading.number}

    def _tentative(self) -> set[int]:
        """The cells that have a variable as a header defines it tentatively, which is the cell's by
        now: an array may be longer.  C11 6.9.2."""
        cell_of, users = self._reading.cell_of, self._reading.users
        names = {
            note.symbol for note in self._own
            if note.kind == "variable" and note.is_defined and note.key not in self._notes
            and cell_of(note.symbol)
        }  # fmt: skip
        return {cell for name in names for cell in (cell_of(name), *users(name))}

    def _packed_otherwise(self) -> set[str]:
        """The keys of structs and unions that are packed otherwise with the cell than before."""
        before, now = self._packed_before, self._packing
        if not before and not now:
            return set()
        own = {note.key: note for note in self._own}
        return {
            key for note in self._notes if note.is_laid_out
            if before.at(note.position) != now.at(own.get(note.key, note).position)
            for key in note.keys
        }  # fmt: skip

    def _new_in_headers(self, changed: Set[str]) -> set[str]:
        """The keys of what may be otherwise in headers that read what is `changed`, of what is in
        those that the cell includes again, and of what other headers make of that."""
        new: set[str] = set()
        before, now = self._packed_before, self._packing
        for note in self._notes.directives():
            packed = bool(before or now) and before.at(note.position) != now.at(note.position)
            if note.content and (packed or not changed.isdisjoint(note.needs)):
                new |= note.content.keys()
        for text, header in self._reading.headers.items():
            known = self._notes.directive(text)
            if known is not None and known.content is not None:
                new |= header.changed(known.content)
        texts = {note.text for note in self._notes.directives() if note.content and new}
        others = [h for text in sorted(texts) if (h := self._reading.header_of(text)) is not None]
        while more := {key for header in others for key in header.made_of(new)} - new:
            new |= more
        return new


def old_objects(notes: Notes, changed: Collection[str], known: Known) -> list[str]:
    """Messages to the user about objects in the program's heap that have the layout of a struct
    from before: these keys are those of declarations that change, `notes` are as they were.

    What is in the heap has no type: only variables that lead there tell that it is such an object.
    """
    types = {
        note.key: note for key in changed
        if (note := notes.before(key)) is not None
        and note.kind in ("tag", "typedef") and note.is_laid_out
    }  # fmt: skip
    if not types:
        return []
    reached = notes.affected(types)[0]
    names = [
        note.name for note in notes
        if note.kind == "variable" and note.key in reached and _leads_to_heap(note, known)
    ]  # fmt: skip
    if not names:
        return []
    what = ", ".join(sorted(key_name(key) for key in types))
    return [
        f"{', '.join(names)} lead{'s' * (len(names) == 1)} to memory from malloc that has the "
        f"layout of {what} from before: it is read as the new one from now on; allocate it again"
    ]


def _leads_to_heap(note: Note, known: Known) -> bool:
    variable = known.variable(note.symbol)
    if variable is None:
        return False
    type, address, _ = variable
    size = _WORD if isinstance(type, PointerType) else min(known.layout(type).size, _MOST)
    data = known.read_memory(address, size)
    words = iter_unpack("<Q", data[: len(data) // _WORD * _WORD])
    return any(_is_heap(known, word) for (word,) in words)


def _is_heap(known: Known, word: int) -> bool:
    there = word >= _LOWEST and known.read_memory(word, 1)
    return bool(there) and known.describe(word).endswith("(heap)")
