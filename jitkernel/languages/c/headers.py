"""Headers of the user's own, which change on disk: what they declare, and what of it is new.

A header of the system is taken as it was.  Conditions in a header are not followed: what stands
behind any of them counts as declared.  Start from `read_header`.
"""

from __future__ import annotations

import os
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from zlib import compress, crc32, decompressobj, error

from jitkernel.languages.c.declared import Declared
from jitkernel.languages.c.notes import DIRECTIVE, Note, Notes, encoded
from jitkernel.languages.c.pieces import Mismatch, PieceKind, cut
from jitkernel.languages.c.tokens import Unfinished, tokens

__all__ = ["Header", "folders_of", "read_header"]

_INCLUDE = re.compile(r'#\s*(?:include|include_next|import)\s*(?:"([^"\n]+)"|<([^>\n]+)>)')
_FOLDER = re.compile(r"-(?:I|iquote|isystem)(.*)", re.DOTALL)
_LARGEST = 64 << 10  # bytes of a header that is followed


@dataclass(frozen=True, slots=True)
class Header:
    """A header's text, with those of the headers that it includes."""

    text: str

    @property
    def content(self) -> str:
        """The text, packed."""
        return b64encode(compress(self.text.encode("utf-8", "surrogateescape"), 1)).decode()

    @property
    def names(self) -> Mapping[str, int]:
        """What it declares: checksums of texts, by the keys of notes."""
        return _declared(self.text)[0]

    def changed(self, before: str) -> set[str]:
        """The keys of what is another now than in such a content, or was not there, and of what is
        made of that."""
        if before == self.content:
            return set()
        old = _declared(_unpacked(before))[0]
        names, notes = _declared(self.text)
        return notes.affected({key for key, sum in names.items() if old.get(key) != sum})[0]


def _unpacked(content: str) -> str:
    """The text of a content, which may be a stranger's session's: no more than there could be, and
    nothing of what is damaged."""
    try:
        data = decompressobj().decompress(b64decode(content), 4 * _LARGEST)
    except (ValueError, error):
        return ""
    return data.decode("utf-8", "surrogateescape")


def folders_of(flags: Sequence[str]) -> list[str]:
    """Where flags of clang have headers looked for, after the folder of the file that asks."""
    found = []
    for at, flag in enumerate(flags):
        if match := _FOLDER.fullmatch(flag):
            found.append(match[1] or "".join(flags[at + 1 : at + 2]))
    return found


def read_header(directive: str, folders: Sequence[str]) -> Header | None:
    """The header that a directive includes; None for the system's, and what is too large."""
    paths: list[str] = []
    todo = list(_found(directive, os.getcwd(), folders))
    size = 0
    while todo:
        path = todo.pop()
        if path in paths:
            continue
        paths.append(path)
        text = _text(path)
        size += len(text)
        if size > _LARGEST:
            return None
        for match in _INCLUDE.finditer(text):
            todo += _found(match[0], os.path.dirname(path), folders)
    return Header("\n".join(map(_text, reversed(paths)))) if paths else None


def _found(directive: str, beside: str, folders: Sequence[str]) -> Iterator[str]:
    match = _INCLUDE.match(directive)
    if match is None:
        return
    for folder in ([beside] if match[1] else []) + list(folders):
        path = os.path.join(folder, match[1] or match[2])
        if os.path.isfile(path):
            yield path
            return


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


@lru_cache(maxsize=16)
def _declared(text: str) -> tuple[Mapping[str, int], Notes]:
    """Checksums of what a text declares, and its notes."""
    try:
        pieces = cut(text)
    except (Unfinished, Mismatch):
        return {}, Notes({})  # clang tells
    pieces = [piece for piece in pieces if not _INCLUDE.match(piece.text)]
    found: dict[str, Note] = {}
    for piece in pieces:  # one by one: a name may stand behind several conditions
        if piece.kind not in (PieceKind.STATEMENT, PieceKind.EXPRESSION):
            declared = Declared(0, text, [piece], Notes({}), set(), lambda name: False)
            found |= {k: n for k, n in declared.notes.items() if not k.startswith(DIRECTIVE)}
    keys = {key for note in found.values() for key in (note.key, *note.also)}
    kept = encoded(note.known_with(keys) for note in found.values())
    names = {
        key: crc32(_spelling(f"{note.text} {note.definition}"))
        for note in found.values() for key in (note.key, *note.also)
    }  # fmt: skip
    return names, Notes({key: note.text for key, note in kept.items()})


def _spelling(text: str) -> bytes:
    return " ".join(t.text for t in tokens(text)).encode("utf-8", "surrogateescape")
