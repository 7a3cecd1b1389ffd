"""Which notes a text of C needs, and what of them: of a struct that others only point at, its tag.

Types that point at each other are a graph without an end; a pointer member needs the name of what
it leads to (C11 6.2.5, incomplete types).  What it leads to is needed whole where the member is
named, and where clang says so (`complaints.missed`).  Start from `reached`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from heapq import heappop, heappush

from jitkernel.languages.c.notes import IDENTIFIER, TAG, Note, Notes
from jitkernel.languages.c.pointed import forward, pointers
from jitkernel.languages.c.tokens import all_words

__all__ = ["reached"]

_DEEPEST = 3  # pointers that a text may go through before clang is asked
_TAGGED = re.compile(r"\s*(struct|union)\b")
_ALIAS = re.compile(r"\s*typedef\s+(?:(?:struct|union)\s+)?\w+\s+\w+\s*;\s*")


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
