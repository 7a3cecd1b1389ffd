"""A cell's text cut into statements, each with its kind and the lines it stands on.

Only the first tokens of a statement are looked at; what it means is `plan`'s business, and whether
its IR is valid is LLVM's.  One pass of a regular expression, so the time is linear in the text.
Start from `split`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from jitkernel.errors import CompileError, Diagnostic
from jitkernel.ir.keywords import ENTITY_WORDS, OPCODES, VARIABLE_WORDS
from jitkernel.ir.module import body_end
from jitkernel.ir.names import COMMENT, INLINE_SPACE, NAME, SKIP, SPACE
from jitkernel.ir.text import after_space, without_comments

__all__ = ["Kind", "Problem", "Statement", "diagnostic", "normalise", "scan", "split"]


class Kind(Enum):
    """The kind of a statement, by its first tokens (interface, section 1)."""

    CELL_MAGIC = "cell magic"
    MAGIC = "line magic"
    SHELL = "shell command"
    INSPECT = "inspection"
    TYPE = "type"
    METADATA = "metadata"
    ENTITY = "entity"
    INSTRUCTION = "instruction"
    LABEL = "label"
    ASSIGN = "assignment"
    CALL = "call line"
    SHOW = "show"
    RESULT = "result"
    UNKNOWN = "unknown"

    __hash__ = object.__hash__  # which Python code need not be run for


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: `text` from its first to its last character, without a trailing comment.  Of
    IR, `/* */` are blanks in it.

    `start` and `stop` are offsets in the normalised source; `line`, `column` and `last_line` count
    from 1.
    """

    kind: Kind
    text: str
    start: int
    stop: int
    line: int
    column: int
    last_line: int

    def diagnostic(
        self, message: str, hint: str, at: int = 0, severity: str = "error"
    ) -> Diagnostic:
        """A complaint about what stands at an offset of the text."""
        source = " " * (self.column - 1) + self.text
        found = diagnostic(source, self.column - 1 + at, message, hint, severity)
        return found._replace(line=self.line + found.line - 1)


@dataclass(frozen=True, slots=True)
class Problem:
    """A complaint, and whether more text could still settle it."""

    diagnostic: Diagnostic
    incomplete: bool = False


_LINE = re.compile(r"[^\n]*")
# A shell command goes on where its line ends in a backslash, as in a shell.
_SHELL_LINE = re.compile(r"(?:[^\n\\]|\\[^\n]|\\\n)*\\?")
_INSPECT = re.compile(
    rf"(?:\?\??[ \t]*(?:@{NAME}|%{{0,2}}[\w.]+)|(?:@{NAME}|%{{0,2}}[A-Za-z_][\w.]*)[ \t]*\?\??)"
    rf"{INLINE_SPACE}(?:;[^\n]*)?(?=\n|\Z)"
)
_LOCAL = re.compile(rf"%{NAME}{SPACE}=(?!=){INLINE_SPACE}(type\b)?")
_MAGIC = re.compile(r"%[A-Za-z_][\w.]*")
_CELL_MAGIC = re.compile(r"%%[A-Za-z_][\w.]*")
_METADATA = re.compile(
    r"!(?:\d+[ \t]*=|[-a-zA-Z$._][-\w$.]*(?:[ \t]+=|[ \t]*=[ \t]*(?:!|distinct\b)))"
)
_GLOBAL = re.compile(rf"@{NAME}")
_AFTER = re.compile(rf"{SPACE}(=)(?!=){INLINE_SPACE}([a-z_]+\b)?|{INLINE_SPACE}(?:(\()|(;|\n|\Z))")
# What a definition begins with, whose name and sign may stand on several lines.
_DEFINED = re.compile(rf"[@%!]{NAME}{SPACE}=")
_LABEL = re.compile(f"{NAME}:")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_SUMMARY = re.compile(rf"\^\d+|\${NAME}")
_RESULT = re.compile(rf"_\d*{INLINE_SPACE}(?=;|\n|\Z)")
_CONTINUES = re.compile(r"(?:to[ \t]+label|unwind[ \t]+label|cleanup|catch|filter)\b")
_REST_EMPTY = re.compile(rf"{INLINE_SPACE}(?:;|\n|\Z)")
_BODY_FOLLOWS = re.compile(
    r"\{|#\d|(?:personality|prefix|prologue|gc|section|align|comdat|unnamed_addr)\b"
)
# NUL would end the text in LLVM's eyes, and a lone surrogate has no UTF-8 form.
_NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")

