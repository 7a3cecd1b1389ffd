"""Modules as LLVM prints them, compared: their functions, and their lines without what changes with
every pass, whatever the pass did.

LLVM's printer puts each instruction in a line of its own, two blanks in front, and labels, heads
and the last brace in the first column; so lines are all that is read here.  Start from `parts`,
`quiet` and `Steady`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import count
from typing import NamedTuple

from jitkernel.ir.names import NAME, symbol_name, written
from jitkernel.regex import regex

#: The key of everything that is in no function.
REST = ""

_HEAD = regex(rf"(?m)^define [^@\n]*@(?P<name>{NAME})\(")
# Each begins with what is searched for quickly.
_PREDECESSORS = regex(r":[ ]+; preds = [^\n]*")
_GROUP = regex(r" #(?<=[)r] #)\d+(?=[ ,]|$)", re.M)  # behind `)`, `local_unnamed_addr`
_ATTACHED = regex(r", ![A-Za-z_][\w.\-]* !(?:\d+|DIArgList\([^\n]*\))")
_ON_HEADS = regex(r" ![A-Za-z_][\w.\-]* !\d+")
_RECORDS = regex(r"^    #dbg_[^\n]*\n", re.M)
_NODES = regex(r"(?m)^(?:![\w.]+ = |attributes #)[^\n]*(?:\n|\Z)")
_OF_LLVM = regex(r";|declare [^\n]*@llvm\.")
_NUMBER = regex(r'%(?<![\w.$"%-]%)(\d+)\b')
_LABEL = regex(r"^(\d+)(?=:)", re.M)
_DEFINED = regex(r"^(?:  %(\d+) = |(\d+):)", re.M)
_CALL = regex(r"call [^\n]*")
# What a block ends with: there are as many as blocks.
_ENDS_WITH_VALUE = ("invoke ", "callbr ", "catchswitch ")
_ENDS = (
    "br ", "ret ", "switch ", "unreachable", "indirectbr ", "resume ", "cleanupret ", "catchret ",
    *_ENDS_WITH_VALUE,
)  # fmt: skip
_MANY = 64  # lines that are compared at once


def parts(text: str) -> dict[str, str]:
    """The functions that are defined, by name as written (`@sq`), in order, and the `REST` of the
    lines, without LLVM's comments and the declarations of its own functions."""
    found: dict[str, str] = {}
    rest: list[str] = []
    at = 0
    while head := _HEAD.search(text, at):
        end = text.find("\n}", head.end())
        end = len(text) if end < 0 else end + 2
        rest.append(text[at : head.start()])
        found[written(symbol_name(head["name"]))] = text[head.start() : end]
        at = end
    rest.append(text[at:])
    lines = (line for piece in rest for line in piece.split("\n"))
    found[REST] = "\n".join(line for line in lines if line.strip() and not _OF_LLVM.match(line))
    return found


def quiet(text: str) -> str:
    """A part of a module without metadata, debug records, groups of attributes and comments on
    predecessors: what passes derive or count anew."""
    text = _GROUP.sub("", _PREDECESSORS.sub(":", text))
    if " !" in text:
        text = _ON_HEADS.sub("", _ATTACHED.sub("", text))
    if "    #dbg_" in text:
        text = _RECORDS.sub("", text)
    return text if text.startswith("define ") else _NODES.sub("", text)


class Counts(NamedTuple):
    """The size of a function: calls are those of other functions than LLVM's own."""

    instructions: int
    blocks: int
    calls: int


def counts_of(text: str) -> Counts:
    """The counts of the functions in a printed text."""
    deeper = text.count("\n    ") + text.count("\n  ]")  # tables, records, lines that go on
    calls = sum(text.count(f"{at}{o}") for at in (" = ", "\n  ") for o in ("invoke ", "callbr "))
    for match in _CALL.finditer(text):
        before = text[match.start() - 2 : match.start()]
        calls += before in ("  ", "= ", "l ") and "@llvm." not in match[0]  # tail call
    return Counts(
        text.count("\n  ") - deeper,
        sum(text.count(f"\n  {opcode}") for opcode in _ENDS)
        + sum(text.count(f" = {opcode}") for opcode in _ENDS_WITH_VALUE),
        calls,
    )


