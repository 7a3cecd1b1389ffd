"""A cell's text cut into statements, each with its kind and the lines it stands on.

Only the first tokens of a statement are looked at; what it means is `plan`'s business, and whether
its IR is valid is LLVM's.  One pass of a regular expression, so the time is linear in the text.
Start from `split`, and
from `word_at` for the word at a place.
"""

from __future__ import annotations

import re
from enum import Enum

from jitkernel.errors import CompileError, Diagnostic, present
from jitkernel.ir.instructions import CONTINUES
from jitkernel.ir.keywords import ENTITY_WORDS, OPCODES, VARIABLE_WORDS
from jitkernel.ir.module import body_end
from jitkernel.ir.names import COMMENT, INLINE_SPACE, NAME, SKIP, SPACE, symbol_name
from jitkernel.ir.text import after_space, without_comments
from jitkernel.record import record
from jitkernel.regex import regex


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


@record
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

    @classmethod
    def whole(cls, text: str) -> Statement:
        """A text of entities that nobody cuts, as it is all that there is."""
        return cls(Kind.ENTITY, text, 0, len(text), 1, 1, 1 + text.count("\n"))

    @property
    def magic(self) -> tuple[str, str]:
        """A magic's name, and its arguments without a comment behind them."""
        match = present(_MAGIC.match(self.text), "the magic that the scanner saw")
        rest = match[2]
        comment = next((m for m in _MAGIC_COMMENT.finditer(rest) if not m[1]), None)
        return match[1], rest[: comment.start() if comment else None].strip()

    @property
    def named(self) -> tuple[str, int]:
        """The symbol that a line shows or sets, and the offset behind it and its `=`."""
        match = present(_GLOBAL.match(self.text), "the name that the scanner saw")
        return symbol_name(match[1]), match.end()

    def diagnostic(
        self, message: str, hint: str, at: int = 0, severity: str = "error"
    ) -> Diagnostic:
        """A complaint about what stands at an offset of the text."""
        source = " " * (self.column - 1) + self.text
        found = diagnostic(source, self.column - 1 + at, message, hint, severity)
        return found._replace(line=self.line + found.line - 1)


@record
class Problem:
    """A complaint, and whether more text could still settle it."""

    diagnostic: Diagnostic
    incomplete: bool = False


# What a statement begins with, and of which kind that makes it; the first that matches counts.
# None: `_kind` looks closer, since a pattern of all the words takes long to compile.
_FORMS: tuple[tuple[Kind | None, str], ...] = (
    (
        Kind.INSPECT,
        rf"(?:\?\??[ \t]*(?:@{NAME}|%{{0,2}}[\w.]+)|(?:@{NAME}|%{{0,2}}[A-Za-z_][\w.]*)[ \t]*\?\??)"
        rf"{INLINE_SPACE}(?:;[^\n]*)?(?=\n|\Z)",
    ),
    (None, rf"[%@]{NAME}{SPACE}=(?!=)"),
    (Kind.CELL_MAGIC, r"%%[A-Za-z_]"),
    (Kind.MAGIC, r"%[A-Za-z_]"),
    (
        Kind.METADATA,
        r"!(?:\d+[ \t]*=|[-a-zA-Z$._][-\w$.]*(?:[ \t]+=|[ \t]*=[ \t]*(?:!|distinct\b)))",
    ),
    (Kind.SHELL, "!"),
    (Kind.CALL, rf"@{NAME}{INLINE_SPACE}\("),
    (Kind.SHOW, rf"@{NAME}{INLINE_SPACE}(?=;|\n|\Z)"),
    (Kind.ENTITY, rf"\^\d+|\${NAME}"),
    (Kind.LABEL, f"{NAME}:"),
    (Kind.RESULT, rf"_\d*{INLINE_SPACE}(?=;|\n|\Z)"),
    (None, r"[a-z]\w*(?![\w.])"),
)
_BEGINS = regex("|".join(f"({form})" for _, form in _FORMS))
_WORD = regex(rf"{INLINE_SPACE}(\w*)")
_WORDS = dict.fromkeys(ENTITY_WORDS, Kind.ENTITY) | dict.fromkeys(OPCODES, Kind.INSTRUCTION)
# What ends with its line, or where its first words end; all else is read to its end.
_EXTENTS = {
    **dict.fromkeys((Kind.MAGIC, Kind.INSPECT), regex(r"[^\n]*")),
    # A shell command goes on where its line ends in a backslash, as in a shell.
    Kind.SHELL: regex(r"(?:[^\n\\]|\\[^\n]|\\\n)*\\?"),
    Kind.CELL_MAGIC: regex(r"(?s:.*)"),
    Kind.LABEL: regex(f"{NAME}:"),  # an instruction may follow on the same line
}
# What a definition begins with, whose name and sign may stand on several lines.
_DEFINED = regex(rf"[@%!]{NAME}{SPACE}=")
_MAGIC = regex(r"%%?([A-Za-z_][\w.]*)[ \t]*([^\n]*)")
_MAGIC_COMMENT = regex(r"""("[^"]*"|'[^']*')|(?<![^ \t]);""")
_GLOBAL = regex(rf"@({NAME})(?:{SPACE}=)?")
# `@f(1); @f(2)`, as C has it: no blank before the comment, and a whole call in it.
_CALL_BEHIND = regex(rf";[ \t]*(@{NAME}\([^\n]*\))[ \t]*;?[ \t]*(?=\n|\Z)")
# NUL would end the text in LLVM's eyes, and a lone surrogate has no UTF-8 form.
_NO_TEXT = regex("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")

