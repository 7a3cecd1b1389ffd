"""Control flow of a function: its blocks and where each can go next.  Start from `cfg`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.ir.instructions import Flow, flow
from jitkernel.ir.module import functions
from jitkernel.ir.names import bare
from jitkernel.views.asm import meant
from jitkernel.views.diagram import Arrow, Node, diagram
from jitkernel.views.diff import clip
from jitkernel.views.graph import back_edges, folded, links, within
from jitkernel.views.view import View, folding, join, listing, prose, shorten, table
from jitkernel.wording import counted, did_you_mean

if TYPE_CHECKING:
    from jitkernel.session import Session

LISTED = 3000  # instructions
DRAWN = 60  # boxes
_PART = 24  # where that is not all
_LINES = 14  # instructions in a box
_FEW = 5  # where there are more than `_MANY` boxes
_MANY = 20
_NEAR = 2  # edges from the block that is asked for


def cfg(
    session: Session,
    target: int | str | None = None,
    raw: bool = False,
    level: int | None = None,
    around: str = "",
    depth: int | None = None,
) -> View:
    """Control flow of a function, or of each function of a cell, as it was compiled.

    `raw`: as it was written, before any pass.  `level`: as this optimisation level would have it.
    All blocks are told; of many, those are drawn that are nearest to the block `around` (the entry
    without it), or at most `depth` edges away from it.  Raises UsageError where there is no IR, no
    body or no such block.
    """
    cell, _ = session.inspect.cell_of(target)
    request = session.inspect.request(cell.number)
    if depth is not None and depth < 0:
        raise UsageError("--depth is a number of edges, 0 or more")
    if level is not None:
        request = request._replace(options=request.options._replace(opt_level=level, passes=""))
    module = session.inspect.engine.pool.printed(request, optimised=not raw)
    flows = {found.name: flow(found) for found in functions(module, "define")}
    names = [bare(target)] if isinstance(target, str) else list(flows)
    if any(name not in flows for name in names) or not names:
        raise UsageError(
            f"{meant(session, target, cell)} has no body whose control flow could be shown"
        )
    if around:
        names = _with_block(session, flows, names, around)
    options = request.options
    pipeline = f"with {options.passes}" if options.passes else f"at -O{options.opt_level}"
    how = "as written" if raw else f"as compiled {pipeline}"
    called, label = session.inspect.program.called, around.lstrip("%")
    return join([_view(flows[n], called(n, cell.number), how, label, depth) for n in names])


def _with_block(
    session: Session, flows: Mapping[str, Flow], names: list[str], around: str
) -> list[str]:
    """The functions that have the block.  Raises UsageError with the nearest label."""
    label = around.lstrip("%")
    found = [n for n in names if any(own == label for own, _ in flows[n].blocks)]
    if not found:
        known = [own for name in names for own, _ in flows[name].blocks]
        words = did_you_mean(label, known, "%{}".format)
        where = ", ".join(map(session.inspect.program.called, names))
        raise UsageError(f"there is no block %{label} in {where}{words}")
    return found


def _view(flow: Flow, called: str, how: str, around: str, depth: int | None) -> View:
    labels = [label for label, _ in flow.blocks]
    arrows = _merge(flow)
    back = back_edges([0], arrows)
    loops = {stop for _, stop in back}
    kinds = ["loop" if index in loops else "" for index in range(len(labels))]
    kinds[0] = "entry"
    count = sum(len(lines) for _, lines in flow.blocks)
    title = f"Control flow of {called}, {how}"
    said = (
        f"{counted(len(labels), 'block')}, {counted(len(arrows), 'edge')}, "
        f"{counted(len(back), 'loop edge')}, {counted(count, 'instruction')}"
    )
    to: list[list[str]] = [[] for _ in labels]
    come: list[list[str]] = [[] for _ in labels]
    for (a, b), text in arrows.items():
        mark = " (back)" if (a, b) in back else ""
        to[a].append(f"{f'{text}: ' if text else ''}%{labels[b]}{mark}")
        come[b].append(f"%{labels[a]}")
    rows = []
    for index, (label, lines) in enumerate(flow.blocks):
        on = ", ".join(to[index]) or lines[-1]
        rows.append((f"%{label}", len(lines), kinds[index], on, ", ".join(come[index])))
    columns = ("block", "#instructions", "kind", "goes to", "comes from")
    note = f"{said}."
    if back:
        note += " A loop edge, marked (back), leads to the block that its loop begins with."
    shown = table(title, columns, rows, note)
    start = labels.index(around) if around else 0
    near = None if depth is None and not around else _NEAR if depth is None else depth
    image, drawn = _draw(flow, arrows, kinds, (start, near), f"{title}: {said}")
    body = [f"  {line}" if index else line for label, lines in flow.blocks
            for index, line in enumerate((f"%{label}:", *lines))]  # fmt: skip
    code = listing("", "\n".join(clip(body, LISTED, ": %ir shows them")))
    legend = (
        "T and F mark where a condition that holds, or does not, leads; dashed arrows lead back."
    )
    html = f"{image}<p>{prose(f'{legend} {drawn}'.strip())}</p>{shown.html}"
    html += folding(counted(count, "instruction"), code).html
    return View(shown.text + (f"\n{drawn}" if drawn else "") + f"\n\n{code.text}", html)


def _merge(flow: Flow) -> dict[tuple[int, int], str]:
    """Edges between two blocks as one, with all their letters."""
    found: dict[tuple[int, int], list[str]] = {}
    for start, stop, letter in flow.edges:
        found.setdefault((start, stop), []).append(letter)
    return {edge: ", ".join(filter(None, letters)) for edge, letters in found.items()}


def _draw(
    flow: Flow,
    arrows: Mapping[tuple[int, int], str],
    kinds: Sequence[str],
    around: tuple[int, int | None],
    alt: str,
) -> tuple[str, str]:
    """HTML of the picture, and a sentence on what of the function it shows, "" for all.

    `arrows` are edges with their letters, `kinds` says which block is the entry or begins a loop.
    `around` is a block and how many edges from it are drawn: None for as many boxes as can be read.
    Straight chains of blocks are one box where there are too many.
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
        kept = within([start], near, most=_PART)
    limit = _FEW if len(kept) > _MANY else _LINES
    nodes = [_node(flow, number, boxes[number], kinds, limit) for number in sorted(kept)]
    shown = [Arrow(str(a), str(b), shorten(text, 18)) for (a, b), text in edges.items()]
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


def _node(flow: Flow, number: int, chain: list[int], kinds: Sequence[str], limit: int) -> Node:
    """A box of so many lines: a block, or several that follow each other."""
    lines = [" ".join(line.split()) for index in chain for line in flow.blocks[index][1]]
    if len(lines) > limit:
        lines = [*lines[: limit - 2], f"({len(lines) - limit + 1} more)", lines[-1]]
    kind = kinds[chain[0]]
    title = f"%{flow.blocks[chain[0]][0]}" + (f" ({kind})" if kind else "")
    if len(chain) > 1:
        title += f" to %{flow.blocks[chain[-1]][0]}, {counted(len(chain), 'block')}"
    return Node(str(number), title, lines, kind)
