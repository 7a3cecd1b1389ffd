"""What analyses of the model tell of a function's blocks: dominance, loops, which values live, and
how often a call comes to them.  Start from `Overlay` and the functions that make one.

Each is lines in the boxes of a picture, and the same in words.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from jitkernel.ir.model import Block, Function, Value
from jitkernel.views.diagram import Arrow, Node, figure_of
from jitkernel.views.outline import subtree
from jitkernel.views.view import View, join, listing, table
from jitkernel.wording import counted

Edge: TypeAlias = tuple[Block, Block]

DRAWN = 120  # boxes of a picture
_LETTERS = 72  # of a line in a box
_FRAMES = 4  # around a box
_NO_WAY = "no way leads here"
_PAGE = 3000.0  # pixels of a layer of the tree


@dataclass(frozen=True, slots=True)
class Overlay:
    """Words on blocks: `above` and `below` their instructions.  `taken` is how often edges
    were; `frames` how many stand around a box, `shares` how much of its title is a bar.

    `legend` says how the picture is read, and `view` all of it in words.
    """

    legend: str
    view: View
    above: Mapping[Block, Sequence[str]]
    below: Mapping[Block, Sequence[str]] = field(default_factory=dict)
    taken: Mapping[Edge, int] = field(default_factory=dict)
    frames: Mapping[Block, int] = field(default_factory=dict)
    shares: Mapping[Block, float] = field(default_factory=dict)


class Subject(NamedTuple):
    """A function as it is `called`, and those of its blocks that tables have rows of."""

    function: Function
    called: str
    shown: Sequence[Block]


def named(values: Iterable[Value]) -> str:
    """`%a, %b`, as views write names; a dash for none."""
    return ", ".join(f"%{value.name}" for value in values) or "-"


def _lines(head: str, values: Iterable[Value]) -> list[str]:
    """The names behind a word, in as many lines as that takes."""
    return textwrap.wrap(f"{head}: {named(values)}", _LETTERS, subsequent_indent="  ",
                         break_long_words=False, break_on_hyphens=False)  # fmt: skip


def _order(values: Iterable[Value]) -> dict[Value, int]:
    return {value: at for at, value in enumerate(values)}


def dominators(subject: Subject) -> Overlay:
    """The tree of dominators, and where each block's dominance ends."""
    function, called, shown = subject
    tree = function.dominators()
    idom, inside, order = tree.idom, tree.children, _order(function.blocks)
    frontiers = {b: sorted(ends, key=order.__getitem__) for b, ends in tree.frontiers.items()}
    reached = [block for block in function.blocks if block in tree.reachable]
    above = {block: [] if block in tree.reachable else [_NO_WAY] for block in function.blocks}
    rows = {block: (named([block]), *above[block]) for block in shown}
    for block in reached:
        ends, parents = frontiers[block], [p] if (p := idom[block]) is not None else []
        above[block] += _lines("immediate dominator", parents) if parents else []
        above[block] += _lines("frontier", ends) if ends else []
        if block in rows:
            rows[block] += (named(parents), str(len(subtree(inside, block))), named(ends))
    drawn, todo = [], [function.entry]
    while todo:
        block = todo.pop()
        if block in rows:
            drawn.append(f"{'  ' * tree.depth[block]}{named([block])}")
        todo += inside[block][::-1]
    columns = ("block", "immediate dominator", "#blocks it dominates", "frontier")
    views = [
        table(f"Dominators in {called}", columns, [(*row, "", "")[:4] for row in rows.values()]),
        listing("The tree of dominators: a block dominates what stands further to the right below "
                "it", "\n".join(drawn)),
    ]  # fmt: skip
    if len(reached) <= DRAWN:
        nodes = [Node(b.name, named([b]), _lines("frontier", e) if (e := frontiers[b]) else [],
                      "" if idom[b] else "entry") for b in reached]  # fmt: skip
        arrows = [Arrow(p.name, b.name) for b in reached if (p := idom[b]) is not None]
        alt = f"The tree of dominators of {called}: {counted(len(reached), 'block')}"
        views.append(View("", figure_of(nodes, arrows, f"{alt}.", _PAGE)))
    legend = (
        "Every way to a block leads through its immediate dominator; its dominance ends at its "
        "frontier, where what it defines may need a phi."
    )
    return Overlay(legend, View(join(views[:2]).text, join(views).html), above)


