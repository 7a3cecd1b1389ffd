"""Control flow of a function: its blocks and where each can go next.  Start from `cfg`.

Instructions and the lines of source that they come from stand whole in their blocks; the picture is
as large as that takes.  Of a function with more blocks than anybody can look at, what a block
dominates is one box, which can be opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os.path import basename
from typing import TYPE_CHECKING, NamedTuple

from jitkernel.errors import UsageError
from jitkernel.ir.module import global_values
from jitkernel.ir.names import bare
from jitkernel.ir.text import split_at_commas
from jitkernel.session.report.sources import Place
from jitkernel.views.asm import meant
from jitkernel.views.diagram import Arrow, Node, figure_of
from jitkernel.views.diff import clip
from jitkernel.views.graph import back_edges, links, within
from jitkernel.views.here import block_marks
from jitkernel.views.lines import Body, Located
from jitkernel.views.outline import children, outline, subtree
from jitkernel.views.view import View, folding, join, listing, prose, table
from jitkernel.wording import counted, did_you_mean

if TYPE_CHECKING:
    from jitkernel.session import Session

LISTED = 3000  # instructions
DRAWN = 120  # boxes
_LARGEST = 120_000  # bytes of HTML
_ROWS = 120  # blocks in the table
_PAGE = 3000.0  # pixels of a layer of folded boxes
_NEAR = 2  # edges from the block that is asked for


class Part(NamedTuple):
    """The part of a function that is drawn: blocks that are at most `depth` edges away from the one
    `around` (the entry without it), or the `block` and what it dominates."""

    around: str = ""
    depth: int | None = None
    block: str = ""

    @property
    def label(self) -> str:
        return (self.around or self.block).lstrip("%")


def cfg(
    session: Session,
    target: int | str | None = None,
    raw: bool = False,
    level: int | None = None,
    part: Part | None = None,
) -> View:
    """Control flow of a function, or of each function of a cell, as it was compiled.

    `raw`: as it was written, before any pass.  `level`: as this optimisation level would have it.
    All blocks are told, and drawn but where a `part` is asked for.  Where those are many, what a
    block dominates is one box.  While the program stands: of the code that runs, `=>` marking the
    block where the frame that is looked at goes on, `->` where others do.
    Raises UsageError where there is no IR, no body or no such block.
    """
    cell, _ = session.inspect.cell_of(target)
    request = session.inspect.request(cell.number)
    part = part or Part()
    if part.depth is not None and part.depth < 0:
        raise UsageError("--depth is a number of edges, 0 or more")
    if part.block and (part.around or part.depth is not None):
        raise UsageError("--block draws what a block dominates; --around and --depth what is near")
    if level is not None:
        request = request._replace(options=request.options._replace(opt_level=level, passes=""))
    ordinary = level is None and not raw
    shown, marks = block_marks(session, cell.number) if ordinary else ("", {})
    located = Located(session, cell.number, request, raw, shown)
    names = [bare(target)] if isinstance(target, str) else list(located.functions)
    if any(name not in located.functions for name in names) or not names:
        raise UsageError(
            f"{meant(session, target, cell)} has no body whose control flow could be shown"
        )
    graphs = [_Graph(session, located, name, cell.number, marks.get(name, {})) for name in names]
    if part.label:
        graphs = _with_block(session, graphs, part.label)
    options = request.options
    pipeline = f"with {options.passes}" if options.passes else f"at -O{options.opt_level}"
    how = "as written" if raw else f"as compiled {pipeline}"
    if marks:
        how = "as it is run now"
    return join([graph.view(how, part) for graph in graphs])


def _with_block(session: Session, graphs: list[_Graph], label: str) -> list[_Graph]:
    """The functions that have the block.  Raises UsageError with the nearest label."""
    found = [graph for graph in graphs if label in graph.labels]
    if not found:
        known = [own for graph in graphs for own in graph.labels]
        words = did_you_mean(label, known, "%{}".format)
        where = ", ".join(session.inspect.program.called(graph.name) for graph in graphs)
        raise UsageError(f"there is no block %{label} in {where}{words}")
    return found


class _Graph:
    """A function's blocks and edges; `marks` are those of blocks, by number."""

    def __init__(
        self, session: Session, located: Located, name: str, cell: int, marks: Mapping[int, str]
    ):
        self._session, self._located, self.name, self._marks = session, located, name, marks
        self.called = session.inspect.program.called(name, cell)
        self.body: Body = located.body(name)
        self.blocks = self.body.flow.blocks
        self.labels = [label for label, _ in self.blocks]
        self.arrows = self._merged()
        self.back = back_edges([0], self.arrows)
        loops = {stop for _, stop in self.back}
        self.kinds = ["loop" if index in loops else "" for index in range(len(self.labels))]
        self.kinds[0] = "entry"

    def _merged(self) -> dict[tuple[int, int], str]:
        """Edges between two blocks as one, with all their letters."""
        found: dict[tuple[int, int], list[str]] = {}
        entries = _entries(self._located, self.name) if self._is_indirect() else {}
        for start, stop, letter in self.body.flow.edges:
            if not letter and self.blocks[start][1][-1].startswith("indirectbr"):
                letter = entries.get(self.labels[stop], "")
            found.setdefault((start, stop), []).append(letter)
        return {edge: ", ".join(filter(None, letters)) for edge, letters in found.items()}

    def _is_indirect(self) -> bool:
        return any(lines[-1].startswith("indirectbr") for _, lines in self.blocks)

    # -- words -----------------------------------------------------------------------------------

    def view(self, how: str, part: Part) -> View:
        """The picture, and the same in words."""
        count = sum(len(lines) for _, lines in self.blocks)
        title = f"Control flow of {self.called}, {how}"
        said = (
            f"{counted(len(self.labels), 'block')}, {counted(len(self.arrows), 'edge')}, "
            f"{counted(len(self.back), 'loop edge')}, {counted(count, 'instruction')}"
        )
        boxes, words = self._boxes(part)
        image = self._picture(boxes, f"{title}: {said}. {words}".strip())
        shown = self._table(title, said, boxes)
        body = [f"  {line}" if index else line for number, (label, lines) in enumerate(self.blocks)
                for index, line in enumerate((f"{self._named(number)}:", *lines))]  # fmt: skip
        legend = (
            "T and F mark where a condition that holds, or does not, leads; dashed arrows lead "
            "back; in brown, what the instructions below come from."
        )
        html = f"{image}<p>{prose(f'{legend} {words}'.strip())}</p>{shown.html}"
        text = shown.text + (f"\n{words}" if words else "")
        code = listing("", "\n".join(clip(body, LISTED, ": %ir shows them")))
        more = f"The {count} instructions are not listed: %ir {self.called} --opt shows them."
        if len(self.blocks) > DRAWN:
            return View(f"{text}\n{more}", f"{html}<p>{prose(more)}</p>")
        # The picture has them whole: the list need not make the page too long.
        if len(html) + len(code.html) <= _LARGEST:
            html += folding(counted(count, "instruction"), code).html
        return View(f"{text}\n\n{code.text}", html)

    def _named(self, number: int) -> str:
        """A block as it is written, with its mark."""
        return f"{self._marks.get(number, '')} %{self.labels[number]}".lstrip()

    def _table(self, title: str, said: str, boxes: Sequence[Sequence[int]]) -> View:
        to: list[list[str]] = [[] for _ in self.labels]
        come: list[list[str]] = [[] for _ in self.labels]
        for (a, b), text in self.arrows.items():
            mark = " (back)" if (a, b) in self.back else ""
            to[a].append(f"{f'{text}: ' if text else ''}%{self.labels[b]}{mark}")
            come[b].append(f"%{self.labels[a]}")
        rows: list[tuple[object, ...]] = []
        note = f"{said}."
        if self.back:
            note += " A loop edge, marked (back), leads to the block that its loop begins with."
        if len(self.labels) <= _ROWS:
            for index, (_, lines) in enumerate(self.blocks):
                on = ", ".join(to[index]) or lines[-1]
                rows.append(
                    (self._named(index), len(lines), self.kinds[index], on, ", ".join(come[index]))
                )
            columns = ("block", "#instructions", "kind", "goes to", "comes from")
            return table(title, columns, rows, note)
        for box in boxes[:_ROWS]:
            lines_ = sum(len(self.blocks[index][1]) for index in box)
            rows.append((f"%{self.labels[box[0]]}", len(box), lines_, self._case(box[0]),
                         self._first_line(box)))  # fmt: skip
        if len(boxes) > _ROWS:
            note += f" {len(boxes) - _ROWS} more boxes are not listed."
        note += " The table lists the boxes of the picture; --block NAME opens one."
        return table(
            title, ("block", "#blocks", "#instructions", "case", "begins with"), rows, note
        )

    # -- what is drawn ---------------------------------------------------------------------------

    def _boxes(self, part: Part) -> tuple[list[list[int]], str]:
        """Blocks by the box that they are drawn in, and a sentence on it where not all have one of
        their own."""
        count = len(self.blocks)
        start = self.labels.index(part.label) if part.label else 0
        if part.around or part.depth is not None:
            depth = _NEAR if part.depth is None else part.depth
            kept = sorted(within([start], links(self.arrows), depth))
            return [[n] for n in kept[:DRAWN]], (
                f"{min(len(kept), DRAWN)} of {count} blocks are drawn, those nearest to "
                f"%{self.labels[start]}; --around %block and --depth N draw others."
            )
        after: list[list[int]] = [[] for _ in self.blocks]
        for a, b in self.arrows:
            after[a].append(b)
        tree = children(after)
        boxes = outline(tree, start, DRAWN)
        if not start:  # blocks that no way leads to, too
            reached = {*subtree(tree, 0)}
            boxes += [[n] for n in range(count) if n not in reached]
        words, inside = "", count
        if start:
            inside = len(subtree(tree, start))
            words = f"{inside} of {count} blocks are drawn, those that %{part.label} dominates."
        folded = sum(len(box) > 1 for box in boxes)
        if folded:
            words += (
                f" {folded} {'boxes have' if folded > 1 else 'box has'} more than one block: all "
                "that the first of them dominates; --block NAME opens one."
            )
        drawn, whole = sum(map(len, boxes[:DRAWN])), inside
        if drawn < whole:
            words += f" {whole - drawn} blocks are not drawn: for a picture there are too many."
        return boxes[:DRAWN], words.strip()

    def _picture(self, boxes: Sequence[Sequence[int]], alt: str) -> str:
        box_of = {index: number for number, box in enumerate(boxes) for index in box}
        edges: dict[tuple[int, int], list[str]] = {}
        for (a, b), text in self.arrows.items():
            start, stop = box_of.get(a, -1 - a), box_of.get(b, -1 - b)
            if start == stop and b != boxes[start][0]:
                continue
            if start >= 0 and len(boxes[start]) > 1:
                text = ""
            edges.setdefault((start, stop), []).append(text)
        arrows = []
        many = any(len(box) > 1 for box in boxes)
        for (a, b), texts in edges.items():
            text = ", ".join(dict.fromkeys(filter(None, texts)))
            # The box of a case says which it is.
            arrows.append(Arrow(str(a), str(b), "" if many and text not in ("T", "F") else text))
        nodes = [self._node(number, box) for number, box in enumerate(boxes)]
        return figure_of(nodes, arrows, alt, _PAGE if many else float("inf"))

    def _node(self, number: int, box: Sequence[int]) -> Node:
        first = box[0]
        kind = self.kinds[first]
        title = f"%{self.labels[first]}" + (f" ({kind})" if kind else "")
        marked = next((self._marks[index] for index in box if index in self._marks), "")
        title, mark = f"{marked} {title}".lstrip(), 0 if marked == "=>" else -1
        if len(box) > 1:
            lines = [self._case(first), self._first_line(box)]
            count = sum(len(self.blocks[index][1]) for index in box)
            lines += [f"{counted(len(box), 'block')}, {counted(count, 'instruction')}"]
            kept = [line for line in lines if line]
            return Node(str(number), title, kept, kind, mark=mark)
        lines, source = [], []
        before: Place | None = None
        for text, place in zip(self.blocks[first][1], self.body.places[first], strict=True):
            if place is not None and place != before and (words := self._line(place)):
                source.append(len(lines))
                lines.append(words)
                before = place
            lines += [" ".join(line.split()) for line in text.split("\n")]
        return Node(str(number), title, lines, kind, source, mark)

    def _line(self, place: Place) -> str:
        """`12: r = add(r, i);`, of another text with its name; nothing of IR, which says the same
        as the instruction."""
        session, sources = self._session, self._located.sources
        if sources is None or not (
            place.file or session.inspect.program.state.notes.language_of(place.cell)
        ):
            return ""
        text = " ".join(sources.text(place).split())
        own = place.cell == sources.own.cell
        where = basename(place.file) or ("" if own else f"cell {place.cell}")
        return f"{f'{where}:' if where else ''}{place.line}: {text}"

    def _first_line(self, box: Sequence[int]) -> str:
        places = (place for index in box for place in self.body.places[index])
        lines = (self._line(place) for place in places if place is not None)
        return next(filter(None, lines), "")

    def _case(self, block: int) -> str:
        """The value that leads to a block from the one that dispatches to it: `case 12`."""
        found = [text for (_, b), text in self.arrows.items() if b == block and text]
        values = [text for text in found if text not in ("T", "F")]
        return f"case {values[0]}" if values else ""


def _entries(located: Located, name: str) -> dict[str, str]:
    """By label, the places that a table of blocks has it at: `12` of an interpreter's."""
    found: dict[str, list[str]] = {}
    for value in global_values(located.text):
        if "blockaddress" not in value.text:
            continue
        _, _, listed = value.text.partition("] [")  # behind the type
        for number, item in enumerate(split_at_commas(listed)):
            _, _, rest = item.partition("blockaddress(")
            function, _, label = rest.partition(",")
            if bare(function.strip()) == name:
                found.setdefault(bare(label.partition(")")[0].strip().lstrip("%")), []).append(
                    str(number)
                )
    return {label: ", ".join(numbers) for label, numbers in found.items()}
