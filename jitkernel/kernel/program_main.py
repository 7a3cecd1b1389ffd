"""`main` of a program that cells or a file have defined, called as a system calls it.

Start from `run_main`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jitkernel.errors import Exited, UsageError
from jitkernel.ir.names import escaped
from jitkernel.ir.types import FunctionType, IntType

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend

_PARAMETERS = ["i32", "ptr", "ptr"]  # argc, argv, and the environment: C11 5.1.2.2.1, J.5.1


def cell_of_main(context: Frontend) -> int:
    """The number of the cell that defines a function `main`; 0 where none does."""
    symbol = context.session.symbols.get("main")
    return symbol.cell if symbol is not None and symbol.kind == "function" else 0


def run_main(context: Frontend, words: Sequence[str]) -> int:
    """Call `main` with these words, its own name first; its exit status, from 0 to 255.

    `exit` ends the call alone.  Raises UsageError where `main` takes something else.
    """
    signature = context.session.inspect.signature("main")
    type = getattr(signature, "function", None)
    if not isinstance(type, FunctionType):
        type = FunctionType(IntType(32), ())
    result, parameters = str(type.result), list(map(str, type.parameters))
    if result not in ("i32", "void") or parameters != _PARAMETERS[: len(parameters)]:
        raise UsageError(
            "a program's main gives int (or void) and takes nothing or (int argc, char **argv); "
            "this one is called as other functions are: main(...)"
        )
    try:
        with context.session.frontend.aside():
            answer = context.execute(_call(result, len(parameters), words), language="llvm")
    except Exited as error:
        return error.status & 0xFF
    value = answer.value if answer is not None else 0
    return value & 0xFF if isinstance(value, int) else 0


def _call(result: str, count: int, words: Sequence[str]) -> str:
    """Instructions that call `main` with the first of its parameters, its arguments on the stack
    as a process has them."""
    lines = []
    if count > 1:
        for number, word in enumerate(words):
            text = word.encode("utf-8", "surrogateescape") + b"\0"
            lines += [f"%s{number} = alloca [{len(text)} x i8]",
                      f'store [{len(text)} x i8] c"{escaped(text)}", ptr %s{number}']  # fmt: skip
        lines.append(f"%argv = alloca [{len(words) + 1} x ptr]")
        for number in range(len(words) + 1):
            value = f"%s{number}" if number < len(words) else "null"
            lines += [f"%a{number} = getelementptr ptr, ptr %argv, i64 {number}",
                      f"store ptr {value}, ptr %a{number}"]  # fmt: skip
    if count > 2:
        lines = ["@environ = external global ptr", *lines, "%envp = load ptr, ptr @environ"]
    every = (f"i32 {len(words)}", "ptr %argv", "ptr %envp")
    call = f"call {result} @main({', '.join(every[:count])})"
    end = ["ret void"] if result == "void" else ["ret i32 %status"]
    return "\n".join([*lines, call if result == "void" else f"%status = {call}", *end])
