"""C, as the session knows a language.  Start from `LANGUAGE`."""

from __future__ import annotations

from collections.abc import Mapping

from jitkernel.ir.names import CONTROL
from jitkernel.languages.c.clang import check
from jitkernel.languages.c.completion import complete, inspect
from jitkernel.languages.c.expression_types import types
from jitkernel.languages.c.notes import IDENTIFIER, MACRO, Notes, declared
from jitkernel.languages.c.pieces import Mismatch, PieceKind, cut
from jitkernel.languages.c.prototypes import declaration, foreign, prototype, spelled
from jitkernel.languages.c.reader import read, superseded, with_debug
from jitkernel.languages.c.tokens import Unfinished, tokens, without_digraphs, words
from jitkernel.languages.c.values import literal
from jitkernel.languages.c.words import THREAD_LOCAL
from jitkernel.languages.language import Completeness, Language, plain_call, split_commands
from jitkernel.languages.llvm.plan import Kept
from jitkernel.printable import printable
from jitkernel.regex import regex
from jitkernel.values.value import TypedValue

_INDENT = "    "
_CONDITION = regex(r"#\s*(if|endif)")


def is_complete(source: str) -> Completeness:
    """Tell if a console may run the cell: nothing is open, and the last declaration has its `;`."""
    code = without_digraphs(split_commands(source).code)
    try:
        pieces = cut(code)
    except Unfinished:
        return Completeness("incomplete", _INDENT * _depth(code))
    except Mismatch:
        return Completeness("invalid")
    depth = 0
    for piece in pieces:
        if piece.kind is PieceKind.DIRECTIVE and (match := _CONDITION.match(piece.text)):
            depth += 1 if match[1] == "if" else -1
    last = pieces[-1] if pieces else None
    open_ = last is not None and (
        (last.kind is PieceKind.DECLARATION and last.tokens[-1].text != ";")
        or last.text.endswith("\\")
        or (last.kind is PieceKind.STATEMENT and last.tokens[-1].text == ")")
    )
    return Completeness("incomplete" if depth > 0 or open_ else "complete")


def _depth(code: str) -> int:
    try:
        texts = [t.text for t in tokens(code) if t.kind == "operator"]
    except Unfinished:
        return 0
    return max(texts.count("{") - texts.count("}"), 0)


def show(value: TypedValue) -> str:
    """A value as C writes it, "" for one of another language."""
    return value.shown


def symbol_of(name: str, notes: Mapping[str, Kept]) -> str:
    """The symbol of a name that has another one: by a label, or as thread-local variables do."""
    note = Notes(notes).identifier(name)
    if note is None or note.kind not in ("function", "variable"):
        return ""
    local = note.kind == "variable" and not words(note.text).isdisjoint(THREAD_LOCAL)
    symbol = CONTROL + note.symbol if local else note.symbol
    return symbol if symbol != name else ""


def called(symbol: str, notes: Mapping[str, Kept]) -> str:
    """The name that a cell that has left these notes has for a symbol of its own: the inverse of
    `symbol_of`."""
    name = symbol.removeprefix(CONTROL)
    if name.isidentifier() and IDENTIFIER + name not in notes:  # a label gave it, or it is local
        name = next((note.name for note in Notes(notes) if note.symbol == name), name)
    return printable(name)


def call_line(source: str, notes: Mapping[str, Kept]) -> str:
    """The call line of IR that a call with constants amounts to; none where a macro has the name,
    or the symbol is another."""
    line = plain_call(source, notes)
    name = line[1:].partition("(")[0]
    return "" if MACRO + name in notes or symbol_of(name, notes) else line


LANGUAGE = Language(
    name="c",
    read=read,
    display_name="C",
    version="17",
    file_extension=".c",
    mimetype="text/x-csrc",
    lexer="c",
    cell_lexer="jitkernel-c",
    editor_mode="jitkernel-c",
    help_url="https://en.cppreference.com/w/c",
    is_complete=is_complete,
    complete=complete,
    inspect=inspect,
    show=show,
    symbol_of=symbol_of,
    called=called,
    literal=literal,
    call_line=call_line,
    check=check,
    prototype=prototype,
    declares=declared,
    declaration=declaration,
    spelled=spelled,
    foreign=foreign,
    superseded=superseded,
    types=types,
    with_debug=with_debug,
)
