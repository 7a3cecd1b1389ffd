"""The picture of a function's control flow, of all of it or of the part that can be read.

Start from `draw_flow`.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING

from jitkernel.views.diagram import Arrow, Node, diagram
from jitkernel.views.neighbourhood import folded, links, nearest, within

if TYPE_CHECKING:
    from jitkernel.compiler import Flow

__all__ = ["DRAWN", "draw_flow"]

DRAWN = 60  # boxes
_PART = 24  # where that is not all
_LINES = 14  # instructions in a box
_FEW = 5  # where there are more than `_MANY` boxes
_MANY = 20


def draw_flow(
    flow: Flow,
    arrows: Mapping[tuple[int, int], str],
    headers: Set[int],
    around: tuple[int, int | None],
    alt: str,
) -> tuple[str, str]:
    """HTML of the picture, and a sentence on what of the function it shows, "" for all.

    `arrows` are edges with their letters, `headers` the blocks that begin loops.  `around` is a
    block and how many edges from it are drawn: None for as many boxes as can be read.  Straight
    chains of blocks are one box where there are too many.
    """
    count = len(flow.blocks)
    middle, depth = around
    chains = folded(count, arrows) if count > DRAWN and depth is None else None
    boxes = chains or [[index] for index in range(count)]
    box_of = {index: number for number, chain in enumerate(boxes) for index in chain}
    edges = {
        (box_of[a], box_of[b]): text
        for (a, b), text in arrows.items()
        if box_of[a] != box_of[b] or b == boxes[box_of[b]][0]
    }
    near = links(edges)
    start = box_of[middle]
    kept = set(range(len(boxes))) if depth is None else within([start], near, depth)
    if len(kept) > DRAWN:
        kept = nearest([start], near, _PART)
    few = len(kept) > _MANY
    nodes = []
    for number in sorted(kept):
        out = sum(other not in kept for other in near.get(number, ()))
        nodes.append(_node(flow, number, boxes[number], headers, few, out))
    shown = [
        Arrow(str(a), str(b), _short(text))
        for (a, b), text in edges.items()
        if a in kept and b in kept
    ]
    blocks = sum(len(boxes[number]) for number in kept)
    label = flow.blocks[middle][0]
    words = []
    if len(boxes) < count:
        words.append("Blocks that only follow each other share a box.")
    if blocks < count:
        words.append(
            f"{blocks} of {count} blocks are drawn, those nearest to %{label}; "
            "--around %block and --depth N draw others."
        )
    alt += f". {' '.join(words)}" if words else "."
    return diagram(nodes, shown, alt), " ".join(words)


def _node(
    flow: Flow, number: int, chain: list[int], headers: Set[int], few: bool, out: int
) -> Node:
    """A box: a block, or several that follow each other; `out` neighbours are not drawn."""
    lines = [" ".join(line.split()) for index in chain for line in flow.blocks[index][1]]
    limit = _FEW if few else _LINES
    if len(lines) > limit:
        lines = [*lines[: limit - 2], f"({len(lines) - limit + 1} more)", lines[-1]]
    kind = "entry" if not chain[0] else "loop" if chain[0] in headers else ""
    title = f"%{flow.blocks[chain[0]][0]}" + (f" ({kind})" if kind else "")
    if len(chain) > 1:
        title += f" to %{flow.blocks[chain[-1]][0]}, {len(chain)} blocks"
    if out:
        lines.append(f"({out} neighbour{'s' * (out > 1)} not drawn)")
    return Node(str(number), title, lines, kind)


def _short(text: str) -> str:
    return text if len(text) <= 18 else text[:17] + "…"
