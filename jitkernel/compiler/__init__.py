"""IR text to objects, in processes that hold LLVM so that this one need not.

Start from `CompilerPool`.  The kernel's side is `pool` and `process`; the worker's is `worker`,
which runs `pipeline`, `summary` and `binding`, which loads llvmlite's library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jitkernel.compiler.layout import Layout
    from jitkernel.compiler.pool import CompilerPool
    from jitkernel.compiler.records import (
        CallInfo,
        Compiled,
        ContextAccount,
        ContextCost,
        Flow,
        FunctionInfo,
        Identity,
        LineTable,
        Options,
        Request,
        Summary,
        VariableInfo,
        WorkerMemory,
    )

__all__ = [
    "CallInfo",
    "Compiled",
    "CompilerPool",
    "ContextAccount",
    "ContextCost",
    "FunctionInfo",
    "Identity",
    "Layout",
    "Flow",
    "LineTable",
    "Options",
    "Request",
    "Summary",
    "VariableInfo",
    "WorkerMemory",
]

_PLACES = {"CompilerPool": "pool", "Layout": "layout"}  # of the others: records


def __getattr__(name: str) -> Any:
    # Loaded on first use: who starts a worker before all else waits for none of it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES.get(name, 'records')}"), name)
