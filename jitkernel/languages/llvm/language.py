"""LLVM IR as one of the cell languages: whether a cell could run as it stands, and which word a
cursor is on, for consoles, completion and inspection.

Start from `LANGUAGE`, `is_complete` and `token_at`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from jitkernel.errors import CompileError
from jitkernel.ir.keywords import KEYWORDS
from jitkernel.ir.text import without_comments
from jitkernel.languages.language import Completeness, Known, Language
from jitkernel.languages.llvm.plan import Plan, parse_cell
from jitkernel.languages.llvm.statements import Kind, Problem, normalise, scan

__all__ = ["LANGUAGE", "Token", "is_complete", "token_at"]

#: Characters beyond which a cell is not looked into: nobody types so much, and reading it takes
#: seconds in which the console waits.
_LARGE = 1 << 18


def is_complete(source: str) -> Completeness:
    """Tell if a cell is whole, needs more lines, or is wrong whatever follows.

    A very long one counts as whole: running it tells the rest.
    """
    if len(source) > _LARGE:
        return Completeness("complete")
    source = normalise(source)
    statements, problems = scan(source)
    if _is_open(problems):
        return Completeness("incomplete", _indent(source))
    if problems:
        return Completeness("invalid")
    if not statements:
        return Completeness("complete")
    last = statements[-1]
    if statements[0].kind is Kind.CELL_MAGIC:
        # As in IPython: a blank line ends the cell that a cell magic begins.
        ended = "\n" in statements[0].text and source.endswith("\n\n")
        body = statements[0].text.partition("\n")[2]
        indent = _indent(body) if _is_open(scan(body)[1]) else ""
        return Completeness("complete") if ended else Completeness("incomplete", indent)
    if last.kind is Kind.LABEL:
        return Completeness("incomplete", "  ")
    if (last.kind is Kind.SHELL and source.rstrip(" \t").endswith("\\")) or (
        last.text.startswith("define") and not last.text.endswith("}")
    ):
        return Completeness("incomplete")
    try:
        parse_cell(source)
    except CompileError:
        return Completeness("invalid")
    return Completeness("complete")


def _is_open(problems: tuple[Problem, ...]) -> bool:
    """True if there are problems, and more text could settle them all."""
    return bool(problems) and all(p.incomplete for p in problems)


def _indent(source: str) -> str:
    """Two blanks more than a line that opens a bracket, else as the last line."""
    lines = source.rstrip().split("\n")
    last = lines[-1]
    own = last[: len(last) - len(last.lstrip())]
    code = without_comments(last).rstrip()
    if code.endswith(":"):
        return own or "  "
    return own + "  " if code.endswith(("{", "(", "[", "<")) else own or "  "


@dataclass(frozen=True, slots=True)
class Token:
    """The word around a cursor.

    `kind` is "global" (`@sq`), "local" (`%x`), "magic" (a line's first `%word`), "cell magic",
    "metadata", "type" or "word" (opcodes and keywords), or "" where there is none.  `text` is the
    whole word with its sigil, `prefix` the part before the cursor; they begin at offset `start`.
    `first` says that the word begins its line.
    """

    kind: str
    text: str
    prefix: str
    start: int
    stop: int
    first: bool


_TYPE_WORD = re.compile(r"i\d+|ptr|void|half|bfloat|float|double|x86_fp80|fp128")
_TOKEN = re.compile(
    r'(?P<string>c"[^"\n]*(?:"|(?=\n)|\Z)|"(?:\\[^\n]|[^"\\\n])*(?:"|\\?(?=\n)|\\?\Z))|(?P<comment>;[^\n]*|/\*[^\n]*?(?:\*/|(?=\n)|\Z))'
    r'|(?P<global>@(?:"[^"\n]*"?|[-a-zA-Z$._0-9]*))|(?P<cell>%%[A-Za-z_]*[\w.]*)'
    r'|(?P<local>%(?:"[^"\n]*"?|[-a-zA-Z$._0-9]*))|(?P<metadata>![-a-zA-Z$._0-9]*)'
    r"|(?P<word>[A-Za-z_][\w.]*)"
)
_KINDS = {"cell": "cell magic"}


def token_at(source: str, position: int) -> Token:
    """The word that ends or goes on at offset `position` of a cell, else the one that begins there.

    Inside strings and comments there is none.
    """
    position = max(0, min(position, len(source)))
    begin = source.rfind("\n", 0, position) + 1
    end = source.find("\n", position)
    end = len(source) if end < 0 else end
    found: re.Match[str] | None = None
    for match in _TOKEN.finditer(source, begin, end):
        inside = match.start() < position
        if match.start() > position or (found and match.start() == position):
            break
        if match.lastgroup == "comment" and inside and position <= match.end():
            break
        if match.lastgroup == "string":
            if inside and position < match.end():
                break
        elif match.lastgroup != "comment" and position <= match.end():
            found = match
    if found is None:
        return Token("", "", "", position, position, not source[begin:position].strip())
    first = not source[begin : found.start()].strip(" \t?")
    kind = _KINDS.get(found.lastgroup or "", found.lastgroup or "")
    if kind == "local" and first and not source[found.end() : end].lstrip().startswith("="):
        kind = "magic"
    elif kind == "word" and _TYPE_WORD.fullmatch(found[0]):
        kind = "type"
    prefix = source[found.start() : position]
    return Token(kind, found[0], prefix, found.start(), found.end(), first)


def read(source: str, known: Known) -> Plan:
    """A cell of IR says by itself what it asks for."""
    return parse_cell(source)


LANGUAGE = Language(
    name="llvm",
    read=read,
    display_name="LLVM IR",
    version="22",
    file_extension=".ll",
    mimetype="text/x-llvm",
    lexer="llvm",
    cell_lexer="jitkernel",
    help_url="https://llvm.org/docs/LangRef.html",
    is_complete=is_complete,
    keywords=KEYWORDS,
    symbol_at=lambda source, position: token_at(source, position).text,
)
