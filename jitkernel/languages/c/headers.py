"""Headers of the user's own, which change on disk: what they declare, and what of it is new.

A header of the system is taken as it was.  Conditions in a header are not followed: what stands
behind any of them counts as declared.  Start from `read_header`, of macros from `macros_included`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from functools import lru_cache
from zlib import crc32

from jitkernel.languages.c.clang import Clang, nothing
from jitkernel.languages.c.declared import Declared
from jitkernel.languages.c.included import INCLUDE, LARGEST, files_of
from jitkernel.languages.c.notes import DIRECTIVE, Note, Notes, plan_notes, spelling
from jitkernel.languages.c.pieces import Mismatch, PieceKind, cut
from jitkernel.languages.c.reading import Reading
from jitkernel.languages.c.tokens import Unfinished, tokens
from jitkernel.recent import Recent
from jitkernel.record import record, replace
from jitkernel.regex import regex

_DEFINED = regex(r"^#define (\w+).*", re.MULTILINE)
_DEFINES = regex(r"#\s*define\s+(\w+)")
_INCLUDES = regex(r"#\s*(?:include|include_next|import)\b")
_GUARD = regex(
    r"^\s*#\s*(?:pragma[ \t]+once\b.*|ifndef[ \t]+(\w+)[ \t]*\n\s*#[ \t]*define[ \t]+\1[ \t]*)$",
    re.MULTILINE,
)
_CONDITION = regex(r"^\s*#\s*(?:if|el|endif).*$", re.MULTILINE)
_TYPES = frozenset(("typedef", "tag", "constant", "define", "header", "include"))
_SETS = 8  # of headers whose macros are kept


@record
class Header:
    """A header's text, with those of the headers that it includes."""

    text: str

    @property
    def has_state(self) -> bool:
        """True if it may have variables that nobody else sees."""
        return "static" in self.text

    @property
    def content(self) -> Mapping[str, int]:
        """The names that it declares: checksums of texts, by the keys of notes."""
        return _declared(self.text)[0]

    @property
    def types(self) -> Sequence[Note]:
        """The types, constants and macros that it gives, and the headers of others; none where
        conditions decide, apart from guards."""
        return _types(self.text)

    def changed(self, before: Mapping[str, int]) -> set[str]:
        """The keys of what is another now than in such a content, or was not there, and of what is
        made of that."""
        return self.made_of({k for k, sum in self.content.items() if before.get(k) != sum})

    def made_of(self, keys: Set[str]) -> set[str]:
        """These keys, and those of what it makes of them."""
        return _declared(self.text)[1].affected((), keys)[0]


def read_header(directive: str, folders: Sequence[str]) -> Header | None:
    """The header that a directive includes; None for the system's, and what is too large."""
    texts: list[str] = []
    for _, text in files_of(directive, folders):
        texts.append(text)
        if sum(map(len, texts)) > LARGEST:
            return None
    return Header("\n".join(reversed(texts))) if texts else None


@lru_cache(maxsize=16)
def _declared(text: str) -> tuple[Mapping[str, int], Notes]:
    """Checksums of what a text declares, and its notes."""
    try:
        pieces = cut(text)
    except (Unfinished, Mismatch):
        return {}, Notes({})  # clang tells
    pieces = [piece for piece in pieces if not INCLUDE.match(piece.text)]
    found: dict[str, Note] = {}
    for piece in pieces:  # one by one: a name may stand behind several conditions
        if piece.kind not in (PieceKind.STATEMENT, PieceKind.EXPRESSION):
            declared = Declared(Reading(0, text, [piece], Notes({})))
            found |= {
                key: replace(note, text=note.definition or note.text)  # all goes into its users
                for key, note in declared.notes.items() if not key.startswith(DIRECTIVE)
            }  # fmt: skip
    keys = {key for note in found.values() for key in note.keys}
    known = keys.__contains__
    kept = plan_notes(known, [note.known_with(known) for note in found.values()])
    names = {
        key: crc32(spelling(note.text).encode("utf-8", "surrogateescape"))
        for note in found.values() for key in note.keys
    }  # fmt: skip
    return names, Notes({key: note.kept for key, note in kept.items()})


@lru_cache(maxsize=16)
def _types(text: str) -> Sequence[Note]:
    """See `Header.types`: the text without its guards is read as a cell is."""
    guards = sum(map(bool, _GUARD.findall(text)))
    text, conditions = _CONDITION.subn("", _GUARD.sub("", text))
    if conditions != guards:
        return ()
    try:
        pieces = cut(text)
    except (Unfinished, Mismatch):
        return ()
    pieces = [p for p in pieces if p.kind not in (PieceKind.STATEMENT, PieceKind.EXPRESSION)]
    declared = Declared(Reading(0, text, pieces, Notes({})))
    return tuple(note for note in declared.notes.values() if note.kind in _TYPES)


# -- macros ----------------------------------------------------------------------------------------


def macros_included(code: str, notes: Notes, clang: Clang) -> Mapping[str, str]:
    """The directives that define the macros of the headers that earlier cells and the `code` of a
    cell include, by name: clang tells them, once for each set of headers."""
    own: list[str] = []
    if _INCLUDES.search(code):
        own = [t.text for t in tokens(code) if t.kind == "directive"]
    if not any(map(_INCLUDES.match, own)):
        own = []
    included = any(note.kind == "include" for note in notes.directives())
    earlier = notes.preprocessed()[1] if own or included else []
    while earlier and not own and earlier[-1].kind != "include":  # no header reads it
        earlier.pop()
    text = "".join(f"{line}\n" for line in (*(note.text for note in earlier), *own))
    if not text and not notes.header:
        return {}
    found = macros_of_headers(clang, notes.header, text)
    defined = {match[1] for match in map(_DEFINES.match, own) if match is not None}
    if defined.isdisjoint(found):
        return found
    return {name: text for name, text in found.items() if name not in defined}


def macros_of_headers(clang: Clang, headers: str, more: str = "") -> Mapping[str, str]:
    """The directives that define the macros of some headers, and of what stands behind them, by
    name; none where clang refuses the headers."""
    folders = clang.asked.folders
    own = (read_header(line, folders) for line in more.split("\n") if _INCLUDES.match(line))
    contents = hash(tuple(header.text for header in own if header is not None))  # they may change
    key = (replace(clang, waiting=nothing), headers + more, contents)
    found = _of_headers.get(key)
    if found is None:
        text = clang.macros(headers, more)
        found = {match[1]: match[0] for match in _DEFINED.finditer(text)}
        if found:
            _of_headers[key] = found
    return found


_of_headers: Recent[tuple[Clang, str, int], Mapping[str, str]] = Recent(_SETS)
