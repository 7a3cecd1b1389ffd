"""What lines that are no statement of a cell were perhaps meant to be.  Start from
`nearest_form`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from jitkernel.errors import Diagnostic
from jitkernel.ir.keywords import ENTITY_WORDS, OPCODES, VARIABLE_WORDS, nearest
from jitkernel.ir.miswritten import OPERATORS, rules, said
from jitkernel.ir.names import NAME
from jitkernel.ir.text import SCALAR, without_strings
from jitkernel.lookalikes import advice
from jitkernel.regex import regex

_WHOLE = regex(r"[-+]?\d+")
_SHELL = frozenset("ls cat cp mv rm mkdir man less grep gcc clang git python".split())
_NOT_C = (
    "this cell holds LLVM IR; functions begin with `define`. A cell of C has `%%c` above it, and "
    "`%run x.c` runs a file of C"
)
_PRINT = frozenset(("print", "println", "echo"))
_LINE_FORMS = "a line is IR, a call `@f(...)`, a magic `%name`, or a shell command `!name`"


def _called(m: re.Match[str], shown: str) -> str:
    if m[1] in _PRINT:
        if m.string[m.end() : m.end() + 1] == '"':
            return f"did you mean `@puts{shown[len(m[1]) :]}`?"
        return 'a line that is a value shows it; text is written by `@puts("...")`'
    return f"did you mean `@{shown}`?" if m[1] not in OPCODES else ""


def _set(m: re.Match[str], shown: str) -> str:
    if m[2] in OPCODES or m[2] == "type":
        return f"did you mean `%{shown}`?"
    value = m.string[m.end() :].strip()
    typed = f" A new one needs its type: `@{m[1]} = i64 {value}`"
    return f"did you mean `@{shown}`?{typed if _WHOLE.fullmatch(value) else ''}"


def _value(m: re.Match[str], shown: str) -> tuple[str, str]:
    typed = f"i64 {shown}" if _WHOLE.fullmatch(m.string) else shown
    wrong = f"'{shown}' is only a value: nothing is done with it"
    return wrong, f"to keep it: `@name = {typed}`"


def _word(m: re.Match[str], shown: str) -> str | tuple[str, str]:
    rest = m.string[m.end() :]
    if close := nearest(m[0], OPCODES | ENTITY_WORDS, 0.7):
        return f"'{m[0]}' is no instruction", f"did you mean `{close}{rest[:40]}`?"
    if m.string in _SHELL:
        return f"a shell command is `!{m.string}`"
    if not rest:
        return f"did you mean `@{shown}` or `%{shown}`?"
    return f"'{m[0]}' is no instruction", _LINE_FORMS


def _global(m: re.Match[str], shown: str) -> str:
    named = re.match(f"@{NAME}", m.string)
    if not named:
        return 'a name is letters, digits and $._-, or quoted: @"any text"'
    name, rest = named[0], m.string[named.end() :].strip()
    if rest.split() and rest.split()[0] in VARIABLE_WORDS:
        return f"did you mean `{name} = {rest[:40]}`?"
    if rest.startswith("=="):
        return "an assignment is `@name = value`"
    if rest.startswith("["):
        return f"an element's address: `%p = getelementptr i32, ptr {name}, i64 1`, with its type"
    return f"`{name}` alone shows it, `{name}(...)` calls it, `{name} = ...` sets it"


_SET = r"([A-Za-z_$.][\w$.]*)\s*=\s*([A-Za-z_]+\b)?"
# What a line matches, and what to say of it: the nearest form that would do, or what is wrong, too.
_FORMS = rules(
    (r"(?:\?|[/:]?help|help\(\)|-h|--help)$", "%help lists what there is"),
    (
        r"#\s*(?:include|define|if|ifdef|ifndef|pragma)\b",
        f'{_NOT_C}; common C functions need no header: `@puts("hello")`',
    ),
    (r"//|#", "comments start with ;"),
    (r"%%(?:$|%)", "a cell magic is `%%name`; %lsmagic lists them"),
    (r"%(?!%)", "a line magic is `%name`, an instruction `%name = opcode ...`"),
    (r"[^\x00-\x7f]", 'names with other characters than letters, digits and $._- are quoted: @"é"'),
    (
        r"(?:(?:if|for|while|switch)\s*\(|(?:return|typedef|else|do|unsigned|long|short|bool)\b)",
        _NOT_C,
    ),
    (
        r"%",
        lambda m, shown: (
            f"'{shown}' stands below other statements",
            "a cell magic is the first statement of its cell",
        ),
    ),
    (r"@", _global),
    (r"([A-Za-z_$.][\w$.]*)\s*\(", _called),
    (
        rf"(?!{_SET})(?:int|char|void|float|double|static|struct|def|import|from|fn|let|auto"
        r"|const)\s+\w",
        _NOT_C,
    ),
    (_SET, _set),
    (r"load (@.*)", r"did you mean `\1`?"),
    (
        r"([-+]?\d+)\s*([-+*/%])\s*([-+]?\d+)\Z",
        lambda m, shown: (
            f"an instruction does that: `%x = {OPERATORS[m[2]][0]} i64 {m[1]}, {m[3]}`"
        ),
    ),
    (rf'(?:{SCALAR}|true|false|null)\b|[-+\d"{{\[<]', _value),
    (r"[A-Za-z_][\w.]*", _word),
    begin=r"\A",
)


#: How many lines of a cell are complained of at once, at most.
_MOST = 5


def most_telling(problems: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Of what is wrong with a cell, what its author should read: of a program in C one line."""
    if foreign := [p for p in problems if p.hint.startswith(_NOT_C)]:
        return foreign[:1]
    return list(problems[:_MOST])


def nearest_form(line: str) -> tuple[str, str]:
    """For a line that is no instruction: what is wrong, and the nearest form that would do."""
    looks_like, line = advice(without_strings(line)), line.strip()
    shown = line if len(line) <= 60 else line[:57] + "..."
    found = looks_like or said(_FORMS, line, shown) or _LINE_FORMS
    return found if isinstance(found, tuple) else (f"'{shown}' cannot be understood", found)
