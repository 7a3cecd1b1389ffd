"""LLVM IR as one of the cell languages.  Start from `LANGUAGE`."""

from __future__ import annotations

from jitkernel.languages.language import Known, Language
from jitkernel.languages.llvm import Plan, is_complete, parse_cell, token_at
from jitkernel.languages.llvm.keywords import KEYWORDS

__all__ = ["LANGUAGE"]


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
