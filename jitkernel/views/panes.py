"""Source and code side by side: what belongs together has one number and one colour.  Start from
`beside`.

Colours stand on the elements, because that is what untrusted notebooks keep; where the notebook is
trusted, a style sheet marks the partners of what the mouse is on.  An element is a run of lines
with one line of source, not a line: that is half the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from jitkernel.session.report.sources import Place
from jitkernel.views.lines import Line
from jitkernel.views.room import Room, size_of
from jitkernel.views.svg import INK, PAPER
from jitkernel.views.view import KEYS, View, fold, inner, prose

_OF_NONE = "-"  # what is of no line
_TALL = 40  # em, of a pane before it scrolls
# Lines of columns whose names are all one width.  Of more, a tab follows them: a byte for each of
# the many that have no name.  Its size is not kept in untrusted notebooks: eight columns there.
_SHORT = 400
RUN = 80  # bytes of a run's element, and of the rule that marks it
_BAR = "│"  # of a loop
_TAGS = "abcdefghijklmnopqrstuvwxyz"
_HUE = 137.508  # degrees: the golden angle, by which neighbours differ most


@dataclass(frozen=True, slots=True)
class Pane:
    """A column: its title and its lines, in cells that begin beside those of the same number in the
    other columns of its group.  `share` is its width beside theirs."""

    title: str
    cells: Sequence[Sequence[Line]]
    share: int = 1

    @property
    def lines(self) -> list[Line]:
        """The lines of all cells."""
        return [line for cell in self.cells for line in cell]


class Keys:
    """Numbers, names and colours of lines of source, in the order in which they are met.

    Numbers of another text than that of the `cell` begin with a letter, one for each text."""

    def __init__(self, cell: int, file: str = ""):
        self._own = (cell, file)
        self._tags: dict[tuple[int, str], str] = {}
        self._numbers: dict[tuple[int, str, int], int] = {}

    def tag(self, place: Place) -> str:
        """The letter of a place's text, "" for the one that is looked at."""
        text = place.cell, place.file
        if text == self._own:
            return ""
        if text not in self._tags:
            number = len(self._tags)
            self._tags[text] = _TAGS[number % 26] * (1 + number // 26)
        return self._tags[text]

    def name(self, place: Place) -> str:
        """The words before a run: `12`, or `a12` of the first other text."""
        return f"{self.tag(place)}{place.line}"

    def number(self, place: Place) -> int:
        """The number of a place, of all that were met."""
        return self._numbers.setdefault(place[:3], len(self._numbers))

    def __len__(self) -> int:
        return len(self._numbers)


def colour(number: int) -> str:
    """A light background; ink on it has a contrast of 9 or more."""
    hue, lightness, chroma = number * _HUE % 360, 0.8, 0.26

    def channel(n: int) -> int:  # CSS Color 4, 7.1: HSL to RGB
        k = (n + hue / 30) % 12
        return round(255 * (lightness - chroma / 2 * max(-1, min(k - 3, 9 - k, 1))))

    return f"#{channel(0):02x}{channel(8):02x}{channel(4):02x}"


def beside(title: str, groups: Sequence[Sequence[Pane]], keys: Keys, note: str = "") -> View:
    """Panes, in groups that scroll each, beside each other where there is room.

    As text: one below the other, without the numbers of what is in no line.
    """
    texts = [title]
    for group in groups:
        for pane in group:
            texts += ["", pane.title, fold(_plain(pane, keys))]
    html = f"<p><b>{prose(title)}</b></p>{linked_html(groups, keys)}"
    if note:
        texts += ["", fold([note], 4)]
        html += f"<p>{prose(note)}</p>"
    return View("\n".join(texts), html)


def linked_html(groups: Sequence[Sequence[Pane]], keys: Keys) -> str:
    """HTML of panes beside each other; those of one group scroll together."""
    columns = "".join(
        f'<div style="flex:{len(group)} 1 {22 * len(group)}em;min-width:0">'
        f"<p><b>{prose(' | '.join(pane.title for pane in group))}</b></p>"
        f'<pre {KEYS} style="{_FRAME}">{_group(group, keys)}</pre></div>'
        for group in groups
    )
    return (
        f"<style>{_rules(len(keys))}</style>"
        f'<div class="jkp" {_COPIED} style="display:flex;flex-wrap:wrap;gap:8px">{columns}</div>'
    )


# What is copied is the code: without the numbers before its lines, and the bars of loops.
_COPIED = (
    "oncopy=\"event.clipboardData.setData('text/plain',"
    "(''+getSelection()).replace(/^([a-z]*\\d+|-)? *[\\t\\xa0]│*/gm,''));event.preventDefault()\""
)
_CARD = f"background:{PAPER};color:{INK}"
_FRAME = f"margin:0;font-size:.86em;max-height:{_TALL}em;overflow:auto;padding:4px;{_CARD}"
# Lines of columns are broken rather than cut: what belongs together stays side by side.
_BROKEN = "display:grid;gap:0 1em;white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere"


def _group(group: Sequence[Pane], keys: Keys) -> str:
    """Columns of cells, or the lines of the one that there is."""
    if len(group) == 1:
        runs = _runs(group[0].lines, keys)
        # A block: else the page's font says how wide tabs and how high lines are.
        return f'<code style="display:block;white-space:pre;{_CARD}">{runs}</code>'
    shares = " ".join(f"minmax(0,{pane.share}fr)" for pane in group)
    width = max(_width(pane.lines, keys) for pane in group)
    gutter = width if sum(len(pane.lines) for pane in group) <= _SHORT else 0
    cells = (
        f"<div>{_runs(lines, keys, gutter)}</div>"
        for row in zip(*(pane.cells for pane in group), strict=True)
        for lines in row
    )
    style = f"{_BROKEN};tab-size:{width + 1};grid-template-columns:{shares};{_CARD}"
    return f'<code style="{style}">{"".join(cells)}</code>'


def fitting(cells: Sequence[Sequence[Line]], room: Room) -> list[list[Line]]:
    """The cells of a pane, as far as there is room."""
    found = []
    for lines in cells:
        sizes = (
            size_of(line.html or inner(line.text)) + RUN * (line.place not in (None, before))
            for line, before in zip(lines, (None, *(one.place for one in lines)), strict=False)
        )
        found.append(list(lines[: room.take(sizes)]))
    return found


def _rules(count: int) -> str:
    """Rules of a style sheet that mark partners: a style is all that has to be trusted."""
    marked = ",".join(f"&:has(.k{n}:hover) .k{n}" for n in range(count))
    return f".jkp{{{marked}{{outline:2px solid {INK}}}}}" if marked else ""


def _names(lines: Sequence[Line], keys: Keys) -> list[str]:
    """The word before each line: its number where that is not the last one's, a dash before the
    first of those that are of no line.  A label is before them all again."""
    names: list[str] = []
    before: Place | str | None = ""
    for line in lines:
        is_label = line.place is None and not line.text.startswith(" ")
        name = keys.name(line.place) if line.place else _OF_NONE
        names.append(line.number or (name if line.place != before and not is_label else ""))
        before = "" if is_label else line.place
    return names


def _width(lines: Sequence[Line], keys: Keys) -> int:
    return max(map(len, _names(lines, keys)), default=0)


def _plain(pane: Pane, keys: Keys) -> list[str]:
    width, names = _width(pane.lines, keys), _names(pane.lines, keys)
    return [
        f"{name:>{width}} {_BAR * line.depth}{line.text}".rstrip()
        for name, line in zip(names, pane.lines, strict=True)
    ]


def _joined(lines: Sequence[Line]) -> Iterator[Line]:
    """The lines; a label between two of one place is of that, so that they are one run."""
    for before, line, after in zip((None, *lines), lines, (*lines[1:], None), strict=False):
        same = before is not None and after is not None and before.place == after.place
        is_label = line.place is None and not line.text.startswith(" ")
        yield line._replace(place=before.place) if before and same and is_label else line


def _runs(lines: Sequence[Line], keys: Keys, width: int = 0) -> str:
    """Each line behind its name, and bars of loops.  Names are `width` columns wide, with a blank
    behind that no code has; of 0, a tab follows them, so that tabs of C stand where they do in its
    file."""
    rows = zip(_names(lines, keys), _joined(lines), strict=True)
    gap = "\N{NO-BREAK SPACE}" if width else "\t"
    parts = []
    for place, run in groupby(rows, key=lambda row: row[1].place):
        body = "\n".join(
            f"{name:<{width}}{gap}{_BAR * line.depth}{line.html or inner(line.text)}"
            for name, line in run
        )
        parts.append(f"{body}\n" if place is None else _coloured(f"{body}\n", keys.number(place)))
    return "".join(parts)


def _coloured(html: str, number: int) -> str:
    """A run of lines in the colour of a place.  A block, that no line hides the underscores of the
    one above; its last end of line is then none.  Attributes without quotes, and the ink of what
    is around: there are hundreds."""
    return f"<div class=k{number} style=background:{colour(number)}>{html}</div>"
