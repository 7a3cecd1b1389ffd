"""Arrays of the program as curves and images, and the same in words and numbers.  Start from
`plot`.

Curves are drawn by matplotlib where it is installed, else here: on one card, in the same colours.
"""

from __future__ import annotations

import base64
import math
import sys
import zlib
from collections.abc import Sequence
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any

from jitkernel.errors import UsageError
from jitkernel.session.debugging.values import Value, type_text
from jitkernel.views.data import Data, Elements, Series, elements, look_up, series
from jitkernel.views.svg import EDGE, FAINT, INK, PAPER, SHEET, address, image, label
from jitkernel.views.view import View, folding, join, share, shorten, sparkline, table
from jitkernel.wording import counted

if TYPE_CHECKING:
    from jitkernel.session import Session

__all__ = ["curves", "plot"]

WIDTH, HEIGHT, LEFT, BOTTOM, RIGHT = 740, 260, 64, 22, 120
_COLUMNS = 640  # of a curve: more numbers are drawn as the least and the greatest of each
_ROWS = 8  # of a matrix: more of them are an image
_CURVES = 8
_LISTED = 200  # numbers of a table
_THIN = 16  # pixels, at least, of a short side
_PIXELS = 512  # at most, of an image's side: more are left out evenly
#: Okabe-Ito, dark enough on a card, each with dashes of its own.
_LINES = (
    ("#00503b", ""), ("#802f00", "6 3"), ("#004a75", "2 2"), ("#7a2558", "8 3 2 3"),
    ("#1a1a1a", "1 3"), ("#5c5300", "10 4"), ("#00503b", "3 6"), ("#802f00", "1 6"),
)  # fmt: skip
#: cividis at quarters: it grows lighter evenly, for all eyes.  Nuñez et al., PLOS ONE 13(7), 2018.
_SCALE = ((0, 32, 76), (64, 77, 107), (124, 123, 120), (187, 174, 106), (255, 233, 69))
_SHADES = " ░▒▓█"
_LARGE = 1e300  # matplotlib adds to numbers what makes larger ones infinite

#: Points from left to right, None where there is a gap.
_Curve = list[tuple[float, float] | None]


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
    found = elements(data, count, first).scalars()
    lines = series(found)
    if not lines:
        of = type_text(Value(found.type, ir=data.value.ir))
        raise UsageError(f"{text} has no numbers: its elements are of type {of}")
    sides = found.shape
    if as_image and len(sides) < 2:
        raise UsageError(f"{text} is no matrix: without --image it is drawn as a curve")
    if len(sides) > 1 and (as_image or math.prod(sides[:-1]) > _ROWS):
        return _image(data, found, lines)
    if len(sides) > 1:
        lines = _rows_of(lines, sides)
    return curves(data, found, lines, x)


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
        others = ", ".join(name for name in names if name and name != x)
        if x not in names or not others:
            why = f"of {x} and what else" if x in names else f"there is no {x} in {data.text}"
            raise UsageError(f"{why}: {others}" if others else why)
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
    begin = 0 if axis is not None else found.first
    drawn = [_thinned(o.values, axis or range(begin, begin + len(o.values))) for o in lines]
    names = [shorten(one.name, 12) for one in lines]
    known = [point for curve in drawn for point in curve if point is not None]
    picture = ""
    if known:
        large = max(abs(number) for point in known for number in point) > _LARGE
        picture = "" if large else _by_matplotlib(names, drawn, alt)
        picture = picture or _drawn(names, drawn, known, alt)
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
    odd = f" ({len(values) - len(ok):,} not finite)" if len(ok) < len(values) else ""
    mean = math.fsum(v / len(ok) for v in ok)  # their sum may be larger than a float
    told = (_short(min(ok)), _short(max(ok)), _short(mean)) if ok else ("", "", "")
    return *told, f"{len(values):,}{odd}"


def _short(value: float) -> str:
    return str(value) if isinstance(value, int) and abs(value) < 10**9 else f"{value:.6g}"


def _thinned(values: Sequence[float], axis: Sequence[float]) -> _Curve:
    """The points of a curve: of very many the least and the greatest in each of so many columns, so
    that no peak is lost; None where there is a gap."""
    size, points = len(values), _Curve()
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


