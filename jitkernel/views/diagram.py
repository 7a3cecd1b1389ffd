"""Boxes with lines of text and arrows with letters, as an image.  Start from `figure_of`.

The picture only repeats what the text and the table beside it say: colours repeat letters and
patterns of lines.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from unicodedata import east_asian_width

from jitkernel.views.figure import figure
from jitkernel.views.graph import links
from jitkernel.views.layers import MARGIN, Drawing
from jitkernel.views.svg import INK, LETTER, SHEET, address, image, label
from jitkernel.wording import counted

LINE = 15  # pixels from line to line
PAGE = 770  # pixels that a page has
_SIDE, _HEAD, _FRAME = 8, 18, 3

#: fill of the title by kind of box
_FILLS = {"": "#a9c9e3", "entry": "#f0e442", "loop": "#a9c9e3", "far": "#cdd3da",
          "missing": "#eeb48a"}  # fmt: skip
_THICK = {"loop": "2.5"}  # borders
MARKED = "#e69f00"  # of a line where something stands
SOURCE = "#7a2500"  # of words of another text
#: Okabe-Ito, dark enough for text on a card
_COLOURS = {"T": "#00503b", "F": "#802f00"}


@dataclass(frozen=True, slots=True)
class Node:
    """A box: its title in bold, lines beneath; `kind` is "", entry, loop, far or missing.

    Of the lines, `source` are those of another text than the others; `mark` is one where something
    stands, 0 the title, -1 none.  So many `frames` are around it, and so much of its title, `share`
    of 1, is a bar."""

    key: str
    title: str
    lines: Sequence[str] = ()
    kind: str = ""
    source: Collection[int] = ()
    mark: int = -1
    frames: int = 0
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow from box to box with a short text; `dashed` for those of a lighter kind."""

    start: str
    stop: str
    text: str = ""
    dashed: bool = False


def figure_of(
    nodes: Sequence[Node], arrows: Sequence[Arrow], alt: str, page: float = float("inf")
) -> str:
    """HTML of a picture in which nothing is cut: where it is larger than a page, it scrolls; `alt`
    says in one sentence what it shows, with the numbers.  Layers that are wider than `page` pixels
    become several.  Of arrows to what is not among the nodes, a box says how many neighbours are
    not drawn.
    """
    nodes, arrows = _inside(nodes, arrows)
    boxes = {node.key: _box(node, arrows) for node in nodes}
    drawing = Drawing(boxes, [(a.start, a.stop, len(a.text) * LETTER) for a in arrows], page)
    drawn = _draw(nodes, arrows, boxes, drawing, alt)
    return drawn if drawing.width <= PAGE and drawing.height <= 2 * PAGE else figure(drawn)


def size_of(node: Node) -> int:
    """The bytes of HTML that a box takes."""
    return len(address(_drawn(node, 100, (1000.0, 1000.0), _box(node, ()))))


def _inside(
    nodes: Sequence[Node], arrows: Sequence[Arrow]
) -> tuple[Sequence[Node], Sequence[Arrow]]:
    """The arrows between the nodes, and these with a line about the others."""
    drawn = {node.key for node in nodes}
    near = links((a.start, a.stop) for a in arrows)
    arrows = [a for a in arrows if a.start in drawn and a.stop in drawn]
    for at, node in enumerate(nodes := list(nodes)):
        if out := sum(other not in drawn for other in near.get(node.key, ())):
            lines = [*node.lines, f"({counted(out, 'neighbour')} not drawn)"]
            nodes[at] = replace(node, lines=lines)
    return nodes, arrows


def _box(node: Node, arrows: Sequence[Arrow]) -> tuple[float, float]:
    letters = max(map(_letters, (node.title, *node.lines)))
    leaving = [a for a in arrows if a.start == node.key and a.stop != node.key]
    ports = sum(max(22.0, len(a.text) * LETTER + 12) for a in leaving)
    tall = _HEAD + (LINE * len(node.lines) + 6 if node.lines else 4)
    around = 2 * _FRAME * node.frames
    return max(letters * LETTER + 2 * _SIDE, ports, 40.0) + around, float(tall) + around


def _letters(text: str) -> int:
    """The number of letters whose room a text takes: signs of East Asia take two."""
    if text.isascii():
        return len(text)
    return sum(1 + (east_asian_width(sign) in "WF") for sign in text)


