"""What a module becomes on another machine, as assembly text.  Worker only.

Start from `assembly`.  Nothing of it is ever linked or run here.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import cache

from jitkernel.compiler import binding
from jitkernel.compiler.binding import LLVMError, Machine, lib
from jitkernel.compiler.custom import die_with_parent
from jitkernel.compiler.diagnose import parse_error, verify_error
from jitkernel.errors import CompileError

__all__ = ["assembly"]

# The cell's own target is blanked out: ours stands in front of it.
_TARGET = re.compile(r'^[ \t]*target[ \t]+(?:triple|datalayout)[ \t]*=[ \t]*"[^"\n]*"', re.M)
_X86 = re.compile(r"(?:x86_64|i[3-6]86)\b")
_EXTERNAL, _WEAK = 0, 5  # LLVMLinkage of llvm-c/Core.h


@cache
def _machine(triple: str, cpu: str, opt_level: int) -> Machine:
    try:
        return Machine(opt_level, cpu, "pic", "default", triple)
    except RuntimeError as error:
        raise CompileError(f"no such machine: {triple}: {str(error).strip()}") from None


def assembly(
    source: str,
    triple: str,
    cpu: str,
    opt_level: int,
    first_line: int,
    as_object: bool = False,
    syntax: str = "att",
) -> bytes:
    """The assembly of `source` for `triple`, or its object; raises CompileError.

    `syntax` is `intel` or `att`, and of x86 alone.
    """
    _machine(triple, cpu, opt_level)  # raises where there is none
    if syntax == "intel" and not as_object and _X86.match(triple):
        found = _in_intel(lambda: _made(source, triple, cpu, opt_level, first_line, False))
        if found:
            return found
    return _made(source, triple, cpu, opt_level, first_line, as_object)


def _in_intel(make: Callable[[], bytes]) -> bytes:
    """What `make` gives in a forked process whose LLVM writes Intel's syntax: it takes that option
    once in its life, and then reads a module's own assembly so too.  Empty where that fails."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            die_with_parent()
            os.close(out)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # it is tried again, and said then
            binding.set_option("-x86-asm-syntax=intel")
            _machine.cache_clear()
            with open(into, "wb") as file:
                file.write(make())
            os._exit(0)
        finally:
            os._exit(70)
    os.close(into)
    try:
        with open(out, "rb") as file:
            found = file.read()
    except BaseException:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(child, 0)
    return found if status == 0 else b""


def _made(
    source: str, triple: str, cpu: str, opt_level: int, first_line: int, as_object: bool
) -> bytes:
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
