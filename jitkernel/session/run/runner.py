"""Runs one cell: reads it, compiles and places its definitions, then does its statements in order.
Start from `Runner.run`.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from jitkernel.compiler.records import Compiled, Request
from jitkernel.errors import CompileError, Fault, JitError, UsageError, limit_met
from jitkernel.ir.names import NAME, quote_name, written
from jitkernel.ir.types import Type, function_type
from jitkernel.languages import find
from jitkernel.languages.llvm.assemble import Assembled, stands_alone
from jitkernel.languages.llvm.assignment import ASSIGNED, assign
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
from jitkernel.session.history.snapshot import mentioned
from jitkernel.session.program.cell import CellState, title
from jitkernel.session.program.relinking import extend
from jitkernel.session.program.signatures import Signature, Variable, check_types, expand
from jitkernel.session.report.overruns import overruns
from jitkernel.session.run.definer import NO_PLAN, Definer
from jitkernel.session.run.host import Execution, Heard, LanguageHost
from jitkernel.session.run.results import Result
from jitkernel.session.saved.store import Record
from jitkernel.session.settings import options_for, row
from jitkernel.values.value import TypedValue, value_html

if TYPE_CHECKING:
    from jitkernel.session.run.host import SessionHost

__all__ = ["Runner"]


@dataclass(frozen=True, slots=True)
class PreparedBlock:
    """Code that runs once, compiled and waiting for its turn; it gives a value of `type`."""

    type: Type
    request: Request
    compiled: Compiled


CellBlock: TypeAlias = Assembled | PreparedBlock


class Runner:
    """One run of one cell."""

    def __init__(self, execution: Execution):
        core = execution.core
        self._execution = execution
        self._core, self._tee, self._cell = core, execution.tee, execution.cell
        self._engine, self._program = core.engine, core.program
        self._plan = NO_PLAN

    # -- whole cells -----------------------------------------------------------------------------

    def run(self, source: str, language: str = "llvm") -> Result:
        """Run a cell's source; see `Session.run`."""
        self._language, tee = find(language), self._tee
        self._program.speaks = self._language.name
        try:
            with Heard(self._core, tee):
                return self._run(source)
        finally:
            tee.finish()
            if printed := len(tee.out) + len(tee.err):
                change = self._execution.change
                change.affected(printed=change.effects.printed + printed)

    def plan(self, source: str, language: str) -> Plan:
        """What a cell would be: nothing of it is compiled or run."""
        self._language = find(language)
        return self._read(source)

    @contextlib.contextmanager
    def placed(self, source: str, language: str) -> Iterator[list[tuple[Type, int]]]:
        """While it lasts, what a source runs is in memory, each part a function without parameters:
        its result's type and its address.  It is no cell of the session's and defines nothing.

        Raises UsageError where it would, and what compiling and linking raise.
        """
        if self._program.running:
            raise JitError("the executor is running another call")
        plan = self.plan(source, language)
        actions = [action for action in plan.actions if isinstance(action, RunAction)]
        if plan.magics or len(actions) < len(plan.actions):
            raise UsageError("what is timed has no magics: write them above it")
        if plan.entities or plan.notes or plan.remakes or not actions:
            raise UsageError(
                "what is timed is an expression or statements, and declares nothing: declare it in"
                " a cell before, or within a block"
            )
        for warning in plan.warnings:
            self._tee.note(f"{warning.severity}: {warning.render()}")
        self._plan = plan
        blocks = [self._prepare(action.module, "entities", often=True) for action in actions]
        self._core.cleanups.add(self._drop_blocks)
        try:
            yield [(block.type, self._place_block(plan, block)) for block in blocks]
        finally:
            self._core.cleanups.done(self._drop_blocks)

    @cached_property
    def _definer(self) -> Definer:
        """The compiler and placer of its definitions; call lines have none."""
        return Definer(self._execution, self._plan)

    def _read(self, source: str) -> Plan:
        self._host = LanguageHost(self._execution)
        try:
            plan = self._core.foreign.run(self._language.read, source, self._host)
        except (JitError, MemoryError):
            raise
        except Exception as error:  # the language is somebody's code
            if limit := limit_met(error):
                raise limit from None
            words = f"{self._language.name} failed on this cell: {type(error).__name__}: {error}"
            raise CompileError(words) from error
        options = self._execution.options
        if plan.opt_level is not None and options.opt_level is None:
            self._execution.options = replace(options, opt_level=plan.opt_level)
        return plan

    def _run(self, source: str) -> Result:
        plan = self._read(source)
        if plan.cell_magic:
            raise UsageError(f"%%{plan.cell_magic} needs the kernel; pass options to run() instead")
        if plan.magics:
            asked = self._execution.options
            self._early(plan)
            if self._execution.options != asked:  # a language may heed them while it reads
                plan = self._read(source)
        self._plan = plan
        for warning in plan.warnings:
            self._tee.note(f"{warning.severity}: {warning.render()}")
        if not plan.has_code:
            for action in plan.actions:
                self._magic(action)
                self._engine.check_stop()
            return self._tee.result
        self._core.number = self._cell.number
        self._core.residency.clock += 1
        number = self._cell.number
        blocks: dict[int, CellBlock] = {}  # by the identity of their actions
        try:
            with self._execution.changing(title(number, plan.source)):
                change = self._execution.change
                change.results = self._core.results.recall()
                self._define(plan, blocks)
                if plan.actions:
                    change.affected(names=mentioned(a.text for a in plan.actions))
                self._core.history.keep(change)
        except BaseException:
            self._cell.state = CellState.FAILED
            raise
        self._core.hidden.add(plan, self._cell.number)
        self._tee.result.cell = self._cell
        if change.notes or any(kind in _TOLD for kind, _ in change.before):
            self._definer.say_status()
        if not plan.actions:  # else what a statement has lost is told with it
            self._tell_notices()
        began = perf_counter_ns()
        try:
            self._statements(plan, blocks)
        except Fault as error:
            if words := self._overruns(plan):
                error.args = (f"{error}\n{words[0].upper()}{words[1:]}.",)
            raise
        finally:
            self._cell.ran = perf_counter_ns() - began if plan.actions else 0
        if words := self._overruns(plan):
            self._tee.note(words)
        return self._tee.result

    def _define(self, plan: Plan, blocks: dict[int, CellBlock]) -> None:
        """All that can be refused is done before the first statement runs."""
        if plan.remakes:
            self._definer.remake(plan.remakes, plan.defines)
        together = bool(plan.entities) and plan.block is not None and not stands_alone(plan)
        if plan.entities:
            assembled = self._definer.define("all" if together else "entities")
            if together:
                blocks[id(plan.block)] = assembled
        elif self._cell.cell_id:
            self._definer.replace_undefined()
        for action in plan.actions:
            if isinstance(action, RunAction):
                blocks[id(action)] = self._prepare(action.module, "entities")
            elif isinstance(action, BlockAction) and not together:
                blocks[id(action)] = self._prepare(plan, "block")
        if plan.notes:
            self._program.learn_notes(self._cell, plan.notes, self._execution.change)
        if self._cell.image is not None:
            self._definer.construct()

    def _early(self, plan: Plan) -> None:
        """Run the magics above the code; they may change the options of this cell."""
        core, execution = self._core, self._execution
        before = core.cell_options
        core.cell_options = execution.options if plan.has_code else None
        try:
            for early in plan.magics:
                self._magic(early)
            if core.cell_options is not None:
                execution.options = core.cell_options
                self._cell.options = execution.options.words
        finally:
            core.cell_options = before

    def _statements(self, plan: Plan, blocks: dict[int, CellBlock]) -> None:
        values: list[tuple[str, TypedValue]] = []
        host = self._host
        host.provide = self._execution.provide  # which reading a cell does not
        self._engine.check_stop()
        for action in plan.actions:
            ended = False
            try:
                value = self._act(action, plan, host, blocks)
                ended = True
                if value is not None:
                    if values:
                        self._show(*values.pop())
                    values.append((_label(action.text), value))
                self._engine.check_stop()
            except JitError as error:
                for label, earlier in values:
                    self._show(label, earlier)
                ran = progress(plan, action, ended)
                if ran and isinstance(error, Fault):
                    error.args = (f"{error}\n{ran[0].upper()}{ran[1:]}.",)
                self._tell_notices()
                raise
            self._tell_notices()
        if values:
            value = values[-1][1]
            self._core.results.keep(self._cell.number, value)
            self._tee.result.give(value)
            self._tee.result.text, self._tee.result.html = self._written(value)

    def _tell_notices(self) -> None:
        self._engine.tell_replaced()
        while self._engine.notices:
            self._tee.note(self._engine.notices.pop(0))

    def _overruns(self, plan: Plan) -> str:
        """Where code of the cell has run: what it has written behind variables, in words."""
        for action in plan.actions:
            if isinstance(action, CallAction | RunAction | BlockAction):
                return overruns(self._program, self._core.history.look())
        return ""

    def _act(
        self, action: Action, plan: Plan, host: SessionHost, blocks: dict[int, CellBlock]
    ) -> TypedValue | None:
        match action:
            case CallAction(expr=expr):
                value = evaluate(expr, None, host, plan.source)
                return None if value.is_void else value
            case RunAction():
                return self._block(plan, blocks[id(action)], host, action.present)
            case BlockAction():
                return self._block(plan, blocks[id(action)], host)
            case AssignAction(name=name, expr=expr):
                found = assign(name, expr, host, plan.source)
                if found.address is not None:
                    host.store(found.address, found.value.data)
                else:
                    self._new_global(name, found.value)
                return None
            case ShowAction(name=name):
                return self._shown(name, host)
            case _:
                self._magic(action)
                return None

    # -- definitions -----------------------------------------------------------------------------

    def _new_global(self, name: str, value: TypedValue) -> None:
        """`@name = expr` for a name that is new: a definition, zero first, then the bytes."""
        type = str(value.type)
        layout = value.layouts(value.type)
        info = Variable(expand(type, self._program.state.types), False, type)
        with self._engine.arena.rollback.atomic():
            change = self._execution.change
            if extend(self._program, self._cell, name, info, value.data, layout.align, change):
                return
            plan = parse_cell(f"@{quote_name(name)} = global {type} zeroinitializer{ASSIGNED}")
            silent = Execution(self._core, options=self._execution.options)
            if self._cell.image is None:
                silent.cell, silent.change = self._cell, self._execution.change
            else:
                silent.change = self._core.history.begin(f"{written(name)} = ...")
            self._core.number = silent.cell.number
            Definer(silent, plan).define("entities")
            if silent.change is not self._execution.change:
                self._core.history.keep(silent.change)
            symbol = self._program.linker.symbols[name]
            self._engine.arena.write(symbol.address, value.data)

    # -- statements ------------------------------------------------------------------------------

    def _prepare(
        self, plan: Plan, part: Literal["block", "entities"], often: bool = False
    ) -> PreparedBlock:
        """Compile the instruction block, or a module that runs once, before any statement runs;
        what runs `often` is optimised as definitions are."""
        options = options_for(self._execution.options, self._core.settings, self._engine.arena)
        if not often:
            level, passes = self._execution.options.opt_level or 0, self._execution.options.passes
            options = options._replace(opt_level=level, passes=passes)
        assembled, request = self._definer.request(plan, part, options)
        compiled = self._definer.compile(request, plan.source)
        summary = compiled.summary
        names = [f.name for f in summary.functions] + [v.name for v in summary.variables]
        self._execution.provide(names)
        check_types(self._program, summary, self._cell, None)
        if assembled.block_type is not None:
            return PreparedBlock(assembled.block_type, request, compiled)
        entry = function_type(next(f.type for f in compiled.summary.functions if f.name == ENTRY))
        if entry.parameters:
            raise CompileError(f"what runs once takes no arguments, and this is {entry}")
        return PreparedBlock(entry.result, request, compiled)

    def _block(
        self, plan: Plan, block: CellBlock, host: SessionHost,
        present: Callable[[TypedValue], TypedValue | None] | None = None,
    ) -> TypedValue | None:  # fmt: skip
        """Run the instruction block: a function of its own that is called once; `present` makes the
        cell's value of what it gives."""
        if isinstance(block, Assembled):
            if block.block_type is None:
                raise CompileError("the cell's instructions have no type")
            return self._call_block(block.block_type, self._definer.entry, host)
        if self._program.running:
            raise JitError("the executor is running another call")
        self._core.cleanups.add(self._drop_block)
        try:
            value = self._call_block(block.type, self._place_block(plan, block), host)
            return present(value) if present is not None and value is not None else value
        finally:
            self._core.cleanups.done(self._drop_block)

    def _place_block(self, plan: Plan, block: PreparedBlock) -> int:
        """Where code begins that is in memory from now on, until it is dropped."""
        linker, request, compiled = self._program.linker, block.request, block.compiled
        kinds = {f.name: "function" for f in compiled.summary.functions if not f.defined}
        kinds |= {v.name: "variable" for v in compiled.summary.variables if not v.defined}
        record = Record(
            self._cell.number, plan.source, request.source, request.first_line,
            row(request.options), compiled.object, tuple(request.nobuiltin),
        )  # fmt: skip
        with self._engine.arena.rollback.atomic():
            image, entry = linker.place_unnamed(
                compiled.object, ENTRY, self._cell.number, kinds=kinds
            )
            for info in compiled.summary.functions:
                symbol = linker.symbols.get(info.name)
                if symbol is not None and symbol.info is None:
                    self._program.learn(symbol, info, compiled.summary.types)
            self._program.running += (image,)
        self._core.places.lines.running += ((image, request, record),)
        self._core.residency.mark(symbol.image for symbol in image.refs)
        return entry

    def _drop_block(self) -> None:
        """The instructions have run: their code goes, their constants are the cell's."""
        self._drop_blocks(self._execution.own)

    def _drop_blocks(self, own: Callable[[Block], None] | None = None) -> None:
        """Code that runs goes; its constants stay where somebody owns them."""
        linker = self._program.linker
        for image in self._program.running:
            self._core.places.freed.add(image)
            with self._engine.arena.rollback.atomic():
                if own is not None:
                    for held in image.blocks:  # the program may have pointers to them
                        linker.retain_block(held)
                        own(held)
                linker.unlink(image)
                self._program.running = tuple(i for i in self._program.running if i is not image)
        self._core.places.lines.running = ()

    def _call_block(self, type: Type, entry: int, host: SessionHost) -> TypedValue | None:
        shown = str(type)
        signature = Signature(f"{host.layout.text(type)} ()", "", "", "", f"{shown} ()")
        target = self._engine.thunks.target(signature, ())
        value = TypedValue(type, host.run(target, entry, ()), host.layout)
        return None if value.is_void else value

    def _shown(self, name: str, host: SessionHost) -> TypedValue | None:
        variable = host.variable(name)
        if variable is not None:
            return host.load(variable[0], variable[1])
        signature = host.full_signature(name)
        if signature is None:
            hint, called = host.hint(name), self._program.called(name)
            if name in self._core.hidden.private:
                number = self._core.hidden.private[name]
                raise CompileError(f"{called} is private to cell {number}")
            raise CompileError(f"{called} is not defined{f'; {hint}' * bool(hint)}")
        symbol = self._program.named(name)
        cell = self._program.cell_of(symbol) if symbol is not None else None
        where = (
            f"cell {cell.number}, {symbol.size} bytes" if cell and symbol else "a library function"
        )
        if symbol is not None and symbol.state == SymbolState.MISSING:
            where = "nobody defines it yet"
        self._tee.sink.shown("", f"@{quote_name(name)} {signature}, {where}", "")
        return None

    def _magic(self, action: Any) -> None:
        match action:
            case MagicAction():
                self._core.texts.magic()
                self._tee.sink.magic(action)
            case ShellAction():
                self._tee.sink.shell(action)
            case InspectAction():
                self._tee.sink.inspect(action)

    def _show(self, label: str, value: TypedValue) -> None:
        self._tee.sink.shown(label, *self._written(value))

    def _written(self, value: TypedValue) -> tuple[str, str]:
        """The value as text, and in HTML where that says more, else nothing."""
        own = self._language.show(value)
        if own:
            return own, ""
        describe = self._core.places.describe
        text, wide = value.texts(describe)
        return text, "" if wide == text else value_html(wide)


#: Facts whose change is told.
_TOLD = ("name", "type", "object")
_NAMED = re.compile(rf"\s*(%{NAME})\s*=")


def _label(text: str) -> str:
    """What a value is shown with: of instructions the last one's name, else the statement."""
    *above, last = text.rstrip().splitlines() or [""]
    name = _NAMED.match(last)
    return name[1] if name else last.strip() if above else text
