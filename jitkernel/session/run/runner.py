"""Runs one cell: reads it, compiles and places its definitions, then does its statements in order.
Start from `Runner.run`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter, itemgetter
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from jitkernel.compiler.records import Compiled, Request
from jitkernel.errors import CompileError, Fault, JitError, UsageError, limit_met
from jitkernel.ir.instructions import Instruction
from jitkernel.ir.marks import are_marked
from jitkernel.ir.names import quote_name, written
from jitkernel.ir.types import Type, function_type
from jitkernel.languages import find
from jitkernel.languages.llvm.assemble import Assembled, stands_alone
from jitkernel.languages.llvm.evaluate import evaluate
from jitkernel.languages.llvm.plan import (
    ENTRY,
    Action,
    AssignAction,
    BlockAction,
    CallAction,
    InspectAction,
    MagicAction,
    Plan,
    RunAction,
    ShellAction,
    ShowAction,
    parse_cell,
    progress,
)
from jitkernel.linker import Block, SymbolState
from jitkernel.record import record, replace
from jitkernel.session.program.cell import CellState, Effects, title
from jitkernel.session.program.relinking import extend
from jitkernel.session.program.signatures import (
    Signature,
    Variable,
    check_types,
    described,
    expand,
    imports,
)
from jitkernel.session.report.overruns import overruns
from jitkernel.session.run.definer import NO_PLAN, Definer
from jitkernel.session.run.results import Result
from jitkernel.session.settings import for_debugging, options_for
from jitkernel.values.value import TypedValue, value_html

if TYPE_CHECKING:
    from jitkernel.languages.language import Language


@record
class PreparedBlock:
    """Code that runs once, compiled and waiting for its turn; it gives a value of `type`."""

    type: Type
    request: Request
    compiled: Compiled


CellBlock: TypeAlias = Assembled | PreparedBlock


class Runner(Definer):
    """One run of one cell."""

    _language: Language
    _blocks: dict[int, CellBlock]  # by the identity of their actions

    # -- whole cells -----------------------------------------------------------------------------

    def run(self, source: str, language: str = "llvm") -> Result:
        """Run a cell's source; see `Session.run`."""
        self._language, tee = find(language), self.tee
        self.debug = self.core.debugs is not None and self.core.debugs(source)
        if self.program.speaks != self._language.name:
            self.program.speaks = self._language.name
        try:
            with self:
                return self._run(source)
        finally:
            self.plan = NO_PLAN  # whose actions may refer to this
            tee.finish()
            if printed := len(tee.out) + len(tee.err):
                change = self.change
                change.affected(printed=change.effects.printed + printed)

    def planned(self, source: str, language: str) -> Plan:
        """The plan of a cell: nothing of it is compiled or run."""
        self._language = find(language)
        return self._read(source)

    @contextlib.contextmanager
    def placed(self, source: str, language: str) -> Iterator[list[tuple[Type, int]]]:
        """While it lasts, what a source runs is in memory, each part a function without parameters:
        its result's type and its address.  It is no cell of the session's and defines nothing.

        Raises UsageError where it would, and what compiling and linking raise.
        """
        plan = self.planned(source, language)
        actions = [action for action in plan.actions if isinstance(action, RunAction)]
        if plan.magics or len(actions) < len(plan.actions):
            raise UsageError("what is timed has no magics: write them above it")
        if plan.entities or plan.notes or plan.remakes or not actions:
            raise UsageError(
                "what is timed is an expression or statements, and declares nothing: declare it in"
                " a cell before, or within a block"
            )
        self.warn(plan.warnings)
        self.plan = plan
        blocks = [self._prepare(action.module, "entities", often=True) for action in actions]
        with self._in_memory(self._drop_blocks):
            yield [(block.type, self._place_block(block)) for block in blocks]

    def _read(self, source: str) -> Plan:
        if self._cell_id:
            self.program.position(self.cell)  # from now on
        began = perf_counter_ns()
        try:
            plan = self.core.foreign.run(self._language.read, source, self)
        except (JitError, MemoryError):
            raise
        except Exception as error:  # the language is somebody's code
            if limit := limit_met(error):
                raise limit from None
            words = f"{self._language.name} failed on this cell: {type(error).__name__}: {error}"
            raise CompileError(words) from error
        self.read_time += perf_counter_ns() - began
        if plan.opt_level is not None and self.options.opt_level is None:
            self.heed(replace(self.options, opt_level=plan.opt_level))
        return plan

    def _run(self, source: str) -> Result:
        plan = self._read(source)
        if plan.cell_magic:
            raise UsageError(f"%%{plan.cell_magic} needs the kernel; pass options to run() instead")
        if plan.magics:
            asked = self.options, self.debug
            self._early(plan)
            self.debug = self.core.debugs is not None and self.core.debugs(source)
            if (self.options, self.debug) != asked:  # a language may heed them while it reads
                plan = self._read(source)
        self.plan = plan
        if plan.warnings:
            self.warn(plan.warnings)
        if not plan.has_code:
            for action in plan.actions:
                self._magic(action)
                self.engine.check_stop()
            return self.tee.result
        self.core.number = self.cell.number
        self.core.residency.clock += 1
        try:
            with self.engine.arena.rollback.atomic():
                self.begin(
                    title(self.cell.number, plan.source),
                    results=self.core.results.recall(),
                    effects=Effects(statements=tuple(map(_TEXT, plan.actions))),
                )
                change = self.change
                self._define(plan)
                self.core.history.keep(change)
        except BaseException:
            self.cell.state = CellState.FAILED
            raise
        self.core.hidden.add(plan, self.cell.number)
        self.tee.result.cell = self.cell
        told = change.notes or plan.local_names
        if told or not _TOLD.isdisjoint(map(_KIND, change.before)):
            self.say_status()
        if not plan.actions:  # else what a statement has lost is told with it
            self._tell_notices()
        began = perf_counter_ns()
        try:
            self._statements()
        except Fault as error:
            _add(error, self._overruns())
            raise
        finally:
            self.cell.ran = perf_counter_ns() - began if plan.actions else 0
        if words := self._overruns():
            self.tee.note(words)
        return self.tee.result

    def _define(self, plan: Plan) -> None:
        """All that can be refused is done before the first statement runs."""
        self._blocks = {}
        block = plan.block
        together = bool(plan.entities) and block is not None and not stands_alone(plan)
        if plan.entities:
            assembled = self.define("all" if together or block is None else "entities")
            if together:
                self._blocks[id(block)] = assembled
        else:
            len(plan.notes)  # which are made of those that there are before it
            self.remake(plan.remakes, plan.defines)
            old = self.program.cells.get(self.replaces) if self.cell.cell_id else None
            if old is not None:
                self.program.retire(old, self.cell, self.change)
                if self.program.leaving:
                    self.program.let_go(self.change, self.core.finish)
        for action in plan.actions:
            if isinstance(action, RunAction):
                self._blocks[id(action)] = self._prepare(action.module, "entities")
            elif isinstance(action, BlockAction) and not together:
                self._blocks[id(action)] = self._prepare(plan, "block")
        if plan.notes:
            self.program.learn_notes(self.cell, plan.notes, self.change)
        if self.cell.image is not None and self.cell.image.init:
            self.construct()

    def _early(self, plan: Plan) -> None:
        """Run the magics above the code; they may change the options of this cell."""
        core = self.core
        before = core.cell_options
        core.cell_options = self.options if plan.has_code else None
        try:
            for early in plan.magics:
                self._magic(early)
            if core.cell_options is not None:
                self.heed(core.cell_options)
                self.cell.options = self.options.words
        finally:
            core.cell_options = before

    def _statements(self) -> None:
        values: list[tuple[str, TypedValue]] = []
        self.links = True  # which reading a cell does not
        if self.engine.stopping:
            self.engine.check_stop()
        for action in self.plan.actions:
            ended = False
            try:
                value = self._act(action)
                ended = True
                if value is not None:
                    if values:
                        self._show(*values.pop())
                    values.append((action.text, value))
                if self.engine.stopping:
                    self.engine.check_stop()
            except JitError as error:
                for text, earlier in values:
                    self._show(text, earlier)
                if isinstance(error, Fault):
                    _add(error, progress(self.plan, action, ended))
                self._tell_notices()
                raise
            self._tell_notices()
        if values:
            value = values[-1][1]
            self.core.results.keep(self.cell.number, value)
            self.tee.result.give(value)
            self.tee.result.text, self.tee.result.html = self._written(value)

    def _tell_notices(self) -> None:
        self.engine.tell_replaced()
        while self.engine.notices:
            self.tee.note(self.engine.notices.pop(0))

    def _overruns(self) -> str:
        """The writes behind variables of the cell's code, in words; "" where none of it has run."""
        data = self.engine.arena.zones["data"]
        if data.high > data.start and any(isinstance(a, _RUNS) for a in self.plan.actions):
            return overruns(self.program, self.core.history.look())
        return ""

    def _act(self, action: Action) -> TypedValue | None:
        match action:
            case CallAction(expr=expr):
                value = evaluate(expr, None, self, self.plan.source)
                return None if value.is_void else value
            case RunAction():
                return self._block(self._blocks[id(action)], action.present)
            case BlockAction():
                return self._block(self._blocks[id(action)])
            case AssignAction(name=name, expr=expr):
                from jitkernel.languages.llvm.assignment import assign

                found = assign(name, expr, self, self.plan.source)
                if found.address is not None:
                    self.store(found.address, found.value.data)
                else:
                    self._new_global(name, found.value)
                return None
            case ShowAction(name=name):
                return self._shown(name)
            case _:
                self._magic(action)
                return None

    # -- definitions -----------------------------------------------------------------------------

    def _new_global(self, name: str, value: TypedValue) -> None:
        """`@name = expr` for a name that is new: a definition, zero first, then the bytes."""
        type = str(value.type)
        layout = value.layouts(value.type)
        info = Variable(expand(type, self.program.state.types), False, type)
        with self.engine.arena.rollback.atomic():
            change = self.change
            if extend(self.program, self.cell, name, info, value.data, layout.align, change):
                return
            from jitkernel.languages.llvm.assignment import ASSIGNED

            plan = parse_cell(f"@{quote_name(name)} = global {type} zeroinitializer{ASSIGNED}")
            silent = Definer(self.core, options=self.options)
            silent.plan = plan
            if self.cell.image is None:
                silent.cell, silent.change = self.cell, self.change
            else:
                silent.change = self.core.history.begin(f"{written(name)} = ...")
            self.core.number = silent.cell.number
            silent.define("entities")
            if silent.change is not self.change:
                self.core.history.keep(silent.change)
            symbol = self.program.linker.symbols[name]
            self.engine.arena.write(symbol.address, value.data)

    # -- statements ------------------------------------------------------------------------------

    def _prepare(
        self, plan: Plan, part: Literal["block", "entities"], often: bool = False
    ) -> PreparedBlock:
        """Compile the instruction block, or a module that runs once, before any statement runs;
        what runs `often` is optimised as definitions are."""
        options = options_for(self.options, self.core.settings, self.engine.arena)
        if not often:
            level, passes = self.options.opt_level or 0, self.options.passes
            options = options._replace(opt_level=level, passes=passes)
        if self.debug:
            options = for_debugging(options, self.core.debugs_optimised)
        assembled, request = self.request(plan, part, options)
        if self.debug and are_marked(request.source, request.first_line, self.plan.source):
            request = request._replace(marked=True)
        compiled = self.compile(request, plan.source)
        summary = compiled.summary
        self.provide([*summary.names])
        check_types(self.program, described(summary), summary.calls, self.cell, None)
        if assembled.block_type is not None:
            return PreparedBlock(assembled.block_type, request, compiled)
        entries = [f.type for f in compiled.summary.functions if f.name == ENTRY]
        if not entries:
            raise CompileError("what runs once is no function")
        entry = function_type(entries[0])
        if entry.parameters:
            raise CompileError(f"what runs once takes no arguments, and this is {entry}")
        return PreparedBlock(entry.result, request, compiled)

    def _block(
        self, block: CellBlock, present: Callable[[TypedValue], TypedValue | None] | None = None
    ) -> TypedValue | None:
        """Run the instruction block: a function of its own that is called once; `present` makes the
        cell's value of what it gives."""
        if isinstance(block, Assembled):
            if block.block_type is None:
                raise CompileError("the cell's instructions have no type")
            return self._call_block(block.block_type, self.block_entry)
        with self._in_memory(partial(self._drop_blocks, self.own)):
            value = self._call_block(block.type, self._place_block(block))
            return present(value) if present is not None and value is not None else value

    @contextlib.contextmanager
    def _in_memory(self, drop: Callable[[], object]) -> Iterator[None]:
        """A block in which code runs that is dropped then, whatever happens."""
        if self.program.running:
            raise JitError("the executor is running another call")
        self.core.cleanups.append(drop)
        try:
            yield
        finally:
            self.core.cleanups.done(drop)

    def _place_block(self, block: PreparedBlock) -> int:
        """The address of code that is in memory from now on, until it is dropped."""
        linker, request, compiled = self.program.linker, block.request, block.compiled
        known = described(compiled.summary)
        record = self.record(request, compiled, self.plan.source)
        with self.engine.arena.rollback.atomic():
            image, entry = linker.place_unnamed(
                compiled.object, ENTRY, self.cell.number, kinds=imports(known)
            )
            for name, info, _ in known:
                symbol = linker.symbols.get(name)
                if symbol is not None and symbol.info is None and isinstance(info, Signature):
                    symbol.info = info
            self.program.running += (image,)
        self.core.places.lines.running += ((image, request, record),)
        self.core.residency.mark(symbol.image for symbol in image.refs)
        return entry

    def _drop_blocks(self, own: Callable[[Block], None] | None = None) -> None:
        """Code that runs goes; its constants stay where somebody owns them."""
        linker = self.program.linker
        for image in self.program.running:
            with self.engine.arena.rollback.atomic():
                if own is not None:
                    for held in image.blocks:  # the program may have pointers to them
                        linker.retain_block(held)
                        own(held)
                linker.unlink(image)
                self.program.running = tuple(i for i in self.program.running if i is not image)
        self.core.places.lines.running = ()

    def _call_block(self, type: Type, entry: int) -> TypedValue | None:
        shown = str(type)
        signature = Signature(f"{self.layout.text(type)} ()", "", "", "", f"{shown} ()")
        target = self.engine.thunks.target(signature, ())
        value = TypedValue(type, self.run_thunk(target, entry, ()), self.layout)
        return None if value.is_void else value

    def _shown(self, name: str) -> TypedValue | None:
        variable = self.variable(name)
        if variable is not None:
            return self.load(variable[0], variable[1])
        signature = self.full_signature(name)
        if signature is None:
            hint, called = self.hint(name), self.program.called(name)
            raise CompileError(f"{called} is not defined{f'; {hint}' * bool(hint)}")
        symbol = self.program.named(name)
        cell = self.program.cells.get(self.program.owner(name))
        where = (
            f"cell {cell.number}, {symbol.size} bytes" if cell and symbol else "a library function"
        )
        if symbol is not None and symbol.state == SymbolState.MISSING:
            where = "nobody defines it yet"
        self.tee.sink.shown("", f"@{quote_name(name)} {signature}, {where}", "")
        return None

    def _magic(self, action: Any) -> None:
        match action:
            case MagicAction():
                self.core.texts.magic()
                self.tee.sink.magic(action)
            case ShellAction():
                self.tee.sink.shell(action)
            case InspectAction():
                self.tee.sink.inspect(action)

    def _show(self, text: str, value: TypedValue) -> None:
        self.tee.sink.shown(_label(text), *self._written(value))

    def _written(self, value: TypedValue) -> tuple[str, str]:
        """The value as text, and in HTML where that says more, else nothing."""
        own = self._language.show(value)
        if own:
            return own, ""
        text, wide = value.texts(lambda address: self.core.places.describe(address))
        return text, "" if wide == text else value_html(wide)


def _add(error: Fault, words: str) -> None:
    """Say more of what stopped a cell."""
    if words:
        error.args = (f"{error}\n{words[0].upper()}{words[1:]}.",)


_RUNS = (CallAction, RunAction, BlockAction)
_TEXT = attrgetter("text")
_KIND = itemgetter(0)
#: Facts whose change is told.
_TOLD = frozenset(("name", "type", "object"))


def _label(text: str) -> str:
    """The label of a value: of instructions the last one's name, else the statement."""
    *above, last = text.rstrip().splitlines() or [""]
    return Instruction.read(last).result or (last.strip() if above else text)
