"""What a module becomes on another machine, as assembly text.  Worker only.

Start from `assembly`.  Nothing of it is ever linked or run here.
"""

from __future__ import annotations

import re
from functools import cache

from jitkernel.compiler import binding
from jitkernel.compiler.binding import LLVMError, Machine, lib
from jitkernel.compiler.diagnose import parse_error, verify_error
from jitkernel.errors import CompileError

__all__ = ["assembly"]

# The cell's own target is blanked out: ours stands in front of it.
_TARGET = re.compile(r'^[ \t]*target[ \t]+(?:triple|datalayout)[ \t]*=[ \t]*"[^"\n]*"', re.M)
_EXTERNAL, _WEAK = 0, 5  # LLVMLinkage of llvm-c/Core.h


@cache
def _machine(triple: str, cpu: str, opt_level: int) -> Machine:
    try:
        return Machine(opt_level, cpu, "pic", "default", triple)
    except RuntimeError as error:
        raise CompileError(f"no such machine: {triple}: {str(error).strip()}") from None


def assembly(
    source: str, triple: str, cpu: str, opt_level: int, first_line: int, as_object: bool = False
) -> bytes:
    """The assembly of `source` for `triple`, or its object; raises CompileError."""
    target = _machine(triple, cpu, opt_level)
    blanked = _TARGET.sub(lambda match: " " * len(match[0]), source)
    front = f'target datalayout = "{target.layout}"\ntarget triple = "{target.triple}"\n'
    context = lib.ContextCreate()
    module = 0
    try:
        module = binding.parse(context, (front + blanked).encode("utf-8", "surrogatepass"))
        binding.verify(module)
        for value in (*binding.functions(module), *binding.variables(module)):
            # As a cell's: what may be redefined is not copied into its users.
            if not lib.IsDeclaration(value) and lib.GetLinkage(value) == _EXTERNAL:
                lib.SetLinkage(value, _WEAK)
        target.dispose(target.optimise(module))
        return target.emit(module, assembly=not as_object)
    except LLVMError as error:
        if error.stage == "parse":
            raise CompileError([parse_error(error.message, source, first_line)]) from None
        if error.stage == "verify":
            raise CompileError(verify_error(error.message, source, first_line)) from None
        raise CompileError(error.message) from None
    finally:
        if module:
            lib.DisposeModule(module)
        lib.ContextDispose(context)
