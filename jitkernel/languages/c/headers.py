"""Headers of the user's own, which change on disk: what they declare, and what of it is new.

A header of the system is taken as it was.  Conditions in a header are not followed: what stands
behind any of them counts as declared.  Start from `read_header`, of macros from `macros_included`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from zlib import crc32

from jitkernel.errors import CompileError
from jitkernel.files import kind_of, working_folder
from jitkernel.languages.c.clang import Clang, nothing
from jitkernel.languages.c.declared import Declared
from jitkernel.languages.c.notes import DIRECTIVE, Note, Notes, plan_notes, spelling
from jitkernel.languages.c.pieces import Mismatch, PieceKind, cut
from jitkernel.languages.c.reading import Reading
from jitkernel.languages.c.tokens import Unfinished, tokens
from jitkernel.printable import printable

_INCLUDE = re.compile(r'#\s*(?:include|include_next|import)\s*(?:"([^"\n]+)"|<([^>\n]+)>)')
_DEFINED = re.compile(r"^#define (\w+).*", re.MULTILINE)
_DEFINES = re.compile(r"#\s*define\s+(\w+)")
_INCLUDES = re.compile(r"#\s*(?:include|include_next|import)\b")
_SETS = 8  # of headers whose macros are kept
_LARGEST = 64 << 10  # bytes of a header that is followed


@dataclass(frozen=True, slots=True)
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

    def changed(self, before: Mapping[str, int]) -> set[str]:
        """The keys of what is another now than in such a content, or was not there, and of what is
        made of that."""
        names, notes = _declared(self.text)
        return notes.affected({key for key, sum in names.items() if before.get(key) != sum})[0]


def read_header(directive: str, folders: Sequence[str]) -> Header | None:
    """The header that a directive includes; None for the system's, and what is too large."""
    texts: list[str] = []
    for _, text in _files(directive, folders):
        texts.append(text)
        if sum(map(len, texts)) > _LARGEST:
            return None
    return Header("\n".join(reversed(texts))) if texts else None


def refuse_others(directive: str, folders: Sequence[str], hint: str = "", beside: str = "") -> None:
    """Raise CompileError where what a directive includes is there, and is neither a file nor a
    folder, which is passed over: a device may have no end.  `beside` is the folder of the file that
    asks, the user's without."""
    for path in _looked_for(directive, beside or working_folder(), folders):
        try:
            mode = os.stat(path).st_mode
        except OSError:
            continue
        if stat.S_ISREG(mode):
            return
        if not stat.S_ISDIR(mode):
            raise CompileError(
                f"{printable(path)} is {kind_of(mode)}, not a file: nothing is included from it"
                f"{hint}"
            )


def brings(directive: str, file: str, folders: Sequence[str]) -> bool:
    """True if a directive includes a file of the user's, directly or within others."""
    wanted = os.path.realpath(file)
    return any(os.path.realpath(path) == wanted for path, _ in _files(directive, folders))


def is_of(directive: str, file: str, folders: Sequence[str]) -> bool:
    """True if a directive includes a file of the user's directly."""
    found = _found(directive, working_folder(), folders)
    return bool(found) and os.path.realpath(found) == os.path.realpath(file)


def _files(directive: str, folders: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The files of the user's that a directive includes, with their texts."""
    seen = {""}
    todo = [_found(directive, working_folder(), folders)]
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        text = _text(path)
        yield path, text
        for match in _INCLUDE.finditer(text):
            refuse_others(match[0], folders, "", os.path.dirname(path))
            todo.append(_found(match[0], os.path.dirname(path), folders))


def _looked_for(directive: str, beside: str, folders: Sequence[str]) -> Iterator[str]:
    """The paths that a directive may mean, the first first."""
    if match := _INCLUDE.match(directive):
        for folder in ([beside] if match[1] else []) + list(folders):
            yield os.path.join(folder, match[1] or match[2])


def _found(directive: str, beside: str, folders: Sequence[str]) -> str:
    """The path of the file that a directive means, "" where there is none."""
    return next(filter(os.path.isfile, _looked_for(directive, beside, folders)), "")


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
            return file.read(_LARGEST + 1)  # what is larger is not followed
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
            declared = Declared(Reading(0, text, [piece], Notes({})))
            found |= {k: n for k, n in declared.notes.items() if not k.startswith(DIRECTIVE)}
    keys = {key for note in found.values() for key in note.keys}
    known = keys.__contains__
    kept = plan_notes(known, [note.known_with(known) for note in found.values()])
    names = {
        key: crc32(spelling(f"{note.text} {note.definition}").encode("utf-8", "surrogateescape"))
        for note in found.values() for key in note.keys
    }  # fmt: skip
    return names, Notes({key: note.kept for key, note in kept.items()})


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
    earlier = notes.preprocessed() if own or included else []
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
        while len(_of_headers) >= _SETS:
            del _of_headers[next(iter(_of_headers))]
        if found:
            _of_headers[key] = found
    return found


_of_headers: dict[tuple[Clang, str, int], Mapping[str, str]] = {}
