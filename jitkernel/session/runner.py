"""Runs one cell: reads it, compiles and places its definitions, then does its statements in order.
Start from `Runner.run`.
"""

from __future__ import annotations

import html
import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

from jitkernel.compiler import Compiled, Options, Request, Summary
from jitkernel.errors import (
    ArenaFull,
    CompileError,
    Diagnostic,
    Fault,
    Interrupted,
    JitError,
    UsageError,
    WorkerDied,
)
from jitkernel.executor import Outcome
from jitkernel.languages.llvm import (
    Action,
    Assembled,
    AssignAction,
    BlockAction,
    CallAction,
    InspectAction,
    MagicAction,
    Plan,
    ShellAction,
    ShowAction,
    TypedValue,
    assemble,
    assign,
    evaluate,
    from_python,
    parse_cell,
    progress,
    stands_alone,
)
from jitkernel.languages.llvm.hints import Context, explain
from jitkernel.languages.llvm.types import decode_name, quote_name
from jitkernel.linker import Block, Image, SymbolState
from jitkernel.linker.image import sites
from jitkernel.session.cell import Cell, CellState
from jitkernel.session.change import Change
from jitkernel.session.declare import declaration
from jitkernel.session.faults import error_of
from jitkernel.session.full import explain_full
from jitkernel.session.result import Result, Sink
from jitkernel.session.signatures import Signature, Variable, expand
from jitkernel.session.snapshot import far_words
from jitkernel.session.source_lines import line_finder
from jitkernel.session.store import Record
from jitkernel.session.timing import time_call

if TYPE_CHECKING:
    from jitkernel.session.host import SessionHost
    from jitkernel.session.session import Session

__all__ = ["CellOptions", "Runner"]

_BLOCK = "jk.block"
_ALIGNED = re.compile(r'^\s*@("[^"]*"|[-\w$.]+)\s*=[^\n]*?,\s*align\s+(\d+)', re.MULTILINE)
_FUNCTION = 4 << 8 | 1


@dataclass(frozen=True, slots=True)
class CellOptions:
    """What `%%llvm` and its like say about one cell.

    `opt_level` and `cpu` None or empty: the session's.  `closed` lets LLVM inline the cell's own
    functions into each other, so that redefining one does not reach the others.  `retype` allows a
    type to change under its users; `keep_data` keeps the values of globals that are redefined.
    """

    opt_level: int | None = None
    cpu: str = ""
    closed: bool = False
    ignore_optnone: bool = False
    retype: bool = False
    keep_data: bool = False

    @property
    def words(self) -> str:
        """What differs from the session's settings: `-O0, closed`."""
        level = "" if self.opt_level is None else f"-O{self.opt_level}"
        return ", ".join(filter(None, (level, self.cpu, "closed" * self.closed)))


@dataclass(frozen=True, slots=True)
class PreparedBlock:
    """An instruction block that is compiled and waits for its turn."""

    assembled: Assembled
    request: Request
    compiled: Compiled


@lru_cache(maxsize=64)
def _row(options: Options) -> str:
    """The options as the store keeps them."""
    return json.dumps(options.row())


