"""Which notes of other cells the text for a cell of C has, and what of them, of a struct that
others only point at its tag; and where they stand: before the cell, or behind a piece of it.

Types that point at each other are a graph without an end; a pointer member needs the name of what
it leads to (C11 6.2.5, incomplete types).  What it leads to is needed whole where the member is
named, and where clang says so (`complaints.missed`).  Start from `reached`, and from `placed`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from heapq import heappop, heappush

from jitkernel.languages.c.declared import Declared
from jitkernel.languages.c.notes import IDENTIFIER, TAG, Note, Notes, mentioned
from jitkernel.languages.c.pieces import PieceKind
from jitkernel.languages.c.pointed import forward, pointers
from jitkernel.languages.c.reading import Reading
from jitkernel.languages.c.tokens import all_words
from jitkernel.record import replace
from jitkernel.regex import regex

_FIRST = ("define", "undef", "pragma", "header")  # kinds of notes that stand before all others
_DEEPEST = 3  # pointers that a text may go through before clang is asked
_TAGGED = regex(r"\s*(struct|union)\b")
_ALIAS = regex(r"\s*typedef\s+(?:(?:struct|union)\s+)?\w+\s+\w+\s*;\s*")


def reached(
    notes: Notes, keys: Iterable[str], words: Collection[str], without: Collection[str] = ()
) -> dict[str, Note]:
    """The notes of these keys and of all that those need, for texts with these words, members'
    among them; of what is only pointed at, notes that declare no more than its name."""
    roots, known = list(keys), set(words)
    while True:
        found = _walk(notes, roots, known, without)
        more = {
            word for note in found.values() if note.kind not in ("tag", "typedef")
            for word in all_words(note.text)
        }  # fmt: skip
        if more <= known:
            return found
        known |= more


def _walk(
    notes: Notes, roots: list[str], words: Collection[str], without: Collection[str]
) -> dict[str, Note]:
    whole: dict[str, Note] = {}
    named: dict[str, Note] = {}
    todo = [(0, key) for key in sorted(roots)]  # with the pointers that lead there
    while todo:
        depth, key = heappop(todo)
        note = None if key in without else notes.get(key)
        if note is None or note.key in whole or note.key in without:
            continue
        stub = _stub(note, key) if depth > _DEEPEST else None
        if stub is not None:
            if note.key not in named and stub is note:
                for need in notes.needs(note):
                    heappush(todo, (depth, need))
            named.setdefault(note.key, stub)
            continue
        named.pop(note.key, None)
        whole[note.key] = note
        needs = set(notes.needs(note))
        for found in pointers(note.text) if note.kind in ("tag", "typedef") else ():
            to = {k for name in found.to for k in (IDENTIFIER + name, TAG + name)} & needs
            needs -= to
            far = _DEEPEST if found.members.isdisjoint(words) else min(depth, _DEEPEST)
            for need in to:
                heappush(todo, (far + 1, need))
        for need in needs:
            heappush(todo, (min(depth, _DEEPEST), need))
    return named | whole


def _stub(note: Note, key: str) -> Note | None:
    """The note with a text that declares no more than its name; itself where the text does not say
    more.  None where the name alone means nothing, or is not what is asked for."""
    if note.kind == "tag" and key == note.key and (tag := _TAGGED.match(note.text)):
        return replace(note, text=f"{tag[1]} {note.name};", also=())
    if note.kind != "typedef":
        return None
    if _ALIAS.fullmatch(note.text):
        return note
    body = forward(note.text)
    if body is None or key not in (IDENTIFIER + body.name, TAG + body.tag):
        return None
    return replace(note, text=body.text, also=(TAG + body.tag,))


# -- where they stand ------------------------------------------------------------------------------


def placed(
    reading: Reading, declared: Declared, wanted: Mapping[str, Note]
) -> dict[int, list[Note]]:
    """The `wanted` notes that are no directives by the piece that they stand behind, -1 for those
    before the cell; and the headers that must stand behind something."""
    notes = [note for note in wanted.values() if note.kind not in _FIRST]
    behind = _behind(reading.notes, notes, declared.keys, _brought(reading, wanted))
    included = _included_before(reading)
    places: dict[str, int] = {}
    last = -1  # of the pieces that headers so far need
    for note in notes:
        at = max(last, behind.get(note.key, -1))
        if note.kind == "include":
            first = max((k for k, place in included.items() if place < note.place), default=-1)
            at = last = max(at, first)
            if note.key not in behind and first < 0:
                continue
        places[note.key] = at
    notes = [note for note in notes if note.key in places]
    if any(at >= 0 for at in places.values()):
        places = _used_before(reading, declared, notes, places)
    found: dict[int, list[Note]] = {}
    for note in notes:
        found.setdefault(places[note.key], []).append(note)
    return found


def _behind(
    known: Notes, notes: Iterable[Note], own: Mapping[str, int], brought: Mapping[str, int]
) -> dict[str, int]:
    """The last piece of the cell that these notes must stand behind, and all that they stand
    behind, of those that must: `own` and `brought` are the pieces of what the cell declares, and of
    what its headers do."""
    if not (own or brought):
        return {}
    every = {note.key: note for note in notes}
    needed: list[tuple[int, Note]] = []
    users: dict[str, list[Note]] = {}
    todo = [*every.values()]
    while todo:
        note = todo.pop()
        keys = known.stands_behind(note)
        for key in keys:
            users.setdefault(key, []).append(note)
            other = known.get(key)
            if other is not None and other.key not in every:
                every[other.key] = other
                todo.append(other)
        needed += [(own[key], note) for key in keys if key in own]
        if brought and note.kind != "include":
            named = brought.keys() & {*note.mentions(note.meant)} - {*note.keys}
            needed += [(brought[key], note) for key in named]
    found: dict[str, int] = {}
    for index, note in sorted(needed, key=lambda one: -one[0]):  # the last one counts
        todo = [note]
        while todo:
            user = todo.pop()
            if user.key not in found:
                found[user.key] = index
                todo += [n for key in user.keys for n in users.get(key, ())]
    return found


def _included_before(reading: Reading) -> dict[int, tuple[int, int]]:
    """The pieces that include what the cell did whose place this one takes, and when, where its
    headers stand before those that came after them."""
    known = {
        note.text: note.place
        for note in (reading.notes.directives() if reading.guesses.first else ())
        if reading.is_replaced(note)
    }
    return {at: known[p.text] for at, p in enumerate(reading.pieces) if p.text in known}


def _brought(reading: Reading, wanted: Mapping[str, Note]) -> dict[str, int]:
    """The keys of what headers declare that the cell includes, with the first such piece."""
    headers = reading.headers
    if not any(note.key.startswith((IDENTIFIER, TAG)) for note in wanted.values()):
        return {}
    return {
        key: index for index, piece in reversed([*enumerate(reading.pieces)])
        if piece.text in headers for key in headers[piece.text].content
    }  # fmt: skip


def _used_before(
    reading: Reading, declared: Declared, notes: Iterable[Note], places: Mapping[str, int]
) -> dict[str, int]:
    """The places of these notes, where pieces use one before others declare variables or functions
    again that it seems to need: what it calls so are parameters and members of its own."""
    used: dict[str, int] = {}
    for index, piece in enumerate(reading.pieces):
        if piece.kind not in (PieceKind.STATEMENT, PieceKind.EXPRESSION):
            for key in mentioned(piece.text):
                used.setdefault(key, index)
    last = len(reading.pieces)
    firsts = [
        (min(used.get(key, last) for key in note.keys), note) for note in notes
    ]  # fmt: skip
    before: dict[str, int] = {}
    for first, note in sorted(firsts, key=lambda one: one[0]):  # the first one counts
        todo = [note] if first <= places[note.key] else []
        while todo:
            one = todo.pop()
            if one.key not in before:
                before |= dict.fromkeys(one.keys, first)
                every = map(reading.notes.get, reading.notes.stands_behind(one))
                todo += [n for n in every if n is not None]
    variables = {n.key for n in declared.notes.values() if n.kind in ("variable", "function")}
    types = {key: at for key, at in declared.keys.items() if key not in variables}
    needed = _behind(reading.notes, notes, types, {})
    return {
        note.key: max(
            min(places[note.key], min(before.get(k, last) for k in note.keys) - 1),
            needed.get(note.key, -1),
        )
        for note in notes
    }