def live(subject: Subject) -> Overlay:
    """The values that are needed later, where blocks begin and end."""
    function, called, shown = subject
    found = function.liveness()
    order = _order([*function.args, *function.instructions]).__getitem__
    into = {block: sorted(values, key=order) for block, values in found.live_in.items()}
    out = {block: sorted(values, key=order) for block, values in found.live_out.items()}
    rows = [(named([b]), len(into[b]), named(into[b]), len(out[b]), named(out[b]))
            for b in shown]  # fmt: skip
    note = (
        "A phi's value lives from where its block begins and is not among those live in; what a "
        "phi takes from a block is live out of that."
    )
    columns = ("block", "#in", "live in", "#out", "live out")
    return Overlay(
        "Above and below the instructions: values that are needed later.",
        table(f"Live values in {called}", columns, rows, note),
        {block: _lines("live in", values) for block, values in into.items()},
        {block: _lines("live out", values) for block, values in out.items()},
    )  # fmt: skip


def loops(subject: Subject) -> Overlay:
    """The nest of natural loops."""
    function, called, _ = subject
    found = function.loops()[::-1]  # those around others first
    inside: dict[Block, list[Block]] = {}  # the headers, from the outermost
    for loop in found:
        for block in loop.blocks:
            inside.setdefault(block, []).append(loop.header)
    order = _order(function.blocks)
    found.sort(key=lambda loop: [order[header] for header in inside[loop.header]])
    rows = [
        (
            f"{'· ' * (loop.depth - 1)}{named([loop.header])}", loop.depth, len(loop.blocks),
            named(loop.latches), named(loop.exits),
            named([loop.preheader] if loop.preheader else []),
        )
        for loop in found
    ]  # fmt: skip
    columns = ("header", "#depth", "#blocks", "latches", "exits to", "preheader")
    note = "" if found else "There is none."
    return Overlay(
        "As many frames stand around a block as loops do, at most "
        f"{_FRAMES}; it says which, the outermost first.",
        table(f"Loops in {called}", columns, rows, note),
        {block: _lines("in loop", headers) for block, headers in inside.items()},
        frames={block: min(len(headers), _FRAMES) for block, headers in inside.items()},
    )


def counts(subject: Subject, code: str, taken: Mapping[tuple[Block | None, Block], int]) -> Overlay:
    """The times that each block was begun and each edge taken while code ran."""
    function, called, shown = subject
    times = dict.fromkeys(function.blocks, 0)
    for (_, to), count in taken.items():
        times[to] += count
    edges = {(a, b): count for (a, b), count in taken.items() if a is not None}
    executed = {block: times[block] * len(block.instructions) for block in function.blocks}
    every, most = sum(executed.values()), max(times.values(), default=0)
    rows = []
    for block in shown:
        count = times[block]
        share = f"{100 * executed[block] / every:.1f} %" if every else ""
        on = (f"%{to.name} {n:,}" for (a, to), n in edges.items() if a is block)
        rows.append((named([block]), f"{count:,}", f"{executed[block]:,}", share, ", ".join(on)))
    entered = taken.get((None, function.entry), 0)
    note = (
        f"{code} called it {counted(entered, 'time')}: {every:,} instructions of this IR were "
        "executed. Calls of it that are inlined elsewhere are not counted."
    )
    columns = ("block", "#times", "#instructions executed", "#share", "went on to")
    return Overlay(
        "Numbers at arrows say how often each was taken; the bar in a block's title is as long as "
        "the block was executed often, the longest for the most.",
        table(f"Counts of {called} during {code}", columns, rows, note),
        {block: [_times(count)] for block, count in times.items()},
        taken=edges,
        shares={block: count / most for block, count in times.items() if count},
    )


def _times(count: int) -> str:
    return (
        f"executed {count:,} times"
        if count > 1
        else ("executed once" if count else "never executed")
    )


#: By the option of `%cfg` that asks for it.
ANALYSES: Mapping[str, Callable[[Subject], Overlay]] = {
    "dominators": dominators, "live": live, "loops": loops,
}  # fmt: skip