class Runner:
    """One run of one cell in a session whose lock is held."""

    def __init__(
        self,
        session: Session,
        sink: Sink,
        options: CellOptions,
        cell_id: str | None,
        number: int | None,
    ):
        self.session, self.sink, self.options = session, sink, options
        self.engine, self.program = session.engine, session.program
        wanted = session.number + 1
        number = number if number is not None and number >= wanted else wanted
        self.cell = Cell(number, cell_id, options.words)
        self.result = Result()
        self.change = Change("")
        self.running: tuple[Image, Request, Record] | None = None
        self.entry = 0  # of the instruction block, where it is part of the cell's module
        self.out, self.err = bytearray(), bytearray()

    # -- whole cells -----------------------------------------------------------------------------

    def run(self, source: str) -> Result:
        """Run a cell's source; see `Session.run`."""
        before, self.session.sink = self.session.sink, self
        try:
            return self._run(source)
        except ArenaFull as error:
            raise explain_full(self.session, error) from None
        finally:
            self.session.sink = before
            self.result.stdout = self.out.decode("utf-8", "replace")
            self.result.stderr = self.err.decode("utf-8", "replace")

    def _run(self, source: str) -> Result:
        plan = parse_cell(source)
        if plan.cell_magic is not None:
            raise UsageError(
                f"%%{plan.cell_magic.name} needs the kernel; pass options to run() instead"
            )
        for early in plan.magics:
            self._magic(early)
        if not plan.has_code:
            for action in plan.actions:
                self._magic(action)
            return self.result
        for warning in plan.warnings:
            self.note(f"{warning.severity}: {warning.render()}")
        self.session.number = self.cell.number
        title = source.strip().partition("\n")[0]
        shown = title if len(title) <= 50 else title[:47] + "..."
        self.change = self.session.history.begin(f"cell {self.cell.number}: {shown}")
        self.change.results = (self.session.last,)
        together = bool(plan.entities) and plan.block is not None and not stands_alone(plan)
        block: Assembled | PreparedBlock | None = None
        try:
            if plan.entities:
                assembled = self._define(plan, "all" if together else "entities")
                block = assembled if together else None
            else:
                self._replace_undefined()
            try:
                if plan.block is not None and not together:
                    block = self._prepare_block(plan)
                self._construct()
            except BaseException:
                self.session.history.cancel(self.change)
                raise
        except BaseException:
            self.cell.state = CellState.FAILED
            raise
        self.session.history.keep(self.change)
        self.session.remember_names(plan, self.cell.number)
        self.result.cell = self.cell
        if self.cell.image is not None and (self.change.moved or self.change.notes):
            self._status(self.cell.image)
        self._statements(plan, block)
        return self.result

    def _statements(self, plan: Plan, block: Assembled | PreparedBlock | None) -> None:
        values: list[tuple[str, TypedValue]] = []
        host = self._host()
        for action in plan.actions:
            try:
                value = self._act(action, plan, host, block)
            except JitError as error:
                for label, earlier in values:
                    self._show(label, earlier)
                ran = progress(plan, action)
                if ran and isinstance(error, Fault):
                    error.args = (f"{error}\n{ran[0].upper()}{ran[1:]}.",)
                raise
            while self.engine.notices:
                self.note(self.engine.notices.pop(0))
            if value is not None:
                if values:
                    self._show(*values.pop())
                values.append((action.text, value))
        if values:
            value = values[-1][1]
            self.session.keep_result(self.cell.number, value)
            self.result.typed, self.result.value = value, value.python
            self.result.text = value.text(self.session.describe)
            self.result.html = self._html(value)

    def _act(
        self,
        action: Action,
        plan: Plan,
        host: SessionHost,
        block: Assembled | PreparedBlock | None,
    ) -> TypedValue | None:
        match action:
            case CallAction(expr):
                value = evaluate(expr, None, host, plan.source)
                return None if value.is_void else value
            case BlockAction():
                assert block is not None
                return self._block(plan, block, host)
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

    def _define(self, plan: Plan, part: Any) -> Assembled:
        """Compile and place the cell's module; nothing changes where that fails."""
        assembled, request = self.request(plan, part)
        compiled = self._compile(request, plan.source)
        self._place(request, compiled, plan.source)
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
                return None if info is None else declaration(name, info)
            if symbol.state == SymbolState.DEFINED:
                own.add(name)
            return declaration(name, symbol.info)

        assembled = assemble(
            plan,
            known,
            program.types,
            block_name=_BLOCK,
            prelude=self.session.settings.prelude,
            part=part,
        )
        names = own if part == "block" else own | plan.defines
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
            options or self.session.options(self.options),
            label=f"cell {self.cell.number}",
            nobuiltin=functions,
            first_line=assembled.first_line,
            context=self.session.settings.context,
            cell=0 if part == "block" else self.cell.number,
        )

    def _compile(self, request: Request, source: str) -> Compiled:
        self.engine.pool.timeout = self.session.settings.timeout
        if request.context == "kept":
            self.session.release_contexts()  # of cells that were replaced since
        if self.engine.stopping:
            raise Interrupted("the cell was interrupted")
        try:
            compiled = self.engine.pool.compile(request)
        except CompileError as error:
            raise self.explained(error, source) from None
        for warning in compiled.warnings:
            self.note(f"{warning.severity}: {warning.render()}")
        return compiled

    def explained(self, error: CompileError, source: str) -> CompileError:
        """LLVM's complaints with what to try."""
        session = self.session
        context = Context(list(self.program.linker.symbols), session.ended_locals, session.private)
        found = [explain(d, source, context) for d in error.diagnostics]
        if isinstance(error, WorkerDied):
            return error
        return CompileError(found)

    def _place(self, request: Request, compiled: Compiled, source: str) -> None:
        cell, program, change = self.cell, self.program, self.change
        old = program.cells.get(program.by_id.get(cell.cell_id, 0)) if cell.cell_id else None
        changed = program.check_types(compiled.summary, cell, old)
        if changed and not self.options.retype:
            program.refuse_change(changed, compiled.summary, old)
        again = self._compile_again(compiled, old)
        began = time.perf_counter_ns()
        try:
            image = program.place(
                cell, compiled, change, keep_data=self.options.keep_data, retype=changed,
                aligned=_alignments(request.source),
            )  # fmt: skip
            linked = time.perf_counter_ns() - began
            program.let_go(change, self.session.finish)
            for other, record in again:
                program.replace(other, record)
        except BaseException:
            if change.added is not None:
                self.session.history.abandon(change)
            raise
        t = compiled.times
        cell.times = (t["parse"], t["verify"], t["optimise"], t["emit"], linked)
        self.session.store.put(
            Record(cell.number, source, request.source, request.first_line,
                   _row(request.options), compiled.object, tuple(request.nobuiltin))
        )  # fmt: skip
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
                record.module, self.session.stored_options(record), f"cell {number}", nobuiltin,
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

    def _construct(self) -> None:
        """Run the constructors of what was placed."""
        image = self.cell.image
        if image is None or not image.init:
            return
        outcome = self.engine.call_many(image.init)
        if outcome.kind != "ok":
            error = self._error(outcome)
            error.args = (
                f"{error}\nThis was in a constructor of the cell, so nothing of it stayed.",
            )
            raise error

    def _hide_block(self, image: Image) -> None:
        """The function of the cell's instructions is reached by its address, not by name."""
        block = self.program.linker.symbols.get(_BLOCK)
        if block is not None and block.image is image:
            self.entry = block.address
            del self.program.linker.symbols[_BLOCK]
            self.change.moved.pop(_BLOCK, None)
            image.exports = tuple([e for e in image.exports if e[0] is not block])

    def _replace_undefined(self) -> None:
        """A notebook cell that defined something and has no definitions any more."""
        cell, program = self.cell, self.program
        old = program.cells.get(program.by_id.get(cell.cell_id, 0)) if cell.cell_id else None
        if old is not None:
            program.retire(old, cell, self.change)
            program.let_go(self.change, self.session.finish)
            for note in self.change.notes:
                self.note(note)

    def _status(self, image: Image) -> None:
        cell, program = self.cell, self.program
        words = []
        for symbol, _, size in image.exports:
            if symbol.info is None or symbol.name == _BLOCK:
                continue
            shown = symbol.info.shown if isinstance(symbol.info, Signature) else str(symbol.info)
            words.append(f"@{quote_name(symbol.name)} {shown}, {size} bytes")
        if words:
            more = f" and {len(words) - 4} more" if len(words) > 4 else ""
            spent = sum(cell.times[:-1]) / 1e6
            compiled = f"compiled in {spent:.1f} ms" if spent else "compiled before"
            self.note(
                f"cell {cell.number}: {'; '.join(words[:4])}{more}, {compiled}, "
                f"linked in {cell.times[-1] / 1e6:.2f} ms"
            )
        for name, (owner, info) in self.change.moved.items():
            moved = program.symbol(name)
            if not owner or moved is None or moved.image is not image:
                continue
            users = {i: p for i, p in (moved.users or {}).items() if i is not image and i.cell}
            calls = sum(1 for packed in users.values() for _ in sites(packed))
            same = owner == self.change.replaced
            moves = "replaced" if same else f"moved from cell {owner} to cell {cell.number}"
            what = f"@{quote_name(name)} {moves}"
            if users:
                kind = "call" if isinstance(info, Signature) else "use"
                who = "caller" if isinstance(info, Signature) else "user"
                what += (
                    f"; {len(users)} {who}{'s' * (len(users) != 1)} "
                    f"({calls} {kind}{'s' * (calls != 1)}) now use{'s' * (len(users) == 1)} it"
                )
            other = program.cells.get(owner)
            if other is not None and other.closed:
                what += f"; cell {owner} was compiled closed: its own uses of it may not follow"
            self.note(what)
        for note in self.change.notes:
            self.note(note)

    def _new_global(self, name: str, value: TypedValue) -> None:
        """`@name = expr` for a name that is new: a definition, zero first, then the bytes."""
        type = str(value.type)
        layout = value.layouts(value.type)
        info = Variable(expand(type, self.program.types), False, type)
        if self.program.extend(self.cell, name, info, value.data, layout.align, self.change):
            return
        plan = parse_cell(f"@{quote_name(name)} = global {type} zeroinitializer")
        fresh = Runner(self.session, self.sink, self.options, None, None)
        fresh.cell = self.cell if self.cell.image is None else fresh.cell
        fresh.change = (
            self.change if self.cell.image is None else self.session.history.begin(f"@{name} = ...")
        )
        self.session.number = fresh.cell.number
        fresh.note = lambda text: None  # type: ignore[method-assign]
        fresh._define(plan, "entities")
        if fresh.change is not self.change:
            self.session.history.keep(fresh.change)
        symbol = self.program.linker.symbols[name]
        self.engine.arena.write(symbol.address, value.data)

    # -- statements ------------------------------------------------------------------------------

    def _prepare_block(self, plan: Plan) -> PreparedBlock:
        """Compile the instruction block, before any statement of the cell runs."""
        options = replace(self.session.options(self.options), opt_level=self.options.opt_level or 0)
        assembled, request = self.request(plan, "block", options)
        compiled = self._compile(request, plan.source)
        self.program.check_types(compiled.summary, self.cell, None)
        return PreparedBlock(assembled, request, compiled)

    def _block(
        self, plan: Plan, block: Assembled | PreparedBlock, host: SessionHost
    ) -> TypedValue | None:
        """Run the instruction block: a function of its own that is called once."""
        linker = self.program.linker
        if isinstance(block, Assembled):
            return self._call_block(block, self.entry, host)
        request, compiled = block.request, block.compiled
        kinds = {f.name: "function" for f in compiled.summary.functions if not f.defined}
        kinds |= {v.name: "variable" for v in compiled.summary.variables if not v.defined}
        image = linker.place(compiled.object, self.cell.number, kinds=kinds, weak=frozenset())
        linker.symbols.pop(_BLOCK, None)
        entry = image.exports[0][1]
        image.exports = ()
        record = Record(
            self.cell.number, plan.source, request.source, request.first_line,
            _row(request.options), compiled.object, tuple(request.nobuiltin),
        )  # fmt: skip
        self.running = (image, request, record)
        self.program.running = image
        try:
            for info in compiled.summary.functions:
                symbol = linker.symbols.get(info.name)
                if symbol is not None and symbol.info is None:
                    self.program.learn(symbol, info, compiled.summary.types)
            return self._call_block(block.assembled, entry, host)
        finally:
            self.running = self.program.running = None
            self.session.graves_of(image)
            for held in image.blocks:  # constants may be pointed to: they are the cell's now
                held.holders += 1
                self._own(held)
            linker.unlink(image)

    def _call_block(self, assembled: Assembled, entry: int, host: SessionHost) -> TypedValue | None:
        type = assembled.block_type
        assert type is not None
        shown = str(type)
        signature = Signature(f"{host._type(type)} ()", "", "", "", f"{shown} ()")
        target = self.engine.target(signature, ())
        outcome, data = host.run(target, entry, ())
        if outcome.kind != "ok":
            raise self._error(outcome)
        value = TypedValue(type, data, host.layout)
        return None if value.is_void else value

    def _shown(self, name: str, host: SessionHost) -> TypedValue | None:
        variable = host.variable(name)
        if variable is not None:
            return host.load(variable[0], variable[1])
        signature = host.full_signature(name)
        if signature is None:
            near = host.nearest(name)
            if name in self.session.private:
                raise CompileError(
                    f"@{quote_name(name)} is private to cell {self.session.private[name]}"
                )
            raise CompileError(
                f"@{quote_name(name)} is not defined" + (f"; did you mean @{near}?" if near else "")
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

    def call(self, name: str, arguments: Sequence[Any]) -> TypedValue:
        """Call a function with Python values."""
        before, self.session.sink = self.session.sink, self
        host = self._host()
        try:
            signature = host.full_signature(name)
            if signature is None or not (self.program.symbol(name) or host.known(name)):
                near = host.nearest(name)
                raise UsageError(
                    f"no function @{name}" + (f"; did you mean @{near}?" if near else "")
                )
            symbol = self.program.symbol(name)
            if symbol is not None and symbol.state == SymbolState.MISSING:
                raise UsageError(f"@{name} is not defined: {symbol.why or 'nobody defines it yet'}")
            function = signature.function
            wanted = len(function.parameters)
            if len(arguments) < wanted or (len(arguments) > wanted and not function.variadic):
                raise UsageError(
                    f"@{name} takes {wanted} arguments ({function}), {len(arguments)} given"
                )
            values = [
                from_python(
                    function.parameters[i] if i < wanted else None, a, host, f"argument {i + 1}"
                )
                for i, a in enumerate(arguments)
            ]
            return host.call(name, values)
        except ArenaFull as error:
            raise explain_full(self.session, error) from None
        finally:
            self.session.sink = before
            for block in self.cell.strings:
                self.program.linker.release_block(block)

    def time(self, expression: str, number: int, repeat: int) -> list[float]:
        """Nanoseconds per call of a call line; see `Session.time`."""
        before, self.session.sink = self.session.sink, self
        try:
            return time_call(self.engine, self._host(), self._error, expression, number, repeat)
        finally:
            self.session.sink = before
            for block in self.cell.strings:
                self.program.linker.release_block(block)

    # -- library use without running -------------------------------------------------------------

    def compile_only(self, source: str) -> tuple[Request, Compiled, dict[str, int], CellOptions]:
        """Compile definitions; the request, the result, sizes per zone, the options."""
        plan = _definitions(source)
        _, request = self.request(plan, "entities")
        compiled = self._compile(request, plan.source)
        return request, compiled, self.program.linker.sizes(compiled.object), self.options

    def place_only(self, source: str, request: Request, compiled: Compiled) -> Result:
        """Place what was compiled before, as a cell."""
        before, self.session.sink = self.session.sink, self
        try:
            self.session.number = self.cell.number
            self.change = self.session.history.begin(f"cell {self.cell.number}")
            self._place(request, compiled, source)
            try:
                self._construct()
            except BaseException:
                self.session.history.cancel(self.change)
                raise
            self.session.history.keep(self.change)
            if self.cell.image is not None:
                self._status(self.cell.image)
            self.result.cell = self.cell
            return self.result
        except ArenaFull as error:
            raise explain_full(self.session, error) from None
        finally:
            self.session.sink = before

    def place_object(self, path: str, data: bytes) -> Result:
        """Place an object that another compiler made."""
        request = Request(f"; {path}", label=path)
        times = dict.fromkeys(("parse", "verify", "optimise", "emit"), 0)
        return self.place_only(f"; %link {path}", request, Compiled(data, Summary(), times))

    @staticmethod
    def run_many(session: Session, sources: Sequence[str], options: CellOptions) -> list[Result]:
        """Compile in parallel, place in order."""
        from jitkernel.session.result import Collector

        plans = [_definitions(s) for s in sources]
        first = Runner(session, Collector(), options, None, None)
        requests: list[Request] = []
        soon: set[str] = set()
        for plan in plans:
            _, request = first.request(plan, "entities")
            # What an earlier one of them will have defined is no library's.
            nobuiltin = request.nobuiltin | (plan.declares & soon)
            requests.append(replace(request, nobuiltin=nobuiltin))
            soon |= plan.defines
        compiles = session.engine.pool.compile_many(requests)
        results: list[Result] = []
        done: set[str] = set()
        for plan, source, request, compiled in zip(plans, sources, requests, compiles, strict=True):
            runner = Runner(session, Collector(), options, None, None)
            if (plan.uses - plan.declares) & done:
                # It uses what earlier ones define and says nothing of their types.
                _, request = runner.request(plan, "entities")
                compiled = runner._compile(request, source)
            elif isinstance(compiled, CompileError):
                raise first.explained(compiled, source)
            results.append(runner.place_only(source, request, compiled))
            done |= plan.defines
        return results

    # -- the session's sink while this cell runs -------------------------------------------------

    def output(self, name: str, data: bytes) -> None:
        """Bytes from the program: kept for the result (the last megabyte) and passed on."""
        kept = self.out if name == "stdout" else self.err
        kept += data
        if len(kept) > 1 << 21:
            del kept[: 1 << 20]
        self.sink.output(name, data)

    def input(self, prompt: str) -> str | None:
        """The sink's input."""
        return self.sink.input(prompt)

    def shown(self, label: str, text: str, markup: str) -> None:
        """A value between."""
        self.sink.shown(label, text, markup)

    def note(self, text: str) -> None:
        """A status line."""
        self.result.notes.append(text)
        self.sink.note(text)

    def magic(self, action: Any, run: Any = None) -> None:
        """Passed on."""
        self.sink.magic(action, run)

    def shell(self, action: Any) -> None:
        """Passed on."""
        self.sink.shell(action)

    def inspect(self, action: Any) -> None:
        """Passed on."""
        self.sink.inspect(action)

    def _magic(self, action: Any) -> None:
        match action:
            case MagicAction():
                self.sink.magic(action)
            case ShellAction():
                self.sink.shell(action)
            case InspectAction():
                self.sink.inspect(action)

    def _show(self, label: str, value: TypedValue) -> None:
        self.sink.shown(label, value.text(self.session.describe), self._html(value))

    def _html(self, value: TypedValue) -> str:
        """The value in HTML where that says more than its text, else nothing."""
        describe = self.session.describe
        found = value.html(describe)
        return "" if found == f"<pre>{html.escape(value.text(describe))}</pre>" else found

    # -- inside ----------------------------------------------------------------------------------

    def _host(self) -> SessionHost:
        return self.session.host(self._own, self._error)

    def _own(self, block: Block) -> None:
        """A block of data is this cell's from now on; a cell without code is kept for it."""
        self.cell.strings += (block,)
        if self.cell.number not in self.program.cells and self.session.number == self.cell.number:
            self.program.adopt(self.cell, self.change)

    def _error(self, outcome: Outcome) -> Fault:
        kept = self._kept()
        if outcome.respawned and (words := far_words(self.engine.arena)):
            stale = (
                f"{words} word{'s' * (words != 1)} in globals still point into the one that ended"
            )
            outcome = replace(outcome, lost=f"{outcome.lost}; {stale}" if outcome.lost else stale)
        find: Callable[[int], tuple[int, str]] = line_finder(self.session, self.running)
        return error_of(outcome, self.session.places, self.program.linker, find, kept)

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


def _definitions(source: str) -> Plan:
    plan = parse_cell(source)
    if plan.actions or plan.magics or plan.cell_magic or not plan.entities:
        _refuse("only definitions can be compiled without running: no statements, no magics")
    return plan


def _refuse(message: str) -> NoReturn:
    raise CompileError([Diagnostic(message)])
