"""The IR and the machine code of a cell's functions, each instruction with the line of source that
it comes from, whoever's that is.  Start from `Located`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from jitkernel.compiler.line_table import located
from jitkernel.compiler.machine_ir import blocks_of, emitted
from jitkernel.errors import UsageError
from jitkernel.ir.debug_info import fields, nodes, split_location, without_attachments
from jitkernel.ir.model import Function
from jitkernel.ir.model.module import function_of
from jitkernel.ir.module import Entity, functions
from jitkernel.linker.disassembly import Instruction, loop_depths
from jitkernel.regex import regex
from jitkernel.session.report.sources import Place, Sources

if TYPE_CHECKING:
    from jitkernel.compiler.machine_ir import Stage
    from jitkernel.compiler.records import Request
    from jitkernel.session import Session


class Line(NamedTuple):
    """A line as it is shown: what it comes from, None for nothing; how many loops it is in.

    `html` is its markup, where that is more than its text; `number` stands before it where the
    place's does not."""

    text: str
    place: Place | None = None
    depth: int = 0
    html: str = ""
    number: str = ""


_LABEL = regex(r"(?m)^[ \t]*([-\w.$]+):")
#: A block of IR, or the machine code that was made of it: its label and its lines.
Block = tuple[str, list[Line]]


@dataclass(frozen=True, slots=True)
class Body:
    """A function, and by block the texts of its instructions, without what is attached to them,
    and their places."""

    function: Function
    texts: list[list[str]]
    places: list[list[Place | None]]

    def blocks(self) -> Iterator[Block]:
        """Its blocks, the label on a line of its own."""
        depth = {b: loop.depth for loop in self.function.loops()[::-1] for b in loop.blocks}
        for block, texts, places in zip(self.function.blocks, self.texts, self.places, strict=True):
            inside = depth.get(block, 0)
            lines = [Line(f"{block.name}:", None, inside)]
            for text, place in zip(texts, places, strict=True):
                lines += [Line(f" {part.strip()}", place, inside) for part in text.split("\n")]
            yield block.name, lines


def labels(session: Session, target: int | str | None) -> list[str]:
    """The labels of the blocks of a function or of a cell's functions, in order: as its passes left
    it, if that was looked at last, else as the compiler was given it.  Nothing is compiled.  Raises
    JitError where there is none."""
    cell, names = session.inspect.cell_of(target)
    text = session.inspect.places.lines.last(cell.number) or session.inspect.module(cell.number)
    found = (f.text for f in functions(text, "define") if f.name in names)
    return [*dict.fromkeys(label for body in found for label in _LABEL.findall(body))]


class Located:
    """A cell compiled again with the lines of its sources, as its passes find it (`raw`) or leave
    it.  `request` is what is compiled, None for what the cell was made of; `shown` is the module,
    where somebody has printed it.  Of code, lines are told of the function `only`, or of all.

    Raises UsageError where the cell has no IR, CompileError.
    """

    def __init__(
        self,
        session: Session,
        number: int,
        request: Request | None = None,
        raw: bool = False,
        shown: str = "",
        only: str = "",
    ):
        stored = session.inspect.request(number)
        self._session, self._request, self._raw = session, request or stored, raw
        self._number, self._shown, self._only = number, shown, only
        self._own = request is None and not raw

    @cached_property
    def text(self) -> str:
        """The module, with locations."""
        if self._shown:
            return self._shown
        if self._own:
            return self._session.inspect.places.lines.printed(self._number)
        pool = self._session.inspect.engine.pool
        request = located(self._request) or self._request
        return pool.printed(request, optimised=not self._raw)

    @property
    def emitted(self) -> Request:
        """The request for the code that this module becomes, as it is."""
        return self._request._replace(source=self.text)

    @cached_property
    def sources(self) -> Sources:
        """The texts that the cell's lines are of."""
        return self._session.inspect.places.lines.sources(self._number)

    @cached_property
    def rows(self) -> list[tuple[int, int]]:
        """Addresses with the lines of `sources` from there on.  To be asked for behind `text`,
        where that is needed: its compile is enough for both."""
        return self._session.inspect.places.lines.places(self._number, self._only)

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
        function, known = function_of(self.functions[name]), dict[str, "Place | None"]()
        texts, places = [], []
        for block in function.blocks:
            plain, at = [], []
            for instruction in block.instructions:
                line, node = split_location(str(instruction))
                plain.append(without_attachments(line))
                if node not in known:
                    known[node] = self._place(node)
                at.append(known[node])
            texts.append(plain)
            places.append(at)
        return Body(function, texts, places)

    def _place(self, node: str) -> Place | None:
        line = int(fields(self._nodes.get(node, "")).get("line", "0")) if node else 0
        return self.sources.find(line) if line else None

    def machine(
        self,
        found: Sequence[Instruction],
        shown: Callable[[Instruction], str],
        stages: Sequence[Stage] = (),
    ) -> list[Block]:
        """Machine code that was decoded with `rows`, labels on lines of their own, by the blocks of
        IR that it was made of, as far as the `stages` of machine IR tell; all is one block else."""
        depths = loop_depths(found, self._session.inspect.engine.arena.read)
        made = {i.address: label for i, label in made_of(stages, found)}
        blocks: list[Block] = []
        for i, depth in zip(found, depths, strict=True):
            label = made.get(i.address, "")
            if not blocks or label not in ("", blocks[-1][0]):
                blocks.append((label, []))
            lines = blocks[-1][1]
            if i.label:
                lines.append(Line(f"{i.label}:", None, depth))
            place = self.sources.find(i.line) if i.line else None
            lines.append(Line(shown(i), place, depth))
        return blocks


def made_of(
    stages: Sequence[Stage], found: Sequence[Instruction]
) -> Iterator[tuple[Instruction, str]]:
    """Instructions of a function, each with the label of the block of IR that it was made of; none
    where the stages are those of other code."""
    final = next((stage for stage in stages if stage.name == "final"), None)
    if final is None:
        return
    numbers, labels = emitted(final), blocks_of(final)
    for i, number in paired(found, numbers):
        yield i, labels[number]


def paired(found: Sequence[Instruction], numbers: Sequence[int]) -> list[tuple[Instruction, int]]:
    """Instructions as they were decoded, each with the number of the line of the last stage of
    machine IR that it is; none where they are not as many."""
    if len(found) > len(numbers):  # loops are aligned
        found = [i for i in found if not i.mnemonic.startswith("nop")]
    return list(zip(found, numbers, strict=True)) if len(found) == len(numbers) else []
