"""Cells, redefinition, eviction, undo: the growing program.  Start from `Session`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jitkernel.session.frontend import FrontendSide
    from jitkernel.session.handles import FunctionHandle, VariableHandle
    from jitkernel.session.program.cell import Cell, CellState
    from jitkernel.session.run.results import Result, Sink
    from jitkernel.session.session import Session
    from jitkernel.session.settings import CellOptions
    from jitkernel.settings import SessionSettings

__all__ = [
    "Cell",
    "CellOptions",
    "CellState",
    "FrontendSide",
    "FunctionHandle",
    "Result",
    "Session",
    "SessionSettings",
    "Sink",
    "VariableHandle",
]

_PLACES = {
    "Cell": "program.cell",
    "CellOptions": "settings",
    "CellState": "program.cell",
    "FrontendSide": "frontend",
    "FunctionHandle": "handles",
    "Result": "run.results",
    "Session": "session",
    "SessionSettings": "settings",
    "Sink": "run.results",
    "VariableHandle": "handles",
}


def __getattr__(name: str) -> Any:
    # Loaded on first use: whoever wants `Session` is to make one before the rest is imported.
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
