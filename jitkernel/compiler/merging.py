"""Modules of several cells as one, of which little can be seen from outside.  Worker only.

Start from `merged`.  What a cell defines and another one defines by now gives way; all but what is
exported becomes internal, and what nobody uses then goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref, c_void_p
from typing import Any

from jitkernel.compiler import binding, pipeline
from jitkernel.compiler.binding import LLVMError, lib
from jitkernel.compiler.bitcode import bitcode_of
from jitkernel.compiler.prepare import prepare
from jitkernel.compiler.records import Options, Part
from jitkernel.compiler.summary import NOBUILTIN
from jitkernel.errors import CompileError

__all__ = ["merged"]


def merged(
    parts: Sequence[Part], options: Options, seen: frozenset[str], forms: Sequence[str]
) -> tuple[dict[str, Any], bytes]:
    """The parts as one module, in each of the `forms`: `object`, `text`, `bitcode`.

    `seen` are the names that can be seen from outside.  Text and bitcode are as before the passes.
    Raises CompileError.
    """
    target = pipeline.machine(options)
    try:
        with binding.fresh_context() as context:
            module = 0
            for part in parts:
                added = binding.parse(context, prepare(part.request, target).text)
                binding.verify(added)
                _own(added, part)
                module = _linked(module, added)
            for value in _values(module):
                if not lib.IsDeclaration(value) and lib.GetLinkage(value) != binding.AVAILABLE:
                    if binding.name_of(value) not in seen:
                        lib.SetLinkage(value, binding.INTERNAL)
            binding.verify(module)
            target.dispose(target.run_passes(module, ("globaldce",)))
            made = {}
            if "text" in forms:
                made["text"] = binding.print_module(module).encode("utf-8", "surrogateescape")
            if "bitcode" in forms:
                made["bitcode"] = bitcode_of(module)
            if "object" in forms:
                target.dispose(target.optimise(module))
                made["object"] = target.emit(module)
    except LLVMError as error:
        raise CompileError(f"the cells cannot be made one module: {error.message}") from None
    every = [made[form] for form in forms]
    return {"sizes": list(map(len, every))}, b"".join(every)


def _values(module: int) -> list[int]:
    """Functions and variables, without LLVM's own."""
    found = [*binding.functions(module), *binding.variables(module)]
    return [v for v in found if not lib.GetValueName(v).startswith(b"llvm.")]


def _own(module: int, part: Part) -> None:
    """Let a cell's definitions be its own, or give way to another cell's."""
    renamed = dict(part.renamed)
    functions = set(binding.functions(module))
    for value in _values(module):
        name, linkage = binding.name_of(value), lib.GetLinkage(value)
        defined = not lib.IsDeclaration(value)
        if value in functions and (
            name in part.request.nobuiltin or (defined and linkage == binding.EXTERNAL)
        ):
            lib.AddFunctionAttr(value, NOBUILTIN)
        if not defined or linkage == binding.AVAILABLE:
            continue
        if linkage in (binding.INTERNAL, binding.PRIVATE):
            if name in renamed:
                lib.SetValueName(value, renamed[name].encode("utf-8", "surrogateescape"))
                lib.SetLinkage(value, binding.LINKONCE)
        else:
            lib.SetLinkage(value, binding.EXTERNAL if name in part.owned else binding.LINKONCE)


def _linked(module: int, added: int) -> int:
    """One module of two, both of which are gone."""
    if not module:
        return added
    out = c_void_p()
    failed = lib.LinkModules(module, added, byref(out))
    words = binding.take(out.value)
    if failed:
        raise LLVMError("link", words or "they define the same name")
    return module
