"""Running cells, calling functions, and memory that Python shares with the program.  Start from
`Running`; `Session` has all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from jitkernel.session.looking import Looking, check_argument
from jitkernel.session.operation import operation

if TYPE_CHECKING:
    import numpy
    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from jitkernel.compiler.modules import Source
    from jitkernel.session.handles import CompiledCell
    from jitkernel.session.run.calls import Caller
    from jitkernel.session.run.results import Result, Sink
    from jitkernel.session.settings import CellOptions
    from jitkernel.values.value import TypedValue

    Element = TypeVar("Element", bound=numpy.generic)
    Sides = TypeVar("Sides", bound=tuple[int, ...])
    Type = TypeVar("Type", bound=numpy.dtype[Any])

__all__ = ["Running"]


class Running(Looking):
    """The operations of a session that run its cells and functions: see `Session`."""

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
            check_argument("run", "cell_id", "str | None", cell_id)
        if number is not None and number.__class__ is not int:
            check_argument("run", "number", "int | None", number)
        if sink is not None and not hasattr(sink, "output"):
            check_argument("run", "sink", "Sink | None", sink)
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

        check_argument("place", "cell_id", "str | None", cell_id)
        core = self._core
        definer = Definer(Execution(core, options=compiled.options, cell_id=cell_id))
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


def _quiet() -> Sink:
    from jitkernel.session.run.results import Collector

    return Collector()
