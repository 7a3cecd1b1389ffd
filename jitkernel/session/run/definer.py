"""A cell's definitions: read, compiled, agreed on, placed.

Start from `Definer`; `run_many` compiles and places many cells at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from jitkernel.compiler.records import Compiled, Options, Request
from jitkernel.elf.constants import IFUNC_SLOTS, STB_GLOBAL
from jitkernel.errors import CompileError, Diagnostic, WorkerDied, present
from jitkernel.ir.marks import cell_lines
from jitkernel.ir.module import of_others
from jitkernel.ir.names import CONTROL, quote_name
from jitkernel.ir.text import squeeze
from jitkernel.languages import find
from jitkernel.languages.llvm.assemble import Assembled, assemble
from jitkernel.languages.llvm.plan import ENTRY, Plan, Remake, name_of, parse_cell
from jitkernel.linker import Image, SymbolState
from jitkernel.linker.editing import drop_initialisers, unname
from jitkernel.linker.layout import ReadObject
from jitkernel.linker.retargeting import stale_symbols
from jitkernel.session.program.cell import Cell, names_of, title
from jitkernel.session.program.lending import Lending
from jitkernel.session.program.program import CellText
from jitkernel.session.program.relinking import check, remake
from jitkernel.session.program.relinking import replace as replace_object
from jitkernel.session.program.signatures import (
    Variable,
    check_types,
    declaration,
    described,
    refuse_change,
    too_long,
)
from jitkernel.session.program.status import status_lines, type_line
from jitkernel.session.run.host import Execution
from jitkernel.session.run.results import Result
from jitkernel.session.saved.store import Record
from jitkernel.session.settings import CellOptions, options_for, row, stored_options, stored_request
from jitkernel.wording import cut_list

if TYPE_CHECKING:
    from jitkernel.session.core import Core
    from jitkernel.session.handles import CompiledCell

NO_PLAN = Plan("")  # of an object, which no language has read
_TOLD = 4  # lines on cells that were compiled again
_MARK = "; line "  # in a module: which line of the cell what follows comes from


class Definer(Execution):
    """A cell that defines something."""

    plan = NO_PLAN
    read_time = 0  # nanoseconds that it took to make the plan, with clang's of a cell of C
    unconstructed = False  # it has constructors, which did not run
    _block_at = 0  # of the instruction block, where it is part of the cell's code
    _types: Mapping[str, str] = MappingProxyType({})  # that it is about to define
    _adapted: frozenset[int] = frozenset()  # cells that were made anew from another text

    def define(self, part: Any) -> Assembled:
        """Compile and place the cell's module; nothing changes where that fails."""
        plan = self.plan
        assembled, request = self.request(plan, part)
        for remade in plan.remakes:
            self._expect(remade)
        if plan.types:
            self.lending.bar(self._users_of(plan.types))
        if names := (plan.uses | plan.declares) - plan.defines:
            request = self.lending.lend(request, names, self.replaces, plan.defines)
        compiled = self.compile(request, plan.source)
        if plan.remakes or compiled.summary.types:
            self.lending.expect(request.source, request.options, request.nobuiltin)
        if plan.remakes:
            self.remake(plan.remakes, plan.defines)
        if compiled.summary.types:
            self._types = compiled.summary.types
            self.remake(list(self._built_with()), frozenset(), refused=self._left_behind)
        self.place(request, compiled, plan.source)
        return assembled

    @cached_property
    def lending(self) -> Lending:
        """The lender of bodies of other cells to those that are compiled."""
        return Lending(self.program.lender)

    def _expect(self, remade: Remake) -> None:
        record = self.core.store.get(remade.cell)
        if remade.ir is not None and record is not None:
            options = stored_options(record)
            self.lending.expect(remade.ir, options, record.nobuiltin, remade.cell)

    def _users_of(self, types: Mapping[str, str]) -> list[int]:
        """The cells that mention named types which have other bodies than these."""
        known = self.program.state.types
        changed = {
            n for n, body in types.items() if n in known and squeeze(known[n]) != squeeze(body)
        }
        if not changed:
            return []
        return [n for n, cell in self.program.cells.items() if not changed.isdisjoint(cell.types)]

    def _built_with(self) -> Iterator[Remake]:
        """The cells of IR whose code was built with a named type that is another one now."""
        program = self.program
        changed = {
            name for name, body in self._types.items()
            if body != "opaque" and program.state.types.get(name, body) != body
        }  # fmt: skip
        excluding = {self.replaces, *self.change.facts("object")}
        for number, cell in list(program.cells.items()) if changed else ():
            uses = sorted(changed.intersection(cell.types).difference(cell.defines))
            if not uses or number in excluding or program.state.notes.language_of(number):
                continue
            record = self.core.store.get(number)
            if record is not None and cell.image is not None:
                names = ", ".join(f"%{quote_name(name)}" for name in uses)
                told = f"cell {number} was compiled again for the new {names}"
                yield Remake(number, record.source, told)

    def _left_behind(self, made: Remake, error: CompileError) -> None:
        """A cell does not fit a type as it is now."""
        self.change.notes.append(
            f"cell {made.cell} does not fit that ({error.diagnostics[0].message}): run it again "
            "with the change in it"
        )

    def _holders(self, names: Iterable[str]) -> list[Remake]:
        """The cells to be made anew that hold bodies or values of these names, apart from those
        that were."""
        holders = self.program.holders(names)
        holders -= {0, self.cell.number, *self.change.facts("object")}
        return [Remake(number, None, "") for number in sorted(holders)]

    def _holders_of(self, remakes: Iterable[Remake]) -> list[Remake]:
        """The cells that hold what is otherwise in others which are made anew."""
        cells = {remade.cell for remade in remakes if remade.ir is not None}
        every = {remade.cell for remade in remakes}
        found = (cell for n in cells if (cell := self.program.cells.get(n)) is not None)
        names = [name for cell in found for name in cell.names]
        return [made for made in self._holders(names) if made.cell not in every]

    def take_back(self, names: Collection[str], leaving: Container[Cell]) -> None:
        """Have cells made anew, but for those that leave, without the bodies and values of these
        names."""
        cells = (self.program.cells.get(n) for n in self.program.holders(names))
        found = [c.number for c in cells if c is not None and c not in leaving]
        self.lending.bar(names=names)
        self.remake([Remake(number, None, "") for number in sorted(found)], frozenset())

    def refresh(self, cells: Iterable[int]) -> None:
        """Have cells made anew with the bodies and values that there are now."""
        self.remake([Remake(number, None, "") for number in cells], frozenset())

    def _only_declare(self, defined: Iterable[str]) -> None:
        """Let other languages' notes of what this cell is about to define only declare it, and have
        cells made anew into which those languages have put values of it."""
        program = self.program
        own = {name_of(key).partition(":")[0] for key in self.plan.notes}
        names: dict[str, set[str]] = {}
        for name in defined:
            symbol = program.named(name)
            if symbol is not None and symbol.image is not None:
                language = program.state.notes.language_of(symbol.image.cell)
                if language and language not in own:
                    names.setdefault(language, set()).add(name.removeprefix(CONTROL))
        for language, found in names.items():
            if (superseded := find(language).superseded) is not None:
                plan = self.core.foreign.run(superseded, found, self)
                self.remake(plan.remakes, frozenset(found))
                program.say(self.cell, plan.notes, self.change)

    def request(
        self, plan: Plan, part: Any, options: Options | None = None
    ) -> tuple[Assembled, Request]:
        """The compiler's request for a part of a plan."""
        program = self.program
        symbols = program.linker.symbols
        own: set[str] = set()

        def known(name: str) -> str | None:
            symbol = program.named(name)
            if symbol is None or symbol.info is None:
                info = program.state.declared.get(name)  # an earlier cell declared it, and no more
                return None if info is None or too_long(info) else declaration(name, info)
            if symbol.state == SymbolState.DEFINED:
                own.add(name)
            return None if too_long(symbol.info) else declaration(symbol.name, symbol.info)

        assembled = assemble(
            plan,
            known,
            {**program.state.types, **self._types} if self._types else program.state.types,
            block_name=ENTRY,
            prelude=self.core.settings.prelude,
            part=part,
        )
        names = own if part == "block" else own | (plan.defines - {ENTRY})
        functions = set()
        for n in names:
            if (s := symbols.get(n)) is None or not isinstance(s.info, Variable):
                functions.add(n)
        if part != "block" and plan.declares:
            functions |= {
                n for n in plan.declares if (s := symbols.get(n)) and s.state == SymbolState.DEFINED
            }
        return assembled, Request(
            assembled.source,
            options or options_for(self.options, self.core.settings, self.engine.arena),
            label=f"cell {self.cell.number}",
            nobuiltin=frozenset(functions),
            first_line=assembled.first_line,
            context=self.core.settings.context,
            cell=0 if part == "block" or ENTRY in plan.defines else self.cell.number,
        )

    def compile(self, request: Request, source: str) -> Compiled:
        if request.context == "kept":
            self.core.release_contexts()  # of cells that were replaced since
        if self.engine.stopping:
            self.engine.check_stop()
        try:
            waiting = partial(self.tee.waiting, "LLVM")
            learn = self.plan.notes.__len__
            compiled = self.engine.pool.compile(request, self.options.fresh, waiting, learn)
            learn()  # of what the notes are before the cell changes them
        except CompileError as error:
            raise self.explained(error, request, source) from None
        self.tee.compiled()
        warnings = compiled.warnings
        if warnings and (source_of := self._translated(request)) is not None:
            from jitkernel.session.report.undefined import retold

            lines = _Lines(request, source_of)
            told = {w.line for w in self.plan.warnings if w.severity == "warning"}
            warnings = tuple(
                w._replace(message=retold(w.message), column=0, **lines.place(w.line, within=True))
                for w in warnings
                if told.isdisjoint(lines.of_function(w.line))
            )
        if warnings:
            self.warn(warnings)
        return compiled

    def warn(self, warnings: Iterable[Diagnostic]) -> None:
        """Show what a compiler or a language warns of."""
        for warning in warnings:
            self.tee.note(f"{warning.severity}: {warning.render()}")

    def explained(self, error: CompileError, request: Request, source: str) -> CompileError:
        """LLVM's complaints with what to try, or at the lines of a cell that is no IR."""
        if (source_of := self._translated(request)) is not None:
            return self._in_lines(error, request, source_of)
        from jitkernel.languages.llvm.hints import Context, explain  # only where one is wrong

        hidden = self.core.hidden
        symbols = self.program.linker.symbols

        def type_of(name: str) -> str:
            info = symbols[name].info if name in symbols else None
            return info.shown if info else ""

        context = Context(list(symbols), hidden.locals, hidden.private, type_of)
        found = [explain(d, source, context) for d in error.diagnostics]
        if isinstance(error, WorkerDied):
            return error
        return CompileError(found)

    def _translated(self, request: Request) -> str | None:
        """The cell in a language other than IR that a module was made of, where that marks lines,
        or has left notes; None for IR."""
        plan = self.plan
        if not plan.translated:
            return None
        return plan.source if plan.notes or _MARK in request.source else None

    @staticmethod
    def _in_lines(error: CompileError, request: Request, source: str) -> CompileError:
        """LLVM's complaints at lines of the source that the module was made of."""
        lines = _Lines(request, source)
        found = []
        for told in error.diagnostics:
            first, _, more = told.message.partition("\n")
            said = Diagnostic(first)._replace(**lines.place(told.line)).render()
            found.append(Diagnostic(f"{said}\n{more}" if more else said))
        made = CompileError(found)
        if isinstance(error, WorkerDied):
            made = WorkerDied(str(made), error.words, error.begun)
            made.diagnostics = tuple(found)
        return made

    def _provide(self, compiled: Compiled, read: ReadObject | None) -> None:
        """Take from the session's archives what an object uses that is about to be placed."""
        known = [*compiled.summary.names]
        if known and not self._offered(known):
            return
        names = (read or ReadObject.of(compiled.object)).names
        own = frozenset(e.name for e in names.exports)
        self.provide([n for _, n, weak in names.imports if not weak], own)

    def _offered(self, names: Sequence[str]) -> Sequence[str]:
        """Those of the names that the session's archives define."""
        if not (archives := self.program.state.archives.values()):
            return ()
        from jitkernel.linker.archives import offered  # few sessions have any

        return offered(archives, names)

    def place(
        self, request: Request, compiled: Compiled, source: str, missing: bool = False,
        read: ReadObject | None = None,
    ) -> None:  # fmt: skip
        """Place what was compiled; `missing` allows variables that nobody defines yet.  `read` is
        its object, where somebody has read it."""
        if self.program.state.archives:
            self._provide(compiled, read)
        # For all to see, whoever has defined them before; `read` is what another compiler made.
        if read is None:
            defined = compiled.summary.defined(("external",))
        else:
            defined = [e.name for e in read.names.exports if e.binding == STB_GLOBAL]
        if self.program.state.notes.found:  # of other languages
            self._only_declare(defined)
        cell, program, change = self.cell, self.program, self.change
        old = program.cells.get(self.replaces)
        adapted = [*filter(None, map(program.cells.get, self._adapted))]
        known = described(compiled.summary)
        calls = compiled.summary.calls
        changed = check_types(program, known, calls, cell, old, adapted, self.plan.unchanged)
        if changed and not self.options.retype:
            said = self.core.spelling
            refuse_change(program, changed, known, old, self.plan.spelled, said)
        there = program.linker.symbols.keys()
        holders = [] if there.isdisjoint(defined) else self._holders(defined)
        again = self._compile_again(compiled, old)
        began, paused = time.perf_counter_ns(), self.engine.paused
        text = CellText(known, request.source, self.plan, self.options.keep_data)
        image = program.place(
            cell, compiled, change, text, retype=changed, missing=missing, read=read
        )
        self.core.store.put(self.record(request, compiled, source))
        if holders:
            self.lending.arrived()
            self.lending.bar(names=changed)  # users know them as something else
            if old is not None and old.image and not program.linker.dependents(old.image):
                holders = [remade for remade in holders if remade.cell != old.number]  # it leaves
            self.remake(holders, frozenset())
        program.supersede(cell, old, change)
        if program.leaving:
            program.let_go(change, self.core.finish)
        if again:
            with program.world_stopped:
                for other, record in again:
                    replace_object(program, other, record)
        linked = time.perf_counter_ns() - began
        t = compiled.times
        cell.times = (
            self.read_time, t["parse"], t["verify"], t["optimise"], t["emit"], linked,
        )  # fmt: skip
        if self.engine.paused > paused:
            cell.paused = self.engine.paused - paused
        if compiled.cached:
            cell.cached = True
        self.core.residency.arrived(cell)
        if ENTRY in program.linker.symbols:
            self._hide_block(image)

    def record(self, request: Request, compiled: Compiled, source: str) -> Record:
        """The store's record of code of the cell."""
        return Record(
            self.cell.number, source, request.source, request.first_line, row(request.options),
            compiled.code, tuple(request.nobuiltin),
        )  # fmt: skip

    def _compile_again(self, compiled: Compiled, old: Cell | None) -> list[tuple[Cell, Record]]:
        """Cells that used a library's meaning of what this cell defines, compiled without it."""
        program, pool = self.program, self.engine.pool
        names: dict[int, set[str]] = {}
        for f in compiled.summary.functions:
            symbol = program.linker.symbols.get(f.name) if f.defined else None
            if f.defined and (symbol is None or symbol.state != SymbolState.DEFINED):
                for number, _ in program.uses.of_library(f.name, (old, self.cell)):
                    for user in {number, *program.holders(program.cells[number].names)}:
                        names.setdefault(user, set()).add(f.name)
        made: list[tuple[Cell, Record]] = []
        for number, new in sorted(names.items()):
            record = self.core.store.get(number)
            if record is None or new <= set(record.nobuiltin):
                continue
            nobuiltin = frozenset(record.nobuiltin) | new
            record = record._replace(nobuiltin=tuple(sorted(nobuiltin)))
            request = program.lender.stored(record, nobuiltin)
            record = record._replace(code=pool.compile(request).object)
            made.append((program.cells[number], record))
            shown = ", ".join(map(program.called, sorted(new)))
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
        self.change.affected(constructed=self.cell.number)
        self._run_constructors(image.init)

    def _run_constructors(self, init: Sequence[int]) -> None:
        outcome = self.engine.call_many(init)
        if outcome.kind != "ok":
            error = self.error(outcome)
            error.args = (
                f"{error}\nThis was in a constructor of the cell, so nothing of it stayed.",
            )
            raise error

    def _hide_block(self, image: Image) -> None:
        """The function of the cell's instructions is reached by its address, not by name."""
        if at := unname(self.program.linker, image, ENTRY):
            self._block_at = at - image.text.start if image.text is not None else 0
            self.change.before.pop(("name", ENTRY), None)

    @property
    def block_entry(self) -> int:
        """The address at which the instruction block begins that is part of the cell's module."""
        image = present(self.cell.image, f"the code of {self.cell}")
        return present(image.text, f"the code of {self.cell}").start + self._block_at

    def say_status(self) -> None:
        """Tell what the cell has defined."""
        image = self.cell.image
        if image is not None:
            spelled = self.plan.spelled
            for text in status_lines(self.program, self.cell, image, self.change, spelled):
                self.tee.note(text)
        elif self.change.facts("type") and not self.plan.notes:
            self.tee.note(type_line(self.program, self.cell, self.change))
        if (own := self.plan.local_names) and not (self.cell.names or self.plan.actions):
            names = cut_list([f"@{quote_name(name)}" for name in sorted(own)], 4)
            whose = "private to it: other cells do not see internal definitions"
            self.tee.note(f"cell {self.cell.number}: {names}, {whose}")
        for note in self.change.notes:
            self.tee.note(note)

    def remake(
        self, remakes: Sequence[Remake], leaving: frozenset[str],
        refused: Callable[[Remake, CompileError], None] | None = None,
    ) -> None:  # fmt: skip
        """Compile cells anew that this cell's changes reach, and link them where they are;
        `leaving` are names of theirs that this cell is about to define.  Where one cannot be
        compiled nothing changes, or `refused` is told and it stays as it was."""
        if not remakes:
            return
        for remade in remakes:
            self._expect(remade)
        remakes = [*remakes, *self._holders_of(remakes)]
        # Who holds a body of theirs keeps its own text, and loses names as by any definition.
        left = {
            remade.cell: leaving if remade.ir is not None else frozenset() for remade in remakes
        }
        wanted: list[tuple[Remake, Cell, Record, Request]] = []
        for remade in remakes:
            cell = self.program.cells.get(remade.cell)
            record = self.core.store.get(remade.cell)
            if cell is not None and record is not None and cell.image is not None:
                request = self._anew(remade, cell, record, left[cell.number])
                wanted.append((remade, cell, record, request))
        made: list[tuple[Remake, Cell, Record, Request, Compiled]] = []
        compiles = self.engine.pool.compile_many([request for *_, request in wanted])
        for asked, found in zip(wanted, compiles, strict=True):
            if not isinstance(found, CompileError):
                made.append((*asked, found))
            elif refused is None:
                raise found
            else:
                refused(asked[0], found)
        for remade, cell, _, _, compiled in made:
            check(cell, compiled, left[cell.number])
            if remade.ir is not None:
                self._adapted |= {cell.number}
        with self.program.world_stopped:
            for remade, cell, record, request, compiled in made:
                self._relink(remade, cell, record, request, compiled, left[cell.number])
        for _, cell, *_, compiled in made:
            if IFUNC_SLOTS.encode() in compiled.object:
                from jitkernel.linker.ifuncs import chooser  # few cells have any

                init = present(cell.image, f"the code of {cell}").init
                self._run_constructors(chooser(compiled.object, init))
        told = [remade.told for remade, *_ in made if remade.told]
        if len(told) > _TOLD:
            told[_TOLD - 1 :] = [f"and so were {len(told) - _TOLD + 1} more cells"]
        self.change.notes += told

    def _anew(self, remade: Remake, cell: Cell, record: Record, leaving: frozenset[str]) -> Request:
        """The compiler's request for a cell that is made again."""
        apart = [symbol.name for symbol in stale_symbols(self.program.linker, cell.image)]
        if remade.ir is not None:
            plan = parse_cell(remade.ir)
            _, request = self.request(plan, "entities", stored_options(record))
            request = request._replace(label=f"cell {cell.number}", cell=cell.number)
            names = (plan.uses | plan.declares) - plan.defines
            return self.lending.lend(request, names, cell.number, plan.defines, apart=apart)
        gone = frozenset(names_of(cell.image)) - frozenset(cell.names) | leaving
        request = stored_request(record)
        request = request._replace(
            source=of_others(request.source, gone), cell=cell.number,
            nobuiltin=request.nobuiltin | gone.intersection(names_of(cell.image)),
        )  # fmt: skip
        return self.lending.lend(request, cell=cell.number, apart=apart)

    def _relink(
        self, remade: Remake, cell: Cell, record: Record, request: Request, compiled: Compiled,
        leaving: frozenset[str],
    ) -> None:  # fmt: skip
        """Link a cell that was compiled anew, and say what became of its variables."""
        new = record._replace(
            module=request.source, first_line=request.first_line, code=compiled.code,
            nobuiltin=tuple(request.nobuiltin),
        )  # fmt: skip
        anew, again = remake(
            self.program, cell, new, compiled.summary, leaving, remade, self.change
        )
        for names, what in (
            (sorted(again), "still had its first value and has the new one"),
            (anew, "has another type now and its first value again"),
        ):
            if names:
                every = ", ".join(name.removeprefix(CONTROL) for name in names)
                self.change.notes.append(f"{every} (cell {cell.number}) {what}")
        self.core.residency.arrived(cell)

    # -- where no statement runs -----------------------------------------------------------------

    def compile_only(self, source: str) -> CompiledCell:
        """Compile definitions; see `Session.compile`."""
        from jitkernel.session.handles import CompiledCell

        plan = _definitions(source)
        _, request = self.request(plan, "entities")
        compiled = self.compile(request, plan.source)
        sizes = self.program.linker.sizes(compiled.object)
        return CompiledCell(source, request, compiled, sizes, self.options)

    def place_only(
        self, source: str, request: Request, compiled: Compiled, construct: bool = True,
        read: ReadObject | None = None,
    ) -> Result:  # fmt: skip
        """Place what was compiled before, as a cell.

        Without `construct` its constructors do not run, now or later, nor what would take them
        back.
        """
        core, cell = self.core, self.cell
        with self:
            core.number = cell.number
            with core.engine.arena.rollback.atomic():
                self.begin(title(cell.number, source))
                self.place(request, compiled, source, read=read)
                if construct:
                    self.construct()
                elif cell.image is not None and cell.image.init:
                    drop_initialisers(cell.image)
                    self.unconstructed = True
                core.history.keep(self.change)
            self.say_status()
            self.tee.result.cell = cell
            return self.tee.result


