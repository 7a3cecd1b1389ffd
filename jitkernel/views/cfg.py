"""Control flow of a function: its blocks and where each can go next.  Start from `cfg`.

Instructions and the lines of source that they come from stand whole in their blocks; the picture is
as large as that takes.  Of a function with more blocks than anybody can look at, what a block
dominates is one box, which can be opened.  What analyses tell of blocks stands in them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from os.path import basename
from typing import TYPE_CHECKING, NamedTuple

from jitkernel.errors import UsageError
from jitkernel.ir.counted import taken
from jitkernel.ir.model import Block
from jitkernel.ir.module import global_values
from jitkernel.ir.names import bare
from jitkernel.ir.text import split_at_commas
from jitkernel.session.report.sources import Place
from jitkernel.views.asm import meant
from jitkernel.views.diagram import Arrow, Node, figure_of, size_of
from jitkernel.views.graph import back_edges, links, within
from jitkernel.views.here import block_marks
from jitkernel.views.lines import Located
from jitkernel.views.outline import outline, subtree
from jitkernel.views.overlays import ANALYSES, DRAWN, Edge, Overlay, Subject, counts
from jitkernel.views.room import Room
from jitkernel.views.view import View, folding, join, listing, paragraph, prose, table
from jitkernel.wording import counted, did_you_mean

if TYPE_CHECKING:
    from jitkernel.session import Session

_LISTED = 3000  # instructions
_LARGEST = 120_000  # bytes of HTML
_AROUND = 8_000  # of what is neither boxes nor tables: the script, sentences
_EDGE, _CLOSED = 90, 500  # of an arrow, and of a box of several blocks
_LONG, _SHORT = 4_000, 250  # letters of a block, and at least, where not all are drawn whole
_FEW = 24  # boxes, where those that there are take too much
_FIRST = 10  # times as many are of the first
_LINE = 25  # and of what stands around a line
_LEAST = 10_000  # bytes of the boxes of a picture, whatever else there is
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


class Told(NamedTuple):
    """Words on blocks beside their instructions: the `analyses` of these names (see
    `ANALYSES`), and how often each is executed while `code` runs, of a `language`: without it, of
    the cell's own, but for a call line of IR (`@f(3)`)."""

    analyses: Sequence[str] = ()
    code: str = ""
    language: str = ""


