"""Cells for Pygments, and so for nbconvert: a cell is coloured as what its `%%` line says it is.

`CellLexer` looks at that line and leaves the rest to the lexer of its language.  LLVM IR has one in
Pygments itself; to it are added the lines of a cell that are no IR.  Start from `CellLexer`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from pygments.lexer import Lexer, RegexLexer, bygroups, inherit, words
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.lexers.asm import LlvmLexer
from pygments.lexers.c_cpp import CLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, Text
from pygments.util import ClassNotFound

from jitkernel.regex import regex

_HEAD = regex(r"[ \t]*%%([\w.]+)([^\n]*)(?:\n|\Z)")
#: Cell magics whose body is no cell language by itself.
_BODIES = {
    "python": "python",
    "pass": "python",
    "analysis": "python",
    "cpp": "cpp",
    "exercise": "llvm",
}


class IRLexer(LlvmLexer):  # type: ignore[misc]
    """LLVM IR as cells have it: with magics, shell commands, questions and call lines."""

    name = "LLVM IR with magics"
    aliases: ClassVar[list[str]] = []
    filenames: ClassVar[list[str]] = []

    tokens: ClassVar[dict[str, list[Any]]] = {
        **LlvmLexer.tokens,
        "root": [
            (r"^[ \t]*%%?[A-Za-z_][\w.]*(?![-\w$.]*\s*=)[^\n]*", Comment.Preproc),
            (r"^!(?![\w.$]+\s*=)[^\n]*", Comment.Preproc),
            (r"/\*(?:[^*]|\*[^/])*\*/", Comment.Multiline),
            (r"^(?:\?{1,2}\S+|\S+?\?{1,2})[ \t]*$", Comment.Preproc),
            *LlvmLexer.tokens["root"],
            # What Pygments does not know, such as a keyword that is younger than it is.
            (r"[A-Za-z_][\w.]*", Keyword),
            (r"[-+]?\d[\w.]*", Number),
            (r"[^\s\w]", Punctuation),
        ],
    }


_COMMAND = r"^(?:%[A-Za-z_][^\n]*|\?{1,2}\S+[ \t]*$|\S+?\?{1,2}[ \t]*$)"


class CommandedCLexer(CLexer):  # type: ignore[misc]
    """C as cells have it: with magics and questions above the code and below it."""

    name = "C with magics"
    aliases: ClassVar[list[str]] = []
    filenames: ClassVar[list[str]] = []
    mimetypes: ClassVar[list[str]] = []

    tokens: ClassVar[dict[str, list[Any]]] = {
        "root": [(_COMMAND, Comment.Preproc), inherit],
        # An expression at the end, whose value is shown, has no `;`.
        "statement": [(_COMMAND, Comment.Preproc, "#pop"), inherit],
    }


class CellLexer(Lexer):  # type: ignore[misc]
    """A notebook's cell: LLVM IR, or what its first line names."""

    name = "jitkernel cell"
    aliases: ClassVar[list[str]] = ["jitkernel"]
    language = "llvm"

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, Any, str]]:
        """The tokens of a cell, with their offsets."""
        at, language = 0, self.language
        while match := _HEAD.match(text, at):
            yield at, Comment.Preproc, match[0]
            at, language = match.end(), _language(match[1], match[2], language)
        lexer = _lexer(language)
        for offset, token, part in lexer.get_tokens_unprocessed(text[at:]):
            yield at + offset, token, part


class CCellLexer(CellLexer):
    """A cell of a notebook whose cells are C unless they say otherwise."""

    name = "jitkernel cell, C"
    aliases: ClassVar[list[str]] = ["jitkernel-c"]
    language = "c"


class KaleidoscopeCellLexer(CellLexer):
    """A cell of a notebook whose cells are Kaleidoscope unless they say otherwise."""

    name = "jitkernel cell, Kaleidoscope"
    aliases: ClassVar[list[str]] = ["jitkernel-kaleidoscope"]
    language = "kaleidoscope"


def _language(magic: str, line: str, now: str) -> str:
    """The language below `%%magic line`, or a file's name for `%%writefile`."""
    if magic == "writefile":
        return line.split()[-1] if line.strip() else "text"
    if magic in _BODIES:
        return _BODIES[magic]
    return now if magic in ("time", "timeit", "asm") else magic


def _lexer(language: str) -> Any:
    if language == "llvm":
        return IRLexer()
    if language == "kaleidoscope":
        return KaleidoscopeLexer()
    if language == "c":
        return CommandedCLexer()
    try:
        if "." in language:
            known = {"ll": IRLexer, "ks": KaleidoscopeLexer, "c": CommandedCLexer}
            made = known.get(language.rpartition(".")[2])
            return made() if made else get_lexer_for_filename(language)
        return get_lexer_by_name(_added(language))
    except ClassNotFound:
        return get_lexer_by_name("text")


def _added(language: str) -> str:
    """The lexer that a language of another package names, else the language's own name."""
    from jitkernel.errors import UsageError
    from jitkernel.languages.registry import find

    try:
        return find(language).lexer
    except UsageError:
        return language


class KaleidoscopeLexer(RegexLexer):  # type: ignore[misc]
    """The language of LLVM's tutorial, with the magics of a notebook's cells."""

    name = "Kaleidoscope"
    aliases = ["kaleidoscope"]
    filenames = ["*.ks"]
    mimetypes = ["text/x-kaleidoscope"]
    url = "https://llvm.org/docs/tutorial/"

    tokens = {
        "root": [
            (r"^%%?[A-Za-z_][^\n]*", Comment.Preproc),
            (r"\s+", Text),
            (r"#[^\n]*", Comment.Single),
            (
                r"(def|extern)(\s+)(?!unary\b|binary\b)([A-Za-z]\w*)",
                bygroups(Keyword.Declaration, Text, Name.Function),
            ),
            (words(("def", "extern", "var", "unary", "binary"), suffix=r"\b"), Keyword.Declaration),
            (words(("if", "then", "else", "for", "in"), suffix=r"\b"), Keyword),
            (r"\d+(\.\d*)?|\.\d+", Number.Float),
            (r"[A-Za-z]\w*(?=\s*\()", Name.Function),
            (r"[A-Za-z]\w*", Name),
            (r"[(),;]", Punctuation),
            (r"[-!$%&*+/:<=>?@^|~]", Operator),
        ]
    }
