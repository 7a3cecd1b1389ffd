"""The last runs and evictions, so that they can be taken back and done again.

What cannot be taken back (output, files, what was malloc'ed) is said, not hidden: see
`snapshot.lasting`.  Start from `UndoHistory`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from jitkernel.arena import Extent
from jitkernel.arena.ranges import Range
from jitkernel.errors import EvictError, UsageError
from jitkernel.linker import Image
from jitkernel.rollback import RecordedDict, RecordedList
from jitkernel.session.history.reverting import forget, reconcile
from jitkernel.session.history.snapshot import (
    DataShadow,
    beyond,
    excluding,
    lasting,
    lost_words,
    mentioned,
)
from jitkernel.session.program.cell import LARGE, Cell, Change, cells_words
from jitkernel.session.program.program import Program
from jitkernel.session.run.results import Results
from jitkernel.settings import SessionSettings
from jitkernel.wording import listed, size_text

if TYPE_CHECKING:
    from jitkernel.session.history.dependence import Obstacle

#: Pages by address, with their old bytes.
Pages = list[tuple[int, bytes]]


class UndoHistory:
    """At most `undo_depth` changes; older ones are forgotten and what is kept for them given back.

    What is taken back becomes a change that does it again; those are forgotten when something new
    is run.  Invariant: each change was made in the state that reverting all later ones leads to.
    """

    def __init__(
        self,
        program: Program,
        shadow: DataShadow,
        results: Results,
        settings: SessionSettings,
        finish: Callable[[Image], None],
    ):
        self._program, self._shadow, self._results = program, shadow, results
        self._written: Pages = []  # see `look`
        self._finish = finish
        #: has cells made anew that a change which was taken back has left with bodies of before
        self.refresh: Callable[[Change], object] = lambda change: None
        self._done: RecordedList[Change] = RecordedList()
        self._undone: RecordedList[Change] = RecordedList()
        self._settings = settings

    def __len__(self) -> int:
        return len(self._done)

    def __iter__(self) -> Iterator[Change]:
        """The changes that could be undone, the latest first."""
        return reversed(self._done)

    def every(self) -> Iterator[Change]:
        """The changes that could be undone or done again."""
        return chain(self._done, self._undone)

    @property
    def undone(self) -> list[str]:
        """The changes that could be done again, in that order."""
        return [c.title for c in reversed(self._undone)]

    @property
    def bytes(self) -> int:
        """Bytes of old data kept."""
        return sum(len(p) for c in self.every() for p in c.pages.values())

    # -- while cells run -------------------------------------------------------------------------

    def begin(self, title: str, cell: int = 0, **given: Any) -> Change:
        """A run begins in an atomic block, and this is known of it; what data changed until now
        belongs to the one before."""
        self.settle()
        return Change(title, cell, **given)

    def keep(self, change: Change) -> None:
        """The run is one that can be taken back; what was taken back before it, is for good, unless
        it only looked."""
        if self._undone and not change.only_looked:
            self.forget_undone()
        self._done.append(change)
        self.trim()

    def look(self) -> Pages:
        """The pages that have changed since somebody asked, with what they held; of much data only
        what was found when the last run began."""
        if self._shadow.is_small:
            with self._program.linker.arena.rollback.atomic():
                self.settle()
        found, self._written = self._written, []
        return found

    def code_runs(self) -> None:
        """Code is about to run in an atomic block: where that fails, data is again what it was when
        the block's change began."""
        self._shadow.take_back_on_failure()

    def trim(self) -> None:
        """Forget what is beyond the depth now: first runs that only looked.  Whether the last one
        did is known when data is looked at."""
        depth = self._settings.undo_depth
        while (more := len(self._done) - depth) > 0:
            if more == 1 and depth and self._done[-1].only_looked:
                break
            looks = (
                at for at, change in enumerate(self._done[:-1])
                if not change.pages and change.only_looked
            )  # fmt: skip
            self._forget(next(looks, 0))

    def forget_undone(self) -> None:
        """Give up what could be done again."""
        while self._undone:
            forget(self._program, self._undone.pop())

    def clear(self) -> None:
        """Forget everything that could be undone or done again."""
        self.forget_undone()
        while self._done:
            forget(self._program, self._done.pop())

    # -- taking out ------------------------------------------------------------------------------

    def evict(
        self, title: str, cells: Sequence[Cell], *, cascade: bool = False, force: bool = False,
        first: Callable[[Change], object] = lambda change: None,
    ) -> list[Cell]:  # fmt: skip
        """Evict cells as a change that can be taken back, and what is done `first` with it; see
        `eviction.evict`."""
        from jitkernel.session.program.eviction import evict

        change = self.begin(title)
        first(change)
        gone = evict(
            self._program, cells, change, cascade=cascade, force=force, finish=self._finish
        )
        self.keep(change)
        self._set_aside(gone, change)
        return gone

    def reset(self) -> None:
        """Evict every cell for good, with its results and what could be undone."""
        from jitkernel.session.program.eviction import evict

        program, change = self._program, self.begin("reset")
        cells = sorted(program.cells.values(), key=lambda c: c.number)
        evict(program, cells, change, cascade=True, finish=self._finish)
        forget(program, change)
        self.clear()
        self._results.forget()
        program.state.clear()

    # -- what is kept ----------------------------------------------------------------------------

    def gone(self) -> list[Extent]:
        """Data and constants of what is gone: nothing but an undo or a redo would bring them
        back."""
        held = Counter(b for c in self.every() for r in c.removed for b in r.held)
        return [block.extent for block, times in held.items() if block.holders == times]

    def held(self, zone: str) -> int:
        """Bytes of a zone that are kept for what is gone."""
        return sum(extent.size for extent in self.gone() if extent.zone == zone)

    # -- taking back -----------------------------------------------------------------------------

    def steps(self) -> list[Change]:
        """The changes to undo, the latest first; runs that only looked do not count."""
        self.settle()
        return [change for change in self if not change.only_looked]

    def undo(self, count: int) -> list[str]:
        """Take the last `count` changes back; a sentence for each.

        Raises UsageError where there are none, or fewer, or where data could not be taken back too:
        nothing is taken back then.
        """
        steps = self.steps()
        _enough(count, len(steps), "undo")
        self._refuse_losses(steps[:count], "undo")
        return [self._undo_latest() for _ in range(count)]

    def undo_one(self, cell: int | None, name: str, cascade: bool) -> list[str]:
        """Take back a cell's run, or the last change of a name, with those that build on it where
        `cascade` says so."""
        change = self.find(cell) if cell is not None else self._find_name(name)
        later = self.obstacles(change)
        if later and not cascade:
            words = [f"{o.change.title} ({o.why})" for o in later]
            raise EvictError(
                f"{change.title} cannot be undone by itself, later runs build on it:\n"
                f"{listed(words)}\nNothing was undone. --cascade takes those back too",
                words,
            )
        changes = [*(o.change for o in reversed(later)), change]
        self._refuse_losses(changes, "undo")
        return [self._undo(c) for c in changes]

    def redo(self, count: int) -> list[str]:
        """Do the last `count` undone changes again; a sentence for each.

        Raises UsageError as `undo`, and where data was changed since.
        """
        _enough(count, len(self._undone), "redo")
        self._refuse_losses(self._undone[-count:], "redo")
        for change in takewhile(attrgetter("only_looked"), self):
            self._spare(change)
        lines: list[str] = []
        for _ in range(count):
            self.settle()
            if not self._undone:
                raise UsageError(
                    "there is nothing to redo: globals were changed since the undo, by the "
                    "program's own threads or from outside"
                )
            change = self._undone.pop()
            words = f"redone: {change.title}"
            effects = change.effects
            if effects.printed or mentioned(effects.statements) or effects.constructed:
                words += "; definitions and globals are as after it, its code was not run again"
            lines.append(words + self._take_back(change, self._done))
        return lines

    def find(self, cell: int) -> Change:
        """The change that a cell's run made.  Raises UsageError."""
        self.settle()
        for change in reversed(self._done):
            if change.cell == cell:
                if change.is_empty:
                    raise UsageError(f"the run of cell {cell} changed nothing that could be undone")
                return change
        raise UsageError(
            f"the run of cell {cell} cannot be undone: it is not among the last {len(self._done)} "
            "runs, see %undo --list"
        )

    def _find_name(self, name: str) -> Change:
        for change in reversed(self._done):
            if ("name", name) in change.before:
                return change
        raise UsageError(
            f"none of the last {len(self._done)} runs defined {self._program.called(name)}, "
            "see %undo --list"
        )

    def obstacles(self, change: Change) -> list[Obstacle]:
        """The later changes that build on one, the earliest first."""
        from jitkernel.session.history.dependence import obstacles  # most runs stay

        self.settle()
        return obstacles(self._program, self._done, self._done.index(change))

    # -- inside ----------------------------------------------------------------------------------

    def _refuse_losses(self, changes: Sequence[Change], what: str) -> None:
        """Raise UsageError where an undo or a redo of the changes could not bring all data back."""
        lost = lost_words(self._program, changes)
        if lost:
            titles = ", ".join(c.title for c in changes if c.lost)
            limit = self._shadow.limit
            raise UsageError(
                f"{titles} wrote data that is no longer known as it was before: {lost}. What is "
                f"kept for undo has a limit (undo_data, {size_text(limit)} of the data zone, and "
                f"four times as much of old values).\nNothing was {what}ne. Run the cells again "
                "that give this data its values; a session that keeps enough of it is "
                f"Session(undo_data={self._enough_data(changes)})"
            )

    def _enough_data(self, changes: Sequence[Change]) -> int:
        """The limit, doubled until it reaches all that the changes have lost."""
        first = self._program.linker.arena.zones["data"].start
        needed = max(stop for c in changes for _, stop in c.lost) - first
        size = 2 * max(self._shadow.limit, 1 << 19)
        while size < needed:
            size *= 2
        return size

    def _undo_latest(self) -> str:
        """Take the last change back; runs after it that only looked stay, and are told."""
        looked: list[int] = []
        while self._done[-1].only_looked:
            change = self._forget(-1)
            if change.cell:
                looked.insert(0, change.cell)
        words = self._undo(self._done[-1])
        return f"{words.rstrip(';')}; {cells_words(looked)} changed nothing" if looked else words

    def _forget(self, at: int) -> Change:
        """Forget one of those that could be undone."""
        change = self._done.pop(at)
        self._spare(change)
        forget(self._program, change)
        return change

    def _spare(self, change: Change) -> None:
        """Have the constants of one that only looked stay when others are taken back: what
        was in their place before is nobody's."""
        extents = [block.extent for cell in change.arrived for block in cell.strings]
        others = [other for other in self.every() if other.pages] if extents else ()
        if others and change.only_looked:
            from jitkernel.session.history.dependence import patch

            arena = self._program.linker.arena
            now = {e.start: arena.read(e.start, e.size) for e in extents}
            for other in others:
                patch(other, now)

    def _undo(self, change: Change) -> str:
        """Take one change back, which nothing later builds on (see `obstacles`), and say so."""
        left = lasting(self._program, change)
        at = self._done.index(change)
        later = self._done[at + 1 :]
        if later:
            from jitkernel.session.history.dependence import overwritten, patch

            change.pages = RecordedDict(overwritten(self._program, change, later))
            for other in later:
                patch(other, change.pages)
                for fact in change.before.keys() & other.before.keys():  # it stands as it says
                    was = change.before.pop(fact)
                    if fact[0] == "object":
                        was = was._replace(lent=other.before[fact].lent)
                    other.before[fact] = was
                for (kind, key), was in other.before.items():
                    if kind in ("cell", "object"):  # it comes back for the type that there was
                        stale = tuple(s for s in was.stale if ("stale", s) not in change.before)
                        other.before[kind, key] = was._replace(stale=stale)
        self._done.remove(change)
        words = f"undone: {change.title}"
        limits = f"; not undone: {left}" if left else ""
        return words + self._take_back(change, self._undone, limits)

    def _take_back(self, change: Change, to: list[Change], limits: str = "") -> str:
        """Revert a change; its opposite goes `to` a list.  What there is to say of it, with the
        `limits` that are known before."""
        program, shadow = self._program, self._shadow
        arena = program.linker.arena
        now = [(at, arena.read(at, len(old))) for at, old in change.pages.items()]
        late: list[tuple[int, bytes]] = []
        lost: list[Range] = []
        arrived = change.arrived
        for cell in arrived:
            if cell.image is not None and cell.number in program.cells:
                self._finish(cell.image)
                if cell.image.fini or cell.image.dso:
                    late, lost = shadow.changes()  # what its destructors wrote
        # Oldest last.  Before the cells come back: code that does not return to its place writes
        # the variables that point into it.
        heap = shadow.restore([*late, *change.pages.items()])
        inverse = reconcile(program, change)
        inverse.remember([*now, *late])
        inverse.lost = RecordedList(lost)
        if program.linker.bind.holding:
            self.refresh(inverse)
        shadow.changes(own=True)  # what the revert wrote is a part of it
        to.append(inverse)
        self._set_aside(arrived, inverse)
        if change.results is not None:
            inverse.results = self._results.recall()
            self._results.last = change.results()
        self._results.update(change.values)
        words = ""
        if heap:
            words = (
                f"; {heap} restored word{'s' * (heap != 1)} point{'s' * (heap == 1)} into the "
                "executor's heap, which was not undone"
            )
        words += limits
        if destroyed := cells_words(inverse.effects.destroyed):
            words += f"; the destructors of {destroyed} ran"
        return words

    def _set_aside(self, cells: Sequence[Cell], change: Change) -> None:
        """The results of cells that leave wait in the change until it is taken back."""
        for number in {change.cell, *[cell.number for cell in cells]}:
            if number in self._results:
                value = self._results.pop(number)
                if len(value.data) <= LARGE:
                    change.values[number] = value

    def settle(self) -> None:
        """Give the data that changed until now to the last change; nothing can be redone then."""
        last = self._done[-1:]
        pages, lost = self._shadow.changes(last)
        if not (pages or lost):
            return
        self._written = pages or self._written
        self.forget_undone()
        for change in last:
            change.lost += excluding(lost, change)
            change.remember(pages)
        for change in beyond(self._done, 4 * self._shadow.limit) if pages else ():
            change.lose_pages()


def _enough(count: int, there: int, what: str) -> None:
    if count < 1:
        raise UsageError(f"%{what} takes a number from 1")
    if not there:
        more = ": %redo follows %undo, before anything else is changed" if what == "redo" else ""
        raise UsageError(f"there is nothing to {what}{more}")
    if count > there:
        raise UsageError(
            f"%{what} {count}: there {'are' if there > 1 else 'is'} only {there} to {what}"
        )
