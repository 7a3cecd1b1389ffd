"""The session's names as its users see them.  Start from `SymbolTable`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jitkernel.linker import Linker, SymbolState
from jitkernel.linker import Symbol as LinkedSymbol
from jitkernel.printable import written
from jitkernel.session.signatures import Signature, Variable

__all__ = ["Symbol", "SymbolTable"]


class Symbol:
    """One name of the session, as it is at the moment it is asked."""

    __slots__ = ("_linked",)

    def __init__(self, linked: LinkedSymbol):
        self._linked = linked

    @property
    def name(self) -> str:
        """The name, without @."""
        return self._linked.name

    @property
    def kind(self) -> str:
        """`function` or `variable`."""
        return "function" if self._linked.is_function else "variable"

    @property
    def type(self) -> str:
        """Its type as IR text; empty where nobody said."""
        info = self._linked.info
        return str(info) if isinstance(info, Signature) else info.shown if info else ""

    @property
    def constant(self) -> bool:
        """Whether it is a constant."""
        info = self._linked.info
        return isinstance(info, Variable) and info.constant

    @property
    def state(self) -> str:
        """`defined`, `far` (a library's), `fixed` (the runtime's), `missing` or `null`."""
        return self._linked.state.name.lower()

    @property
    def defined(self) -> bool:
        """Whether a cell of the session defines it."""
        return self._linked.state == SymbolState.DEFINED

    @property
    def address(self) -> int:
        """Where its definition is, in the executor; 0 where there is none."""
        return self._linked.address

    @property
    def entry(self) -> int:
        """Its canonical entry, 0 while no address of it was taken."""
        return self._linked.stub

    @property
    def size(self) -> int:
        """Bytes of its definition; 0 where not known."""
        return self._linked.size

    @property
    def cell(self) -> int:
        """The number of the cell that defines it, 0 for others."""
        image = self._linked.image
        return image.cell if image is not None else 0

    @property
    def users(self) -> tuple[int, ...]:
        """Numbers of the other cells that refer to it."""
        own = self.cell
        return tuple(sorted({i.cell for i in self._linked.users or () if i.cell and i.cell != own}))

    def __repr__(self) -> str:
        return f"<Symbol {written(self.name)} {self.type} {self.state}>"


class SymbolTable(Mapping[str, Symbol]):
    """Every name that the session knows: its own, and those of libraries that cells use."""

    def __init__(self, linker: Linker):
        self._linker = linker

    def __getitem__(self, name: str) -> Symbol:
        symbol = self._linker.symbols[name.removeprefix("@")]
        if not _known(symbol):
            raise KeyError(name)
        return Symbol(symbol)

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, symbol in self._linker.symbols.items() if _known(symbol)])

    def __len__(self) -> int:
        return sum(map(_known, self._linker.symbols.values()))


def _known(symbol: LinkedSymbol) -> bool:
    """Not one whose entry is only kept so that an undo finds it where it was."""
    return symbol.state != SymbolState.MISSING or bool(symbol.users)
