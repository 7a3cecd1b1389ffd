"""A map of the arena: each zone as a strip, what is used and what is free.  Start from `arena`."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from jitkernel.views.view import View, escape, size_text, table

if TYPE_CHECKING:
    from jitkernel.session import Session

__all__ = ["arena"]

CELLS = 64  # parts of a strip
USED = "#0072b2"  # Okabe-Ito blue on white: 5.2:1
FREE = "#ffffff"
INK = "#1a1a1a"


def arena(session: Session, zone: str | None = None) -> View:
    """The zones of the session's arena, up to each one's high-water mark."""
    slab = session.arena
    names = [n for n in slab.zones if zone is None or n == zone]
    usage = slab.usage()
    strips = {name: _strip(slab.zones[name]) for name in names}
    rows = [
        (
            name,
            f"{slab.zones[name].start:#x}",
            size_text(usage[name]["used"]),
            size_text(usage[name]["padding"]),
            usage[name]["extents"],
            size_text(usage[name]["high"]),
            size_text(usage[name]["largest"]),
        )
        for name in names
    ]
    columns = (
        "zone", "starts at", "#used", "#padding", "#extents", "#high water", "#largest free",
    )  # fmt: skip
    account = table("Arena", columns, rows)
    width = max(map(len, names))
    drawn = [
        f"{name:<{width}} |{''.join(map(_letter, strip))}| {size_text(usage[name]['high'])}"
        for name, strip in strips.items()
    ]
    legend = "each strip up to its high-water mark"
    text = "\n".join([account.text, "", *drawn, f"{legend}; # used, + partly used, . free"])
    total = sum(usage[n]["used"] for n in names)
    alt = f"Map of the arena: {size_text(total)} used in {len(names)} zones."
    return View(
        text,
        f"{_picture(strips, alt)}{account.html}<p>{escape(legend)}; what is filled is used</p>",
    )


def _strip(zone: object) -> list[float]:
    """How much of each part of a zone is used, 0 to 1; empty where nothing was ever used."""
    start, high = zone.start, zone.high  # type: ignore[attr-defined]
    if high <= start:
        return []
    parts = min(CELLS, max(1, (high - start) // 16))
    size = (high - start) / parts
    used = [0.0] * parts
    for at, length in list(zone.list.live.items()):  # type: ignore[attr-defined]
        first, last = at - start, at - start + length
        index = int(first / size)
        while index < parts and index * size < last:
            used[index] += max(0.0, min(last, (index + 1) * size) - max(first, index * size))
            index += 1
    return [min(1.0, bytes_used / size) for bytes_used in used]


def _letter(part: float) -> str:
    return "." if part == 0 else "#" if part > 0.999 else "+"


def _picture(strips: dict[str, list[float]], alt: str) -> str:
    """An opaque card, readable in light and dark: an image, since inline SVG is dropped."""
    width, row = 640, 26
    height = row * len(strips) + 12
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}">',
        f'<rect width="{width}" height="{height}" fill="{FREE}"/>',
    ]
    for line, (name, strip) in enumerate(strips.items()):
        y = 8 + line * row
        out.append(
            f'<text x="8" y="{y + 13}" font-family="monospace" font-size="12" fill="{INK}">'
            f"{name}</text>"
        )
        part = (width - 88) / CELLS
        for index, used in enumerate(strip):
            if used:
                tall = max(2.0, 16 * used)
                out.append(
                    f'<rect x="{80 + index * part:.1f}" y="{y + 16 - tall:.1f}"'
                    f' width="{part:.1f}" height="{tall:.1f}" fill="{USED}"/>'
                )
        out.append(
            f'<rect x="80" y="{y}" width="{max(1, len(strip)) * part:.1f}" height="16" fill="none"'
            f' stroke="{INK}"/>'
        )
    out.append("</svg>")
    data = base64.b64encode("".join(out).encode()).decode()
    return f'<p><img src="data:image/svg+xml;base64,{data}" alt="{escape(alt)}"></p>'
