"""The IR and the machine code of a cell's functions, each instruction with the line of source that
it comes from, whoever's that is.  Start from `Located`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from jitkernel.compiler.line_table import located
from jitkernel.errors import UsageError
from jitkernel.ir.debug_info import fields, nodes, split_location, without_attachments
from jitkernel.ir.dominators import dominators
from jitkernel.ir.instructions import Flow, flow
from jitkernel.ir.module import Entity, functions
from jitkernel.session.report.sources import Place

if TYPE_CHECKING:
    from jitkernel.compiler.records import Request
    from jitkernel.session import Session
    from jitkernel.views.asm import Instruction


class Line(NamedTuple):
    """A line as it is shown: what it comes from, None for nothing; how many loops it is in.

    `html` is its markup, where that is more than its text; `number` stands before it where the
    place's does not."""

    text: str
    place: Place | None = None
    depth: int = 0
    html: str = ""
    number: str = ""


@dataclass(frozen=True, slots=True)
class Body:
    """A function's control flow, and by block the places of its instructions."""

    flow: Flow
    places: list[list[Place | None]]

    def lines(self) -> Iterator[Line]:
        """Its blocks, one below the other."""
        depths = loop_depths(self.flow)
        for (label, texts), places, depth in zip(
            self.flow.blocks, self.places, depths, strict=True
        ):
            yield Line(f"{label}:", None, depth)
            for text, place in zip(texts, places, strict=True):
                for part in text.split("\n"):
                    yield Line("  " + part.strip(), place, depth)


class Located:
    """A cell compiled again with the lines of its sources, as its passes find it (`raw`) or leave
    it.  `request` is what is compiled, None for what the cell was made of; `shown` is the module,
    where somebody has printed it.

    Raises UsageError where the cell has no IR, CompileError.
    """

    def __init__(
        self,
        session: Session,
        number: int,
        request: Request | None = None,
        raw: bool = False,
        shown: str = "",
    ):
        stored = session.inspect.request(number)
        self._session, self._request, self._raw = session, request or stored, raw
        self._shown = shown
        self.sources, self.rows = session.inspect.places.lines.places(number)

    @cached_property
    def text(self) -> str:
        """The module, with locations."""
        if self._shown:
            return self._shown
        pool = self._session.inspect.engine.pool
        request = located(self._request, bodies=True) or self._request
        return pool.printed(request, optimised=not self._raw)

    @cached_property
    def functions(self) -> dict[str, Entity]:
        """The functions that the module defines then, by name."""
        return {found.name: found for found in functions(self.text, "define")}

    @cached_property
    def _nodes(self) -> dict[str, str]:
        return nodes(self.text)

    def body(self, name: str) -> Body:
        """The control flow of a function.  Raises UsageError where it has no body then."""
        if name not in self.functions:
            called = self._session.inspect.program.called(name)
            raise UsageError(f"{called} has no body whose control flow could be shown")
        found, known = flow(self.functions[name]), dict[str, "Place | None"]()
        blocks, places = [], []
        for label, texts in found.blocks:
            plain, at = [], []
            for text in texts:
                line, node = split_location(text)
                plain.append(without_attachments(line))
                if node not in known:
                    known[node] = self._place(node)
                at.append(known[node])
            blocks.append((label, plain))
            places.append(at)
        return Body(Flow(blocks, found.edges), places)

    def _place(self, node: str) -> Place | None:
        line = int(fields(self._nodes.get(node, "")).get("line", "0")) if node else 0
        return self.sources.find(line) if self.sources is not None and line else None

    def machine(
        self, found: Sequence[Instruction], shown: Callable[[Instruction], str]
    ) -> list[Line]:
        """Machine code that was decoded with `rows`, labels on lines of their own."""
        depths = _jump_depths(found)
        lines = []
        for i, depth in zip(found, depths, strict=True):
            if i.label:
                lines.append(Line(f"{i.label}:", None, depth))
            place = self.sources.find(i.line) if self.sources is not None and i.line else None
            lines.append(Line(shown(i), place, depth))
        return lines


def loop_depths(flow: Flow) -> list[int]:
    """The number of natural loops that each block is in (Aho, Lam, Sethi, Ullman: Compilers,
    9.6.6): of an edge to a block that dominates its beginning."""
    count = len(flow.blocks)
    after: list[list[int]] = [[] for _ in range(count)]
    before: list[list[int]] = [[] for _ in range(count)]
    for a, b, _ in flow.edges:
        after[a].append(b)
        before[b].append(a)
    above = dominators(after)
    loops: dict[int, set[int]] = {}
    for a, b, _ in flow.edges:
        if above[a] >= 0 and _dominates(above, b, a):
            inside, todo = loops.setdefault(b, {b}), [a]
            while todo:
                node = todo.pop()
                if node not in inside:
                    inside.add(node)
                    todo += [n for n in before[node] if above[n] >= 0]
    depths = [0] * count
    for inside in loops.values():
        for node in inside:
            depths[node] += 1
    return depths


def _dominates(above: Sequence[int], node: int, other: int) -> bool:
    while other != node and above[other] != other:
        other = above[other]
    return other == node


def _jump_depths(found: Sequence[Instruction]) -> list[int]:
    """The number of loops that each instruction is in, as far as jumps back tell."""
    index = {i.address: number for number, i in enumerate(found)}
    change = [0] * (len(found) + 1)
    ends: dict[int, int] = {}
    for number, i in enumerate(found):
        start = index.get(i.target, number + 1)
        if i.mnemonic.startswith("j") and start <= number:
            ends[start] = max(ends.get(start, 0), number)
    for start, end in ends.items():
        change[start] += 1
        change[end + 1] -= 1
    depths, now = [], 0
    for step in change[:-1]:
        now += step
        depths.append(now)
    return depths
