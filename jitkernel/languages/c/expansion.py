"""Macros that are more than expressions, expanded before a cell is cut into its pieces.

What a macro declares (`DEFINE_STACK(int)`), opens (`foreach (i, 3) {`) or lists (`enum { COLORS }`)
is known only when it is expanded, and what a declaration says by a macro that the cell takes back
is known only there.  All other macros stay, for what mentions them follows them when they change.
Start from `Expansion`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from jitkernel.languages.c.conditions import MARKED, marked
from jitkernel.languages.c.pieces import Mismatch, Piece, PieceKind, cut
from jitkernel.languages.c.tokens import Token, Unfinished, all_words, closing, tokens
from jitkernel.languages.c.words import (
    ASSERTIONS,
    BASIC_TYPES,
    CONTROL,
    QUALIFIERS,
    STORAGE,
    TAGS,
    TYPE_OPERATORS,
)

__all__ = ["Expansion"]

_DEFINE = re.compile(r"#\s*define\s+([A-Za-z_]\w*)(\([^)]*\))?((?:.|\n)*)")
_UNDEFINE = re.compile(r"#\s*undef\s+([A-Za-z_]\w*)")
_INCLUDE = re.compile(r"#\s*(?:include|import)")
_LINE = re.compile(r'# (\d+) "(.*)"')
_CAPITALS = re.compile(r"[A-Z_][A-Z0-9_]*[A-Z][A-Z0-9_]*")
_WORDS_OF_TYPES = STORAGE | QUALIFIERS | BASIC_TYPES | TAGS | TYPE_OPERATORS | ASSERTIONS


@dataclass(frozen=True, slots=True)
class _Region:
    """What is expanded, and whether clang alone can tell that it is to be."""

    start: int
    stop: int
    unsure: bool = False


@dataclass(frozen=True, slots=True)
class _Macro:
    """A macro: its parameters, None where it has no parentheses, and its text."""

    parameters: tuple[str, ...] | None
    text: str


@dataclass(slots=True)
class Expansion:
    """The code of a cell, in which `run` expands such macros, and its tokens then.

    `macro` gives the directive that defines a name in earlier cells, "" for none; `known` tells
    whether a name is a variable, function or type of theirs; `preprocess` is clang's work, `file`
    what it is told that the cell is called; `headers` says that headers may define macros.
    """

    code: str
    file: str
    macro: Callable[[str], str]
    known: Callable[[str], bool]
    preprocess: Callable[[str], str]
    headers: bool
    tokens: list[Token] = field(default_factory=list)
    _macros: dict[str, _Macro | None] = field(default_factory=dict)
    _made: list[tuple[int, int, frozenset[str]]] = field(default_factory=list)
    _changes: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)

    def run(self) -> None:
        """Expand them; lines stay in place.  Raises Unfinished, and what `preprocess` does."""
        self.tokens = tokens(self.code)
        regions = list(self._of_macros())
        self._made = [(*self._lines(region), self._macros_in(region)) for region in regions]
        self._expand(regions)
        self._expand(list(self._of_pieces()))

    def macros_of(self, line: int) -> frozenset[str]:
        """The macros whose expansions made a line what it is, those within others too."""
        return frozenset().union(
            *(names for first, last, names in self._made if first <= line <= last)
        )

    def column(self, line: int, column: int) -> int:
        """The column of the cell for one of the code."""
        shift = 0
        for start, new, old in self._changes.get(line, ()):
            if column >= start + new:
                shift += old - new
            elif column >= start:
                return start + shift
        return column + shift

    def line(self, number: int) -> str:
        """A line of the code."""
        return self.code.split("\n")[number - 1]

    # -- which ones ------------------------------------------------------------------------------

    def _get(self, name: str) -> _Macro | None:
        if name not in self._macros:
            self._macros[name] = _defined(self.macro(name))
        return self._macros[name]

    def _of_macros(self) -> Iterator[_Region]:
        """Calls of macros that declare, open or end something, from left to right."""
        found = self.tokens
        at, begins, headers = 0, True, self.headers  # `begins`: a piece may begin here
        while found[at].kind != "end":
            token = found[at]
            if token.kind == "directive":
                self._direct(token)
                headers |= bool(_INCLUDE.match(token.text))
            elif token.kind == "name":
                called = found[at + 1].text == "("
                stop = closing(found, at + 1) if called else at + 1
                macro = self._get(token.text)
                if macro is not None and (called or macro.parameters is None):
                    if not self._is_plain(macro):
                        stop = stop if macro.parameters is not None else at + 1
                        yield _Region(token.start, found[stop - 1].stop)
                        at, begins = stop, True
                        continue
                elif token.text == "enum":
                    yield from self._of_enumerators(found, at)
                elif begins and called and headers and self._may_be_macro(found, at, stop):
                    yield _Region(token.start, found[stop - 1].stop, unsure=True)
                    at, begins = stop, True
                    continue
            if token.text in ("(", "[", "{") and token.kind == "operator":
                at = closing(found, at)
            else:
                at += 1
            begins = token.kind == "directive" or found[at - 1].text in (";", "}")

    def _may_be_macro(self, found: list[Token], at: int, stop: int) -> bool:
        """Whether what looks like a call may be a header's macro that is none."""
        name, behind = found[at].text, found[stop]
        if self.known(name) or name in CONTROL | _WORDS_OF_TYPES or name == "main":
            return False
        return bool(_CAPITALS.fullmatch(name)) or behind.kind == "name" or behind.text == "{"

    def _of_enumerators(self, found: list[Token], at: int) -> Iterator[_Region]:
        """Macros that stand where an enum's constants do."""
        while found[at].text not in ("{", ";", ")", "=") and found[at].kind != "end":
            at += 1
        if found[at].text != "{":
            return
        stop, at, expected = closing(found, at) - 1, at + 1, True
        while at < stop:
            token = found[at]
            behind = closing(found, at) if token.text in ("(", "[", "{") else at + 1
            if expected and token.kind == "name":
                if self._get(token.text) is not None:
                    behind = closing(found, at + 1) if found[at + 1].text == "(" else at + 1
                    yield _Region(token.start, found[behind - 1].stop)
                else:
                    expected = False
            expected |= token.text == ","
            at = behind

    def _of_pieces(self) -> Iterator[_Region]:
        """Declarations and functions with a macro that the cell changes behind them."""
        self._macros.clear()
        changed: list[tuple[str, int]] = []
        for token in self.tokens:
            if token.kind == "directive" and (name := self._direct(token)):
                changed.append((name, token.start))
        if not changed:
            return
        self._macros.clear()
        try:
            pieces = cut(
                self.code, lambda name: "value" if self.known(name) else "", self.macro, self.tokens
            )
        except (Unfinished, Mismatch):  # which is told later
            return
        for piece in pieces:
            if piece.kind is PieceKind.DIRECTIVE:
                self._direct(piece.tokens[0])
            elif piece.kind in (PieceKind.DECLARATION, PieceKind.FUNCTION):
                later = {name for name, start in changed if start > piece.start}
                if later and self._reaches(piece, later):
                    yield _Region(piece.start, piece.tokens[-1].stop)

    def _reaches(self, piece: Piece, names: set[str]) -> bool:
        """Whether a piece has one of these macros, directly or within others."""
        seen: set[str] = set()
        todo = [*all_words(piece.text)]
        reached = False
        while todo:
            name = todo.pop()
            macro = None if name in seen else self._get(name)
            seen.add(name)
            if macro is not None:
                words = all_words(macro.text)
                if name in words:  # it would be expanded once more
                    return False
                reached |= name in names
                todo += words
        return reached

    def _direct(self, token: Token) -> str | None:
        """Follow a directive; the name that had been a macro and is another one now."""
        if match := _DEFINE.match(token.text):
            before, self._macros[match[1]] = self._get(match[1]), _defined(token.text)
            return match[1] if before not in (None, self._macros[match[1]]) else None
        if match := _UNDEFINE.match(token.text):
            before, self._macros[match[1]] = self._get(match[1]), None
            return match[1] if before is not None else None
        return None

    def _is_plain(self, macro: _Macro) -> bool:
        """Whether a macro is a part of an expression, a type or an attribute."""
        seen: set[str] = set()
        todo = [macro]
        while todo:
            names = _named(todo.pop())
            if names is None:
                return False
            new = names - seen
            seen |= new
            todo += [inner for name in sorted(new) if (inner := self._get(name)) is not None]
        return True

    def _lines(self, region: _Region) -> tuple[int, int]:
        return tuple(self.code.count("\n", 0, at) + 1 for at in (region.start, region.stop))  # type: ignore[return-value]

    def _macros_in(self, region: _Region) -> frozenset[str]:
        """The macros in a region, and those in their texts; headers' are not known."""
        names: set[str] = set()
        todo = [*all_words(self.code[region.start : region.stop])]
        while todo:
            name = todo.pop()
            if name not in names and (macro := self._get(name)) is not None:
                names.add(name)
                todo += all_words(macro.text)
        return frozenset(names)

    # -- the text --------------------------------------------------------------------------------

    def _expand(self, regions: list[_Region]) -> None:
        if not regions:
            return
        places = [place for region in regions for place in (region.start, region.stop)]
        parts = MARKED.split(self.preprocess(marked(self.code, places, self.file)))
        between = {int(n): text for n, text in zip(parts[1::2], parts[2::2], strict=True)}
        begins = [0, *(m.end() for m in re.finditer("\n", self.code))]
        out: list[str] = []
        at = 0
        for number, region in enumerate(regions):
            line = bisect_right(begins, region.start)
            old = self.code[region.start : region.stop]
            lines = self._lines_of(between.get(2 * number, ""), line, old.count("\n"))
            if region.unsure and self._is_plain(_Macro((), " ".join(lines))):
                continue
            column = region.start - begins[line - 1] + 1
            self._changed(line, column, old.split("\n"), lines)
            out += self.code[at : region.start], "\n".join(lines)
            at = region.stop
        self.code = "".join((*out, self.code[at:]))
        self.tokens = tokens(self.code)

    def _lines_of(self, text: str, first: int, count: int) -> list[str]:
        """An expansion as the lines of the cell that it stands in."""
        lines = [""] * (count + 1)
        at = first
        for line in text.split("\n"):
            if match := _LINE.match(line):
                at = int(match[1])
            elif not line.startswith("#"):
                index = min(max(at - first, 0), count)
                lines[index] += line if index and not lines[index] else f" {line.strip()}"
                at += 1
        return [lines[0].strip(), *lines[1:]]

    def _changed(self, line: int, column: int, old: list[str], new: list[str]) -> None:
        """Remember which columns are others; what stands behind keeps its own."""
        if len(old) > 1:
            new[-1] = new[-1].ljust(len(old[-1]))
        for index, (was, now) in enumerate(zip(old, new, strict=True)):
            if was == now:
                continue
            same = _alike(was, now)
            ends = _alike(was[same:][::-1], now[same:][::-1])
            shifts = self._changes.setdefault(line + index, [])
            start = (1 if index else column) + same + sum(new - old for _, new, old in shifts)
            shifts.append((start, len(now) - same - ends, len(was) - same - ends))


