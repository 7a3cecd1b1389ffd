"""What a session hands out: functions and variables by name, compiled cells.

A handle by name follows redefinition and undo, works after a respawn, and raises once the symbol is
gone.  Start from `FunctionHandle` and `VariableHandle`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jitkernel.compiler import Compiled
from jitkernel.errors import JitError, UsageError
from jitkernel.languages.llvm import TypedValue, from_python
from jitkernel.linker import SymbolState
from jitkernel.printable import written
from jitkernel.session.host import SessionHost, host_of
from jitkernel.session.signatures import Variable

if TYPE_CHECKING:
    from jitkernel.session.options import CellOptions
    from jitkernel.session.session import Session

__all__ = ["CompiledCell", "FunctionHandle", "VariableHandle", "handle"]


class CompiledCell:
    """What `Session.compile` gives: `sizes` are the exact bytes per zone, `object` the ELF file."""

    def __init__(
        self,
        source: str,
        request: Any,
        compiled: Compiled,
        sizes: dict[str, int],
        options: CellOptions,
    ):
        self.source, self.request, self.compiled = source, request, compiled
        self.sizes, self.options = sizes, options

    @property
    def object(self) -> bytes:
        """The relocatable object."""
        return self.compiled.object


class FunctionHandle:
    """A function by name; calling it runs the present definition."""

    def __init__(self, session: Session, name: str):
        self._session, self.name = session, name

    def __call__(self, *arguments: Any) -> Any:
        """Call with Python values.  Raises UsageError once the symbol is gone."""
        return self._session.call(self.name, *arguments)

    @property
    def address(self) -> int:
        """The canonical entry, in the executor."""
        symbol = self._session.program.symbol(self.name)
        if symbol is None or symbol.state == SymbolState.MISSING:
            raise UsageError(f"{written(self.name)} is not defined any more")
        return self._session.program.linker.canonical(symbol)

    def __index__(self) -> int:
        return self.address

    def __repr__(self) -> str:
        symbol = self._session.program.symbol(self.name)
        return f"<{written(self.name)} {symbol.info if symbol else 'gone'}>"


class VariableHandle:
    """A global variable by name; `value` reads and writes it, also while a cell runs."""

    def __init__(self, session: Session, name: str):
        self._session, self.name = session, name

    def _place(self, writing: bool = False) -> tuple[Any, int, SessionHost]:
        host = host_of(self._session, lambda block: None, lambda outcome: JitError(outcome.kind))
        found = host.variable(self.name)
        if found is None:
            raise UsageError(f"{written(self.name)} is not defined any more")
        if writing and found[2]:
            raise UsageError(f"{written(self.name)} is a constant")
        return found[0], found[1], host

    @property
    def typed(self) -> TypedValue:
        """The value with its type."""
        type, address, host = self._place()
        return host.load(type, address)

    @property
    def value(self) -> Any:
        """The value as a Python value."""
        return self.typed.python

    @value.setter
    def value(self, new: Any) -> None:
        type, address, host = self._place(writing=True)
        host.store(address, from_python(type, new, host).data)

    @property
    def address(self) -> int:
        """Where it is, in the executor."""
        return self._place()[1]

    def __index__(self) -> int:
        return self.address

    def __repr__(self) -> str:
        return f"<{written(self.name)} {self.typed.text()}>"


def handle(session: Session, name: str) -> FunctionHandle | VariableHandle:
    """What a name stands for in a session.  Raises KeyError."""
    symbol = session.program.symbol(name)
    if symbol is None or symbol.info is None or symbol.state == SymbolState.MISSING:
        raise KeyError(f"{written(name)} is not defined in this session")
    if isinstance(symbol.info, Variable):
        return VariableHandle(session, name)
    return FunctionHandle(session, name)
