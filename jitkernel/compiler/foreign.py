"""What a module becomes on another machine, as assembly text.  Worker only.

Start from `assembly`.  Nothing of it is ever linked or run here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from jitkernel.compiler import binding, pipeline
from jitkernel.compiler.binding import Machine, lib
from jitkernel.compiler.forks import in_child
from jitkernel.compiler.records import Request
from jitkernel.errors import CompileError
from jitkernel.ir.module import without_targets

__all__ = ["assembly"]

_X86 = re.compile(r"(?:x86_64|i[3-6]86)\b")


@cache
def _machine(triple: str, cpu: str, opt_level: int) -> Machine:
    try:
        return Machine(opt_level, cpu, "pic", "default", triple)
    except RuntimeError as error:
        raise CompileError(f"no such machine: {triple}: {str(error).strip()}") from None


def assembly(request: Request, triple: str, cpu: str, syntax: str) -> tuple[dict[str, Any], bytes]:
    """The assembly of a module for a machine; raises CompileError.

    `syntax` is `intel` or `att`, and of x86 alone; "" makes an object of it.
    """
    machine = triple, cpu, request.options.opt_level
    _machine(*machine)  # raises where there is none
    if syntax == "intel" and _X86.match(triple):
        if found := _in_intel(lambda: _made(request, machine, syntax)):
            return {}, found
    return {}, _made(request, machine, syntax)


def _in_intel(make: Callable[[], bytes]) -> bytes | None:
    """Call `make` in a forked process whose LLVM writes Intel's syntax: it takes that option
    once in its life, and then reads a module's own assembly so too.  None where that fails."""

    def work() -> bytes:
        binding.set_option("-x86-asm-syntax=intel")
        _machine.cache_clear()
        return make()

    with open(os.devnull, "wb") as nobody:  # it is tried again, and said then
        return in_child(work, nobody.fileno())


def _made(request: Request, machine: tuple[str, str, int], syntax: str) -> bytes:
    target = _machine(*machine)
    # The cell's own target is blanked out: ours stands in front of it.
    source = without_targets(request.source)[0]
    text = target.prefix + source.encode("utf-8", "surrogatepass")
    with pipeline.module_of(text, request) as module:
        for value in binding.definitions(module):
            # As a cell's: what may be redefined is not copied into its users.
            if lib.GetLinkage(value) == binding.EXTERNAL:
                lib.SetLinkage(value, binding.WEAK)
        target.dispose(target.optimise(module))
        return target.emit(module, assembly=bool(syntax))
