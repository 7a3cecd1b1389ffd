"""The operations that look at a session.  Start from `Looking`; `Session` has all of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jitkernel.errors import JitError, UsageError
from jitkernel.session.operation import checked, operation
from jitkernel.session.settings import SessionSettings

if TYPE_CHECKING:
    from jitkernel.compiler.records import ContextAccount
    from jitkernel.session.core import Core
    from jitkernel.session.frontend import FrontendSide
    from jitkernel.session.handles import SymbolTable
    from jitkernel.session.inspect import Inspect
    from jitkernel.session.program.cell import Cell
    from jitkernel.session.report.watch import Watched


__all__ = ["Looking", "check_argument"]


class Looking:
    """The operations of a session that change nothing: see `Session`."""

    _core: Core
    settings: SessionSettings

    @property
    def number(self) -> int:
        """The number of the latest cell."""
        return self._core.number

    @property
    def frontend(self) -> FrontendSide:
        """What kernels and notebook extensions need."""
        from jitkernel.session.frontend import FrontendSide

        return FrontendSide(self._core, self)

    @property
    def inspect(self) -> Inspect:
        """All that views and tools may look at, read only."""
        from jitkernel.session.inspect import Inspect

        return Inspect(self._core, self)

    @property
    def cells(self) -> list[Cell]:
        """The cells that are in memory, by number."""
        return sorted(self._core.program.cells.values(), key=lambda c: c.number)

    @property
    def symbols(self) -> SymbolTable:
        """Every name the session knows: its own, and those of libraries that cells use.

        >>> made = s.run("@limit = constant i16 300")
        >>> limit = s.symbols["limit"]
        >>> limit.kind, limit.type, limit.size, limit.constant
        ('variable', 'i16', 2, True)
        """
        from jitkernel.session.handles import SymbolTable

        return SymbolTable(self._core)

    @property
    def types(self) -> Mapping[str, str]:
        """Named types: name to body.

        >>> made = s.run("%point = type { double, double }")
        >>> s.types["point"]
        '{ double, double }'
        """
        return self._core.program.state.types

    def __contains__(self, name: object) -> bool:
        symbol = self.symbols.get(str(name))
        return symbol is not None and symbol.defined

    @checked
    def source(self, number: int) -> str:
        """A cell's source.  Raises UsageError where it is gone."""
        record = self._core.store.get(number)
        if record is None:
            raise UsageError(f"there is no source of cell {number}")
        return record.source

    def memory(self) -> dict[str, Any]:
        """The whole account: see `report.memory`."""
        from jitkernel.session.report.memory import memory

        core = self._core
        with core.lock:
            if core.engine.closed:
                raise JitError("this session is closed")
            return memory(core.engine, core.program, core.history.bytes)

    @operation()
    def contexts(self) -> ContextAccount:
        """The LLVM contexts that outlive a compile, and what each cell's compile left behind.

        The first call begins the count, where `context` is not `shared` or `kept` anyway.
        """
        self._core.release_contexts()
        return self._core.engine.pool.contexts()

    @operation()
    def check(self) -> None:
        """Prove the books of arena, unwind region, linker and notes; raises AssertionError."""
        self._core.program.linker.check()
        self._core.program.state.notes.check()

    @checked
    def describe(self, address: int) -> str:
        """How a pointer is printed: `@g+4`, `0x7f12 (heap)`."""
        return self._core.places.describe(address)

    @operation(atomic=True)
    def watch(
        self,
        *names: str,
        call: Callable[[Sequence[Watched]], object] | None = None,
        every: float | None = None,
    ) -> list[Watched]:
        """Look at globals while code runs: `s.watch("g", call=print)`; all as they are now.

        `call` gets every watched global, at most once in `every` seconds (0.5) and only when one
        has changed, and once more when the run has ended, after a crash too.  It is called from
        the thread that runs the cell, and what it raises stops the cell; where cells run in this
        process, from a thread beside it, and what it raises is raised when the code has returned.
        Raises UsageError where a name is no variable of the session.

            >>> made = s.run("@steps = global i32 0")
            >>> [(watched.name, watched.typed.python) for watched in s.watch("steps")]
            [('steps', 0)]
        """
        check_argument("watch", "call", "Callable | None", call)
        check_argument("watch", "every", "float | None", every)
        return self._core.observers.watch(names, call, every)

    @operation(atomic=True)
    def unwatch(self, *names: str) -> None:
        """Look at these no more; without names, at none.  Raises UsageError."""
        self._core.observers.unwatch(names)

    def watched(self) -> list[Watched]:
        """What `watch` watches, as it is now."""
        with self._core.lock:
            return self._core.observers.watches.now()


def check_argument(function: str, parameter: str, annotation: str, value: object) -> None:
    """Raise WrongArgument for a value that a parameter cannot have."""
    from jitkernel.arguments import check

    check(function, parameter, annotation, value)
