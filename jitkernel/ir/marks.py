"""From lines of a module to lines of the cell that it was made of.

A language other than IR says in comments of their own which line of the cell the instructions
below come from: `; line 3`, and `; line 3 in "/usr/include/f.h"` of code in a file that the cell
includes; `; begins at line 2` behind the head of a function says where that stands, in the file
that its lines are of.
Start from `cell_lines`; of files, too, `marked_places`.
"""

from __future__ import annotations

from collections.abc import Callable

from jitkernel.regex import regex

_DEFINE = regex(r"\s*define\b(?!.*@jk\.)")
_MARK = regex(r'\s*; line (\d+)\b(?: in "([^"]*)")?')
_BEGINS = regex(r"\s*; begins at line (\d+)")


def cell_lines(text: str, first_line: int, source: str) -> Callable[[int], int]:
    """From lines of a cell's module to lines of its source, 0 where unknown.

    `text` is what was compiled, the cell's part of it from `first_line` on.
    """
    places = cell_places(text, first_line, source)
    return lambda line: 0 if (place := places(line))[0] else place[1]


def cell_places(text: str, first_line: int, source: str) -> Callable[[int], tuple[str, int]]:
    """As `cell_lines`, to file and line: the file is empty where that is the cell's source."""
    if are_marked(text, first_line, source):
        return marked_places(text, first_line)
    module = text.split("\n")[first_line - 1 :]
    lines = {*map(str.strip, source.split("\n"))}  # to look for each in all of it takes long
    heads = (t.strip() for t in module if _DEFINE.match(t))
    own = all(head in lines or head in source for head in heads)
    return lambda line: ("", line if own else 0)


def are_marked(text: str, first_line: int, source: str) -> bool:
    """True if a language has marked the lines of a module, and not who wrote the cell."""
    if "; line " not in text:
        return False
    module = text.split("\n")[first_line - 1 :]
    return any(_MARK.match(t) for t in module) and not _MARK.search(source)


def marked_lines(text: str, first_line: int) -> Callable[[int], int]:
    """As `cell_lines`, for a module that a language has marked."""
    places = marked_places(text, first_line)
    return lambda line: 0 if (place := places(line))[0] else place[1]


def marked_places(text: str, first_line: int) -> Callable[[int], tuple[str, int]]:
    """As `cell_places`, for a module that a language has marked.  The line that says where a
    function begins is of that place, in the file of its first mark."""
    found, head = [("", 0)], (0, 0)  # where one begins, and which line that is
    for one in text.split("\n")[first_line - 1 :]:
        if ";" in one and (mark := _MARK.match(one)):
            found.append((mark[2] or "", int(mark[1])))
            if head[0]:
                found[head[0]], head = (mark[2] or "", head[1]), (0, 0)
        elif ";" in one and (begins := _BEGINS.match(one)):
            head = len(found), int(begins[1])
            found.append(("", 0))
        elif one.startswith("define "):
            found.append(("", 0))
            head = 0, 0
        else:
            found.append(found[-1])
    return lambda line: found[line] if 0 < line < len(found) else ("", 0)


def first_alike(text: str, first_line: int) -> Callable[[int], int]:
    """From lines of a module that a language has marked to the first one of the same place in the
    same function; of a function's head, and of what stands in front of its first mark, to the one
    that says where it begins.

    LLVM drops the location of an instruction that it makes of two where those differ: what comes
    from one line of the language has one.
    """
    places, found, head = marked_places(text, first_line), [0], 0
    known: dict[tuple[str, int], int] = {}
    for line, one in enumerate(text.split("\n")[first_line - 1 :], 1):
        if one.startswith("define "):
            known, head = {}, line + 1
        place = places(line)
        found.append(known.setdefault(place, line) if place[1] else head)
    return lambda line: found[line] if 0 < line < len(found) else line


def begins_at(function: str) -> int:
    """The line of its source where the text of a marked function says that it begins, 0 where it
    does not."""
    for one in function.split("\n", 2)[1:2]:
        if begins := _BEGINS.match(one):
            return int(begins[1])
    return 0
