"""LLVM IR as one of the cell languages: whether a cell could run as it stands, and which word a
cursor is on, for consoles, completion and inspection.

Start from `LANGUAGE` and `is_complete`.
"""

from __future__ import annotations

from jitkernel.errors import CompileError
from jitkernel.ir.keywords import KEYWORDS
from jitkernel.ir.statements import Kind, Problem, normalise, scan, word_at
from jitkernel.ir.text import without_comments
from jitkernel.languages.language import Completeness, Known, Language
from jitkernel.languages.llvm.plan import Plan, parse_cell

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
    symbol_at=word_at,
)
