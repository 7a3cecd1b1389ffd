"""IR text to objects, in processes that hold LLVM so that this one need not.

Start from `CompilerPool`.  The kernel's side is `pool` and `process`; the worker's is `worker`,
which runs `pipeline`, `summary` and `binding`, which loads llvmlite's library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
        Part,
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
    "Flow",
    "LineTable",
    "Options",
    "Part",
    "Request",
    "Summary",
    "VariableInfo",
    "WorkerMemory",
]


def __getattr__(name: str) -> Any:
    # Loaded on first use: who starts a worker before all else waits for none of it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    place = {"CompilerPool": "pool"}.get(name, "records")
    return getattr(import_module(f"{__name__}.{place}"), name)
