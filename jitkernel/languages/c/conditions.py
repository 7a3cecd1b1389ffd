"""`#if` in a cell of C: which of its lines count.  Start from `active`."""

from __future__ import annotations

import re

from jitkernel.languages.c.clang import Clang
from jitkernel.languages.c.complaints import Complaints
from jitkernel.languages.c.generated import OWN
from jitkernel.languages.c.notes import Notes
from jitkernel.languages.c.tokens import tokens

__all__ = ["active"]

_CONDITION = re.compile(r"#\s*(?:if|ifdef|ifndef|elif|elifdef|elifndef|else|endif)\b")
_HAS_CONDITION = re.compile(r"(?m)^[ \t]*#[ \t]*if")
_MARK = f"#pragma {OWN}at"
_MARKED = re.compile(rf"#pragma {OWN}at (\d+)")


def active(code: str, file: str, notes: Notes, clang: Clang, complaints: Complaints) -> str:
    """The code with blanks for what its `#if` leaves out, and for those directives.

    Raises CompileError for directives that do not fit together, and Unfinished.
    """
    if not _HAS_CONDITION.search(code):
        return code
    marks = [t for t in tokens(code) if t.kind == "directive" and _CONDITION.match(t.text)]
    parts: list[str] = []
    at = 0
    for number, mark in enumerate(marks):
        parts.append(f'{code[at : mark.stop]}\n{_MARK} {number}\n# {mark.line + 1} "{file}"')
        at = mark.stop
    parts.append(code[at:])
    macros = "".join(
        f"\n{note.text}\n" for note in sorted(notes, key=lambda n: n.place)
        if note.kind in ("define", "undef")
    )  # fmt: skip
    output = clang.preprocess(f'{macros}\n# 1 "{file}"\n{"".join(parts)}', notes.header)
    if any(c.is_error for c in output.complaints):
        raise complaints.refused(output.complaints)
    alive = {int(number) for number in _MARKED.findall(output.text)}
    found = list(code)
    for number, mark in enumerate(marks):
        stop = marks[number + 1].start if number + 1 < len(marks) else len(code)
        end = stop if number not in alive else mark.stop
        found[mark.start : end] = re.sub(r"[^\n]", " ", code[mark.start : end])
    return "".join(found)