def _defined(directive: str) -> _Macro | None:
    """The macro that a directive defines."""
    match = _DEFINE.match(directive)
    if match is None:
        return None
    words = match[2] and match[2][1:-1].split(",")
    parameters = tuple(word.strip() for word in words) if words else None
    return _Macro(parameters, " ".join(match[3].replace("\\\n", " ").split()))


def _alike(first: str, second: str) -> int:
    """How many characters two texts begin with that are the same."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(first), len(second)))


@lru_cache(maxsize=1 << 12)
def _named(macro: _Macro) -> frozenset[str] | None:
    """The names that stand in a macro's text outside of brackets; None where the text alone is more
    than a part of an expression, a type or an attribute."""
    try:
        found = tokens(f"0 {macro.text}")  # no directive
    except Unfinished:
        return frozenset()
    names: set[str] = set()
    at, before = 0, ""
    while found[at].kind != "end":
        token, text = found[at], found[at].text
        if token.kind == "name":
            types = text in _WORDS_OF_TYPES or before == "name"
            calls = text in (macro.parameters or ()) and found[at + 1].text == "("
            if text in CONTROL | STORAGE or (macro.parameters is not None and (types or calls)):
                return None
            names.add(text)
        elif text in ("{", "}", ";") or (text == "#" and found[at + 1].text == "#"):
            return None
        before = token.kind
        at = closing(found, at) if text in ("(", "[") else at + 1
    return frozenset(names)
