"""Runs one cell: reads it, compiles and places its definitions, then does its statements in order.
Start from `Runner.run`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from jitkernel.compiler import Compiled, Request
from jitkernel.errors import (
    ArenaFull,
    CompileError,
    Fault,
    JitError,
    UsageError,
)
from jitkernel.ir.names import NAME, quote_name, written
from jitkernel.ir.types import function_type
from jitkernel.languages import Language, find
from jitkernel.languages.llvm import (
    ENTRY,
    Action,
    Assembled,
    AssignAction,
    BlockAction,
    CallAction,
    InspectAction,
    MagicAction,
    Plan,
    RunAction,
    ShellAction,
    ShowAction,
    Type,
    TypedValue,
    assign,
    evaluate,
    parse_cell,
    progress,
    stands_alone,
)
from jitkernel.languages.llvm.values import preformatted
from jitkernel.linker import SymbolState
from jitkernel.session.history.snapshot import mentioned
from jitkernel.session.program.cell import CellState, title
from jitkernel.session.program.relinking import extend
from jitkernel.session.program.signatures import Signature, Variable, check_types, expand
from jitkernel.session.report.memory import explain_full
from jitkernel.session.run.definer import Definer
from jitkernel.session.run.results import Result
from jitkernel.session.saved.store import Record
from jitkernel.session.settings import options_for, row

if TYPE_CHECKING:
    from jitkernel.session.run.host import SessionHost

__all__ = ["Runner"]


@dataclass(frozen=True, slots=True)
class PreparedBlock:
    """Code that runs once, compiled and waiting for its turn; it gives a value of `type`."""

    type: Type
    request: Request
    compiled: Compiled


Block: TypeAlias = Assembled | PreparedBlock


class Runner(Definer):
    """One run of one cell in a session whose lock is held."""

    language: Language

    # -- whole cells -----------------------------------------------------------------------------

    def run(self, source: str, language: str = "llvm") -> Result:
        """Run a cell's source; see `Session.run`."""
        self.language = find(language)
        before, self.session.sink = self.session.sink, self
        try:
            return self._run(self._read(source))
        except ArenaFull as error:
            raise explain_full(self.session, error) from None
        finally:
            self.session.sink = before
            self.result.stdout = self.out.decode("utf-8", "replace")
            self.result.stderr = self.err.decode("utf-8", "replace")
            self.change.effects.printed += len(self.out) + len(self.err)

    def _read(self, source: str) -> Plan:
        known = self.host()
        known.output = self.output
        try:
            return self.language.read(source, known)
        except (JitError, MemoryError):
            raise
        except Exception as error:  # the language is somebody's code
            words = f"{self.language.name} failed on this cell: {type(error).__name__}: {error}"
            raise CompileError(words) from error

    def _run(self, plan: Plan) -> Result:
        if plan.cell_magic is not None:
            raise UsageError(
                f"%%{plan.cell_magic.name} needs the kernel; pass options to run() instead"
            )
        self._early(plan)
        if not plan.has_code:
            for action in plan.actions:
                self._magic(action)
                self.engine.check_stop()
            return self.result
        for warning in plan.warnings:
            self.note(f"{warning.severity}: {warning.render()}")
        self.session.number = self.cell.number
        self.session.residency.clock += 1
        number = self.cell.number
        blocks: dict[int, Block] = {}  # by the identity of their actions
        try:
            with self.changing(title(number, plan.source)):
                self.change.results = self.session.results.recall()
                self._define(plan, blocks)
                if plan.actions:
                    self.change.effects.names = mentioned(a.text for a in plan.actions)
                self.session.history.keep(self.change)
        except BaseException:
            self.cell.state = CellState.FAILED
            raise
        self.session.hidden.add(plan, self.cell.number)
        self.result.cell = self.cell
        if self.change.moved or self.change.notes or self.change.types:
            self.say_status()
        began = perf_counter_ns()
        try:
            self._statements(plan, blocks)
        finally:
            self.cell.ran = perf_counter_ns() - began if plan.actions else 0
        return self.result

    def _define(self, plan: Plan, blocks: dict[int, Block]) -> None:
        """All that can be refused is done before the first statement runs."""
        together = bool(plan.entities) and plan.block is not None and not stands_alone(plan)
        if plan.entities:
            assembled = self.define(plan, "all" if together else "entities")
            if together:
                blocks[id(plan.block)] = assembled
        else:
            self.replace_undefined()
        for action in plan.actions:
            if isinstance(action, RunAction):
                blocks[id(action)] = self._prepare(action.module, "entities")
            elif isinstance(action, BlockAction) and not together:
                blocks[id(action)] = self._prepare(plan, "block")
        self.construct()

    def _early(self, plan: Plan) -> None:
        """Run the magics above the code; they may change the options of this cell."""
        session = self.session
        before, session.cell_options = session.cell_options, self.options if plan.has_code else None
        try:
            for early in plan.magics:
                self._magic(early)
            if session.cell_options is not None:
                self.options = session.cell_options
                self.cell.options = self.options.words
        finally:
            session.cell_options = before

    def _statements(self, plan: Plan, blocks: dict[int, Block]) -> None:
        values: list[tuple[str, TypedValue]] = []
        host = self.host()
        self.engine.check_stop()
        for action in plan.actions:
            ended = False
            try:
                value = self._act(action, plan, host, blocks)
                ended = True
                if value is not None:
                    if values:
                        self._show(*values.pop())
                    values.append((_label(action.text), value))
                self.engine.check_stop()
            except JitError as error:
                for label, earlier in values:
                    self._show(label, earlier)
                ran = progress(plan, action, ended)
                if ran and isinstance(error, Fault):
                    error.args = (f"{error}\n{ran[0].upper()}{ran[1:]}.",)
                raise
            while self.engine.notices:
                self.note(self.engine.notices.pop(0))
        if values:
            value = values[-1][1]
            self.session.results.keep(self.cell.number, value)
            self.result.give(value)
            self.result.text, self.result.html = self._written(value)

    def _act(
        self, action: Action, plan: Plan, host: SessionHost, blocks: dict[int, Block]
    ) -> TypedValue | None:
        match action:
            case CallAction(expr):
                value = evaluate(expr, None, host, plan.source)
                return None if value.is_void else value
            case BlockAction() | RunAction():
                return self._block(plan, blocks[id(action)], host)
            case AssignAction(name, expr):
                found = assign(name, expr, host, plan.source)
                if found.address is not None:
                    host.store(found.address, found.value.data)
                else:
                    self._new_global(name, found.value)
                return None
            case ShowAction(name):
                return self._shown(name, host)
            case _:
                self._magic(action)
                return None

    # -- definitions -----------------------------------------------------------------------------

    def _new_global(self, name: str, value: TypedValue) -> None:
        """`@name = expr` for a name that is new: a definition, zero first, then the bytes."""
        type = str(value.type)
        layout = value.layouts(value.type)
        info = Variable(expand(type, self.program.types), False, type)
        with self.engine.arena.rollback.atomic():
            if extend(self.program, self.cell, name, info, value.data, layout.align, self.change):
                return
            plan = parse_cell(f"@{quote_name(name)} = global {type} zeroinitializer")
            fresh = Runner(self.session, self.sink, self.options)
            if self.cell.image is None:
                fresh.cell, fresh.change = self.cell, self.change
            else:
                fresh.change = self.session.history.begin(f"{written(name)} = ...")
            self.session.number = fresh.cell.number
            fresh.note = lambda text: None  # type: ignore[method-assign]
            fresh.define(plan, "entities")
            if fresh.change is not self.change:
                self.session.history.keep(fresh.change)
            symbol = self.program.linker.symbols[name]
            self.engine.arena.write(symbol.address, value.data)

    # -- statements ------------------------------------------------------------------------------

    def _prepare(self, plan: Plan, part: Literal["block", "entities"]) -> PreparedBlock:
        """Compile the instruction block, or a module that runs once, before any statement runs."""
        options = options_for(self.options, self.session.settings, self.engine.arena)
        level, passes = self.options.opt_level or 0, self.options.passes
        options = options._replace(opt_level=level, passes=passes)
        assembled, request = self.request(plan, part, options)
        compiled = self.compile(request, plan.source)
        check_types(self.program, compiled.summary, self.cell, None)
        if assembled.block_type is not None:
            return PreparedBlock(assembled.block_type, request, compiled)
        entry = function_type(next(f.type for f in compiled.summary.functions if f.name == ENTRY))
        if entry.parameters:
            raise CompileError(f"what runs once takes no arguments, and this is {entry}")
        return PreparedBlock(entry.result, request, compiled)

    def _block(self, plan: Plan, block: Block, host: SessionHost) -> TypedValue | None:
        """Run the instruction block: a function of its own that is called once."""
        linker = self.program.linker
        if isinstance(block, Assembled):
            if block.block_type is None:
                raise CompileError("the cell's instructions have no type")
            return self._call_block(block.block_type, self.entry, host)
        if self.program.running is not None:
            raise JitError("the executor is running another call")
        request, compiled = block.request, block.compiled
        kinds = {f.name: "function" for f in compiled.summary.functions if not f.defined}
        kinds |= {v.name: "variable" for v in compiled.summary.variables if not v.defined}
        record = Record(
            self.cell.number, plan.source, request.source, request.first_line,
            row(request.options), compiled.object, tuple(request.nobuiltin),
        )  # fmt: skip
        self.session.cleanups.add(self._drop_block)
        try:
            with self.engine.arena.rollback.atomic():
                image, entry = linker.place_unnamed(
                    compiled.object, ENTRY, self.cell.number, kinds=kinds
                )
                for info in compiled.summary.functions:
                    symbol = linker.symbols.get(info.name)
                    if symbol is not None and symbol.info is None:
                        self.program.learn(symbol, info, compiled.summary.types)
                self.program.running = image
            self.running = (image, request, record)
            self.session.residency.mark(symbol.image for symbol in image.refs)
            return self._call_block(block.type, entry, host)
        finally:
            self.session.cleanups.done(self._drop_block)

    def _drop_block(self) -> None:
        """The instructions have run: their code goes, their constants are the cell's."""
        image = self.program.running
        if image is not None:
            self.session.graves.bury(image)
            with self.engine.arena.rollback.atomic():
                for held in image.blocks:  # the program may have pointers to them
                    self.program.linker.hold_block(held)
                    self.own(held)
                self.program.linker.unlink(image)
                self.program.running = None
        self.running = None

    def _call_block(self, type: Type, entry: int, host: SessionHost) -> TypedValue | None:
        shown = str(type)
        signature = Signature(f"{host.layout.text(type)} ()", "", "", "", f"{shown} ()")
        target = self.engine.target(signature, ())
        outcome, data = host.run(target, entry, ())
        if outcome.kind != "ok":
            raise self.error(outcome)
        value = TypedValue(type, data, host.layout)
        return None if value.is_void else value

    def _shown(self, name: str, host: SessionHost) -> TypedValue | None:
        variable = host.variable(name)
        if variable is not None:
            return host.load(variable[0], variable[1])
        signature = host.full_signature(name)
        if signature is None:
            near = host.nearest(name)
            if name in self.session.hidden.private:
                number = self.session.hidden.private[name]
                raise CompileError(f"@{quote_name(name)} is private to cell {number}")
            raise CompileError(
                f"@{quote_name(name)} is not defined"
                + (f"; did you mean {written(near)}?" if near else "")
            )
        symbol = self.program.symbol(name)
        cell = self.program.cell_of(symbol) if symbol is not None else None
        where = (
            f"cell {cell.number}, {symbol.size} bytes" if cell and symbol else "a library function"
        )
        if symbol is not None and symbol.state == SymbolState.MISSING:
            where = "nobody defines it yet"
        self.shown("", f"@{quote_name(name)} {signature}, {where}", "")
        return None

    def _magic(self, action: Any) -> None:
        match action:
            case MagicAction():
                self.sink.magic(action)
            case ShellAction():
                self.sink.shell(action)
            case InspectAction():
                self.sink.inspect(action)

    def _show(self, label: str, value: TypedValue) -> None:
        self.sink.shown(label, *self._written(value))

    def _written(self, value: TypedValue) -> tuple[str, str]:
        """The value as text, and in HTML where that says more, else nothing."""
        own = self.language.show(value)
        if own:
            return own, ""
        describe = self.session.places.describe
        text, found = value.text(describe), value.html(describe)
        return text, "" if found == preformatted(text) else found


def _label(text: str) -> str:
    """What a value is shown with: of instructions the last one's name, else the statement."""
    *above, last = text.rstrip().splitlines() or [""]
    name = re.match(rf"\s*(%{NAME})\s*=", last)
    return name[1] if name else last.strip() if above else text
