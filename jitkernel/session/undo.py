"""The last runs, so that they can be taken back.  Start from `UndoHistory`.

What cannot be taken back (output, files, what was malloc'ed) is said, not hidden.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from jitkernel.errors import UsageError
from jitkernel.linker import Image
from jitkernel.session.change import Change
from jitkernel.session.program import Program
from jitkernel.session.reverting import forget, revert
from jitkernel.session.snapshot import DataShadow

__all__ = ["UndoHistory"]


class UndoHistory:
    """At most `depth` changes; older ones are forgotten and the memory kept for them given back."""

    def __init__(
        self,
        program: Program,
        shadow: DataShadow,
        depth: int,
        finish: Callable[[Image], None] = lambda image: None,
    ):
        self._finish = finish
        self._program = program
        self._shadow = shadow
        self._changes: deque[Change] = deque()
        self.depth = depth

    def __len__(self) -> int:
        return len(self._changes)

    @property
    def titles(self) -> list[str]:
        """What could be undone, the latest first."""
        return [c.title for c in reversed(self._changes)]

    @property
    def bytes(self) -> int:
        """Bytes of old data kept."""
        return sum(len(p) for c in self._changes for _, p in c.pages)

    def begin(self, title: str) -> Change:
        """A run begins: what data changed until now belongs to the one before."""
        pages = self._shadow.changes()
        if self._changes:
            self._changes[-1].pages.extend(pages)
        return Change(title)

    def keep(self, change: Change) -> None:
        """The run is one that can be taken back."""
        self._changes.append(change)
        while len(self._changes) > self.depth:
            forget(self._program, self._changes.popleft())

    def cancel(self, change: Change) -> None:
        """Take back at once what a run that failed has changed, data too."""
        pages = self._shadow.changes()
        revert(self._program, change)
        self._shadow.restore(pages)
        self._shadow.forget()

    def abandon(self, change: Change) -> None:
        """The run failed: the program and its data are as they were when it began."""
        revert(self._program, change)
        self._shadow.restore(self._shadow.changes())
        self._shadow.forget()

    def held(self, zone: str) -> int:
        """Bytes of a zone that are kept for what is gone."""
        gone = {b for c in self._changes for r in c.removed for b in r.held}
        alive = {
            b
            for cell in self._program.cells.values()
            for b in (*cell.strings, *(cell.image.blocks if cell.image is not None else ()))
        }
        return sum(b.extent.size for b in gone - alive if b.extent.zone == zone)

    def trim(self) -> None:
        """Forget what is beyond the depth now."""
        while len(self._changes) > self.depth:
            forget(self._program, self._changes.popleft())

    def undo(self) -> tuple[Change, int]:
        """Take the last change back; it, and how many restored words point into the heap.

        Runs that changed nothing are passed over.  Raises UsageError when there is none left.
        """
        if self._changes:
            self._changes[-1].pages.extend(self._shadow.changes())
        while self._changes and self._changes[-1].is_empty:
            forget(self._program, self._changes.pop())
        if not self._changes:
            raise UsageError("there is nothing to undo")
        change = self._changes.pop()
        if change.added is not None and change.added.image is not None:
            self._finish(change.added.image)
            change.pages.extend(self._shadow.changes())
        revert(self._program, change)
        # Later pages first: the oldest bytes of an address win.
        heap = self._shadow.restore(list(reversed(change.pages)))
        self._shadow.forget()
        return change, heap

    def clear(self) -> None:
        """Forget everything that could be undone."""
        while self._changes:
            forget(self._program, self._changes.popleft())
