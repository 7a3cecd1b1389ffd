"""Where the program stands, in the machine IR and in the control flow of the code that runs.

What a debugger knows is an address.  The last stage of the machine IR has one line for each
instruction, in the same order; where it has not, the lines that come from the same line of the cell
are meant.  Start from `Here`.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jitkernel.compiler.machine_ir import Stage, blocks_of, emitted, line_of
from jitkernel.ir.model.module import function_of
from jitkernel.ir.module import functions
from jitkernel.linker.disassembly import decode
from jitkernel.views.asm import code_of
from jitkernel.views.lines import paired

if TYPE_CHECKING:
    from jitkernel.compiler.records import Request
    from jitkernel.session import Session


@dataclass(frozen=True, slots=True)
class Here:
    """The code of a function while the program stands: its bytes at `address`, addresses with the
    cell's lines, and the marks of the addresses at which frames go on."""

    address: int
    content: bytes
    lines: Sequence[tuple[int, int]]
    marks: Mapping[int, str]

    @classmethod
    def of(cls, session: Session, name: str, cell: int) -> Here | None:
        """The function of this name of a cell; None where no frame is in it."""
        debugger = session.inspect.debugger
        if debugger is None or debugger.stop is None:
            return None
        form = debugger.form_of(name, cell)
        if form is None:
            code = next((c for c in code_of(session, cell)[1] if c.name == name), None)
            if code is None:
                return None
            form = code.address, code.size, session.inspect.places.lines.of_cell(cell)
        address, size, lines = form
        marks = {at: m for at, m in debugger.marks().items() if address <= at < address + size}
        if not marks:
            return None
        return cls(address, session.inspect.engine.arena.read(address, size), lines, marks)

    def marked(self, stage: Stage) -> dict[int, str]:
        """The lines of a stage, by their numbers, at which frames go on, with their marks."""
        found, real = decode(self.content, self.address, lines=self.lines), emitted(stage)
        numbers = {i.address: n for i, n in paired(found, real)} if stage.name == "final" else {}
        marked: dict[int, str] = {}
        for i in found:
            if mark := self.marks.get(i.address, ""):
                if i.address in numbers:
                    marked[numbers[i.address]] = mark
                elif i.line and not numbers:
                    marked |= {n: mark for n in real if line_of(stage.lines[n]) == i.line}
        return marked

    def blocks(self, stages: Sequence[Stage]) -> dict[str, str]:
        """The blocks of LLVM's in which frames go on, by label, with their marks."""
        final = next((stage for stage in stages if stage.name == "final"), None)
        if final is None:
            return {}
        names = blocks_of(final)
        return {name: mark for n, mark in self.marked(final).items() if (name := names[n])}


def running(session: Session, cell: int) -> tuple[Request, bool]:
    """The request for the code of a cell that runs, and whether that is its debug form, as it may
    be while the program stands.  Raises UsageError where it has no IR."""
    debugger = session.inspect.debugger
    form = debugger.request(cell) if debugger is not None else None
    return (form, True) if form is not None else (session.inspect.request(cell), False)


def block_marks(session: Session, cell: int) -> tuple[str, dict[str, dict[int, str]]]:
    """The module that the code of a cell is made of, as LLVM prints it, and the blocks of its
    functions in which frames go on, by name and number, with their marks; nothing where nothing
    stands in it.

    A debug form is not optimised: its module is the cell's as it was written, block by block.
    """
    debugger = session.inspect.debugger
    if debugger is None or debugger.stop is None:
        return "", {}
    names = [f.name for f in functions(session.inspect.module(cell), "define")]
    places = {n: here for n in names if (here := Here.of(session, n, cell)) is not None}
    if not places:
        return "", {}
    request, is_form = running(session, cell)
    stages = session.inspect.traced(lambda of: of.machine(request)).stages
    shown = session.inspect.printed(request)
    made = _blocks(shown, places)
    if is_form:
        printed = session.inspect.printed(session.inspect.request(cell), False)
        own = _blocks(printed, places)
        if all(len(own.get(name, ())) == len(labels) for name, labels in made.items()):
            shown = printed
    return shown, {
        name: {
            number: blocks[label]
            for number, label in enumerate(labels) if label in blocks
        }
        for name, labels in made.items()
        if (blocks := places[name].blocks(stages.get(name, ())))
    }  # fmt: skip


def _blocks(text: str, names: Container[str]) -> dict[str, list[str]]:
    """The labels of the blocks of some functions of a module, by name."""
    found = [function_of(f) for f in functions(text, "define") if f.name in names]
    return {function.name: [block.name for block in function.blocks] for function in found}
