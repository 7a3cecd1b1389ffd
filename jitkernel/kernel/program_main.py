"""`main` of a program that cells or a file have defined, called as a system calls it.

Start from `run_main`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jitkernel.errors import Exited, UsageError
from jitkernel.ir.types import FunctionType

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend

__all__ = ["has_main", "run_main"]


def has_main(context: Frontend) -> bool:
    """Whether a cell defines a function `main`."""
    symbol = context.session.symbols.get("main")
    return symbol is not None and symbol.kind == "function" and bool(symbol.cell)


def run_main(context: Frontend, words: Sequence[str]) -> int:
    """Call `main` with these words, its own name first; its exit status, from 0 to 255.

    `exit` ends the call alone.  Raises UsageError where `main` takes something else.
    """
    signature = context.session.inspect.signature("main")
    type = getattr(signature, "function", None)
    parameters = list(map(str, type.parameters)) if isinstance(type, FunctionType) else []
    if parameters not in ([], ["i32", "ptr"]):
        raise UsageError(f"main takes {', '.join(parameters)}: call it with these yourself")
    try:
        with context.session.frontend.aside():
            result = context.execute(_call(words if parameters else ()), language="llvm")
    except Exited as error:
        return error.status & 0xFF
    value = result.value if result is not None else 0
    return value & 0xFF if isinstance(value, int) else 0


def _call(words: Sequence[str]) -> str:
    """Instructions that call `main`, its arguments on the stack as a process has them."""
    lines = []
    for number, word in enumerate(words):
        text, size = _escaped(word), len(word.encode("utf-8", "surrogateescape")) + 1
        lines += [f"%s{number} = alloca [{size} x i8]",
                  f'store [{size} x i8] c"{text}\\00", ptr %s{number}']  # fmt: skip
    if words:
        lines.append(f"%argv = alloca [{len(words) + 1} x ptr]")
    for number in range(len(words) + bool(words)):
        value = f"%s{number}" if number < len(words) else "null"
        lines += [f"%a{number} = getelementptr ptr, ptr %argv, i64 {number}",
                  f"store ptr {value}, ptr %a{number}"]  # fmt: skip
    arguments = f"i32 {len(words)}, ptr %argv" if words else ""
    return "\n".join([*lines, f"%status = call i32 @main({arguments})", "ret i32 %status"])


def _escaped(word: str) -> str:
    """Bytes of a word as IR writes them in a string."""
    return "".join(
        chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}"
        for b in word.encode("utf-8", "surrogateescape")
    )
