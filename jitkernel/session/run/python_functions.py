"""Functions of Python's that cells call.  Start from `PythonFunctions.export`.

Each is a cell like any other, with a body that hands its arguments to the kernel process (`jk_ask`,
executor/native/ask.ll): it is redefined, evicted, undone and saved as cells are.  What is saved
does not have the Python function, though.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Timer
from typing import TYPE_CHECKING, Any, NamedTuple

from jitkernel.errors import UsageError
from jitkernel.ir.names import ASK, quote_name, written
from jitkernel.ir.types import (
    FunctionType,
    Type,
    TypeSyntaxError,
    VoidType,
    function_type,
    parse_type,
)
from jitkernel.languages import find
from jitkernel.languages.prototypes import Foreign
from jitkernel.linker import SymbolState
from jitkernel.session.interruption import TOO_LONG, InterruptibleCall
from jitkernel.session.run.host import SessionHost, SessionView
from jitkernel.session.run.thunks import struct_of
from jitkernel.values.conversion import to_bytes
from jitkernel.values.python import to_python

if TYPE_CHECKING:
    from jitkernel.linker import Image
    from jitkernel.session.core import Core
    from jitkernel.values.datatype import DataType

_OWN = "python_function_"  # what the names of functions begin with that were given as arguments
_MOST = 200


class _Exported(NamedTuple):
    """A function, its name and type as the user wrote it; `frame` is what is handed over: a type of
    IR, or what a language says of it, for the code `image`: that is made again when a type that it
    mentions has changed."""

    function: Callable[..., Any]
    name: str
    type: str
    frame: FunctionType | Foreign
    image: Image | None = None


class PythonFunctions:
    """By number: what was exported."""

    def __init__(self, core: Core):
        self._core = core
        self._functions: list[_Exported] = []

    def add(self, name: str, function: Callable[..., Any], type: str) -> tuple[str, str]:
        """The cell that defines `name` as a function of Python's, and its language.  Raises
        UsageError."""
        if not name:
            raise UsageError("a function has a name")
        if not callable(function):
            raise UsageError(f"{self._core.program.called(name)}: {function!r} cannot be called")
        # One that an undo brings back is still there.
        same = [at for at, f in enumerate(self._functions) if f[:3] == (function, name, type)]
        number = same[0] + 1 if same else len(self._functions) + 1
        source, frame = self._defined(name, type, number)
        made = _Exported(function, name, type, frame)
        self._functions[number - 1 : number] = [made]
        return source, "llvm" if isinstance(frame, FunctionType) else "c"

    def name_of(self, function: Callable[..., Any], type: str) -> str:
        """The name under which a function was exported as one of that type without a name of its
        own; "" where it was not.  Raises UsageError where there are too many of those."""
        own = [f for f in self._functions if f.name.startswith(_OWN)]
        found = next((f.name for f in own if (f.function, f.type) == (function, type)), "")
        symbols = self._core.program.linker.symbols
        there = [f for f in own if (s := symbols.get(f.name)) and s.state is SymbolState.DEFINED]
        if not found and len(there) >= _MOST:
            raise UsageError(
                f"{_MOST} Python functions were given as arguments, and each stays, since the "
                "program may have kept its address: give the same ones again, or name them with "
                "session.export_python"
            )
        return found

    def new_name(self) -> str:
        """A name for one that has none."""
        return f"{_OWN}{len(self._functions) + 1}"

    def _defined(self, name: str, type: str, number: int) -> tuple[str, FunctionType | Foreign]:
        called = self._core.program.called(name)
        try:
            signature = function_type(type)
            if any(isinstance(parameter, VoidType) for parameter in signature.parameters):
                raise TypeSyntaxError("only a result is void in IR", 0)
        except TypeSyntaxError as error:
            known = SessionView(self._core)
            found = find("c").foreign(name, type, number, known) if type.isprintable() else None
            if found is None:
                raise UsageError(
                    f"{called}: {error}; the type is one of LLVM's, such as "
                    "'i32 (double, ptr)', or of C's, such as 'int (double, const char *)'"
                ) from None
            return found.source, found
        if signature.variadic:
            raise UsageError(f"{called}: a Python function takes no `...` from a cell")
        return definition(name, signature, number), signature

    def take(
        self, others: PythonFunctions, made: Callable[[Callable[..., Any]], Callable[..., Any]]
    ) -> None:
        """Have another session's functions, each made into another one, under their numbers."""
        self._functions = [f._replace(function=made(f.function)) for f in others._functions]

    def call(self, number: int, frame: bytes) -> bytes:
        """Run a function for code of the program; the frame with its result.

        Raises what it raises, UsageError for a result that is none of the type, and where this
        process has no such function.
        """
        if not 0 < number <= len(self._functions):
            raise UsageError(
                "a cell has called a Python function that this process does not have: the session "
                "was restored; session.export_python gives it again"
            )
        exported, host = self._functions[number - 1], _Host(self._core)
        by, called = exported.frame, self._core.program.called(exported.name)
        if isinstance(by, FunctionType):
            layout, returns = (
                host.layout(parse_type(_frame(by))),
                not isinstance(by.result, VoidType),
            )
        else:  # with the signs, structs and names of a language
            layout, returns = self._present(number, exported, by)
        if len(frame) != layout.size:
            raise UsageError(
                f"{written(exported.name)} was called with {len(frame)} bytes of arguments"
            )
        arguments = [
            to_python(part.type, memoryview(frame)[part.offset :], host.layout)
            for part in layout.members[returns:]
        ]
        result = self._core.foreign.run(self._in_time, exported.function, arguments)
        if not returns:
            return frame
        value = to_bytes(layout.members[0].type, result, host, f"what {called} returned")
        return value + frame[len(value) :]

    def _present(self, number: int, exported: _Exported, by: Foreign) -> tuple[DataType, bool]:
        """The struct that the present code of a function hands over."""
        symbol = self._core.program.named(exported.name)
        if symbol is not None and symbol.image is not exported.image:
            view = SessionView(self._core)
            by = find("c").foreign(exported.name, exported.type, number, view) or by
            self._functions[number - 1] = exported._replace(frame=by, image=symbol.image)
        return by.frame, by.returns

    def _in_time(self, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """Call a function, which is ended as a cell is that takes too long."""
        limit = self._core.engine.executor.settings.cell_timeout
        if not limit:
            return function(*arguments)
        call = InterruptibleCall(TOO_LONG)
        timer = Timer(limit, call.interrupt)
        timer.daemon = True
        timer.start()
        try:
            return call.run(function, *arguments)
        finally:
            timer.cancel()


class _Host(SessionHost):
    """A result is nobody's: it cannot be new memory."""

    def allocate(self, data: bytes, align: int) -> int:
        raise UsageError(
            "a Python function cannot return text or bytes: nobody would own them; write them "
            "where the program says (session.write)"
        )


def _frame(type: FunctionType) -> str:
    """The struct in which arguments and result lie, the result first."""
    result: Sequence[Type] = () if isinstance(type.result, VoidType) else (type.result,)
    return struct_of([str(part) for part in (*result, *type.parameters)])


def definition(name: str, type: FunctionType, number: int) -> str:
    """The IR of a function that asks for Python's function of this number."""
    frame, shown = _frame(type), f"@{quote_name(name)}"
    parameters = ", ".join(f"{t} %a{i}" for i, t in enumerate(type.parameters))
    first = 0 if isinstance(type.result, VoidType) else 1
    lines = [
        f"define {type.result} {shown}({parameters}) {{",
        f"  %frame = alloca {frame}",
    ]
    for index, kind in enumerate(type.parameters):
        at = f"%at{index}"
        lines += [
            f"  {at} = getelementptr {frame}, ptr %frame, i32 0, i32 {index + first}",
            f"  store {kind} %a{index}, ptr {at}",
        ]
    lines += [
        f"  %end = getelementptr {frame}, ptr null, i32 1",
        "  %size = ptrtoint ptr %end to i64",
        f"  call void @{ASK}(i64 {number}, ptr %frame, i64 %size)",
    ]
    if first:
        lines += [f"  %result = load {type.result}, ptr %frame", f"  ret {type.result} %result"]
    else:
        lines.append("  ret void")
    return "\n".join([*lines, "}", f"declare void @{ASK}(i64, ptr, i64)"])
