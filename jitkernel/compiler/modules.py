"""The text of a module in whatever form a program has it.  Start from `module_text`.

This process loads no LLVM for that: bitcode is read by the worker, and a module of llvmlite's is
one only where the program has imported llvmlite itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from jitkernel.errors import UsageError

if TYPE_CHECKING:
    from llvmlite.binding import ModuleRef
    from llvmlite.ir import Module

#: text, bitcode, or a module of `llvmlite.ir` or `llvmlite.binding`
Source: TypeAlias = "str | bytes | bytearray | memoryview | Module | ModuleRef"

_BITCODE = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")  # plain, and in LLVM's wrapper


def module_text(source: Source, language: str, disassembled: Callable[[bytes], str]) -> str:
    """A cell's source as text; `disassembled` gives that of bitcode.

    Raises UsageError for what is no module, and for a module where the language is not `llvm`.
    """
    if isinstance(source, str):
        return source
    if language != "llvm":
        raise UsageError(
            f"the source of a cell of {language} is text, not a {source.__class__.__name__}"
        )
    if isinstance(source, (bytes, bytearray, memoryview)):
        data = bytes(source)
        if not data.startswith(_BITCODE):
            raise UsageError("these bytes are no bitcode; text is given as a str")
        return disassembled(data)
    ir, binding = sys.modules.get("llvmlite.ir"), sys.modules.get("llvmlite.binding")
    if ir is not None and isinstance(source, ir.Module):
        return str(source)
    if binding is not None and isinstance(source, binding.ModuleRef):
        if source.closed:
            raise UsageError("this module is closed: its text is gone")
        return str(source)
    raise UsageError(
        "a cell is text, bitcode, or a module of llvmlite's (ir.Module, binding.ModuleRef), not a "
        f"{source.__class__.__name__}"
    )
