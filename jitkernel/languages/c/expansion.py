"""What the preprocessor makes of a cell before it is cut into its pieces: lines that `#if` leaves
out are blank, and macros that are more than expressions are expanded.

What a macro declares (`DEFINE_STACK(int)`), opens (`foreach (i, 3) {`) or lists (`enum { COLORS }`)
is known only when it is expanded, and what a declaration says by a macro that the cell takes back
is known only there.  All other macros stay, for what mentions them follows them when they change.
Start from `Expansion`; `written` tells what pieces say by conditions and by macros, as it was
written.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

from jitkernel.languages.c.code import Code, Part
from jitkernel.languages.c.generated import OWN, WIDE
from jitkernel.languages.c.macros import Macro, Macros, tokens_of
from jitkernel.languages.c.pieces import Mismatch, Piece, PieceKind, cut
from jitkernel.languages.c.reading import Written
from jitkernel.languages.c.tokens import (
    CONDITION,
    HAS_CONDITION,
    PRAGMA,
    Token,
    Unfinished,
    after,
    all_words,
    asked_for,
    closing,
    tokens,
)
from jitkernel.languages.c.words import (
    ASSERTIONS,
    BASIC_TYPES,
    CONTROL,
    QUALIFIERS,
    STORAGE,
    TAGS,
    TYPE_OPERATORS,
)
from jitkernel.reach import reached
from jitkernel.regex import regex

_LINE = regex(r'# (\d+) "(.*)"')
_BRANCH = regex(r"#\s*(if|el|endif)")
_CHANGED = regex(r"#\s*(?:define|undef)\s+(\w+)")
_MARK = f"#pragma {OWN}at"
_PRAGMA = regex(r"#pragma (.*)")
_MARKED = regex(rf"^{_MARK} (\d+)$", re.MULTILINE)
_NO_EXPRESSION = CONTROL | STORAGE | {PRAGMA}
_WORDS_OF_TYPES = STORAGE | QUALIFIERS | BASIC_TYPES | TAGS | TYPE_OPERATORS | ASSERTIONS


#: A part of the text that is expanded: from, and to.
_Region: TypeAlias = tuple[int, int]


class Expansion:
    """The code of a cell, where its conditions hold; `expand` expands such macros.

    `file` is what clang is told that the cell is called, `preprocess` clang's work.  Raises what
    that does, and Unfinished.
    """

    def __init__(self, source: str, file: str, preprocess: Callable[[str], str]):
        self.code, self.tokens = Code(source), list[Token]()
        self._file, self._preprocess = file, preprocess
        self._macros = Macros()
        self._names: dict[int, frozenset[str]] = {}  # macros by line
        if HAS_CONDITION.search(source):
            self.code = self._active()

    def expand(self, macro: Callable[[str], str], known: Callable[[str], bool]) -> None:
        """Expand them.  `macro` gives the directive that defines a name in headers and earlier
        cells, "" for none; `known` tells whether a name is a variable, function or type of theirs.
        """
        self.tokens, self._macros = tokens(self.code.text), Macros(macro)
        regions = list(self._of_macros())
        for start, stop in regions:
            names = self._within(all_words(self.code.text[start:stop])).keys()
            for line in range(self._line(start), self._line(stop) + 1):
                self._names[line] = self._names.get(line, frozenset()) | names
        self._expand(regions)
        self._expand(list(self._of_pieces(macro, known)))

    def macros_of(self, line: int) -> frozenset[str]:
        """The macros whose expansions made a line what it is, those within others too."""
        return self._names.get(line, frozenset())

    def _line(self, place: int) -> int:
        return bisect_right(self.code.starts, place)

    def _active(self) -> Code:
        """The code with blanks for what its `#if` leaves out, and for those directives."""
        code = self.code.text
        marks = [t for t in tokens(code) if t.kind == "directive" and CONDITION.match(t.text)]
        alive = self._between([mark.stop for mark in marks])
        ends = [*(mark.start for mark in marks[1:]), len(code)]
        parts = []
        for number, (mark, end) in enumerate(zip(marks, ends, strict=True)):
            stop = mark.stop if number in alive else end
            blank = [" " * len(line) for line in code[mark.start : stop].split("\n")]
            parts.append(Part(mark.start, stop, blank))
        return self.code.replaced(parts)

    def _between(self, places: list[int]) -> dict[int, str]:
        """The text behind each of these places that clang comes to, as it makes it."""
        code, parts, at = self.code.text, list[str](), 0
        for number, place in enumerate(places):  # where the lines go on behind a mark
            line = self._line(place)
            blanks = " " * min(place - self.code.starts[line - 1], WIDE)
            parts.append(f'{code[at:place]}\n{_MARK} {number}\n# {line} "{self._file}"\n{blanks}')
            at = place
        found = _MARKED.split(self._preprocess("".join((*parts, code[at:]))))
        return {int(n): text for n, text in zip(found[1::2], found[2::2], strict=True)}

    # -- which ones ------------------------------------------------------------------------------

    def _of_macros(self) -> Iterator[_Region]:
        """Calls of macros that declare, open or end something, from left to right."""
        found = self.tokens
        at = 0
        while found[at].kind != "end":
            if found[at].kind == "directive":
                self._macros.direct(found[at].text)
            elif found[at].text == "enum":
                yield from self._of_enumerators(found, at)
            elif (call := self._macros.call(found, at)) and not self._is_plain(call.macro):
                yield (found[at].start, found[call.behind - 1].stop)
                at = call.behind
                continue
            at = after(found, at)

    def _of_enumerators(self, found: list[Token], at: int) -> Iterator[_Region]:
        """Macros that stand where an enum's constants do."""
        while found[at].text not in ("{", ";", ")", "=") and found[at].kind != "end":
            at += 1
        if found[at].text != "{":
            return
        stop, at, expected = closing(found, at) - 1, at + 1, True
        while at < stop:
            token, behind = found[at], after(found, at)
            if expected and (call := self._macros.call(found, at)):
                behind = call.behind
                yield (token.start, found[behind - 1].stop)
            else:
                expected = token.text == "," or (expected and token.kind != "name")
            at = behind

    def _of_pieces(
        self, macro: Callable[[str], str], known: Callable[[str], bool]
    ) -> Iterator[_Region]:
        """Declarations and functions with a macro that the cell changes behind them."""
        self._macros = Macros(macro)
        changed: list[tuple[str, int]] = []
        for token in self.tokens:
            if token.kind == "directive" and (name := self._macros.direct(token.text)):
                changed.append((name, token.start))
        if not changed:
            return
        self._macros = Macros(macro)
        try:
            pieces = cut(
                self.code.text, lambda name: "value" if known(name) else "", macro, self.tokens
            )
        except (Unfinished, Mismatch):  # which is told later
            return
        for piece in pieces:
            if piece.kind is PieceKind.DIRECTIVE:
                self._macros.direct(piece.text)
            elif piece.kind in (PieceKind.DECLARATION, PieceKind.FUNCTION):
                later = {name for name, start in changed if start > piece.start}
                yield from self._of_macros_reaching(later, piece.tokens) if later else ()

    def _of_macros_reaching(self, names: set[str], found: list[Token]) -> Iterator[_Region]:
        """Macros that are these, directly or within others."""
        at = 0
        while at < len(found):
            call = self._macros.call(found, at)
            stop = at + 1
            if call is not None and self._reaches(found[at].text, names):
                stop = call.behind
                yield (found[at].start, found[stop - 1].stop)
            at = stop

    def _reaches(self, name: str, names: set[str]) -> bool:
        """True if a macro is one of these, directly or within others."""
        found = self._within([name])
        again = any(name in all_words(macro.text) for name, macro in found.items())
        return not again and not names.isdisjoint(found)  # `again`: it would be expanded once more

    def _within(self, names: Iterable[str]) -> dict[str, Macro]:
        """The macros among some names and those in their texts; headers' are not known."""

        def inner(name: str) -> Iterable[str]:
            macro = self._macros.get(name)
            return () if macro is None else all_words(macro.text)

        every = ((name, self._macros.get(name)) for name in reached(names, inner))
        return {name: macro for name, macro in every if macro is not None}

    def _is_plain(self, macro: Macro) -> bool:
        """True if a macro is a part of an expression, a type or an attribute."""

        def inner(macro: Macro) -> Iterable[Macro]:
            return filter(None, map(self._macros.get, sorted(_named(macro) or ())))

        return None not in map(_named, reached([macro], inner))

    # -- the text --------------------------------------------------------------------------------

    def _expand(self, regions: list[_Region]) -> None:
        if not regions:
            return
        between = self._between([place for region in regions for place in region])
        parts = []
        for number, (start, stop) in enumerate(regions):
            count = self.code.text.count("\n", start, stop)
            lines = self._lines_of(between.get(2 * number, ""), self._line(start), count)
            parts.append(Part(start, stop, lines))
        self.code = self.code.replaced(parts)
        self.tokens = tokens(self.code.text)

    def _lines_of(self, text: str, first: int, count: int) -> list[str]:
        """An expansion as the lines of the cell that it stands in."""
        lines = [""] * (count + 1)
        at = first
        for line in text.split("\n"):
            if match := _LINE.match(line):
                at = int(match[1])
            elif line.startswith("#pragma ") or not line.startswith("#"):
                line = _PRAGMA.sub(_operator, line)
                index = min(max(at - first, 0), count)
                lines[index] += line if index and not lines[index] else f" {line.strip()}"
                at += 1
        return [lines[0].strip(), *lines[1:]]


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
            if text in _NO_EXPRESSION or (macro.parameters is not None and (types or calls)):
                return None
            names.add(text)
        elif (
            text in ("{", "}", ";")
            or (text == "#" and found[at + 1].text == "#")
            or token.kind == "directive"  # that `_Pragma` is
        ):
            return None
        before = token.kind
        at = closing(found, at) if text in ("(", "[") else at + 1
    return frozenset(names)


