"""A pipeline of passes that somebody chose, run over a module.  Worker only.  Start from `run`.

What llvmlite can add to a pass manager is added.  A pass that it cannot add runs as LLVM's default
pipeline with all else switched off; that is an option of the process, so it happens in a fork,
whose module comes back as text.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from itertools import groupby

from jitkernel.compiler import binding
from jitkernel.compiler.binding import LLVMError, Machine, lib
from jitkernel.compiler.passes import SINGLE, disabled_for

__all__ = ["die_with_parent", "run"]

_PR_SET_PDEATHSIG = 1


def run(
    target: Machine, module: int, names: tuple[str, ...], cleanups: list[Callable[[], None]]
) -> int:
    """Run the passes in order; the module that came out.  Adds to `cleanups`."""
    for single, group in groupby(names, SINGLE.__contains__):
        if single:
            used = target.run_passes(module, tuple(group))
            cleanups.append(lambda used=used: target.dispose(used))  # type: ignore[misc]
        else:
            for name in group:
                module = _alone(target, module, name, cleanups)
    return module


def _alone(target: Machine, module: int, name: str, cleanups: list[Callable[[], None]]) -> int:
    """One pass of the default pipeline, in a fork; the module parsed from what it made."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            die_with_parent()
            os.close(reading)
            binding.set_option(f"-opt-disable={disabled_for(name)}")
            # A context remembers from its first pass on whether any pass is switched off.
            fresh = binding.parse(lib.ContextCreate(), binding.print_module(module).encode())
            target.run_default(fresh)
            data = memoryview(binding.print_module(fresh).encode())
            while data:
                data = data[os.write(writing, data) :]
            os._exit(0)
        finally:
            os._exit(70)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        text = file.read()
    _, status = os.waitpid(child, 0)
    if status:
        raise LLVMError("optimise", f"LLVM ended while it ran the pass {name}")
    context = lib.ContextCreate()
    cleanups.append(lambda: lib.ContextDispose(context))
    made = binding.parse(context, text)
    cleanups.append(lambda: lib.DisposeModule(made))
    return made


def die_with_parent() -> None:
    """In a fork: end when the worker ends, which may be killed in the middle of a compile."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
