"""`Session.inspect`: all that views and tools may look at.  Start from `Inspect`.

Nothing here changes the program.  Asking for a cell's code does not bring it back into memory
(`Session.wake` does); asking the compiler places nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.ir.names import CONTROL, bare
from jitkernel.session.operation import operation
from jitkernel.session.report.memory import Occupant, occupancy
from jitkernel.session.settings import stored_request
from jitkernel.wording import did_you_mean

if TYPE_CHECKING:
    from jitkernel.compiler import CompilerPool, Request
    from jitkernel.compiler.pass_trace import PassTrace
    from jitkernel.languages.llvm.plan import Plan
    from jitkernel.languages.llvm.values import TypedValue
    from jitkernel.linker import Symbol
    from jitkernel.linker.linkmap import LinkMap
    from jitkernel.session.core import Core
    from jitkernel.session.handles import Symbol as SessionSymbol
    from jitkernel.session.program.cell import Cell
    from jitkernel.session.program.signatures import Signature, Variable
    from jitkernel.session.report.faults import Stopped
    from jitkernel.session.report.memory import Sample
    from jitkernel.session.run.host import SessionGlance

__all__ = ["Inspect", "UndoStep", "ZoneUse"]


@dataclass(frozen=True, slots=True)
class ZoneUse:
    """A zone of the arena: the addresses where it starts and up to which anything was ever placed
    (`high`), its capacity, granule, and what is used and padding in bytes, its extents' number."""

    start: int
    high: int
    capacity: int
    granule: int
    used: int
    padding: int
    extents: int


@dataclass(frozen=True, slots=True)
class UndoStep:
    """A run or an eviction that can be undone: the names that it defined or moved, the bytes of
    old data that are kept, and in words what of it an undo does not take back."""

    cell: int
    title: str
    names: tuple[str, ...]
    old_data: int
    lasting: str


