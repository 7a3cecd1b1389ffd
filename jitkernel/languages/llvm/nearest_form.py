"""What a line that cannot be understood was perhaps meant to be.  Start from `nearest_form`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jitkernel.errors import Diagnostic
from jitkernel.languages.llvm.words import ENTITY_WORDS, OPCODES, VARIABLE_WORDS, nearest

__all__ = ["most_telling", "nearest_form"]

_CALL = re.compile(r"([A-Za-z_$.][\w$.]*)\s*\(")
_SET = re.compile(r"([A-Za-z_$.][\w$.]*)\s*=\s*([A-Za-z_]+\b)?")
_WORD = re.compile(r"[A-Za-z_][\w.]*")
_OTHER_LANGUAGE = re.compile(
    r"(?:int|char|void|float|double|static|struct|def|import|from|fn|let|auto|const)\s+\w"
)
_VALUE = re.compile(
    r'i\d+\b|(?:half|bfloat|float|double|ptr|x86_fp80|fp128|true|false|null)\b|[-+\d"{\[<]'
)
_WHOLE = re.compile(r"[-+]?\d+")
_SUM = re.compile(r"([-+]?\d+)\s*([-+*/%])\s*([-+]?\d+)")
_OPERATORS = {"+": "add", "-": "sub", "*": "mul", "/": "sdiv", "%": "srem"}
_INCLUDE = re.compile(r"#\s*(?:include|define|if|ifdef|ifndef|pragma)\b")
_CONTROL = re.compile(
    r"(?:(?:if|for|while|switch)\s*\(|(?:return|typedef|else|do|unsigned|long|short|bool)\b)"
)
_SHELL = frozenset("ls cat cp mv rm mkdir man less grep gcc clang git python".split())
_NOT_C = (
    "this cell holds LLVM IR; functions begin with `define`. Of C in a file, clang makes it: "
    "`!clang -O1 -S -emit-llvm x.c -o x.ll`, `%run x.ll`"
)
_HELP = frozenset(("?", "help", "help()", "/help", ":help", "-h", "--help"))
_PRINT = frozenset(("print", "println", "echo"))


#: How many lines of a cell are complained of at once, at most.
_MOST = 5


def most_telling(problems: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Of what is wrong with a cell, what its author should read: of a program in C one line."""
    if foreign := [p for p in problems if p.hint.startswith(_NOT_C)]:
        return foreign[:1]
    return list(problems[:_MOST])


def nearest_form(line: str) -> tuple[str, str]:
    """For a line that is no instruction: what is wrong, and the nearest form that would do."""
    line = line.strip()
    shown = line if len(line) <= 60 else line[:57] + "..."
    head = line[:1]
    if line in _HELP:
        return f"'{shown}' cannot be understood", "%help lists what there is"
    if _INCLUDE.match(line):
        return (
            f"'{shown}' cannot be understood",
            f'{_NOT_C}; common C functions need no header: `@puts("hello")`',
        )
    if line.startswith(("//", "/*", "#")):
        return f"'{shown}' cannot be understood", "comments start with ;"
    if head == "%":
        return _percent(line, shown)
    if head == "@":
        return _at(line, shown)
    if head in ")]}>":
        return f"'{head}' closes nothing", ""
    if head in "“”„‘’":
        return f"'{shown}' cannot be understood", f'{head} is no quote here: write "'
    if not line.isascii() and not head.isascii():
        return (
            f"'{shown}' cannot be understood",
            'names with other characters than letters, digits and $._- are quoted: @"é"',
        )
    if _CONTROL.match(line):
        return f"'{shown}' cannot be understood", _NOT_C
    call = _CALL.match(line)
    if call and call[1] in _PRINT:
        return f"'{shown}' cannot be understood", f"did you mean `@puts{shown[len(call[1]) :]}`?"
    if call and call[1] not in OPCODES:
        return f"'{shown}' cannot be understood", f"did you mean `@{shown}`?"
    if _OTHER_LANGUAGE.match(line) and not _SET.match(line):
        return (
            f"'{shown}' cannot be understood",
            _NOT_C,
        )
    setting = _SET.match(line)
    if setting:
        if setting[2] in OPCODES or setting[2] == "type":
            return f"'{shown}' cannot be understood", f"did you mean `%{shown}`?"
        value = line[setting.end() :].strip()
        typed = f" A new one needs its type: `@{setting[1]} = i64 {value}`"
        return (
            f"'{shown}' cannot be understood",
            f"did you mean `@{shown}`?{typed if _WHOLE.fullmatch(value) else ''}",
        )
    if line.startswith("load @"):
        return f"'{shown}' cannot be understood", f"did you mean `{line[5:]}`?"
    if sum := _SUM.fullmatch(line):
        write = f"%x = {_OPERATORS[sum[2]]} i64 {sum[1]}, {sum[3]}"
        return f"'{shown}' cannot be understood", f"an instruction does that: `{write}`"
    if _VALUE.match(line):
        typed = f"i64 {shown}" if _WHOLE.fullmatch(line) else shown
        return (
            f"'{shown}' is only a value: nothing is done with it",
            f"to keep it: `@name = {typed}`",
        )
    word = _WORD.match(line)
    if word:
        close = nearest(word[0], OPCODES | ENTITY_WORDS, 0.7)
        if close:
            return (
                f"'{word[0]}' is no instruction",
                f"did you mean `{close}{line[word.end() :][:40]}`?",
            )
        if line in _SHELL:
            return f"'{shown}' cannot be understood", f"a shell command is `!{line}`"
        if word.end() == len(line):
            return f"'{shown}' cannot be understood", f"did you mean `@{shown}` or `%{shown}`?"
        return (
            f"'{word[0]}' is no instruction",
            "a line is IR, a call `@f(...)`, a magic `%name`, or a shell command `!name`",
        )
    return (
        f"'{shown}' cannot be understood",
        "a line is IR, a call `@f(...)`, a magic `%name`, or a shell command `!name`",
    )


def _percent(line: str, shown: str) -> tuple[str, str]:
    if line == "%%":
        return f"'{shown}' cannot be understood", "a cell magic is `%%name`; %lsmagic lists them"
    if line.startswith("%%%"):
        return f"'{shown}' cannot be understood", "a cell magic is `%%name`; %lsmagic lists them"
    if line.startswith("%%"):
        return (
            f"'{shown}' stands below other statements",
            "a cell magic is the first statement of its cell",
        )
    return (
        f"'{shown}' cannot be understood",
        "a line magic is `%name`, an instruction `%name = opcode ...`",
    )


def _at(line: str, shown: str) -> tuple[str, str]:
    match = re.match(r'@(?:"[^"]*"|[-a-zA-Z$._0-9]+)', line)
    if not match:
        return (
            f"'{shown}' cannot be understood",
            'a name is letters, digits and $._-, or quoted: @"any text"',
        )
    name, rest = match[0], line[match.end() :].strip()
    first = rest.split()[0] if rest.split() else ""
    if first in VARIABLE_WORDS:
        return f"'{shown}' cannot be understood", f"did you mean `{name} = {rest[:40]}`?"
    if rest.startswith("=="):
        return f"'{shown}' cannot be understood", "an assignment is `@name = value`"
    return (
        f"'{shown}' cannot be understood",
        f"`{name}` alone shows it, `{name}(...)` calls it, `{name} = ...` sets it",
    )
