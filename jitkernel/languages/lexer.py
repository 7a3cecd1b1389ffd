"""Kaleidoscope for Pygments, and so for nbconvert.  LLVM IR has a lexer in Pygments itself."""

from __future__ import annotations

from pygments.lexer import RegexLexer, bygroups, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, Text

__all__ = ["KaleidoscopeLexer"]


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
