"""clang's complaints as what the user is told: in the lines of cells, with what to write instead.

Start from `Complaints`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from jitkernel.errors import CompileError, Diagnostic
from jitkernel.files import working_folder
from jitkernel.languages.c.brackets import wrong_bracket
from jitkernel.languages.c.clang import Complaint
from jitkernel.languages.c.code import Code
from jitkernel.languages.c.generated import OWN, file_name
from jitkernel.languages.c.miswritten import NAMELESS, UNKNOWN, hint_of, is_foreign, python_line
from jitkernel.languages.c.notes import MACRO, Notes, keys_of
from jitkernel.languages.c.pieces import Piece, PieceKind
from jitkernel.languages.c.tokens import Token, Unfinished, closing, tokens
from jitkernel.languages.c.unit import Unit
from jitkernel.regex import regex
from jitkernel.wording import did_you_mean

_DIFFERS = (
    r"conflicting types for '|redefinition of '(?=\w+' as different)"
    r"|re(?:declaration|definition) of '(?=\w+' with a different)"
    r"|static declaration of '(?=\w+' follows)"
)
_INCOMPLETE = (
    r"incomplete (?:\w+ )*type '(?:[^']*' \(aka ')?(?:(?:const|volatile) )*(?:struct|union|enum) "
)
_MISSED = regex(rf"(?:(?:{UNKNOWN}|{_DIFFERS})(?=\w+')|{_INCOMPLETE})(\w+)")
_ERRORS = 3  # complaints that are shown
_ALIKE = 0.75  # as `difflib` has it: names that are taken for another that was meant
_TYPE_OF = regex(r"'(?:__)?typeof(?:__)? ?\([^)]*\)' \(aka ('[^']*')\)")
_RETURNS = regex(rf"void function '{OWN}\w+' should not return a value")
_MEANT = regex(r"did you mean '([^']*)'\?")  # in a note of its own
_CELL = regex(r"cell \d+")
_ADVICE = regex(r"use '([^']*)' to turn")  # in a note, too
_RETURN = "no function stands around this `return`: a cell's last expression is its value"
#: What tells of a line all that is wrong with it.
_WHOLE_LINE = regex(r"missing terminating .* character|unexpected character <U\+")
#: What clang calls the text that is not the cell's.
_SESSION = ("", "session", "-", "<stdin>")
_HEADER_OF = regex(r"include the header (<[^>]*>)")


def missed(message: str) -> str:
    """The name that clang does not know, or that it knows from somewhere else; "" of anything
    else that it says."""
    found = _MISSED.search(message)
    return found[1] if found is not None else ""


class Complaints:
    """The errors of one cell of C, which clang calls `file`; `notes` are what earlier cells have
    declared.  `code` and `tokens` are what clang was given for it, where that is known.
    """

    def __init__(self, source: str, file: str, notes: Notes):
        self._lines, self._file, self._notes = source.split("\n"), file, notes
        self.code, self.tokens = Code(source), list[Token]()
        self._pieces: Sequence[Piece] = ()

    def _meant(self, message: str) -> str:
        """The name of an earlier cell's that may have been meant by one that clang does not know:
        it is told of those alone that the cell mentions."""
        found = NAMELESS.search(message) if "did you mean" not in message else None
        if found is None:
            return ""
        known = [name for name in self._notes.names() if name != found[1]]
        return did_you_mean(found[1], known, "`{}`".format, cutoff=_ALIKE).removeprefix("; ")

    def _below(self, message: str, line: int) -> str:
        """A hint at the line further down that declares the name which clang does not know yet."""
        name = missed(message)
        for piece in self._pieces if name else ():
            tag, names = piece.head.tag, [declared.name for declared in piece.declared]
            names += [tag.name] if tag is not None and tag.brace >= 0 else []
            if piece.line > line and name in names:
                return f"this cell declares {name} in line {piece.line}: that has to stand above"
        return ""

    def _left(self, message: str) -> str:
        """A hint at what a name was that clang does not know, in a text that is there no more."""
        name = missed(message)
        found = [self._notes.was.get(MACRO + name)]
        found += [n for k in keys_of([name]) if self._notes.is_left(n := self._notes.get(k))]
        for note in found:
            if note is not None:
                where = f"the text of cell {note.cell} that declared {name} is there no more"
                return f"{where}: declare it here, or in a cell of its own"
        return ""

    def _is_macro(self, word: str) -> bool:
        return MACRO + word in self._notes

    def at(self, message: str, line: int, column: int, hint: str = "") -> CompileError:
        """An error at a place of the cell."""
        text = self._lines[line - 1] if 0 < line <= len(self._lines) else ""
        return CompileError([Diagnostic(message, line, column, text, hint)])

    def open(self, message: str, token: Token, code: str) -> CompileError:
        """An error at a bracket or comment, or at the quotation mark that nothing closes: what
        stands behind that are no brackets."""
        try:
            found = tokens(code)
        except Unfinished:
            return self.at(message, token.line, token.column)
        quoted = next((t for t in found if t.kind == "other" and t.text in "\"'"), None)
        if quoted is not None:
            mark = "'\"'" if quoted.text == '"' else "'"  # as clang writes it
            message, token = f"missing terminating {mark} character", quoted
        elif python := self._python(token):
            return python
        elif token.kind != "name" and (wrong := wrong_bracket(code, found)):
            message, token = wrong
        hint = hint_of(message, self._lines, token.line, token.column, self._is_macro)
        return self.at(message, token.line, token.column, hint)

    def _python(self, token: Token) -> CompileError | None:
        """The error at a block of Python, where one begins before a token."""
        line, column, hint = python_line(self._lines[: token.line])
        return self.at("expected '{', found ':'", line, column, hint) if line else None

    def check(self, pieces: Sequence[Piece]) -> None:
        """Refuse what clang takes in the functions that statements are put into, and C does not, of
        these pieces of the cell."""
        self._pieces = pieces
        for piece, behind in zip_longest(pieces, pieces[1:]):
            if piece.kind is PieceKind.STATEMENT or (
                piece.kind is PieceKind.EXPRESSION and behind is None
            ):
                for token in piece.tokens:
                    if token.text == "return":
                        raise self._python(token) or self.at(_RETURN, token.line, token.column)
            elif behind is not None and self._is_body_of(piece, behind):
                last = piece.tokens[-1]
                message = "expected function body, found ';': the block behind is another statement"
                raise self.at(message, last.line, last.column, "drop this `;`")

    def _is_body_of(self, piece: Piece, behind: Piece) -> bool:
        """True if a block behind a declaration was to be the function's body."""
        if behind.tokens[0].text != "{" or piece.tokens[-1].text != ";":
            return False
        if piece.kind is not PieceKind.DECLARATION or behind.line > piece.last_line + 1:
            return False
        if behind.line > piece.last_line and all(t.text != "return" for t in behind.tokens):
            return False  # a block as any other
        found = piece.declared
        return bool(found) and found[-1].function and not found[-1].typedef

    def refused(self, complaints: Iterable[Complaint], unit: Unit | None = None) -> CompileError:
        """The error for what clang refuses: the first few, and how many there are besides."""
        seen: dict[tuple[str, int, str], Complaint] = {}
        complaints = _with_notes(complaints)
        telling: dict[tuple[str, int], Complaint] = {}
        for complaint in complaints:
            if _WHOLE_LINE.match(complaint.message):
                telling.setdefault((complaint.file, complaint.line), complaint)
        for complaint in complaints:
            if not complaint.is_error or "too many errors" in complaint.message:
                continue
            if (whole := telling.get((complaint.file, complaint.line))) is not None:
                complaint = whole._replace(severity="error")  # and all that follows from it
            elif unit is not None and complaint.file == self._file:
                complaint = self._unended(complaint, unit)
            seen.setdefault(self._key(complaint), complaint)
        every = list(seen.values())  # what our own text adds, only where it is all
        found = [c for c in every if _WHOLE_LINE.match(c.message)]
        found = found or [c for c in every if OWN not in c.message] or every
        found.sort(key=lambda c: c.line if c.file == self._file else 0)
        told = [self._diagnostic(c) for c in found[:_ERRORS]]
        foreign = next((d for d in told if is_foreign(d.hint)), None)
        if foreign is not None:
            return CompileError([foreign])
        error = CompileError(_hinted_once(told))
        if len(found) > _ERRORS:
            error.args = (f"{error}\nand {len(found) - _ERRORS} more",)
        files = {file_name(note.cell) for note in unit.changes.every} if unit is not None else set()
        if unit is not None and any(c.file in files for c in found):
            names = ", ".join(sorted({name for why in unit.changes.stale.values() for name in why}))
            error.args = (
                f"{error}\nThe change of {names} reaches code that does not fit it "
                "any more. Nothing was changed: define both in one cell.",
            )
        return error

    def _unended(self, complaint: Complaint, unit: Unit) -> Complaint:
        """The complaint as of a missing `;`, where that is what our own text makes it: the last
        expression stands in parentheses, and what has no `;` before a function belongs to it."""
        there = complaint.line, self._column(complaint)
        end: Token | None = None
        for piece in unit.reading.pieces:
            if piece is unit.value and complaint.message == "expected ')'":
                at = sum((t.line, t.column) < there for t in piece.tokens)
                texts = [t.text for t in piece.tokens[:at] if t.kind == "operator"]
                if at and sum(map(texts.count, "([{")) == sum(map(texts.count, ")]}")):
                    end = piece.tokens[at - 1]
            elif piece.kind is PieceKind.FUNCTION and piece.tokens[1].kind == "operator":
                head = [t for t in piece.tokens[1 : piece.body] if self._begins_line(t)]
                behind = head[-1] if head and head[-1].kind == "name" else None
                if behind and (piece.line, piece.column) <= there < (behind.line, behind.column):
                    end = piece.tokens[piece.tokens.index(behind) - 1]
        if end is None:
            return complaint
        text = self.code.line(end.line)[: end.column - 1] + end.text
        column = len(text.encode("utf-8", "surrogateescape")) + 1
        message = "expected ';' after expression"
        return complaint._replace(line=end.line, column=column, message=message, fix="")

    def _begins_line(self, token: Token) -> bool:
        return not self.code.line(token.line)[: token.column - 1].strip()

    def _column(self, complaint: Complaint) -> int:
        """The column of the code, in characters."""
        before = self.code.line(complaint.line).encode("utf-8", "surrogateescape")
        return len(before[: complaint.column - 1].decode("utf-8", "replace")) + 1

    def _key(self, complaint: Complaint) -> tuple[str, int, str]:
        """The key by which the user tells complaints apart."""
        line = min(complaint.line, len(self._lines)) if complaint.file == self._file else 0
        return complaint.file, line or complaint.line, _plain(complaint.message)

    def warnings(self, complaints: Iterable[Complaint]) -> list[Diagnostic]:
        """The warnings about the cell's own text."""
        every = [*_with_notes(complaints), *self._empty_bodies()]
        found = dict.fromkeys(
            c for c in every
            if c.severity == "warning" and c.file == self._file and OWN not in c.message
        )  # fmt: skip
        return [self._diagnostic(c) for c in found]

    def _empty_bodies(self) -> Iterator[Complaint]:
        """`while (x); {`, of which clang says nothing where a marker moves the line."""
        found = self.tokens
        for at, token in enumerate(found[:-2]):
            if token.text not in ("for", "while", "if") or found[at + 1].text != "(":
                continue
            if token.text == "while" and at and found[at - 1].text == "}":
                if found[at - 1].line == token.line:  # of a do
                    continue
            stop = closing(found, at + 1)
            end, behind = found[stop], found[min(stop + 1, len(found) - 1)]
            if end.text == ";" and behind.text == "{" and behind.line == end.line:
                what = f"{token.text} {'statement' if token.text == 'if' else 'loop'}"
                message = f"{what} has empty body [-Wempty-body]"
                yield Complaint(self._file, end.line, end.column, "warning", message)

    def _is_behind(self, complaint: Complaint) -> bool:
        """True of a place behind what stands last, which is not whole: clang sees our own text."""
        if complaint.file != self._file:
            return complaint.file in _SESSION and complaint.message.startswith("expected ")
        line = complaint.line
        return line > 0 and not any(map(str.strip, self._lines[line - 1 :]))

    def _diagnostic(self, complaint: Complaint) -> Diagnostic:
        severity = "error" if complaint.is_error else complaint.severity
        line, column = complaint.line, complaint.column
        behind = self._is_behind(complaint)
        if behind or (complaint.file == self._file and line > 0):
            if behind:
                line = len("\n".join(self._lines).rstrip().split("\n"))
                column = len(self._lines[line - 1]) + 1
            else:
                column = self._column(complaint)
            text = self._lines[line - 1]
            if self.code.line(line) != text:
                column = min(self.code.column(line, column), len(text) + 1)
            fix = complaint.fix.strip()
            hint = f"write `{fix}`" if fix and "did you mean" not in complaint.message else ""
            hint = hint or self._below(complaint.message, line) or self._left(complaint.message)
            hint = hint or hint_of(complaint.message, self._lines, line, column, self._is_macro)
            hint = hint or self._meant(complaint.message)
            return Diagnostic(_plain(complaint.message), line, column, text, hint, severity)
        where = "" if complaint.file in _SESSION else f"{_nearer(complaint.file)}, line {line}: "
        gone = _CELL.fullmatch(complaint.file) and "file not found" in complaint.message
        hint = f"put the file there again, or %evict {complaint.file[5:]}" if gone else ""
        return Diagnostic(where + complaint.message, hint=hint, severity=severity)


