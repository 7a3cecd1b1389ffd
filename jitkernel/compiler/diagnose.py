"""From LLVM's messages to diagnostics in the cell's own lines.  Start from `parse_error`.

LLVM counts columns in bytes and lines in the text that it was given; a cell's author counts
characters, in the cell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from jitkernel.compiler.prepare import PREFIX_LINES
from jitkernel.errors import Diagnostic
from jitkernel.ir.names import NAME
from jitkernel.regex import regex

_MESSAGE = regex(r"^(?:<string>|[^\n:]*):(\d+):(\d+): (error|warning|note): (.*)$", re.M)
_PREFIXED = regex(r"^(error|warning|note|remark): ?", re.I)
_FATAL = regex(r"^(?:LLVM ERROR: |fatal error: |error: )?(?:<unknown>:\d+:(?:\d+:)? )?")
_INLINE_ASM = regex(r"<inline asm>:\d+:\d+: (?:error: )?(.*)")
_PIECES = regex(r"(?<!\w)'([^']+)'|GC: (\S+)|[iI]n function:? ([-\w$.]+)|constraint: (\S+)")
_SYMBOL = regex("@" + NAME)
_LOCAL = regex(r"(?<![\w$.-])%" + NAME)
_BLANKS = regex(r"\s+")
_ATTACHED = regex(r"(, ![\w.]+ !\d+|, align \d+| #\d+)+$")


def parse_error(
    message: str, source: str, first_line: int, shifts: Mapping[int, tuple[int, int]]
) -> Diagnostic:
    """The diagnostic for what LLVM's parser said about `source`."""
    match = _MESSAGE.search(message)
    if not match:
        return Diagnostic(_PREFIXED.sub("", message.strip()))
    line, column = int(match[1]) - PREFIX_LINES, int(match[2])
    words = match[4].strip()
    lines = source.split("\n")
    if not 1 <= line <= len(lines):
        return Diagnostic(words)
    text = lines[line - 1].rstrip("\r")
    column = _characters(text, column)
    if line in shifts and column > shifts[line][0]:
        column = max(column - shifts[line][1], shifts[line][0])
    return _place(words, line, column, text, first_line)


def _characters(text: str, column: int) -> int:
    """The character column for LLVM's byte column."""
    if text.isascii():
        return column
    return len(text.encode("utf-8", "replace")[: column - 1].decode("utf-8", "ignore")) + 1


def _place(words: str, line: int, column: int, text: str, first_line: int) -> Diagnostic:
    """A diagnostic at a line of the source, or without a place where the user did not type it."""
    line -= first_line - 1
    if line < 1:
        return Diagnostic(f"{words} (in what earlier cells defined: {text.strip()})")
    return Diagnostic(words, line, column, text)


def verify_error(message: str, source: str, first_line: int) -> list[Diagnostic]:
    """Diagnostics for what the verifier said: sentences, each followed by values as printed."""
    told: list[list[str]] = []
    for line in filter(str.strip, message.splitlines()):
        if told and _is_value(line):
            told[-1].append(line.strip())
        else:
            told.append([line.strip()])
    found: list[Diagnostic] = []
    for sentence, *values in told:
        detail = "".join(f"\n  {value[:200]}" for value in values)
        if place := _find(values, source):
            number, column, text = place
            if len(values) == 1 and _norm(values[0]) == _norm(text):
                detail = ""
            found.append(_place(sentence + detail, number, column, text, first_line))
        else:
            found.append(Diagnostic(sentence + detail))
    return found[:20] or [Diagnostic("the module is not valid")]


def _is_value(line: str) -> bool:
    """True if a line of the verifier's output is a printed value rather than a sentence."""
    if line.startswith((" ", "\t")):
        return True
    stripped = line.strip()
    return stripped.startswith(("%", "@", "!", "ptr ", "label ", "declare ", "define ")) or bool(
        re.match(r"(i\d+|half|float|double|\{|\[|<)", stripped)
    )


def _norm(text: str) -> str:
    """An instruction's text without what LLVM adds when it prints: blanks, alignments, comments."""
    text = text.partition(";")[0]
    return _ATTACHED.sub("", _BLANKS.sub(" ", text).strip())


def _find(values: list[str], source: str) -> tuple[int, int, str] | None:
    """The place of one of the printed `values` in `source`: line, column, the line's text."""
    lines = source.split("\n")
    normal = [_norm(line) for line in lines]
    # the value that breaks a rule is usually the last one that is printed as an instruction
    for value in values[1:2] + values[:1] + values[2:]:
        wanted = _norm(value)
        if wanted and wanted in normal:
            return _hit(lines, normal.index(wanted))
    names = (_LOCAL.match(value) for value in values if " = " in value)
    starts = [re.escape(name[0]) + r"\s*=" for name in names if name]
    labels = (value.removeprefix("label %") for value in values if value.startswith("label %"))
    for start in [*starts, *(re.escape(label) + ":" for label in labels)]:
        for number, line in enumerate(lines):
            if re.match(r"\s*" + start, line):
                return _hit(lines, number)
    for value in values:
        if symbol := _SYMBOL.search(value):
            for number, line in enumerate(lines):
                at = line.find(symbol[0])
                if at >= 0 and re.match(r"\s*(define|declare|@)", line):
                    return number + 1, at + 1, line.rstrip("\r")
    return None


def _hit(lines: list[str], number: int) -> tuple[int, int, str]:
    text = lines[number].rstrip("\r")
    return number + 1, len(text) - len(text.lstrip()) + 1, text


def fatal_error(words: str, source: str, first_line: int) -> Diagnostic | None:
    """A diagnostic of what LLVM said before it ended the process, at the line it speaks of.

    It names a piece of the source instead of a place: an instruction of inline asm, a constraint, a
    `gc` name, a function.  None where the source has nothing like it.
    """
    first, _, rest = words.partition("\n")
    message = _FATAL.sub("", first)
    if match := _INLINE_ASM.match(message):
        message = f"inline asm: {match[1]}"
        pieces = [rest.partition("\n")[0].strip()]
    else:
        pieces = [next(filter(None, groups)) for groups in _PIECES.findall(words)]
    lines = source.split("\n")
    for piece in pieces:
        whole = re.compile(r"(?<![\w.$-])" + re.escape(piece) + r"(?![\w.$-])")
        for number, line in enumerate(lines):
            found = whole.search(line)
            if found and not line.lstrip().startswith(";"):
                return _place(message, number + 1, found.start() + 1, line.rstrip("\r"), first_line)
    return None


def warnings(words: str) -> list[Diagnostic]:
    """Diagnostics of what LLVM wrote to its standard error while it succeeded."""
    lines = filter(None, map(str.strip, words.splitlines()[:20]))
    return [Diagnostic(_PREFIXED.sub("", line)[:500], severity="warning") for line in lines]
