"""What magics are given that speak of cells and functions.  Start from `SHOWN` and `CELLS`."""

from __future__ import annotations

from jitkernel.kernel.magics.table import Argument

__all__ = ["CELLS", "SHOWN"]

SHOWN = Argument(
    "target", "a function or a cell; without it, the last cell", "?", completes="target"
)
CELLS = Argument("target", "cells (3, 3-5) or names (@sq)", "*", completes="target")
