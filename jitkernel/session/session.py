"""The public interface: a program that grows cell by cell.  Start from `Session`."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

from jitkernel.arena import Arena
from jitkernel.compiler import ContextAccount, LineTable, Options
from jitkernel.compiler.process import WorkerProcess
from jitkernel.errors import EvictError, JitError, LinkError, UsageError
from jitkernel.executor import Outcome
from jitkernel.languages.llvm import Plan, TypedValue
from jitkernel.linker import Image, SymbolKind, SymbolState
from jitkernel.session import account
from jitkernel.session.cell import Cell, CellState
from jitkernel.session.change import Change
from jitkernel.session.definer import CellOptions, Definer
from jitkernel.session.engine import Engine
from jitkernel.session.eviction import closure, evict
from jitkernel.session.faults import Graves, Places, error_of
from jitkernel.session.garbage import Garbage, collect
from jitkernel.session.handles import CompiledCell, FunctionHandle, VariableHandle
from jitkernel.session.host import SessionHost
from jitkernel.session.memory_log import MemoryLog, Sample
from jitkernel.session.program import Program
from jitkernel.session.residency import Residency
from jitkernel.session.result import Collector, Result, Sink
from jitkernel.session.reverting import forget
from jitkernel.session.runner import Runner
from jitkernel.session.saved.keeping import Keeper
from jitkernel.session.saved.opening import open_copy, open_rebuilt
from jitkernel.session.saved.restoring import Restored
from jitkernel.session.saved.writing import save
from jitkernel.session.settings import SessionSettings
from jitkernel.session.signatures import Signature, Variable
from jitkernel.session.snapshot import DataShadow
from jitkernel.session.source_lines import line_finder
from jitkernel.session.stopped import Stopped, running
from jitkernel.session.store import Record, Store
from jitkernel.session.symbol_table import SymbolTable
from jitkernel.session.taking_back import redo, undo, undo_one
from jitkernel.session.undo import UndoHistory
from jitkernel.session.watch import Watched, Watches
from jitkernel.session.without_running import compile_only, place_object, place_only, run_many

__all__ = ["Session"]

CONTEXTS = ("throwaway", "shared", "kept")


def _check_context(policy: str) -> None:
    if policy not in CONTEXTS:
        raise UsageError(f"there is no context {policy!r}; there are {', '.join(CONTEXTS)}")


@lru_cache(maxsize=64)
def _options(
    level: int, cpu: str, reloc: str, closed: bool, ignore_optnone: bool, passes: str
) -> Options:
    return Options(
        opt_level=level, cpu=cpu, reloc=reloc, closed=closed, ignore_optnone=ignore_optnone,
        passes=passes,
    )  # fmt: skip


class Session:
    """An incremental JIT session: three processes, an arena, a growing set of cells.

    Settings are those of `SessionSettings`, as keywords.  A session is used by one thread at a
    time (others wait), except `interrupt`, which any thread and a signal handler may call.
    `worker` is a compiler worker that was started before anything else of the session was needed.
    Use it as a context manager, or call `close`.
    """

    def __init__(
        self,
        settings: SessionSettings | None = None,
        *,
        worker: WorkerProcess | None = None,
        store: Store | None = None,
        **overrides: Any,
    ):
        known = {f.name for f in fields(SessionSettings)}
        for name in overrides:
            if name not in known:
                raise UsageError(
                    f"Session has no setting {name!r}; there are {', '.join(sorted(known))}"
                )
        self.settings = replace(settings or SessionSettings(), **overrides)
        _check_context(self.settings.context)
        self.lock = threading.RLock()
        self.sink: Sink = Collector()
        self.store = store or Store(self.settings.store_path)
        self.restored: Restored | None = None
        try:
            self._keeper = Keeper(self, frozenset(overrides))
            self.engine = Engine(self.settings, self._output, self._input, worker)
        except BaseException:
            self.store.close()
            raise
        self.memory_log = MemoryLog(self.engine.arena)
        self.watches = Watches(lambda: self.host(lambda block: None, lambda outcome: JitError("")))
        self._nesting = False
        self.results: dict[int, TypedValue] = {}
        self.last: TypedValue | None = None
        self.number = 0
        self._program: Program | None = None
        self._history: UndoHistory | None = None
        self._places: Places | None = None
        self._residency: Residency | None = None
        self.graves = Graves()
        self.stopped: Stopped | None = None  # where a cell was last stopped or looked at
        self._wanted: tuple[float, Callable[[Stopped], object]] | None = None
        self.line_tables: dict[object, LineTable] = {}
        # For hints: values and private symbols that other cells cannot see, with their cell.
        self.ended_locals: dict[str, int] = {}
        self.private: dict[str, int] = {}
        # While the magics above a cell's code run: its options, which they may change.
        self.cell_options: CellOptions | None = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # -- parts -----------------------------------------------------------------------------------

    @property
    def program(self) -> Program:
        """Cells and symbols; waits until the engine is ready."""
        if self._program is None:
            linker = self.engine.linker
            self._program = Program(linker, self.store, self.engine.writing)
            self._keeper.bring_back()
            self.engine.on_end = self._keeper.keep
            shadow = DataShadow(self.engine.arena, self.settings.undo_data)
            self._history = UndoHistory(
                self._program, shadow, self.settings.undo_depth, self.finish
            )
            self._places = Places(
                self._program, self.graves, self.engine.executor.locate, self.engine.is_thunk
            )
            self._residency = Residency(self._program, self.engine, self.settings.budget)
            self._residency.remember(self._program.cells.values())
        return self._program

    @property
    def history(self) -> UndoHistory:
        """What can be undone."""
        assert self.program is not None and self._history is not None
        return self._history

    @property
    def residency(self) -> Residency:
        """Which cells' code is in memory."""
        assert self.program is not None and self._residency is not None
        return self._residency

    @property
    def places(self) -> Places:
        """Names for addresses."""
        assert self.program is not None and self._places is not None
        return self._places

    # -- running ---------------------------------------------------------------------------------

    def run(
        self,
        source: str,
        language: str = "llvm",
        cell_id: str | None = None,
        *,
        sink: Sink | None = None,
        options: CellOptions | None = None,
        number: int | None = None,
    ) -> Result:
        """Run one cell of a language (see `jitkernel.languages`).

        `cell_id` names the notebook cell: running it again replaces what it defined.  `number` is
        the number to give it (the client's count), where that is still free.  Raises CompileError,
        LinkError, TypeMismatch, ArenaFull with nothing changed; Fault and its kin when code was
        stopped while it ran: definitions and what was stored stand.
        """
        with self._turn():
            runner = Runner(self, sink or Collector(), options or CellOptions(), cell_id, number)
            with self._observed():
                return runner.run(source, language)

    def run_many(self, sources: Sequence[str], options: CellOptions | None = None) -> list[Result]:
        """Run cells of definitions: compiled in parallel, linked in order.

        Each is as if run by itself, except that a cell sees only symbols that are declared in it or
        known before the call.  Raises the first error; the cells before it stand.
        """
        with self._turn():
            with self._observed():
                return run_many(self, sources, options or CellOptions())

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function with Python values; its result as a Python value."""
        return self._call(name, arguments).python

    def interrupt(self) -> None:
        """End the compile or the run in progress, soon.  From any thread or a signal handler."""
        self.engine.interrupt()

    def time(
        self, expression: str, number: int = 0, repeat: int = 7, sink: Sink | None = None
    ) -> list[float]:
        """Nanoseconds a call takes, one figure per repetition of `number` calls (0: chosen so that
        a repetition takes about 50 ms).  The loop runs natively; arguments are evaluated once."""
        with self._turn():
            runner = Runner(self, sink or Collector(), CellOptions(), None, None)
            with self._observed():
                return runner.time(expression, number, repeat)

    def time_beside(
        self, sides: Sequence[tuple[str, bytes | None]], number: int = 0, repeat: int = 7
    ) -> list[list[float]]:
        """Times of several calls, taken in turns.  A side is a call line, and None or an object
        that defines its function another way: see `timing.time_beside`."""
        with self._turn():
            runner = Runner(self, Collector(), CellOptions(), None, None)
            with self._observed():
                return runner.time_beside(sides, number, repeat)

    def value(self, expression: str, sink: Sink | None = None) -> TypedValue:
        """What one call line (`@f(3)`) gives, without a cell or an undo step of its own."""
        with self._turn():
            runner = Runner(self, sink or Collector(), CellOptions(), None, None)
            with self._observed():
                return runner.value(expression)

    def compile(self, source: str, options: CellOptions | None = None) -> CompiledCell:
        """Compile definitions without placing them; sizes are exact."""
        with self._turn():
            definer = Definer(self, Collector(), options or CellOptions(), None, None)
            return CompiledCell(source, *compile_only(definer, source))

    def place(self, compiled: CompiledCell, cell_id: str | None = None) -> Result:
        """Place what `compile` gave."""
        with self._turn():
            definer = Definer(self, Collector(), compiled.options, cell_id, None)
            return place_only(definer, compiled.source, compiled.request, compiled.compiled)

    # -- looking ---------------------------------------------------------------------------------

    @property
    def cells(self) -> list[Cell]:
        """The cells that are in memory, by number."""
        return sorted(self.program.cells.values(), key=lambda c: c.number)

    @property
    def symbols(self) -> SymbolTable:
        """Every name the session knows: its own, and those of libraries that cells use."""
        return SymbolTable(self.program.linker)

    @property
    def arena(self) -> Arena:
        """The slab."""
        return self.engine.arena

    @property
    def types(self) -> Mapping[str, str]:
        """Named types: name to body."""
        return self.program.types

    def __getitem__(self, name: str) -> FunctionHandle | VariableHandle:
        """A handle by name: it follows redefinition and undo.  Raises KeyError."""
        name = name.removeprefix("@")
        symbol = self.program.symbol(name)
        if symbol is None or symbol.info is None or symbol.state == SymbolState.MISSING:
            raise KeyError(f"@{name} is not defined in this session")
        return (
            VariableHandle(self, name)
            if isinstance(symbol.info, Variable)
            else FunctionHandle(self, name)
        )

    def __contains__(self, name: object) -> bool:
        symbol = self.program.symbol(str(name).removeprefix("@"))
        return symbol is not None and symbol.state == SymbolState.DEFINED

    def source(self, number: int) -> str:
        """A cell's source.  Raises UsageError where it is gone."""
        record = self.store.get(number)
        if record is None:
            raise UsageError(f"there is no source of cell {number}")
        return record.source

    def memory(self) -> dict[str, Any]:
        """The whole account: see `account.memory`."""
        with self.lock:
            return account.memory(self)

    def memory_samples(self) -> Sequence[Sample]:
        """What slab and processes held when cells had ended, the oldest first, and what they hold
        now: a bounded number of samples, thinned out evenly."""
        with self.lock:
            self._note_memory(now=True)
            return self.memory_log.samples

    def contexts(self) -> ContextAccount:
        """The LLVM contexts that outlive a compile, and what each cell's compile left behind.

        The first call begins the count, where `context` is not `shared` or `kept` anyway.
        """
        with self._turn():
            self.release_contexts()
            return self.engine.pool.contexts()

    def use_context(self, policy: str) -> None:
        """Compile in `throwaway`, `shared` or `kept` contexts from now on; what the other two left
        is freed.  Raises UsageError."""
        _check_context(policy)
        with self._turn():
            if policy != self.settings.context:
                self.settings.context = policy
                self.engine.pool.release_contexts(lambda cell: False, shared=True)

    def release_contexts(self) -> None:
        """Free the contexts of cells whose code is gone."""
        if self._program is not None:
            self.engine.pool.release_contexts(self._program.cells.__contains__)

    def check(self) -> None:
        """Prove the books of arena, unwind region and linker; raises AssertionError."""
        with self.lock:
            self.program.linker.check()

    def describe(self, address: int) -> str:
        """How a pointer is printed: `@g+4`, `0x7f12 (heap)`."""
        data = self.places.data(address)
        if data:
            return data
        if address in self.engine.arena:
            name = self.places.name(address)
            # The canonical entry of a function is that function for every use but a call.
            return (
                name.removeprefix("the entry of ")
                if name.startswith("the entry")
                else (f"{address:#x} ({name})")
            )
        stack = 0x7FF0_0000_0000 <= address < 0x8000_0000_0000
        return f"{address:#x} ({'stack of a finished call' if stack else 'heap'})"

    def watch(
        self,
        *names: str,
        call: Callable[[Sequence[Watched]], object] | None = None,
        every: float | None = None,
    ) -> list[Watched]:
        """Look at globals while code runs: `s.watch("g", call=print)`; all as they are now.

        `call` gets every watched global, at most once in `every` seconds (0.5) and only when one
        has changed, and once more when the run has ended, after a crash too.  It is called from
        the thread that runs the cell, and what it raises stops the cell.  Raises UsageError where
        a name is no variable of the session.
        """
        with self.lock:
            self.watches.add([name.removeprefix("@") for name in names])
            if call is not None:
                self.watches.observer = call
            if every is not None:
                self.watches.every = every
            self._wire()
            return self.watches.now()

    def unwatch(self, *names: str) -> None:
        """Look at these no more; without names, at none.  Raises UsageError."""
        with self.lock:
            self.watches.remove([n.removeprefix("@") for n in names] or self.watches.names)
            self._wire()

    def look_after(self, seconds: float, call: Callable[[Stopped], object]) -> None:
        """When code has run for so long, this cell's or a later one's, call `call` once with where
        it is: its registers, frames and stack.  The program goes on; what `call` raises stops it.
        """
        with self.lock:
            self._wanted = (seconds, call)
            self._wire()

    def _wire(self) -> None:
        """Let the executor call `_look` while code runs, where anybody wants to look."""
        if self.engine.started or self.watches or self._wanted:
            anybody = self.watches or self._wanted is not None
            self.engine.executor.on_wait = self._look if anybody else None

    def _look(self, seconds: float) -> None:
        if self.watches:
            self.watches.look(seconds)
        if self._wanted is not None and seconds >= self._wanted[0]:
            (_, call), self._wanted = self._wanted, None
            executor = self.engine.executor
            self._wire()
            try:
                record = executor.peek()
            except UsageError as error:  # not the program's fault: it goes on
                self.sink.note(f"%stack: {error}")
                return
            self.stopped = running(record, seconds, executor.pid, self.places, self.program.linker)
            call(self.stopped)

    def watched(self) -> list[Watched]:
        """What `watch` watches, as it is now."""
        with self.lock:
            return self.watches.now()

    # -- changing --------------------------------------------------------------------------------

    def find(self, which: int | str | Cell) -> list[Cell]:
        """Cells by number, by range (`3-5`), by symbol (`sq` or `@sq`).  Raises UsageError."""
        program = self.program
        if isinstance(which, Cell):
            which = which.number
        if isinstance(which, int) or which.isdigit():
            number = int(which)
            if number not in program.cells:
                what = (
                    "was superseded, evicted, or had no code"
                    if 0 < number <= self.number
                    else "never ran"
                )
                raise UsageError(f"there is no cell {number} in memory: it {what}")
            return [program.cells[number]]
        low, dash, high = which.partition("-")
        if dash and low.isdigit() and high.isdigit():
            found = [c for n, c in sorted(program.cells.items()) if int(low) <= n <= int(high)]
            if not found:
                raise UsageError(f"there are no cells {which} in memory")
            return found
        symbol = program.symbol(which.removeprefix("@"))
        cell = program.cell_of(symbol) if symbol is not None else None
        if cell is None:
            raise UsageError(f"no cell defines @{which.removeprefix('@')}")
        return [cell]

    def evict(
        self, *which: int | str | Cell, cascade: bool = False, force: bool = False
    ) -> list[Cell]:
        """Take cells out of memory, by number, range or symbol; the cells that went.

        Raises EvictError when others use them: `cascade` takes those along, `force` leaves stubs
        that raise.
        """
        if not which:
            raise UsageError("evict what? A cell's number, a range (3-5), or a symbol (@sq)")
        with self._turn():
            cells: list[Cell] = []
            for one in which:
                cells += [c for c in self.find(one) if c not in cells]
            if not (cascade or force):
                words = closure(self.program, cells)[1]
                if words:
                    evict(self.program, cells, Change(""))  # raises, naming them
                    raise EvictError("others use it", words)
            change = self.history.begin(f"evict {', '.join(str(w) for w in which)}")
            gone = evict(
                self.program, cells, change, cascade=cascade, force=force, finish=self.finish
            )
            self.history.keep(change)
            for cell in gone:
                if cell.number in self.results:
                    change.values[cell.number] = self.results.pop(cell.number)
            self.release_contexts()
            return gone

    @property
    def budget(self) -> int:
        """Bytes of code that may be in memory between runs, 0 for no limit; what was used least
        recently leaves and comes back when it is called."""
        return self.settings.budget

    @budget.setter
    def budget(self, size: int) -> None:
        if size < 0:
            raise UsageError("a budget is a number of bytes; 0 is no limit")
        with self._turn():
            self.settings.budget = self.residency.budget = size

    def keep(self, *which: int | str | Cell, on: bool = True) -> list[Cell]:
        """Keep the code of cells in memory whatever the budget (`on` False: no longer).

        Cells by number, range or symbol; those whose code had left come back.  Raises UsageError.
        """
        with self._turn():
            cells = [cell for one in which for cell in self.find(one)]
            for cell in cells:
                cell.kept = on
                self.program.note(cell)
                if on:
                    self.residency.bring_back(cell)
            return cells

    def wake(self, *which: int | str | Cell) -> list[Cell]:
        """Bring the code of cells back without calling it.  Raises UsageError, ArenaFull."""
        with self._turn():
            cells = [cell for one in which for cell in self.find(one)]
            for cell in cells:
                self.residency.bring_back(cell)
            return cells

    def hibernate(self, *which: int | str | Cell) -> list[Cell]:
        """Take the code of cells out of memory until somebody calls it.

        Raises UsageError, and LinkError where the code of one has to stay.
        """
        with self._turn():
            cells = [cell for one in which for cell in self.find(one)]
            for cell in cells:
                if cell.state is not CellState.HIBERNATED:
                    self.residency.hibernate(cell)
            return cells

    def undo(
        self,
        count: int = 1,
        *,
        cell: int | None = None,
        name: str = "",
        cascade: bool = False,
    ) -> list[str]:
        """Take the last `count` runs or evictions back; a sentence for each.

        `cell` takes back that cell's run alone, `name` the last one that defined a symbol; later
        runs may not build on it, unless `cascade` takes those back too.  Raises UsageError, and
        EvictError with the runs that are in the way.
        """
        with self._turn():
            if cell is not None or name:
                return undo_one(self, cell, name.removeprefix("@"), cascade)
            return undo(self, count)

    def redo(self, count: int = 1) -> list[str]:
        """Do again what the last `count` undos took back, until something new is run."""
        with self._turn():
            return redo(self, count)

    def gc(self, dry_run: bool = False, undo: bool = False) -> Garbage:
        """Free what nobody can reach: cells whose definitions have all been replaced and that
        nothing uses, and whole pages of freed memory.

        What is collected can be undone as an eviction can; `undo` forgets everything that could
        be, and frees what was kept for that.  `dry_run` only tells.
        """
        with self._turn():
            return collect(self, dry_run, undo)

    def save(self, path: str) -> int:
        """Write the session to a file, all of it or nothing; the file's size in bytes.

        Raises UsageError where the file is another session's, or something else.
        """
        with self._turn():
            return save(self, path)

    @classmethod
    def restore(
        cls,
        path: str,
        *,
        rebuild: bool = False,
        worker: WorkerProcess | None = None,
        **overrides: Any,
    ) -> Session:
        """A session as it was saved to a file, which is only read; `restored` says what came back.

        Settings are the file's, unless given here; the base is the file's in any case.  Nothing of
        the session runs.  Code that another LLVM made or for another processor is compiled again.
        Raises UsageError for a file that is damaged, newer than this, or no session's; `rebuild`
        compiles then what can be read of it, from source, and its constructors run.
        """
        opened = open_rebuilt if rebuild else open_copy
        return opened(cls, path, worker, overrides)

    def reset(self) -> None:
        """Evict every cell and forget results and history; processes and libraries stay."""
        with self._turn():
            change = Change("reset")
            evict(self.program, self.cells, change, cascade=True, finish=self.finish)
            forget(self.program, change)
            self.stopped = None
            self.history.clear()
            self.results.clear()
            self.last = None
            self.program.types.clear()
            self.program.declared.clear()

    def load(self, path: str) -> list[str]:
        """Load a shared library into the executor; names that were missing and it defines.

        Raises JitError with the loader's words.
        """
        with self._turn():
            try:
                self.engine.executor.library(path)
            except OSError as error:
                raise JitError(f"{path} cannot be loaded: {error}") from None
            return [s.name for s in self.program.linker.retry_missing()]

    def link(self, path: str) -> Result:
        """Place a relocatable object (`cc -c`) as a cell; declare what it defines to call it.

        Raises LinkError for archives, which are not supported yet, and UsageError for a path that
        is no file.
        """
        with self._turn():
            try:
                with open(path, "rb") as file:
                    data = file.read()
            except OSError as error:
                raise UsageError(f"{path}: {error.strerror}") from None
            if data.startswith(b"!<arch>\n"):
                raise LinkError(
                    f"{path} is an archive, and archives are not supported yet; extract its "
                    "members (ar x) and %link those, or load a shared library with %lib"
                )
            if data[:4] == b"\x7fELF" and data[16:18] == b"\3\0":
                raise LinkError(f"{path} is a shared library: %lib {path} loads it")
            definer = Definer(self, Collector(), CellOptions(), None, None)
            return place_object(definer, path, data)

    def chdir(self, path: str) -> None:
        """Change the executor's working directory.  Raises OSError's words as JitError."""
        with self.lock:
            try:
                self.engine.executor.chdir(path)
            except OSError as error:
                raise JitError(f"{path}: {error.strerror or error}") from None

    def setenv(self, name: str, value: str) -> None:
        """Set an environment variable in the executor."""
        with self.lock:
            self.engine.executor.setenv(name, value)

    def respawn(self) -> None:
        """Replace the executor; functions and globals stay, its heap and files are lost."""
        with self._turn():
            self.engine.executor.respawn()
            self.engine.renew()

    def idle(self) -> None:
        """Do what was put off: write store and object cache.  For event loops, after a reply."""
        with self.lock:
            if not self.engine.closed:
                self.store.flush()
                if self.engine.pool.cache:
                    self.engine.pool.cache.flush()

    def output_fds(self) -> list[int]:
        """Descriptors to watch between cells for output of background threads."""
        return self.engine.executor.fds() if self.engine.started else []

    def drain(self, sink: Sink) -> None:
        """Pass output of background threads on to `sink`."""
        if self.engine.started:
            with self.lock:
                before, self.sink = self.sink, sink
                try:
                    self.engine.executor.drain()
                finally:
                    self.sink = before

    def close(self) -> None:
        """Write the session's file, where it has one, and end every process."""
        self._keeper.close()
        self.engine.close()
        self.store.close()

    # -- inside ----------------------------------------------------------------------------------

    def host(self, own: Callable[[Any], None], fail: Callable[[Any], Exception]) -> SessionHost:
        """What expressions are evaluated with."""
        return SessionHost(
            self.engine,
            self.program,
            self.find_result,
            own,
            fail,
            self.settings.prelude,
            self.residency.use,
        )

    def find_result(self, number: int | None) -> TypedValue | None:
        """The last result, or that of a cell."""
        return self.last if number is None else self.results.get(number)

    def keep_result(self, number: int, value: TypedValue) -> None:
        """Remember a cell's result, the latest ones only."""
        self.last = value
        self.results[number] = value
        while len(self.results) > self.settings.results_kept:
            del self.results[next(iter(self.results))]

    def remember_names(self, plan: Plan, number: int) -> None:
        """What a cell named for itself alone, the latest thousand names."""
        if plan.block is not None:
            for statement in plan.block.statements:
                name, equals, _ = statement.text.partition("=")
                if equals and name.startswith("%"):
                    self.ended_locals[name[1:].strip()] = number
        self.private.update(dict.fromkeys(plan.local_names, number))
        for names in (self.ended_locals, self.private):
            while len(names) > 1000:
                del names[next(iter(names))]

    def options(self, cell: CellOptions) -> Options:
        """The compiler's options for a cell."""
        level = self.settings.opt_level if cell.opt_level is None else cell.opt_level
        low = self.engine.arena.base + self.engine.arena.capacity <= 1 << 31
        cpu, reloc = cell.cpu or self.settings.cpu, "static" if low else "pic"
        # A level that a cell asks for is that level's own pipeline.
        passes = cell.passes or (self.settings.passes if cell.opt_level is None else "")
        return _options(level, cpu, reloc, cell.closed, cell.ignore_optnone, passes)

    def stored_options(self, record: Record) -> Options:
        """The options a stored cell was compiled with."""
        return Options.of(json.loads(record.options))

    def _call(self, name: str, arguments: Sequence[Any]) -> TypedValue:
        with self._turn():
            runner = Runner(self, Collector(), CellOptions(), None, None)
            with self._observed():
                return runner.call(name.removeprefix("@"), arguments)

    def finish(self, image: Image) -> None:
        """Run an image's destructors; what goes wrong in them must not keep it in memory."""
        self.graves_of(image)
        handles = (*self.program.handles.pop(image.cell, ()), *([image.dso] if image.dso else ()))
        if image.fini:
            self._end_of(image.cell, self.engine.call_many(list(image.fini)))
        if handles:
            finalize = self.program.linker.known("__cxa_finalize", SymbolKind.FUNCTION)
            if finalize is not None and finalize.state == SymbolState.FAR:
                signature = Signature("void (ptr)", "", "", "", "void (ptr)")
                target = self.engine.target(signature, ("ptr",))
                entry = self.program.linker.entry(finalize)
                for handle in handles:
                    data = handle.to_bytes(8, "little")
                    self._end_of(image.cell, self.engine.call(target.address, entry, data, 0))

    def _end_of(self, cell: int, outcome: Outcome) -> None:
        """Say what stopped a destructor."""
        if outcome.kind != "ok":
            find = line_finder(self)
            error = error_of(outcome, self.places, self.program.linker, find, "")
            words = str(error).replace("\n", "; ")
            self.sink.note(f"a destructor of cell {cell} was stopped: {words}")

    def graves_of(self, image: Image) -> None:
        """Remember where an image's text was."""
        if image.text is not None:
            names = [s.name for s, _, _ in image.exports if s.is_function]
            self.graves.add(image.text.start, image.text.size, image.cell, names)

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Something is done with the program; afterwards its code fits the budget again."""
        with self.lock:
            if self.engine.closed:
                raise JitError("this session is closed")
            if self.engine.running:  # within another turn
                yield
                return
            with self.engine.run():
                residency = self.residency
                try:
                    yield
                finally:
                    residency.trim()

    @contextlib.contextmanager
    def _observed(self) -> Iterator[None]:
        """A cell or a call, for those who look on: watches and the memory log."""
        if self._nesting:  # a magic within a cell runs another one
            yield
            return
        self._nesting = True
        try:
            yield
        finally:
            self._nesting = False
            if self.watches:
                self.watches.ended()
            self._note_memory()

    def _note_memory(self, now: bool = False) -> None:
        """A cell has ended."""
        engine = self.engine
        if engine.started and not engine.closed:
            workers = [pid for pid, _, _ in engine.pool.processes()]
            self.memory_log.note(self.number, engine.executor.pid, workers, now)

    def _output(self, name: str, data: bytes) -> None:
        self.sink.output(name, data)

    def _input(self, prompt: str) -> str | None:
        return self.sink.input(prompt)

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.cells)

    def __repr__(self) -> str:
        return f"<Session at {self.engine.arena.base:#x}>"