_TOKEN = re.compile(SKIP + r'|"|/\*|[()\[\]{}<>@\n]')
# In call lines and assignments `"..."` has C's escapes: \" goes on, but not in names and c"...".
_LINE_STRING_TOKEN = re.compile(
    r'(?<=[@%])"[^"]*"|(?<![c@%])"(?:\\[^\n]|[^"\\\n])*"|"[^"\n]*"|"|'
    rf"{COMMENT}|/\*|[()\[\]{{}}<>@\n]"
)
_BODY_TOKEN = re.compile(SKIP + r'|"|/\*')
_CLOSER = {"(": ")", "[": "]", "{": "}", "<": ">"}
_MOST_PROBLEMS = 10


def normalise(source: str) -> str:
    """`source` with one form of line end, as every offset and line number here counts them."""
    if source.startswith("\ufeff"):
        source = source[1:]
    return source.replace("\r\n", "\n").replace("\r", "\n") if "\r" in source else source


def split(source: str) -> tuple[Statement, ...]:
    """The statements of a normalised cell.  Raises CompileError for text that is none."""
    statements, problems = scan(source)
    if problems:
        from jitkernel.languages.llvm.miswritten import most_telling  # only for errors

        raise CompileError(most_telling([p.diagnostic for p in problems]))
    return statements


def scan(source: str) -> tuple[tuple[Statement, ...], tuple[Problem, ...]]:
    """As `split`, with the problems listed instead of raised."""
    bad = _NO_TEXT.search(source)
    if bad:
        message = f"character U+{ord(bad[0]):04X} is not text; nothing was read"
        return (), (Problem(diagnostic(source, bad.start(), message)),)
    scanner = _Scanner(source)
    scanner.run()
    return tuple(scanner.statements), tuple(scanner.problems)


def diagnostic(
    source: str, at: int, message: str, hint: str = "", severity: str = "error"
) -> Diagnostic:
    """A complaint about what stands at offset `at` of a cell; of a very long line, with the part
    around that place."""
    begin = source.rfind("\n", 0, at) + 1
    end = source.find("\n", at)
    text = _NO_TEXT.sub("\ufffd", source[begin : end if end >= 0 else len(source)])
    line, column = source.count("\n", 0, at) + 1, at - begin + 1
    if len(text) > 400:
        cut = max(0, column - 101)
        message, text, column = f"{message}, at column {column}", text[cut : cut + 200], 0
    return Diagnostic(message, line, column, text, hint, severity)


def _classify(source: str, at: int, first: bool) -> Kind:
    """The kind of the statement that begins at `at` (not a blank, not a comment)."""
    head = source[at]
    if head in "?%@_" or head.isalpha():
        if _INSPECT.match(source, at):
            return Kind.INSPECT
    if head == "%":
        local = _LOCAL.match(source, at)
        if local:
            return Kind.TYPE if local[1] else Kind.INSTRUCTION
        if _CELL_MAGIC.match(source, at):
            return Kind.CELL_MAGIC if first else Kind.UNKNOWN
        return Kind.MAGIC if _MAGIC.match(source, at) else Kind.UNKNOWN
    if head == "!":
        return Kind.METADATA if _METADATA.match(source, at) else Kind.SHELL
    if head == "@":
        return _classify_global(source, at)
    if head in "^$":
        return Kind.ENTITY if _SUMMARY.match(source, at) else Kind.UNKNOWN
    if _LABEL.match(source, at):
        return Kind.LABEL
    if head == "_" and _RESULT.match(source, at):
        return Kind.RESULT
    word = _WORD.match(source, at)
    if word:
        if word[0] in ENTITY_WORDS:
            return Kind.ENTITY
        if word[0] in OPCODES:
            return Kind.INSTRUCTION
    return Kind.UNKNOWN


