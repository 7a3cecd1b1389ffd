"""clang's complaints as what the user is told: in the lines of cells, with what to write instead.

Start from `Complaints`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from typing import Protocol

from jitkernel.errors import CompileError, Diagnostic
from jitkernel.languages.c.clang import Complaint
from jitkernel.languages.c.generated import OWN, file_name
from jitkernel.languages.c.tokens import Token, Unfinished, tokens
from jitkernel.languages.c.unit import Unit
from jitkernel.languages.c.words import C23

__all__ = ["Complaints", "missed"]

_UNKNOWN = r"(?:undeclared (?:identifier|(?:library )?function)|unknown type name) '"
_DIFFERS = (
    r"conflicting types for '|redefinition of '(?=\w+' as different)"
    r"|re(?:declaration|definition) of '(?=\w+' with a different)"
    r"|static declaration of '(?=\w+' follows)"
)
_INCOMPLETE = r"incomplete (?:\w+ )*type '(?:struct|union|enum) "
_MISSED = re.compile(rf"(?:{_UNKNOWN}|{_DIFFERS}|{_INCOMPLETE})(\w+)'")
_NAMED = re.compile(rf"{_UNKNOWN}(\w+)'")
_ERRORS = 3  # complaints that are shown
_FIRST_WORD = re.compile(r"\s*(alignas|static_assert|typeof_unqual)\b")
_TYPE_OF = re.compile(r"'(?:__)?typeof(?:__)? ?\([^)]*\)' \(aka ('[^']*')\)")
_RETURNS = re.compile(rf"void function '{OWN}\w+' should not return a value")
_MEANT = re.compile(r"did you mean '([^']*)'\?")  # in a note of its own
_CELL = re.compile(r"cell \d+")
_UNCLOSED = re.compile("missing terminating .* character")
_SHELL = re.compile(r"\s*(!(\w+)[^\n]*)")  # a command line of IPython
_HEADER_OF = re.compile(r"include the header (<[^>]*>)")


class Expanded(Protocol):
    """The code that clang has seen, where macros of the cell were expanded before."""

    def line(self, number: int) -> str:
        """A line of it."""

    def column(self, line: int, column: int) -> int:
        """The column of the cell for one of it."""


def missed(message: str) -> str:
    """The name that clang does not know, or that it knows from somewhere else; "" of anything
    else that it says."""
    found = _MISSED.search(message)
    return found[1] if found is not None else ""


class Complaints:
    """What is wrong with one cell of C, which clang calls `file`; `is_macro` tells of a word.
    `expansion` is what clang was given for its code, where that is another one.
    """

    def __init__(self, source: str, file: str, is_macro: Callable[[str], bool]):
        self._lines, self._file, self._is_macro = source.split("\n"), file, is_macro
        self.expansion: Expanded | None = None

    def at(self, message: str, line: int, column: int, hint: str = "") -> CompileError:
        """An error at a place of the cell."""
        text = self._lines[line - 1] if 0 < line <= len(self._lines) else ""
        return CompileError([Diagnostic(message, line, column, text, hint)])

    def open(self, message: str, token: Token, code: str) -> CompileError:
        """An error at a bracket or comment, or at the quotation mark that nothing closes: what
        stands behind that are no brackets."""
        try:
            quoted = next((t for t in tokens(code) if t.kind == "other" and t.text in "\"'"), None)
        except Unfinished:
            quoted = None
        if quoted is not None:
            mark = "'\"'" if quoted.text == '"' else "'"  # as clang writes it
            message, token = f"missing terminating {mark} character", quoted
        return self.at(message, token.line, token.column)

    def refused(self, complaints: Iterable[Complaint], unit: Unit | None = None) -> CompileError:
        """The error for what clang refuses: the first few, and how many there are besides."""
        seen: dict[tuple[str, int, str], Complaint] = {}
        last: Complaint | None = None
        complaints = list(complaints)
        unclosed = {(c.file, c.line): c for c in complaints if _UNCLOSED.match(c.message)}
        for complaint in complaints:
            if complaint.is_error and (quoted := unclosed.get((complaint.file, complaint.line))):
                complaint = quoted._replace(severity="error")  # and all that follows from it
            elif (meant := _MEANT.match(complaint.message)) and last is not None:
                said = f"{last.message}; did you mean '{meant[1]}'?"
                seen[self._key(last)] = last._replace(message=said)
            if (header := _HEADER_OF.match(complaint.message)) and last is not None:
                seen[self._key(last)] = last._replace(fix=f"#include {header[1]}")
            last = complaint if complaint.is_error else None
            if complaint.is_error and "too many errors" not in complaint.message:
                seen.setdefault(self._key(complaint), complaint)
        every = list(seen.values())  # what our own text adds, only where it is all
        found = [c for c in every if _UNCLOSED.match(c.message)]
        found = found or [c for c in every if OWN not in c.message] or every
        error = CompileError(_hinted_once([self._diagnostic(c) for c in found[:_ERRORS]]))
        if len(found) > _ERRORS:
            error.args = (f"{error}\nand {len(found) - _ERRORS} more",)
        files = {file_name(cell) for cell in unit.remade} if unit is not None else set()
        if unit is not None and any(c.file in files for c in found):
            names = ", ".join(sorted({name for why in unit.stale.values() for name in why}))
            error.args = (
                f"{error}\nThe change of {names} reaches code that does not fit it "
                "any more. Nothing was changed: define both in one cell.",
            )
        return error

    def _key(self, complaint: Complaint) -> tuple[str, int, str]:
        """What makes a complaint another one for the user."""
        line = min(complaint.line, len(self._lines)) if complaint.file == self._file else 0
        return complaint.file, line or complaint.line, _plain(complaint.message)

    def warnings(self, complaints: Iterable[Complaint]) -> list[Diagnostic]:
        """The warnings about the cell's own text."""
        found = dict.fromkeys(
            c for c in complaints
            if c.severity == "warning" and c.file == self._file and OWN not in c.message
        )  # fmt: skip
        return [self._diagnostic(c) for c in found]

    def _diagnostic(self, complaint: Complaint) -> Diagnostic:
        severity = "error" if complaint.is_error else complaint.severity
        line, column = complaint.line, complaint.column
        if complaint.file == self._file and line > 0:
            if line > len(self._lines):  # behind what stands last
                line = len(self._lines)
                column = len(self._lines[-1].encode("utf-8", "surrogateescape")) + 1
            text = self._lines[line - 1]
            code = self.expansion.line(line) if self.expansion is not None else text
            before = code.encode("utf-8", "surrogateescape")[: column - 1]
            column = len(before.decode("utf-8", "replace")) + 1
            if self.expansion is not None and code != text:
                column = min(self.expansion.column(line, column), len(text) + 1)
            fix = complaint.fix.strip()
            hint = f"write `{fix}`" if fix and "did you mean" not in complaint.message else ""
            hint = hint or self._hint_of_words(complaint, text)
            return Diagnostic(_plain(complaint.message), line, column, text, hint, severity)
        own = complaint.file in ("", "session", "-", "<stdin>")
        where = "" if own else f"{_nearer(complaint.file)}, line {line}: "
        gone = _CELL.fullmatch(complaint.file) and "file not found" in complaint.message
        hint = f"put the file there again, or %evict {complaint.file[5:]}" if gone else ""
        return Diagnostic(where + complaint.message, hint=hint, severity=severity)

    def _hint_of_words(self, complaint: Complaint, line: str) -> str:
        """What to do about a word that only a newer C has, or that was meant for a shell."""
        named = _NAMED.search(complaint.message)
        shell = _SHELL.match("\n".join(self._lines))
        if named is not None and shell is not None and named[1] == shell[2]:
            return f"`!` is C's here; for the shell, write %%llvm and {shell[1]} in the line below"
        if named is None and complaint.message.startswith("expected "):
            named = _FIRST_WORD.match(line)
        header = C23.get(named[1]) if named and complaint.is_error else None
        if named is None or header is None or self._is_macro(named[1]):
            return ""
        newer = "C23 has it: Compiler.clang_flags=-std=gnu23"
        return f"write `#include <{header}>`; {newer}" if header else newer


def _hinted_once(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """The same, each hint where it stands first."""
    hints = [d.hint for d in diagnostics]
    return [
        d._replace(hint="") if d.hint in hints[:at] else d for at, d in enumerate(diagnostics)
    ]  # fmt: skip


def _nearer(path: str) -> str:
    """A path from here, where the file is below."""
    found = os.path.relpath(path) if os.path.isabs(path) else path
    return path if found.startswith("..") else found


def _plain(message: str) -> str:
    """clang's words without what the cell's text was put into."""
    if _RETURNS.match(message):
        return "no function stands around this `return`: a cell's last expression is its value"
    return _TYPE_OF.sub(r"\1", message)
