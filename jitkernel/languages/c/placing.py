"""Where the notes of other cells stand in the text for a cell of C: before it, or behind a piece of
it that they need.  Start from `Placing`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jitkernel.languages.c.declared import Declared
from jitkernel.languages.c.notes import IDENTIFIER, TAG, Note, mentioned
from jitkernel.languages.c.pieces import PieceKind
from jitkernel.languages.c.reading import Reading

__all__ = ["Placing"]

_DIRECTIVES = ("define", "undef", "pragma", "header")  # kinds of notes that stand first


class Placing:
    """The places of `wanted` notes in the text for a cell: `early` ones stand before it, `late`
    ones behind the piece with that index."""

    def __init__(self, reading: Reading, declared: Declared, wanted: Mapping[str, Note]):
        self._reading, self._notes, self._declared = reading, reading.notes, declared
        self.early, self.late = self._placed(wanted)

    def _placed(self, wanted: Mapping[str, Note]) -> tuple[list[Note], dict[int, list[Note]]]:
        """The notes that stand before the cell, and those behind a piece of it that they need."""
        early: list[Note] = []
        late: dict[int, list[Note]] = {}
        plain = any(note.key.startswith((IDENTIFIER, TAG)) for note in wanted.values())
        brought = self._brought() if plain else {}
        last = -1  # of the pieces that headers so far need
        again = self._included_before() if self._reading.guesses.first else {}
        placed = [n for n in wanted.values() if n.kind not in _DIRECTIVES]
        behind = self._behind(placed, self._declared.keys, brought)
        for note in placed:
            at = max(last, behind.get(note.key, -1))
            if note.kind == "include":
                first = max((k for k, place in again.items() if place < note.place), default=-1)
                last = max(at, first)
                if note.key in behind or first >= 0:
                    late.setdefault(last, []).append(note)
            elif at >= 0:
                late.setdefault(at, []).append(note)
            else:
                early.append(note)
        return self._used_before(early, late) if late else (early, late)

    def _behind(
        self, notes: Iterable[Note], own: Mapping[str, int], brought: Mapping[str, int]
    ) -> dict[str, int]:
        """The last piece of the cell that these notes must stand behind, of those that must: `own`
        and `brought` are the pieces of what the cell declares, and of what its headers do."""
        needed: list[tuple[int, Note]] = []
        users: dict[str, list[Note]] = {}
        for note in self._with_behind(notes):
            keys = self._notes.stands_behind(note)
            for key in keys:
                users.setdefault(key, []).append(note)
            needed += [(own[key], note) for key in keys if key in own]
            if brought and note.kind != "include":
                named = brought.keys() & {*mentioned(note.meant)} - {note.key, *note.also}
                needed += [(brought[key], note) for key in named]
        found: dict[str, int] = {}
        for index, note in sorted(needed, key=lambda one: -one[0]):  # the last one counts
            todo = [note]
            while todo:
                user = todo.pop()
                if user.key not in found:
                    found[user.key] = index
                    todo += [n for key in (user.key, *user.also) for n in users.get(key, ())]
        return found

    def _with_behind(self, notes: Iterable[Note]) -> list[Note]:
        """These notes, and all that they stand behind."""
        found = {note.key: note for note in notes}
        todo = [*found.values()]
        while todo:
            for key in self._notes.stands_behind(todo.pop()):
                note = self._notes.get(key)
                if note is not None and note.key not in found:
                    found[note.key] = note
                    todo.append(note)
        return list(found.values())

    def _included_before(self) -> dict[int, tuple[int, int]]:
        """The pieces that include what the cell did whose place this one takes, and when."""
        known = {n.text: n.place for n in self._notes.directives() if self._reading.is_replaced(n)}
        return {at: known[p.text] for at, p in enumerate(self._reading.pieces) if p.text in known}

    def _brought(self) -> dict[str, int]:
        """The keys of what headers declare that the cell includes, with the first such piece."""
        headers = self._reading.headers
        return {
            key: index for index, piece in reversed([*enumerate(self._reading.pieces)])
            if piece.text in headers for key in headers[piece.text].names
        }  # fmt: skip

    def _used_before(
        self, early: list[Note], late: dict[int, list[Note]]
    ) -> tuple[list[Note], dict[int, list[Note]]]:
        """The same, where pieces use a note before others declare variables or functions again
        that it seems to need: what it calls so are parameters and members of its own."""
        used: dict[str, int] = {}
        for index, piece in enumerate(self._reading.pieces):
            if piece.kind not in (PieceKind.STATEMENT, PieceKind.EXPRESSION):
                for key in mentioned(piece.text):
                    used.setdefault(key, index)
        last = len(self._reading.pieces)
        firsts = [
            (min(used.get(key, last) for key in (note.key, *note.also)), at, note)
            for at, notes in late.items() for note in notes
        ]  # fmt: skip
        before: dict[str, int] = {}
        for first, at, note in sorted(firsts, key=lambda one: one[0]):  # the first one counts
            todo = [note] if first <= at else []
            while todo:
                one = todo.pop()
                if one.key not in before:
                    before |= dict.fromkeys((one.key, *one.also), first)
                    every = map(self._notes.get, self._notes.stands_behind(one))
                    todo += [n for n in every if n is not None]
        own = {k: at for k, at in self._declared.keys.items() if not self._is_variable(k)}
        needed = self._behind((note for _, _, note in firsts), own, {})
        placed: dict[int, list[Note]] = {}
        for _, at, note in firsts:
            first = min(before.get(key, last) for key in (note.key, *note.also))
            where = max(min(at, first - 1), needed.get(note.key, -1))
            placed.setdefault(where, []).append(note)
        return [*early, *placed.pop(-1, [])], placed

    def _is_variable(self, key: str) -> bool:
        """True if a key is that of a variable or function of the cell."""
        note = self._declared.notes.get(key)
        return note is not None and note.kind in ("variable", "function")
