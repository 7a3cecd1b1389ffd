"""Running cells, calling functions, memory that Python shares with the program, and a look at all
that.  Start from `Running`; `Session` has all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from jitkernel.errors import UsageError
from jitkernel.session.operation import checked, operation

if TYPE_CHECKING:
    import numpy
    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from jitkernel.compiler.modules import Source
    from jitkernel.compiler.records import ContextAccount
    from jitkernel.elf.stack_maps import StackMaps
    from jitkernel.session.core import Core
    from jitkernel.session.frontend import FrontendSide
    from jitkernel.session.handles import CompiledCell, SymbolTable
    from jitkernel.session.inspect import Inspect
    from jitkernel.session.program.cell import Cell
    from jitkernel.session.report.watch import Watched
    from jitkernel.session.run.results import Result, Sink
    from jitkernel.session.settings import CellOptions
    from jitkernel.settings import SessionSettings
    from jitkernel.values.value import TypedValue

    Element = TypeVar("Element", bound=numpy.generic)
    Sides = TypeVar("Sides", bound=tuple[int, ...])
    Type = TypeVar("Type", bound=numpy.dtype[Any])


class Running:
    """The operations of a session that run its cells and functions, or only look: see `Session`."""

    __slots__ = ()
    _core: Core
    settings: SessionSettings

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
        from jitkernel.session.run.runner import Runner

        # These are kept, or are not needed at once.
        if cell_id is not None and cell_id.__class__ is not str:
            check_argument("run", "cell_id", "str | None", cell_id)
        if number is not None and number.__class__ is not int:
            check_argument("run", "number", "int | None", number)
        if sink is not None and not hasattr(sink, "output"):
            check_argument("run", "sink", "Sink | None", sink)
        core = self._core
        if core.engine.executor.serving:
            core.engine.check_stands()
        else:
            core.garbage.collect_data()
        if not isinstance(source, str):
            source = self._text(source, language)
        runner = Runner(core, sink, options, cell_id, number)
        core.texts.begin("run", {"language": language, "cell_id": cell_id}, source, cell_id)
        try:
            result = runner.run(source, language)
        except BaseException as error:
            core.texts.end_run(runner, error)
            raise
        core.texts.end_run(runner)
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

        if isinstance(sources, str):  # a sequence of text, but not of cells
            check_argument("run_many", "sources", "Sequence[str]", sources)
        core, texts = self._core, list(map(self._text, sources))
        core.engine.check_stands()
        before, chosen = core.number, options or CellOptions()
        try:
            return run_many(core, texts, chosen)
        finally:
            core.texts.placed(texts[: core.number - before], chosen, before + 1)

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function with Python values; its result as a Python value.

        >>> made = s.run("declare double @sqrt(double)")
        >>> s.call("sqrt", 2.25)
        1.5
        """
        try:
            name, direct = name.removeprefix("@"), self._core.direct
        except (AttributeError, TypeError):
            check_argument("call", "name", "str", name)
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
        from jitkernel.session.run.calls import Caller
        from jitkernel.session.run.results import Collector

        return Caller(self._core, sink or Collector()).time(expression, language, number, repeat)

    @operation(observed=True)
    def value(self, expression: str, sink: Sink | None = None) -> TypedValue:
        """The value of one call line (`@f(3)`), without a cell or an undo step of its own.

        >>> made = s.run("define i8 @dec(i8 %x) { %r = sub i8 %x, 1  ret i8 %r }")
        >>> s.value("@dec(-128)").python
        127
        """
        from jitkernel.session.run.calls import Caller

        return Caller(self._core, sink).value(expression)

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

        return Definer(self._core, options=options).compile_only(self._text(source))

    @operation()
    def place(self, compiled: CompiledCell, cell_id: str | None = None) -> Result:
        """Place what `compile` gave."""
        from jitkernel.session.run.definer import Definer

        check_argument("place", "cell_id", "str | None", cell_id)
        core = self._core
        definer = Definer(core, options=compiled.options, cell_id=cell_id)
        result = definer.place_only(compiled.source, compiled.request, compiled.compiled)
        core.texts.placed([compiled.source], compiled.options, core.number, cell_id)
        return result

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

    # -- looks ----------------------------------------------------------------------------------

    @property
    def number(self) -> int:
        """The number of the latest cell."""
        return self._core.number

    @property
    def frontend(self) -> FrontendSide:
        """The side of a session for kernels and notebook extensions."""
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

    @property
    def stack_maps(self) -> StackMaps:
        """The stack maps of the cells that are in memory, as they stand there: which values are
        where at calls with a `deopt` bundle, statepoints, `llvm.experimental.stackmap`.  Those of
        former code stay while threads of the program may be in it.

        >>> made = s.run(
        ...     "declare void @llvm.experimental.stackmap(i64, i32, ...)\\n"
        ...     "define void @mapped(i64 %x) {\\n"
        ...     "  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 7, i32 0, i64 %x)\\n"
        ...     "  ret void\\n"
        ...     "}"
        ... )
        >>> [point] = s.stack_maps.records
        >>> point.id, point.function.stack_size, str(point.locations[0])
        (7, 8, 'r5 (8 bytes)')
        """
        from jitkernel.elf.stack_maps import StackMaps

        with self._core.lock:
            return StackMaps.joined(maps for _, maps in self._core.program.stack_maps())

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
            core.refuse_closed()
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
        self._core.program.check()

    @checked
    def describe(self, address: int) -> str:
        """The form in which a pointer is printed: `@g+4`, `0x7f12 (heap)`."""
        return self._core.places.describe(address)

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
        check_argument("watch", "call", "Callable | None", call)
        check_argument("watch", "every", "float | None", every)
        return self._core.observers.watch(names, call, every)

    @operation(atomic=True)
    def unwatch(self, *names: str) -> None:
        """Look at these no more; without names, at none.  Raises UsageError."""
        self._core.observers.unwatch(names)

    def watched(self) -> list[Watched]:
        """The value that `watch` watches, as it is now."""
        with self._core.lock:
            return self._core.observers.watched()


def check_argument(function: str, parameter: str, annotation: str, value: object) -> None:
    """Raise WrongArgument for a value that a parameter cannot have."""
    from jitkernel.arguments import check

    check(function, parameter, annotation, value)
