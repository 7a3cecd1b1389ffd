"""From lines of a module to lines of the cell that it was made of.

A language other than IR says in comments of their own line which line of the cell the instructions
below come from: `; line 3`.  Start from `cell_lines`.
"""

from __future__ import annotations

from collections.abc import Callable

from jitkernel.regex import regex

_DEFINE = regex(r"\s*define\b(?!.*@jk\.)")
_MARK = regex(r"\s*; line (\d+)\b")


def cell_lines(text: str, first_line: int, source: str) -> Callable[[int], int]:
    """From lines of a cell's module to lines of its source, 0 where unknown.

    `text` is what was compiled, the cell's part of it from `first_line` on.
    """
    if are_marked(text, first_line, source):
        return marked_lines(text, first_line)
    module = text.split("\n")[first_line - 1 :]
    own = all(t.strip() in source for t in module if _DEFINE.match(t))
    return lambda line: line if own else 0


def are_marked(text: str, first_line: int, source: str) -> bool:
    """True if a language has marked the lines of a module, and not who wrote the cell."""
    module = text.split("\n")[first_line - 1 :]
    return any(_MARK.match(t) for t in module) and not _MARK.search(source)


def marked_lines(text: str, first_line: int) -> Callable[[int], int]:
    """As `cell_lines`, for a module that a language has marked."""
    lines = [0]
    for one in text.split("\n")[first_line - 1 :]:
        mark = _MARK.match(one)
        lines.append(int(mark[1]) if mark else 0 if one.startswith("define ") else lines[-1])
    return lambda line: lines[line] if 0 < line < len(lines) else 0
