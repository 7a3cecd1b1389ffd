"""What the text of a module defines: functions with their bodies, variables, aliases, types.

Start from `functions`, `global_values` and `type_definitions`; `Names` has the names alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from jitkernel.ir.names import COMMENT, NAME, SKIP, SPACE, decode_name, symbol_name
from jitkernel.ir.text import after_space, closing, line_end, type_at

__all__ = [
    "TARGET",
    "Function",
    "GlobalValue",
    "Names",
    "functions",
    "global_values",
    "type_definitions",
]

# A keyword's first letter stands before what may not precede it, so that the search can skip to it.
_WORD = r"(?<![-\w$.@%!]{0})"
_FUNCTION = re.compile(
    rf"{SKIP}|d{_WORD.format('d')}(?P<keyword>e(?:fine|clare))(?![-\w$.:])"
    rf'(?P<words>(?:[^@";=/]|/(?!\*)|{SKIP})*)(?:@(?P<name>{NAME}){SPACE}(?=\())?'
)
_GLOBAL = re.compile(
    rf"{SKIP}|@(?P<name>{NAME}){SPACE}={SPACE}"
    rf"(?P<words>(?:[a-z_]+(?:\([^()\n]*\))?(?:\s|{COMMENT})+)*?)"
    r"(?P<kind>global|constant|alias|ifunc)(?![-\w$.])"
)
_TYPE = re.compile(rf"{SKIP}|%(?P<name>{NAME}){SPACE}={SPACE}type\b{SPACE}")
_BODY_BEGINS = re.compile(rf"{SKIP}|\b(?P<data>prefix|prologue)\b{SPACE}|[(\[{{<]")
#: A `target` statement: its kind (`triple`, `datalayout`) and its value.
TARGET = re.compile(r'^[ \t]*target[ \t]+(triple|datalayout)[ \t]*=[ \t]*"([^"\n]*)"', re.M)
_LOCAL_LINKAGE = re.compile(r"\b(?:private|internal)\b")
_DECLARED = re.compile(r"\b(?:external|extern_weak)\b")


class Function(NamedTuple):
    """A function that a text defines or declares.

    `start` is the offset of its keyword, `parameters` that of its `(`; `words` the text between
    the keyword and the name (linkage, convention, result), which begins at `words_at`; `spelled`
    the name as it is written.
    """

    source: str
    keyword: str
    spelled: str
    words: str
    start: int
    words_at: int
    parameters: int

    @property
    def name(self) -> str:
        return symbol_name(self.spelled)

    def body(self) -> tuple[int, int]:
        """The offsets of the body's `{` and behind its `}`; (-1, -1) where there is no whole one.

        The constants behind `prefix` and `prologue` may have braces too.
        """
        source = self.source
        at = closing(source, self.parameters)
        while at >= 0 and (match := _BODY_BEGINS.search(source, at)):
            if match["data"]:
                at = match.end() + len(type_at(source, match.end()))
                at = after_space(source, at)
                if source[at : at + 1] in ("{", "[", "<"):
                    at = closing(source, at)
            elif match[0] == "{":
                return match.start(), closing(source, match.start())
            else:
                at = closing(source, match.start()) if match[0] in "([<" else match.end()
        return -1, -1

    @property
    def end(self) -> int:
        """The offset behind the function: its `}`, or the end of its line."""
        if self.keyword == "define" and (end := self.body()[1]) >= 0:
            return end
        return line_end(self.source, self.parameters)

    @property
    def text(self) -> str:
        return self.source[self.start : self.end]


class GlobalValue(NamedTuple):
    """A variable, an alias or an ifunc: `@name = words kind rest`, from offset `start` on."""

    source: str
    spelled: str
    words: str
    kind: str
    start: int
    words_at: int
    value: int

    @property
    def name(self) -> str:
        return symbol_name(self.spelled)

    @property
    def rest(self) -> str:
        """The type and what follows it, up to a comment or the line's end."""
        return self.source[self.value : line_end(self.source, self.value)]

    @property
    def text(self) -> str:
        return self.source[self.start : line_end(self.source, self.value)]


def functions(text: str, keyword: str = "") -> Iterator[Function]:
    """The functions of a text, in order; of one `keyword` (`define`, `declare`) only."""
    for match in _FUNCTION.finditer(text):
        word = match["keyword"] and "d" + match["keyword"]
        if match["name"] and keyword in ("", word):
            at = match.start("words")
            yield Function(
                text, word, match["name"], match["words"], match.start(), at, match.end()
            )


def global_values(text: str) -> Iterator[GlobalValue]:
    """The variables, aliases and ifuncs of a text, in order, those without a name too."""
    for m in _GLOBAL.finditer(text):
        if m["name"]:
            at = m.start("words")
            yield GlobalValue(text, m["name"], m["words"], m["kind"], m.start(), at, m.end())


def type_definitions(text: str) -> Iterator[tuple[str, int]]:
    """The name of each type that a text defines, and the offset of its body."""
    for match in _TYPE.finditer(text):
        if match["name"]:
            yield decode_name(match["name"]), match.end()


class Names:
    """The symbols that texts define and declare; `local` are those of private and internal linkage.
    A copy for the optimiser alone (`available_externally`) defines nothing.

    Globals without a name (`@0`) are their module's own and no symbols.
    """

    __slots__ = ("declares", "defines", "local")

    def __init__(self) -> None:
        self.defines: set[str] = set()
        self.declares: set[str] = set()
        self.local: set[str] = set()

    def add(self, statement: str) -> None:
        """Add those of one statement: a function, or variables."""
        if statement.startswith(("define", "declare")):
            most = 1 if statement.startswith("define") else None  # a body is not looked into
            for function in islice(functions(statement), most):
                declared = function.keyword == "declare" or "available_externally" in function.words
                self._add(function, declared)
        elif statement.startswith("@"):
            for value in global_values(statement):
                self._add(value, _DECLARED.search(value.words) is not None)

    def _add(self, found: Function | GlobalValue, declared: bool) -> None:
        if found.spelled.isdigit():
            return
        (self.declares if declared else self.defines).add(found.name)
        if _LOCAL_LINKAGE.search(found.words):
            self.local.add(found.name)
