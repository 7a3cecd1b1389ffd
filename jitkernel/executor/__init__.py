"""Run thunks in a process of their own and survive what they do: start from `Executor`."""

from jitkernel.executor.process import Executor
from jitkernel.executor.records import ExecutorSettings, FaultRecord, Outcome
from jitkernel.executor.runtime import INTERPOSED, built_runtime, runtime_ir

__all__ = [
    "INTERPOSED",
    "Executor",
    "ExecutorSettings",
    "FaultRecord",
    "Outcome",
    "built_runtime",
    "runtime_ir",
]
