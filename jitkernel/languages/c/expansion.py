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
from jitkernel.languages.c.macros import Macro, Macros, tokens_of
from jitkernel.languages.c.pieces import Mismatch, Piece, PieceKind, cut
from jitkernel.languages.c.tokens import Token, Unfinished, all_words, closing, line_starts, tokens
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

_LINE = re.compile(r'# (\d+) "(.*)"')
_WORDS_OF_TYPES = STORAGE | QUALIFIERS | BASIC_TYPES | TAGS | TYPE_OPERATORS | ASSERTIONS


@dataclass(frozen=True, slots=True)
class _Region:
    """A part of the text that is expanded."""

    start: int
    stop: int


@dataclass(slots=True)
class Expansion:
    """The code of a cell, in which `run` expands such macros, and its tokens then.

    `macro` gives the directive that defines a name in headers and earlier cells, "" for none;
    `known` tells whether a name is a variable, function or type of theirs; `preprocess` is clang's
    work, `file` what it is told that the cell is called.
    """

    code: str
    file: str
    macro: Callable[[str], str]
    known: Callable[[str], bool]
    preprocess: Callable[[str], str]
    tokens: list[Token] = field(default_factory=list)
    _macros: Macros = field(default_factory=Macros)
    _made: list[tuple[int, int, frozenset[str]]] = field(default_factory=list)
    _moved: dict[int, int] = field(default_factory=dict)  # columns of a line, by its changes
    _split: tuple[str, list[str]] = ("", [""])  # code, and its lines
    _names: dict[int, frozenset[str]] = field(default_factory=dict)  # macros by line
    _changes: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)

    def run(self) -> None:
        """Expand them; lines stay in place.  Raises Unfinished, and what `preprocess` does."""
        self.tokens, self._macros = tokens(self.code), Macros(self.macro)
        regions = list(self._of_macros())
        starts = line_starts(self.code)
        self._made = [
            (bisect_right(starts, r.start), bisect_right(starts, r.stop), self._macros_in(r))
            for r in regions
        ]
        self._expand(regions)
        self._expand(list(self._of_pieces()))

    def macros_of(self, line: int) -> frozenset[str]:
        """The macros whose expansions made a line what it is, those within others too."""
        if not self._names:
            for first, last, names in self._made:
                for at in range(first, last + 1):
                    self._names[at] = self._names.get(at, frozenset()) | names
        return self._names.get(line, frozenset())

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
        """A line of the code, "" where it has none."""
        if self._split[0] is not self.code:
            self._split = self.code, self.code.split("\n")
        lines = self._split[1]
        return lines[number - 1] if 0 < number <= len(lines) else ""

    # -- which ones ------------------------------------------------------------------------------

    def _of_macros(self) -> Iterator[_Region]:
        """Calls of macros that declare, open or end something, from left to right."""
        found = self.tokens
        at = 0
        while found[at].kind != "end":
            token = found[at]
            if token.kind == "directive":
                self._macros.direct(token.text)
            elif token.kind == "name":
                called = found[at + 1].text == "("
                macro = self._macros.get(token.text)
                if macro is not None and (called or macro.parameters is None):
                    if not self._is_plain(macro):
                        stop = closing(found, at + 1) if macro.parameters is not None else at + 1
                        yield _Region(token.start, found[stop - 1].stop)
                        at = stop
                        continue
                elif token.text == "enum":
                    yield from self._of_enumerators(found, at)
            opens = token.text in ("(", "[", "{") and token.kind == "operator"
            at = closing(found, at) if opens else at + 1

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
                if self._macros.get(token.text) is not None:
                    behind = closing(found, at + 1) if found[at + 1].text == "(" else at + 1
                    yield _Region(token.start, found[behind - 1].stop)
                else:
                    expected = False
            expected |= token.text == ","
            at = behind

    def _of_pieces(self) -> Iterator[_Region]:
        """Declarations and functions with a macro that the cell changes behind them."""
        self._macros.forget()
        changed: list[tuple[str, int]] = []
        for token in self.tokens:
            if token.kind == "directive" and (name := self._macros.direct(token.text)):
                changed.append((name, token.start))
        if not changed:
            return
        self._macros.forget()
        try:
            pieces = cut(
                self.code, lambda name: "value" if self.known(name) else "", self.macro, self.tokens
            )
        except (Unfinished, Mismatch):  # which is told later
            return
        for piece in pieces:
            if piece.kind is PieceKind.DIRECTIVE:
                self._macros.direct(piece.text)
            elif piece.kind in (PieceKind.DECLARATION, PieceKind.FUNCTION):
                later = {name for name, start in changed if start > piece.start}
                if later and self._reaches(piece, later):
                    yield _Region(piece.start, piece.tokens[-1].stop)

    def _reaches(self, piece: Piece, names: set[str]) -> bool:
        """True if a piece has one of these macros, directly or within others."""
        seen: set[str] = set()
        todo = [*all_words(piece.text)]
        reached = False
        while todo:
            name = todo.pop()
            macro = None if name in seen else self._macros.get(name)
            seen.add(name)
            if macro is not None:
                words = all_words(macro.text)
                if name in words:  # it would be expanded once more
                    return False
                reached |= name in names
                todo += words
        return reached

    def _is_plain(self, macro: Macro) -> bool:
        """True if a macro is a part of an expression, a type or an attribute."""
        seen: set[str] = set()
        todo = [macro]
        while todo:
            names = _named(todo.pop())
            if names is None:
                return False
            new = names - seen
            seen |= new
            todo += [inner for name in sorted(new) if (inner := self._macros.get(name)) is not None]
        return True

    def _macros_in(self, region: _Region) -> frozenset[str]:
        """The macros in a region, and those in their texts; headers' are not known."""
        names: set[str] = set()
        todo = [*all_words(self.code[region.start : region.stop])]
        while todo:
            name = todo.pop()
            if name not in names and (macro := self._macros.get(name)) is not None:
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
        begins = line_starts(self.code)
        out: list[str] = []
        at = 0
        for number, region in enumerate(regions):
            line = bisect_right(begins, region.start)
            old = self.code[region.start : region.stop]
            lines = self._lines_of(between.get(2 * number, ""), line, old.count("\n"))
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
            moved = self._moved.get(line + index, 0)
            start = (1 if index else column) + same + moved
            change = start, len(now) - same - ends, len(was) - same - ends
            self._changes.setdefault(line + index, []).append(change)
            self._moved[line + index] = moved + len(now) - len(was)


def _alike(first: str, second: str) -> int:
    """The length of the longest common prefix of two texts."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(first), len(second)))


@lru_cache(maxsize=1 << 12)
def _named(macro: Macro) -> frozenset[str] | None:
    """The names that stand in a macro's text outside of brackets; None where the text alone is more
    than a part of an expression, a type or an attribute."""
    found = [*tokens_of(macro.text), Token("end", "", 0, 0, 0, 0)]
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
