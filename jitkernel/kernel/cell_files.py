"""Cells as files: a debugger's client names a cell's file after the hash of its whole text.

The client computes the same hash, and asks for the text of any path that it is told.  Start from
`CellFiles`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property, lru_cache
from tempfile import gettempdir
from typing import TYPE_CHECKING

from jitkernel.errors import UsageError

if TYPE_CHECKING:
    from jitkernel.session.debugging.wholes import Wholes

__all__ = ["PREFIX", "SEED", "CellFiles"]

PREFIX = os.path.join(gettempdir(), f"jitkernel_{os.getpid()}", "")
SEED = 0xC70F6907  # what ipykernel and JupyterLab begin the hash of a cell with


class CellFiles:
    """The files that stand for cells; their names end with `suffix()`.  `wholes` has the texts of
    those that have run."""

    def __init__(self, suffix: Callable[[], str]):
        self._suffix = suffix
        self._texts: dict[str, str] = {}  # by path

    @property
    def suffix(self) -> str:
        """The end of the names."""
        return self._suffix()

    @cached_property
    def wholes(self) -> Wholes:
        """The texts of cells that have run."""
        from jitkernel.session.debugging.wholes import Wholes  # the session's thread imports it

        return Wholes()

    def path(self, text: str) -> str:
        """The file that a cell's text is."""
        path = f"{PREFIX}{_hash(text)}{self._suffix()}"
        self._texts[path] = text
        return path

    def text(self, path: str) -> str:
        """The cell's text that a file is.  Raises UsageError where none was told of."""
        if path not in self._texts:
            raise UsageError(f"no cell is the file {path}: send it with dumpCell first")
        return self._texts[path]


@lru_cache(maxsize=4096)
def _hash(text: str) -> int:
    from ipykernel.compiler import murmur2_x86  # as ipykernel's cells and JupyterLab

    return int(murmur2_x86(text, SEED))  # type: ignore[no-untyped-call]
