"""The last runs, so that they can be taken back and done again.  Start from `UndoHistory`.

What cannot be taken back (output, files, what was malloc'ed) is said, not hidden: see `effects`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from jitkernel.errors import UsageError
from jitkernel.ir.names import written
from jitkernel.linker import Image
from jitkernel.rollback import Atomic, Recorded, RecordedDict, RecordedList, note
from jitkernel.session.history.dependence import Obstacle, footprint, obstacles, patch
from jitkernel.session.history.reverting import forget, revert
from jitkernel.session.history.snapshot import DataShadow, apart, beyond
from jitkernel.session.program.cell import Change
from jitkernel.session.program.program import Program

__all__ = ["UndoHistory"]


class UndoHistory(Recorded):
    """At most `depth` changes; older ones are forgotten and the memory kept for them given back.

    What is taken back becomes a change that does it again; those are forgotten when something new
    is run.  Invariant: each change was made in the state that reverting all later ones leads to.
    """

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
        self._done: RecordedList[Change] = RecordedList()
        self._undone: RecordedList[Change] = RecordedList()
        self.depth = depth

    def __len__(self) -> int:
        return len(self._done)

    def __iter__(self) -> Iterator[Change]:
        """What could be undone, the latest first."""
        return reversed(self._done)

    def every(self) -> Iterator[Change]:
        """What could be undone or done again."""
        return chain(self._done, self._undone)

    def undone_last(self, count: int) -> list[Change]:
        """What the next `count` redos would take back."""
        return self._undone[-count:]

    @property
    def titles(self) -> list[str]:
        """What could be undone, the latest first."""
        return [c.title for c in self]

    @property
    def undone(self) -> list[str]:
        """What could be done again, in that order."""
        return [c.title for c in reversed(self._undone)]

    @property
    def bytes(self) -> int:
        """Bytes of old data kept."""
        return sum(len(p) for c in self.every() for p in c.pages.values())

    # -- while cells run -------------------------------------------------------------------------

    def begin(self, title: str, cell: int = 0) -> Change:
        """A run begins: what data changed until now belongs to the one before."""
        with self._atomic():
            self._note()
        return Change(title, cell)

    def _atomic(self) -> Atomic:
        return self._program.linker.arena.rollback.atomic()

    def keep(self, change: Change) -> None:
        """The run is one that can be taken back; what was taken back before it, is for good."""
        self.forget_undone()
        self._done.append(change)
        self.trim()

    def code_runs(self) -> None:
        """Code is about to run in an atomic block: where that fails, data is again what it was when
        the block's change began."""
        note(self._shadow.back, self._shadow.taken())

    def trim(self) -> None:
        """Forget what is beyond the depth now."""
        while len(self._done) > self.depth:
            forget(self._program, self._done.pop(0))

    def forget_undone(self) -> None:
        """Give up what could be done again."""
        while self._undone:
            forget(self._program, self._undone.pop())

    def clear(self) -> None:
        """Forget everything that could be undone or done again."""
        self.forget_undone()
        while self._done:
            forget(self._program, self._done.pop())

    # -- what is kept ----------------------------------------------------------------------------

    def held(self, zone: str) -> int:
        """Bytes of a zone that are kept for what is gone."""
        gone = {b for c in self.every() for r in c.removed for b in r.held}
        alive = {
            b
            for cell in self._program.cells.values()
            for b in (*cell.strings, *(cell.image.blocks if cell.image is not None else ()))
        }
        return sum(b.extent.size for b in gone - alive if b.extent.zone == zone)

    # -- taking back -----------------------------------------------------------------------------

    def count(self) -> int:
        """How many changes there are to undo; runs that changed nothing do not count."""
        self._note()
        return sum(not c.is_empty for c in self._done)

    def latest(self) -> Change:
        """The change to take back first; runs after it that changed nothing are forgotten.

        Raises UsageError when there is none left.
        """
        self._note()
        while self._done and self._done[-1].is_empty:
            forget(self._program, self._done.pop())
        if not self._done:
            raise UsageError("there is nothing to undo")
        return self._done[-1]

    def redo(self) -> tuple[Change, Change, int]:
        """Do again what was taken back last; as `undo_one`.

        Raises UsageError where data was changed since.
        """
        self._note()
        if not self._undone:
            raise UsageError(
                "there is nothing to redo: globals were changed since the undo, by the program's "
                "own threads or from outside"
            )
        return self._take_back(self._undone.pop(), self._done)

    def find(self, cell: int) -> Change:
        """The change that a cell's run made.  Raises UsageError."""
        self._note()
        for change in reversed(self._done):
            if change.cell == cell:
                if change.is_empty:
                    raise UsageError(f"the run of cell {cell} changed nothing that could be undone")
                return change
        raise UsageError(
            f"the run of cell {cell} cannot be undone: it is not among the last {len(self._done)} "
            "runs, see %undo --list"
        )

    def find_name(self, name: str) -> Change:
        """The last change that defined a name or took it away.  Raises UsageError."""
        for change in reversed(self._done):
            if name in change.moved:
                return change
        raise UsageError(
            f"none of the last {len(self._done)} runs defined {written(name)}, see %undo --list"
        )

    def obstacles(self, change: Change) -> list[Obstacle]:
        """The later changes that build on one, the earliest first."""
        self._note()
        return obstacles(self._program, self._done, self._done.index(change))

    def undo_one(self, change: Change) -> tuple[Change, Change, int]:
        """Take one change back; it, its opposite, and how many restored words point into the heap.

        Nothing later may build on it: see `obstacles`.
        """
        self._note()
        at = self._done.index(change)
        later = self._done[at + 1 :]
        if later:
            change.pages = RecordedDict(footprint(self._program, change, later))
            for other in later:
                patch(other, change.pages)
                for removed in other.removed:  # they come back for the type that there was
                    removed.stale = tuple(s for s in removed.stale if s not in change.stale)
        self._done.remove(change)
        return self._take_back(change, self._undone)

    # -- inside ----------------------------------------------------------------------------------

    def _take_back(self, change: Change, to: list[Change]) -> tuple[Change, Change, int]:
        program, shadow = self._program, self._shadow
        now = shadow.read(change.pages)
        for cell in change.arrived:
            if cell.image is not None and cell.number in program.cells:
                self._finish(cell.image)
        late = shadow.changes()
        # Oldest last.  Before the cells come back: code that does not return to its place writes
        # the variables that point into it.
        heap = shadow.restore(late) + shadow.restore(change.pages.items())
        inverse = revert(program, change)
        inverse.remember(now)
        inverse.remember(late)
        inverse.lost = RecordedList([*change.left, *shadow.lost()])
        inverse.left = change.lost
        shadow.forget()
        to.append(inverse)
        return change, inverse, heap

    def _note(self) -> None:
        """What data changed until now belongs to the last change, and nothing can be redone."""
        pages, lost = self._shadow.changes(), self._shadow.lost()
        if pages or lost:
            self.forget_undone()
        if self._done:
            if pages:
                self._done[-1].remember(pages)
            self._done[-1].lost += apart(lost, self._done[-1])
            for change in beyond(self._done, 4 * self._shadow.limit):
                change.lose_pages()