def cfg(
    session: Session,
    target: int | str | None = None,
    raw: bool = False,
    level: int | None = None,
    part: Part | None = None,
    told: Told | None = None,
) -> View:
    """Control flow of a function, or of each function of a cell, as it was compiled.

    `raw`: as it was written, before any pass.  `level`: as this optimisation level would have it.
    All blocks are told, and drawn but where a `part` is asked for.  Where those are many, or make
    too large a page, what a block dominates is one box.  While the program stands: of the code that
    runs, `=>` marking the block where the frame that is looked at goes on, `->` where others do.
    What is `told` of blocks stands in them and below; code that is to be counted is run once, as in
    a call that is timed.
    Raises UsageError where there is no IR, no body or no such block, and what that code raises.
    """
    cell, _ = session.inspect.cell_of(target)
    request = session.inspect.request(cell.number)
    part, told = part or Part(), told or Told()
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
    ir = f"%ir {{}}{'' if raw else ' --opt'}" if level is None else ""
    graphs = [
        _Graph(session, located, name, cell.number, marks.get(name, {}), ir) for name in names
    ]
    if part.label:
        graphs = _with_block(session, graphs, part.label)
    found: dict[str, bytes] = {}
    if told.code:
        of_cell = session.inspect.program.state.notes.language_of(cell.number)
        own = "" if told.code.lstrip().startswith("@") else told.language or of_cell
        found = session.frontend.count_edges(
            cell.number, located.emitted, [graph.name for graph in graphs], told.code, own or "llvm"
        )
    options = request.options
    pipeline = f"with {options.passes}" if options.passes else f"at -O{options.opt_level}"
    how = "as written" if raw else f"as compiled {pipeline}"
    if marks:
        how = "as it is run now"
    views: list[View] = []
    size = 0
    for graph in graphs:
        views.append(graph.view(how, part, told, found.get(graph.name, b"")))
        size += len(views[-1].html)
        if size > _LARGEST and len(views) > 1:
            views.pop()
            break
    if left := [graph.called for graph in graphs[len(views) :]]:
        views.append(paragraph(f"Not shown here, %cfg NAME draws one: {', '.join(left)}."))
    return join(views)


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
    """A function's blocks and edges; `marks` are those of blocks, by number, and `ir` is the
    command that shows what is in them, of a name, "" where there is none."""

    def __init__(
        self,
        session: Session,
        located: Located,
        name: str,
        cell: int,
        marks: Mapping[int, str],
        ir: str = "",
    ):
        self._session, self._located, self.name = session, located, name
        self.called = session.inspect.program.called(name, cell)
        self._ir = ir.format(self.called)
        body = located.body(name)
        self.function, self.blocks = body.function, body.function.blocks
        self.texts = dict(zip(self.blocks, body.texts, strict=True))
        self.places = dict(zip(self.blocks, body.places, strict=True))
        self._marks = {self.blocks[number]: mark for number, mark in marks.items()}
        self.labels = {block.name: block for block in self.blocks}
        self.arrows = self._merged()
        self.back = {(a, loop.header) for loop in self.function.loops() for a in loop.latches}
        self._circles = len(back_edges([self.function.entry], self.arrows) - self.back)
        self.kinds = {stop: "loop" for _, stop in self.back} | {self.function.entry: "entry"}
        self.overlays: list[Overlay] = []
        self._is_cut, self._long, self._start = False, float(_LONG), self.function.entry

    def _merged(self) -> dict[Edge, str]:
        """Edges between two blocks as one, with all their letters."""
        found: dict[Edge, list[str]] = {}
        entries: dict[str, str] | None = None
        for block in self.blocks:
            indirect = block.terminator.opcode == "indirectbr"
            if indirect and entries is None:
                entries = _entries(self._located, self.name)
            for stop, letter in zip(block.edges, block.conditions, strict=True):
                if indirect and entries:
                    letter = entries.get(stop.name, "")
                found.setdefault((block, stop), []).append(letter)
        return {edge: ", ".join(filter(None, letters)) for edge, letters in found.items()}

    def _told(
        self, told: Told, counted_: bytes, boxes: Sequence[Sequence[Block]]
    ) -> Iterator[Overlay]:
        """The words on blocks; of many, on those that boxes begin with.  `counted_` is what was
        counted."""
        shown: Sequence[Block] = self.blocks
        if len(shown) > _ROWS:
            first = {box[0] for box in boxes[: _ROWS // (1 + len(told.analyses))]}
            shown = [block for block in shown if block in first]
        subject = Subject(self.function, self.called, shown)
        for name in told.analyses:
            yield ANALYSES[name](subject)
        if counted_:
            yield counts(subject, told.code, taken(self.function, counted_))

    # -- words -----------------------------------------------------------------------------------

    def view(self, how: str, part: Part, told: Told, counted_: bytes) -> View:
        """The picture, and the same in words, with what is `told` of blocks."""
        count = sum(map(len, self.texts.values()))
        title = f"Control flow of {self.called}, {how}"
        said = (
            f"{counted(len(self.blocks), 'block')}, {counted(len(self.arrows), 'edge')}, "
            f"{counted(len(self.back), 'loop edge')}, {counted(count, 'instruction')}"
        )
        room = float(_LARGEST - _AROUND)
        if len(self.blocks) <= _ROWS:
            room -= len(self._table(title, said, ()).html)
        while True:
            boxes, words = self._boxes(part, max(room, _LEAST))
            self.overlays = [*self._told(told, counted_, boxes)]
            made = self._page(boxes, title, said, words, count)
            over = len(made.html) - _LARGEST
            if over <= 0 or room <= _LEAST:
                return made
            room -= over + room / 16  # tables of what is told of blocks, or long ways of arrows

    def _page(
        self, boxes: Sequence[Sequence[Block]], title: str, said: str, words: str, count: int
    ) -> View:
        image = self._picture(boxes, f"{title}: {said}. {words}".strip())
        shown = self._table(title, said, boxes)
        legend = " ".join([
            "T and F mark where a condition that holds, or does not, leads; dashed arrows lead "
            "back; in brown, what the instructions below come from.",
            *(overlay.legend for overlay in self.overlays),
        ])  # fmt: skip
        html = f"{image}<p>{prose(f'{legend} {words}'.strip())}</p>{shown.html}"
        text = shown.text + (f"\n{words}" if words else "")
        if self.overlays:
            more = join([overlay.view for overlay in self.overlays])
            html, text = html + more.html, f"{text}\n\n{more.text}"
        code = listing("", "\n".join(self._code()), Room(self._ir, lines=_LISTED))
        rest = f"The {count} instructions are not listed"
        rest += f": {self._ir} shows them." if self._ir else "."
        if len(self.blocks) > DRAWN:
            return View(f"{text}\n{rest}", f"{html}<p>{prose(rest)}</p>")
        # The picture has them whole: the list need not make the page too long.
        if len(html) + len(code.html) <= _LARGEST:
            html += folding(counted(count, "instruction"), code).html
        elif self._is_cut:
            html += f"<p>{prose(rest)}</p>"
        return View(f"{text}\n\n{code.text}", html)

    def _code(self) -> list[str]:
        """The blocks as text, what is told of them as comments."""
        lines = []
        for block in self.blocks:
            lines.append(f"{self._named(block)}:")
            lines += [f"  ; {line}" for line in self._above(block)]
            lines += [f"  {text}" for text in self.texts[block]]
            lines += [f"  ; {line}" for line in self._below(block)]
        return lines

    def _above(self, block: Block) -> list[str]:
        return [line for overlay in self.overlays for line in overlay.above.get(block, ())]

    def _below(self, block: Block) -> list[str]:
        return [line for overlay in self.overlays for line in overlay.below.get(block, ())]

    def _named(self, block: Block) -> str:
        """A block as it is written, with its mark."""
        return f"{self._marks.get(block, '')} %{block.name}".lstrip()

    def _table(self, title: str, said: str, boxes: Sequence[Sequence[Block]]) -> View:
        to: dict[Block, list[str]] = {block: [] for block in self.blocks}
        come: dict[Block, list[str]] = {block: [] for block in self.blocks}
        for (a, b), text in self.arrows.items():
            mark = " (back)" if (a, b) in self.back else ""
            to[a].append(f"{f'{text}: ' if text else ''}%{b.name}{mark}")
            come[b].append(f"%{a.name}")
        rows: list[tuple[object, ...]] = []
        note = f"{said}."
        if self.back:
            note += " A loop edge, marked (back), leads to the block that its loop begins with."
        if self._circles:
            note += (
                f" {counted(self._circles, 'other edge')} to a block that was on the way there: "
                "what can be entered in several places is no loop."
            )
        if len(self.blocks) <= _ROWS:
            for block, lines in self.texts.items():
                on, kind = ", ".join(to[block]) or lines[-1], self.kinds.get(block, "")
                rows.append((self._named(block), len(lines), kind, on, ", ".join(come[block])))
            columns = ("block", "#instructions", "kind", "goes to", "comes from")
            return table(title, columns, rows, note)
        for box in boxes[:_ROWS]:
            count = sum(len(self.texts[block]) for block in box)
            rows.append((f"%{box[0].name}", len(box), count, self._case(box[0]),
                         self._first_line(box)))  # fmt: skip
        if len(boxes) > _ROWS:
            note += f" {len(boxes) - _ROWS} more boxes are not listed."
        note += " The table lists the boxes of the picture; --block NAME opens one."
        return table(
            title, ("block", "#blocks", "#instructions", "case", "begins with"), rows, note
        )

    # -- what is drawn ---------------------------------------------------------------------------

    def _boxes(self, part: Part, room: float) -> tuple[list[list[Block]], str]:
        """Blocks by the box that they are drawn in, so that boxes take at most so many bytes, and a
        sentence on it where not all have one of their own."""
        count, entry = len(self.blocks), self.function.entry
        self._long = float(_LONG)
        self._start = start = self.labels[part.label] if part.label else entry
        leaving, known = (
            Counter(a for a, _ in self.arrows),
            dict[tuple[Block, bool, float], float](),
        )

        def size(block: Block) -> float:
            key = block, self._is_cut, self._long
            if key not in known:
                known[key] = size_of(self._node("", [block])) + _EDGE * leaving[block]
            return known[key]

        if part.around or part.depth is not None:
            depth = _NEAR if part.depth is None else part.depth
            while True:
                near = within([start], links(self.arrows), depth)
                kept = [block for block in self.blocks if block in near][:DRAWN]
                self._is_cut = self._too_much(kept, size, room)
                if not self._is_cut or not depth or sum(map(size, kept)) <= room:
                    break
                if depth > 1:
                    depth -= 1
                elif self._long > _SHORT:
                    self._long /= 2
                else:
                    break
            return [[block] for block in kept], (
                f"{len(kept)} of {count} blocks are drawn, those nearest to "
                f"%{start.name}; --around %block and --depth N draw others."
            )
        tree = self.function.dominators().children
        below = subtree(tree, start)
        self._is_cut = self._too_much(below, size, room)
        most = DRAWN
        while True:
            boxes = outline(tree, start, most, size, room, _CLOSED)
            taken = sum(size(box[0]) if len(box) == 1 else _CLOSED for box in boxes)
            if not self._is_cut or taken <= room or most <= _FEW:
                break
            if self._long > _SHORT:
                self._long /= 2
            else:
                most -= most // 4
        if start is entry:  # blocks that no way leads to, too
            reached = {*below}
            boxes += [[block] for block in self.blocks if block not in reached]
        words, inside = "", count
        if start is not entry:
            inside = len(below)
            words = f"{inside} of {count} blocks are drawn, those that %{part.label} dominates."
        folded = sum(len(box) > 1 for box in boxes)
        if folded:
            words += (
                f" {folded} {'boxes have' if folded > 1 else 'box has'} more than one block: all "
                "that the first of them dominates; --block NAME opens one."
            )
        drawn, whole = sum(map(len, boxes[:most])), inside
        if drawn < whole:
            words += f" {whole - drawn} blocks are not drawn: for a picture there are too many."
        return boxes[:most], words.strip()

    def _too_much(
        self, blocks: Sequence[Block], size: Callable[[Block], float], room: float
    ) -> bool:
        """True if blocks, drawn whole, take more than the room."""
        self._is_cut, taken = False, 0.0
        return any((taken := taken + size(block)) > room for block in blocks)

    def _picture(self, boxes: Sequence[Sequence[Block]], alt: str) -> str:
        box_of = {block: str(number) for number, box in enumerate(boxes) for block in box}
        first = {str(number): box[0] for number, box in enumerate(boxes)}
        taken_ = dict(chain.from_iterable(o.taken.items() for o in self.overlays))
        many = any(len(box) > 1 for box in boxes)
        letters: dict[tuple[str, str], list[str]] = {}
        times: dict[tuple[str, str], int] = {}
        for (a, b), text in self.arrows.items():
            start, stop = box_of.get(a, f"-{a.name}"), box_of.get(b, f"-{b.name}")
            if start == stop and b is not first.get(start):
                continue
            is_folded = start in first and len(boxes[int(start)]) > 1
            letters.setdefault((start, stop), []).append("" if is_folded else text)
            times[start, stop] = times.get((start, stop), 0) + taken_.get((a, b), 0)
        arrows = []
        for edge, texts in letters.items():
            text = ", ".join(dict.fromkeys(filter(None, texts)))
            if many and text not in ("T", "F"):  # the box of a case says which it is
                text = ""
            if taken_:
                text = f"{text} {times[edge]:,}×".lstrip()
            arrows.append(Arrow(*edge, text))
        nodes = [self._node(str(number), box) for number, box in enumerate(boxes)]
        return figure_of(nodes, arrows, alt, _PAGE if many else float("inf"))

    def _node(self, key: str, box: Sequence[Block]) -> Node:
        first = box[0]
        kind = self.kinds.get(first, "")
        title = f"%{first.name}" + (f" ({kind})" if kind else "")
        marked = next((self._marks[block] for block in box if block in self._marks), "")
        title, mark = f"{marked} {title}".lstrip(), 0 if marked == "=>" else -1
        frames = max((o.frames.get(first, 0) for o in self.overlays), default=0)
        share = max((o.shares.get(first, 0.0) for o in self.overlays), default=0.0)
        lines = self._above(first)
        if len(box) > 1:
            count = sum(len(self.texts[block]) for block in box)
            lines += [self._case(first), self._first_line(box)]
            lines += [f"{counted(len(box), 'block')}, {counted(count, 'instruction')}"]
            kept = [line for line in lines if line]
            return Node(key, title, kept, kind, (), mark, frames, share)
        source = []
        before: Place | None = None
        for text, place in zip(self.texts[first], self.places[first], strict=True):
            if place is not None and place != before and (words := self._line(place)):
                source.append(len(lines))
                lines.append(words)
                before = place
            lines += [" ".join(line.split()) for line in text.split("\n")]
        if self._is_cut:
            room = self._long * (_FIRST if first is self._start else 1)
            most = bisect_left([*accumulate(len(line) + _LINE for line in lines)], room)
            if most < len(lines) - 1:
                lines[most:] = [f"… {len(lines) - most} more; --block {first.name} shows them"]
                source = [number for number in source if number < most]
        return Node(key, title, lines + self._below(first), kind, source, mark, frames, share)

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

    def _first_line(self, box: Sequence[Block]) -> str:
        places = (place for block in box for place in self.places[block])
        lines = (self._line(place) for place in places if place is not None)
        return next(filter(None, lines), "")

    def _case(self, block: Block) -> str:
        """The value that leads to a block from the one that dispatches to it: `case 12`."""
        found = [text for (_, b), text in self.arrows.items() if b is block and text]
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
