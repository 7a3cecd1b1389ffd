"""IR text to objects, in processes that hold LLVM so that this one need not.

Start from `CompilerPool`.  The kernel's side is `pool` and `process`; the worker's is `worker`,
which runs `pipeline`, `summary` and `binding`, the only module that imports llvmlite.
"""

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
