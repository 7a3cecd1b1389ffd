"""A cell's definitions: read, compiled, agreed on, placed.  Start from `Definer`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jitkernel.compiler import Compiled, Options, Request
from jitkernel.errors import (
    CompileError,
    Fault,
    WorkerDied,
    present,
)
from jitkernel.executor import Outcome
from jitkernel.languages.llvm import ENTRY, Assembled, Plan, assemble
from jitkernel.languages.llvm.quoting import decode_name, quote_name
from jitkernel.linker import Block, Image, SymbolState
from jitkernel.rollback import Atomic
from jitkernel.session.agreement import check_types, refuse_change
from jitkernel.session.cell import Cell
from jitkernel.session.change import Change
from jitkernel.session.declare import declaration, too_long
from jitkernel.session.host import host_of
from jitkernel.session.named_types import defined_types
from jitkernel.session.options import CellOptions, options_for, row, stored_options
from jitkernel.session.relay import Relay
from jitkernel.session.relinking import replace as replace_object
from jitkernel.session.result import Collector, Sink
from jitkernel.session.signatures import Variable
from jitkernel.session.snapshot import far_words
from jitkernel.session.status import status_lines, type_line
from jitkernel.session.store import Record

if TYPE_CHECKING:
    from jitkernel.session.core import Core
    from jitkernel.session.host import SessionHost

__all__ = ["CellOptions", "Definer", "row"]

_ALIGNED = re.compile(r'^\s*@("[^"]*"|[-\w$.]+)\s*=[^\n]*?,\s*align\s+(\d+)', re.MULTILINE)


class Definer(Relay):
    """The definitions of one cell, in a session whose lock is held."""

    def __init__(
        self,
        session: Core,
        sink: Sink | None = None,
        options: CellOptions | None = None,
        cell_id: str | None = None,
        number: int | None = None,
    ):
        super().__init__(sink or Collector())
        self.session, self.options = session, options or CellOptions()
        self.engine, self.program = session.engine, session.program
        wanted = session.number + 1
        number = number if number is not None and number >= wanted else wanted
        self.cell = Cell(number, cell_id, self.options.words)
        self._change: Change | None = None
        self.running: tuple[Image, Request, Record] | None = None
        self.unconstructed = False  # it has constructors, which did not run
        # The instruction block's offset in the cell's code, where it is part of its module.
        self._block_at = 0

    @property
    def change(self) -> Change:
        """What this does to the program; not kept where it is no run."""
        if self._change is None:
            self._change = Change("")
        return self._change

    @change.setter
    def change(self, change: Change) -> None:
        self._change = change

    def changing(self, title: str) -> Atomic:
        """A block in which what happens to the program is one change (`self.change`), or nothing
        where it raises."""
        self.change = self.session.history.begin(title, self.cell.number)
        return self.engine.arena.rollback.atomic()

    def define(self, plan: Plan, part: Any) -> Assembled:
        """Compile and place the cell's module; nothing changes where that fails."""
        assembled, request = self.request(plan, part)
        compiled = self.compile(request, plan.source)
        self.place(request, compiled, plan.source)
        return assembled

    def request(
        self, plan: Plan, part: Any, options: Options | None = None
    ) -> tuple[Assembled, Request]:
        """What the compiler is asked for a part of a plan."""
        program = self.program
        symbols = program.linker.symbols
        own: set[str] = set()

        def known(name: str) -> str | None:
            symbol = symbols.get(name)
            if symbol is None or symbol.info is None:
                info = program.declared.get(name)  # an earlier cell declared it, and no more
                return None if info is None or too_long(info) else declaration(name, info)
            if symbol.state == SymbolState.DEFINED:
                own.add(name)
            return None if too_long(symbol.info) else declaration(name, symbol.info)

        assembled = assemble(
            plan,
            known,
            program.types,
            block_name=ENTRY,
            prelude=self.session.settings.prelude,
            part=part,
        )
        names = own if part == "block" else own | (plan.defines - {ENTRY})
        functions = frozenset(
            n for n in names
            if (s := symbols.get(n)) is None or not isinstance(s.info, Variable)
        )  # fmt: skip
        if part != "block":
            functions |= frozenset(
                n for n in plan.declares if (s := symbols.get(n)) and s.state == SymbolState.DEFINED
            )
        return assembled, Request(
            assembled.source,
            options or options_for(self.options, self.session.settings, self.engine.arena),
            label=f"cell {self.cell.number}",
            nobuiltin=functions,
            first_line=assembled.first_line,
            context=self.session.settings.context,
            cell=0 if part == "block" or ENTRY in plan.defines else self.cell.number,
        )

    def compile(self, request: Request, source: str) -> Compiled:
        self.engine.pool.timeout = self.session.settings.timeout
        if request.context == "kept":
            self.session.release_contexts()  # of cells that were replaced since
        self.engine.check_stop()
        try:
            compiled = self.engine.pool.compile(request, self.options.fresh)
        except CompileError as error:
            raise self.explained(error, source) from None
        for warning in compiled.warnings:
            self.note(f"{warning.severity}: {warning.render()}")
        return compiled

    def explained(self, error: CompileError, source: str) -> CompileError:
        """LLVM's complaints with what to try."""
        from jitkernel.languages.llvm.hints import Context, explain  # only where one is wrong

        hidden = self.session.hidden
        symbols = self.program.linker.symbols

        def type_of(name: str) -> str:
            info = symbols[name].info if name in symbols else None
            return info.shown if isinstance(info, Variable) else ""

        context = Context(list(symbols), hidden.locals, hidden.private, type_of)
        found = [explain(d, source, context) for d in error.diagnostics]
        if isinstance(error, WorkerDied):
            return error
        return CompileError(found)

    def place(self, request: Request, compiled: Compiled, source: str) -> None:
        cell, program, change = self.cell, self.program, self.change
        old = program.cells.get(program.by_id.get(cell.cell_id, 0)) if cell.cell_id else None
        changed = check_types(program, compiled.summary, cell, old)
        if changed and not self.options.retype:
            refuse_change(program, changed, compiled.summary, old)
        again = self._compile_again(compiled, old)
        began = time.perf_counter_ns()
        image = program.place(
            cell, compiled, change, keep_data=self.options.keep_data, retype=changed,
            aligned=_alignments(request.source), types=defined_types(request.source),
        )  # fmt: skip
        linked = time.perf_counter_ns() - began
        program.let_go(change, self.session.finish)
        for other, record in again:
            replace_object(program, other, record)
        t = compiled.times
        cell.times = (t["parse"], t["verify"], t["optimise"], t["emit"], linked)
        cell.cached = compiled.cached
        self.session.store.put(
            Record(cell.number, source, request.source, request.first_line,
                   row(request.options), compiled.object, tuple(request.nobuiltin))
        )  # fmt: skip
        self.session.residency.arrived(cell)
        for removed in change.removed:
            self.session.graves.add(*removed.text)
        self._hide_block(image)

    def _compile_again(self, compiled: Compiled, old: Cell | None) -> list[tuple[Cell, Record]]:
        """Cells that used a library's meaning of what this cell defines, compiled without it."""
        program, pool = self.program, self.engine.pool
        names: dict[int, set[str]] = {}
        for f in compiled.summary.functions:
            symbol = program.symbol(f.name) if f.defined else None
            if f.defined and (symbol is None or symbol.state != SymbolState.DEFINED):
                for number, _ in program.libraries.users(f.name, (old, self.cell)):
                    names.setdefault(number, set()).add(f.name)
        made: list[tuple[Cell, Record]] = []
        for number, new in sorted(names.items()):
            record = self.session.store.get(number)
            if record is None or new <= set(record.nobuiltin):
                continue
            nobuiltin = frozenset(record.nobuiltin) | new
            request = Request(
                record.module, stored_options(record), f"cell {number}", nobuiltin,
                record.first_line,
            )  # fmt: skip
            object = pool.compile(request).object
            record = record._replace(object=object, nobuiltin=tuple(sorted(nobuiltin)))
            made.append((program.cells[number], record))
            shown = ", ".join("@" + quote_name(n) for n in sorted(new))
            self.change.notes.append(
                f"{shown} is the session's own now; cell {number} used the library's and was "
                "compiled again"
            )
        return made

    def construct(self) -> None:
        """Run the constructors of what was placed."""
        image = self.cell.image
        if image is None or not image.init:
            return
        self.change.effects.constructed = self.cell.number
        outcome = self.engine.call_many(image.init)
        if outcome.kind != "ok":
            error = self.error(outcome)
            error.args = (
                f"{error}\nThis was in a constructor of the cell, so nothing of it stayed.",
            )
            raise error

    def leave_unconstructed(self) -> None:
        """Its constructors do not run, now or later, nor what would take them back."""
        image = self.cell.image
        if image is not None and image.init:
            image.init = image.fini = ()
            self.unconstructed = True

    def _hide_block(self, image: Image) -> None:
        """The function of the cell's instructions is reached by its address, not by name."""
        block = self.program.linker.symbols.get(ENTRY)
        if block is not None and block.image is image:
            self._block_at = block.address - image.text.start if image.text is not None else 0
            del self.program.linker.symbols[ENTRY]
            self.change.moved.pop(ENTRY, None)
            image.exports = tuple([e for e in image.exports if e[0] is not block])

    @property
    def entry(self) -> int:
        """Where the instruction block begins that is part of the cell's module."""
        image = present(self.cell.image, f"the code of {self.cell}")
        return present(image.text, f"the code of {self.cell}").start + self._block_at

    def say_status(self) -> None:
        """Tell what the cell has defined."""
        image = self.cell.image
        if image is not None:
            for text in status_lines(self.program, self.cell, image, self.change):
                self.note(text)
        elif self.change.types:
            self.note(type_line(self.program, self.cell, self.change))
        for note in self.change.notes:
            self.note(note)

    def replace_undefined(self) -> None:
        """A notebook cell that defined something and has no definitions any more."""
        cell, program = self.cell, self.program
        old = program.cells.get(program.by_id.get(cell.cell_id, 0)) if cell.cell_id else None
        if old is not None:
            program.retire(old, cell, self.change)
            program.let_go(self.change, self.session.finish)
            for note in self.change.notes:
                self.note(note)

    def host(self) -> SessionHost:
        return host_of(self.session, self.own, self.error)

    def own(self, block: Block) -> None:
        """A block of data is this cell's from now on; a cell without code is kept for it."""
        self.cell.strings += (block,)
        self.program.note(self.cell)
        if self.cell.number not in self.program.cells and self.session.number == self.cell.number:
            self.program.adopt(self.cell, self.change)
        elif self.cell.image is None and len(self.cell.strings) == 1:
            self.program.adopted += 1  # it had types alone

    def error(self, outcome: Outcome) -> Fault:
        if outcome.kind == "stub" and (failure := self.session.residency.failed()) is not None:
            raise failure
        kept = self._kept()
        if outcome.respawned and (words := far_words(self.engine.arena)):
            stale = (
                f"{words} word{'s' * (words != 1)} in globals still point into the one that ended"
            )
            outcome = replace(outcome, lost=f"{outcome.lost}; {stale}" if outcome.lost else stale)
        # Only where code was stopped.
        from jitkernel.session.faults import error_of
        from jitkernel.session.source_lines import line_finder
        from jitkernel.session.stopped import stopped

        find: Callable[[int], tuple[int, str]] = line_finder(self.session, self.running)
        fault = error_of(outcome, self.session.places, self.program.linker, find, kept)
        self.session.onlookers.stopped = stopped(
            outcome, fault, self.session.places, self.program.linker
        )
        return fault

    def _kept(self) -> str:
        functions = variables = 0
        for symbol in self.program.linker.symbols.values():
            if (
                symbol.state == SymbolState.DEFINED
                and symbol.image is not None
                and symbol.image.cell
            ):
                if symbol.is_function:
                    functions += 1
                else:
                    variables += 1
        return (
            f"{functions} function{'s' * (functions != 1)}, "
            f"{variables} global{'s' * (variables != 1)}"
        )


def _alignments(source: str) -> dict[str, int]:
    """The alignments that a module's variables ask for, by name."""
    if " align " not in source:
        return {}
    return {decode_name(name): int(align) for name, align in _ALIGNED.findall(source)}
