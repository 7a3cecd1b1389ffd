"""What changed between two texts, line by line: `+`, `-`, and a little around.  Start from `diff`.

Patience diff: lines that occur once in both texts are matched first (their longest common
subsequence), and what lies between them is compared the same way, the small rest with difflib.
That keeps blocks together, and thousands of lines take milliseconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

__all__ = ["counts", "diff"]

_SMALL = 200  # lines that difflib compares directly


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
    near = [False] * len(rows)
    for index, (mark, _, _) in enumerate(rows):
        if mark != " ":
            for n in range(max(0, index - around), min(len(rows), index + around + 1)):
                near[n] = True
    lines: list[str] = []
    before = False
    for keep, (mark, text, line) in zip(near, rows, strict=True):
        if keep and not before:
            lines.append(f"@@ line {line}")
        if keep:
            lines.append(f"{mark} {text}".rstrip())
        before = keep
    return lines


def counts(lines: Sequence[str]) -> tuple[int, int]:
    """How many lines a diff takes away and how many it adds."""
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