_TOKEN = regex(SKIP + r'|"|/\*|[()\[\]{}<>@\n]')
# In call lines and assignments `"..."` has C's escapes: \" goes on, but not in names and c"...".
_LINE_STRING_TOKEN = regex(
    r'(?<=[@%])"[^"]*"|(?<![c@%])"(?:\\[^\n]|[^"\\\n])*"|"[^"\n]*"|"|'
    rf"{COMMENT}|/\*|[()\[\]{{}}<>@\n]"
)
_HEADLESS = regex(r"^[ \t]*define\b[^{\n]*$(?!\s*\{)", re.MULTILINE)
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
        from jitkernel.ir.no_statement import most_telling  # only for errors

        raise CompileError(most_telling([p.diagnostic for p in problems]))
    return statements


def call_behind(source: str, at: int) -> str:
    """The call that the comment at an offset consists of; "" where it is another comment."""
    match = _CALL_BEHIND.match(source, at)
    return match[1] if match else ""


def scan(source: str) -> tuple[tuple[Statement, ...], tuple[Problem, ...]]:
    """As `split`, with the problems listed instead of raised."""
    bad = _NO_TEXT.search(source)
    if bad:
        message = f"character U+{ord(bad[0]):04X} is not text; nothing was read"
        return (), (Problem(diagnostic(source, bad.start(), message)),)
    scanner, at = _Scanner(source), after_space(source, 0)
    while at < len(source) and len(scanner.problems) < _MOST_PROBLEMS:
        at = after_space(source, scanner.statement(at))
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


def _kind(source: str, found: re.Match[str] | None) -> Kind:
    """The kind of a statement with this beginning."""
    if found is None:
        return Kind.UNKNOWN
    kind, _ = _FORMS[(found.lastindex or 0) - 1]
    if kind is not None:
        return kind
    begins = found[0]
    if begins[-1] != "=":
        return _WORDS.get(begins, Kind.UNKNOWN)
    word = present(_WORD.match(source, found.end()), "a word, perhaps an empty one")[1]
    if begins[0] == "%":
        return Kind.TYPE if word == "type" else Kind.INSTRUCTION
    return Kind.ENTITY if word in VARIABLE_WORDS else Kind.ASSIGN