def run_many(core: Core, sources: Sequence[str], options: CellOptions) -> list[Result]:
    """Compile in parallel, place in order."""
    plans = [_definitions(s) for s in sources]
    first = Definer(core, options=options)
    requests: list[Request] = []
    soon: set[str] = set()
    for plan in plans:
        _, request = first.request(plan, "entities")
        # What an earlier one of them will have defined is no library's.
        nobuiltin = request.nobuiltin | (plan.declares & soon)
        requests.append(request._replace(nobuiltin=nobuiltin))
        soon |= plan.defines
    compiles = core.engine.pool.compile_many(requests)
    results: list[Result] = []
    done: set[str] = set()
    for plan, source, request, compiled in zip(plans, sources, requests, compiles, strict=True):
        definer = Definer(core, options=options)
        if (plan.uses - plan.declares) & done:
            # It uses what earlier ones define and says nothing of their types.
            _, request = definer.request(plan, "entities")
            compiled = definer.compile(request, source)
        elif isinstance(compiled, CompileError):
            raise first.explained(compiled, requests[len(results)], source)
        results.append(definer.place_only(source, request, compiled))
        done |= plan.defines
    return results


def _definitions(source: str) -> Plan:
    plan = parse_cell(source)
    if plan.actions or plan.magics or plan.cell_magic or not plan.entities:
        words = "only definitions can be compiled without running: no statements, no magics"
        raise CompileError([Diagnostic(words)])
    return plan


class _Lines:
    """From lines of the module that a cell became to lines of the cell."""

    def __init__(self, request: Request, source: str):
        self._marked = _MARK in request.source  # the text of `asm` outside functions has no lines
        self._line_of = cell_lines(request.source, request.first_line, source)
        self._source = ["", *source.split("\n")]
        self._module = ["", *request.source.split("\n")[request.first_line - 1 :]]

    def place(self, line: int, within: bool = False) -> dict[str, Any]:
        """The line of the cell that a line of the module was made of, number and text; where
        `within`, of the first in the function that has one."""
        module, number = self._module, self._line_of(line) if self._marked else 0
        while within and self._marked and not number and line < len(module) and module[line] != "}":
            line += 1
            number = self._line_of(line)
        return {"line": number, "source": "".join(self._source[number : number + 1])}

    def of_function(self, line: int) -> range:
        """The lines of the cell that the function at a line of the module was made of."""
        module = self._module
        first = last = min(line, len(module) - 1)
        while first > 1 and not module[first].startswith("define "):
            first -= 1
        while last < len(module) - 1 and module[last] != "}":
            last += 1
        found = [number for n in range(first, last) if (number := self._line_of(n))]
        return range(min(found), max(found) + 2) if found else range(0)
