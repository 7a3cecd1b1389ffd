"""Cells of C, run one after another.  Start from `run`."""

from __future__ import annotations

from typing import Any

from jitkernel import Session

__all__ = ["run"]


def run(s: Session, *cells: str, **named: Any) -> Any:
    """Run cells; the result of the last."""
    result = None
    for cell in cells:
        result = s.run(cell, "c", **named)
    return result