def _classify_global(source: str, at: int) -> Kind:
    name = _GLOBAL.match(source, at)
    after = _AFTER.match(source, name.end()) if name else None
    if not after:
        return Kind.UNKNOWN
    if after[1]:
        return Kind.ENTITY if after[2] in VARIABLE_WORDS else Kind.ASSIGN
    return Kind.CALL if after[3] else Kind.SHOW


class _Scanner:
    """Walks over the source once; `line` is the line of the offset `counted`."""

    def __init__(self, source: str):
        self.source = source
        self.statements: list[Statement] = []
        self.problems: list[Problem] = []
        self.line, self.counted, self.line_start = 1, 0, 0

    def run(self) -> None:
        source, at = self.source, 0
        while len(self.problems) < _MOST_PROBLEMS:
            at = after_space(source, at)
            if at >= len(source):
                break
            at = self.statement(at)

    def count_to(self, at: int) -> int:
        """The line that offset `at` is on; `at` never goes back."""
        lines = self.source.count("\n", self.counted, at)
        if lines:
            self.line += lines
            self.line_start = self.source.rfind("\n", 0, at) + 1
        self.counted = at
        return self.line

    def statement(self, at: int) -> int:
        """Reads the statement at `at`; answers where the next may begin."""
        source = self.source
        kind = _classify(source, at, not self.statements and not self.problems)
        if source.startswith("/*", at):
            return self.open_comment(at)
        if kind is Kind.UNKNOWN:
            if self.statements and self.statements[-1].kind is Kind.INSTRUCTION:
                if _CONTINUES.match(source, at):  # `to label` of an invoke, clauses of a landingpad
                    return self.extend_last(at)
            return self.unknown(at)
        if kind is Kind.CELL_MAGIC:
            return self.add(kind, at, len(source), len(source))
        if kind in (Kind.MAGIC, Kind.SHELL, Kind.INSPECT):
            pattern = _SHELL_LINE if kind is Kind.SHELL else _LINE
            match = pattern.match(source, at)
            end = match.end() if match else at
            return self.add(kind, at, end, end)
        if kind is Kind.LABEL:  # an instruction may follow on the same line
            label = _LABEL.match(source, at)
            end = label.end() if label else at
            return self.add(kind, at, end, end)
        found = self.extent(at, kind)
        if found is None:
            return self.next_line(at)
        stop, after = found
        return self.add(kind, at, stop, after)

    def next_line(self, at: int) -> int:
        end = self.source.find("\n", at)
        return len(self.source) if end < 0 else end

    def text(self, kind: Kind, start: int, stop: int) -> str:
        text = self.source[start:stop].rstrip()
        is_code = kind in (Kind.TYPE, Kind.METADATA, Kind.ENTITY, Kind.INSTRUCTION)
        return without_comments(text, kept=";").rstrip() if is_code and "/*" in text else text

    def add(self, kind: Kind, start: int, stop: int, after: int) -> int:
        line = self.count_to(start)
        column = start - self.line_start + 1
        text = self.text(kind, start, stop)
        last_line = self.count_to(start + len(text))
        stop = start + len(text)
        self.statements.append(Statement(kind, text, start, stop, line, column, last_line))
        return after

    def extend_last(self, at: int) -> int:
        found = self.extent(at, Kind.INSTRUCTION)
        if found is None:
            return self.next_line(at)
        stop, after = found
        last = self.statements.pop()
        text = self.text(last.kind, last.start, stop)
        stop = last.start + len(text)
        self.statements.append(
            Statement(
                last.kind, text, last.start, stop, last.line, last.column, self.count_to(stop)
            )
        )
        return after

    def problem(self, at: int, message: str, hint: str = "", incomplete: bool = False) -> None:
        self.problems.append(Problem(diagnostic(self.source, at, message, hint), incomplete))

    def unknown(self, at: int) -> int:
        end = self.next_line(at)
        from jitkernel.languages.llvm.miswritten import nearest_form  # only for errors

        message, hint = nearest_form(self.source[at:end])
        self.problem(at, message, hint)
        return end

    def extent(self, start: int, kind: Kind) -> tuple[int, int] | None:
        """The offsets where the statement's text ends and scanning goes on; None at a problem."""
        source = self.source
        is_define = source.startswith("define", start)
        pattern = _LINE_STRING_TOKEN if kind in (Kind.CALL, Kind.ASSIGN) else _TOKEN
        open_at: list[tuple[str, int]] = []
        named = parameters = body = False
        defined = _DEFINED.match(source, start)
        at, comment = defined.end() if defined else start, -1
        while match := pattern.search(source, at):
            token, here, at = match[0][0], match.start(), match.end()
            if token == "\n":
                if not open_at:
                    whole = body or not is_define
                    more = None if whole else _BODY_FOLLOWS.match(source, after_space(source, at))
                    if more is None:
                        return (here if comment < 0 else comment), here
                    at = more.start()
                comment = -1
            elif match[0] == "/*":
                return self.open_comment(here), len(source)
            elif match[0] == '"':
                return self.open_string(here, multi_line=pattern is _TOKEN)
            elif token in '/"':
                continue
            elif token == ";":
                comment = here
            elif token == "@":
                named = named or not open_at
            elif token in "([{<":
                if token != "{" or not (is_define and parameters) or open_at:
                    open_at.append((token, here))
                    continue
                at, body = self.body(here), True
                if not _REST_EMPTY.match(source, at):
                    return at, at  # another statement follows on the same line
            elif not self.closes(token, here, open_at):
                return None
            else:
                parameters |= named and token == ")" and not open_at
        if open_at:
            opener, opened = open_at[-1]
            self.problem(opened, f"this '{opener}' is never closed", incomplete=True)
            return len(source), len(source)
        stop = len(source) if comment < 0 else comment
        return stop, len(source)

    def open_string(self, at: int, multi_line: bool) -> tuple[int, int] | None:
        """A string that does not end; where it may have several lines, more may follow."""
        hint = "" if multi_line else "a quote inside a string is written \\22"
        self.problem(at, "this string is never closed", hint, incomplete=multi_line)
        return (len(self.source), len(self.source)) if multi_line else None

    def open_comment(self, at: int) -> int:
        self.problem(at, "this comment is never closed", "it ends with */", incomplete=True)
        return len(self.source)

    def closes(self, token: str, at: int, open_at: list[tuple[str, int]]) -> bool:
        """True if a bracket closes the one that was opened last; else it is a problem."""
        if not open_at:
            self.problem(at, f"'{token}' closes nothing")
            return False
        opener, opened = open_at.pop()
        if _CLOSER[opener] != token:
            line = self.source.count("\n", 0, opened) + 1
            where = f"line {line}, column {opened - self.source.rfind(chr(10), 0, opened)}"
            self.problem(
                at, f"'{token}' where '{_CLOSER[opener]}' should close the '{opener}' of {where}"
            )
            return False
        return True

    def body(self, start: int) -> int:
        """The offset behind the `}` of the function body that begins at `start`; of the end, at a
        problem.

        Inside, only braces count: whatever else is out of order, LLVM says it better.
        """
        end = body_end(self.source, start)
        if end >= 0:
            return end
        tokens = _BODY_TOKEN.finditer(self.source, start)
        match = next((m for m in tokens if m[0] in ('"', "/*")), None)
        if match is None:
            hint = "a function's body ends with '}'"
            self.problem(start, "this '{' is never closed", hint, incomplete=True)
        elif match[0] == "/*":
            self.open_comment(match.start())
        else:
            self.problem(match.start(), "this string is never closed", incomplete=True)
        return len(self.source)
