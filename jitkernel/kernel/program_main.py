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
    call = "@main()"
    if parameters:
        texts = ", ".join(f'ptr "{_escaped(word)}"' for word in words)
        call = f"@main(i32 {len(words)}, [{texts}, ptr null])"
    try:
        result = context.execute(call, language="llvm")
    except Exited as error:
        return error.status & 0xFF
    value = result.value if result is not None else 0
    return value & 0xFF if isinstance(value, int) else 0


def _escaped(word: str) -> str:
    """Bytes of a word as IR writes them in a string."""
    return "".join(
        chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}"
        for b in word.encode("utf-8", "surrogateescape")
    )
