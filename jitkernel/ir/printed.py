"""Modules as LLVM prints them, compared: their functions, and their lines without what changes with
every pass, whatever the pass did.

LLVM's printer puts each instruction in a line of its own, two blanks in front, and labels, heads
and the last brace in the first column; so lines are all that is read here.  Start from `parts`,
`quiet` and `Steady`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import count, pairwise
from typing import NamedTuple

from jitkernel.ir.module import functions
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
_CALL = regex(r"(?:\n  | = )(?:(?:tail|musttail|notail) )?call [^\n]*")
# What a block ends with: there are as many as blocks.
_ENDS_WITH_VALUE = ("invoke ", "callbr ", "catchswitch ")
_ENDS = (
    "br ", "ret ", "switch ", "unreachable", "indirectbr ", "resume ", "cleanupret ", "catchret ",
    *_ENDS_WITH_VALUE,
)  # fmt: skip
_MANY = 64  # lines that are compared at once
_LONG = 500  # lines of a text whose paragraphs are compared first


def parts(text: str, typed: bool = False) -> dict[str, str]:
    """The functions that are defined, by name as written (`@sq`), in order, and the `REST` of the
    lines, without LLVM's comments and the declarations of its own functions.

    `typed`: of a text that somebody has written, whose functions may begin and end within lines;
    nothing is left out of it.
    """
    found: dict[str, str] = {}
    rest: list[str] = []
    at = 0
    for name, start, end in _typed(text) if typed else _printed(text):
        rest.append(text[at:start])
        found[written(name)] = text[start:end]
        at = end
    rest.append(text[at:])
    lines = (line for piece in rest for line in piece.split("\n"))
    found[REST] = "\n".join(
        line for line in lines if line.strip() and (typed or not _OF_LLVM.match(line))
    )
    return found


def _printed(text: str) -> Iterator[tuple[str, int, int]]:
    at = 0
    while head := _HEAD.search(text, at):
        at = text.find("\n}", head.end())
        at = len(text) if at < 0 else at + 2
        yield symbol_name(head["name"]), head.start(), at


def _typed(text: str) -> Iterator[tuple[str, int, int]]:
    return ((found.name, found.start, found.end) for found in functions(text, "define"))


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
    calls += sum("@llvm." not in call for call in _CALL.findall(text))
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
            blocks = matching(self.lines, lines, blocks)
        self._masked, self._defined, self.lines = masked, own, lines
        return blocks


def matching(
    old: Sequence[str], new: Sequence[str], likely: Sequence[tuple[int, int, int]] = ()
) -> list[tuple[int, int, int]]:
    """The blocks of equal lines of two texts: where each begins in both, and its lines.

    Lines that stand once in both are matched first, as many as keep their order, and then what is
    between them (Cohen's patience diff): nearly linear, as lines of IR define names.  Of blocks
    that are `likely` only what is not equal is looked for elsewhere.
    """
    found: list[tuple[int, int, int]] = []
    todo: list[tuple[int, int, int, int]] = []

    def between(rows: Sequence[tuple[int, int, int]], *edges: int) -> None:
        """Take rows of equal lines, and leave for later what is between them."""
        a, a_end, b, b_end = edges
        for i, j, n in [*rows, (a_end, b_end, 0)]:
            if i > a and j > b:
                todo.append((a, i, b, j))
            if n:
                found.append((i, j, n))
            a, b = i + n, j + n

    likely = likely or _paragraphs(old, new)
    between([*_equal(old, new, likely)], 0, len(old), 0, len(new))
    while todo:
        a, a_end, b, b_end = todo.pop()
        if first := _alike(old, new, a, b, min(a_end - a, b_end - b)):
            found.append((a, b, first))
            a, b = a + first, b + first
        end = a_end
        while a < a_end and b < b_end and old[a_end - 1] == new[b_end - 1]:
            a_end, b_end = a_end - 1, b_end - 1
        if end > a_end:
            found.append((a_end, b_end, end - a_end))
        if a == a_end or b == b_end:
            continue
        if rows := _anchors(old, a, a_end, new, b, b_end):
            between(rows, a, a_end, b, b_end)
        else:
            rest = SequenceMatcher(None, old[a:a_end], new[b:b_end]).get_matching_blocks()
            found += [(a + i, b + j, n) for i, j, n in rest if n]
    return _joined(sorted(found))


def _joined(found: Iterable[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Rows of equal lines, those as one that follow each other in both texts."""
    joined: list[tuple[int, int, int]] = []
    for i, j, n in found:
        if joined and (joined[-1][0] + joined[-1][2], joined[-1][1] + joined[-1][2]) == (i, j):
            before = joined.pop()
            i, j, n = before[0], before[1], before[2] + n
        joined.append((i, j, n))
    return joined


def _alike(old: Sequence[str], new: Sequence[str], a: int, b: int, most: int) -> int:
    """The number of lines, at most so many, that are equal from there on."""
    n = 0
    while n + _MANY <= most and old[a + n : a + n + _MANY] == new[b + n : b + n + _MANY]:
        n += _MANY  # not line by line
    while n < most and old[a + n] == new[b + n]:
        n += 1
    return n


def _equal(
    old: Sequence[str], new: Sequence[str], likely: Sequence[tuple[int, int, int]]
) -> Iterator[tuple[int, int, int]]:
    """The equal lines of blocks that may be so."""
    for i, j, size in likely:
        at = 0
        while at < size:
            if n := _alike(old, new, i + at, j + at, size - at):
                yield i + at, j + at, n
            at += n + 1


def _paragraphs(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int, int]]:
    """Rows of the lines of paragraphs that stand once in both: LLVM puts a blank line between
    blocks."""
    if min(len(old), len(new)) < _LONG:
        return []
    starts, texts = zip(*map(_cut, (old, new)), strict=True)
    rows = _anchors(texts[0], 0, len(texts[0]), texts[1], 0, len(texts[1]))
    return [
        (starts[0][i], starts[1][j], starts[0][i + n] - 1 - starts[0][i]) for i, j, n in rows
    ]  # fmt: skip


def _cut(lines: Sequence[str]) -> tuple[list[int], list[str]]:
    """The starts of paragraphs, with that of one behind the last; and their texts."""
    starts = [0, *(at + 1 for at, line in enumerate(lines) if not line), len(lines) + 1]
    return starts, ["\n".join(lines[a : b - 1]) for a, b in pairwise(starts)]


def _anchors(
    old: Sequence[str], a: int, a_end: int, new: Sequence[str], b: int, b_end: int
) -> list[tuple[int, int, int]]:
    """Rows of the lines that stand once in both ranges, as many as have the same order in both."""
    left, right = old[a:a_end], new[b:b_end]
    times, others = Counter(left), Counter(right)
    place = dict(zip(right, range(b, b_end), strict=True))
    pairs = [(at, place[t]) for at, t in enumerate(left, a) if times[t] == 1 and others.get(t) == 1]
    # The longest row whose second numbers rise: the least end of each length, and who came before.
    ends: list[int] = []
    at_end: list[int] = []
    before: list[int] = []
    for index, (_, j) in enumerate(pairs):
        length = len(ends) if not ends or j > ends[-1] else bisect_left(ends, j)
        before.append(at_end[length - 1] if length else -1)
        if length == len(ends):
            ends.append(j)
            at_end.append(index)
        else:
            ends[length], at_end[length] = j, index
    row = []
    at = at_end[-1] if at_end else -1
    while at >= 0:
        row.append((*pairs[at], 1))
        at = before[at]
    return _joined(row[::-1])
