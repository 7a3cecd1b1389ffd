"""Cells, redefinition, eviction, undo: the growing program.  Start from `Session`."""

from jitkernel.session.cell import Cell, CellState
from jitkernel.session.handles import FunctionHandle, VariableHandle
from jitkernel.session.options import CellOptions
from jitkernel.session.result import Result, Sink
from jitkernel.session.session import Session
from jitkernel.session.settings import SessionSettings

__all__ = [
    "Cell",
    "CellOptions",
    "CellState",
    "FunctionHandle",
    "Result",
    "Session",
    "SessionSettings",
    "Sink",
    "VariableHandle",
]
