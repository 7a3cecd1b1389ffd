"""Modules as bitcode: text to bitcode, and back to text.  Worker only.

Bitcode is what an exercise's reference is shipped as.  Start from `internalised` and
`disassembled`; `printed` is what a module is before or after its passes.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_size_t, c_void_p
from typing import Any

from jitkernel.compiler import binding, pipeline
from jitkernel.compiler.binding import lib
from jitkernel.compiler.prepare import prepare
from jitkernel.compiler.records import Options, Request
from jitkernel.errors import CompileError
from jitkernel.ir.names import written

__all__ = ["bitcode_of", "disassembled", "internalised", "printed"]


def internalised(request: Request, keep: str, called: str) -> tuple[dict[str, Any], bytes]:
    """Bitcode of the module in which the function `keep` is called `called` and is all that can be
    seen from outside.  Raises CompileError where it is not defined or the source has errors."""
    target = pipeline.machine(Options())
    ready = prepare(request._replace(options=Options()), target)
    with pipeline.module_of(ready.text, request) as module:
        found = 0
        for value in binding.definitions(module):
            if binding.name_of(value) == keep:
                found = value
            else:
                lib.SetLinkage(value, binding.INTERNAL)
        if not found:
            raise CompileError(f"{written(keep)} is not defined here")
        lib.SetValueName(found, called.encode())
        return {}, bitcode_of(module)


def bitcode_of(module: int) -> bytes:
    """The module as bitcode."""
    start, size = c_void_p(), c_size_t()
    lib.WriteBitcodeToString(module, byref(start), byref(size))
    try:
        return ctypes.string_at(start.value or 0, size.value)
    finally:
        lib.DisposeString(start.value)


def disassembled(digits: str) -> tuple[dict[str, Any], bytes]:
    """The text of a module that was shipped as bitcode.  Raises CompileError."""
    bitcode = bytes.fromhex(digits)
    out = c_void_p()
    with binding.fresh_context() as context:
        module = lib.ParseBitcode(context, bitcode, len(bitcode), byref(out))
        if not module:
            raise CompileError(f"this is not bitcode: {binding.take(out.value)}")
        return {}, binding.print_module(module).encode()


def printed(request: Request, at: str) -> tuple[dict[str, Any], bytes]:
    """The module of a cell at a stage: as its passes find it (`optimise`) or leave it (`emit`).
    Raises CompileError."""
    texts: dict[str, str] = {}

    def watch(stage: str, module: int) -> None:
        if stage == at:
            texts[stage] = binding.print_module(module)

    pipeline.compile_module(request, watch)
    return {}, texts[at].encode()
