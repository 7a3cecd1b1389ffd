"""Names that cells used as a library's, for the day a cell defines one of them itself.

LLVM knows what `strlen` and `pow` do and computes with that; a cell that was compiled so does not
even mention the name any more.  Start from `LibraryNames`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jitkernel.rollback import RecordedDict
from jitkernel.session.cell import Cell
from jitkernel.session.signatures import Signature

__all__ = ["LibraryNames"]


class LibraryNames:
    """By name: the cells in memory that declared it as a function of a library, and with what type.

    A cell's own list is `cell.libraries`; it is kept while the cell is away, so that `add` after
    an undo needs no more than the cell.
    """

    def __init__(self) -> None:
        self._users: RecordedDict[str, RecordedDict[int, Signature]] = RecordedDict()

    def add(self, cell: Cell) -> None:
        """A cell is in memory."""
        for name, signature in cell.libraries:
            self._users.setdefault(name, RecordedDict())[cell.number] = signature

    def drop(self, cell: Cell) -> None:
        """A cell left memory."""
        for name, _ in cell.libraries:
            users = self._users.get(name) or RecordedDict[int, Signature]()
            users.pop(cell.number, None)
            if not users:
                self._users.pop(name, None)

    def users(
        self, name: str, apart: Iterable[Cell | None] = ()
    ) -> Iterator[tuple[int, Signature]]:
        """Numbers of the cells that declared `name`, with its type there."""
        skip = {c.number for c in apart if c is not None}
        for number, signature in self._users.get(name, {}).items():
            if number not in skip:
                yield number, signature
