"""Pictures as `<img>` with an SVG in its address: what survives sanitisers.  Start from `image`.

An opaque card with dark text and round corners, of a tone between a white page and a black one: it
glares on neither.  Fills are Okabe-Ito's colours, each with a pattern of its own, so that no
picture needs its colours.  `card` is the SVG itself, for a file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from jitkernel.printable import printable
from jitkernel.regex import regex

INK = "#1a1a1a"
PAPER = "#c3cbd6"  # of the card
SHEET = "#e3e8ee"  # of what lies on it: boxes, what is free
FAINT = "#8b97a6"  # lines that help the eye
EDGE = 8  # pixels of the card around what is drawn
LETTER = 6.7  # pixels that a letter of 11 px takes


@dataclass(frozen=True, slots=True)
class Fill:
    """A colour (dark text on it has a contrast of at least 4.5) and the strokes that mark it."""

    name: str
    colour: str
    strokes: str = ""

    @property
    def paint(self) -> str:
        """The value of `fill`."""
        return f"url(#{self.name})" if self.strokes else self.colour

    @property
    def definition(self) -> str:
        """The pattern, for the head of a picture; empty where there is none."""
        if not self.strokes:
            return ""
        return (
            f'<pattern id="{self.name}" width="8" height="8" patternUnits="userSpaceOnUse">'
            f'<rect width="8" height="8" fill="{self.colour}"/>'
            f'<path d="{self.strokes}" stroke="{INK}" stroke-width="1" fill="none"/></pattern>'
        )


def rectangle(
    x: float,
    y: float,
    width: float,
    height: float,
    fill: Fill | str,
    title: str = "",
    line: str = "",
) -> str:
    """A box; `title` is shown where a viewer shows titles, `line` is the colour of its border."""
    paint = fill if isinstance(fill, str) else fill.paint
    border = f' stroke="{line}" stroke-width="1"' if line else ""
    box = (
        f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}"'
        f' fill="{paint}"{border}'
    )
    return f"{box}><title>{escape(title)}</title></rect>" if title else f"{box}/>"


def label(
    x: float, y: float, text: str, anchor: str = "start", weight: str = "", colour: str = INK
) -> str:
    """Text whose baseline is at `y`."""
    bold = f' font-weight="{weight}"' if weight else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-family="monospace"'
        f' font-size="11"{bold} fill="{colour}">{escape(text)}</text>'
    )


def card(parts: Iterable[str], width: int, height: int, fills: Iterable[Fill] = ()) -> str:
    """SVG of a picture.  What `parts` draw lies between 0, 0 and `width`, `height`; the card is
    wider by its edges."""
    definitions = "".join(f.definition for f in fills)
    wide, tall = width + 2 * EDGE, height + 2 * EDGE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{tall}"'
        f' viewBox="{-EDGE} {-EDGE} {wide} {tall}">'
        + f'<rect x="{-EDGE}" y="{-EDGE}" width="{wide}" height="{tall}" rx="8" fill="{PAPER}"/>'
        + (f"<defs>{definitions}</defs>" if definitions else "")
        + "".join(parts)
        + "</svg>"
    )


def image(
    parts: Iterable[str], width: int, height: int, alt: str, fills: Iterable[Fill] = ()
) -> str:
    """HTML of a `card`; `alt` is one sentence with its numbers."""
    return (
        f'<p><img src="{address(card(parts, width, height, fills))}"'
        f' alt="{escape(alt, quote=True)}" style="max-width:100%;margin:4px 0"></p>'
    )


def address(svg: str) -> str:
    """The address of a picture that is in it (RFC 2397), for an attribute between double quotes.

    A sixth less than base64.  What stands for itself is what the URL Standard leaves alone in such
    an address, a `%` too that no two hexadecimal digits follow; but for tags: sanitisers take an
    attribute away that has an end of `style` in it.
    """
    text = _TAG.sub(lambda tag: tag[0].replace('"', "'"), printable(svg))
    return "data:image/svg+xml," + _ESCAPED.sub(lambda sign: f"%{ord(sign[0]):02X}", text)


_TAG = regex(r"<[^<>']*>")
_ESCAPED = regex(r'["#&<>\x00-\x1f]|%(?=[0-9A-Fa-f]{2})| +\Z')
