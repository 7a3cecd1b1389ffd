"""The public interface: a program that grows cell by cell.  Start from `Session`.

What an operation takes is imported when it is first called: importing this takes a few
milliseconds, and making a session starts the compiler's process before all else.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NoReturn,
    SupportsIndex,
    TypeAlias,
    TypeVar,
    Unpack,
    overload,
)

from jitkernel.compiler.process import close_first, first_worker
from jitkernel.errors import JitError, UnknownName, UsageError, limit_met
from jitkernel.session.operation import checked, operation, without_collections
from jitkernel.session.settings import SessionSettings, check_inline, check_value, settings_with
from jitkernel.setting import declared
from jitkernel.wording import counted

if TYPE_CHECKING:
    import numpy
    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from jitkernel.compiler.modules import Source
    from jitkernel.compiler.process import WorkerProcess
    from jitkernel.compiler.records import ContextAccount
    from jitkernel.portable.gathering import Home
    from jitkernel.portable.records import Exported
    from jitkernel.portable.travelling import PortableFunction
    from jitkernel.session.core import Core
    from jitkernel.session.frontend import FrontendSide
    from jitkernel.session.handles import CompiledCell, FunctionHandle, Handle, SymbolTable
    from jitkernel.session.inspect import Inspect
    from jitkernel.session.keywords import Again, Given
    from jitkernel.session.program.cell import Cell
    from jitkernel.session.report.reproducing import Reproduced
    from jitkernel.session.report.watch import Watched
    from jitkernel.session.residency.garbage import Garbage
    from jitkernel.session.run.calls import Caller
    from jitkernel.session.run.results import Result, Results, Sink
    from jitkernel.session.saved.restoring import Restored
    from jitkernel.session.saved.store import Store
    from jitkernel.session.settings import CellOptions
    from jitkernel.values.value import TypedValue

    Element = TypeVar("Element", bound=numpy.generic)
    Sides = TypeVar("Sides", bound=tuple[int, ...])
    Type = TypeVar("Type", bound=numpy.dtype[Any])
    Function = TypeVar("Function", bound=Callable[..., Any])

__all__ = ["Session"]

Path: TypeAlias = str | os.PathLike[str]


class Session:
    """An incremental JIT session: three processes, an arena, a growing set of cells.

    Settings are those of `SessionSettings`, as keywords.  A session is used by one thread at a
    time (others wait), except `interrupt`, which any thread and a signal handler may call.
    `settings` are what it was started with, as they are now; `results` the values of cells, by
    number.  What the program prints comes out of `sys.stdout` and `sys.stderr` as it is printed,
    unless `sink` is something else; a cell's `Result` has it too.
    `worker` is a compiler worker that was started before anything else of the session was needed.
    Use it as a context manager, or call `close`; one that nobody refers to any more ends its
    processes too, and writes no file.

        >>> with Session() as s:
        ...     made = s.run("define i32 @sq(i32 %x) { %r = mul i32 %x, %x  ret i32 %r }")
        ...     s.call("sq", 7)
        49

    In the examples below `s` is a session.
    """

    def __init__(
        self,
        settings: SessionSettings | None = None,
        *,
        worker: WorkerProcess | None = None,
        store: Store | None = None,
        **overrides: Unpack[Given],
    ):
        chosen = settings_with(settings, overrides)
        try:
            worker = worker or first_worker(chosen.spare)
            with without_collections():  # what is imported stays
                from jitkernel.session.core import Core

                self._core = Core(chosen, worker, store, frozenset(overrides))
        except BaseException as error:
            if worker is not None:
                close_first(worker)
            if limit := limit_met(error):
                raise limit from None
            raise
        self.settings: SessionSettings = self._core.settings
        self.results: Results = self._core.results

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        core: Core | None = self.__dict__.get("_core")
        if core is None or core.forked or core.engine.closed or sys.is_finalizing():
            return  # a process that ends takes its sessions' along
        core.engine.close(leave_code=True)
        core.store.close()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise UsageError(
            "a session stays in its process: its functions are pickled and copied (session[name], "
            "session.portable), and the .value of variables and results"
        )

    # -- life ------------------------------------------------------------------------------------

    @property
    def number(self) -> int:
        """The number of the latest cell."""
        return self._core.number

    @property
    def restored(self) -> Restored | None:
        """What came back from a file; None where nothing did."""
        return self._core.restored

    @property
    def sink(self) -> Sink:
        """Where cells and calls report to that are given no sink of their own."""
        return self._core.sink

    @sink.setter
    def sink(self, sink: Sink) -> None:
        _check("Session", "sink", "Sink", sink)
        with self._core.lock:
            self._core.sink = sink

    def interrupt(self) -> None:
        """End the compile or the run in progress, soon.  From any thread or a signal handler."""
        self._core.interrupt()

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self._core.engine.closed

    def close(self) -> None:
        """Write the session's file, where it has one, and end every process.

        Raises JitError in a callback of code that runs in this process.
        """
        if self._core.forked:
            return  # they are another process's
        direct = self._core.direct
        if direct is not None and direct.turn.is_callers and not self.closed:
            raise JitError("code of this session has called this: close it when that has ended")
        self._core.keeper.close()
        self._core.engine.close()
        self._core.store.close()
        from jitkernel.languages.language import at_close  # as late as cells need it

        for end in at_close:
            end()

    # -- running ---------------------------------------------------------------------------------

    @operation(observed=True)
    def run(
        self,
        source: Source,
        language: str = "llvm",
        cell_id: str | None = None,
        *,
        sink: Sink | None = None,
        options: CellOptions | None = None,
        number: int | None = None,
    ) -> Result:
        """Run one cell of a language (see `jitkernel.languages`).

        A cell of IR may be a module, too: bitcode, an `llvmlite.ir.Module`, or a `ModuleRef` of
        `llvmlite.binding` as it is now.
        `cell_id` names the notebook cell: running it again replaces what it defined.  `number` is
        the number to give it (the client's count), where that is still free.  Raises CompileError,
        LinkError, TypeMismatch, ArenaFull with nothing changed; Fault and its kin when code was
        stopped while it ran: definitions and what was stored stand.

            >>> result = s.run("define i32 @inc(i32 %x) { %r = add i32 %x, 1  ret i32 %r }")
            >>> result.cell.names
            ['inc']
            >>> s.run("@inc(41)").value
            42
        """
        from jitkernel.session.run.host import Execution
        from jitkernel.session.run.runner import Runner

        # These are kept, or are not needed at once.
        if cell_id is not None and cell_id.__class__ is not str:
            _check("run", "cell_id", "str | None", cell_id)
        if number is not None and number.__class__ is not int:
            _check("run", "number", "int | None", number)
        if sink is not None and not hasattr(sink, "output"):
            _check("run", "sink", "Sink | None", sink)
        core = self._core
        if not core.engine.executor.serving:
            core.garbage.collect_data()
        if not isinstance(source, str):
            source = self._text(source, language)
        execution = Execution(core, sink, options, cell_id, number)
        core.texts.begin("run", {"language": language, "cell_id": cell_id}, source, cell_id)
        try:
            result = Runner(execution).run(source, language)
        except BaseException as error:
            core.texts.end_run(execution, error)
            raise
        core.texts.end_run(execution)
        return result

    def _text(self, source: Source, language: str = "llvm") -> str:
        from jitkernel.compiler.modules import module_text

        return module_text(source, language, self._core.engine.pool.disassembled)

    @operation(observed=True)
    def run_many(
        self, sources: Sequence[Source], options: CellOptions | None = None
    ) -> list[Result]:
        """Run cells of definitions: compiled in parallel, linked in order.

        Each is as if run by itself, except that a cell sees only symbols that are declared in it or
        known before the call.  Raises the first error; the cells before it stand.

            >>> text = "define i32 @f{0}() {{ ret i32 {0} }}"
            >>> results = s.run_many([text.format(n) for n in range(100)])
            >>> s.call("f99")
            99
        """
        from jitkernel.session.run.definer import run_many
        from jitkernel.session.settings import CellOptions

        core, texts = self._core, list(map(self._text, sources))
        before, chosen = core.number, options or CellOptions()
        try:
            return run_many(core, texts, chosen)
        finally:
            core.texts.placed(texts[: core.number - before], chosen, before + 1)

    def _caller(self, sink: Sink | None = None) -> Caller:
        from jitkernel.session.run.calls import Caller

        return Caller(self._core, sink)

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function with Python values; its result as a Python value.

        >>> made = s.run("declare double @sqrt(double)")
        >>> s.call("sqrt", 2.25)
        1.5
        """
        try:
            name, direct = name.removeprefix("@"), self._core.direct
        except (AttributeError, TypeError):
            _check("call", "name", "str", name)
            raise
        return self._call(name, arguments) if direct is None else direct.call(name, arguments)

    @operation(observed=True)
    def _call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        return self._core.quick.call(name, arguments)

    @operation(observed=True)
    def time(
        self, expression: str, number: int = 0, repeat: int = 7, sink: Sink | None = None,
        language: str = "llvm",
    ) -> list[float]:  # fmt: skip
        """Nanoseconds a call takes, one figure per repetition of `number` calls (0: chosen so that
        a repetition takes about 50 ms).  The loop runs natively; arguments are evaluated once.
        What the function prints is dropped, unless there is a `sink`.  Of another language than IR
        any expression or statements are timed: they are compiled once, and nothing of them stays.
        """
        return self._caller(sink or _quiet()).time(expression, language, number, repeat)

    @operation(observed=True)
    def value(self, expression: str, sink: Sink | None = None) -> TypedValue:
        """What one call line (`@f(3)`) gives, without a cell or an undo step of its own.

        >>> made = s.run("define i8 @dec(i8 %x) { %r = sub i8 %x, 1  ret i8 %r }")
        >>> s.value("@dec(-128)").python
        127
        """
        return self._caller(sink).value(expression)

    @operation()
    def compile(self, source: Source, options: CellOptions | None = None) -> CompiledCell:
        """Compile definitions without placing them; sizes are exact.

        >>> compiled = s.compile("@table = global [100 x i32] zeroinitializer")
        >>> compiled.sizes["data"]
        400
        >>> s.place(compiled).cell.names
        ['table']
        """
        from jitkernel.session.run.definer import Definer
        from jitkernel.session.run.host import Execution

        execution = Execution(self._core, options=options)
        return Definer(execution).compile_only(self._text(source))

    @operation()
    def place(self, compiled: CompiledCell, cell_id: str | None = None) -> Result:
        """Place what `compile` gave."""
        from jitkernel.session.run.definer import Definer
        from jitkernel.session.run.host import Execution

        _check("place", "cell_id", "str | None", cell_id)
        core = self._core
        definer = Definer(Execution(core, options=compiled.options, cell_id=cell_id))
        result = definer.place_only(compiled.source, compiled.request, compiled.compiled)
        core.texts.placed([compiled.source], compiled.options, core.number, cell_id)
        return result

    # -- arrays and memory -----------------------------------------------------------------------

    @overload
    def array(
        self, shape: int | Sequence[int], dtype: Literal["f8"] = "f8"
    ) -> NDArray[numpy.float64]: ...

    @overload
    def array(self, shape: int | Sequence[int], dtype: type[Element]) -> NDArray[Element]: ...

    @overload
    def array(self, shape: int | Sequence[int], dtype: DTypeLike) -> NDArray[Any]: ...

    @operation()  # type: ignore[misc]  # mypy: `self` has no name then
    def array(self, shape: int | Sequence[int], dtype: Any = "f8") -> NDArray[Any]:
        """A numpy array of zeros in memory that the program sees at the same address.

        Passing it to a function passes that address; nothing is copied.  It is no part of what
        undo takes back or a file saves, and stays as long as Python refers to it: a program that
        keeps its address must not outlive that.  Raises UsageError for a shape or a type that numpy
        does not know, JitError where there is no room.

            >>> made = s.run('''
            ... define void @first(ptr %p, double %x) {
            ...   store double %x, ptr %p
            ...   ret void
            ... }''')
            >>> a = s.array(3)
            >>> s.call("first", a, 2.5)
            >>> a
            array([2.5, 0. , 0. ])
        """
        made: NDArray[Any] = self._core.arrays.array(shape, dtype)
        return made

    @overload
    def share(self, array: numpy.ndarray[Sides, Type]) -> numpy.ndarray[Sides, Type]: ...

    @overload
    def share(self, array: ArrayLike) -> NDArray[Any]: ...

    @operation()  # type: ignore[misc]  # mypy: `self` has no name then
    def share(self, array: Any) -> Any:
        """An array with the same elements in memory that the program sees: see `array`.  What is
        shared already, with this session or another, and lies as C's arrays do, is given back as
        it is.

            >>> b = s.share([1, 2, 3])
            >>> s.share(b) is b
            True
        """
        return self._core.arrays.share(array)

    @overload
    def export_python(
        self, name: str, function: Callable[..., Any], type: str = "void ()"
    ) -> FunctionHandle: ...

    @overload
    def export_python(
        self, name: str, function: None = None, type: str = "void ()"
    ) -> Callable[[Function], Function]: ...

    @operation(observed=True)  # type: ignore[misc]  # mypy: `self` has no name then
    def export_python(
        self, name: str, function: Callable[..., Any] | None = None, type: str = "void ()"
    ) -> Any:
        """Let cells call a function of Python's: `s.export_python("note", print, "void (i32)")`.

        `type` is that of a function in IR or in C, `unsigned (double, const char *)`, with the
        types that cells have defined.  Arguments are Python values, pointers are numbers that
        `read` and `write` take, and have `.text()`.  What it raises ends the run of whoever called,
        and is raised there; the session is in order.  It must not call the session's functions.  It
        is a cell: exported again, it is redefined.  A call takes some tens of microseconds.

        Gives its handle; without `function` this is a decorator.  Raises UsageError for what is no
        type of a function.

            >>> @s.export_python("area", type="double (double, double)")
            ... def area(width, height):
            ...     return width * height
            >>> s.run("%a = call double @area(double 3.0, double 4.0)").value
            12.0
        """
        if function is None:
            return lambda given: self.export_python(name, given, type) and given
        name = name.removeprefix("@")
        source, language = self._core.python_functions.add(name, function, type)
        self.run(source, language, cell_id=f"py:{name}")
        return self[name]

    @operation()
    def read(self, address: int, size: int) -> bytes:
        """Bytes of the program's memory.  Raises UsageError where not all of them are there.

        >>> made = s.run('@text = global [3 x i8] c"one"')
        >>> address = s["text"].address
        >>> s.write(address, b"two")
        >>> s.read(address, 3)
        b'two'
        """
        return self._core.arrays.read(address, size)

    @operation()
    def write(self, address: int, data: bytes | bytearray | memoryview) -> None:
        """Change the program's memory: variables, arrays, heap, stack.  Raises UsageError where
        the program could not write there itself."""
        self._core.arrays.write(address, bytes(memoryview(data)))

    # -- looking ---------------------------------------------------------------------------------

    @property
    def frontend(self) -> FrontendSide:
        """What kernels and notebook extensions need."""
        from jitkernel.session.frontend import FrontendSide

        return FrontendSide(self._core, self)

    @property
    def inspect(self) -> Inspect:
        """All that views and tools may look at, read only."""
        from jitkernel.session.inspect import Inspect

        return Inspect(self._core, self)

    @property
    def cells(self) -> list[Cell]:
        """The cells that are in memory, by number."""
        return sorted(self._core.program.cells.values(), key=lambda c: c.number)

    @property
    def symbols(self) -> SymbolTable:
        """Every name the session knows: its own, and those of libraries that cells use.

        >>> made = s.run("@limit = constant i16 300")
        >>> limit = s.symbols["limit"]
        >>> limit.kind, limit.type, limit.size, limit.constant
        ('variable', 'i16', 2, True)
        """
        from jitkernel.session.handles import SymbolTable

        return SymbolTable(self._core)

    @property
    def types(self) -> Mapping[str, str]:
        """Named types: name to body.

        >>> made = s.run("%point = type { double, double }")
        >>> s.types["point"]
        '{ double, double }'
        """
        return self._core.program.state.types

    def __getitem__(self, name: str) -> Handle:
        """A handle by name: it follows redefinition and undo.  Raises UnknownName, a KeyError.

        >>> made = s.run("@count = global i32 3")
        >>> s["count"]
        <@count i32 3>
        >>> s["counter"]
        Traceback (most recent call last):
        jitkernel.errors.UnknownName: @counter is not defined in this session; did you mean @count?
        """
        from jitkernel.session.handles import handle

        if not isinstance(name, str):
            raise UnknownName(f"a session's names are text, such as 'f': {name!r} is none")
        found: Handle = handle(self, name.removeprefix("@"))
        return found

    def __contains__(self, name: object) -> bool:
        symbol = self.symbols.get(str(name))
        return symbol is not None and symbol.defined

    @checked
    def source(self, number: int) -> str:
        """A cell's source.  Raises UsageError where it is gone."""
        record = self._core.store.get(number)
        if record is None:
            raise UsageError(f"there is no source of cell {number}")
        return record.source

    def memory(self) -> dict[str, Any]:
        """The whole account: see `report.memory`."""
        from jitkernel.session.report.memory import memory

        core = self._core
        with core.lock:
            if core.engine.closed:
                raise JitError("this session is closed")
            return memory(core.engine, core.program, core.history.bytes)

    @operation()
    def contexts(self) -> ContextAccount:
        """The LLVM contexts that outlive a compile, and what each cell's compile left behind.

        The first call begins the count, where `context` is not `shared` or `kept` anyway.
        """
        self._core.release_contexts()
        return self._core.engine.pool.contexts()

    @operation()
    def check(self) -> None:
        """Prove the books of arena, unwind region, linker and notes; raises AssertionError."""
        self._core.program.linker.check()
        self._core.program.state.notes.check()

    @checked
    def describe(self, address: int) -> str:
        """How a pointer is printed: `@g+4`, `0x7f12 (heap)`."""
        return self._core.places.describe(address)

    @operation()
    def reproduce(
        self, timeout: float = 60.0, progress: Callable[[str], object] | None = None
    ) -> Reproduced:
        """Run the cells' present text, in order, in a session beside this one; what differs here.

        Present is what each cell was run with last, with its own options, in the language and the
        working directory that it had; files that it includes or links are read as they are now.  A
        cell stands where it was run first: running it again moves it nowhere.  Compared are
        definitions, types, values of variables (pointers by what they lead to), code, and how
        cells end.  Nothing changes here.

        What the cells print is dropped; they are given no input; shell commands do not run; Python
        functions that they call do.  `timeout` is the seconds that all of it may take; `progress`
        is called with what runs, several times a second.  Raises UsageError where the text is not
        known, and Interrupted.

            >>> for n in (1, 2):
            ...     made = s.run(f"@start = global i32 {n}", cell_id="a")
            >>> made = s.run("@now = global i32 0", cell_id="b")
            >>> s["now"].value = 5
            >>> print(*s.reproduce().differences)
            @now is 5 here, and 0 in a fresh run
        """
        from jitkernel.session.report.reproducing import reproduce

        _check("reproduce", "timeout", "float", timeout)
        return reproduce(self._core, Session, timeout, progress or (lambda words: None))

    @operation(atomic=True)
    def watch(
        self,
        *names: str,
        call: Callable[[Sequence[Watched]], object] | None = None,
        every: float | None = None,
    ) -> list[Watched]:
        """Look at globals while code runs: `s.watch("g", call=print)`; all as they are now.

        `call` gets every watched global, at most once in `every` seconds (0.5) and only when one
        has changed, and once more when the run has ended, after a crash too.  It is called from
        the thread that runs the cell, and what it raises stops the cell; where cells run in this
        process, from a thread beside it, and what it raises is raised when the code has returned.
        Raises UsageError where a name is no variable of the session.

            >>> made = s.run("@steps = global i32 0")
            >>> [(watched.name, watched.typed.python) for watched in s.watch("steps")]
            [('steps', 0)]
        """
        _check("watch", "call", "Callable | None", call)
        _check("watch", "every", "float | None", every)
        return self._core.observers.watch(names, call, every)

    @operation(atomic=True)
    def unwatch(self, *names: str) -> None:
        """Look at these no more; without names, at none.  Raises UsageError."""
        self._core.observers.unwatch(names)

    def watched(self) -> list[Watched]:
        """What `watch` watches, as it is now."""
        with self._core.lock:
            return self._core.observers.watches.now()

    @operation()
    def configure(self, name: str, value: Any) -> None:
        """Change a setting of `SessionSettings` that may change while the session lasts.

        In another `context` cells are compiled from now on; what the other two left is freed.
        Raises UsageError for a setting that there is not, and for a value that it cannot have.
        """
        check_value("configure", name, value)
        with self._core.texts.asked("configure", name=name, value=value):
            self._configure(name, value)

    def _configure(self, name: str, value: Any) -> None:
        core, before = self._core, getattr(self.settings, name)
        check_inline(self.settings, name, value)
        setattr(self.settings, name, value)
        if language := declared(SessionSettings)[name].language:
            self._check_with(language, name, before)
        if name == "context" and value != before:
            core.engine.pool.release_contexts(lambda cell: False, shared=True)
        elif name == "budget":
            core.residency.budget = value
        elif name == "worker_memory_limit":
            core.engine.pool.memory_limit = value
        elif name == "undo_depth":
            core.history.depth = value
            core.history.trim()
        elif name in ("interrupt_grace", "cell_timeout"):
            executor = core.engine.executor
            executor.settings = executor.settings._replace(**{name: value})

    def _check_with(self, language: str, name: str, before: Any) -> None:
        """Set one of a language's settings back where no cell could be compiled with it.  Raises
        UsageError."""
        from jitkernel.languages import find
        from jitkernel.linker import SymbolKind  # a session's start does without
        from jitkernel.session.run.host import SessionView

        core = self._core
        try:
            find(language).check(
                SessionView(core).setting,
                lambda symbol: core.engine.linker.known(symbol, SymbolKind.FUNCTION) is not None,
            )
        except BaseException:
            setattr(self.settings, name, before)
            raise

    # -- changing --------------------------------------------------------------------------------

    def find(self, *which: int | str | Cell) -> list[Cell]:
        """Cells by number, by range (`3-5`), by symbol (`sq` or `@sq`).  Raises UsageError."""
        from jitkernel.session.program.eviction import find_all

        return find_all(self._core.program, which, self._core.number)

    @operation(atomic=True)
    def evict(
        self, *which: int | str | Cell, cascade: bool = False, force: bool = False
    ) -> list[Cell]:
        """Take cells out of memory, by number, range or symbol; the cells that went.

        Raises EvictError when others use them: `cascade` takes those along, `force` leaves stubs
        that raise; and when a name's cell has variables that are not named, whose values would go:
        either takes them along, as the cell's number does.

            >>> made = s.run("define i32 @one() { ret i32 1 }")
            >>> gone = s.evict("one")
            >>> "one" in s
            False
        """
        from jitkernel.session.program.eviction import (
            refuse_to_pull_data,
            refuse_to_take_variables,
        )

        if not which:
            raise UsageError("evict what? A cell's number, a range (3-5), or a symbol ('sq')")
        core, title = self._core, f"evict {', '.join(str(w) for w in which)}"
        cells = self.find(*which)
        if not (cascade or force):
            refuse_to_take_variables(core.program, which, core.number)
        if force and not cascade and self.settings.executor == "inline":
            refuse_to_pull_data(self._core.program, cells)
        named = [w if isinstance(w, int | str) else w.number for w in which]
        with core.texts.asked("evict", which=named, cascade=cascade, force=force):
            gone = core.history.evict(title, cells, cascade=cascade, force=force)
        core.release_contexts()
        return gone

    @property
    def budget(self) -> int:
        """Bytes of code that may be in memory between runs, 0 for no limit; what was used least
        recently leaves and comes back when it is called."""
        return self.settings.budget

    @budget.setter
    def budget(self, size: int) -> None:
        self.configure("budget", size)

    @operation(atomic=True)
    def keep(self, *which: int | str | Cell, on: bool = True) -> list[Cell]:
        """Keep the code of cells in memory whatever the budget (`on` False: no longer).

        Cells by number, range or symbol; those whose code had left come back.  Raises UsageError.
        """
        cells = self.find(*which)
        for cell in cells:
            cell.kept = on
            self._core.program.note(cell)
            if on:
                self._core.residency.bring_back(cell)
        return cells

    @operation(atomic=True)
    def wake(self, *which: int | str | Cell) -> list[Cell]:
        """Bring the code of cells back without calling it.  Raises UsageError, ArenaFull."""
        cells = self.find(*which)
        for cell in cells:
            self._core.residency.bring_back(cell)
        return cells

    @operation(atomic=True)
    def hibernate(self, *which: int | str | Cell) -> list[Cell]:
        """Take the code of cells out of memory until somebody calls it.

        Raises UsageError, and LinkError where the code of one has to stay.
        """
        from jitkernel.session.program.cell import CellState

        cells = self.find(*which)
        for cell in cells:
            if cell.state is not CellState.HIBERNATED:
                self._core.residency.hibernate(cell)
        return cells

    @operation(atomic=True)
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

        Of data beyond `undo_data` bytes nothing is kept: where a run wrote there, UsageError names
        what would not come back, with the limit that would do, and nothing is undone.

            >>> for n in (1, 2):
            ...     made = s.run(f"define i32 @which() {{ ret i32 {n} }}")
            >>> said = s.undo()
            >>> s.call("which")
            1
            >>> said = s.redo()
            >>> s.call("which")
            2
        """
        self._core.engine.check_idle()
        history, name = self._core.history, name.removeprefix("@")
        with self._core.texts.asked("undo", count=count, cell=cell, name=name, cascade=cascade):
            if cell is not None or name:
                return history.undo_one(cell, name, cascade)
            return history.undo(count)

    @operation(atomic=True)
    def redo(self, count: int = 1) -> list[str]:
        """Do again what the last `count` undos took back, until something new is run.

        `partial` as for `undo`.
        """
        self._core.engine.check_idle()
        with self._core.texts.asked("redo", count=count):
            return self._core.history.redo(count)

    @operation(atomic=True)
    def gc(self, dry_run: bool = False, undo: bool = False) -> Garbage:
        """Free what nobody can reach: cells whose definitions have all been replaced and that
        nothing uses, and whole pages of freed memory.

        What is collected can be undone as an eviction can; `undo` forgets everything that could
        be, and frees what was kept for that.  `dry_run` only tells.
        """
        return self._core.garbage.collect(dry_run, undo)

    @operation()
    def save(self, path: Path) -> int:
        """Write the session to a file, all of it or nothing; the file's size in bytes.

        The file that was there stays beside it, as `PATH~`.  Raises UsageError where the file
        is another session's, or something else.

            >>> made = s.run("define i32 @kept() { ret i32 6 }")
            >>> size = s.save("work.jks")
            >>> with Session.restore("work.jks") as again:
            ...     again.call("kept")
            6
        """
        return self._core.keeper.save(os.fspath(path))

    @classmethod
    @checked
    def restore(
        cls,
        path: Path,
        *,
        rebuild: bool = False,
        trust: bool = False,
        worker: WorkerProcess | None = None,
        **overrides: Unpack[Again],
    ) -> Session:
        """A session as it was saved to a file, which is only read; `restored` says what came back.

        Settings are the file's, unless given here; the base is the file's in any case.  Code that
        another LLVM made or for another processor is compiled again.  Where the file is damaged,
        the session is that of the whole file before it, `PATH~`, which `restored` says.  Raises
        UsageError where there is none, and for a file that is newer than this, or no session's;
        `rebuild` compiles then what can be read of it, from source.

        A session's file is a program: call its functions as you would run a program of whoever
        wrote it.  Nothing of it runs before that, unless you `trust` it: then the libraries that
        it names are loaded, which runs their code, and `rebuild` runs the cells' constructors.
        """
        from jitkernel.session.saved.keeping import open_copy, open_rebuilt

        opened = open_rebuilt if rebuild else open_copy
        return opened(cls, os.fspath(path), worker, {**overrides, "trust": trust})

    @operation(atomic=True)
    def reset(self) -> None:
        """Evict every cell and forget results and history; processes and libraries stay."""
        with self._core.texts.asked("reset"):
            self._core.history.reset()
        self._core.observers.stopped = None

    @operation(atomic=True)
    def load(self, path: Path) -> list[str]:
        """Load a shared library into the executor; names that were missing and it defines.

        `-lNAME` finds one as a linker does; where only an archive is found, that is linked.  Raises
        JitError with the loader's words, UsageError where no folder has one.
        """
        path = os.fspath(path)
        here = os.path.abspath(path) if "/" in path else path
        with self._core.texts.asked("load", path=here):
            if path.startswith("-l"):
                from jitkernel.linker.libraries import find_library

                return [name for file in find_library(path) for name in self._load_file(file)]
            return self._load_file(path)

    def _load_file(self, path: str) -> list[str]:
        if path.endswith(".a"):
            missing = {n for n, s in self.symbols.items() if s.state == "missing"}
            self.link(path)
            return [n for n, s in self.symbols.items() if n in missing and s.state != "missing"]
        named = "/" in path or ".so" in path
        hint = "" if named else " (libraries are named by their files: libm.so.6, ./mine.so)"
        with refused(f"{path or 'a library'} cannot be loaded{hint}"):
            self._core.engine.executor.services.library(path)
        return [s.name for s in self._core.program.linker.resolver.retry_missing()]

    @operation()
    def link(self, path: Path, whole: bool = False) -> Result:
        """Link a relocatable object (`cc -c`) or an archive; declare what it defines to call it.

        An object is a cell.  Of an archive those members are, as one cell, that define what the
        session uses and nobody defines; others are taken when a cell uses what they define, as a
        cell that is undone with it.  `whole` takes all of them at once.  Raises LinkError, and
        UsageError for a path that is no file.
        """
        from jitkernel.session.run.linking import link_file

        path = os.fspath(path)
        with self._core.texts.asked("link", path=os.path.abspath(path), whole=whole):
            return link_file(self._core, path, whole)

    @operation()
    def export(
        self,
        names: str | Handle | Sequence[str | Handle],
        path: Path,
        *,
        globals: Literal["present", "first"] = "present",
        cpu: str = "",
    ) -> Exported:
        """Write functions and variables to a file, with all that they need: it needs no session.

        The ending says what is written: `.o` a relocatable object, `.a` a static archive, `.so` a
        shared library, `.h` a header for C, `.ll` IR, `.bc` bitcode, `.py` a Python module that
        brings its library along.  Only `names`, or handles (`s["sq"]`), can be seen from outside;
        code is position independent.  Variables begin with the values that they have now
        (`globals="present"`) or with those of their definitions ("first"; what only a statement has
        given a value keeps that).  `cpu` is compiled for, such as `x86-64-v3`; the session's own
        unless given.

        What libraries must bring is listed in the answer.  Raises UsageError for a name that no
        cell defines and for a value that cannot leave (a pointer to the heap), LinkError where
        something would be missing.

            >>> made = s.run("define i32 @sq(i32 %x) { %r = mul i32 %x, %x  ret i32 %r }")
            >>> written = s.export(["sq"], "libsq.so")
            >>> import ctypes
            >>> ctypes.CDLL("./libsq.so").sq(9)
            81
        """
        from jitkernel.portable.export import export
        from jitkernel.session.handles import names_of

        _check("export", "cpu", "str", cpu)  # the worker would fail
        return export(self._home(), names_of(self, names), os.fspath(path), globals, cpu)

    @operation()
    def portable(self, name: str, *, globals: bool = False) -> PortableFunction:
        """A function with all that it needs, apart from the session: it pickles, and runs in a
        session of the process where it arrives.  A handle (`session["f"]`) pickles as this.

        `globals`: its variables begin there with the values that they have now, by value; otherwise
        with those of their definitions (what only a statement has given a value keeps that).
        Raises UsageError and LinkError as `export` does.

            >>> import pickle
            >>> made = s.run("define i32 @half(i32 %x) { %r = ashr i32 %x, 1  ret i32 %r }")
            >>> sent = pickle.dumps(s.portable("half"))
            >>> half = pickle.loads(sent)  # most often in another process
            >>> half(12)
            6
        """
        from jitkernel.portable.packing import pack
        from jitkernel.portable.travelling import portable

        return portable(pack(self._home(), name, globals))

    def _home(self) -> Home:
        """Where its functions leave from."""
        from jitkernel.portable.gathering import Home

        core = self._core
        return Home(core.program, core.engine, core.prototypes.declared)

    @operation()
    def chdir(self, path: Path) -> None:
        """Change the executor's working directory.  Raises OSError's words as JitError."""
        services = self._core.engine.executor.services
        with refused(str(path)):
            services.chdir(os.fspath(path))
        with self._core.texts.asked("chdir", path=services.cwd):
            pass

    @operation()
    def setenv(self, name: str, value: str) -> None:
        """Set an environment variable in the executor.  Raises OSError's words as JitError."""
        with refused(name), self._core.texts.asked("setenv", name=name, value=value):
            self._core.engine.executor.services.setenv(name, value)

    @operation()
    def respawn(self) -> None:
        """Replace the executor; functions and globals stay, its heap and files are lost."""
        self._core.engine.executor.respawn()
        self._core.engine.renew()

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.cells)

    def __repr__(self) -> str:
        core = self._core
        if core.engine.closed:
            return "<Session, closed>"
        symbols = dict(core.program.linker.symbols).values() if core.begun else ()
        own = [s for s in symbols if s.image is not None and s.image.cell]
        functions = sum(s.is_function for s in own)
        parts = [
            counted(len(core.program.cells) if core.begun else 0, "cell"),
            counted(functions, "function"),
            counted(len(own) - functions, "variable"),
        ]
        return f"<Session of {', '.join(parts)}>"


def _check(function: str, parameter: str, annotation: str, value: object) -> None:
    from jitkernel.arguments import check

    check(function, parameter, annotation, value)


def _quiet() -> Sink:
    from jitkernel.session.run.results import Collector

    return Collector()


@contextlib.contextmanager
def refused(what: str) -> Iterator[None]:
    """The system's words, where it says no, as JitError."""
    try:
        yield
    except OSError as error:
        raise JitError(f"{what}: {error.strerror or error}") from None
