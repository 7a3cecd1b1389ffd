"""`View`: what a display is made of, and the few shapes (table, listing) that all views share.

A view is complete in plain text and in HTML without any styling, because notebooks are read
untrusted and on sites that strip CSS.  Not a template engine: plain functions that return text.
Start from `View` and `table`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from jitkernel.printable import printable
from jitkernel.regex import regex
from jitkernel.views.room import LARGEST, Room, size_of

WIDTH = 100  # columns of a plain-text view
#: Of what scrolls, that keys move it too: JupyterLab has arrows for itself but where it is told so.
KEYS = 'tabindex="0" data-lm-suppress-shortcuts="true"'


@dataclass(frozen=True, slots=True)
class View:
    """One display: `text` for any client, `html` for notebooks."""

    text: str
    html: str = ""

    def __post_init__(self) -> None:
        # Here, for all displays: whatever they show may have any character in its name.
        object.__setattr__(self, "text", printable(self.text))
        object.__setattr__(self, "html", printable(self.html))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        bundle = {"text/plain": self.text}
        if self.html:
            bundle["text/html"] = self.html
        return bundle

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__  # what a prompt of Python's shows, and pdb


def table(
    caption: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    note: str = "",
    room: Room | None = None,
) -> View:
    """A table, as far as there is `room`.  A column whose name starts with `#` holds numbers (the
    `#` is not shown)."""
    right = [name.startswith("#") for name in columns]
    names = [name.removeprefix("#") for name in columns]
    cells = [["" if value is None else str(value) for value in row] for row in rows]
    # JupyterLab puts every cell to the right where it is told nothing, GitHub to the left, and
    # GitHub knows only the old attributes.
    sides = [_RIGHT if r else ' style="text-align:left"' for r in right]
    room = room or Room()
    html = [_row_html(row, sides) for row in cells]
    shown = room.take(map(size_of, html))
    note = "\n".join(filter(None, (note, *room.said(len(cells) - shown, "row"))))
    cells, html = cells[:shown], html[:shown]
    plain = [[value.replace("\n", " ") for value in row] for row in (names, *cells)]
    widths = _widths(plain)
    lines = [caption] if caption else []
    for row in plain:
        fitted = [
            f"{shorten(value, width):{'>' if is_right else '<'}{width}}"
            for value, width, is_right in zip(row, widths, right, strict=True)
        ]
        lines.append("  ".join(fitted).rstrip())
    for sentence in note.splitlines():
        lines += textwrap.wrap(sentence, WIDTH) or [""]
    return View("\n".join(lines), _table_html(caption, names, sides, html, note))


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Letters of each column.  What is too wide is taken from the widest one, which is a type or a
    piece of source."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    while sum(widths) + 2 * (len(widths) - 1) > WIDTH and max(widths) > 12:
        widest = widths.index(max(widths))
        excess = sum(widths) + 2 * (len(widths) - 1) - WIDTH
        second = max((w for i, w in enumerate(widths) if i != widest), default=12)
        widths[widest] -= min(excess, max(1, widths[widest] - max(second, 12)))
    return widths


def _table_html(
    caption: str, names: list[str], sides: list[str], rows: list[str], note: str
) -> str:
    parts = ["<table>"]
    if caption:
        whole = ";white-space:nowrap" * (len(caption) <= _SHORT)  # not as narrow as the table
        parts.append(f'<caption style="text-align:left{whole}">{prose(caption)}</caption>')
    parts.append("<thead><tr>")
    parts += [_head("col", side, name) for name, side in zip(names, sides, strict=True)]
    parts += ["</tr></thead><tbody>", *rows, "</tbody></table>"]
    if note:
        parts.append(f"<p>{prose(note)}</p>")
    return "".join(parts)


def _row_html(row: Sequence[str], sides: Sequence[str]) -> str:
    values = zip(sides[1:], row[1:], strict=True)
    cells = (f"<td{side if value else ''}>{prose(value)}</td>" for side, value in values)
    return f"<tr>{_head('row', sides[0], row[0])}{''.join(cells)}</tr>"


def _head(scope: str, side: str, text: str) -> str:
    """A heading; where it has no words, a screen reader is told of none."""
    return f'<th scope="{scope}"{side}>{prose(text)}</th>' if text else "<td></td>"


_FRAME = 200  # bytes around a title and preformatted lines
_SHORT = 85  # letters that a narrow page has room for
_RIGHT = ' align="right" style="white-space:nowrap"'


def listing(title: str, body: str, room: Room | None = None) -> View:
    """A title and preformatted lines, as far as there is `room`; wide ones scroll inside their
    `pre`."""
    room = room or Room()
    room.take([size_of(prose(title)) + _FRAME])
    body = "\n".join(room.lines(body.split("\n")))
    return titled(title, View(body, preformatted(escape(body))))


def titled(title: str, view: View) -> View:
    """A view below a title, if there is one."""
    if not title:
        return view
    return View(f"{fold([title], 4)}\n{view.text}", f"<p><b>{prose(title)}</b></p>{view.html}")


def folding(title: str, view: View, is_open: bool = False) -> View:
    """A view that can be folded to its title; where a site drops that, it is simply there."""
    html = f"<details{' open' * is_open}><summary>{prose(title)}</summary>{view.html}</details>"
    return View(f"{fold([title], 4)}\n{view.text}", html)


def paragraph(text: str) -> View:
    """A sentence or two."""
    return View(fold(text.splitlines(), 4), f"<p>{prose(text)}</p>")


def fold(lines: Sequence[str], indent: int = 8) -> str:
    """The lines as plain text, long ones continued below themselves."""
    out: list[str] = []
    for line in lines:
        if len(line) <= WIDTH:
            out.append(line)
            continue
        words = line.lstrip()
        blank = " " * (len(line) - len(words))
        out += textwrap.wrap(
            words, WIDTH, initial_indent=blank, subsequent_indent=" " * max(indent, len(blank) + 4),
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
    return "\n".join(out)


def preformatted(html: str) -> str:
    """Preformatted lines, already escaped.  Of one width everywhere: `pre` alone is not, in output
    cells of JupyterLab and nbconvert.  Lines that are wider than the page scroll: JupyterLab would
    break them, in the middle of words."""
    frame, lines = "margin:0.5em 0;overflow:auto", "white-space:pre"
    return f'<pre {KEYS} style="{frame}"><code style="{lines}">{html}</code></pre>'


def inner(text: str) -> str:
    """HTML of preformatted text, as short as can be: arrows of C are as they are."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def prose(text: str) -> str:
    """HTML of text that is not preformatted.

    Two dollars make a formula of what is between them where a page has MathJax, as JupyterLab and
    nbconvert do: such words are code.  A name that is as long as C++ makes them may be broken.
    """
    html = escape(text)
    if "$" in text or "\\" in text:
        html = _FORMULA.sub(r"<code>\g<0></code>", html)
    if "[-" in text:
        html = _OPTION.sub(r'<span style="white-space:nowrap">\g<0></span>', html)
    return _LONG.sub(r"\g<0><wbr>", html)


