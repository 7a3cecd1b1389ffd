"""Two texts side by side, with the words marked that differ; and one under the other, as text.

`-` and `+` say which lines went and came; colours and marked words only repeat it.  Start from
`Piece` and `sides`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby

from jitkernel.ir.printed import matching
from jitkernel.regex import regex
from jitkernel.views.room import Room, size_of
from jitkernel.views.view import View, fold, inner, preformatted

#: A tint of the page itself, whose ink stays: over 9:1 on a white page and on a black one.
TINTS = {"+": "rgba(46,160,67,0.25)", "-": "rgba(218,54,51,0.25)"}
_WORD = regex(r"[%@#!]?[\w.$-]+|\s+|.")
_KEY = regex(r"\s*(?:(%[^\s=]+) =|([\w.$-]+))")
_FEW = 3  # words that differ as a whole
_LONGEST = 400  # letters of a line whose words are compared
_MARKED = 40  # bytes of what marks words of a line
_AROUND = 2  # lines that are shown before and after what changed


@dataclass(frozen=True, slots=True)
class Row:
    """A line of both texts, None where one has none there; `same` where they are equal."""

    old: str | None
    new: str | None
    same: bool


@dataclass(frozen=True)
class Piece:
    """A part of a module that changed: its name (`@sq`; "" for what is in no function), its
    lines before and after, none where it was not there, and the blocks of lines that both have, as
    `matching` gives them."""

    name: str
    old: Sequence[str]
    new: Sequence[str]
    blocks: Sequence[tuple[int, int, int]]

    @property
    def counts(self) -> tuple[int, int]:
        """The number of lines that went, and of those that came."""
        same = sum(n for _, _, n in self.blocks)
        return len(self.old) - same, len(self.new) - same

    def changed(self) -> tuple[str, str]:
        """The lines that went, and those that came."""
        gone: list[str] = []
        came: list[str] = []
        at_old = at_new = 0
        for a, b, n in [*self.blocks, (len(self.old), len(self.new), 0)]:
            gone += self.old[at_old:a]
            came += self.new[at_new:b]
            at_old, at_new = a + n, b + n
        return "\n".join(["", *gone]), "\n".join(["", *came])

    def hunks(self) -> Iterator[tuple[int, list[Row]]]:
        """Each stretch of changes with a little around it: its first line's number in the new
        text, and its rows."""
        rows: list[Row] = []
        at_old = at_new = 0
        begin = 1
        for a, b, n in [*self.blocks, (len(self.old), len(self.new), 0)]:
            rows += _paired(self.old[at_old:a], self.new[at_new:b])
            equal = self.new[b : b + n]
            changed = any(not row.same for row in rows)
            is_last = a + n == len(self.old) and b + n == len(self.new)
            if changed and n <= 2 * _AROUND and not is_last:
                rows += [Row(t, t, True) for t in equal]
            else:
                if changed:
                    rows += [Row(t, t, True) for t in equal[:_AROUND]]
                    yield begin, rows
                kept = equal[max(n - _AROUND, 0) :]
                rows, begin = [Row(t, t, True) for t in kept], b + n - len(kept) + 1
            at_old, at_new = a + n, b + n


def _paired(old: Sequence[str], new: Sequence[str]) -> list[Row]:
    """Rows of lines that differ: those that define the same name stand side by side, and what is
    between them from the top."""
    rows: list[Row] = []
    at_old = at_new = 0
    pairs = [
        (a + k, b + k)
        for a, b, n in matching([*map(_key, old)], [*map(_key, new)])
        for k in range(n)
    ]
    for a, b in [*pairs, (len(old), len(new))]:
        left, right = old[at_old:a], new[at_new:b]
        both = min(len(left), len(right))
        rows += [Row(x, y, False) for x, y in zip(left, right, strict=False)]
        rows += [Row(x, None, False) for x in left[both:]]
        rows += [Row(None, y, False) for y in right[both:]]
        if a < len(old):
            rows.append(Row(old[a], new[b], old[a] == new[b]))
        at_old, at_new = a + 1, b + 1
    return rows


def _key(line: str) -> str:
    match = _KEY.match(line)
    return (match[1] or match[2]) if match else line


def sides(pieces: Sequence[Piece], room: Room) -> View:
    """The change of some parts, as far as there is room."""
    texts: list[str] = []
    left: list[tuple[str, str]] = []  # a mark and the HTML of a line
    right: list[tuple[str, str]] = []
    out = sum(map(sum, (piece.counts for piece in pieces)))
    for piece in pieces:
        if room.full:
            break
        if len(pieces) > 1:
            head = f"@@ {piece.name or 'outside functions'}"
            if not room.take([2 * size_of(inner(head))]):
                break
            texts.append(head)
            left.append(("@", inner(head)))
            right.append(("@", inner(head)))
        for at, rows in piece.hunks():
            shown = rows[: room.take(_size(row) for row in rows)]
            if not shown:
                break
            texts += [f"@@ line {at}", *_unified(shown)]
            left.append(("@", f"@@ line {at}"))
            right.append(("@", ""))
            for row in shown:
                a, b = _marked(row)
                left.append(a)
                right.append(b)
            out -= sum((r.old is not None) + (r.new is not None) for r in shown if not r.same)
    for said in room.said(out):
        texts.append(said)
        first, _, rest = said.partition("; ")
        left.append(("@", first))
        right.append(("@", inner(rest)))
    columns = "".join(map(_column, (left, right)))
    html = f'<div style="{_GRID}">{columns}</div>'
    return View(fold(texts), html)


_GRID = "display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr);gap:1em"


def _unified(rows: Sequence[Row]) -> Iterator[str]:
    for same, group in groupby(rows, lambda row: row.same):
        found = list(group)
        if same:
            yield from (f"  {row.new}".rstrip() for row in found)
        else:
            yield from (f"- {row.old}".rstrip() for row in found if row.old is not None)
            yield from (f"+ {row.new}".rstrip() for row in found if row.new is not None)


def _marked(row: Row) -> tuple[tuple[str, str], tuple[str, str]]:
    """Both sides of a row, each with its mark; words that differ are in a `mark`."""
    old, new = row.old, row.new
    if row.same:
        line = " ", f"  {inner(new or '')}"
        return line, line
    if old is None or new is None or max(len(old), len(new)) > _LONGEST:
        gone = ("-", f"- {inner(old)}") if old is not None else ("@", "")
        came = ("+", f"+ {inner(new)}") if new is not None else ("@", "")
        return gone, came
    a, b = _WORD.findall(old), _WORD.findall(new)
    left, right = ["- "], ["+ "]
    for tag, i, j, k, m in _changes(a, b):
        for side, words in ((left, a[i:j]), (right, b[k:m])):
            text = inner("".join(words))
            side.append(f"<mark>{text}</mark>" if tag != "equal" and text.strip() else text)
    return ("-", "".join(left)), ("+", "".join(right))


def _changes(a: Sequence[str], b: Sequence[str]) -> list[tuple[str, int, int, int, int]]:
    """The words that differ, as `SequenceMatcher.get_opcodes` tells it."""
    first, least = 0, min(len(a), len(b))
    while first < least and a[first] == b[first]:
        first += 1
    last = 0
    while last < least - first and a[-1 - last] == b[-1 - last]:
        last += 1
    i, j = len(a) - last, len(b) - last
    if max(i, j) - first <= _FEW:
        middle = [("replace", first, i, first, j)]
    else:
        found = SequenceMatcher(None, a[first:i], b[first:j], autojunk=False).get_opcodes()
        middle = [(tag, *(first + n for n in at)) for tag, *at in found]  # type: ignore[misc]
    return [
        ("equal", 0, first, 0, first), *middle, ("equal", i, len(a), j, len(b))
    ]  # fmt: skip


def _size(row: Row) -> int:
    """About what a row takes."""
    words = 0 if row.same else _MARKED
    return words + sum(size_of(inner(line or "")) + 3 for line in (row.old, row.new))


def _column(lines: Sequence[tuple[str, str]]) -> str:
    out = []
    for mark, group in groupby(lines, lambda line: line[0]):
        text = "".join(f"{line or ' '}\n" for _, line in group)
        if mark in TINTS:
            # Whole lines as a block: the background of a line within a line covers what hangs below
            # the line above it, such as underscores.
            style = f"display:block;color:inherit;background:{TINTS[mark]}"
            text = f'<span style="{style}">{text}</span>'
        out.append(text)
    return preformatted("".join(out).removesuffix("\n"))
