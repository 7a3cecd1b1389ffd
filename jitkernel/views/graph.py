"""A small directed graph as a picture: an `<img>` that survives sanitisers.  Start from `picture`.

The picture only repeats what the text and the table beside it say.  Layers come from networkx;
where that is absent there is no picture, and `ADVICE` says what to install.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise

__all__ = ["ADVICE", "picture"]

ADVICE = "for a picture: pip install 'jitkernel[graph]' (networkx)"

#: Okabe-Ito, light enough for dark text; the dash pattern says the same as the colour.
_KINDS = {
    "here": ("#F0E442", ""),
    "breaks": ("#F4C9A8", 'stroke-dasharray="6 3"'),
    "": ("#DCEBF7", ""),
}
_HEIGHT, _GAP_X, _GAP_Y, _LETTER, _ASIDE = 30, 30, 46, 7.3, 70.0


def picture(
    nodes: Mapping[str, str], edges: Sequence[tuple[str, str]], alt: str, limit: int = 60
) -> str:
    """HTML of a layered drawing, users above what they use.

    Empty without networkx and above `limit` nodes.

    `nodes` maps a label to its kind: `here` (what was asked about), `breaks`, or nothing.
    """
    try:
        import networkx as nx
    except ImportError:
        return ""
    if len(nodes) > limit:
        return ""
    graph = nx.DiGraph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(e for e in edges if e[0] != e[1])
    # Cells may use each other in a circle: a circle stands in one layer.
    condensed = nx.condensation(graph)
    layers = [
        sorted(name for part in layer for name in condensed.nodes[part]["members"])
        for layer in nx.topological_generations(condensed)
    ]
    _untangle(layers, edges)
    return _image(layers, nodes, edges, alt)


def _untangle(layers: list[list[str]], edges: Sequence[tuple[str, str]]) -> None:
    """Order each layer by the mean position of its neighbours above (Sugiyama's barycentres)."""
    above: dict[str, list[str]] = {}
    for user, used in edges:
        above.setdefault(used, []).append(user)
    for upper, lower in pairwise(layers):
        place = {name: i / max(len(upper) - 1, 1) for i, name in enumerate(upper)}
        mean = {
            name: sum(found) / len(found)
            for name in lower
            if (found := [place[u] for u in above.get(name, ()) if u in place])
        }
        lower.sort(key=lambda name: mean.get(name, 0.5))


def _image(
    layers: list[list[str]], nodes: Mapping[str, str], edges: Sequence[tuple[str, str]], alt: str
) -> str:
    width = {name: len(name) * _LETTER + 20 for name in nodes}
    rows = [sum(width[n] for n in layer) + _GAP_X * (len(layer) - 1) for layer in layers]
    total = max([*rows, 100.0]) + 20 + (_ASIDE if len(layers) > 2 else 0.0)
    height = len(layers) * (_HEIGHT + _GAP_Y) - _GAP_Y + 20
    at: dict[str, tuple[float, float]] = {}
    for index, (layer, row) in enumerate(zip(layers, rows, strict=True)):
        x = (total - row) / 2
        for name in layer:
            at[name] = (x + width[name] / 2, 10 + index * (_HEIGHT + _GAP_Y))
            x += width[name] + _GAP_X
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total:.0f}" height="{height:.0f}">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        '<defs><marker id="a" markerWidth="9" markerHeight="9" refX="8" refY="4" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#1b1f24"/></marker></defs>',
    ]
    for user, used in edges:
        if user != used:
            parts.append(_arrow(at[user], at[used]))
    for name, kind in nodes.items():
        fill, dash = _KINDS[kind]
        x, y = at[name]
        parts.append(
            f'<rect x="{x - width[name] / 2:.1f}" y="{y:.1f}" width="{width[name]:.1f}" '
            f'height="{_HEIGHT}" rx="5" fill="{fill}" stroke="#1b1f24" {dash}/>'
            f'<text x="{x:.1f}" y="{y + 20:.1f}" text-anchor="middle" font-family="monospace" '
            f'font-size="12" fill="#1b1f24">{escape(name)}</text>'
        )
    parts.append("</svg>")
    data = base64.b64encode("".join(parts).encode()).decode()
    return f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(alt, quote=True)}">'


def _arrow(start: tuple[float, float], stop: tuple[float, float]) -> str:
    (x0, y0), (x1, y1) = start, stop
    if y1 > y0:
        # An edge over several layers leaves to the side, around what stands between.
        aside = 0.0 if y1 - y0 < 1.5 * (_HEIGHT + _GAP_Y) else _ASIDE
        y0, first = y0 + _HEIGHT, y0 + _HEIGHT + 16 + aside / 2
        shape = f"{x0 + aside:.1f},{first:.1f} {x1 + aside:.1f},{y1 - 20 - aside / 2:.1f}"
    else:  # beside or back up: a circle of cells
        y0, y1 = y0 + _HEIGHT, y1 + _HEIGHT
        shape = f"{x0:.1f},{y0 + 26:.1f} {x1:.1f},{y1 + 26:.1f}"
    return (
        f'<path d="M{x0:.1f},{y0:.1f} C{shape} {x1:.1f},{y1:.1f}" fill="none" '
        'stroke="#1b1f24" marker-end="url(#a)"/>'
    )
