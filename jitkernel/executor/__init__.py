"""Run thunks and, in a process of their own, survive what they do: start from `Executor`."""

from jitkernel.executor.executor import Executor
from jitkernel.executor.process import ProcessExecutor
from jitkernel.executor.records import ExecutorSettings, FaultRecord, Outcome
from jitkernel.executor.runtime import INLINE_INTERPOSED, INTERPOSED, built_runtime, runtime_ir

__all__ = [
    "INLINE_INTERPOSED",
    "INTERPOSED",
    "Executor",
    "ExecutorSettings",
    "FaultRecord",
    "Outcome",
    "ProcessExecutor",
    "built_runtime",
    "runtime_ir",
]
