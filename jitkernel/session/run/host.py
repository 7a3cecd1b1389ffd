"""On whose behalf code runs, and what its expressions and its language ask of the session: symbols,
calls, loads, strings.  Start from `SessionHost` and `Execution`.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from mmap import PAGESIZE
from typing import TYPE_CHECKING, Any, Self, SupportsIndex

from jitkernel.errors import ArenaFull, Fault, JitError, UndefinedSymbol, UsageError
from jitkernel.executor.records import Outcome
from jitkernel.ir.keywords import nearest
from jitkernel.ir.names import CONTROL
from jitkernel.ir.types import FunctionType, Type, parse_type
from jitkernel.languages.llvm.prelude import PRELUDE, prelude_type
from jitkernel.linker import Block, Symbol, SymbolKind, SymbolState
from jitkernel.linker.records import NOWHERE
from jitkernel.session.history.snapshot import far_words, grown
from jitkernel.session.program.cell import Cell, Change
from jitkernel.session.program.signatures import Signature, Variable
from jitkernel.session.run.results import OutputTee, Sink
from jitkernel.session.settings import USUAL, CellOptions
from jitkernel.values.value import TypedValue
from jitkernel.wording import counted

if TYPE_CHECKING:
    from jitkernel.languages.llvm.plan import Kept
    from jitkernel.session.core import Core
    from jitkernel.session.run.thunks import Thunk

_TYPE = operator.attrgetter("type")


class SessionHost:
    """The questions of expressions to a program."""

    links = False  # names are looked up in the session's archives, too

    def __init__(self, core: Core):
        self.core, self.engine, self.program = core, core.engine, core.program
        self.result, self._prelude = core.results.find, core.settings.prelude
        self.shared = core.arrays.seen
        self.layout = self.program.layouts  # all that its values keep

    # -- of whoever code runs for: see `Execution` -----------------------------------------------

    def own(self, block: Block) -> None:
        """Data is somebody's from now on."""

    def error(self, outcome: Outcome) -> Exception:
        """The exception to raise for a call that was stopped."""
        return JitError(outcome.kind)

    def provide(self, names: Sequence[str], own: Collection[str] = frozenset()) -> None:
        """Take from the session's archives what defines a name that nobody else has; `own` are
        names that are about to be defined."""

    # -- what is known ---------------------------------------------------------------------------

    def signature(self, name: str) -> FunctionType | None:
        """The type of a function of the session or the prelude."""
        found = self.full_signature(name)
        return None if found is None else found.function

    def full_signature(self, name: str) -> Signature | None:
        """The same with everything that calling it depends on."""
        symbol = self.program.linker.symbols.get(name)
        known = symbol.info if symbol is not None else None
        known = known or self.program.state.declared.get(name)
        if isinstance(known, Signature):
            return known
        if self._prelude and (symbol is None or symbol.info is None):
            type = prelude_type(name)
            if type is not None:
                return Signature(str(type), "", "", "", str(type))
        return None

    def variable(self, name: str) -> tuple[Type, int, bool] | None:
        """Type, address and constancy of a variable that has storage; of a thread-local one, the
        storage of the thread that runs cells."""
        self.core.refuse_closed()
        symbol, declared = self.program.named(name), self.program.state.declared.get(name)
        if isinstance(declared, Variable) and (symbol is None or symbol.state in NOWHERE):
            symbol = self._look_up(name, SymbolKind.DATA, declared)
        info = declared if symbol is None or symbol.info is None else symbol.info
        if symbol is None or not isinstance(info, Variable):
            return None
        if symbol.state not in (SymbolState.DEFINED, SymbolState.FAR):
            return None
        address = symbol.address
        if symbol.name.startswith(CONTROL):
            address = self.engine.copies.find(symbol)
        return parse_type(info.shown), address, info.constant

    def address(self, name: str) -> int | None:
        """A function's canonical entry, a variable's storage."""
        symbol = self.known(name)
        return None if symbol is None else self.engine.linker.canonical(symbol)

    def known(self, name: str) -> Symbol | None:
        """The symbol, looked up in archives and the executor's process where the session lacks
        it."""
        symbol = self.program.named(name)
        if symbol is not None and symbol.state not in NOWHERE:
            return symbol
        signature = self.full_signature(name)
        return symbol if signature is None else self._look_up(name, SymbolKind.FUNCTION, signature)

    def _look_up(self, name: str, kind: SymbolKind, info: Signature | Variable) -> Symbol | None:
        """The symbol of what no cell defines."""
        if self.links:
            self.provide([name])
        if (symbol := self.program.named(name)) is not None:
            return symbol
        linker = self.engine.linker
        with linker.arena.rollback.atomic():
            symbol = linker.known(name, kind)
            if symbol is not None:
                symbol.info = info
        return symbol

    def called(self, name: str) -> str:
        """A symbol as the user knows it."""
        return self.program.called(name)

    def nearest(self, name: str) -> str | None:
        """The known name closest to one that is not."""
        names = [n for n in self.program.linker.symbols if n != name]
        return nearest(name, names) or (nearest(name, PRELUDE, 0.75) if self._prelude else None)

    def hint(self, name: str) -> str:
        """The remedy for a name that is not known here; "" where nothing comes near."""
        symbol = self.program.linker.symbols.get(name)
        if symbol is not None and symbol.info is None and symbol.state is SymbolState.DEFINED:
            called = self.called(name)
            return f"an object has it, and objects say no types: declare {called} in a cell"
        if (number := self.core.hidden.private.get(name)) is not None:
            return f"it is private to cell {number}"
        near = self.nearest(name)
        return f"did you mean {self.called(near)}?" if near else ""

    # -- what is done ----------------------------------------------------------------------------

    def call(self, name: str, arguments: Sequence[TypedValue]) -> TypedValue:
        """Call a function by name; raises what stopped it."""
        symbol = self.known(name)
        info = symbol.info if symbol is not None else None
        signature = info if isinstance(info, Signature) else self.full_signature(name)
        if signature is None or symbol is None:
            from jitkernel.linker.exporters import nobodys  # only for errors

            words = f"call of {self.called(name)}, {nobodys(name)}"
            raise UndefinedSymbol(words, symbol=name)
        entry = self.entry(symbol)
        types = tuple(map(self.layout.text, map(_TYPE, arguments)))
        target = self.engine.thunks.target(signature, types)
        data = self.run_thunk(target, entry, arguments)
        return TypedValue(signature.function.result, data, self.layout)

    def intrinsic(
        self,
        name: str,
        arguments: Sequence[Sequence[str]],
        constants: Sequence[str],
        results: Sequence[str],
    ) -> FunctionType | str:
        """The type of an intrinsic that is called so, or why there is none."""
        types = [[self.layout.text(parse_type(t)) for t in choices] for choices in arguments]
        found = self.engine.pool.intrinsic(name, types, constants, results)
        if isinstance(found, str):
            return found
        return FunctionType(parse_type(found[0]), tuple(map(parse_type, found[1])))

    def call_intrinsic(
        self, name: str, type: FunctionType, arguments: Sequence[TypedValue | str]
    ) -> TypedValue:
        """Call an intrinsic; an argument that is text is a constant."""
        kinds = zip(type.parameters, arguments, strict=True)
        target = self.engine.thunks.intrinsic(
            name,
            str(type.result),
            tuple((str(t), a if isinstance(a, str) else "") for t, a in kinds),
        )
        data = self.run_thunk(target, 0, [a for a in arguments if not isinstance(a, str)])
        return TypedValue(type.result, data, self.layout)

    def entry(self, symbol: Symbol) -> int:
        """The address at which a function's code begins, in memory from now on."""
        self.core.residency.use(symbol.image)
        return self.engine.linker.entry(symbol)

    def run_thunk(self, target: Thunk, entry: int, arguments: Sequence[TypedValue]) -> bytes:
        """Call `entry` through a thunk; the bytes of its result.  Raises what stopped it."""
        outcome = self.attempt(target, entry, arguments)
        if outcome.kind != "ok":
            raise self.error(outcome)
        return outcome.result

    def attempt(self, target: Thunk, entry: int, arguments: Sequence[TypedValue]) -> Outcome:
        """The same, however the call ends."""
        packed = b""
        layout = target.arguments
        if layout is not None:
            buffer = bytearray(layout.size)
            for member, argument in zip(layout.members, arguments, strict=True):
                data = argument.data
                buffer[member.offset : member.offset + len(data)] = data
            packed = bytes(buffer)
        size = target.result.size if target.result is not None else 0
        return self.engine.call(target.address, entry, packed, size)

    def read(self, address: int, size: int) -> bytes:
        """Bytes of the arena."""
        return self.engine.arena.read(address, size)

    def load(self, type: Type, address: int) -> TypedValue:
        """The value at an address of the arena."""
        size = self.layout(type).size
        arena = self.engine.arena
        if address not in arena:
            if data := self.engine.copies.read(address, size):
                return TypedValue(type, data, self.layout)
            raise UsageError(
                f"the variable is in the executor's own memory ({address:#x}); "
                "load it with an instruction"
            )
        return TypedValue(type, arena.read(address, size), self.layout)

    def store(self, address: int, data: bytes) -> None:
        """Write a variable."""
        if not self.engine.copies.write(address, data):
            self.engine.arena.write(address, data)

    def buffer(self, thing: object, what: str) -> int:
        """The address at which the program sees an array that is shared with it."""
        return self.core.arrays.address(thing, what)

    def address_in(self, handle: SupportsIndex, what: str) -> int:
        """A number, or where the function or variable is that a handle names."""
        owner = getattr(handle, "_session", None)
        if owner is not None and (engine := owner._core.engine) is not self.engine:
            if engine.executor.pid != self.engine.executor.pid:
                raise UsageError(
                    f"{what}: {handle!r} is another session's, whose memory this program does "
                    "not see: define it here, or hand on what session.array gives"
                )
        return operator.index(handle)

    def allocate(self, data: bytes, align: int) -> int:
        """Data that the cell owns."""
        arena = self.engine.arena
        with arena.rollback.atomic():
            extent = arena.reserve("data", max(len(data), 1), max(align, 1))
            arena.write(extent.start, data)
            self.own(Block(extent))
        return extent.start