class Steady:
    """The lines of a function as it goes from pass to pass, in which a value without a name keeps
    its number.

    LLVM counts what has no name each time it prints.  A line that only differs by such numbers from
    one before, in its place, defines the same value; what is new gets a number that none had.
    Numbers that no line defines (types, arguments) stay.
    """

    def __init__(self, text: str = "") -> None:
        self._given = count()
        self._masked: list[str] = []
        self._defined: list[str] = []  # the number that each line defines, as it is shown
        self.lines: list[str] = []
        if text:
            self.follow(text)

    def follow(self, text: str) -> list[tuple[int, int, int]]:
        """Go on to the function's next text, "" where it is gone.  The blocks of equal lines,
        before and after: see `matching`."""
        defines = {a or b for a, b in _DEFINED.findall(text)}
        lines = text.split("\n") if text else []
        masked = _LABEL.sub("#", _NUMBER.sub("%#", text)).split("\n") if defines else lines
        blocks = matching(self._masked, masked)
        own = [""] * len(lines)
        if defines:
            own = [(m[1] or m[2]) if "#" in k and (m := _DEFINED.match(t)) else ""
                   for t, k in zip(lines, masked, strict=True)]  # fmt: skip
            shown: dict[str, str] = {}
            for old, new, size in blocks:
                both = zip(own[new : new + size], self._defined[old : old + size], strict=True)
                shown.update((now, was) for now, was in both if now and was)
            others = {*_NUMBER.findall(text)} - defines
            for number in own:
                if number and number not in shown:
                    shown[number] = next(n for n in map(str, self._given) if n not in others)
            text = _NUMBER.sub(lambda found: "%" + shown.get(found[1], found[1]), text)
            lines = _LABEL.sub(lambda found: shown[found[1]], text).split("\n")
            own = [shown[number] if number else "" for number in own]
            blocks = matching(self.lines, lines)
        self._masked, self._defined, self.lines = masked, own, lines
        return blocks


def matching(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int, int]]:
    """The blocks of equal lines of two texts: where each begins in both, and its lines.

    Lines that stand once in both are matched first, as many as keep their order, and then what is
    between them (Cohen's patience diff): nearly linear, as lines of IR define names.
    """
    found: list[tuple[int, int, int]] = []
    todo = [(0, len(old), 0, len(new))]
    while todo:
        a, a_end, b, b_end = todo.pop()
        first = a
        while (
            a + _MANY <= a_end and b + _MANY <= b_end and (old[a : a + _MANY] == new[b : b + _MANY])
        ):  # not line by line
            a, b = a + _MANY, b + _MANY
        while a < a_end and b < b_end and old[a] == new[b]:
            a, b = a + 1, b + 1
        if a > first:
            found.append((first, b - (a - first), a - first))
        last = a_end
        while a < a_end and b < b_end and old[a_end - 1] == new[b_end - 1]:
            a_end, b_end = a_end - 1, b_end - 1
        if last > a_end:
            found.append((a_end, b_end, last - a_end))
        if a == a_end or b == b_end:
            continue
        anchors = _anchors(old, a, a_end, new, b, b_end)
        if not anchors:
            rest = SequenceMatcher(None, old[a:a_end], new[b:b_end]).get_matching_blocks()
            found += [(a + i, b + j, n) for i, j, n in rest if n]
            continue
        for i, j in [*anchors, (a_end, b_end)]:
            todo.append((a, i, b, j))
            a, b = i, j  # an anchor is the first line of what follows it
    joined: list[tuple[int, int, int]] = []
    for i, j, n in sorted(found):
        if joined and (joined[-1][0] + joined[-1][2], joined[-1][1] + joined[-1][2]) == (i, j):
            before = joined.pop()
            i, j, n = before[0], before[1], before[2] + n
        joined.append((i, j, n))
    return joined


def _anchors(
    old: Sequence[str], a: int, a_end: int, new: Sequence[str], b: int, b_end: int
) -> list[tuple[int, int]]:
    """The lines that stand once in both ranges, as many as have the same order in both."""
    once: dict[str, int] = {}  # -1 for more than once
    for at in range(b, b_end):
        once[new[at]] = -1 if new[at] in once else at
    seen: dict[str, int] = {}
    for at in range(a, a_end):
        seen[old[at]] = -1 if old[at] in seen else at
    pairs = [(at, once[t]) for t, at in seen.items() if at >= 0 and once.get(t, -1) >= 0]
    # The longest row whose second numbers rise: the least end of each length, and who came before.
    ends: list[int] = []
    at_end: list[int] = []
    before: list[int] = []
    for index, (_, j) in enumerate(pairs):
        length = bisect_left(ends, j)
        before.append(at_end[length - 1] if length else -1)
        if length == len(ends):
            ends.append(j)
            at_end.append(index)
        else:
            ends[length], at_end[length] = j, index
    row = []
    at = at_end[-1] if at_end else -1
    while at >= 0:
        row.append(pairs[at])
        at = before[at]
    return row[::-1]
