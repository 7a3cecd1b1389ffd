"""Taking cells out and back, libraries, settings, the program's surroundings.  Start from
`Changing`; `Session` has all of it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from jitkernel.errors import JitError, UsageError
from jitkernel.files import absolute
from jitkernel.session.operation import operation
from jitkernel.session.running import Running

if TYPE_CHECKING:
    from jitkernel.session.program.cell import Cell, Change
    from jitkernel.session.residency.garbage import Garbage
    from jitkernel.session.run.results import Result

Path: TypeAlias = str | os.PathLike[str]


class Changing(Running):
    """The operations of a session that change its program, and what is around that: see
    `Session`."""

    __slots__ = ()

    def find(self, *which: int | str | Cell) -> list[Cell]:
        """Cells by number, by range (`3-5`), by symbol (`sq` or `@sq`).  Raises UsageError."""
        from jitkernel.session.program.eviction import find_all

        return find_all(self._core.program, which, self._core.number)

    @operation(atomic=True)
    def evict(
        self, *which: int | str | Cell, cascade: bool = False, force: bool = False
    ) -> list[Cell]:
        """Take cells out of memory, by number, range or symbol; the cells that went.

        Raises EvictError when others use them: `cascade` takes those along, `force` leaves stubs
        that raise; and when a name's cell has variables that are not named, whose values would go:
        either takes them along, as the cell's number does.

            >>> made = s.run("define i32 @one() { ret i32 1 }")
            >>> gone = s.evict("one")
            >>> "one" in s
            False
        """
        from jitkernel.session.program.eviction import (
            refuse_to_pull_data,
            refuse_to_take_variables,
        )

        if not which:
            raise UsageError("evict what? A cell's number, a range (3-5), or a symbol ('sq')")
        core, title = self._core, f"evict {', '.join(str(w) for w in which)}"
        cells = self.find(*which)
        if not (cascade or force):
            refuse_to_take_variables(core.program, which, core.number)
        if force and not cascade and self.settings.executor == "inline":
            refuse_to_pull_data(self._core.program, cells)
        named = [w if isinstance(w, int | str) else w.number for w in which]
        first = partial(self._take_back, cells if force and not cascade else ())
        with core.texts.asked("evict", which=named, cascade=cascade, force=force):
            gone = core.history.evict(title, cells, cascade=cascade, force=force, first=first)
        core.release_contexts()
        return gone

    def _take_back(self, cells: Sequence[Cell], change: Change) -> None:
        """Have the cells that hold bodies or values of these call and load them instead."""
        from jitkernel.session.run.definer import Definer

        definer = Definer(self._core)
        definer.change = change
        definer.take_back({name for cell in cells for name in cell.names}, {*cells})

    @property
    def budget(self) -> int:
        """Bytes of code that may be in memory between runs, 0 for no limit; what was used least
        recently leaves and comes back when it is called."""
        return self.settings.budget

    @budget.setter
    def budget(self, size: int) -> None:
        self.configure("budget", size)

    @operation(atomic=True)
    def keep(self, *which: int | str | Cell, on: bool = True) -> list[Cell]:
        """Keep the code of cells in memory whatever the budget (`on` False: no longer).

        Cells by number, range or symbol; those whose code had left come back.  Raises UsageError.
        """
        cells = self.find(*which)
        for cell in cells:
            cell.kept = on
            if on:
                self._core.residency.bring_back(cell)
        return cells

    @operation(atomic=True)
    def wake(self, *which: int | str | Cell) -> list[Cell]:
        """Bring the code of cells back without calling it.  Raises UsageError, ArenaFull."""
        cells = self.find(*which)
        for cell in cells:
            self._core.residency.bring_back(cell)
        return cells

    @operation(atomic=True)
    def hibernate(self, *which: int | str | Cell) -> list[Cell]:
        """Take the code of cells out of memory until somebody calls it.

        Raises UsageError, and LinkError where the code of one has to stay.
        """
        from jitkernel.session.program.cell import CellState

        cells = self.find(*which)
        for cell in cells:
            if cell.state is not CellState.HIBERNATED:
                self._core.residency.hibernate(cell)
        return cells

    @operation(atomic=True)
    def undo(
        self,
        count: int = 1,
        *,
        cell: int | None = None,
        name: str = "",
        cascade: bool = False,
    ) -> list[str]:
        """Take the last `count` runs or evictions back; a sentence for each.

        `cell` takes back that cell's run alone, `name` the last one that defined a symbol; later
        runs may not build on it, unless `cascade` takes those back too.  Raises UsageError, and
        EvictError with the runs that are in the way.

        Of data beyond `undo_data` bytes nothing is kept: where a run wrote there, UsageError names
        what would not come back, with the limit that would do, and nothing is undone.

            >>> for n in (1, 2):
            ...     made = s.run(f"define i32 @which() {{ ret i32 {n} }}")
            >>> said = s.undo()
            >>> s.call("which")
            1
            >>> said = s.redo()
            >>> s.call("which")
            2
        """
        self._core.engine.check_idle()
        history, name = self._core.history, name.removeprefix("@")
        with self._core.texts.asked("undo", count=count, cell=cell, name=name, cascade=cascade):
            if cell is not None or name:
                return history.undo_one(cell, name, cascade)
            return history.undo(count)

    @operation(atomic=True)
    def redo(self, count: int = 1) -> list[str]:
        """Do again what the last `count` undos took back, until something new is run.

        `partial` as for `undo`.
        """
        self._core.engine.check_idle()
        with self._core.texts.asked("redo", count=count):
            return self._core.history.redo(count)

    @operation(atomic=True)
    def gc(self, dry_run: bool = False, undo: bool = False) -> Garbage:
        """Free what nobody can reach: cells whose definitions have all been replaced and that
        nothing uses, and whole pages of freed memory.

        What is collected can be undone as an eviction can; `undo` forgets everything that could
        be, and frees what was kept for that.  `dry_run` only tells.
        """
        return self._core.garbage.collect(dry_run, undo)

    @operation(atomic=True)
    def reset(self) -> None:
        """Evict every cell and forget results and history; processes and libraries stay."""
        with self._core.texts.asked("reset"):
            self._core.history.reset()
        self._core.observers.stopped = None

    @operation(atomic=True)
    def load(self, path: Path) -> list[str]:
        """Load a shared library into the executor; names that were missing and it defines.

        `-lNAME` finds one as a linker does; where only an archive is found, that is linked.  Raises
        JitError with the loader's words, UsageError where no folder has one.
        """
        path = os.fspath(path)
        here = absolute(path) if "/" in path else path
        with self._core.texts.asked("load", path=here):
            if path.startswith("-l"):
                from jitkernel.linker.libraries import find_library

                return [name for file in find_library(path) for name in self._load_file(file)]
            return self._load_file(path)

    def _load_file(self, path: str) -> list[str]:
        if path.endswith(".a"):
            missing = {n for n, s in self.symbols.items() if s.state == "missing"}
            self.link(path)
            return [n for n, s in self.symbols.items() if n in missing and s.state != "missing"]
        named = "/" in path or ".so" in path
        hint = "" if named else " (libraries are named by their files: libm.so.6, ./mine.so)"
        with refused(f"{path or 'a library'} cannot be loaded{hint}"):
            self._core.engine.executor.services.library(path)
        return [s.name for s in self._core.program.linker.resolver.retry_missing()]

    @operation()
    def link(self, path: Path, whole: bool = False) -> Result:
        """Link a relocatable object (`cc -c`) or an archive; declare what it defines to call it.

        An object is a cell.  Of an archive those members are, as one cell, that define what the
        session uses and nobody defines; others are taken when a cell uses what they define, as a
        cell that is undone with it.  `whole` takes all of them at once.  Raises LinkError, and
        UsageError for a path that is no file.
        """
        from jitkernel.session.run.linking import link_file

        path = os.fspath(path)
        with self._core.texts.asked("link", path=absolute(path), whole=whole):
            return link_file(self._core, path, whole)

    @operation()
    def chdir(self, path: Path) -> None:
        """Change the executor's working directory.  Raises OSError's words as JitError."""
        services = self._core.engine.executor.services
        with refused(str(path)):
            services.chdir(os.fspath(path))
        with self._core.texts.asked("chdir", path=services.cwd):
            pass

    @operation()
    def setenv(self, name: str, value: str) -> None:
        """Set an environment variable in the executor.  Raises OSError's words as JitError."""
        with refused(name), self._core.texts.asked("setenv", name=name, value=value):
            self._core.engine.executor.services.setenv(name, value)

    @operation()
    def respawn(self) -> None:
        """Replace the executor; functions and globals stay, its heap and files are lost."""
        self._core.engine.executor.respawn()
        self._core.engine.renew()

    @operation()
    def configure(self, name: str, value: Any) -> None:
        """Change a setting of `SessionSettings` that may change while the session lasts.

        In another `context` cells are compiled from now on; what the other two left is freed.
        Raises UsageError for a setting that there is not, and for a value that it cannot have.
        """
        from jitkernel.session.settings import check_value

        check_value("configure", name, value)
        with self._core.texts.asked("configure", name=name, value=value):
            self._configure(name, value)

    def _configure(self, name: str, value: Any) -> None:
        from jitkernel.session.settings import check_inline
        from jitkernel.setting import declared
        from jitkernel.settings import SessionSettings

        core, before = self._core, getattr(self.settings, name)
        check_inline(self.settings, name, value)
        setattr(self.settings, name, value)
        if language := declared(SessionSettings)[name].language:
            self._check_with(language, name, before)
        if name == "context" and value != before:
            core.engine.pool.release_contexts(lambda cell: False, shared=True)
        elif name == "undo_depth":
            core.history.trim()

    def _check_with(self, language: str, name: str, before: Any) -> None:
        """Set one of a language's settings back where no cell could be compiled with it.  Raises
        UsageError."""
        from jitkernel.languages import find
        from jitkernel.linker import SymbolKind  # a session's start does without
        from jitkernel.session.run.host import SessionView

        core = self._core
        try:
            find(language).check(
                SessionView(core).setting,
                lambda symbol: core.engine.linker.known(symbol, SymbolKind.FUNCTION) is not None,
            )
        except BaseException:
            setattr(self.settings, name, before)
            raise


@contextlib.contextmanager
def refused(what: str) -> Iterator[None]:
    """The system's words, where it says no, as JitError."""
    try:
        yield
    except OSError as error:
        raise JitError(f"{what}: {error.strerror or error}") from None