class SessionView(SessionHost):
    """A program's state as languages may look at it while somebody types, too: see `StateView`.  No
    lock is taken, since a cell may run; what is asked of the program is a look-up in a table."""

    cpu = ""  # that a cell asks for

    @cached_property
    def notes(self) -> Mapping[str, Kept]:
        """A copy of the notes that cells of languages have left, by key."""
        return self.program.state.notes.kept

    @property
    def functions(self) -> Sequence[str]:
        """The names of the functions that cells have defined."""
        symbols = dict(self.program.linker.symbols)
        return [
            name for name, s in symbols.items()
            if s.is_function and s.cell
        ]  # fmt: skip

    def cell_of(self, name: str) -> int:
        """The number of the cell that defines a name; 0 where none does."""
        return self.program.owner(name)

    def source(self, cell: int) -> str:
        """The source of a cell, "" where it is gone."""
        record = self.core.store.get(cell)
        return record.source if record is not None else ""

    def setting(self, name: str) -> str:
        """A setting of the session, as text: see `StateView`."""
        if name not in ("processor", "machine"):
            return str(getattr(self.core.settings, name))
        wanted = "native" if name == "machine" else self.cpu or self.core.settings.cpu
        return " ".join(self.engine.pool.identity().resolve(wanted)).strip()


