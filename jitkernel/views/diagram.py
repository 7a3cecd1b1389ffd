"""Boxes with lines of text and arrows with letters, as an image.  Start from `diagram`.

The picture only repeats what the text and the table beside it say: colours repeat letters and
patterns of lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from jitkernel.views.graph import links
from jitkernel.views.layers import Drawing
from jitkernel.views.svg import INK, LETTER, PAPER, SHEET, image, label
from jitkernel.views.view import shorten
from jitkernel.wording import counted

LINE = 15  # pixels from line to line
PAGE = 770  # pixels that a page has
NARROW = 600.0  # of a layer, where one must be folded
_SIDE, _HEAD = 8, 18
_LETTERS = (60, 48, 38, 30, 24, 18)  # of a line, where that is needed to fit
_FOLDED = (38, 30, 24, 18)

#: fill and border width by kind of box
_FILLS = {"": ("#a9c9e3", 1.0), "entry": ("#f0e442", 1.0), "loop": ("#a9c9e3", 2.5),
          "far": ("#cdd3da", 1.0), "missing": ("#eeb48a", 1.0)}  # fmt: skip
#: Okabe-Ito, dark enough for text on a card
_COLOURS = {"T": "#00503b", "F": "#802f00"}


@dataclass(frozen=True, slots=True)
class Node:
    """A box: its title in bold, lines beneath; `kind` is "", entry, loop, far or missing."""

    key: str
    title: str
    lines: Sequence[str] = ()
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow from box to box with a short text; `dashed` for those of a lighter kind."""

    start: str
    stop: str
    text: str = ""
    dashed: bool = False


def diagram(nodes: Sequence[Node], arrows: Sequence[Arrow], alt: str) -> str:
    """HTML of the picture; `alt` says in one sentence what it shows, with the numbers.

    Lines are cut where that makes it fit a page; where it does not, layers are folded.  Of arrows
    to what is not among the nodes, a box says how many neighbours are not drawn.
    """
    drawn = {node.key for node in nodes}
    near = links((a.start, a.stop) for a in arrows)
    arrows = [a for a in arrows if a.start in drawn and a.stop in drawn]
    for at, node in enumerate(nodes := list(nodes)):
        if out := sum(other not in drawn for other in near.get(node.key, ())):
            lines = [*node.lines, f"({counted(out, 'neighbour')} not drawn)"]
            nodes[at] = replace(node, lines=lines)
    widths = [(letters, float("inf")) for letters in _LETTERS]
    for letters, page in [*widths, *((letters, NARROW) for letters in _FOLDED)]:
        cut = [
            replace(
                n, title=shorten(n.title, letters), lines=[shorten(t, letters) for t in n.lines]
            )
            for n in nodes
        ]
        boxes = {node.key: _box(node, arrows) for node in cut}
        drawing = Drawing(boxes, [(a.start, a.stop, len(a.text) * LETTER) for a in arrows], page)
        if drawing.width <= PAGE:
            break
    return _draw(cut, arrows, boxes, drawing, alt)


def _box(node: Node, arrows: Sequence[Arrow]) -> tuple[float, float]:
    letters = max([len(node.title), *map(len, node.lines)])
    leaving = [a for a in arrows if a.start == node.key and a.stop != node.key]
    ports = sum(max(22.0, len(a.text) * LETTER + 12) for a in leaving)
    tall = _HEAD + (LINE * len(node.lines) + 6 if node.lines else 4)
    return max(letters * LETTER + 2 * _SIDE, ports, 40.0), float(tall)


def _draw(
    nodes: Sequence[Node],
    arrows: Sequence[Arrow],
    boxes: Mapping[str, tuple[float, float]],
    drawing: Drawing,
    alt: str,
) -> str:
    parts = [_HEADS]
    for arrow, route in zip(arrows, drawing.routes, strict=True):
        colour, head = _COLOURS.get(arrow.text, INK), arrow.text if arrow.text in _COLOURS else "a"
        dash = ' stroke-dasharray="7 3"' if route.back else ""
        dash = ' stroke-dasharray="2 3"' if arrow.dashed else dash
        stroke = "2" if route.back else "1.3"
        parts.append(
            f'<path d="{route.path}" fill="none" stroke="{colour}" stroke-width="{stroke}"{dash}'
            f' marker-end="url(#{head})"/>'
        )
    for node in nodes:
        (x, y), (wide, tall) = drawing.at[node.key], boxes[node.key]
        fill, border = _FILLS[node.kind]
        parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{tall:.1f}" rx="4"'
            f' fill="{SHEET}" stroke="{INK}" stroke-width="{border}"/>'
            f'<path d="M{x + 1:.1f},{y + _HEAD:.1f} V{y + 4:.1f} Q{x + 1:.1f},{y + 1:.1f}'
            f" {x + 4:.1f},{y + 1:.1f} H{x + wide - 4:.1f} Q{x + wide - 1:.1f},{y + 1:.1f}"
            f' {x + wide - 1:.1f},{y + 4:.1f} V{y + _HEAD:.1f} z" fill="{fill}"/>'
        )
        parts.append(label(x + _SIDE, y + 13, node.title, weight="bold"))
        for row, line in enumerate(node.lines):
            parts.append(label(x + _SIDE, y + _HEAD + 13 + LINE * row, line))
    for arrow, route in zip(arrows, drawing.routes, strict=True):
        if arrow.text:
            x, y = route.label
            parts.append(
                f'<rect x="{x - 1:.1f}" y="{y - 10:.1f}" width="{len(arrow.text) * LETTER + 2:.1f}"'
                f' height="13" fill="{PAPER}" fill-opacity="0.85"/>'
            )
            colour = _COLOURS.get(arrow.text, INK)
            parts.append(label(x, y, arrow.text, weight="bold", colour=colour))
    return image(parts, round(drawing.width), round(drawing.height), alt)


_HEADS = (
    "<defs>"
    + "".join(
        f'<marker id="{name}" markerWidth="9" markerHeight="9" refX="8" refY="4" orient="auto"'
        f' markerUnits="userSpaceOnUse"><path d="M0,0 L9,4 L0,8 z" fill="{colour}"/></marker>'
        for name, colour in (("a", INK), *_COLOURS.items())
    )
    + "</defs>"
)