def _by_matplotlib(names: Sequence[str], curves: Sequence[_Curve], alt: str) -> str:
    """The curves as matplotlib draws them; "" where it is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return ""
    figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), layout="constrained", facecolor=PAPER)
    axes = figure.subplots()
    axes.set_facecolor(SHEET)
    axes.grid(axis="y", color=FAINT)
    for number, (name, curve) in enumerate(zip(names, curves, strict=True)):
        colour, dashes = _LINES[number % len(_LINES)]
        dash = tuple(map(float, dashes.split())) if dashes and len(names) > 1 else ()
        points = [point or (math.nan, math.nan) for point in curve]
        alone = [at for at in range(len(curve)) if _is_alone(curve, at)]
        axes.plot(
            *zip(*points, strict=True), label=name, color=colour, linestyle=(0, dash or None),
            marker="+", markevery=alone,
        )  # fmt: skip
    if any(names):
        figure.legend(loc="outside right upper", facecolor=PAPER, edgecolor=PAPER)
    out = StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    return (
        f'<p><img src="{address(out.getvalue())}" alt="{escape(alt, quote=True)}"'
        ' style="max-width:100%;margin:4px 0"></p>'
    )


def _is_alone(curve: _Curve, at: int) -> bool:
    """True of a point between two gaps."""
    beside = curve[max(at - 1, 0) : at] + curve[at + 1 : at + 2]
    return curve[at] is not None and not any(beside)


def _drawn(
    names: Sequence[str], curves: Sequence[_Curve],
    known: Sequence[tuple[float, float]], alt: str,
) -> str:  # fmt: skip
    """The curves as a picture of our own; `known` are all their points."""
    across = _span([place for place, _ in known])
    upright = _span([value for _, value in known])
    right = RIGHT if any(names) else 2 * EDGE
    wide, tall = WIDTH - LEFT - right, HEIGHT - BOTTOM

    def at(place: float, value: float) -> tuple[float, float]:
        return LEFT + wide * share(place, *across), tall * (1 - share(value, *upright))

    parts = [f'<rect x="{LEFT}" y="0" width="{wide}" height="{tall}" fill="{SHEET}"/>']
    for tick in _ticks(*upright):
        y = at(across[0], tick)[1]
        parts.append(f'<path d="M{LEFT - 4},{y:.1f} h{wide + 4}" stroke="{FAINT}"/>')
        parts.append(label(LEFT - 8, y + 4, f"{tick:g}", "end"))
    for tick in _ticks(*across):
        x = at(tick, upright[0])[0]
        parts.append(f'<path d="M{x:.1f},{tall} v4" stroke="{INK}"/>')
        parts.append(label(x, tall + 16, f"{tick:g}", "middle"))
    for number, (name, curve) in enumerate(zip(names, curves, strict=True)):
        colour, dashes = _LINES[number % len(_LINES)]
        dash = f' stroke-dasharray="{dashes}"' if dashes and len(names) > 1 else ""
        parts.append(
            f'<path d="{_path(curve, at)}" fill="none" stroke="{colour}" stroke-width="1.5"'
            f' stroke-linecap="round"{dash}/>'
        )
        if name:
            y = 12 + 18 * number
            parts.append(
                f'<path d="M{WIDTH - RIGHT + 10},{y - 4} h22" stroke="{colour}"'
                f' stroke-width="2"{dash}/>'
            )
            parts.append(label(WIDTH - RIGHT + 38, y, name))
    return image(parts, WIDTH, HEIGHT, alt)


def _path(curve: _Curve, at: Any) -> str:
    """An SVG path; a number between two gaps is a cross."""
    path, pen = list[str](), "M"
    for number, point in enumerate(curve):
        if point is None:
            pen = "M"
            continue
        x, y = at(*point)
        path.append(f"{pen}{x:.1f},{y:.1f}")
        if _is_alone(curve, number):
            path.append("m-3,0h6m-3,-3v6")
        pen = "L"
    return "".join(path)


def _span(values: Sequence[float]) -> tuple[float, float]:
    """The least and the greatest, a little apart where they are one."""
    low, high = float(min(values)), float(max(values))
    if high - low < sys.float_info.min:
        room = abs(low) / 2 or 1.0
        low, high = low - room, high + room
    return max(low, -sys.float_info.max), min(high, sys.float_info.max)


def _ticks(low: float, high: float) -> list[float]:
    """At most seven round numbers between two."""
    step = 10.0 ** math.floor(math.log10(high / 3 - low / 3))
    step *= next(by for by in (1, 2, 5, 10, 20) if high / 6 - low / 6 <= step * by)
    first = math.ceil(low / step)
    return [n * step for n in range(first, first + 8) if n * step <= high]


# -- images ----------------------------------------------------------------------------------------


def _image(data: Data, found: Elements, lines: Sequence[Series]) -> View:
    """A matrix, row by row from the top: dark for the least number, light for the greatest; three
    numbers from 0 to 255 in the last place are red, green and blue."""
    sides = found.shape
    values: Sequence[Any] = lines[0].values
    is_coloured = len(sides) == 3 and sides[-1] in (3, 4) and found.type.bare.size == 1
    if is_coloured:
        step = sides[-1]
        values = [[int(v) & 255 for v in values[at : at + 3]] for at in range(0, len(values), step)]
        sides = sides[:-1]
    high, wide = math.prod(sides[:-1]), sides[-1]
    title = f"{data.text}: {type_text(data.value)}"
    known = [] if is_coloured else [v for v in values if math.isfinite(v)]
    low, top = (min(known), max(known)) if known else (0.0, 0.0)
    every = max(1, -(-max(high, wide) // _PIXELS))
    rows = [[values[y * wide + x] for x in range(0, wide, every)] for y in range(0, high, every)]
    if not is_coloured:
        scale = [_colour(at / 255) for at in range(256)]
        odd = (255, 0, 255)  # what is no number
        rows = [
            [scale[int(255 * share(v, low, top))] if math.isfinite(v) else odd for v in row]
            for row in rows
        ]
    what = title
    if not is_coloured:
        what += f", from {_short(low)} (dark) to {_short(top)} (light)" if known else ""
        what += f", {left:,} not finite (magenta)" if (left := len(values) - len(known)) else ""
    zoom = max(1, min(16, 480 // max(len(rows), len(rows[0]))))
    across, down = (max(zoom, _THIN // side) for side in (len(rows[0]), len(rows)))
    png = base64.b64encode(_png(rows, across, down)).decode()
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


def _png(rows: Sequence[Sequence[Sequence[int]]], across: int, down: int) -> bytes:
    """A PNG with 8 bits a colour, each pixel so many across and down: sharp wherever it is shown.
    W3C, Portable Network Graphics (Third Edition), 5 and 11.2."""
    raw = b"".join(
        (b"\0" + b"".join(bytes(pixel) * across for pixel in row)) * down for row in rows
    )
    wide, high = len(rows[0]) * across, len(rows) * down
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
