"""The macros of headers, which clang tells: once for each set of headers.  Start from
`HeaderMacros`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

from jitkernel.languages.c.clang import Clang
from jitkernel.languages.c.flags import folders_of
from jitkernel.languages.c.headers import read_header
from jitkernel.languages.c.notes import Notes
from jitkernel.languages.c.tokens import tokens

__all__ = ["HeaderMacros", "macros_of_headers"]

_DEFINED = re.compile(r"^#define (\w+).*", re.MULTILINE)
_DEFINES = re.compile(r"#\s*define\s+(\w+)")
_INCLUDES = re.compile(r"#\s*(?:include|include_next|import)\b")
_SETS = 8  # of headers whose macros are kept


class HeaderMacros:
    """The macros of the headers that earlier cells and the `code` of a cell include."""

    def __init__(self, code: str, notes: Notes, clang: Clang):
        self._code, self._notes, self._clang = code, notes, clang

    def get(self, name: str) -> str:
        """The directive that defines a macro, "" for what is none."""
        return self._given.get(name, "")

    @cached_property
    def _given(self) -> Mapping[str, str]:
        own: list[str] = []
        if _INCLUDES.search(self._code):
            own = [t.text for t in tokens(self._code) if t.kind == "directive"]
        if not any(map(_INCLUDES.match, own)):
            own = []
        included = any(note.kind == "include" for note in self._notes.directives())
        earlier = self._notes.preprocessed() if own or included else []
        while earlier and not own and earlier[-1].kind != "include":  # no header reads it
            earlier.pop()
        text = "".join(f"{line}\n" for line in (*(note.text for note in earlier), *own))
        if not text and not self._notes.header:
            return {}
        found = macros_of_headers(self._clang, self._notes.header, text)
        defined = {match[1] for match in map(_DEFINES.match, own) if match is not None}
        if defined.isdisjoint(found):
            return found
        return {name: text for name, text in found.items() if name not in defined}


def macros_of_headers(clang: Clang, headers: str, more: str = "") -> Mapping[str, str]:
    """The directives that define the macros of some headers, and of what stands behind them, by
    name; none where clang refuses the headers."""
    folders = folders_of(clang.more)
    own = (read_header(line, folders) for line in more.split("\n") if _INCLUDES.match(line))
    contents = hash(tuple(header.text for header in own if header is not None))  # they may change
    key = (replace(clang, waiting=_nothing), headers + more, contents)
    found = _of_headers.get(key)
    if found is None:
        text = clang.macros(headers, more)
        found = {match[1]: match[0] for match in _DEFINED.finditer(text)}
        while len(_of_headers) >= _SETS:
            del _of_headers[next(iter(_of_headers))]
        if found:
            _of_headers[key] = found
    return found


def _nothing() -> None:
    """Do nothing while clang works, where nobody waits for it."""


_of_headers: dict[tuple[Clang, str, int], Mapping[str, str]] = {}
