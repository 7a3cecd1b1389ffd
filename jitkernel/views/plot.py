"""Arrays of the program as curves and images.  Start from `plot`.

With matplotlib where it is installed, else drawn here; the text and the table beside say the same.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Sequence
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any

from jitkernel.errors import UsageError
from jitkernel.session.debugging.values import type_text
from jitkernel.values.datatype import DataType
from jitkernel.views.data import Data, Elements, Series, elements, look_up, series
from jitkernel.views.svg import FAINT, INK, SHEET, address, image, label
from jitkernel.views.view import View, folding, join, sparkline, table
from jitkernel.wording import counted

if TYPE_CHECKING:
    from jitkernel.session import Session

__all__ = ["curves", "plot"]

WIDTH, HEIGHT, LEFT, BOTTOM, RIGHT = 740, 260, 64, 22, 120
_COLUMNS = 640  # of a curve: more numbers are drawn as the least and the greatest of each
_ROWS = 8  # of a matrix: more of them are an image
_CURVES = 8
_LISTED = 200  # numbers of a table
_PIXELS = 512  # at most, of an image's side: more are left out evenly
#: Okabe-Ito, dark enough on a card, each with dashes of its own.
_LINES = (
    ("#00503b", ""), ("#802f00", "6 3"), ("#004a75", "2 2"), ("#7a2558", "8 3 2 3"),
    ("#1a1a1a", "1 3"), ("#5c5300", "10 4"), ("#00503b", "3 6"), ("#802f00", "1 6"),
)  # fmt: skip
#: cividis at quarters: it grows lighter evenly, for all eyes.  Nuñez et al., PLOS ONE 13(7), 2018.
_SCALE = ((0, 32, 76), (64, 77, 107), (124, 123, 120), (187, 174, 106), (255, 233, 69))
_SHADES = " ░▒▓█"


def plot(
    session: Session, text: str, *, as_image: bool = False, count: int | None = None,
    first: int = 0, x: str = "",
) -> View:  # fmt: skip
    """An array as curves: one of numbers, one for each member of structs, for each row of a small
    matrix; `as_image`, and for a large matrix, as an image.

    `text` is an expression of C or a name; `count` elements from number `first` on, which a pointer
    needs; `x` is the member that gives the places on the axis.  Raises UsageError.
    """
    data = look_up(session, text)
    found = elements(data, count, first)
    lines = series(found)
    if not lines:
        raise UsageError(f"{text} has no numbers: its elements are {type_name(found.type)}")
    sides = found.shape
    if as_image and len(sides) < 2:
        raise UsageError(f"{text} is no matrix: without --image it is drawn as a curve")
    if len(sides) > 1 and (as_image or math.prod(sides[:-1]) > _ROWS):
        return _image(data, found, lines)
    if len(sides) > 1:
        lines = _rows_of(lines, sides)
    return curves(data, found, lines, x)


def type_name(type: DataType) -> str:
    """The words for a type of elements."""
    return type.name or type.bare.name or type.bare.kind


def _rows_of(lines: Sequence[Series], sides: Sequence[int]) -> list[Series]:
    """The rows of a matrix, by their index."""
    wide, made = sides[-1], list[Series]()
    for one in lines:
        for row in range(math.prod(sides[:-1])):
            at, name = row, ""
            for side in reversed(sides[:-1]):
                name, at = f"[{at % side}]{name}", at // side
            part = one.values[row * wide : (row + 1) * wide]
            made.append(Series(f"{name}{'.' + one.name if one.name else ''}", part))
    return made


# -- curves ----------------------------------------------------------------------------------------


def curves(
    data: Data, found: Elements, lines: list[Series], x: str = "", alone: bool = False
) -> View:
    """Numbers as curves; `alone` without their table.  See `plot`."""
    axis: Sequence[float] | None = None
    if x:
        names = [one.name for one in lines]
        if x not in names:
            raise UsageError(f"there is no {x} in {data.text}: {', '.join(filter(None, names))}")
        axis = next(one.values for one in lines if one.name == x)
        lines = [one for one in lines if one.name != x]
    left = len(lines) - _CURVES
    lines = lines[:_CURVES]
    title = f"{data.text}: {type_text(data.value)}"
    note = f"{counted(left, 'more member')} not drawn" if left > 0 else ""
    columns = ("", "", "#least", "#greatest", "#mean", "#numbers")
    facts = [(one.name, sparkline(one.values, 40), *_facts(one.values)) for one in lines]
    words = table(title, columns, facts, note).text
    beside = table(title, columns[1:], [(name, *rest) for name, _, *rest in facts], note).html
    alt = f"{title}: " + "; ".join(
        f"{one.name or 'its numbers'} from {_short(min(ok))} to {_short(max(ok))}"
        for one in lines
        if (ok := [v for v in one.values if math.isfinite(v)])
    )
    first = 0 if axis is not None else found.first
    picture = _by_matplotlib(lines, axis, first, alt) or _drawn(lines, axis, first, alt)
    return View(words, picture + beside + ("" if alone else _listed(lines, found.first)))


def _listed(lines: Sequence[Series], first: int) -> str:
    """The numbers, folded."""
    longest = max(len(one.values) for one in lines)
    rows = [
        (first + at, *(_short(o.values[at]) if at < len(o.values) else "" for o in lines))
        for at in range(min(longest, _LISTED))
    ]
    more = f"{longest - _LISTED:,} more" if longest > _LISTED else ""
    names = ("#", *(f"#{one.name or 'value'}" for one in lines))
    return folding(counted(longest, "number", ","), table("", names, rows, more)).html


def _facts(values: Sequence[float]) -> tuple[str, str, str, str]:
    ok = [v for v in values if math.isfinite(v)]
    if not ok:
        return "", "", "", f"{len(values):,}"
    odd = f" ({len(values) - len(ok):,} not finite)" if len(ok) < len(values) else ""
    mean = math.fsum(ok) / len(ok)
    return _short(min(ok)), _short(max(ok)), _short(mean), f"{len(values):,}{odd}"


def _short(value: float) -> str:
    return str(value) if isinstance(value, int) and abs(value) < 10**9 else f"{value:.6g}"


def _thinned(values: Sequence[float], axis: Sequence[float]) -> list[tuple[float, float] | None]:
    """The points of a curve: of very many the least and the greatest in each of so many columns, so
    that no peak is lost; None where there is a gap."""
    size, points = len(values), list[tuple[float, float] | None]()
    if size <= 2 * _COLUMNS:
        for place, value in zip(axis, values, strict=True):
            ok = math.isfinite(value) and math.isfinite(place)
            points.append((place, value) if ok else None)
        return points
    for column in range(_COLUMNS):
        span = range(column * size // _COLUMNS, (column + 1) * size // _COLUMNS)
        known = [at for at in span if math.isfinite(values[at]) and math.isfinite(axis[at])]
        if not known:
            points.append(None)
            continue
        ends = {min(known, key=values.__getitem__), max(known, key=values.__getitem__)}
        points += [(axis[at], values[at]) for at in sorted(ends)]
    return points


def _points(
    lines: Sequence[Series], axis: Sequence[float] | None, first: int
) -> list[list[tuple[float, float] | None]]:
    return [_thinned(one.values, axis or range(first, first + len(one.values))) for one in lines]


def _drawn(lines: Sequence[Series], axis: Sequence[float] | None, first: int, alt: str) -> str:
    """The curves as a picture of our own."""
    curves = _points(lines, axis, first)
    known = [point for curve in curves for point in curve if point is not None]
    if not known:
        return ""
    across = _span([place for place, _ in known])
    upright = _span([value for _, value in known])
    wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - BOTTOM

    def at(place: float, value: float) -> tuple[float, float]:
        right = (place - across[0]) / (across[1] - across[0])
        return LEFT + wide * right, tall * (1 - (value - upright[0]) / (upright[1] - upright[0]))

    parts = [f'<rect x="{LEFT}" y="0" width="{wide}" height="{tall}" fill="{SHEET}"/>']
    for tick in _ticks(*upright):
        y = at(across[0], tick)[1]
        parts.append(f'<path d="M{LEFT - 4},{y:.1f} h{wide + 4}" stroke="{FAINT}"/>')
        parts.append(label(LEFT - 8, y + 4, f"{tick:g}", "end"))
    for tick in _ticks(*across):
        x = at(tick, upright[0])[0]
        parts.append(f'<path d="M{x:.1f},{tall} v4" stroke="{INK}"/>')
        parts.append(label(x, tall + 16, f"{tick:g}", "middle"))
    for number, (one, curve) in enumerate(zip(lines, curves, strict=True)):
        colour, dashes = _LINES[number % len(_LINES)]
        dash = f' stroke-dasharray="{dashes}"' if dashes and len(lines) > 1 else ""
        parts.append(
            f'<path d="{_path(curve, at)}" fill="none" stroke="{colour}" stroke-width="1.5"'
            f' stroke-linecap="round"{dash}/>'
        )
        if one.name:
            y = 12 + 18 * number
            parts.append(
                f'<path d="M{WIDTH - RIGHT + 10},{y - 4} h22" stroke="{colour}"'
                f' stroke-width="2"{dash}/>'
            )
            parts.append(label(WIDTH - RIGHT + 38, y, one.name[:12]))
    return image(parts, WIDTH, HEIGHT, alt)


def _path(curve: Sequence[tuple[float, float] | None], at: Any) -> str:
    """An SVG path; a number between two gaps is a point."""
    path, pen = list[str](), "M"
    for number, point in enumerate(curve):
        if point is None:
            pen = "M"
            continue
        x, y = at(*point)
        path.append(f"{pen}{x:.1f},{y:.1f}")
        alone = pen == "M" and (number + 1 == len(curve) or curve[number + 1] is None)
        if alone:
            path.append("h0.1")
        pen = "L"
    return "".join(path)


def _span(values: Sequence[float]) -> tuple[float, float]:
    """The least and the greatest, a little apart where they are one."""
    low, high = float(min(values)), float(max(values))
    if low == high:
        room = abs(low) / 2 or 1.0
        return low - room, high + room
    return low, high


def _ticks(low: float, high: float) -> list[float]:
    """At most seven round numbers between two."""
    step = 10.0 ** math.floor(math.log10((high - low) / 3))
    step *= next(by for by in (1, 2, 5, 10, 20) if (high - low) / (step * by) <= 6)
    first = math.ceil(low / step)
    return [round(n * step, 12) for n in range(first, first + 8) if n * step <= high]


def _by_matplotlib(
    lines: Sequence[Series], axis: Sequence[float] | None, first: int, alt: str
) -> str:
    """The curves as matplotlib draws them; "" where it is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return ""
    figure = Figure(figsize=(7.4, 2.8), layout="constrained")
    axes = figure.subplots()
    for one, curve in zip(lines, _points(lines, axis, first), strict=True):
        known = [point or (math.nan, math.nan) for point in curve]
        axes.plot([p for p, _ in known], [v for _, v in known], label=one.name or None)
    if any(one.name for one in lines):
        axes.legend()
    out = StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    return (
        f'<p><img src="{address(out.getvalue())}" alt="{escape(alt, quote=True)}"'
        ' style="max-width:100%"></p>'
    )


