"""What changed between two texts, line by line: `+`, `-`, and a little around; and how it looks.

Patience diff: lines that occur once in both texts are matched first (their longest common
subsequence), and what lies between them is compared the same way, the small rest with difflib.
That keeps blocks together, and thousands of lines take milliseconds.  `+` and `-` say it all;
colours only repeat it, in pairs that are readable on any page.  A module is compared in parts: each
function, and the rest.  Start from `diff` and `parts`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby

from jitkernel.ir.module import functions
from jitkernel.ir.names import written
from jitkernel.views.view import View, escape, fold, preformatted

__all__ = [
    "REST", "clip", "counts", "diff", "difference", "difference_view", "optnone", "parts",
    "shown_unit",
]  # fmt: skip

_SMALL = 200  # lines that difflib compares directly
# A tint of the page itself, whose ink stays: over 9:1 on a white page and on a black one.
_TINTS = {"+": "rgba(46,160,67,0.25)", "-": "rgba(218,54,51,0.25)"}
#: The key of everything that is in no function.
REST = ""

_ATTRIBUTES = re.compile(r"^attributes #(\d+) = \{[^}\n]*\boptnone\b", re.M)
_LOOP = re.compile(r"loop (%.+?) in function (.+)")


def diff(old: str, new: str, around: int = 2) -> list[str]:
    """Lines marked `+`, `-` or blank; `@@ line 12` heads each part of the new text."""
    a, b = old.splitlines(), new.splitlines()
    rows: list[tuple[str, str, int]] = []  # mark, text, line of the new text
    i = j = 0
    for x, y in [*_matches(a, b, 0, len(a), 0, len(b)), (len(a), len(b))]:
        rows += [("-", line, j + 1) for line in a[i:x]]
        rows += [("+", line, n + 1) for n, line in enumerate(b[j:y], j)]
        if x < len(a):
            rows.append((" ", a[x], y + 1))
        i, j = x + 1, y + 1
    near = {
        near
        for index, (mark, _, _) in enumerate(rows) if mark != " "
        for near in range(index - around, index + around + 1)
    }  # fmt: skip
    lines: list[str] = []
    for index, (mark, text, line) in enumerate(rows):
        if index in near:
            if index - 1 not in near or not index:
                lines.append(f"@@ line {line}")
            lines.append(f"{mark} {text}".rstrip())
    return lines


def counts(lines: Sequence[str]) -> tuple[int, int]:
    """The number of lines that a diff takes away, and of those that it adds."""
    return (
        sum(line.startswith("-") for line in lines),
        sum(line.startswith("+") for line in lines),
    )


def _matches(
    a: Sequence[str], b: Sequence[str], a0: int, a1: int, b0: int, b1: int
) -> Iterator[tuple[int, int]]:
    """Pairs of equal lines, both sides rising, in the given ranges."""
    while a0 < a1 and b0 < b1 and a[a0] == b[b0]:
        yield a0, b0
        a0, b0 = a0 + 1, b0 + 1
    tail = []
    while a0 < a1 and b0 < b1 and a[a1 - 1] == b[b1 - 1]:
        a1, b1 = a1 - 1, b1 - 1
        tail.append((a1, b1))
    if a0 < a1 and b0 < b1:
        anchors = _anchors(a, b, a0, a1, b0, b1)
        if anchors:
            i, j = a0, b0
            for x, y in [*anchors, (a1, b1)]:
                yield from _matches(a, b, i, x, j, y)
                if x < a1:
                    yield x, y
                i, j = x + 1, y + 1
        elif max(a1 - a0, b1 - b0) <= _SMALL:
            matcher = SequenceMatcher(None, a[a0:a1], b[b0:b1], autojunk=False)
            for block in matcher.get_matching_blocks():
                for n in range(block.size):
                    yield a0 + block.a + n, b0 + block.b + n
    yield from reversed(tail)


def _anchors(
    a: Sequence[str], b: Sequence[str], a0: int, a1: int, b0: int, b1: int
) -> list[tuple[int, int]]:
    """Lines that occur once on each side, the longest rising sequence of them."""
    count_a, count_b = Counter(a[a0:a1]), Counter(b[b0:b1])
    where = {b[j]: j for j in range(b0, b1) if count_b[b[j]] == 1}
    pairs = [(i, where[a[i]]) for i in range(a0, a1) if count_a[a[i]] == 1 and a[i] in where]
    # Longest increasing subsequence of the second members (patience sorting).
    tops: list[int] = []
    last: list[int] = []
    back: list[int] = []
    for index, (_, j) in enumerate(pairs):
        pile = bisect_left(tops, j)
        tops[pile : pile + 1] = [j]
        last[pile : pile + 1] = [index]
        back.append(last[pile - 1] if pile else -1)
    chain: list[tuple[int, int]] = []
    index = last[-1] if last else -1
    while index >= 0:
        chain.append(pairs[index])
        index = back[index]
    return chain[::-1]


def clip(lines: Sequence[str], limit: int, more: str) -> list[str]:
    """At most `limit` lines, and how many are left out; `more` says how to see them."""
    if len(lines) <= limit:
        return list(lines)
    return [*lines[:limit], f"… {len(lines) - limit} more lines{more}"]


def difference_view(lines: Sequence[str], limit: int = 1 << 30, more: str = "") -> View:
    """At most `limit` lines of a diff; `more` says how to see the others."""
    lines, out = clip(lines, limit, more), []
    for mark, group in groupby(lines, lambda line: line[:1]):
        text = "".join(f"{escape(line, quote=False)}\n" for line in group)
        if mark in _TINTS:
            # Whole lines as a block: the background of a line within a line covers what hangs below
            # the line above it, such as underscores.
            style = f"display:block;color:inherit;background:{_TINTS[mark]}"
            text = f'<span style="{style}">{text}</span>'
        out.append(text)
    return View(fold(lines), preformatted("".join(out).removesuffix("\n")))


def parts(text: str) -> dict[str, str]:
    """The functions' texts by name as written (`@sq`), in order, and the `REST` without them."""
    found: dict[str, str] = {}
    rest: list[str] = []
    at = 0
    for function in functions(text, "define"):
        before = text[at : function.start]
        # LLVM's comment on the attributes goes with it.
        above, newline, comment = before.rstrip(" \t\n").rpartition("\n")
        if comment.startswith("; Function Attrs:"):
            before = above + newline
        rest.append(before)
        found[written(function.name)] = text[at + len(before) : function.end]
        at = function.end
    rest.append(text[at:])
    kept = [line for line in "".join(rest).splitlines() if line.strip()]
    found[REST] = "\n".join(line for line in kept if not line.startswith("; ModuleID"))
    return found


