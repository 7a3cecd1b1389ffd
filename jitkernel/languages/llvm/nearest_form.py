"""What a line that cannot be understood was perhaps meant to be.  Start from `nearest_form`."""

from __future__ import annotations

import re

from jitkernel.languages.llvm.words import ENTITY_WORDS, OPCODES, VARIABLE_WORDS, nearest

__all__ = ["nearest_form"]

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
_HELP = frozenset(("?", "help", "help()", "/help", ":help", "-h", "--help"))
_PRINT = frozenset(("print", "println", "echo"))


def nearest_form(line: str) -> tuple[str, str]:
    """For a line that is no instruction: what is wrong, and the nearest form that would do."""
    line = line.strip()
    shown = line if len(line) <= 60 else line[:57] + "..."
    head = line[:1]
    if line in _HELP:
        return f"'{shown}' cannot be understood", "%help lists what there is"
    if line.startswith(("//", "/*", "#")):
        return f"'{shown}' cannot be understood", "comments start with ;"
    if head == "%":
        return _percent(line, shown)
    if head == "@":
        return _at(line, shown)
    if head in ")]}>":
        return f"'{head}' closes nothing", ""
    if not line.isascii() and not head.isascii():
        return (
            f"'{shown}' cannot be understood",
            'names with other characters than letters, digits and $._- are quoted: @"é"',
        )
    call = _CALL.match(line)
    if call and call[1] in _PRINT:
        return f"'{shown}' cannot be understood", f"did you mean `@puts{shown[len(call[1]) :]}`?"
    if call and call[1] not in OPCODES:
        return f"'{shown}' cannot be understood", f"did you mean `@{shown}`?"
    if _OTHER_LANGUAGE.match(line) and not _SET.match(line):
        return (
            f"'{shown}' cannot be understood",
            "this cell holds LLVM IR; functions begin with `define`",
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