# -- images ----------------------------------------------------------------------------------------


def _image(data: Data, found: Elements, lines: Sequence[Series]) -> View:
    """A matrix, row by row from the top: dark for the least number, light for the greatest; three
    numbers from 0 to 255 in the last place are red, green and blue."""
    sides = found.shape
    values: Sequence[Any] = lines[0].values
    is_coloured = len(sides) == 3 and sides[-1] in (3, 4) and found.type.bare.size == 1
    if is_coloured:
        step = sides[-1]
        values = [values[at : at + 3] for at in range(0, len(values), step)]
        sides = sides[:-1]
    high, wide = math.prod(sides[:-1]), sides[-1]
    if not high or not wide:
        raise UsageError(f"{data.text} has no elements")
    title = f"{data.text}: {type_text(data.value)}"
    known = [] if is_coloured else [v for v in values if math.isfinite(v)]
    low, top = (min(known), max(known)) if known else (0.0, 0.0)
    every = max(1, -(-max(high, wide) // _PIXELS))
    rows = [[values[y * wide + x] for x in range(0, wide, every)] for y in range(0, high, every)]
    if not is_coloured:
        scale = [_colour(at / 255) for at in range(256)]
        levels = 255 / (top - low) if top > low else 0.0
        odd = (255, 0, 255)  # what is no number
        rows = [
            [scale[int((v - low) * levels)] if math.isfinite(v) else odd for v in row]
            for row in rows
        ]
    zoom = max(1, min(16, 480 // max(len(rows), len(rows[0]))))
    words = "" if is_coloured else f", from {_short(low)} (dark) to {_short(top)} (light)"
    what = f"{title}{words}"
    png = base64.b64encode(_png(rows, zoom)).decode()
    html = (
        f'<p><img src="data:image/png;base64,{png}" alt="{escape(what, quote=True)}"'
        f' style="max-width:100%"><br>{escape(what)}</p>'
    )
    view = View(f"{what}\n{_blocks(rows)}", html)
    if is_coloured:
        return view
    return join([view, _numbers_of(values, high, wide)]) if high * wide <= _LISTED else view


def _numbers_of(values: Sequence[float], high: int, wide: int) -> View:
    rows = [(y, *map(_short, values[y * wide : (y + 1) * wide])) for y in range(high)]
    return table("", ("#", *(f"#{x}" for x in range(wide))), rows)


def _colour(level: float) -> tuple[int, int, int]:
    """The colour of a number between 0 and 1."""
    at = min(int(level * 4), 3)
    part = level * 4 - at
    low, high = _SCALE[at], _SCALE[at + 1]
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(low, high, strict=True))
    return red, green, blue


def _png(rows: Sequence[Sequence[Sequence[int]]], zoom: int) -> bytes:
    """A PNG with 8 bits a colour, each pixel `zoom` wide and high: sharp wherever it is shown.
    W3C, Portable Network Graphics (Third Edition), 5 and 11.2."""
    raw = b"".join(
        (b"\0" + b"".join(bytes(map(int, pixel)) * zoom for pixel in row)) * zoom for row in rows
    )
    wide, high = len(rows[0]) * zoom, len(rows) * zoom
    head = wide.to_bytes(4, "big") + high.to_bytes(4, "big") + bytes((8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")
        for kind, body in ((b"IHDR", head), (b"IDAT", zlib.compress(raw, 9)), (b"IEND", b""))
    )


def _blocks(rows: Sequence[Sequence[Sequence[int]]]) -> str:
    """The image in letters, two to a pixel's width, at most 32 lines of 96."""
    every = max(1, -(-len(rows) // 32), -(-len(rows[0]) // 48))
    shade = 2 if every == 1 else 1
    wide = every if shade == 2 else max(1, -(-len(rows[0]) // 96))
    return "\n".join(
        "".join(
            _SHADES[min(int(sum(pixel) / 765 * 5), 4)] * shade for pixel in row[::wide]
        ).rstrip()
        for row in rows[::every]
    )
