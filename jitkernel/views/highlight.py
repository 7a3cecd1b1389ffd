"""Lines of code with their words in colours: HTML, one text a line.  Start from `highlighted`.

The inks stand on the elements, because that is what untrusted notebooks keep.  They can be read on
the card of panes and on every colour of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from pygments.token import Comment, Keyword, Name, Number, String

from jitkernel.views.view import inner

#: The elements of kinds of words, each with its ink; where styles are dropped, some still differ.
INKS = {
    (Comment, String): ("i", "#720"),
    (Keyword.Type, Name.Builtin): ("span", "#507"),  # of machine code: registers
    (Keyword, Name.Function, Name.Label): ("b", "#038"),
    (Number,): ("span", "#040"),
}
#: Words by which control goes on elsewhere.
_FLOW = frozenset(
    "br switch indirectbr ret call tail musttail invoke resume unreachable callq jmpq retq".split()
)


def highlighted(lines: Sequence[str], language: str, flow: bool = False) -> list[str]:
    """HTML of lines of a language of cells, or of machine code (`intel`, `att`); with `flow` only
    where control goes on elsewhere, and comments, is in colour."""
    found: list[list[tuple[Any, str]]] = []  # of each line, kinds and words
    for words in _words("\n".join(lines), language):
        row: list[tuple[Any, str]] = []
        for kind, text in words:
            if flow and kind and kind[0] != "i" and not _leads(text):
                kind = None
            if row and (text.isspace() or row[-1][0] == kind):
                row[-1] = row[-1][0], row[-1][1] + text
            else:
                row.append((kind, text))
        found.append(row)
    return ["".join(_element(*word) for word in row) for row in found[: len(lines)]]


@lru_cache(maxsize=4)  # which are wanted in full colours, and then in fewer
def _words(text: str, language: str) -> list[list[tuple[Any, str]]]:
    """The words of each line, with their kinds."""
    lexer = _lexer(language)
    if lexer is None:
        return [[(None, line)] for line in text.split("\n")]
    found: list[list[tuple[Any, str]]] = [[]]
    for token, words in lexer.get_tokens(text):
        kind = _kind(token)
        for number, part in enumerate(words.split("\n")):
            if number:
                found.append([])
            if part:
                found[-1].append((kind, part))
    return found + [[] for _ in range(text.count("\n") + 1 - len(found))]


def _leads(word: str) -> bool:
    return word in _FLOW or word.endswith(":") or word.startswith("j")


def _element(kind: tuple[str, str] | None, words: str) -> str:
    html = inner(words)
    return f"<{kind[0]} style=color:{kind[1]}>{html}</{kind[0]}>" if kind else html


@cache
def _kind(token: Any) -> tuple[str, str] | None:
    return next((ink for kinds, ink in INKS.items() if any(token in k for k in kinds)), None)


def _lexer(language: str) -> Any:
    from pygments.lexers.asm import GasLexer, NasmLexer
    from pygments.lexers.c_cpp import CLexer

    from jitkernel.languages.lexer import IRLexer, KaleidoscopeLexer

    found = {
        "c": CLexer, "": IRLexer, "llvm": IRLexer, "kaleidoscope": KaleidoscopeLexer,
        "intel": NasmLexer, "att": GasLexer,
    }  # fmt: skip
    kind = found.get(language)
    return kind(stripnl=False, ensurenl=False) if kind is not None else None