def _operator(match: re.Match[str]) -> str:
    """A pragma as the operator that a macro gives one by.  C11 6.10.9."""
    text = match[1].replace("\\", "\\\\").replace('"', '\\"')
    return f'{PRAGMA}("{text}")'


# -- what was written ------------------------------------------------------------------------------


def written(code: Code, pieces: Sequence[Piece]) -> tuple[list[Written], frozenset[str]]:
    """The braces of a cell's pieces that were written otherwise than they were read, and the names
    that conditions outside of them ask for.

    A function with `#if DEBUG` within its braces follows `DEBUG` when its note has the condition,
    and not what that left.
    """
    source = code.source
    if source == code.text:
        return [], frozenset()
    changed = [
        (match[1], piece.start) for piece in pieces
        if piece.kind is PieceKind.DIRECTIVE and (match := _CHANGED.match(piece.text))
    ]  # fmt: skip
    found, outside, at = list[Written](), list[str](), 0
    for piece in pieces:
        later = {name for name, start in changed if start > piece.start}
        for first, last in _braces(piece):
            start, stop = code.origin(first.start), code.origin(last.start) + 1
            text = source[start:stop]
            same = text == code.text[first.start : last.stop] or text[:1] + text[-1:] != "{}"
            if not same and _has_whole_branches(text) and later.isdisjoint(all_words(text)):
                found.append((first.start, last.stop, text))
                outside.append(source[at:start])
                at = stop
    return found, asked_for("".join((*outside, source[at:])))


def _braces(piece: Piece) -> Iterator[tuple[Token, Token]]:
    """The piece's outermost braces; those of an enum give names."""
    found, at = piece.tokens, 0
    while at < len(found) and piece.kind in (PieceKind.DECLARATION, PieceKind.FUNCTION):
        stop = after(found, at)
        if found[at].text == "enum":
            return
        if found[at].text == "{":
            yield found[at], found[stop - 1]
        at = stop


def _has_whole_branches(text: str) -> bool:
    """True if all of its conditions begin and end in it."""
    depth = 0
    for token in tokens(text):
        match = _BRANCH.match(token.text) if token.kind == "directive" else None
        if match is not None and match[1] == "el":
            if not depth:
                return False
        elif match is not None:
            depth += 1 if match[1] == "if" else -1
            if depth < 0:
                return False
    return not depth