def difference(before: dict[str, str], after: dict[str, str], only: str = "") -> list[str]:
    """The diff of what changed, a line with its name above each part where there are several.

    `only` is the name of one function, as written.
    """
    names = [only] if only else [*before, *(name for name in after if name not in before)]
    changed = [n for n in names if before.get(n, "") != after.get(n, "")]
    lines: list[str] = []
    for name in changed:
        if len(names) > 2 and name != only:
            lines.append(f"@@ {name}" if name else "@@ outside functions")
        lines += diff(before.get(name, ""), after.get(name, ""))
    return lines


def optnone(module: str) -> list[str]:
    """The functions of a printed module that no pass may touch, as written."""
    groups = set(_ATTRIBUTES.findall(module))
    found = []
    for function in functions(module, "define"):
        head = module[function.value : function.body()[0]]
        if groups.intersection(re.findall(r"#(\d+)", head)) or re.search(r"\boptnone\b", head):
            found.append(written(function.name))
    return found


def shown_unit(unit: str) -> str:
    """The unit that a pass ran on, as IR writes names: `@sum`, `loop %body of @sum`, `module`."""
    if unit == "[module]":
        return "module"
    if match := _LOOP.fullmatch(unit):
        label = "" if match[1] == "%<unnamed loop>" else f" {match[1]}"  # %4: only its number
        return f"loop{label} of {written(match[2])}"
    if unit.startswith("(") and unit.endswith(")"):
        return ", ".join(written(name) for name in unit[1:-1].split(", "))
    return written(unit)
