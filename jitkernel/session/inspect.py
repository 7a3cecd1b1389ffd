"""`Session.inspect`: all that views and tools may look at.  Start from `Inspect`.

Nothing here changes the program.  Asking for a cell's code does not bring it back into memory
(`Session.wake` does); asking the compiler places nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from jitkernel.errors import UsageError
from jitkernel.ir.names import CONTROL, bare
from jitkernel.linker.records import SymbolState
from jitkernel.session.operation import operation
from jitkernel.wording import did_you_mean

if TYPE_CHECKING:
    from jitkernel.compiler.records import Request
    from jitkernel.compiler.traces import Traces
    from jitkernel.languages.llvm.plan import Plan
    from jitkernel.languages.prototypes import Spelling
    from jitkernel.linker.linkmap import LinkMap, MappedSymbol
    from jitkernel.session.core import Core
    from jitkernel.session.debugging.debugger import Debugger
    from jitkernel.session.engine import Engine
    from jitkernel.session.handles import Symbol as SessionSymbol
    from jitkernel.session.history.undo import UndoHistory
    from jitkernel.session.program.cell import Cell
    from jitkernel.session.program.program import Program
    from jitkernel.session.program.signatures import Signature, Variable
    from jitkernel.session.report.memory import Sample
    from jitkernel.session.report.places import Places
    from jitkernel.session.report.watch import Observers
    from jitkernel.session.residency.residency import Residency
    from jitkernel.session.run.host import SessionView
    from jitkernel.session.saved.store import Store
    from jitkernel.values.datatype import DataType
    from jitkernel.values.value import TypedValue

T = TypeVar("T")

#: Words for where a symbol is that no cell defines.
_WHERE = {
    SymbolState.MISSING: "it is only declared", SymbolState.NULL: "it is only declared",
    SymbolState.DEFINED: "an archive has it", SymbolState.FAR: "a library has it",
    SymbolState.FIXED: "its address is fixed",
}  # fmt: skip


class Inspect:
    """A session, read only: the parts of its core, each of which says what it knows, and what
    takes several of them."""

    engine: Engine  # arena, compiler pool, executor
    history: UndoHistory  # what can be undone
    observers: Observers
    places: Places  # names and lines of addresses
    program: Program  # cells and symbols
    residency: Residency  # which cells' code is in memory
    store: Store  # sources and objects

    __slots__ = ("_core", "_keeps")

    def __init__(self, core: Core, keeps: object):
        self._core, self._keeps = core, keeps  # a session that nobody has ends

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            if name not in Inspect.__annotations__:
                raise AttributeError(f"Session.inspect has no attribute {name!r}")
            return getattr(self._core, name)

    # -- cells and symbols -----------------------------------------------------------------------

    def cell_of(self, target: int | str | None) -> tuple[Cell, list[str]]:
        """The cell that a number or a name (`sq`, `@sq`) stands for, and the names in it that are
        meant; for None the last cell that defines anything.  Raises UsageError."""
        session = self._core
        cells = session.program.cells
        if target is None:
            defining = [number for number, cell in cells.items() if cell.names]
            if not defining:
                raise UsageError("no cell defines anything yet")
            target = max(defining)
        if isinstance(target, int):
            if target not in cells:
                known = 0 < target <= session.number
                what = "was replaced, evicted, failed or had no code" if known else "never ran"
                raise UsageError(
                    f"there is no cell {target} in memory: it {what}; %cells lists those there are"
                )
            return cells[target], cells[target].names
        name = bare(target)
        owner = session.program.owner(name)
        if owner not in cells:
            raise UsageError(self._without_cell(name))
        return cells[owner], [name]

    def _without_cell(self, name: str) -> str:
        """The reason why no cell has a name."""
        from jitkernel.session.handles import SymbolTable

        symbol, called = self.program.named(name), self.program.called
        if symbol is None:
            table = SymbolTable(self._core)
            words = did_you_mean(name, table, called, "; %symbols lists what there is")
            return f"nothing of the session is called {called(name)}{words}"
        return f"no cell defines {called(name)}: {symbol.why or _WHERE[symbol.state]}"

    def plan(self, source: str, language: str, level: int) -> Plan:
        """The plan of a cell of a language at an optimisation level; nothing is compiled or run.
        Raises what reading it raises."""
        from jitkernel.session.run.runner import Runner
        from jitkernel.session.settings import CellOptions

        return Runner(self._core, options=CellOptions(level)).planned(source, language)

    def signature(self, name: str) -> Signature | Variable | None:
        """The type of a name as it is known, by its definition or by a declaration."""
        symbol = self.program.named(name)
        return symbol.info if symbol is not None else self.program.state.declared.get(name)

    def spelling(self, name: str) -> Spelling | None:
        """The form that the language of a name's definition gives it; None where IR is that."""
        return self._core.spelling(name.removeprefix(CONTROL))

    def spelled(self, name: str) -> str:
        """The declaration of a name in the language of its definition, "" where that is as IR
        does."""
        said = self.spelling(name)
        return said.text if said is not None else ""

    def type_of(self, symbol: SessionSymbol) -> str:
        """Its declaration, or its type in IR where it is declared there."""
        return self.spelled(symbol.name) or f"{'thread_local ' * symbol.thread_local}{symbol.type}"

    def text_of(self, name: str, value: TypedValue) -> str:
        """The value of a variable as the language of its definition writes one."""
        from jitkernel.languages import find
        from jitkernel.values.python import to_python

        core = self._core
        language = core.program.state.notes.language_of(core.program.owner(name))
        literal = find(language or "llvm").literal
        if literal is None:
            return value.text(core.places.describe)
        seen = core.prototypes.of(name).result
        return literal(value.python if seen is None else to_python(seen, value.data))

    def declaration(self, name: str) -> str | None:
        """The declaration in IR of a name that the session knows."""
        from jitkernel.session.program.signatures import declaration

        info = self.signature(name)
        return declaration(name, info) if info is not None else None

    def layout(self, type: str) -> DataType:
        """The layout of a type of LLVM's, such as `{ i8, i32 }` or `%s`.  Raises UsageError for a
        text that is none, CompileError for one without a size."""
        from jitkernel.ir.types import TypeSyntaxError, parse_type

        try:
            return self.program.layouts(parse_type(type))
        except TypeSyntaxError as error:
            raise UsageError(f"{type} is no type of LLVM's: {error}") from None

    @property
    def state(self) -> SessionView:
        """The questions that a language may ask while somebody types, also while a cell runs."""
        from jitkernel.session.run.host import SessionView

        return SessionView(self._core)

    # -- what cells were made of -----------------------------------------------------------------

    def module(self, number: int) -> str:
        """The IR that a cell's module was compiled from.  Raises UsageError where it is gone."""
        record = self.store.get(number)
        if record is None or not record.module:
            raise UsageError(f"cell {number} has no IR of its own")
        return record.module.strip("\n")

    def object(self, number: int) -> bytes:
        """The relocatable object of a cell; empty where there is none."""
        record = self.store.get(number)
        return record.object if record is not None else b""

    def request(self, number: int) -> Request:
        """The compiler's request for a cell. Raises UsageError where it has no IR."""
        record = self.store.get(number)
        if record is None or not record.module.strip():
            raise UsageError(f"cell {number} has no IR of its own")
        if record.is_linked:
            raise UsageError(f"cell {number} is an object of another compiler: it has no IR")
        return self.program.lender.stored(record)

    def request_anew(self, number: int) -> Request:
        """The request as it would be made for a cell now.  Raises UsageError as `request` does."""
        from jitkernel.session.program.lending import Lending  # not needed to start

        return Lending(self.program.lender).lend(self.request(number), cell=number)

    def held(self, number: int) -> frozenset[str]:
        """The symbols whose bodies or values a cell has in its code."""
        from jitkernel.linker.layout import ReadObject  # not needed to start

        data = self.object(number)
        return ReadObject.of(data).held() if data else frozenset()

    def cell_lines(self, number: int, request: Request) -> Callable[[int], int]:
        """From lines of what the compiler is asked for a cell to lines of its source, 0 where
        unknown."""
        from jitkernel.ir.marks import cell_lines

        record = self.store.get(number)
        source = record.source if record is not None else ""
        return cell_lines(request.source, request.first_line, source)

    def link_map(self, number: int) -> LinkMap | None:
        """The fate of each section, symbol and relocation of a cell's object; None where it is not
        in memory."""
        from jitkernel.linker.linkmap import read_link_map

        cell, data = self.program.cells.get(number), self.object(number)
        if cell is None or cell.image is None or not data:
            return None
        return read_link_map(self.program.linker, cell.image, data)

    def own_symbols(self, number: int) -> Sequence[MappedSymbol]:
        """The symbols alone of a cell's link map; none where it is not in memory."""
        cell, data = self.program.cells.get(number), self.object(number)
        if cell is None or cell.image is None or not data:
            return ()
        from jitkernel.linker.linkmap import read_symbols  # few sessions ask

        return read_symbols(self.program.linker, cell.image, data)

    @property
    def debugger(self) -> Debugger | None:
        """The session's debugger, where somebody has used it."""
        return self._core.__dict__.get("debugger")

    # -- the compiler ----------------------------------------------------------------------------

    @operation()
    def traced(self, ask: Callable[[Traces], T]) -> T:
        """An answer of LLVM's about its work on a module: `lambda of: of.passes(request)`."""
        return ask(self.engine.pool.traces)

    @operation()
    def ends(self, request: Request) -> tuple[str, str]:
        """The module as its passes find it and as they leave it, all values named."""
        return self.engine.pool.ends(request)

    @operation()
    def printed(self, request: Request, optimised: bool = True) -> str:
        """The module as its passes leave it or (else) as they find it, as LLVM prints it."""
        return self.engine.pool.printed(request, optimised)

    # -- the arena -------------------------------------------------------------------------------

    def memory_samples(self) -> Sequence[Sample]:
        """The bytes that slab and processes held when cells had ended, the oldest first, and what
        they hold now: a bounded number of samples, thinned out evenly."""
        with self._core.lock:
            self.observers.sample_memory(self._core.number, now=True)
            return self.observers.log.samples

    # -- what addresses are ----------------------------------------------------------------------

    def name_of(self, address: int) -> str:
        """The name of an address: `@sq+4`, `@g+8`; empty where nothing is known of it."""
        places = self.places
        data = places.data(address) if address in self.engine.arena else ""
        return data or places.name(address)

    def locate(self, address: int, generation: int) -> str:
        """The name that the dynamic linker of an executor has for an address: `puts+0x10,
        libc.so.6`."""
        return self.engine.executor.services.locate([address], generation)[0]

    # -- processes -------------------------------------------------------------------------------

    @property
    def executor(self) -> tuple[int, int]:
        """The executor's process, and which in the row of executors it is."""
        executor = self.engine.executor
        return executor.pid, executor.generation

    def workers(self) -> Iterator[tuple[str, int]]:
        """Role and process of each compiler worker."""
        return ((worker.role, worker.pid) for worker in self.engine.pool.memory())