class _Scanner:
    """Walks over the source once; `line` is the line of the offset `counted`."""

    def __init__(self, source: str):
        self.source = source
        self.statements: list[Statement] = []
        self.problems: list[Problem] = []
        self.line, self.counted, self.line_start = 1, 0, 0

    def statement(self, at: int) -> int:
        """Reads the statement at `at`; answers where the next may begin."""
        source = self.source
        found = _BEGINS.match(source, at)
        kind = _FORMS[(found.lastindex or 0) - 1][0] if found else Kind.UNKNOWN
        kind = kind or _kind(source, found)
        if kind is Kind.CELL_MAGIC and (self.statements or self.problems):
            kind = Kind.UNKNOWN
        if kind is Kind.UNKNOWN:
            return self.unknown(at)
        if pattern := _EXTENTS.get(kind):
            stop = after = present(pattern.match(source, at), "what begins it").end()
        elif extent := self.extent(at, kind):
            stop, after = extent
        else:
            return self.next_line(at)
        text = source[at:stop].rstrip()
        if "/*" in text and kind in (Kind.TYPE, Kind.METADATA, Kind.ENTITY, Kind.INSTRUCTION):
            text = without_comments(text, kept=";").rstrip()
        stop = at + len(text)
        line = self.count_to(at)
        column = at - self.line_start + 1
        last_line = self.count_to(stop) if "\n" in text else line
        self.statements.append(Statement(kind, text, at, stop, line, column, last_line))
        return after

    def count_to(self, at: int) -> int:
        """The line that offset `at` is on; `at` never goes back."""
        if lines := self.source.count("\n", self.counted, at):
            self.line += lines
            self.line_start = self.source.rfind("\n", 0, at) + 1
        self.counted = at
        return self.line

    def next_line(self, at: int) -> int:
        end = self.source.find("\n", at)
        return len(self.source) if end < 0 else end

    def problem(self, at: int, message: str, hint: str = "", incomplete: bool = False) -> None:
        self.problems.append(Problem(diagnostic(self.source, at, message, hint), incomplete))

    def unknown(self, at: int) -> int:
        if self.source.startswith("/*", at):
            self.unclosed(at)
            return len(self.source)
        end = self.next_line(at)
        if self.source[at] in _CLOSER.values():
            self.misplaced(self.source[at], at, [])
            return end
        from jitkernel.ir.no_statement import nearest_form  # only for errors

        message, hint = nearest_form(self.source[at:end])
        self.problem(at, message, hint)
        return end

    def extent(self, start: int, kind: Kind) -> tuple[int, int] | None:
        """The offsets where the statement's text ends and scanning goes on; None at a problem."""
        source = self.source
        is_define, named = source.startswith("define", start), False
        pattern = _LINE_STRING_TOKEN if kind in (Kind.CALL, Kind.ASSIGN) else _TOKEN
        open_at: list[tuple[str, int]] = []
        defined = _DEFINED.match(source, start)
        at, comment = defined.end() if defined else start, -1
        while match := pattern.search(source, at):
            token, here, at = match[0], match.start(), match.end()
            if token == "\n":
                if not open_at:
                    at = after_space(source, at)
                    # Whatever begins no statement may be on the way to a body.
                    goes_on = is_define and at < len(source)
                    goes_on = goes_on and (_kind(source, _BEGINS.match(source, at)) is Kind.UNKNOWN)
                    if kind is Kind.INSTRUCTION:
                        goes_on = CONTINUES.match(source, at) is not None
                    if not goes_on:
                        return (here if comment < 0 else comment), here
                comment = -1
            elif token in ("/*", '"'):
                several = self.unclosed(here, one_line=pattern is not _TOKEN)
                return (len(source), len(source)) if several else None
            elif token[0] == ";":
                comment = here
            elif token == "@":
                named = named or not open_at
            elif token == "{" and is_define and named and not open_at:
                end = self.body(here)
                return end, end
            elif token in _CLOSER:
                open_at.append((token, here))
            elif token in _CLOSER.values():
                if not open_at or _CLOSER[open_at[-1][0]] != token:
                    self.misplaced(token, here, open_at)
                    return None
                open_at.pop()
        if open_at:
            opener, opened = open_at[-1]
            self.problem(opened, f"this '{opener}' is never closed", incomplete=True)
            return len(source), len(source)
        return (len(source) if comment < 0 else comment), len(source)

    def unclosed(self, at: int, one_line: bool = False) -> bool:
        """A string or a comment that does not end; True where more may follow."""
        if self.source.startswith("/*", at):
            self.problem(at, "this comment is never closed", "it ends with */", incomplete=True)
            return True
        hint = "a quote inside a string is written \\22" if one_line else ""
        self.problem(at, "this string is never closed", hint, incomplete=not one_line)
        return not one_line

    def misplaced(self, token: str, at: int, open_at: list[tuple[str, int]]) -> None:
        """A bracket does not close the one that was opened last."""
        if not open_at:
            opening = next(mark for mark, closer in _CLOSER.items() if closer == token)
            hint = f"a '{opening}' is missing above it, or it is one too many"
            heads = [*_HEADLESS.finditer(self.source, 0, at)] if token == "}" else []
            if heads:
                line = self.source.count("\n", 0, heads[-1].start()) + 1
                hint = f"the function of line {line} has no '{{' behind its parameters"
            self.problem(at, f"'{token}' closes nothing", hint)
            return
        opener, opened = open_at[-1]
        line = self.source.count("\n", 0, opened) + 1
        where = f"line {line}, column {opened - self.source.rfind(chr(10), 0, opened)}"
        self.problem(
            at, f"'{token}' where '{_CLOSER[opener]}' should close the '{opener}' of {where}"
        )

    def body(self, start: int) -> int:
        """The offset behind the `}` of the function body that begins at `start`; of the end, at a
        problem.

        Inside, only braces count: whatever else is out of order, LLVM says it better.
        """
        if (end := body_end(self.source, start)) >= 0:
            return end
        tokens = _TOKEN.finditer(self.source, start)
        if match := next((m for m in tokens if m[0] in ('"', "/*")), None):
            self.unclosed(match.start())
        else:
            hint = "a function's body ends with '}'"
            self.problem(start, "this '{' is never closed", hint, incomplete=True)
        return len(self.source)


_STRING = r'"(?:\\[^\n]|[^"\\\n])*(?:"|\\?(?=\n)|\\?\Z)'
_AT_CURSOR = regex(
    rf"""(?P<string>c"[^"\n]*(?:"|(?=\n)|\Z)|{_STRING})"""
    r"|(?P<comment>;[^\n]*|/\*[^\n]*?(?:\*/|(?=\n)|\Z))"
    r"""|%%[\w.]*|[@%](?:"[^"\n]*"?|[-a-zA-Z$._0-9]*)|![-a-zA-Z$._0-9]*|[A-Za-z_][\w.]*"""
)


def word_at(source: str, position: int) -> str:
    """The word, with its sign, that ends or goes on at offset `position` of a cell, else the one
    that begins there; none in strings and comments."""
    begin = source.rfind("\n", 0, max(position, 0)) + 1
    word = ""
    for match in _AT_CURSOR.finditer(source, begin):
        start, stop, kind = match.start(), match.end(), match.lastgroup
        if start > position or (word and start == position):
            break
        if kind and start < position < stop + (kind == "comment"):
            break
        if not kind and position <= stop:
            word = match[0]
    return word
