"""Functions of Python's that cells call.  Start from `PythonFunctions.export`.

Each is a cell like any other, with a body that hands its arguments to the kernel process (`jk_ask`,
executor/native/ask.ll): it is redefined, evicted, undone and saved as cells are.  What is saved
does not have the Python function, though.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

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
from jitkernel.languages.llvm.conversion import from_python
from jitkernel.languages.llvm.values import TypedValue
from jitkernel.session.run.host import SessionHost

if TYPE_CHECKING:
    from jitkernel.session.core import Core

__all__ = ["PythonFunctions", "definition"]


class PythonFunctions:
    """By number: a function, its name and type."""

    def __init__(self, core: Core):
        self._core = core
        self._functions: list[tuple[Callable[..., Any], str, FunctionType]] = []

    def add(self, name: str, function: Callable[..., Any], type: str) -> str:
        """The IR that defines `name` as a function of Python's.  Raises UsageError."""
        if not name:
            raise UsageError("a function has a name")
        if not callable(function):
            raise UsageError(f"{written(name)}: {function!r} cannot be called")
        try:
            signature = function_type(type)
        except TypeSyntaxError as error:
            raise UsageError(
                f"{written(name)}: {error}; the type is one of LLVM's, such as 'i32 (double, ptr)'"
            ) from None
        if signature.variadic:
            raise UsageError(f"{written(name)}: a Python function takes no `...` from a cell")
        known = (function, name, signature)
        if known not in self._functions:  # one that an undo brings back is still there
            self._functions.append(known)
        return definition(name, signature, self._functions.index(known) + 1)

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
        function, name, type = self._functions[number - 1]
        host = _Host(self._core)
        layout = host.layout(parse_type(_frame(type)))
        if len(frame) != layout.size:
            raise UsageError(f"{written(name)} was called with {len(frame)} bytes of arguments")
        first = 0 if isinstance(type.result, VoidType) else 1
        arguments: list[Any] = []
        for index, kind in enumerate(type.parameters, first):
            at = layout.offsets[index]
            data = frame[at : at + host.layout(kind).size]
            arguments.append(TypedValue(kind, data, host.layout).python)
        result = self._core.foreign.run(function, *arguments)
        if not first:
            return frame
        value = from_python(type.result, result, host, f"what {written(name)} returned")
        return value.data + frame[len(value.data) :]


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
    parts = ", ".join(map(str, (*result, *type.parameters)))
    return f"{{ {parts} }}" if parts else "{}"


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
