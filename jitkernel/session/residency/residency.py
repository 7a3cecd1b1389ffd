"""Which cells' code is in memory: a budget, and who leaves when it is exceeded.

Code that leaves comes back when it is called, in the middle of whatever runs (executor/replies.py);
constants and variables never leave.  Start from `Residency`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING

from jitkernel.compiler.records import Options
from jitkernel.elf import read_object
from jitkernel.errors import ArenaFull, Damaged, JitError, LinkError, present
from jitkernel.linker.hibernation import hibernate, reclaimable, rewrite_stubs, wake
from jitkernel.linker.pinning import has_own_functions, pin_reason
from jitkernel.reach import reached
from jitkernel.rollback import RecordedDict
from jitkernel.session.program.cell import Cell, CellState

if TYPE_CHECKING:
    from jitkernel.linker import Image
    from jitkernel.session.engine import Engine
    from jitkernel.session.program.program import Program

#: Where the budget is exceeded, some more cells leave than have to, up to this part of it: so few
#: that the run which waits for that does not take much longer than others.
_AHEAD, _SLACK = 7, 32


class Residency:
    """The cells of a program under a budget, which is the session's setting.

    A cell counts as used when a statement calls it, when a cell that is used refers to it, and when
    a call brings it back.  `clock` counts runs of cells and calls.
    """

    def __init__(self, program: Program, engine: Engine):
        self._program, self._engine, self._settings = program, engine, engine.settings
        self.clock = 0
        self.woken = 0  # how many calls have brought code back
        self.failure: JitError | None = None  # why the last one did not
        self._queue: list[Cell] = []  # who leaves next, the first last
        self._sorted = 0  # when it was made
        self._asleep: RecordedDict[int, tuple[int, str]] = RecordedDict()  # by stub: cell, function

    def remember(self, cells: Iterable[Cell]) -> None:
        """Cells of a session that was saved: some were hibernated then."""
        for cell in cells:
            self.clock = max(self.clock, cell.used)
            if cell.state is CellState.HIBERNATED and cell.image is not None:
                for stub, name in rewrite_stubs(self._program.linker, cell.image).items():
                    self._asleep[stub] = cell.number, name

    def failed(self) -> JitError | None:
        """The reason why the code that was called last did not come back; None where it did."""
        if (failure := self.failure) is not None:
            self.failure = None
        return failure

    def use(self, image: Image | None) -> None:
        """A statement is about to call into an image: its code comes back first."""
        if image is not None and (cell := self._program.cells.get(image.cell)) is not None:
            cell.used = self.clock
            if cell.state is CellState.HIBERNATED:
                executor = self._engine.executor
                if executor.serving and not executor.can_park:
                    self._come_back(cell, alone=False)  # inline, for a callback of code that runs
                else:
                    self.bring_back(cell)

    def arrived(self, cell: Cell) -> None:
        """A cell has been placed.  Under a budget it is found out whether it may leave, while what
        it was made from is still at hand."""
        cell.used = self.clock
        if self._settings.budget and cell.image is not None and reclaimable(cell.image) > 0:
            self.why_not(cell)

    def mark(self, images: Iterable[Image | None]) -> None:
        """Instructions that are about to run refer to these images."""
        cells = self._program.cells
        for image in images:
            if image is not None and (cell := cells.get(image.cell)) is not None:
                cell.used = self.clock

    # -- leaving -------------------------------------------------------------------------------

    @property
    def code(self) -> int:
        """Bytes of code in memory, the stubs of what has left included."""
        return self._program.linker.code

    def trim(self) -> None:
        """Make the code that is in memory fit the budget; nothing while others may run it."""
        budget = self._settings.budget
        if not budget or self.code <= budget or self._engine.executor.shared:
            return
        goal, ahead = budget - budget // _SLACK, _AHEAD
        fresh = False
        if len(self._asleep) > 4 * len(self._program.cells) + 64:  # of cells that are gone, too
            cells = self._program.cells
            self._asleep = RecordedDict(
                {at: to for at, to in self._asleep.items() if to[0] in cells}
            )
        # Where the zone is too full for stubs, the code stays where it is.
        with self._engine.world_stopped, contextlib.suppress(ArenaFull):
            while self.code > budget or (ahead and self.code > goal):
                if not self._queue:
                    if fresh or self.code <= budget:
                        return  # the rest has to stay, or may
                    self._queue, self._sorted, fresh = self._latest(), self.clock, True
                    continue
                cell = self._queue.pop()
                # Those that were used meanwhile have their turn when the order is made anew.
                if cell.image is None or reclaimable(cell.image) <= 0:
                    continue  # what would stand for its code is larger
                if (cell.used <= self._sorted or fresh) and not self.why_not(cell):
                    ahead -= self.code <= budget
                    self._hibernate(cell)

    def hibernate(self, cell: Cell) -> None:
        """Take a cell's code out of memory.  Raises LinkError where it has to stay."""
        why = self.why_not(cell)
        if not why and self._engine.executor.shared:
            threads = self._engine.executor.threads
            why = f"{'threads' if threads else 'children'} of the program may run it"
        if why:
            raise LinkError(f"the code of cell {cell.number} stays in memory: {why}")
        with self._engine.world_stopped:
            self._hibernate(cell)

    def why_not(self, cell: Cell) -> str:
        """The reason why a cell's code cannot leave; empty where it can."""
        image = cell.image
        if image is None or image.text is None or cell.state is CellState.HIBERNATED:
            return "it has no code in memory"
        if cell.kept:
            return "%keep holds it"
        if cell.pin_reason is None:
            cell.pin_reason = self._pin_reason(cell, image)
        return cell.pin_reason

    def _pin_reason(self, cell: Cell, image: Image) -> str:
        """The reason why code has to stay; empty where it has not."""
        if image.fini or image.dso:
            return "it has constructors or destructors"
        try:
            record = self._program.store.get(cell.number)
        except Damaged as error:
            return str(error)
        if record is None:
            return "its object is not kept"
        if "blockaddress" in record.module:
            return "it takes the address of a label"
        obj = read_object(record.object)
        if Options(*json.loads(record.options)).reloc != "static" and has_own_functions(obj):
            return "pointers to functions that only it knows may be anywhere"
        return pin_reason(obj)

    def _hibernate(self, cell: Cell) -> None:
        image = present(cell.image, "the code of a cell")
        with self._engine.arena.rollback.atomic():
            for stub, name in hibernate(self._program.linker, image).items():
                self._asleep[stub] = cell.number, name
            cell.state = CellState.HIBERNATED

    def _latest(self) -> list[Cell]:
        """Cells with code in memory, the most recently used first.

        Who is used uses what it refers to, and that what it refers to.
        """
        cells = self._program.cells
        order: dict[Cell, None] = {}

        def uses(cell: Cell) -> list[Cell]:
            refs = cell.image.refs if cell.image is not None else ()
            return [c for s in refs if (c := cells.get(s.cell)) is not None and c not in order]

        awake = [c for c in cells.values() if c.state is not CellState.HIBERNATED]
        for first in sorted(awake, key=attrgetter("used"), reverse=True):
            if first not in order:
                order |= reached([first], uses)
        return [c for c in order if c.state is CellState.LIVE and c.image and c.image.text]

    # -- coming back ---------------------------------------------------------------------------

    def bring_back(self, cell: Cell) -> None:
        """Link a cell's code again, for whoever wants to see it.  Raises LinkError, ArenaFull."""
        if cell.state is CellState.HIBERNATED:
            with self._engine.world_stopped:
                self._relink(cell, not self._engine.arena.defers)

    def _come_back(self, cell: Cell, alone: bool) -> None:
        """Link a cell's code again while code of the program runs; nothing that runs moves."""
        self._engine.arena.defer_frees(not alone)
        self._relink(cell, alone)
        self._engine.tell_unwind()
        self.woken += 1

    def _relink(self, cell: Cell, alone: bool) -> None:
        image = present(cell.image, "the code of a cell")
        stubs = [at for _, at, _ in image.exports if at in self._asleep]
        with self._engine.arena.rollback.atomic():
            wake(self._program.linker, image, self._program.store.object(cell.number))
            cell.state, cell.used = CellState.LIVE, self.clock
            if alone:  # else another thread may be about to call through a stub
                for at in stubs:
                    del self._asleep[at]

    def wake(self, stub: int, alone: bool) -> int:
        """The address at which a call through a stub goes on; called while a thread waits for
        that."""
        found = self._asleep.get(stub)
        cell = self._program.cells.get(found[0]) if found is not None else None
        try:
            if found is None or cell is None or self._engine.taking_back:
                raise LinkError(f"a call reached {stub:#x}, where no cell's code is")
            if cell.state is CellState.HIBERNATED:
                self._come_back(cell, alone)
        except JitError as error:
            if found is not None:
                who = f"{self._program.called(found[1])} of cell {found[0]}"
                words = f"{who} was called and cannot come back: {error}"
                error.args = (words,)
            self.failure = error
            return 0
        image = present(cell.image, "the code of a cell")
        return next(at for symbol, at, _ in image.exports if symbol.name == found[1])
