"""Cells as files: a debugger's client names a cell's file after the hash of its whole text.

The client computes the same hash, and asks for the text of any path that it is told.  Start from
`CellFiles`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property, lru_cache
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

from jitkernel.errors import UsageError

if TYPE_CHECKING:
    from jitkernel.session.debugging.wholes import Wholes

__all__ = ["CODE", "PREFIX", "SEED", "CellFiles"]

# JupyterLab shows `Cell [3]` in the place of a path with this word, as ipykernel's have it.
PREFIX = os.path.join(gettempdir(), f"ipykernel_jit{os.getpid()}", "")
CODE = "code at "
SEED = 0xC70F6907  # what ipykernel and JupyterLab begin the hash of a cell with


class CellFiles:
    """The files that stand for cells; their names end with `suffix()`.  `wholes` has the texts of
    those that have run."""

    def __init__(self, suffix: Callable[[], str]):
        self._suffix, self._refers = suffix, False
        self._texts: dict[str, str] = {}  # by path
        self._sent: set[str] = set()  # by the client
        self._referred: dict[str, int] = {}

    @property
    def suffix(self) -> str:
        """The end of the names."""
        return self._suffix()

    @cached_property
    def wholes(self) -> Wholes:
        """The texts of cells that have run."""
        from jitkernel.session.debugging.wholes import Wholes  # the session's thread imports it

        return Wholes()

    def begin(self, refers: bool) -> None:
        """A client has come, which has sent no cell yet.  With `refers` it gets numbers for the
        texts of files that it has not sent: else it would look for them on its disk."""
        self._refers = refers
        self._sent.clear()

    def dump(self, text: str) -> str:
        """The file of a cell that the client has sent."""
        path = self.path(text)
        self._sent.add(path)
        return path

    def source(self, text: str) -> dict[str, Any]:
        """The file that a cell's text is, as the protocol has it."""
        return self._referring(self.path(text))

    def code(self, address: int) -> dict[str, Any]:
        """The file for machine code of which no source is known."""
        return self._referring(f"{CODE}{address:#x}")

    def _referring(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = {"name": os.path.basename(path), "path": path}
        if self._refers and path not in self._sent:
            self._referred.setdefault(path, len(self._referred) + 1)
            found["sourceReference"] = self._referred[path]
        return found

    def referred(self, reference: int) -> str:
        """The file that a number is of.  Raises UsageError."""
        found = next((path for path, number in self._referred.items() if number == reference), "")
        if not found:
            raise UsageError(f"no source has the number {reference}: ask for the stackTrace")
        return found

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