def _with_notes(complaints: Iterable[Complaint]) -> list[Complaint]:
    """Errors and warnings, with what clang advises in notes of their own."""
    found: list[Complaint] = []
    for complaint in complaints:
        if complaint.severity != "note":
            found.append(complaint)
        elif found:
            last, message = found[-1], complaint.message
            if meant := _MEANT.match(message):
                found[-1] = last._replace(message=f"{last.message}; did you mean '{meant[1]}'?")
            elif header := _HEADER_OF.match(message):
                found[-1] = last._replace(fix=f"#include {header[1]}")
            elif (advice := _ADVICE.match(message)) and not last.fix:
                found[-1] = last._replace(fix=advice[1])
    return found


def _hinted_once(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """The same, each hint where it stands first."""
    hints = [d.hint for d in diagnostics]
    return [
        d._replace(hint="") if d.hint in hints[:at] else d for at, d in enumerate(diagnostics)
    ]  # fmt: skip


def _nearer(path: str) -> str:
    """A path from here, where the file is below."""
    found = path
    if os.path.isabs(path) and working_folder():
        found = os.path.relpath(path)
    return path if found.startswith("..") else found


def _plain(message: str) -> str:
    """clang's words without what the cell's text was put into."""
    if _RETURNS.match(message):
        return _RETURN
    return _TYPE_OF.sub(r"\1", message)
