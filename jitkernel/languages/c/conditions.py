"""What the preprocessor makes of a cell of C: which lines `#if` leaves.  Start from `active`."""

from __future__ import annotations

import re
from bisect import bisect_right

from jitkernel.languages.c.clang import Clang
from jitkernel.languages.c.complaints import Complaints
from jitkernel.languages.c.generated import OWN, WIDE
from jitkernel.languages.c.notes import Notes
from jitkernel.languages.c.tokens import CONDITION, HAS_CONDITION, line_starts, tokens

__all__ = ["MARKED", "active", "marked", "preprocessed"]

_MARK = f"#pragma {OWN}at"
MARKED = re.compile(rf"^{_MARK} (\d+)$", re.MULTILINE)


def active(code: str, file: str, notes: Notes, clang: Clang, complaints: Complaints) -> str:
    """The code with blanks for what its `#if` leaves out, and for those directives.

    Raises CompileError for directives that do not fit together, and Unfinished.
    """
    if not HAS_CONDITION.search(code):
        return code
    marks = [t for t in tokens(code) if t.kind == "directive" and CONDITION.match(t.text)]
    text = marked(code, [mark.stop for mark in marks], file)
    text = preprocessed(text, file, notes, clang, complaints)
    alive = {int(number) for number in MARKED.findall(text)}
    found = list(code)
    for number, mark in enumerate(marks):
        stop = marks[number + 1].start if number + 1 < len(marks) else len(code)
        end = stop if number not in alive else mark.stop
        found[mark.start : end] = re.sub(r"[^\n]", " ", code[mark.start : end])
    return "".join(found)


def marked(code: str, places: list[int], file: str) -> str:
    """The code with a numbered mark at each of these places, where its lines go on."""
    parts: list[str] = []
    at, starts = 0, line_starts(code)
    for number, place in enumerate(places):
        line = bisect_right(starts, place)
        blanks = " " * min(place - starts[line - 1], WIDE)
        parts.append(f'{code[at:place]}\n{_MARK} {number}\n# {line} "{file}"\n{blanks}')
        at = place
    return "".join((*parts, code[at:]))


def preprocessed(code: str, file: str, notes: Notes, clang: Clang, complaints: Complaints) -> str:
    """The code with its conditions and macros resolved.  Raises CompileError."""
    macros = "".join(f"\n{note.text}\n" for note in notes.preprocessed())
    output = clang.preprocess(f'{macros}\n# 1 "{file}"\n{code}', notes.header)
    if any(c.is_error for c in output.complaints):
        raise complaints.refused(output.complaints)
    return output.text