def _draw(
    nodes: Sequence[Node],
    arrows: Sequence[Arrow],
    boxes: Mapping[str, tuple[float, float]],
    drawing: Drawing,
    alt: str,
) -> str:
    number = {node.key: at for at, node in enumerate(nodes)}
    lines: dict[str, list[str]] = {}  # by what they have in common
    words: dict[str, list[str]] = {}
    for arrow, route in zip(arrows, drawing.routes, strict=True):
        letter = arrow.text.partition(" ")[0]
        letter = letter if letter in _COLOURS else ""
        dash = "2 3" if arrow.dashed else "7 3" if route.back else ""
        look = f'stroke="{_COLOURS.get(letter, INK)}" marker-end="url(#{letter or "a"})"'
        look += f' stroke-width="{"2" if route.back else "1.3"}"'
        look += f' stroke-dasharray="{dash}"' if dash else ""
        ends = f"{number[arrow.start]} {number[arrow.stop]}"
        lines.setdefault(look, []).append(f'<path d="{route.path}" data-e="{ends}"/>')
        if arrow.text:
            x, y = route.label
            words.setdefault(_COLOURS.get(letter, INK), []).append(
                f'<text x="{x:.0f}" y="{y:.0f}">{escape(arrow.text, quote=False)}</text>'
            )
    parts = [_HEADS, '<g class="jk"><g fill="none">']
    parts += [f"<g {look}>{''.join(paths)}</g>" for look, paths in lines.items()]
    parts.append("</g>")
    far = drawing.at[nodes[0].key][0] if nodes else 0.0
    if far > PAGE - 2 * MARGIN:  # nothing is seen of it at first, where no script scrolls there
        parts.append(label(0, 13, f"{nodes[0].title} is {far:.0f} pixels to the right →"))
    parts += [
        _drawn(node, number[node.key], drawing.at[node.key], boxes[node.key]) for node in nodes
    ]
    parts += [f'<g class="b" fill="{one}">{"".join(said)}</g>' for one, said in words.items()]
    parts.append("</g>")
    return image(parts, round(drawing.width), round(drawing.height), alt)


def _drawn(node: Node, number: int, at: tuple[float, float], box: tuple[float, float]) -> str:
    """A box, from where the text of its title begins."""
    around = _FRAME * node.frames
    left, top = _SIDE, 13
    wide, tall = box[0] - 2 * around, box[1] - 2 * around
    style = f' class="{node.kind}"' if node.kind in _THICK else ""
    x, y = at[0] + around + left, at[1] + around + top
    parts = [f'<g data-k="{number}" transform="translate({x:.0f} {y:.0f})">']
    for out in range(around, 0, -_FRAME):
        parts.append(
            f'<rect x="{-left - out}" y="{-top - out}" width="{wide + 2 * out:.0f}"'
            f' height="{tall + 2 * out:.0f}" rx="4"/>'
        )
    parts.append(
        f'<rect x="-{left}" y="-{top}" width="{wide:.0f}" height="{tall:.0f}" rx="4"{style}/>'
        f'<path d="M{1 - left} {1 - top}h{wide - 2:.0f}v{_HEAD - 1}H{1 - left}z"'
        f' fill="{_FILLS[node.kind]}"/>'
    )
    if node.share:
        long = max(2.0, node.share * (wide - 2))
        parts.append(
            f'<path d="M{1 - left} {1 - top}h{long:.0f}v{_HEAD - 1}H{1 - left}z" fill="{MARKED}"/>'
        )
    if node.mark >= 0:
        row = _HEAD + 2 + LINE * (node.mark - 1) if node.mark else 1
        parts.append(
            f'<path d="M{2 - left} {row - top}h{wide - 4:.0f}v{LINE}H{2 - left}z" fill="{MARKED}"/>'
        )
    parts.append(f'<text class="b">{escape(node.title, quote=False)}</text>')
    for row, line in enumerate(node.lines):
        style = ' class="s"' if row in node.source else ""
        parts.append(f'<text y="{_HEAD + LINE * row}"{style}>{escape(line, quote=False)}</text>')
    return "".join([*parts, "</g>"])


# What all pictures have in common: one that is a part of a page has it for all others there.
_STYLE = (
    f".jk{{font:11px monospace;fill:{INK}}}.jk rect{{fill:{SHEET};stroke:{INK}}}"
    + "".join(f".jk .{kind}{{stroke-width:{width}}}" for kind, width in _THICK.items())
    + f".jk .b{{font-weight:bold}}.jk .s{{fill:{SOURCE}}}"
)
_HEADS = (
    f"<style>{_STYLE}</style><defs>"
    + "".join(
        f'<marker id="{name}" markerWidth="9" markerHeight="9" refX="8" refY="4" orient="auto"'
        f' markerUnits="userSpaceOnUse"><path d="M0 0l9 4-9 4z" fill="{colour}"/></marker>'
        for name, colour in (("a", INK), *_COLOURS.items())
    )
    + "</defs>"
)
