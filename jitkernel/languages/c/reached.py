"""Which notes a text of C needs, and what of them: of a struct that others only point at, its tag.

Types that point at each other are a graph without an end; a pointer member needs the name of what
it leads to (C11 6.2.5, incomplete types).  What it leads to is needed whole where the member is
named, and where clang says so (`complaints.missed`).  Start from `reached`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import NamedTuple

from jitkernel.languages.c.notes import IDENTIFIER, TAG, Note, Notes
from jitkernel.languages.c.pointed import forward, pointers
from jitkernel.languages.c.tokens import all_words

__all__ = ["reached"]

_DEEPEST = 3  # pointers that a text may go through before clang is asked
_TAGGED = re.compile(r"\s*(struct|union)\b")
_ALIAS = re.compile(r"\s*typedef\s+(?:(?:struct|union)\s+)?\w+\s+\w+\s*;\s*")


class _Level(NamedTuple):
    """Keys that are needed whole now, those behind one pointer more, and those by name alone."""

    whole: list[str]
    deeper: list[str]
    named: list[str]


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
    by_name: list[str] = []
    todo = roots
    for _ in range(_DEEPEST + 1):
        level = _Level(list(todo), [], by_name)
        _walk_level(notes, level, words, without, whole)
        todo = level.deeper
        if not todo:
            break
    by_name += todo
    while by_name:
        key = by_name.pop()
        note = None if key in without else notes.get(key)
        if note is None or note.key in whole or note.key in without:
            continue
        stub = _stub(note, key)
        if stub is None:
            named.pop(note.key, None)
            _walk_level(notes, _Level([key], by_name, by_name), words, without, whole)
        elif note.key not in named:
            named[note.key] = stub
            by_name += notes.needs(note) if stub is note else ()
    return named | whole


def _walk_level(
    notes: Notes, level: _Level, words: Collection[str], without: Collection[str],
    whole: dict[str, Note],
) -> None:  # fmt: skip
    """Collect what is needed whole without going through a pointer."""
    todo = level.whole
    while todo:
        key = todo.pop()
        note = None if key in without else notes.get(key)
        if note is None or note.key in whole or note.key in without:
            continue
        whole[note.key] = note
        needs = set(notes.needs(note))
        for found in pointers(note.text) if note.kind in ("tag", "typedef") else ():
            to = {k for name in found.to for k in (IDENTIFIER + name, TAG + name)} & needs
            needs -= to
            (level.named if found.members.isdisjoint(words) else level.deeper).extend(to)
        todo += needs


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