class Execution(SessionView):
    """On whose behalf code runs: a cell, or a call that is none, in a core whose lock is held.  The
    cell's language asks it, too (see `Known`).

    `cell` owns the data that this needs; `tee` gets what the program prints within a block of this,
    and `error` is the exception for what stopped it.  Cells are numbered from the latest on;
    `number` asks for a later one.
    """

    def __init__(
        self,
        core: Core,
        sink: Sink | None = None,
        options: CellOptions | None = None,
        cell_id: str | None = None,
        number: int | None = None,
    ):
        super().__init__(core)
        self.tee = OutputTee(sink or core.sink)
        self.output, self.waiting = self.tee.output, self.tee.waiting
        self.heed(options or USUAL)
        self.number, self._cell_id = max(number or 0, core.number + 1), cell_id
        self.is_run = False  # of a cell, whose change can be taken back
        self.debug = False  # what it runs once is compiled for a debugger

    def __enter__(self) -> Self:
        self._before, self.core.sink = self.core.sink, self.tee
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.core.sink = self._before
        if isinstance(error, ArenaFull):  # it is to say what the zone is full of
            from jitkernel.session.report.memory import explain_full

            raise explain_full(self.program, self.core.history, error) from None

    @cached_property
    def cell(self) -> Cell:
        """Most calls need none."""
        words = self.options.words if self.options is not USUAL else ""
        return Cell(self.number, self._cell_id, words)

    @cached_property
    def change(self) -> Change:
        """The change that this makes to the program; not kept where it is no run."""
        return Change("")

    def begin(self, title: str, **given: Any) -> None:
        """Make one change of what happens to the program from now on (`self.change`, of which this
        is known), or nothing where the block that is open raises."""
        self.engine.executor.services.watch_low_memory()
        self.change = self.core.history.begin(title, self.cell.number, **given)
        self.is_run = True

    def provide(self, names: Sequence[str], own: Collection[str] = frozenset()) -> None:
        if self.program.state.archives and self.core.provide is not None:
            self.core.provide(self, names, own)

    def own(self, block: Block) -> None:
        """Data is this cell's from now on; a cell without code is kept for it."""
        self.cell.strings += (block,)
        if self.is_run and self.cell.number not in self.program.cells:
            self.program.adopt(self.cell, self.change)
        elif self.cell.image is None and len(self.cell.strings) == 1:
            self.program.data_cells += 1  # it had types alone

    def error(self, outcome: Outcome) -> Fault:
        if outcome.kind == "stub" and (failure := self.core.residency.failed()) is not None:
            raise failure
        kept = self._kept()
        executor = self.engine.executor
        memory = grown(executor.services.last_memory(executor.generation - 1))
        if outcome.respawned and (words := far_words(self.engine.arena, memory)):
            point = "points" if words == 1 else "point"
            stale = f"{counted(words, 'word')} in globals still {point} into the one that ended"
            outcome = outcome._replace(lost=f"{outcome.lost}; {stale}" if outcome.lost else stale)
        # Only where code was stopped.
        from jitkernel.session.report.faults import error_of

        fault, self.core.observers.stopped = error_of(outcome, self.core.places, kept)
        self.engine.put_back()
        return fault

    def _kept(self) -> str:
        symbols = self.program.linker.symbols.values()
        own = [s.is_function for s in symbols if s.cell and s.state is SymbolState.DEFINED]
        functions = sum(own)
        return f"{counted(functions, 'function')}, {counted(len(own) - functions, 'global')}"

    # -- what its language asks: see `Known` -----------------------------------------------------

    def heed(self, options: CellOptions) -> None:
        """These are the cell's options from now on."""
        self.options, self.cpu, self.opt_level = options, options.cpu, options.opt_level
        self.sanitize, self.file = options.sanitize, options.file

    @property
    def notes(self) -> Mapping[str, Kept]:
        """The notes that cells of languages have left, by key, as they are at each moment."""
        return self.program.state.notes.seen

    @property
    def replaces(self) -> int:
        """The number of the cell whose place in the notebook it takes."""
        return self.program.state.ids.get(self.cell.cell_id or "", 0)

    @property
    def position(self) -> int:
        """Its place in the notebook."""
        return self.program.position(self.cell)

    def users_of(self, name: str) -> list[int]:
        """The numbers of the cells whose code refers to a name."""
        symbol = self.program.named(name)
        return self.program.users(symbol) if symbol is not None else []

    def is_defined(self, name: str) -> bool:
        """True if a cell, an archive that was linked or a library has the name."""
        symbol = self.program.named(name)
        if symbol is not None and symbol.state is not SymbolState.MISSING:
            return True
        if any(name in linked.archive.index for linked in self.program.state.archives.values()):
            return True
        return self.engine.linker.known(name, SymbolKind.DATA) is not None

    def describe(self, address: int) -> str:
        """The name of an address."""
        return self.core.places.describe(address)

    def read_memory(self, address: int, size: int) -> bytes:
        """Bytes of the program's memory; fewer, or none, where there is no more."""
        whole = self.engine.read(address, size)
        return whole or self.engine.read(address, min(size, -address % PAGESIZE))