class Inspect:
    """A session, read only."""

    __slots__ = ("_core", "_keeps")

    def __init__(self, core: Core, keeps: object):
        self._core, self._keeps = core, keeps  # a session that nobody has ends

    # -- cells and symbols -----------------------------------------------------------------------

    def cell(self, number: int) -> Cell | None:
        """A cell that is in memory."""
        return self._core.program.cells.get(number)

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
        symbol = session.program.named(name)
        owner = symbol.image.cell if symbol is not None and symbol.image is not None else 0
        if owner not in cells:
            from jitkernel.session.handles import SymbolTable

            table = SymbolTable(session)
            words = did_you_mean(name, table, self.called, "; %symbols lists what there is")
            raise UsageError(f"nothing of the session is called {self.called(name)}{words}")
        return cells[owner], [name]

    def plan(self, source: str, language: str, level: int) -> Plan:
        """What a cell of a language would be at an optimisation level; nothing is compiled or run.
        Raises what reading it raises."""
        from jitkernel.session.run.runner import Runner
        from jitkernel.session.settings import CellOptions

        return Runner(self._core.execution(options=CellOptions(level))).plan(source, language)

    @property
    def linked(self) -> Mapping[str, Symbol]:
        """The linker's record of every name: address, entry, GOT slots, state, users."""
        return self._core.program.linker.symbols

    def signature(self, name: str) -> Signature | Variable | None:
        """What is known of a name's type, by its definition or by a declaration."""
        symbol = self._core.program.named(name)
        return symbol.info if symbol is not None else self._core.program.state.declared.get(name)

    def spelled(self, name: str) -> str:
        """How the language of a name's definition declares it, "" where that is as IR does."""
        core = self._core
        said = core.prototypes.spelling(name.removeprefix(CONTROL)) if core.has_prototypes else None
        return said.text if said is not None else ""

    def called(self, name: str, cell: int | None = None) -> str:
        """A name as that language writes it: `sq`, `@sq`; of what a cell may have for itself
        alone, as that cell's does."""
        program = self._core.program
        return program.called(name) if cell is None else program.called_in(cell, name)

    def type_of(self, symbol: SessionSymbol) -> str:
        """Its declaration, or its type in IR where it is declared there."""
        return self.spelled(symbol.name) or f"{'thread_local ' * symbol.thread_local}{symbol.type}"

    def text_of(self, name: str, value: TypedValue) -> str:
        """The value of a variable as the language of its definition writes one."""
        from jitkernel.languages import find
        from jitkernel.languages.shapes import to_python

        core = self._core
        symbol = core.program.named(name)
        cell = symbol.image.cell if symbol is not None and symbol.image is not None else 0
        literal = find(core.program.state.notes.language_of(cell) or "llvm").literal
        if literal is None:
            return value.text(core.places.describe)
        shape = core.prototypes.of(name).result
        return literal(value.python if shape is None else to_python(shape, value.data))

    def declaration(self, name: str) -> str | None:
        """How IR declares a name that the session knows."""
        from jitkernel.session.program.signatures import declaration

        info = self.signature(name)
        return declaration(name, info) if info is not None else None

    def was_local(self, name: str) -> bool:
        """Whether `%name` was a value of an instruction block, with which it ended."""
        return name in self._core.hidden.locals

    @property
    def glance(self) -> SessionGlance:
        """What a language may ask while somebody types, also while a cell runs."""
        from jitkernel.session.run.host import SessionGlance

        return SessionGlance(self._core)

    # -- what cells were made of -----------------------------------------------------------------

    @property
    def file(self) -> str:
        """What the session's file is called."""
        return self._core.store.name

    def module(self, number: int) -> str:
        """The IR that a cell's module was compiled from.  Raises UsageError where it is gone."""
        record = self._core.store.get(number)
        if record is None or not record.module:
            raise UsageError(f"cell {number} has no IR of its own")
        return record.module.strip("\n")

    def object(self, number: int) -> bytes:
        """The relocatable object of a cell; empty where there is none."""
        record = self._core.store.get(number)
        return record.object if record is not None else b""

    def request(self, number: int) -> Request:
        """What the compiler was asked for a cell.  Raises UsageError where it has no IR."""
        record = self._core.store.get(number)
        if record is None or not record.module.strip():
            raise UsageError(f"cell {number} has no IR of its own")
        if record.is_linked:
            raise UsageError(f"cell {number} is an object of another compiler: it has no IR")
        return stored_request(record)

    def lines(self, number: int) -> list[tuple[int, int]]:
        """Addresses from which on a cell's code comes from a line, ascending; line 0: from none.
        Empty where the lines cannot be told."""
        return self._core.places.lines.of_cell(number)

    def cell_lines(self, number: int, request: Request) -> Callable[[int], int]:
        """From lines of what the compiler is asked for a cell to lines of its source, 0 where
        unknown."""
        record = self._core.store.get(number)
        return self.source_lines(request, record.source if record is not None else "")

    def source_lines(self, request: Request, source: str) -> Callable[[int], int]:
        """The same of a source that is no cell's."""
        from jitkernel.session.report.places import cell_lines

        return cell_lines(request.source, request.first_line, source)

    def line_finder(self) -> Callable[[int], tuple[int, str]]:
        """From an address of code to its line's number and text; `(0, "")` where unknown."""
        return self._core.places.lines.find

    def link_map(self, number: int) -> LinkMap | None:
        """What became of each section, symbol and relocation of a cell's object; None where it is
        not in memory."""
        from jitkernel.linker.linkmap import read_link_map

        cell, data = self.cell(number), self.object(number)
        if cell is None or cell.image is None or not data:
            return None
        return read_link_map(self._core.program.linker, cell.image, data)

    def placed_sizes(self, data: bytes) -> dict[str, int]:
        """Bytes of each zone that an object takes when it is placed."""
        return self._core.program.linker.sizes(data)

    # -- the compiler ----------------------------------------------------------------------------

    @property
    def compiler(self) -> CompilerPool:
        """What compiles modules, to ask for objects, IR, assembly or control flow: nothing of that
        is placed."""
        return self._core.engine.pool

    @operation()
    def passes(self, request: Request, tick: Callable[[], None] | None = None) -> PassTrace:
        """What each pass does to a module, compiled again.

        `tick` is called twice a second meanwhile.  Raises what a compile raises.
        """
        return self._core.engine.pool.trace(request, tick)

    # -- the arena -------------------------------------------------------------------------------

    def read(self, address: int, size: int) -> bytes:
        """Bytes of the arena as they are now: relocated code, the values of variables."""
        return self._core.arena.read(address, size)

    def in_arena(self, address: int) -> bool:
        """Whether an address is the arena's."""
        return address in self._core.arena

    def zones(self) -> dict[str, ZoneUse]:
        """The zones of the arena, by name."""
        return {
            name: ZoneUse(
                z.start,
                z.high,
                z.stop - z.start,
                z.list.granule,
                z.list.used,
                z.list.padding,
                len(z.list.live),
            )
            for name, z in self._core.arena.zones.items()
        }

    def occupancy(self) -> dict[str, list[Occupant]]:
        """Who has which bytes, by zone in the order of addresses; free ranges included."""
        return occupancy(self._core.engine, self._core.program)

    def memory_samples(self) -> Sequence[Sample]:
        """What slab and processes held when cells had ended, the oldest first, and what they hold
        now: a bounded number of samples, thinned out evenly."""
        with self._core.lock:
            self._core.observers.note_memory(self._core.number, now=True)
            return self._core.observers.log.samples

    # -- what addresses are ----------------------------------------------------------------------

    def name_of(self, address: int) -> str:
        """What stands at an address: `@sq+4`, `@g+8`; empty where nothing is known of it."""
        places = self._core.places
        return (places.data(address) if self.in_arena(address) else "") or places.name(address)

    def is_thunk(self, address: int) -> bool:
        """Whether an address is in the code through which functions are called."""
        return self._core.places.is_thunk(address)

    def locate(self, address: int, generation: int) -> str:
        """What the dynamic linker of an executor knows of an address: `puts+0x10, libc.so.6`."""
        return self._core.engine.executor.services.locate([address], generation)[0]

    # -- processes -------------------------------------------------------------------------------

    @property
    def executor(self) -> tuple[int, int]:
        """The executor's process, and which in the row of executors it is."""
        executor = self._core.engine.executor
        return executor.pid, executor.generation

    @property
    def threads(self) -> int:
        """How many threads of the program's own are running."""
        return self._core.engine.executor.threads

    @property
    def emulated(self) -> bool:
        """Whether a call has met an emulator of the processor that keeps what it made of code."""
        return self._core.engine.executor.emulated

    def workers(self) -> Iterator[tuple[str, int]]:
        """Role and process of each compiler worker."""
        return ((worker.role, worker.pid) for worker in self._core.engine.pool.memory())

    @property
    def stopped(self) -> Stopped | None:
        """Where code was stopped last, by a fault or by the user, or was looked at while it ran."""
        return self._core.observers.stopped

    @property
    def stopping(self) -> bool:
        """Whether what runs now was interrupted and is to end."""
        return self._core.engine.stopping

    # -- what stays in memory, and what can be undone --------------------------------------------

    @property
    def code_bytes(self) -> int:
        """Bytes of code in memory."""
        return self._core.residency.code

    @property
    def woken(self) -> int:
        """How many calls have brought hibernated code back."""
        return self._core.residency.woken

    def why_resident(self, cell: Cell) -> str:
        """Why a cell's code cannot leave memory; empty where it can."""
        return self._core.residency.why_not(cell)

    def runs_since(self, cell: Cell) -> int:
        """How many runs ago a cell was last called."""
        return self._core.residency.clock - cell.used

    def undo_steps(self) -> list[UndoStep]:
        """What can be undone, the latest first."""
        from jitkernel.session.history.snapshot import lasting

        session = self._core
        session.history.settle()
        return [
            UndoStep(
                change.cell,
                change.title,
                tuple(change.moved),
                sum(map(len, change.pages.values())),
                lasting(session.program, change),
            )
            for change in session.history
            if not (change.is_empty or change.only_looked)
        ]

    @property
    def redo_steps(self) -> Sequence[str]:
        """What can be done again, in that order."""
        return self._core.history.undone

    @property
    def kept_for_undo(self) -> dict[str, int]:
        """Bytes of each zone that are held for undo and redo, and of `old values`."""
        history = self._core.history
        held = {zone: history.held(zone) for zone in ("rodata", "data")}
        return {**held, "old values": history.bytes}