_FORMULA = regex(r"\S*(?:\$|\\[\[(])[^\s,]*")
_OPTION = regex(r"\[--?[^\[\]<>]{1,60}\]")  # which a page would break behind its hyphens
# Every so many letters of a word, but never within `&lt;` or a tag.
_LONG = regex(r"[\w.$]{28}(?=[\w.$]{12})")


def shorten(text: str, letters: int) -> str:
    """At most so many letters of a text, with an ellipsis for the others."""
    return text if len(text) <= letters else text[: letters - 1] + "…"


def join(views: Sequence[View], of: Room | None = None) -> View:
    """Several views, one under the other: unless there is no end `of` room, without the last ones
    where all are larger than a display."""
    room = Room(of.more, of.endless, LARGEST) if of is not None else Room(size=LARGEST)
    shown = room.take(max(size_of(v.html), size_of(v.text)) for v in views)
    if shown < len(views):
        views = [
            *views[: shown or 1],
            *map(paragraph, room.said(len(views) - (shown or 1), "part")),
        ]
    return View("\n\n".join(v.text for v in views), "".join(v.html for v in views))


def time_text(nanoseconds: float) -> str:
    """A duration for reading: `12 ns`, `1.4 us`, `22.1 ms`, `3.9 s`."""
    value = float(nanoseconds)
    for unit in ("ns", "us", "ms", "s"):
        if abs(value) < 999.5 or unit == "s":  # what would be rounded to 1000 is 1 of the next
            break
        value /= 1000
    return f"{value:.0f} {unit}" if value >= 999.5 else f"{value:.3g} {unit}"


_BLOCKS = "▁▂▃▄▅▆▇█"


def share(value: float, low: float, high: float) -> float:
    """The place of a number between two, from 0 to 1; 0 if they are one."""
    if high - low == float("inf"):  # which halves are not
        value, low, high = value / 2, low / 2, high / 2
    return (value - low) / (high - low) if high > low else 0.0


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """At most `width` blocks, the lowest for the least value, the full one for the greatest.  Where
    there are more values than blocks, a block shows the greatest of its values; what is no number
    (NaN, infinite) shows as a space."""
    finite = [v for v in values if v - v == 0]
    if not finite:
        return " " * min(len(values), width)
    low, high = min(finite), max(finite)
    count = min(len(values), width)
    line = []
    for index in range(count):
        piece = values[index * len(values) // count : (index + 1) * len(values) // count]
        known = [v for v in piece if v - v == 0]
        level = min(7, int(8 * share(max(known), low, high))) if known else 0
        line.append(_BLOCKS[level] if known else " ")
    return "".join(line)
